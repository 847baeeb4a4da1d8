# Tests of worlds with several processes, by the launcher of each installed MPI; and with threads, under the thread
# sanitizer. Not in builds with other sanitizers, which would report each MPI's own leaks.
if(CLIQUE_SANITIZE)
  return()
endif()

add_executable(world_ranks ${PROJECT_SOURCE_DIR}/tests/world/ranks.c)
clq_compile_options(world_ranks)
clq_link_layer(world_ranks world)
set_target_properties(world_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
get_property(engines GLOBAL PROPERTY CLQ_ENGINES)
foreach(engine openmpi mpich)
  if(engine IN_LIST engines)
    add_test(NAME world/${engine} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/world/check_ranks.py
      ${CMAKE_BINARY_DIR}/tests ${engine})
    add_test(NAME world/train_${engine} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/world/check_train.py
      ${CMAKE_BINARY_DIR}/bin ${engine})
    add_test(NAME world/bench_${engine} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/world/check_bench.py
      ${CMAKE_BINARY_DIR}/bin ${engine})
    add_test(NAME world/launch_${engine} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/world/check_launch.py
      ${CMAKE_BINARY_DIR}/bin ${engine})
    add_test(NAME world/traces_${engine} COMMAND ${PROJECT_SOURCE_DIR}/tests/soak/ranks ${CMAKE_BINARY_DIR} ${engine} --short)
    add_test(NAME world/why_${engine} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/world/check_why.py
      ${CMAKE_BINARY_DIR}/bin ${engine})
    set_tests_properties(world/${engine} world/train_${engine} world/bench_${engine} world/launch_${engine} world/traces_${engine}
      world/why_${engine} PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
  else()
    clq_leave_out("world/${engine}, and its train, bench, launch, traces and why"
      "no development package of this MPI")
  endif()
endforeach()

file(GLOB thread_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c ${PROJECT_SOURCE_DIR}/src/world/*.c
  ${PROJECT_SOURCE_DIR}/tests/support/world_*.c)
# Older compilers' thread sanitizer finds no room if 32 bits of addresses are random, as in some kernels.
execute_process(COMMAND setarch -R true RESULT_VARIABLE no_setarch OUTPUT_QUIET ERROR_QUIET)
set(fixed_addresses)
if(no_setarch EQUAL 0)
  set(fixed_addresses setarch -R)
endif()
set(CLIQUE_SANITIZE thread)
add_library(clq_world_thread OBJECT ${thread_sources})
clq_compile_options(clq_world_thread)
target_include_directories(clq_world_thread PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(clq_world_thread PUBLIC Threads::Threads PkgConfig::XXHASH PkgConfig::CMOCKA ${CMAKE_DL_LIBS} m)
foreach(thing world failure)
  add_executable(world_thread_${thing} ${PROJECT_SOURCE_DIR}/tests/world/test_${thing}.c)
  clq_compile_options(world_thread_${thing})
  target_link_libraries(world_thread_${thing} PRIVATE clq_world_thread)
  set_target_properties(world_thread_${thing} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME world/${thing}_threads COMMAND ${fixed_addresses} $<TARGET_FILE:world_thread_${thing}>)
  set_tests_properties(world/${thing}_threads PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
endforeach()
set(CLIQUE_SANITIZE "")
