# The oldest CUDA and NCCL that the plugins are built with, and what is said where they are older.
set(ANELLO_OLDEST_CUDA 12.0)
set(ANELLO_OLDEST_NCCL 2.18)

# anello_against_cuda(RESULT VERSION): why a toolkit of this version cannot be used; empty if it can.
function(anello_against_cuda result version)
  set(${result} "" PARENT_SCOPE)
  if(version VERSION_LESS ANELLO_OLDEST_CUDA)
    set(${result} "CUDA ${version} is too old, ${ANELLO_OLDEST_CUDA} or newer is needed (set CUDAToolkit_ROOT to where it is)" PARENT_SCOPE)
  endif()
endfunction()

# anello_against_nccl(RESULT FOLDER): why the nccl.h in this folder, which may be NOTFOUND, cannot be used; empty if it
# can.
function(anello_against_nccl result folder)
  set(${result} "" PARENT_SCOPE)
  if(NOT folder)
    set(${result} "nccl.h was not found (Debian: libnccl-dev, non-free)" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${folder}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  string(REGEX REPLACE "^[^0-9]*([0-9]+)[^0-9]+([0-9]+).*$" "\\1.\\2" version "${lines}")
  if(version VERSION_LESS ANELLO_OLDEST_NCCL)
    set(${result} "NCCL ${version} in ${folder} is too old, ${ANELLO_OLDEST_NCCL} or newer is needed" PARENT_SCOPE)
  endif()
endfunction()
