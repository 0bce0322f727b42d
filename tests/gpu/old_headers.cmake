# Tests CMake's messages about a CUDA or an NCCL that is too old. Where there are headers (CUDA_INCLUDE, NCCL_INCLUDE),
# also tests that the plugin compiles with the oldest versions: with today's headers, without the calls that came later.
cmake_minimum_required(VERSION 3.22)
include(${ROOT}/gpu/versions.cmake)

function(expect what found regex)
  if(NOT found MATCHES "${regex}")
    message(SEND_ERROR "${what}: '${found}' is not '${regex}'")
  endif()
endfunction()

foreach(version 12.0.76 12.5.40 13.0.88)
  anello_against_cuda(why ${version})
  expect("CUDA ${version}" "${why}" "^$")
endforeach()
anello_against_cuda(why 11.8.89)
expect("CUDA 11.8" "${why}" "CUDA 11.8.89 is too old, 12.0 or newer is needed .set CUDAToolkit_ROOT")

file(REMOVE_RECURSE ${SCRATCH})
function(expect_nccl minor regex)
  file(WRITE ${SCRATCH}/nccl/nccl.h "#define NCCL_H_\n#define NCCL_MAJOR 2\n#define NCCL_MINOR ${minor}\n#define NCCL_PATCH 3\n")
  anello_against_nccl(why ${SCRATCH}/nccl)
  expect("NCCL 2.${minor}" "${why}" "${regex}")
endfunction()
expect_nccl(18 "^$")
expect_nccl(28 "^$")
expect_nccl(17 "NCCL 2.17 in .*old_headers/nccl is too old, 2.18 or newer is needed")
anello_against_nccl(why NOTFOUND)
expect("no NCCL" "${why}" "nccl.h was not found")

# The compiler's exit status for a source of the plugin, with the headers in the scratch folder first.
function(compiles source result)
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I ${SCRATCH}/include -I ${ROOT} -I ${ROOT}/ring/include -isystem ${CUDA_INCLUDE}
    -isystem ${NCCL_INCLUDE} -DANELLO_HAS_NCCL=1 -DANELLO_AGAINST_NCCL="" ${ROOT}/gpu/plugin/${source}
    RESULT_VARIABLE status ERROR_VARIABLE errors)
  set(${result} "${status}" PARENT_SCOPE)
  if(NOT status EQUAL 0)
    message(STATUS "${errors}")
  endif()
endfunction()

if(NOT CUDA_INCLUDE OR NOT NCCL_INCLUDE)
  return()
endif()
list(GET CUDA_INCLUDE 0 CUDA_INCLUDE)
# Hides declarations and macros of these names.
function(hide header folder)
  file(READ ${folder}/${header} text)
  foreach(name IN LISTS ARGN)
    string(REPLACE "${name}" "hidden_${name}" text "${text}")
  endforeach()
  file(WRITE ${SCRATCH}/include/${header} "${text}")
endfunction()
hide(cuda_runtime_api.h ${CUDA_INCLUDE} cudaGetDriverEntryPointByVersion)
hide(nccl.h ${NCCL_INCLUDE} ncclMemAlloc ncclMemFree ncclCommRegister ncclCommDeregister ncclCommInitRankScalable
  ncclCommShrink ncclCommWindowRegister ncclAlltoAll ncclGather ncclScatter)
file(READ ${SCRATCH}/include/nccl.h nccl)
string(REGEX REPLACE "NCCL_VERSION_CODE [0-9]+" "NCCL_VERSION_CODE 21800" nccl "${nccl}")
file(WRITE ${SCRATCH}/include/nccl.h "${nccl}")
foreach(source table.cpp nccl.cpp)
  compiles(${source} status)
  expect("${source} with the oldest headers" "${status}" "^0$")
endforeach()
