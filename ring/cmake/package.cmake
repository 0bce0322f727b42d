# The library as it is shipped: one `anello` made of all rooms, static or (BUILD_SHARED_LIBS) shared; how it is installed;
# and what find_package and pkg-config read. find_package(anello) gives anello::anello, and anello::testing for run_world.
include(CMakePackageConfigHelpers)

set(rooms base plan algorithms link trace run shm failure net group gradients world testing gpu rendezvous)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:anello_\\1_objects>" OUTPUT_VARIABLE objects)
add_library(libanello ${objects})
add_library(anello::anello ALIAS libanello)
set_target_properties(libanello PROPERTIES
  OUTPUT_NAME anello
  EXPORT_NAME anello
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(libanello INTERFACE cxx_std_20)
target_include_directories(libanello INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/ring/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libanello PRIVATE Threads::Threads ${CMAKE_DL_LIBS} hwy::hwy)
if(OpenSSL_FOUND)
  target_link_libraries(libanello PRIVATE OpenSSL::Crypto)
endif()
if(ANELLO_SANITIZE)
  target_link_options(libanello PUBLIC -fsanitize=${ANELLO_SANITIZE})
endif()

# The world of threads needs the engine's hidden parts: it is in the library, and this target says who uses it.
add_library(libanello_testing INTERFACE)
add_library(anello::testing ALIAS libanello_testing)
set_target_properties(libanello_testing PROPERTIES EXPORT_NAME testing)
target_link_libraries(libanello_testing INTERFACE libanello)

install(TARGETS libanello libanello_testing EXPORT anello
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ring/include/anello DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT anello NAMESPACE anello:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello FILE anelloTargets.cmake)
configure_package_config_file(ring/cmake/anelloConfig.cmake.in anelloConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)
write_basic_package_version_file(anelloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/anelloConfig.cmake ${PROJECT_BINARY_DIR}/anelloConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)
