/* Keeps what drivers would load again for each case of a test. A user's process has a context for as long as it trains,
 * but a test opens and closes devices for each of its cases. tests/run preloads this; without it the same tests are
 * slower.
 *
 * The compiler. PoCL frees its compiler with the process's last context, and the library of built-in functions with it.
 * Reading them again takes 0.3 s of the first build in the next context. So the first context of PoCL that a process
 * makes is never freed. comma/test_graph_tune runs without this library. In that test, PoCL still closes and opens its
 * compiler.
 *
 * Contexts of one device, and the programs made from binaries in them, for the tests with CLQ_TEST_KEEPS_PROGRAMS in
 * their environment: those that open many trainers and do not test loading. A released context passes, with its
 * programs, to the next caller who wants a context of the device. If the same binary comes again, the caller gets the
 * program that was made from it. A context or a program still has one user at a time. A release too many ends the
 * process, and so does a retain, a build or a kernel of a released object.
 *
 * Libraries of PoCL's kernels, for the same tests. PoCL has at most 128 of them open, and closes the least recently
 * used one for the next. PoCL before 4 never closes the library of a kernel whose binary it was asked for. A test that
 * compiles soon has 128 such libraries, and then each launch of another kernel opens its library anew. Here the
 * libraries stay open, and a caller that opens one again by its path, which contains the program's hash, gets the same
 * one. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- the compiler ---- */

static _Atomic(cl_context) first_of_pocl;

/* Each object begins with a pointer to its driver's functions (cl_khr_icd). The file that contains these functions
 * tells the driver, without a call that a layer would count. */
static bool is_of_pocl(cl_device_id device) {
    enum { GET_DEVICE_INFO = 3 };
    void *const *functions = *(void *const *const *)device;
    Dl_info of;
    return dladdr(functions[GET_DEVICE_INFO], &of) && of.dli_fname && strstr(of.dli_fname, "/libpocl");
}

/* ---- contexts and programs ---- */

typedef struct kept_program {
    struct kept_program *next;
    cl_program program;
    unsigned users; /* references that the library holds */
    bool built;
    char *options;
    size_t bytes;
    unsigned char binary[];
} kept_program;

typedef struct kept_context {
    struct kept_context *next;
    cl_context context;
    cl_device_id device;
    unsigned users;
    kept_program *programs;
} kept_context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept_context *contexts;
static atomic_bool is_off;

/* Lets a test have each program loaded for a while (support/keep_programs.h). */
EXPORT void clq_keep_programs(bool on) { atomic_store(&is_off, !on); }

static bool keeps(void) { return !atomic_load(&is_off) && getenv("CLQ_TEST_KEEPS_PROGRAMS"); }

static kept_context *context_of(cl_context context) {
    kept_context *at = contexts;
    while (at && at->context != context) at = at->next;
    return at;
}

static kept_program *program_of(cl_program program) {
    for (kept_context *c = contexts; c; c = c->next)
        for (kept_program *p = c->programs; p; p = p->next)
            if (p->program == program) return p;
    return NULL;
}

static void end(const char *what) {
    (void)fprintf(stderr, "keep_compiler: %s\n", what);
    abort();
}

/* Takes one user off a kept object. Returns false if the object is not kept: the driver must release it. */
static bool let_go(unsigned *users, const char *what) {
    if (!users) return false;
    if (*users == 0) end(what);
    (*users)--;
    return true;
}

static cl_context take_context(cl_device_id device) {
    for (kept_context *at = contexts; at; at = at->next)
        if (at->device == device && at->users == 0) {
            at->users = 1;
            return at->context;
        }
    return NULL;
}

static void keep_context(cl_context context, cl_device_id device) {
    kept_context *made = calloc(1, sizeof *made);
    if (!made) return;
    *made = (kept_context){.next = contexts, .context = context, .device = device, .users = 1};
    contexts = made;
    (void)REAL(clRetainContext)(context);
}

EXPORT cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint count,
                                              const cl_device_id *devices,
                                              void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                              void *user, cl_int *error) {
    const bool keep = keeps() && count == 1 && !properties && !notify;
    pthread_mutex_lock(&lock);
    cl_context context = keep ? take_context(devices[0]) : NULL, none = NULL;
    pthread_mutex_unlock(&lock);
    if (context) {
        if (error) *error = CL_SUCCESS;
        return context;
    }
    context = REAL(clCreateContext)(properties, count, devices, notify, user, error);
    if (context && is_of_pocl(devices[0]) && atomic_compare_exchange_strong(&first_of_pocl, &none, context))
        (void)REAL(clRetainContext)(context);
    pthread_mutex_lock(&lock);
    if (context && keep) keep_context(context, devices[0]);
    pthread_mutex_unlock(&lock);
    return context;
}

EXPORT cl_int CL_API_CALL clRetainContext(cl_context context) {
    pthread_mutex_lock(&lock);
    kept_context *kept = context_of(context);
    if (kept && kept->users++ == 0) end("a context is retained that was released");
    pthread_mutex_unlock(&lock);
    return kept ? CL_SUCCESS : REAL(clRetainContext)(context);
}

EXPORT cl_int CL_API_CALL clReleaseContext(cl_context context) {
    pthread_mutex_lock(&lock);
    kept_context *kept = context_of(context);
    const bool done = let_go(kept ? &kept->users : NULL, "a context is released too often");
    pthread_mutex_unlock(&lock);
    return done ? CL_SUCCESS : REAL(clReleaseContext)(context);
}

/* Finds a program that nobody uses: devices that share a context build their programs separately. */
static kept_program *find(const kept_context *context, const unsigned char *binary, size_t bytes) {
    kept_program *at = context->programs;
    while (at && (at->users > 0 || at->bytes != bytes || memcmp(at->binary, binary, bytes) != 0)) at = at->next;
    return at;
}

static void keep_program(kept_context *context, cl_program program, const unsigned char *binary, size_t bytes) {
    kept_program *made = calloc(1, sizeof *made + bytes);
    if (!made) return;
    made->next = context->programs;
    made->program = program;
    made->users = 1;
    made->bytes = bytes;
    memcpy(made->binary, binary, bytes);
    context->programs = made;
    (void)REAL(clRetainProgram)(program);
}

EXPORT cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                        const size_t *bytes, const unsigned char **binaries,
                                                        cl_int *states, cl_int *error) {
    pthread_mutex_lock(&lock);
    kept_context *of = keeps() && count == 1 ? context_of(context) : NULL;
    kept_program *kept = of ? find(of, binaries[0], bytes[0]) : NULL;
    if (of && of->users == 0) end("a program is made in a context that was released");
    if (kept) kept->users++;
    pthread_mutex_unlock(&lock);
    if (kept) {
        if (states) *states = CL_SUCCESS;
        if (error) *error = CL_SUCCESS;
        return kept->program;
    }
    cl_int state = CL_SUCCESS;
    if (!states) states = &state;
    cl_program program = REAL(clCreateProgramWithBinary)(context, count, devices, bytes, binaries, states, error);
    if (!of || !program || *states != CL_SUCCESS) return program;
    pthread_mutex_lock(&lock);
    keep_program(of, program, binaries[0], bytes[0]);
    pthread_mutex_unlock(&lock);
    return program;
}

static bool is_built(cl_program program, const char *options) {
    pthread_mutex_lock(&lock);
    const kept_program *kept = program_of(program);
    const bool built = kept && kept->built && strcmp(kept->options, options) == 0;
    if (kept && kept->users == 0) end("a program is built that was released");
    pthread_mutex_unlock(&lock);
    return built;
}

static void note_built(cl_program program, const char *options) {
    pthread_mutex_lock(&lock);
    kept_program *kept = program_of(program);
    if (kept) {
        free(kept->options);
        kept->options = strdup(options);
        kept->built = kept->options != NULL;
    }
    pthread_mutex_unlock(&lock);
}

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                         const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user) {
    const char *same = options ? options : "";
    if (!notify && is_built(program, same)) return CL_SUCCESS;
    const cl_int error = REAL(clBuildProgram)(program, count, devices, options, notify, user);
    if (!notify && error == CL_SUCCESS) note_built(program, same);
    return error;
}

EXPORT cl_int CL_API_CALL clRetainProgram(cl_program program) {
    pthread_mutex_lock(&lock);
    kept_program *kept = program_of(program);
    if (kept && kept->users++ == 0) end("a program is retained that was released");
    pthread_mutex_unlock(&lock);
    return kept ? CL_SUCCESS : REAL(clRetainProgram)(program);
}

EXPORT cl_int CL_API_CALL clReleaseProgram(cl_program program) {
    pthread_mutex_lock(&lock);
    kept_program *kept = program_of(program);
    const bool done = let_go(kept ? &kept->users : NULL, "a program is released too often");
    pthread_mutex_unlock(&lock);
    return done ? CL_SUCCESS : REAL(clReleaseProgram)(program);
}

EXPORT cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *error) {
    pthread_mutex_lock(&lock);
    const kept_program *kept = program_of(program);
    if (kept && kept->users == 0) end("a kernel is made of a program that was released");
    pthread_mutex_unlock(&lock);
    return REAL(clCreateKernel)(program, name, error);
}

/* ---- libraries of kernels ---- */

enum { LIBRARIES = 1 << 14 };

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static struct library {
    char *path;
    void *handle;
} libraries[LIBRARIES]; /* by path; a path's place is the first free one from its hash on */
static void *handles[LIBRARIES];
static unsigned library_count;

/* PoCL names libraries in this way if it compiles for work-groups of any size. */
static bool is_of_kernel(const char *path) { return path && keeps() && strstr(path, "/0-0-0/"); }

static struct library *place_of(const char *path) {
    uint32_t hash = 2166136261u;
    for (const char *c = path; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    uint32_t at = hash % LIBRARIES;
    while (libraries[at].path && strcmp(libraries[at].path, path) != 0) at = (at + 1) % LIBRARIES;
    return &libraries[at];
}

static void **place_of_handle(void *handle) {
    uint32_t at = (uint32_t)((uintptr_t)handle >> 4) % LIBRARIES;
    while (handles[at] && handles[at] != handle) at = (at + 1) % LIBRARIES;
    return &handles[at];
}

EXPORT void *dlopen(const char *path, int flags) {
    if (!is_of_kernel(path)) return REAL(dlopen)(path, flags);
    pthread_mutex_lock(&library_lock);
    void *handle = place_of(path)->handle;
    pthread_mutex_unlock(&library_lock);
    if (handle) {
        (void)dlerror(); /* a successful call leaves no error */
        return handle;
    }
    handle = REAL(dlopen)(path, flags); /* takes the loader's lock, so none of ours may be held */
    pthread_mutex_lock(&library_lock);
    struct library *place = place_of(path);
    char *copy = handle && !place->path && library_count < LIBRARIES / 2 ? strdup(path) : NULL;
    if (copy) {
        library_count++;
        *place = (struct library){copy, handle};
        *place_of_handle(handle) = handle;
    }
    pthread_mutex_unlock(&library_lock);
    return handle;
}

EXPORT int dlclose(void *handle) {
    pthread_mutex_lock(&library_lock);
    const void *found = *place_of_handle(handle);
    pthread_mutex_unlock(&library_lock);
    return found && found == handle ? 0 : REAL(dlclose)(handle);
}
