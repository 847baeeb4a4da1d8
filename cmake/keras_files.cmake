# The program that reads and writes Keras's .keras and .weights.h5 files. The library starts it for each such file.
# Without HDF5 or libzip, the program is not built, and the library reports that.
pkg_search_module(HDF5 QUIET IMPORTED_TARGET hdf5-serial hdf5)
pkg_check_modules(LIBZIP QUIET IMPORTED_TARGET libzip)
if(HDF5_FOUND AND LIBZIP_FOUND)
  message(STATUS "Keras's files by HDF5 ${HDF5_VERSION} and libzip ${LIBZIP_VERSION}")
  file(GLOB keras_files_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/helpers/keras/*.c)
  add_executable(clique-keras-files ${keras_files_sources})
  clq_compile_options(clique-keras-files)
  clq_link_layer(clique-keras-files formats)
  target_include_directories(clique-keras-files PRIVATE ${PROJECT_SOURCE_DIR}/helpers)
  target_link_libraries(clique-keras-files PRIVATE PkgConfig::HDF5 PkgConfig::LIBZIP)
  # The folder in which the library looks for the program, which is not a command.
  set_target_properties(clique-keras-files PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/clique)
  install(TARGETS clique-keras-files RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/clique)
else()
  message(STATUS "No HDF5 or no libzip (pkg-config hdf5, libzip): Keras's .keras and .weights.h5 files are not read")
endif()
