# The library as it is shipped: one library `anello` made of all rooms, static or (BUILD_SHARED_LIBS) shared; its
# installation; and the files that find_package and pkg-config read. find_package(anello) gives anello::anello, and
# anello::testing for run_world.
include(CMakePackageConfigHelpers)

set(rooms base plan algorithms link trace run shm failure net control services group agenda gradients world elastic
  testing training gpu rendezvous)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:anello_\\1_objects>" OUTPUT_VARIABLE anello_objects)

# anello_make_library(NAME MAP [TYPE]): MAP lists the names that a shared library shows. Before version 1.0, each minor
# version has its own ABI, and therefore its own SONAME.
function(anello_make_library name map)
  add_library(${name} ${ARGN} ${anello_objects})
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME anello
    LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINK_DEPENDS ${map})
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/ring/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} hwy::hwy)
  if(OpenSSL_FOUND)
    target_link_libraries(${name} PRIVATE OpenSSL::Crypto)
  endif()
  if(ANELLO_STATIC_RUNTIME)
    target_link_options(${name} PRIVATE $<$<STREQUAL:$<TARGET_PROPERTY:${name},TYPE>,SHARED_LIBRARY>:-static-libstdc++ -static-libgcc>)
  endif()
  if(ANELLO_SANITIZE)
    target_link_options(${name} PUBLIC -fsanitize=${ANELLO_SANITIZE})
  else()
    # Templates of the standard library are compiled into each library that uses them; they are not part of its
    # interface.
    target_link_options(${name} PRIVATE
      $<$<STREQUAL:$<TARGET_PROPERTY:${name},TYPE>,SHARED_LIBRARY>:-Wl,--version-script=${map}>)
  endif()
endfunction()
anello_make_library(libanello ${PROJECT_SOURCE_DIR}/ring/cmake/anello.map)
add_library(anello::anello ALIAS libanello)
set_target_properties(libanello PROPERTIES EXPORT_NAME anello)

# run_world needs the engine's hidden parts, so it is in the library itself. This target marks the programs that use it.
add_library(libanello_testing INTERFACE)
add_library(anello::testing ALIAS libanello_testing)
set_target_properties(libanello_testing PROPERTIES EXPORT_NAME testing)
target_link_libraries(libanello_testing INTERFACE libanello)

install(TARGETS libanello libanello_testing EXPORT anello
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ring/include/anello DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT anello NAMESPACE anello:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello FILE anelloTargets.cmake)
# The package is in a folder where find_package() does not look, because the build folder is not an installed tree.
set(package ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(ring/cmake/anelloConfig.cmake.in ${package}/anelloConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)
write_basic_package_version_file(${package}/anelloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${package}/anelloConfig.cmake ${package}/anelloConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)

# pkg-config computes the prefix from the place of the file, so an installed tree may be moved, unless its folders are
# absolute paths. A program that links the archive also links the libraries that the archive uses. A program that links
# the shared library does not link them, and pkg-config would look for them even if only Requires.private named them.
set(ANELLO_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(ANELLO_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
set(ANELLO_PC_PREFIX "\${pcfiledir}/${prefix_from_pc}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(ANELLO_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(ANELLO_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(ANELLO_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(ANELLO_PC_REQUIRES "")
set(ANELLO_PC_LIBS "")
get_target_property(anello_type libanello TYPE)
if(anello_type STREQUAL "STATIC_LIBRARY")
  if(hwy_FOUND)
    set(ANELLO_PC_REQUIRES "libhwy")
  else()
    set(ANELLO_PC_LIBS "-lhwy ")
  endif()
  if(OpenSSL_FOUND)
    string(APPEND ANELLO_PC_REQUIRES " libcrypto")
  endif()
  string(APPEND ANELLO_PC_LIBS "-pthread -lstdc++ -lm")
  foreach(library IN LISTS CMAKE_DL_LIBS)
    string(APPEND ANELLO_PC_LIBS " -l${library}")
  endforeach()
endif()
configure_file(ring/cmake/anello.pc.in anello.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/anello.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Installs a template for clusters with environment modules: `module use PREFIX/share/modulefiles; module load anello`.
install(FILES ring/cmake/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/anello RENAME ${PROJECT_VERSION})
