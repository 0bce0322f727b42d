# anello_library(NAME SOURCES ... [LINKS ...] [PRIVATE ...]): one target for each room. Who links NAME links the room's
# objects (the target NAME_objects compiles them) and those of the rooms in LINKS; the link graph is the picture of the
# house. LINKS also gives the room's users its include folders and definitions, PRIVATE does not.

add_library(anello_options INTERFACE)
target_compile_features(anello_options INTERFACE cxx_std_20)
target_compile_options(anello_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
# g++ otherwise spends a tenth of its time collecting garbage, from the first 128 MB on.
target_compile_options(anello_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=400000>)
target_include_directories(anello_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/ring/include)
if(ANELLO_SANITIZE)
  # The vptr check opens a pipe to see whether memory can be read, and fails in tests that use up all descriptors.
  set(_sanitize -fsanitize=${ANELLO_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all
    # The code that Clang 14 puts before each function for this check does not work with coroutines.
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_compile_options(anello_options INTERFACE ${_sanitize})
  target_link_options(anello_options INTERFACE ${_sanitize})
endif()

# Where a room is one translation unit, its headers are read once and its templates are compiled once.
option(ANELLO_UNITY "compile each room as one translation unit, which takes a third of the time" ON)
set(CMAKE_UNITY_BUILD ${ANELLO_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
if(ANELLO_UNITY)
  # g++ takes the sources that the unit includes for headers, whose types should not be local.
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
  # Objects reach a program through an interface only: an object library that is linked itself does not pass them on.
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE anello_options ${ROOM_LINKS} ${ROOM_PRIVATE} $<TARGET_OBJECTS:${name}_objects>)
  add_dependencies(${name} ${name}_objects)  # make, unlike Ninja, does not find that out from the objects
endfunction()

# anello_inline_more(TARGET): for code that every operation runs. g++ inlines a function that other files might call only
# if it is small; here also one of middle size, and however large its caller becomes. That is 7 % of an allreduce of 4
# bytes through memory.
function(anello_inline_more target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:--param=max-inline-insns-auto=200;--param=large-function-growth=1000>")
endfunction()

# anello_compile_quickly(TARGET [EXCEPT SOURCE...]): for code that runs rarely, such as the reading of options or the start
# of a world: less optimisation, and two thirds of the time to compile. Under the sanitizers it is half of the time, and
# this code is most of what there is to compile.
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
