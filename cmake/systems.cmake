# The packages of systems/packages.tsv that this system lacks, as ./quickstart found them, and the tests that are
# skipped because of them. The names of these tests go into a file that tests/support/run_ctest prints before ctest's
# summary. A configuration without ./quickstart skips nothing.
set(CLIQUE_LACKING ${PROJECT_SOURCE_DIR}/build/system/lacking CACHE FILEPATH "Packages that this system lacks, with the reasons")
set(CLQ_LEFT_OUT ${CMAKE_BINARY_DIR}/tests/left-out)
file(WRITE ${CLQ_LEFT_OUT} "")

# Reads a file of lines. If the file changes, CMake configures again.
function(clq_read_lines file out)
  set(lines "")
  if(EXISTS ${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines)
  endif()
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

# The reason why the system lacks a package; "" if it does not.
function(clq_lacks package out)
  set(${out} "" PARENT_SCOPE)
  clq_read_lines(${CLIQUE_LACKING} lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^${package}(>=[^\t]*)?\t(.*)$")
      set(${out} "${CMAKE_MATCH_2}" PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

function(clq_leave_out tests reason)
  file(APPEND ${CLQ_LEFT_OUT} "${tests} : ${reason}\n")
endfunction()

# Adds to the skipped tests the kernel checks whose compilers install-gpu-compilers did not find. OUT is OFF if no check
# can run.
function(clq_gpu_compilers_here out)
  set(${out} ON PARENT_SCOPE)
  clq_read_lines(${CMAKE_BINARY_DIR}/compilers/not-here lines)
  set(nvidia_amd "")
  set(intel "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^:]*: *" "" reason "${line}")
    if(line MATCHES "^ocloc:")
      set(intel "${reason}")
    elseif(line MATCHES "^ptxas:")
      clq_leave_out("compilers/kernels for nvidia" "${reason}")
    else()
      list(APPEND nvidia_amd "${reason}")
    endif()
  endforeach()
  list(JOIN nvidia_amd ", " both)
  if(both)
    clq_leave_out("compilers/kernels for nvidia and amd" "${both}")
  endif()
  if(intel)
    clq_leave_out("compilers/kernels for intel" "${intel}")
  endif()
  if(both AND intel)
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

add_test(NAME install/packages COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/install/check_packages.py ${PROJECT_SOURCE_DIR})
set_tests_properties(install/packages PROPERTIES TIMEOUT 300)
