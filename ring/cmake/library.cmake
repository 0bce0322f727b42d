# anello_library(NAME SOURCES ... [LINKS ...] [PRIVATE ...]): makes one target for each room. A target that links NAME
# links the room's objects (the target NAME_objects compiles them) and the objects of the rooms in LINKS; so the link
# graph is ring/README's picture of the rooms. LINKS also gives the room's users its include folders and definitions;
# PRIVATE does not.

add_library(anello_options INTERFACE)
target_compile_features(anello_options INTERFACE cxx_std_20)
target_compile_options(anello_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
# Without this option, g++ spends a tenth of its time collecting garbage, from the first 128 MB on.
target_compile_options(anello_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=400000>)
target_include_directories(anello_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/ring/include)
# The sanitizers also check programs in C, which do not take the other options.
add_library(anello_sanitizers INTERFACE)
target_link_libraries(anello_options INTERFACE anello_sanitizers)
if(ANELLO_SANITIZE)
  # The vptr check opens a pipe to find out whether memory can be read, so it fails in tests that use up all
  # descriptors.
  set(_sanitize -fsanitize=${ANELLO_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(anello_sanitizers INTERFACE ${_sanitize}
    # The code that Clang 14 puts before each function for the check `function` does not work with coroutines.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>)
  target_link_options(anello_sanitizers INTERFACE ${_sanitize})
endif()

# If a room is one translation unit, its headers are read once and its templates are compiled once.
option(ANELLO_UNITY "compile each room as one translation unit, which takes a third of the time" ON)
set(CMAKE_UNITY_BUILD ${ANELLO_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
if(ANELLO_UNITY)
  # g++ mistakes the sources that a unit includes for headers, whose types should not be local.
  target_compile_options(anello_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

function(anello_library name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS;PRIVATE" ${ARGN})
  add_library(${name}_objects OBJECT ${ROOM_SOURCES})
  set_target_properties(${name}_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name}_objects PUBLIC anello_options ${ROOM_LINKS} PRIVATE ${ROOM_PRIVATE})
  list(TRANSFORM ROOM_PRIVATE REPLACE "(.+)" "$<LINK_ONLY:\\1>")
  # Objects reach a program only through an interface library: an object library that is linked directly does not pass
  # them on.
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE anello_options ${ROOM_LINKS} ${ROOM_PRIVATE} $<TARGET_OBJECTS:${name}_objects>)
  # Needed by make, which, unlike Ninja, does not find this dependency from the objects.
  add_dependencies(${name} ${name}_objects)
endfunction()

# anello_inline_more(TARGET): for code that every operation runs. g++ inlines a function that other files might call
# only if the function is small. With these options, g++ also inlines functions of middle size, into callers of any
# size. This saves 7 % of an allreduce of 4 bytes through memory.
function(anello_inline_more target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:--param=max-inline-insns-auto=200;--param=large-function-growth=1000>")
endfunction()

# anello_compile_quickly(TARGET [EXCEPT SOURCE...]): for code that runs rarely, such as the reading of options or the
# start of a world. It gets less optimisation, and takes two thirds of the time to compile. With the sanitizers it takes
# half of the time, and most of the code is of this kind.
function(anello_compile_quickly target)
  cmake_parse_arguments(QUICKLY "" "" "EXCEPT" ${ARGN})
  set(options $<$<CONFIG:Release>:-O1>)
  set(options_except $<$<CONFIG:Release>:-O3>)
  if(ANELLO_SANITIZE)
    set(options -O0)
    set(options_except -O1)
  endif()
  target_compile_options(${target} PRIVATE ${options})
  set_source_files_properties(${QUICKLY_EXCEPT} PROPERTIES COMPILE_OPTIONS ${options_except})
endfunction()
