# One target a room: anello_room(NAME SOURCES ... LINKS ...) makes the static library anello_NAME, exported as anello::NAME.
# The link graph of these targets is the picture of the house.

add_library(anello_options INTERFACE)
target_compile_features(anello_options INTERFACE cxx_std_20)
target_compile_options(anello_options INTERFACE $<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wno-missing-field-initializers>)
target_include_directories(anello_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/ring/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(ANELLO_SANITIZE)
  # The vptr check opens a pipe to see whether memory can be read; tests that use up all descriptors make it cry wolf.
  set(_sanitize -fsanitize=${ANELLO_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all
    # What Clang 14 puts before each function for this check does not go with coroutines.
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_compile_options(anello_options INTERFACE ${_sanitize})
  target_link_options(anello_options INTERFACE ${_sanitize})
endif()
set_property(GLOBAL PROPERTY ANELLO_ROOMS anello_options)

function(anello_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  add_library(anello_${name} STATIC ${ROOM_SOURCES})
  add_library(anello::${name} ALIAS anello_${name})
  set_target_properties(anello_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(anello_${name} PUBLIC anello_options ${ROOM_LINKS})
  set_property(GLOBAL APPEND PROPERTY ANELLO_ROOMS anello_${name})
endfunction()
