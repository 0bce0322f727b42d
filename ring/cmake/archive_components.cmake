# cpack reads this file for each generator. Only the tarball has the libraries of other projects. Only the Debian
# packages have Python packages, as a package of their own, because only Debian's system has a place for them.
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
