/* Records what a test uses of OpenCL: the programs that it builds from source and the kernels that it launches, by
 * driver and kind of device. It stands between the program and the loader (LD_PRELOAD), so it sees devices as layers
 * disguise them. It makes no OpenCL call of its own, because layers count calls. Without CLQ_TEST_RECORD=FILE it only
 * passes calls on.
 *
 * It appends lines to FILE, with tabs between the fields, and each launch once per process:
 *     build   DRIVER KIND FILE.cl MILLISECONDS PROGRAM
 *     launch  DRIVER KIND PATH TEST
 *     cpu     TEST SECONDS        of a process that ends by itself, and its threads (CLQ_TEST_NAME: cmake/tests.cmake)
 * A PATH is a kernel and how it was built: "FILE.cl KERNEL -DMACRO…", without macros that are numbers, which are
 * sizes. "fused FUNCTION" is a launch that is part of a fused launch. $CLIQUE_CACHE_DIR/record tells what a binary was
 * built from; the process that built the binary has written it. */
#define _GNU_SOURCE /* RTLD_NEXT; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))real(#name))

enum { TEXT_BYTES = 256, OBJECTS = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Holds the lock across a fork: another thread of the test may be in here. */
static void take_lock(void) { (void)pthread_mutex_lock(&lock); }
static void give_lock(void) { (void)pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void begin(void) { (void)pthread_atfork(take_lock, give_lock, give_lock); }

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        (void)fprintf(stderr, "record: there is no %s below\n", name);
        abort();
    }
    return found;
}

static void write_line(const char *format, ...) {
    char line[8 * TEXT_BYTES];
    const char *path = getenv("CLQ_TEST_RECORD");
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const int file = path && length > 0 ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0) return;
    const size_t bytes = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    if (write(file, line, bytes) < 0) (void)fprintf(stderr, "record: %s: %s\n", path, strerror(errno));
    (void)close(file);
}

/* Writes the time of this process alone: each of its children writes its own line. */
__attribute__((destructor)) static void end(void) {
    struct rusage used;
    const char *test = getenv("CLQ_TEST_NAME");
    if (!test || getrusage(RUSAGE_SELF, &used) != 0) return;
    /* Whole numbers: a test may have a locale with a decimal comma. */
    const long ms = (long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
                    (long)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    write_line("cpu\t%s\t%ld.%03ld\n", test, ms / 1000, ms % 1000);
}

/* ---- what is known of an object ---- */

/* For a program: its file, options and parts. For a device or platform: its driver and name. For others: their
 * owner. */
typedef struct object {
    const void *handle, *owner;
    char first[TEXT_BYTES], second[TEXT_BYTES];
    char *parts; /* of a fused program, separated by blanks */
    bool is_cpu;
} object;

static object *objects[OBJECTS]; /* by handle; what is not found is not recorded */
static uint64_t seen[OBJECTS];

static uint64_t hash_of(const void *data, size_t bytes, uint64_t hash) {
    for (const unsigned char *at = data; bytes > 0; bytes--, at++) hash = (hash ^ *at) * 1099511628211u;
    return hash;
}

/* The object of a handle, made if there is none. `anew`: the handle is used again, for another object. NULL: the table
 * or memory is full. */
static object *note(const void *handle, bool anew) {
    size_t at = (size_t)hash_of(&handle, sizeof handle, 14695981039346656037u) % OBJECTS;
    for (size_t tries = 0; tries < OBJECTS; tries++, at = (at + 1) % OBJECTS) {
        if (objects[at] && objects[at]->handle != handle) continue;
        if (!objects[at]) objects[at] = calloc(1, sizeof **objects);
        if (objects[at] && anew) {
            free(objects[at]->parts);
            *objects[at] = (object){.handle = handle};
        }
        if (objects[at]) objects[at]->handle = handle;
        return objects[at];
    }
    return NULL;
}

static void take(char to[TEXT_BYTES], const char *from, size_t length) {
    if (length >= TEXT_BYTES) length = TEXT_BYTES - 1;
    memcpy(to, from, length);
    to[length] = '\0';
    for (char *c = to; *c; c++)
        if (*c == '\t' || *c == '\n') *c = ' ';
}

static bool is_first(const char *line) {
    const uint64_t hash = hash_of(line, strlen(line), 14695981039346656037u) | 1;
    size_t at = (size_t)(hash >> 16) % OBJECTS;
    for (size_t tries = 0; tries < OBJECTS && seen[at]; tries++, at = (at + 1) % OBJECTS)
        if (seen[at] == hash) return false;
    seen[at] = hash;
    return true;
}

/* Takes a device's name without its model: PoCL's "basic-haswell" is "basic", and a CPU of another driver is "cpu". */
static void take_kind(const object *device, char kind[TEXT_BYTES]) {
    static const char minimal[] = "cpu-minimal";
    const bool is_pocl = strncmp(device->first, minimal, 3) == 0 || strncmp(device->first, "basic", 5) == 0 ||
                         strncmp(device->first, "pthread", 7) == 0;
    if (!is_pocl && device->is_cpu)
        take(kind, "cpu", 3);
    else if (strncmp(device->first, minimal, sizeof minimal - 1) == 0)
        take(kind, minimal, sizeof minimal - 1);
    else
        take(kind, device->first, strcspn(device->first, "-("));
}

static void kind_of(const void *device, char driver[TEXT_BYTES], char kind[TEXT_BYTES]) {
    const object *of_device = note(device, false), *platform = of_device;
    while (of_device && !of_device->first[0] && of_device->owner) of_device = note(of_device->owner, false);
    while (platform && platform->owner) platform = note(platform->owner, false);
    take(kind, "?", 1);
    if (of_device && of_device->first[0]) take_kind(of_device, kind);
    take(driver, platform && platform->first[0] ? platform->first : "?", platform ? strlen(platform->first) : 1);
}

/* ---- names of devices, as the program is told them ---- */

static void note_text(const void *handle, const void *text, size_t bytes) {
    (void)pthread_mutex_lock(&lock);
    object *o = note(handle, false);
    if (o && text) take(o->first, text, strnlen(text, bytes));
    (void)pthread_mutex_unlock(&lock);
}

static void note_type(cl_device_id device, cl_device_type type) {
    (void)pthread_mutex_lock(&lock);
    object *o = note(device, false);
    if (o) o->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    (void)pthread_mutex_unlock(&lock);
}

static void note_owner(const void *handle, const void *owner) {
    (void)pthread_mutex_lock(&lock);
    object *o = note(handle, false);
    if (o && o->owner != owner) o = note(handle, true);
    if (o) o->owner = owner;
    (void)pthread_mutex_unlock(&lock);
}

EXPORT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t bytes, void *out,
                                            size_t *needed) {
    const cl_int error = REAL(clGetPlatformInfo)(platform, what, bytes, out, needed);
    if (error == CL_SUCCESS && what == CL_PLATFORM_NAME && out) note_text(platform, out, bytes);
    return error;
}

EXPORT cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                          size_t *needed) {
    const cl_int error = REAL(clGetDeviceInfo)(device, what, bytes, out, needed);
    if (error == CL_SUCCESS && what == CL_DEVICE_NAME && out) note_text(device, out, bytes);
    if (error == CL_SUCCESS && what == CL_DEVICE_TYPE && out && bytes >= sizeof(cl_device_type))
        note_type(device, *(cl_device_type *)out);
    return error;
}

EXPORT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint most,
                                         cl_device_id *devices, cl_uint *count) {
    cl_uint have = 0;
    const cl_int error = REAL(clGetDeviceIDs)(platform, type, most, devices, &have);
    for (cl_uint i = 0; error == CL_SUCCESS && devices && i < have && i < most; i++) note_owner(devices[i], platform);
    if (count) *count = have;
    return error;
}

EXPORT cl_int CL_API_CALL clCreateSubDevices(cl_device_id device, const cl_device_partition_property *how, cl_uint most,
                                             cl_device_id *devices, cl_uint *count) {
    cl_uint have = 0;
    const cl_int error = REAL(clCreateSubDevices)(device, how, most, devices, &have);
    for (cl_uint i = 0; error == CL_SUCCESS && devices && i < have && i < most; i++) note_owner(devices[i], device);
    if (count) *count = have;
    return error;
}

EXPORT cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                         cl_command_queue_properties properties, cl_int *error) {
    const cl_command_queue queue = REAL(clCreateCommandQueue)(context, device, properties, error);
    if (queue) note_owner(queue, device);
    return queue;
}

/* ---- programs ---- */

/* The functions that a fused kernel calls, as src/launch/fused.c writes the calls: "NAME_3(i % s". */
static char *parts_of(const char *source) {
    char *parts = calloc(strlen(source) + 1, 1), *end = parts;
    for (const char *at = source; parts && (at = strstr(at, "(i % s")); at++) {
        const char *begin = at, *stop = at;
        while (begin > source && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
        while (stop > begin && isdigit((unsigned char)stop[-1])) stop--;
        if (stop <= begin + 1) continue;
        end += sprintf(end, "%.*s ", (int)(stop - 1 - begin), begin);
    }
    return parts;
}

static void describe_source(object *o, cl_uint count, const char **texts, const size_t *lengths) {
    static const char line[] = "#line 1 \"";
    for (cl_uint i = 0; i < count; i++) {
        const size_t length = lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
        const char *name =
            length > sizeof line && strncmp(texts[i], "\n#line 1 \"", sizeof line) == 0 ? texts[i] + sizeof line : NULL;
        if (name) take(o->first, name, strcspn(name, "\""));
        if (!lengths && strstr(texts[i], "kernel CLQ_GROUP_OF_ONE void sequence(")) o->parts = parts_of(texts[i]);
    }
    if (!o->first[0]) take(o->first, "other", 5);
}

EXPORT cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                                        const size_t *lengths, cl_int *error) {
    const cl_program program = REAL(clCreateProgramWithSource)(context, count, texts, lengths, error);
    if (!program || !getenv("CLQ_TEST_RECORD")) return program;
    (void)pthread_mutex_lock(&lock);
    object *o = note(program, true);
    if (o) {
        describe_source(o, count, texts, lengths);
        o->owner = program; /* owner is itself: built from source */
    }
    (void)pthread_mutex_unlock(&lock);
    return program;
}

/* Opens the note of what a binary was built from. The note's name leaves out the binary's first bytes, because the
 * binary's owner may change them (src/device/program/twin.c). The tests have one cache of optimized programs, and one
 * of others: both share the notes. */
static FILE *open_note(const unsigned char *binary, size_t bytes, bool writes) {
    enum { HEADER = 128 };
    static const char unoptimized[] = "-unoptimized";
    char path[4096];
    const char *folder = getenv("CLIQUE_CACHE_DIR");
    if (!folder || bytes <= HEADER) return NULL;
    int length = (int)strlen(folder), suffix = (int)sizeof unoptimized - 1;
    if (length > suffix && strcmp(folder + length - suffix, unoptimized) == 0) length -= suffix;
    (void)snprintf(path, sizeof path, "%.*s", length, folder);
    if (writes) (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%.*s/record", length, folder);
    if (writes) (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%.*s/record/%016llx", length, folder,
                   (unsigned long long)hash_of(binary + HEADER, bytes - HEADER, 14695981039346656037u));
    return fopen(path, writes ? "we" : "re");
}

EXPORT cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                        const size_t *bytes, const unsigned char **binaries,
                                                        cl_int *states, cl_int *error) {
    const cl_program program = REAL(clCreateProgramWithBinary)(context, count, devices, bytes, binaries, states, error);
    if (!program || !getenv("CLQ_TEST_RECORD")) return program;
    FILE *file = count == 1 ? open_note(binaries[0], bytes[0], false) : NULL;
    (void)pthread_mutex_lock(&lock);
    object *o = note(program, true);
    char *line = NULL;
    size_t room = 0;
    if (o) take(o->first, "unknown", 7);
    if (o && file && getline(&line, &room, file) > 0) take(o->first, line, strcspn(line, "\n"));
    if (o && file && getline(&line, &room, file) > 0) o->parts = line, line = NULL;
    (void)pthread_mutex_unlock(&lock);
    free(line);
    if (file) (void)fclose(file);
    return program;
}

EXPORT cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t bytes, void *out,
                                           size_t *needed) {
    const cl_int error = REAL(clGetProgramInfo)(program, what, bytes, out, needed);
    if (error != CL_SUCCESS || what != CL_PROGRAM_BINARIES || !out || !getenv("CLQ_TEST_RECORD")) return error;
    size_t sizes[TEXT_BYTES] = {0};
    if (REAL(clGetProgramInfo)(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS) return error;
    (void)pthread_mutex_lock(&lock);
    const object *o = note(program, false);
    for (size_t i = 0; o && o->first[0] && i < bytes / sizeof(void *); i++) {
        const unsigned char *binary = ((unsigned char **)out)[i];
        FILE *file = binary ? open_note(binary, sizes[i], true) : NULL;
        if (!file) continue;
        (void)fprintf(file, "%s\n%s%s", o->first, o->parts ? o->parts : "", o->parts ? "\n" : "");
        (void)fclose(file);
    }
    (void)pthread_mutex_unlock(&lock);
    return error;
}

/* Keeps the macros whose values are words, or that have none. A number is a size, or a choice among many similar
 * ones. */
static void class_of(const char *options, char out[TEXT_BYTES]) {
    size_t end = 0;
    out[0] = '\0';
    for (const char *at = options; at && (at = strstr(at, "-D")); at++) {
        const size_t length = strcspn(at, " "), name = strcspn(at, " =");
        const bool is_number = name < length && (isdigit((unsigned char)at[name + 1]) || at[name + 1] == '-');
        if (!is_number && strncmp(at, "-DCLQ_", 6) != 0 && end + length + 2 < TEXT_BYTES)
            end += (size_t)sprintf(out + end, " %.*s", (int)length, at);
    }
}

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                         const char *options, void(CL_CALLBACK *told)(cl_program, void *), void *user) {
    struct timespec from, to;
    char driver[TEXT_BYTES] = "?", kind[TEXT_BYTES] = "?";
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    const cl_int error = REAL(clBuildProgram)(program, count, devices, options, told, user);
    if (!getenv("CLQ_TEST_RECORD")) return error;
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    (void)pthread_mutex_lock(&lock);
    object *o = note(program, false);
    if (o) class_of(options, o->second);
    if (count > 0) kind_of(devices[0], driver, kind);
    if (o && o->owner == program)
        write_line("build\t%s\t%s\t%s\t%.0f\t%s\n", driver, kind, o->first,
                   (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6,
                   program_invocation_short_name);
    (void)pthread_mutex_unlock(&lock);
    return error;
}

/* ---- kernels ---- */

EXPORT cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *error) {
    const cl_kernel kernel = REAL(clCreateKernel)(program, name, error);
    if (!kernel || !getenv("CLQ_TEST_RECORD")) return kernel;
    note_owner(kernel, program);
    note_text(kernel, name, TEXT_BYTES - 1);
    return kernel;
}

static void tell_launch(const char *driver, const char *kind, const char *path) {
    char line[6 * TEXT_BYTES];
    const char *test = getenv("CLQ_TEST_NAME");
    (void)snprintf(line, sizeof line, "launch\t%s\t%s\t%s\t%s\n", driver, kind, path, test ? test : "?");
    if (is_first(line)) write_line("%s", line);
}

static void tell_parts(const char *driver, const char *kind, const char *parts) {
    char path[TEXT_BYTES];
    for (const char *at = parts; *at && *at != '\n'; at += strcspn(at, " \n") + 1) {
        (void)snprintf(path, sizeof path, "fused %.*s", (int)strcspn(at, " \n"), at);
        tell_launch(driver, kind, path);
    }
}

static void record_launch(cl_command_queue queue, cl_kernel kernel) {
    char driver[TEXT_BYTES], kind[TEXT_BYTES], path[3 * TEXT_BYTES + 8];
    (void)pthread_mutex_lock(&lock);
    const object *of_kernel = note(kernel, false), *of_queue = note(queue, false);
    const object *program = of_kernel && of_kernel->owner ? note(of_kernel->owner, false) : NULL;
    if (program && of_queue && of_queue->owner) {
        kind_of(of_queue->owner, driver, kind);
        (void)snprintf(path, sizeof path, "%s %s%s", program->first, of_kernel->first, program->second);
        tell_launch(driver, kind, path);
        if (program->parts) tell_parts(driver, kind, program->parts);
    }
    (void)pthread_mutex_unlock(&lock);
}

EXPORT cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                 const size_t *offset, const size_t *global, const size_t *local,
                                                 cl_uint count, const cl_event *wait, cl_event *event) {
    if (getenv("CLQ_TEST_RECORD")) record_launch(queue, kernel);
    return REAL(clEnqueueNDRangeKernel)(queue, kernel, dims, offset, global, local, count, wait, event);
}
