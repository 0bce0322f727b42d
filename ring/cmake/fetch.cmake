# Fetches libraries that are not installed, at configure time with -DANELLO_FETCH=ON: the versions of Debian 12, each
# pinned by its commit. Without a network, FETCHCONTENT_SOURCE_DIR_<NAME> names a folder with the sources (asio,
# highway, xxhash, cli11, json). Fetched libraries are compiled into Anello, except for Highway's library, which is
# installed beside Anello.
include(FetchContent)

function(anello_fetch name repository commit)
  FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit} GIT_PROGRESS ON)
  message(STATUS "anello: ${name} is not installed; using ${repository} at ${commit}")
endfunction()

# anello_fetch_headers(VARIABLE NAME REPOSITORY COMMIT FOLDER FILE): sets VARIABLE to the folder FOLDER of the sources,
# which has FILE.
function(anello_fetch_headers variable name repository commit folder file)
  anello_fetch(${name} ${repository} ${commit})
  FetchContent_GetProperties(${name})
  if(NOT ${name}_POPULATED)
    FetchContent_Populate(${name})
  endif()
  if(NOT EXISTS ${${name}_SOURCE_DIR}/${folder}/${file})
    message(FATAL_ERROR "${name}: ${${name}_SOURCE_DIR} has no ${folder}/${file}; check FETCHCONTENT_SOURCE_DIR_<NAME>")
  endif()
  set(${variable} ${${name}_SOURCE_DIR}/${folder} PARENT_SCOPE)
endfunction()

macro(anello_fetch_asio)
  anello_fetch_headers(ANELLO_ASIO_INCLUDE asio https://github.com/chriskohlhoff/asio.git
    bba12d10501418fd3789ce01c9f86a77d37df7ed asio/include asio.hpp)
endmacro()

macro(anello_fetch_xxhash)
  anello_fetch_headers(ANELLO_XXHASH_INCLUDE xxhash https://github.com/Cyan4973/xxHash.git
    35b0373c697b5f160d3db26b1cbb45a0d5ba788c . xxhash.h)
endmacro()

macro(anello_fetch_cli11)
  anello_fetch_headers(anello_cli11_include cli11 https://github.com/CLIUtils/CLI11.git
    70f8072f9dd2292fd0b9f9e5f58e279f60483ed3 include CLI/CLI.hpp)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  target_include_directories(CLI11::CLI11 INTERFACE ${anello_cli11_include})
  set(CLI11_FOUND TRUE)
  set(CLI11_VERSION 2.1.2)
endmacro()

macro(anello_fetch_json)
  anello_fetch_headers(anello_json_include json https://github.com/nlohmann/json.git
    bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d include nlohmann/json.hpp)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${anello_json_include})
  set(nlohmann_json_FOUND TRUE)
endmacro()

# Highway needs a build of its own, because a part of the library is compiled.
function(anello_fetch_highway)
  anello_fetch(highway https://github.com/google/highway.git 58746ca5b9f9444a2a3549704602ecc6239f8f41)
  foreach(option IN ITEMS CONTRIB EXAMPLES INSTALL TESTS)
    set(HWY_ENABLE_${option} OFF CACHE BOOL "" FORCE)
  endforeach()
  set(HWY_FORCE_STATIC_LIBS ON CACHE BOOL "" FORCE)
  mark_as_advanced(HWY_ENABLE_CONTRIB HWY_ENABLE_EXAMPLES HWY_ENABLE_INSTALL HWY_ENABLE_TESTS)
  set(CMAKE_UNITY_BUILD OFF)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  FetchContent_MakeAvailable(highway)
  install(TARGETS hwy EXPORT anello ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  add_library(hwy::hwy ALIAS hwy)
endfunction()
