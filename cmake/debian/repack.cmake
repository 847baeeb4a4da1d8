# Removes the scripts that call ldconfig from packages. cpack adds them to each package with a library. The trigger does
# the same, once for all packages that are installed together.
find_program(CLQ_DPKG_DEB dpkg-deb REQUIRED)
foreach(file IN LISTS CPACK_PACKAGE_FILES)
  set(tree ${file}.tree)
  execute_process(COMMAND ${CLQ_DPKG_DEB} --raw-extract ${file} ${tree} COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${tree}/DEBIAN/postinst)
    file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
    execute_process(COMMAND ${CLQ_DPKG_DEB} --root-owner-group -Zxz --build ${tree} ${file} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  endif()
  file(REMOVE_RECURSE ${tree})
endforeach()
