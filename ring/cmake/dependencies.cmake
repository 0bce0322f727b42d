# What is found outside, and what is missing without it. The engine itself needs Asio, Highway and xxHash.

find_package(Threads REQUIRED)
find_path(ANELLO_ASIO_INCLUDE asio.hpp DOC "Asio's headers (Debian: libasio-dev)")
if(NOT ANELLO_ASIO_INCLUDE)
  message(FATAL_ERROR "Asio's headers were not found. Install them (Debian: apt-get install libasio-dev) or set ANELLO_ASIO_INCLUDE.")
endif()
add_library(anello_asio INTERFACE)
target_include_directories(anello_asio SYSTEM INTERFACE ${ANELLO_ASIO_INCLUDE})
# Asio 1.22 finds std::aligned_alloc only where a standard header came before it: files would allocate and free one
# block differently. Said here, they agree.
target_compile_definitions(anello_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_HAS_STD_ALIGNED_ALLOC=1)
# g++ 12 takes the frame of a coroutine that it has inlined for memory of two allocators.
target_compile_options(anello_asio INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_definitions(anello_asio INTERFACE ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
endif()
if(ANELLO_SANITIZE MATCHES thread)
  # The thread sanitizer knows no fences. Asio's queues are ordered by their mutexes without them.
  target_compile_definitions(anello_asio INTERFACE ASIO_DISABLE_FENCED_BLOCK)
endif()
target_link_libraries(anello_asio INTERFACE Threads::Threads)

find_package(hwy QUIET)
if(NOT hwy_FOUND)
  message(FATAL_ERROR "Highway was not found. Install it (Debian: apt-get install libhwy-dev) or add it to CMAKE_PREFIX_PATH.")
endif()

find_path(ANELLO_XXHASH_INCLUDE xxhash.h DOC "xxHash's header (Debian: libxxhash-dev)")
if(NOT ANELLO_XXHASH_INCLUDE)
  message(FATAL_ERROR "xxHash's header was not found. Install it (Debian: apt-get install libxxhash-dev) or set ANELLO_XXHASH_INCLUDE.")
endif()

include(FeatureSummary)  # for add_feature_info: what is built, and with what; or what is missing
find_package(OpenSSL QUIET COMPONENTS Crypto)
if(OpenSSL_FOUND)
  add_feature_info(authentication ON "with OpenSSL ${OPENSSL_VERSION}")
else()
  add_feature_info(authentication OFF "OpenSSL was not found (Debian: libssl-dev), a job with a secret will be refused")
endif()

if(ANELLO_BUILD_PROGRAMS)
  find_package(CLI11 QUIET)
  find_package(nlohmann_json QUIET)
  find_package(ZLIB QUIET)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(ANELLO_BLAS QUIET IMPORTED_TARGET openblas)
  endif()
  find_package(benchmark QUIET)
endif()
if(ANELLO_BUILD_TESTS)
  find_package(GTest QUIET)
  find_package(nlohmann_json QUIET)
  if(NOT GTest_FOUND OR NOT nlohmann_json_FOUND)
    add_feature_info(tests OFF "GoogleTest or nlohmann-json was not found (Debian: libgtest-dev libgmock-dev nlohmann-json3-dev)")
  endif()
endif()
