# tests/<layer>/test_<thing>.c becomes the program test_<layer>_<thing> and the test <layer>/<thing>.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# Every test sees PoCL's single-thread devices (five of them, in their callers' threads), PoCL's own thread pool, and
# Intel's CPU runtime if it is installed. Tests see no other device of the machine.
set(CLIQUE_VENDORS ${CMAKE_BINARY_DIR}/vendors CACHE PATH "Folder of the ICD files that the tests use")
set(CLIQUE_TEST_CACHE ${CMAKE_BINARY_DIR}/cache CACHE PATH "Where tests keep built kernels; builds may share it")
# Those ICD files, with a PoCL that compiles faster. They are made here, so that a single test can be built, and again by
# each full build, since kernels may call another function by then.
set(CLQ_TEST_DRIVERS ${CMAKE_BINARY_DIR}/drivers)
set(make_drivers ${PROJECT_SOURCE_DIR}/tests/support/lean_pocl ${CLIQUE_VENDORS} ${CLQ_TEST_DRIVERS} cl src tests examples bench)
execute_process(COMMAND ${make_drivers} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(clq_test_drivers ALL COMMAND ${make_drivers} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
# A machine without GPUs: the commands warn about GPUs that none of these drivers lists.
set(CLQ_TEST_MACHINE ${CMAKE_BINARY_DIR}/machine)
file(MAKE_DIRECTORY ${CLQ_TEST_MACHINE})
#
# intercept_tls_get_addr: GCC 12's sanitizer sometimes computes an invalid address for the thread storage of a library that
# was opened later. Its leak search reads that address, and ends with a signal.
# verify_asan_link_order: tests/run preloads the recorder before the sanitizer's library.
# quarantine_size_mb, thread_local_quarantine_size_kb: freed memory becomes available soon; drivers free much memory.
# symbolize: tests/support/name_frames names the addresses afterwards.
# intercept_strstr: the sanitizer would measure the whole text at each call, and kernel sources are searched for each
# comment.
# handle_sigbus: a process with a damaged library must end by the same signal as without the sanitizer.
set(CLQ_TEST_ENVIRONMENT
  "POCL_DEVICES=basic basic basic basic basic pthread"
  "POCL_WORK_GROUP_SPECIALIZATION=0"
  "OCL_ICD_VENDORS=${CLQ_TEST_DRIVERS}/vendors"
  "CLIQUE_CACHE_DIR=${CLIQUE_TEST_CACHE}"
  "CLIQUE_MACHINE_ROOT=${CLQ_TEST_MACHINE}"
  "CLQ_TEST_SOURCE=${PROJECT_SOURCE_DIR}"
  "CLQ_TEST_BINARY=${CMAKE_BINARY_DIR}"
  "ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:intercept_tls_get_addr=0:handle_sigbus=0:verify_asan_link_order=0:quarantine_size_mb=8:thread_local_quarantine_size_kb=64:symbolize=0:intercept_strstr=0:suppressions=${PROJECT_SOURCE_DIR}/tests/support/asan.supp"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:ignore_noninstrumented_modules=1")

option(CLIQUE_TESTS_WERROR "Warnings in the tests' programs are errors" OFF)

# A build links some 270 tests. GNU gold, if the system has it, links each test in half of the time.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold CLQ_HAS_GOLD)
set(CLQ_TEST_LINKER $<$<BOOL:${CLQ_HAS_GOLD}>:-fuse-ld=gold>)

# Tests that open many trainers keep their programs (tests/support/keep_compiler.c). Exceptions are these tests, which count
# or fail the calls that load programs, or whose drivers watch the release of objects.
set(loading_tests plans trace strict counts paths upload_ahead)

# The runs on one device are a separate test, below.
set(arguments_interop_golden ways)

# The references of operations are plain loops. A sanitizer would spend more time in them than in the compared code.
if(CLIQUE_SANITIZE)
  file(GLOB references CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/ref/ops_*.c)
  list(APPEND references ${PROJECT_SOURCE_DIR}/tests/ref/graph_operations.c) # includes them
  set_source_files_properties(${references} PROPERTIES COMPILE_OPTIONS "-O2;-fno-sanitize=all")
endif()

# A test's own code is not optimized, because that takes longer than it saves. The exceptions are these layers, whose tests
# compute large arrays.
set(computing_layers comm ops)

# Each layer's tests share one library: tests/support/<layer>*.c and tests/ref/<layer>*.c.
foreach(layer IN LISTS CLQ_LAYERS)
  if(layer IN_LIST computing_layers)
    set(optimization $<$<NOT:$<CONFIG:Debug>>:-O1>)
  else()
    set(optimization -O0 -U_FORTIFY_SOURCE)
  endif()
  file(GLOB test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${layer}/test_*.c)
  file(GLOB support_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/${layer}*.c ${PROJECT_SOURCE_DIR}/tests/ref/${layer}*.c)
  set(shared)
  if(support_sources)
    set(shared clq_support_${layer})
    add_library(${shared} OBJECT ${support_sources})
    clq_compile_options(${shared})
    clq_link_layer(${shared} ${layer})
    target_include_directories(${shared} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${shared} PRIVATE PkgConfig::CMOCKA)
  endif()
  foreach(source IN LISTS test_sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" thing ${name})
    set(target test_${layer}_${thing})
    add_executable(${target} ${source})
    clq_compile_options(${target})
    target_compile_options(${target} PRIVATE ${optimization} $<$<BOOL:${CLIQUE_TESTS_WERROR}>:-Werror>)
    target_link_options(${target} PRIVATE ${CLQ_TEST_LINKER})
    target_link_libraries(${target} PRIVATE ${shared} PkgConfig::CMOCKA)
    # The processes that meet in a world are threads here, over the tests' own network, also in each layer above world.
    if(NOT layer STREQUAL "world" AND "world" IN_LIST CLQ_CLOSURE_${layer})
      target_link_libraries(${target} PRIVATE clq_support_world)
    endif()
    clq_link_layer(${target} ${layer})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${layer}/${thing} COMMAND ${target} ${arguments_${layer}_${thing}})
    set(environment ${CLQ_TEST_ENVIRONMENT})
    if("${layer}/${thing}" MATCHES "^(train/|interop/(generator|golden))" AND NOT thing IN_LIST loading_tests)
      list(APPEND environment CLQ_TEST_KEEPS_PROGRAMS=1)
    endif()
    set_tests_properties(${layer}/${thing} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT 2400)
  endforeach()
endforeach()

target_compile_definitions(test_base_error PRIVATE CLQ_TEST_RELEASE="${PROJECT_VERSION}")

find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(cmake/systems.cmake)
add_test(NAME law/dependencies COMMAND ${PROJECT_SOURCE_DIR}/tests/law/check ${PROJECT_SOURCE_DIR}/src)
add_test(NAME law/documented COMMAND ${PROJECT_SOURCE_DIR}/tests/law/documented ${PROJECT_SOURCE_DIR}/include/clique)
add_test(NAME law/api COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/law/api ${PROJECT_SOURCE_DIR})
add_test(NAME law/links COMMAND ${PROJECT_SOURCE_DIR}/tests/law/links ${PROJECT_SOURCE_DIR})
add_test(NAME law/words COMMAND ${PROJECT_SOURCE_DIR}/tests/law/words ${PROJECT_SOURCE_DIR})
add_test(NAME law/readers COMMAND ${PROJECT_SOURCE_DIR}/tests/readers/check ${PROJECT_SOURCE_DIR})
# Checks the pages' commands without running them. `tests/readers/commands run` runs them, for half an hour or more.
add_test(NAME readers/commands COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/readers/commands check ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
add_test(NAME readers/faults COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/readers/check_commands ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# The binary interface. The description is for x86-64.
if(NOT CLQ_HIDES_NOT)
  add_test(NAME abi/symbols COMMAND ${PROJECT_SOURCE_DIR}/tests/abi/check symbols ${CMAKE_BINARY_DIR} ${CMAKE_NM})
else()
  clq_leave_out("abi/symbols" "names stay global in the archive: ${CLQ_HIDES_NOT}")
endif()
clq_lacks(abigail-tools no_abigail)
find_program(CLQ_ABIDIFF abidiff)
if(NOT CLQ_ABIDIFF AND NOT no_abigail)
  set(no_abigail "no abidiff: package abigail-tools has it")
endif()
if(no_abigail)
  clq_leave_out("abi/types" "${no_abigail}")
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  add_test(NAME abi/types COMMAND ${PROJECT_SOURCE_DIR}/tests/abi/check types ${CMAKE_C_COMPILER} ${CLQ_ABIDIFF})
else()
  clq_leave_out("abi/types" "the processor is ${CMAKE_SYSTEM_PROCESSOR}: tests/abi/libclique.abi is of x86-64")
endif()
add_test(NAME law/picture COMMAND ${PROJECT_SOURCE_DIR}/docs/plots/beside-pytorch check)
add_test(NAME law/learning_curve COMMAND ${PROJECT_SOURCE_DIR}/docs/plots/learning-curve check)
add_test(NAME cli/contract COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_cli.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/plan COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_plans.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/trainings COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_trainings.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/process COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_process.py ${CMAKE_BINARY_DIR}/bin)
if(CLQ_MANUAL)
  find_program(CLQ_GROFF groff REQUIRED) # reads manual pages
  add_test(NAME cli/help COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_help.py ${CMAKE_BINARY_DIR}/bin
    ${CLQ_MANUAL} ${PROJECT_SOURCE_DIR} ${CLQ_GROFF})
  set_tests_properties(cli/help PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
endif()
add_test(NAME cli/files COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_files.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/why COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_why.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/choice COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_choice.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/tuning COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_tuning.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/compare COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_compare.py ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(cli/compare PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 300)
# The command as it is without Chart.js.
clq_embed(${CMAKE_BINARY_DIR}/generated/page_without_chart.c cli/page.h clq_page_file clq_page_files ${CLQ_PAGE_FILES})
clq_page_library(clq_page_without_chart ${CMAKE_BINARY_DIR}/generated/page_without_chart.c)
clq_add_command(clique_without_chart ${PROJECT_SOURCE_DIR}/src/cli/main.c clq_page_without_chart)
set_target_properties(clique_without_chart PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME cli/report COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_report.py ${CMAKE_BINARY_DIR}/bin
  ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(cli/report PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
add_test(NAME cli/text COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_text.py ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(cli/text PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
add_test(NAME cli/generate COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_generate.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/launch COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_launch.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/follow COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_follow.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/shade COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_shade.py ${CMAKE_BINARY_DIR}/bin)
add_test(NAME cli/bench COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_bench.py ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(cli/contract cli/plan cli/trainings cli/files cli/follow cli/shade cli/generate cli/launch cli/process cli/bench cli/why cli/choice cli/tuning PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
# Not with sanitizers, which would take too long: these tests mostly test scripts. So the code of bench/peers*.c runs
# without sanitizers.
if(NOT CLIQUE_SANITIZE)
  add_test(NAME cli/peers COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_peers.py ${CMAKE_BINARY_DIR}/bin)
  add_test(NAME cli/first_run COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_first_run.py ${CMAKE_BINARY_DIR}/bin
    ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli/peers cli/first_run PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
endif()
if(CLIQUE_SANITIZE)
  set(CLQ_USERS_FLAGS -fsanitize=${CLIQUE_SANITIZE})
endif()
add_test(NAME install/examples COMMAND ${PROJECT_SOURCE_DIR}/tests/install/check ${CMAKE_BINARY_DIR} ${CLQ_USERS_FLAGS})
set_tests_properties(install/examples PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)

# The long test of the collectives; ctest runs its short form.
add_executable(soak_collectives ${PROJECT_SOURCE_DIR}/tests/soak/collectives.c)
clq_compile_options(soak_collectives)
target_link_libraries(soak_collectives PRIVATE clq_support_comm)
clq_link_layer(soak_collectives comm)
target_include_directories(soak_collectives PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(soak_collectives PRIVATE PkgConfig::CMOCKA)
set_target_properties(soak_collectives PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME soak/collectives COMMAND ${PROJECT_SOURCE_DIR}/tests/soak/collectives ${CMAKE_BINARY_DIR} --short)
set_tests_properties(soak/collectives PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)

# One step of a model from a file, for tests/soak/models, which tests a folder of models.
add_executable(soak_one_step ${PROJECT_SOURCE_DIR}/tests/soak/one_step.c)
clq_compile_options(soak_one_step)
clq_link_layer(soak_one_step interop)
set_target_properties(soak_one_step PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# The long test of lost caches and drivers; ctest runs its short form. Not with sanitizers, which would take too long:
# device/lost_cache and device/claim test the same recovery under sanitizers.
if(NOT CLIQUE_SANITIZE)
  add_test(NAME soak/caches COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/soak/caches ${CMAKE_BINARY_DIR} --short)
  set_tests_properties(soak/caches PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
endif()

# The long test of checkpoints; ctest runs its short form.
if(NOT CLIQUE_SANITIZE)
  add_test(NAME soak/checkpoints COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/soak/checkpoints ${CMAKE_BINARY_DIR} --short)
  set_tests_properties(soak/checkpoints PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600)
endif()

# OpenCL layers between the loader and the drivers: clq_NAME_layer from tests/support/NAME_layer.c or from the folder
# tests/support/NAME, and the targets that load it.
function(clq_test_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/${name}_layer.c ${PROJECT_SOURCE_DIR}/tests/support/${name}/*.c)
  add_library(clq_${name}_layer MODULE ${sources})
  clq_compile_options(clq_${name}_layer)
  target_include_directories(clq_${name}_layer PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(clq_${name}_layer PRIVATE Threads::Threads)
  set_target_properties(clq_${name}_layer PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  foreach(user IN LISTS ARGN)
    add_dependencies(${user} clq_${name}_layer)
  endforeach()
endfunction()

# Libraries that tests/run preloads: clq_NAME from tests/support/NAME.c.
function(clq_test_preload name)
  add_library(clq_${name} MODULE ${PROJECT_SOURCE_DIR}/tests/support/${name}.c)
  clq_compile_options(clq_${name})
  target_link_libraries(clq_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(clq_${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()
clq_test_preload(record)        # records what tests launch and compile
clq_test_preload(keep_compiler) # keeps PoCL's compiler from one case to the next
clq_test_preload(unoptimized)   # makes drivers compile faster
clq_test_preload(short_maps)    # makes Intel's driver load each program faster

# Makes PoCL link and write each kernel faster. Kernels are linked with a library without symbols, which has the name of the
# mathematical library, so that the loader loads the real one.
if(NOT CLIQUE_SANITIZE)
  clq_test_preload(quick_link)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/no_symbols.c CONTENT "typedef int nothing;\n")
  add_library(clq_no_symbols SHARED ${CMAKE_BINARY_DIR}/generated/no_symbols.c)
  target_link_options(clq_no_symbols PRIVATE -nostdlib "LINKER:-soname,libm.so.6")
  set_target_properties(clq_no_symbols PROPERTIES NO_SONAME ON)
  add_dependencies(clq_quick_link clq_no_symbols)
  set_target_properties(clq_no_symbols PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

if(CLIQUE_SANITIZE)
  add_library(clq_lean_driver MODULE ${PROJECT_SOURCE_DIR}/tests/support/lean_driver.c)
  target_compile_options(clq_lean_driver PRIVATE -O2 -Wall -Wextra) # tail calls become jumps
  target_link_libraries(clq_lean_driver PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(clq_lean_driver PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

# Makes calls fail.
clq_test_layer(fault test_device_fault test_comm_group_failure test_train_failure test_train_checkpoint_faults test_train_loops test_train_parts test_train_log test_train_trace test_train_plans test_why_probe)
# Makes devices look as if their memory were separate from the host's.
clq_test_layer(discrete test_comm_links test_train_upload test_train_outputs test_train_ps)
# Makes a CPU look like a GPU, with a compiler that makes mistakes.
clq_test_layer(gpu test_ops_local_trial test_interop_balance test_interop_golden test_device_auto test_device_coherence test_device_quirks)
# Makes devices' caches incoherent with the host's.
clq_test_layer(stale test_device_coherence)
# Gives devices odd names, and makes reads return wrong data. The checks of the command line name the layer by its path.
clq_test_layer(odd)
# Makes compilers hang.
clq_test_layer(hang test_device_deadline)
add_test(NAME cli/build COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_build.py ${CMAKE_BINARY_DIR}/bin
                                ${CMAKE_BINARY_DIR}/tests/clq_hang_layer.so)
set_tests_properties(cli/build PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
# Makes devices compute more slowly.
clq_test_layer(slow test_device_slow_layer test_train_shares)
# Makes PoCL's devices behave like strict discrete GPUs.
clq_test_layer(strict test_device_strict_layer test_comm_strict test_train_strict test_comm_gpus test_train_counts test_train_paths test_train_upload_ahead)

# Whole trainings on one device, divided among the drivers; and a few of them with optimized programs, as users have them.
foreach(which alone optimized)
  add_test(NAME interop/golden_${which} COMMAND test_interop_golden ${which})
  set_tests_properties(interop/golden_${which} PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT};CLQ_TEST_KEEPS_PROGRAMS=1" TIMEOUT 2400)
endforeach()

# Not with sanitizers, which would take too long: the tests of ops and ops/local_trial run the same code.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT CLIQUE_SANITIZE)
  add_test(NAME interop/golden_gpu COMMAND test_interop_golden gpu)
  set_tests_properties(interop/golden_gpu PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT};CLQ_TEST_KEEPS_PROGRAMS=1" TIMEOUT 2400)
endif()
add_test(NAME train/outputs_discrete COMMAND test_train_outputs discrete)
set_tests_properties(train/outputs_discrete PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
add_test(NAME train/ps_discrete COMMAND test_train_ps discrete)
set_tests_properties(train/ps_discrete PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
set(strict device/trace train/fit train/ps)
# Not with sanitizers: comm/strict tests these paths under sanitizers.
if(NOT CLIQUE_SANITIZE)
  list(APPEND strict comm/all_reduce comm/failure comm/wide comm/group_split comm/grouping comm/pairs comm/split)
endif()
foreach(name IN LISTS strict)
  string(REPLACE / _ target ${name})
  add_test(NAME strict/${target} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/strict/run $<TARGET_FILE:test_${target}>)
  set_tests_properties(strict/${target} PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)
endforeach()
foreach(name clBuildProgram clGetDeviceInfo clGetPlatformInfo clq_cpu_count)
  target_link_options(test_device_build_at_once PRIVATE -Wl,--wrap=${name})
endforeach()
# Lets the test delay a replica in its step.
foreach(test test_train_ps test_train_world_ps)
  target_link_options(${test} PRIVATE -Wl,--wrap=clq_replica_run)
endforeach()
# Several threads load programs, whatever the number of processors.
target_link_options(test_device_deadline PRIVATE -Wl,--wrap=clq_cpu_count)

# Compiles the kernels with the compilers for GPUs.
add_executable(compiler_wishes ${PROJECT_SOURCE_DIR}/tests/compilers/wishes.c)
clq_compile_options(compiler_wishes)
clq_link_layer(compiler_wishes interop)
foreach(name clGetDeviceInfo clGetPlatformInfo clBuildProgram clq_device_load_programs clq_local_works)
  target_link_options(compiler_wishes PRIVATE -Wl,--wrap=${name})
endforeach()
set_target_properties(compiler_wishes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# Uses two threads. Not with sanitizers, because the compiled kernels are the same.
option(CLIQUE_TEST_GPU_COMPILERS "Ask the vendors' compilers for GPUs" ON)
if(CLIQUE_TEST_GPU_COMPILERS AND NOT CLIQUE_SANITIZE)
  clq_gpu_compilers_here(gpu_compilers_here)
endif()
if(gpu_compilers_here)
  add_test(NAME compilers/kernels COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/compilers/check ${CMAKE_BINARY_DIR})
  set_tests_properties(compilers/kernels PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 600 PROCESSORS 2)
endif()

# Runs the commands while allocations and OpenCL calls fail.
clq_add_command(clique_faulty ${PROJECT_SOURCE_DIR}/tests/cli/faulty.c)
target_compile_definitions(clique_faulty PRIVATE CLQ_FAULTY_MAIN="${PROJECT_SOURCE_DIR}/src/cli/main.c")
add_executable(clique_bench_faulty ${PROJECT_SOURCE_DIR}/tests/cli/faulty.c)
target_link_libraries(clique_bench_faulty PRIVATE clq_bench)
clq_compile_options(clique_bench_faulty)
clq_link_layer(clique_bench_faulty interop)
target_compile_definitions(clique_bench_faulty PRIVATE CLQ_FAULTY_MAIN="${PROJECT_SOURCE_DIR}/bench/main.c")
foreach(target clique_faulty clique_bench_faulty)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(${target} clq_fault_layer)
endforeach()
add_test(NAME cli/faults COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/check_faults.py ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(cli/faults PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 2400)

# The internal parts of the bench suite.
add_executable(test_bench_stepper ${PROJECT_SOURCE_DIR}/tests/bench/test_stepper.c)
target_link_libraries(test_bench_stepper PRIVATE clq_bench PkgConfig::CMOCKA)
clq_compile_options(test_bench_stepper)
clq_link_layer(test_bench_stepper interop)
target_include_directories(test_bench_stepper PRIVATE ${PROJECT_SOURCE_DIR}/tests)
set_target_properties(test_bench_stepper PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME bench/stepper COMMAND test_bench_stepper)
add_dependencies(test_bench_stepper clq_discrete_layer)
if(TARGET clique-keras-files)
  foreach(name keras_files keras_file_damage keras_frozen)
    add_dependencies(test_interop_${name} clique-keras-files)
  endforeach()
endif()
set_tests_properties(bench/stepper PROPERTIES ENVIRONMENT "${CLQ_TEST_ENVIRONMENT}" TIMEOUT 300)

# Programs on oclgrind's simulated device use only that device, in small cases (tests/oclgrind/run), and one thread, since
# oclgrind's runtime does not support several. No sanitizers: they would check the simulator.
option(CLIQUE_TEST_OCLGRIND "Run kernels under oclgrind; OFF where the system has no such package" ON)
clq_lacks(oclgrind no_oclgrind)
if(no_oclgrind AND NOT CLIQUE_SANITIZE)
  clq_leave_out("oclgrind/..." "${no_oclgrind}")
elseif(CLIQUE_TEST_OCLGRIND AND NOT CLIQUE_SANITIZE)
  find_library(CLIQUE_OCLGRIND oclgrind-rt-icd PATH_SUFFIXES oclgrind REQUIRED)
  file(WRITE ${CMAKE_BINARY_DIR}/simulator/oclgrind.icd "${CLIQUE_OCLGRIND}\n")
  set(simulator_environment ${CLQ_TEST_ENVIRONMENT})
  list(TRANSFORM simulator_environment REPLACE "^OCL_ICD_VENDORS=.*" "OCL_ICD_VENDORS=${CMAKE_BINARY_DIR}/simulator")
  add_executable(flawed_kernels ${PROJECT_SOURCE_DIR}/tests/oclgrind/flawed.c)
  clq_compile_options(flawed_kernels)
  target_link_libraries(flawed_kernels PRIVATE OpenCL::OpenCL)
  set_target_properties(flawed_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(run_simulated ${PROJECT_SOURCE_DIR}/tests/oclgrind/run)
  add_test(NAME oclgrind/finds COMMAND ${run_simulated} --finds "Write-write data race" --finds "Invalid read of size 4"
    --finds CL_INVALID_VALUE $<TARGET_FILE:flawed_kernels>)
  set(simulated_tests oclgrind/finds)
  foreach(name ops/activation ops/arrange ops/attention ops/batched ops/conv2d ops/conv_pool ops/compress ops/copy ops/dense ops/dropout ops/element_programs ops/folds ops/gemm ops/grouped ops/input ops/loss
      ops/constrain ops/normalise ops/penalty ops/pool2d ops/recurrent ops/repeat ops/row_norm ops/update ops/warp ops/winograd comm/combine)
    string(REPLACE / _ target ${name})
    add_test(NAME oclgrind/${target} COMMAND ${run_simulated} $<TARGET_FILE:test_${target}>)
    list(APPEND simulated_tests oclgrind/${target})
  endforeach()
  set_tests_properties(${simulated_tests} PROPERTIES ENVIRONMENT "${simulator_environment}" TIMEOUT 600)
endif()

include(cmake/python.cmake)
include(cmake/rusticl.cmake)
include(cmake/world.cmake)

# The longest tests come first: on a fresh tree, ctest knows no times, and a test that builds many kernels could run last,
# alone. comm/combine comes before all: it builds the kernels that every other test of the collectives needs.
set(cost 100)
foreach(name comm/combine interop/golden_alone interop/golden world/train_openmpi interop/single_layers cli/choice world/bench_openmpi
    world/why_openmpi ops/winograd ops/loss compilers/kernels interop/golden_families install/examples world/launch_openmpi
    world/failure world/failure_threads train/failure cli/contract train/strategies graph/step_graph cli/bench ops/recurrent
    cli/launch ops/element_programs interop/golden_gpu train/features cli/peers world/launch_mpich world/train_mpich
    train/strict oclgrind/ops_loss cli/build oclgrind/ops_recurrent ops/update cli/why cli/first_run train/recompute
    world/bench_mpich strict/comm_all_reduce ops/conv2d ops/gemm train/shares interop/keras_damage cli/faults cli/process
    comm/collectives train/paths soak/caches ops/dense ops/activation soak/checkpoints cli/plan train/checkpoint_faults
    cli/help train/upload_ahead why/probe)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST ${cost})
  endif()
  math(EXPR cost "${cost} - 1")
endforeach()

# Repeats the tests of code that converts numbers to and from text, in a program whose locale uses a decimal comma.
# localedef is part of the C library. It ends with 1 because this locale lacks some parts.
find_program(CLQ_LOCALEDEF localedef REQUIRED)
set(CLQ_COMMA_LOCALE ${CMAKE_BINARY_DIR}/tests/locales/comma/LC_NUMERIC)
add_custom_command(OUTPUT ${CLQ_COMMA_LOCALE}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/tests/locales
  COMMAND ${CLQ_LOCALEDEF} -c --quiet -i ${PROJECT_SOURCE_DIR}/tests/support/decimal_comma.locale
    -f ${PROJECT_SOURCE_DIR}/tests/support/decimal_comma.charmap ${CMAKE_BINARY_DIR}/tests/locales/comma || test -f ${CLQ_COMMA_LOCALE}
  DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/decimal_comma.locale ${PROJECT_SOURCE_DIR}/tests/support/decimal_comma.charmap VERBATIM)
add_custom_target(clq_comma_locale ALL DEPENDS ${CLQ_COMMA_LOCALE})
add_library(clq_comma MODULE ${PROJECT_SOURCE_DIR}/tests/support/decimal_comma.c)
set_target_properties(clq_comma PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(clq_comma clq_comma_locale)
set(CLQ_COMMA_ENVIRONMENT ${CLQ_TEST_ENVIRONMENT} "LOCPATH=${CMAKE_BINARY_DIR}/tests/locales")
# Large programs run only the cases that write or read numbers.
set(comma_graph_tune selections_are_kept the_fastest_is_kept)
set(comma_train_callbacks refused epochs_become_a_table edited_tables_go_on best_weights_go_into_a_file)
set(comma_train_checkpoint test_callbacks_go_on test_the_best_file_goes_on test_misuse test_stopped_fits_go_on
  test_mixed_precision_goes_on)
set(comma_train_log nonsense_is_refused)
set(comma_ops_loss numbers) # the cases whose kernels receive numbers as text
foreach(test base/text base/error formats/json device/options graph/tune train/callbacks train/checkpoint train/optimizers train/schedules train/log ops/loss)
  string(REPLACE "/" "_" target test_${test})
  string(REPLACE "/" "_" name ${test})
  # comma/test_graph_tune runs without the libraries that tests/run preloads. So PoCL closes its compiler in one test.
  set(others "\${LD_PRELOAD:+:$LD_PRELOAD}")
  if(test STREQUAL "graph/tune")
    set(others "")
  endif()
  add_test(NAME comma/${target} COMMAND sh -c "LD_PRELOAD=$0${others} exec \"$@\"" $<TARGET_FILE:clq_comma>
    $<TARGET_FILE:${target}> ${comma_${name}})
  add_dependencies(${target} clq_comma)
  set_tests_properties(comma/${target} PROPERTIES ENVIRONMENT "${CLQ_COMMA_ENVIRONMENT}" TIMEOUT 2400)
endforeach()

# `tests/run all` has two halves. Sanitizers do not see into kernels. Under sanitizers, a test takes three times as long,
# including compilers. So a test runs in only one half, if possible:
# - under sanitizers (the label `host`) if it compiles little: host code, and faults, which leave memory in odd states;
# - without sanitizers (the label `plain`) if it tests timings, installed files, locales or numbers, and if tests of the
#   other half also execute its host code: `tests/coverage/arcs` prints what they miss.
# All other tests run in both halves, first without sanitizers.
set(host_tests "base/.*" "bench/.*" "comm/.*" "data/.*" "device/.*" "formats/.*" "launch/.*" "strategy/.*"
  "world/(world|failure)"
  "cli/(compare|contract|faults|files|follow|generate|help|launch|plan|process|report|shade|text)" "interop/(generator|keras_(damage|file_damage|files|json))"
  "train/(allocator|batch|checkpoint_data|checkpoint_faults|checkpoint_folder|failure|features|log|loops|own_samples|parts)"
  "train/(parts_misuse|ps_discrete|reserves|returned|shares|stop|upload_ahead|world_ps|world_settings)" "why/probe")
set(plain_tests "abi/.*" "comma/.*" "install/.*" "law/.*" "python/.*" "readers/.*" "strict/.*" "soak/.*" "cli/(bench|build|choice|trainings|why)"
  "comm/(all_reduce|collectives|gpus)" "device/(cache|program_load|twins)"
  "graph/(chains|fusion|keep|plan|stages|tune)" "interop/golden(_alone|_optimized|_families)?"
  "ops/(activation|arrange|batched|compress|constrain|conv2d|conv_pool|copy|dense|dropout|element_programs|folds|gemm|grouped|input|joined|loss|normalise|norms|penalty|pool2d)"
  "ops/(recurrent|repeat|row_norm|update|warp|winograd)"
  "train/(callback_strategies|checkpoint|compress|counts|fit|local_steps|loop_strategies|loss_values|mirrored|modes|penalty)"
  "train/(outputs_discrete|paths|plans|ps|recompute|shard_optimizer|sharded_update|step_memory|strategies|strict|tensor)"
  "train/(trace|upload|weighted)" "world/(openmpi|mpich|.*_threads)")
# Checks patterns one by one: together they are too long for a regular expression of CMake.
function(clq_is_one_of result test)
  foreach(pattern IN LISTS ARGN)
    if(test MATCHES "^(${pattern})$")
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} FALSE PARENT_SCOPE)
endfunction()
get_property(all_tests DIRECTORY PROPERTY TESTS)
foreach(test IN LISTS all_tests)
  string(REPLACE "/" "_" target test_${test})
  clq_is_one_of(is_plain "${test}" ${plain_tests})
  clq_is_one_of(is_host "${test}" ${host_tests})
  if(is_plain)
    set_property(TEST ${test} PROPERTY LABELS plain)
    # The build with sanitizers skips this test's program; `--target` builds it. train/ps_discrete runs in that build, with
    # the program of train/ps.
    if(CLIQUE_SANITIZE MATCHES address AND TARGET ${target} AND NOT test STREQUAL "train/ps")
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  elseif(is_host AND NOT test STREQUAL "comm/combine")
    set_property(TEST ${test} PROPERTY LABELS host)
  endif()
endforeach()

# Tests that compile much and compute little compile their kernels without optimization (tests/support/unoptimized.c), which
# takes a third of the time. Such kernels take up to ten times as long to run, so this does not suit trainings with many
# steps. Kernels are optimized, as for users, in interop/golden_optimized, in some benchmarks of cli/bench, in cli/choice
# and cli/tuning, and in the other trainings, for example train/mirrored and train/world. In the tests of ops, each kernel
# of the family for CPUs is optimized in one case at least. Unoptimized programs have a separate cache.
set(unoptimized_tests "device/(cache|fault|program_load|twins)" "launch/fused"
  "graph/(chains|composites|custom|drawn_graphs|exchange|fused_step|fusion|keep|placement|plan|stages|step_graph|tune|weights)"
  "interop/(backbones|generator|golden|golden_alone|golden_families|golden_gpu|keras_files|keras_frozen)"
  "interop/(single_layers|single_steps|written_attention)" "install/examples" "python/.*" "world/traces_(openmpi|mpich)"
  "cli/(contract|faults|files|follow|generate|peers|plan|process|shade|text|trainings|why)"
  "train/(accumulate|alike|average|batch|callback_states|callback_strategies|callbacks|checkpoint)"
  "train/(checkpoint_changes|checkpoint_data|checkpoint_faults|checkpoint_fits|checkpoint_folder|clip|compress)"
  "train/(confusion|constraints|counts|distributed|failure|features|fit|gradient_flow|inputs|local_steps)"
  "train/(loop_strategies|loops|loss_values|mixed|modes|numerics|optimizers|outputs|own_layers|own_samples|parts)"
  "train/(paths|penalty|pipeline|plans|ps|ranges|recompute|reserves|returned|schedules|setting_trainers)"
  "train/(shard_optimizer|sharded_update|step_memory|strategies|strict|targets|tensor|tensor_attention|upload_ahead)"
  "train/weighted" "comma/test_train_.*")
foreach(test IN LISTS all_tests)
  clq_is_one_of(is_unoptimized "${test}" ${unoptimized_tests})
  if(is_unoptimized)
    get_property(environment TEST ${test} PROPERTY ENVIRONMENT)
    list(TRANSFORM environment REPLACE "^(CLIQUE_CACHE_DIR=.*)" "\\1-unoptimized")
    set_property(TEST ${test} PROPERTY ENVIRONMENT ${environment} CLQ_TEST_UNOPTIMIZED=1)
  endif()
  # Names the test in the records of processor time (tests/support/record.c).
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT CLQ_TEST_NAME=${test})
endforeach()
