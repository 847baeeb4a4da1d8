# The programs: clique, and clique-bench beside it.
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
add_executable(clique ${cli_sources})
clq_compile_options(clique)
clq_link_layer(clique interop)
install(TARGETS clique RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
if(bench_sources)
  add_executable(clique-bench ${bench_sources} ${PROJECT_SOURCE_DIR}/src/cli/exit.c ${PROJECT_SOURCE_DIR}/src/cli/arguments.c)
  clq_compile_options(clique-bench)
  clq_link_layer(clique-bench interop)
  install(TARGETS clique-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
