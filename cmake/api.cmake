# clq_api_pages: HTML pages of the C interface, which Doxygen makes from the headers' comments, without a warning. Not
# part of `all`.
find_program(CLIQUE_DOXYGEN doxygen DOC "Doxygen 1.9.4 or later, which makes pages of the headers (Debian: doxygen)")
mark_as_advanced(CLIQUE_DOXYGEN)
set(CLQ_API_PAGES ${CMAKE_BINARY_DIR}/api)
if(CLIQUE_DOXYGEN)
  configure_file(${PROJECT_SOURCE_DIR}/docs/api/Doxyfile.in ${CMAKE_BINARY_DIR}/generated/Doxyfile @ONLY)
  add_custom_target(clq_api_pages
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CLQ_API_PAGES}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CLQ_API_PAGES}
    COMMAND ${CLIQUE_DOXYGEN} ${CMAKE_BINARY_DIR}/generated/Doxyfile
    COMMAND ${PROJECT_SOURCE_DIR}/docs/api/check ${PROJECT_SOURCE_DIR}/include/clique ${CLQ_API_PAGES}/clique.tag VERBATIM)
  # Part of the packages if the pages were made.
  install(DIRECTORY ${CLQ_API_PAGES}/html DESTINATION ${CMAKE_INSTALL_DOCDIR}/api OPTIONAL)
endif()
