# Install and export: find_package(anello) gives anello::anello, and anello::testing for run_world.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY ANELLO_ROOMS)
install(TARGETS ${rooms} EXPORT anello ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ring/include/anello DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT anello NAMESPACE anello:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello FILE anelloTargets.cmake)
configure_package_config_file(ring/cmake/anelloConfig.cmake.in anelloConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)
write_basic_package_version_file(anelloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/anelloConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/anelloConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anello)
