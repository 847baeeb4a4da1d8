# Clique from Python (python/): each file python/tests/test_<thing>.py is the test python/<thing>. The tests use the
# system's Python if it has NumPy and pytest, else the Python that CMake found, if that has these. They run without
# sanitizers, since the interpreter is not built with any. They also run without the recorder of tests/run, which does
# not support an OpenCL that is loaded late.
option(CLIQUE_TEST_PYTHON "Test the Python package; OFF where there are no NumPy and pytest" ON)
set(no_python "")
foreach(package python3-numpy python3-pytest)
  clq_lacks(${package} lacking)
  if(lacking)
    set(no_python "${lacking}")
  endif()
endforeach()
if(no_python AND NOT CLIQUE_SANITIZE)
  clq_leave_out("python/..." "${no_python}")
elseif(CLIQUE_TEST_PYTHON AND NOT CLIQUE_SANITIZE)
  set(tests_python "")
  foreach(candidate /usr/bin/python3 ${Python3_EXECUTABLE})
    if(NOT tests_python)
      execute_process(COMMAND ${candidate} -c "import numpy, pytest" RESULT_VARIABLE lacks OUTPUT_QUIET ERROR_QUIET)
      if(lacks EQUAL 0)
        set(tests_python ${candidate})
      endif()
    endif()
  endforeach()
  if(NOT tests_python)
    message(FATAL_ERROR "No python3 with NumPy and pytest: install python3-numpy and python3-pytest, or set CLIQUE_TEST_PYTHON=OFF")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/tests/test_*.py)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" thing ${name})
    # Python loads OpenCL's loader late. What tests/run preloads finds the loader's functions only in libraries that are
    # loaded before.
    add_test(NAME python/${thing} COMMAND sh -c "LD_PRELOAD=\${LD_PRELOAD:+$LD_PRELOAD:libOpenCL.so.1} exec \"$0\" \"$@\""
      ${tests_python} -B -m pytest -q -p no:cacheprovider ${source})
    set_tests_properties(python/${thing} PROPERTIES TIMEOUT 1200
      ENVIRONMENT "${CLQ_TEST_ENVIRONMENT};CLIQUE_LIBRARY=$<TARGET_FILE:clique_shared>;CC=${CMAKE_C_COMPILER}")
  endforeach()
endif()
