# The programs: clique, and clique-bench.
include(cmake/page.cmake)
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
list(REMOVE_ITEM cli_sources ${PROJECT_SOURCE_DIR}/src/cli/main.c)
add_library(clq_cli OBJECT ${cli_sources})
clq_compile_options(clq_cli)
clq_link_layer(clq_cli interop)
clq_link_layer(clq_cli why)

# clq_page_library(NAME SOURCE): the files of a report's page. Several programs link this library. Only one target makes
# its source, because parallel makes would write it at the same time.
function(clq_page_library name source)
  add_library(${name} OBJECT ${source})
  clq_compile_options(${name})
  clq_link_layer(${name} base)
endfunction()
clq_page_library(clq_page ${CMAKE_BINARY_DIR}/generated/page_parts.c)

# clq_add_command(NAME MAIN [PAGE]): a program with the commands, and MAIN. PAGE: another library instead of clq_page.
function(clq_add_command name main)
  set(page clq_page ${ARGN})
  list(GET page -1 page)
  add_executable(${name} ${main})
  clq_compile_options(${name})
  target_link_libraries(${name} PRIVATE clq_cli ${page})
  clq_link_layer(${name} interop)
  clq_link_layer(${name} why)
endfunction()
clq_add_command(clique ${PROJECT_SOURCE_DIR}/src/cli/main.c)
install(TARGETS clique RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
if(bench_sources)
  set(shared_sources arguments.c cores.c help.c interrupt.c print.c program.c ranks.c restart.c unlisted.c)
  list(TRANSFORM shared_sources PREPEND ${PROJECT_SOURCE_DIR}/src/cli/)
  # The program contains the scripts that clique bench peers runs on other systems.
  file(GLOB peer_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/peers/*.c ${PROJECT_SOURCE_DIR}/bench/peers/*.py)
  clq_embed(${CMAKE_BINARY_DIR}/generated/peer_files.c peers.h clq_peer_file clq_peer_files ${peer_files})
  list(REMOVE_ITEM bench_sources ${PROJECT_SOURCE_DIR}/bench/main.c)
  add_library(clq_bench OBJECT ${bench_sources} ${shared_sources} ${CMAKE_BINARY_DIR}/generated/peer_files.c)
  target_include_directories(clq_bench PUBLIC ${PROJECT_SOURCE_DIR}/bench)
  clq_compile_options(clq_bench)
  clq_link_layer(clq_bench interop)
  add_executable(clique-bench ${PROJECT_SOURCE_DIR}/bench/main.c)
  target_link_libraries(clique-bench PRIVATE clq_bench)
  clq_compile_options(clique-bench)
  clq_link_layer(clique-bench interop)
  install(TARGETS clique-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The manual pages and the completions of shells. A program that is not installed makes them from the commands' own
# tables. CLQ_MANUAL: their folder; not set if there are none.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "Manual pages and completion are left out: they are made by a program that this machine cannot run")
  return()
endif()
file(GLOB manual_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/manual/*.c)
clq_add_command(clique-manual "${manual_sources}")
set_target_properties(clique-manual PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
set(CLQ_MANUAL ${CMAKE_BINARY_DIR}/generated/manual)
string(TIMESTAMP CLQ_MANUAL_DATE %Y-%m-%d UTC) # uses SOURCE_DATE_EPOCH, if that is set
# Writes into an empty folder: else a page of a removed command would be installed.
add_custom_command(OUTPUT ${CLQ_MANUAL}/written
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CLQ_MANUAL}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CLQ_MANUAL}
  COMMAND clique-manual ${CLQ_MANUAL} ${CLQ_MANUAL_DATE}
  COMMAND ${CMAKE_COMMAND} -E touch ${CLQ_MANUAL}/written
  DEPENDS clique-manual VERBATIM)
add_custom_target(clq_manual ALL DEPENDS ${CLQ_MANUAL}/written)
install(DIRECTORY ${CLQ_MANUAL}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(FILES ${CLQ_MANUAL}/clique.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME clique)
install(FILES ${CLQ_MANUAL}/_clique DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CLQ_MANUAL}/clique.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
