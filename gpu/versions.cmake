# The oldest CUDA and NCCL with which the plugins are built, and the messages about older versions.
set(ANELLO_OLDEST_CUDA 12.0)
set(ANELLO_OLDEST_NCCL 2.18)

# anello_against_cuda(RESULT VERSION): sets RESULT to the reason why a toolkit of this version cannot be used; empty if
# it can be used.
function(anello_against_cuda result version)
  set(${result} "" PARENT_SCOPE)
  if(version VERSION_LESS ANELLO_OLDEST_CUDA)
    set(${result} "CUDA ${version} is too old, ${ANELLO_OLDEST_CUDA} or newer is needed (set CUDAToolkit_ROOT to where it is)" PARENT_SCOPE)
  endif()
endfunction()

# anello_against_nccl(RESULT FOLDER): sets RESULT to the reason why the nccl.h in this folder cannot be used; empty if
# it can be used. FOLDER may be NOTFOUND.
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
