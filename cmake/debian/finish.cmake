# Adds the files that Debian requires in each package, before cpack packs it: changelogs and the copyright. Also
# compresses manual pages, and strips binaries.
find_program(CLQ_GZIP gzip REQUIRED)
find_program(CLQ_STRIP strip REQUIRED)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # uses SOURCE_DATE_EPOCH, if that is set
get_filename_component(here ${CMAKE_CURRENT_LIST_FILE} DIRECTORY)

function(strip extent)
  if(ARGN)
    execute_process(COMMAND ${CLQ_STRIP} ${extent} --remove-section=.comment --remove-section=.note --enable-deterministic-archives
      ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(tree ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  if(NOT IS_DIRECTORY ${tree})
    message(FATAL_ERROR "the package ${package} has no files: ${tree} is not there")
  endif()

  file(GLOB_RECURSE archives ${tree}/*.a)
  file(GLOB_RECURSE libraries ${tree}/*.so.${CPACK_PACKAGE_VERSION} ${tree}/lib/*/clique/*)
  file(GLOB programs ${tree}/bin/*)
  strip(--strip-debug ${archives})
  strip(--strip-unneeded ${libraries} ${programs})

  set(docs ${tree}/share/doc/${package})
  file(MAKE_DIRECTORY ${docs})
  configure_file(${here}/copyright ${docs}/copyright COPYONLY)
  configure_file(${here}/../../CHANGELOG.md ${docs}/changelog COPYONLY)
  file(WRITE ${docs}/changelog.Debian "clique (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Packages of release ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB pages ${tree}/share/man/man1/*.1)
  execute_process(COMMAND ${CLQ_GZIP} -9 -n -f ${docs}/changelog ${docs}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
