# Read by cpack for each generator: only the tarball has the libraries of others, and only Debian's system has a place for
# Python packages, which are one of their own.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_COMPONENTS_ALL Unspecified)
  if(CPACK_ANELLO_PYTHON)
    list(APPEND CPACK_COMPONENTS_ALL python)
  endif()
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
else()
  set(CPACK_COMPONENTS_ALL Unspecified bundle)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
