# libclique, shared and static, and what installing it gives: headers, pkg-config file, CMake package.
foreach(kind SHARED STATIC)
  string(TOLOWER clique_${kind} target)
  add_library(${target} ${kind} cmake/empty.c)
  clq_link_layer(${target} interop)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME clique VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endforeach()

install(TARGETS clique_shared clique_static
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/clique DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The tree may be installed or moved anywhere: paths in clique.pc are relative to the file.
file(RELATIVE_PATH CLIQUE_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/clique.pc.in ${CMAKE_BINARY_DIR}/generated/clique.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/clique.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clique-config.cmake.in ${CMAKE_BINARY_DIR}/generated/clique-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clique)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/clique-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/clique-config.cmake ${CMAKE_BINARY_DIR}/generated/clique-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clique)
