# Debian packages, by `cpack` in a tree of the preset `debian` (systems/debs runs all steps): the library, the files
# that programs need for compiling, the commands, and an engine for each MPI. Each package has the files that
# `cmake --install` installs for its component.
set(CLIQUE_MAINTAINER "Clique maintainers <maintainers@users.noreply.a-seed-42324e03.example>" CACHE STRING "Whom Debian packages name")

# debian12, ubuntu24.04: a package fits the system on which it was built.
set(system unknown)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release release REGEX "^(ID|VERSION_ID|VERSION_CODENAME)=")
  foreach(line IN LISTS release)
    string(REGEX MATCH "^([A-Z_]+)=\"?([^\"]*)" ignored "${line}")
    set(release_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
  if(NOT release_VERSION_ID)
    set(release_VERSION_ID ${release_VERSION_CODENAME})
  endif()
  set(system ${release_ID}${release_VERSION_ID})
endif()

get_target_property(abi clique_shared SOVERSION)
set(version ${PROJECT_VERSION}-1~${system})
set(driver "pocl-opencl-icd | opencl-icd")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME clique)
set(CPACK_PACKAGE_VENDOR Clique)
set(CPACK_PACKAGE_CONTACT ${CLIQUE_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${system})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/finish.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/repack.cmake)
set(CPACK_COMPONENTS_ALL "")

# clq_deb(COMPONENT PACKAGE SECTION SUMMARY TEXT [FIELD VALUE]…): a package of a component. FIELD: DEPENDS, RECOMMENDS, …
macro(clq_deb component package section summary text)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}")
  set(fields ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${value}")
  endwhile()
endmacro()

set(about "Clique trains neural networks on all the OpenCL devices of a machine at once:\nCPUs and GPUs of any vendor, mixed in one process.")
clq_deb(library libclique${abi} libs "neural networks on all OpenCL devices at once (library)"
  "${about}\n.\nThis package has the library, which programs in C and other languages use."
  RECOMMENDS "${driver}, clique")
# Does not use cpack's own shlibs, which would allow any version: the binary layout of some structs may change between
# minor releases (docs/contract.md).
math(EXPR next_minor "${PROJECT_VERSION_MINOR} + 1")
file(WRITE ${CMAKE_BINARY_DIR}/generated/debian/shlibs
  "libclique ${abi} libclique${abi} (>= ${PROJECT_VERSION}), libclique${abi} (<< ${PROJECT_VERSION_MAJOR}.${next_minor}~)\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/cmake/debian/triggers ${CMAKE_BINARY_DIR}/generated/debian/shlibs)
clq_deb(dev libclique-dev libdevel "neural networks on all OpenCL devices at once (development)"
  "${about}\n.\nThis package has headers, the static library, and files for pkg-config and\nCMake."
  DEPENDS "libclique${abi} (= ${version}), ocl-icd-opencl-dev, libclblast-dev, libjansson-dev, zlib1g-dev")
clq_deb(tools clique science "train neural networks on all OpenCL devices at once"
  "${about}\n.\nThis package has the commands clique and clique-bench, and what reads and\nwrites Keras's files, for the library, too."
  RECOMMENDS ${driver} SUGGESTS "clique-openmpi | clique-mpich, dataset-fashion-mnist")
set(launcher_of_openmpi openmpi-bin)
set(launcher_of_mpich mpich)
get_property(engines GLOBAL PROPERTY CLQ_ENGINES)
foreach(engine IN LISTS engines)
  get_property(mpi TARGET clique-${engine} PROPERTY CLQ_MPI)
  clq_deb(${engine} clique-${engine} science "neural networks on the OpenCL devices of several machines (${mpi})"
    "${about}\n.\nThis package connects the processes of a run on several machines by\n${mpi}."
    RECOMMENDS ${launcher_of_${engine}} ENHANCES "clique, libclique${abi}")
endforeach()
include(CPack)
