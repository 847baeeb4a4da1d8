/* Makes drivers for CPUs compile kernels without optimizing them, which takes a third of the time. tests/run preloads
 * this.
 *
 * An optimized kernel computes the same, but faster. Errors of a compiler's optimizer are found by tests of kernels
 * that such a device runs for users, and these stay optimized: in the tests of ops, each kernel of the family for CPUs
 * in one case at least; in interop/golden_optimized, some trainings (train/...) and some tests of the commands, all
 * kernels. Two kinds of kernels are not optimized. The first are those of tests, or of some of a test's commands, that
 * compile much and compute little (CLQ_TEST_UNOPTIMIZED in their environment, cmake/tests.cmake, tests/cli/support.py).
 * The second are in the tests of ops: the family for GPUs, which runs on a CPU only in tests, and kernels of the family
 * for CPUs that the test already compiled with optimization in another case (support/unoptimized.h, ops_rig.c).
 *
 * Other drivers optimize as always: a simulator and a GPU compile fast, and would run slower.
 *
 * PoCL 3.1 and 4.0 need more than this option. The option reaches only clang. PoCL then still runs LLVM's passes at
 * their highest level, and its code generator still optimizes. The functions below lower both. PoCL 5 and later do not
 * call these functions. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The test's own choices. CLQ_TEST_UNOPTIMIZED turns both on. */
static atomic_bool is_on, is_simple;

EXPORT void clq_unoptimized(bool on) { atomic_store(&is_on, on); }
EXPORT void clq_simple_devices(bool on) { atomic_store(&is_simple, on); }

/* ---- LLVM's passes and code generator in PoCL ---- */

#if defined(__x86_64__) /* how C++ returns an object (analyze_target) differs between processors */
static bool is_lowered(const void *caller) {
    Dl_info of;
    return (atomic_load(&is_simple) || getenv("CLQ_TEST_UNOPTIMIZED")) && dladdr(caller, &of) && of.dli_fname &&
           strstr(of.dli_fname, "/libpocl");
}

/* The function that the caller would have called. It is in a dependency of the caller's library, or, if a program
 * calls, in the global scope. */
static void *called_by(const void *caller, const char *name) {
    Dl_info of;
    void *library = dladdr(caller, &of) ? dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *function = library ? dlsym(library, name) : NULL;
    if (library) (void)dlclose(library); /* the caller keeps it open */
    if (!function) function = dlsym(RTLD_NEXT, name);
    if (function) return function;
    (void)fprintf(stderr, "unoptimized: found no function %s\n", name);
    abort();
}

#define POPULATE "_ZN4llvm18PassManagerBuilder25populateModulePassManagerERNS_6legacy15PassManagerBaseE"
#define SET_LEVEL "_ZN4llvm13TargetMachine11setOptLevelENS_10CodeGenOpt5LevelE"
/* LLVM 15's name. LLVM 14 has another one: with LLVM 14, only the passes change. */
#define ANALYSIS "_ZNK4llvm13TargetMachine19getTargetIRAnalysisEv"

/* PoCL makes a list of passes and a target machine for each device, before the device's first kernel. Both stay until
 * the process ends. Neither may be lowered for some kernels of a device alone: a machine whose level was once the
 * lowest generates such code ever after. */

/* Level 0 is too low: PoCL's own passes need some of LLVM's before them. `level` is the first member of the builder. */
void populate_passes(unsigned *level, void *passes) __asm__(POPULATE);
EXPORT void populate_passes(unsigned *level, void *passes) {
    const void *caller = __builtin_return_address(0);
    void (*const populate)(unsigned *, void *) = (__typeof__(populate))called_by(caller, POPULATE);
    if (is_lowered(caller)) *level = 1;
    populate(level, passes);
}

/* PoCL asks each new target machine for this. `result` is where the callee puts the object that it returns. */
void *analyze_target(void *result, void *machine) __asm__(ANALYSIS);
EXPORT void *analyze_target(void *result, void *machine) {
    const void *caller = __builtin_return_address(0);
    void *(*const analyze)(void *, void *) = (__typeof__(analyze))called_by(caller, ANALYSIS);
    if (is_lowered(caller)) {
        enum { NONE }; /* of llvm::CodeGenOpt::Level */
        void (*const set_level)(void *, int) = (__typeof__(set_level))called_by(caller, SET_LEVEL);
        set_level(machine, NONE);
    }
    return analyze(result, machine);
}
#endif

/* ---- programs ---- */

/* Each object begins with a pointer to its driver's functions (cl_khr_icd). These functions are in the driver's
 * file. */
static bool is_of_cpu_driver(cl_device_id device) {
    enum { GET_DEVICE_INFO = 3 };
    void *const *functions = *(void *const *const *)device;
    Dl_info of;
    return dladdr(functions[GET_DEVICE_INFO], &of) && of.dli_fname &&
           (strstr(of.dli_fname, "/libpocl") || strstr(of.dli_fname, "/libintelocl"));
}

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                         const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user) {
    static const char format[] = "%s -cl-opt-disable";
    const bool wanted =
        (atomic_load(&is_on) || getenv("CLQ_TEST_UNOPTIMIZED")) && options && count > 0 && is_of_cpu_driver(devices[0]);
    char *with = wanted ? malloc(strlen(options) + sizeof format) : NULL;
    if (with) (void)sprintf(with, format, options);
    const cl_int error = REAL(clBuildProgram)(program, count, devices, with ? with : options, notify, user);
    free(with);
    return error;
}
