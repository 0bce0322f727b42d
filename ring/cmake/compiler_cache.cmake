# Compiles through ccache if it is installed, unless a launcher is given or ANELLO_CCACHE is OFF. The cache is in
# ccache's own folder, so it is still valid after the build folder is removed. Paths below the sources are relative in
# the cache, so it is also valid for a checkout elsewhere; debuggers then show the paths of the first checkout.
option(ANELLO_CCACHE "compile through ccache if it is installed" ON)
if(NOT ANELLO_CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(ANELLO_CCACHE_PROGRAM ccache DOC "keeps what was compiled")
if(ANELLO_CCACHE_PROGRAM)
  # Without this sloppiness, ccache stores no compilation that uses a precompiled header.
  set(ANELLO_CCACHE_SETTINGS CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros)
  set(CMAKE_CXX_COMPILER_LAUNCHER env ${ANELLO_CCACHE_SETTINGS} ${ANELLO_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
