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
 * PoCL before 4 needs more than the option of programs. The option reaches only the functions that clang compiles: PoCL
 * still runs LLVM's passes at their highest level over each kernel, and its code generator allocates registers as for
 * optimized code. Both are told otherwise below. Later versions of PoCL call other functions of LLVM. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_bool is_on, is_simple; /* also without CLQ_TEST_UNOPTIMIZED */

static bool is_wanted(void) { return atomic_load(&is_on) || getenv("CLQ_TEST_UNOPTIMIZED"); }

/* ---- LLVM's passes and code generator in PoCL ---- */

#if defined(__x86_64__) /* how C++ returns an object (analyze_target) differs between processors */

static bool is_of_pocl(const void *caller) {
    Dl_info of;
    return dladdr(caller, &of) && of.dli_fname && strstr(of.dli_fname, "/libpocl");
}

/* The function that the caller would have called: its library's dependencies have it, and the global scope has not. */
static void *called_by(const void *caller, const char *name) {
    Dl_info of;
    void *library = dladdr(caller, &of) ? dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *function = library ? dlsym(library, name) : NULL;
    if (library) (void)dlclose(library); /* the caller keeps it open */
    if (function) return function;
    (void)fprintf(stderr, "unoptimized: found no function %s\n", name);
    abort();
}

#define POPULATE "_ZN4llvm18PassManagerBuilder25populateModulePassManagerERNS_6legacy15PassManagerBaseE"
#define SET_LEVEL "_ZN4llvm13TargetMachine11setOptLevelENS_10CodeGenOpt5LevelE"
#define ANALYSIS "_ZNK4llvm13TargetMachine19getTargetIRAnalysisEv"
enum { GENERATES_FAST, GENERATES_BEST = 3 }; /* llvm::CodeGenOpt::Level */

/* PoCL has a list of passes and a target machine for each device, which it makes before the device's first kernel. The
 * machine's level may change later, and the list stays. */
enum { MACHINES_MAX = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct machine {
    void *machine;
    void (*set_level)(void *machine, int level);
} machines[MACHINES_MAX];
static unsigned machine_count;

/* The passes remain: PoCL's own ones work on what LLVM's make of a kernel. At level 1 they are the fewest. `level` is
 * the first member of the builder. */
void populate_passes(unsigned *level, void *passes) __asm__(POPULATE);
EXPORT void populate_passes(unsigned *level, void *passes) {
    const void *caller = __builtin_return_address(0);
    void (*const populate)(unsigned *, void *) = (__typeof__(populate))called_by(caller, POPULATE);
    if (is_of_pocl(caller) && (atomic_load(&is_simple) || getenv("CLQ_TEST_UNOPTIMIZED"))) *level = 1;
    populate(level, passes);
}

/* PoCL asks each new target machine for this. `result` is where the callee puts the object that it returns. */
void *analyze_target(void *result, void *machine) __asm__(ANALYSIS);
EXPORT void *analyze_target(void *result, void *machine) {
    const void *caller = __builtin_return_address(0);
    void *(*const analyze)(void *, void *) = (__typeof__(analyze))called_by(caller, ANALYSIS);
    if (is_of_pocl(caller)) {
        pthread_mutex_lock(&lock);
        if (machine_count < MACHINES_MAX) {
            struct machine *m = &machines[machine_count++];
            *m = (struct machine){machine, (__typeof__(m->set_level))called_by(caller, SET_LEVEL)};
            if (is_wanted()) m->set_level(machine, GENERATES_FAST);
        }
        pthread_mutex_unlock(&lock);
    }
    return analyze(result, machine);
}

/* PoCL deletes target machines with its last context, which keep_compiler.c keeps. */
static void switch_machines(bool on) {
    pthread_mutex_lock(&lock);
    if (atomic_exchange(&is_on, on) != on && !getenv("CLQ_TEST_UNOPTIMIZED"))
        for (unsigned i = 0; i < machine_count; i++)
            machines[i].set_level(machines[i].machine, on ? GENERATES_FAST : GENERATES_BEST);
    pthread_mutex_unlock(&lock);
}
#else
static void switch_machines(bool on) { atomic_store(&is_on, on); }
#endif

EXPORT void clq_unoptimized(bool on) { switch_machines(on); }
EXPORT void clq_simple_devices(bool on) { atomic_store(&is_simple, on); }

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
    const bool wanted = is_wanted() && options && count > 0 && is_of_cpu_driver(devices[0]);
    char *with = wanted ? malloc(strlen(options) + sizeof format) : NULL;
    if (with) (void)sprintf(with, format, options);
    const cl_int error = REAL(clBuildProgram)(program, count, devices, with ? with : options, notify, user);
    free(with);
    return error;
}
