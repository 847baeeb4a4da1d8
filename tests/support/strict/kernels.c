/* Kernels. The layer copies the arguments when a launch is enqueued, and sets them in the driver when the launch is
 * executed. One launch runs in the driver at a time: PoCL before 7.0 confuses kernels that are loaded twice
 * (src/device/program/twin.c), and the disguise hides from the library that this is PoCL. */
#include "support/strict/layer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t magic = 0x5354524943544B4E; /* "STRICTKN" */
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;

typedef struct argument {
    bool set, may_be_written, is_local;
    size_t bytes;
    void *value;   /* a copy; NULL: local memory, or a null buffer */
    cl_mem memory; /* held */
} argument;

struct _cl_kernel {
    const struct _cl_icd_dispatch *dispatch;
    uint64_t magic;
    atomic_uint references;
    cl_kernel asked, run; /* the driver's: one answers and checks, the other runs */
    const strict_context *in;
    cl_ulong own_local_bytes; /* local memory besides the arguments */
    cl_uint count;
    argument *arguments;
};

typedef struct strict_launch {
    cl_kernel kernel;
    argument *arguments;
    cl_uint dims;
    size_t offset[3], global[3], local[3];
    bool has_local, has_offset;
} strict_launch;

static bool is_kernel(cl_kernel kernel) { return kernel && kernel->magic == magic; }

static void argument_drop(argument *a) {
    if (a->memory) strict_memory_release(a->memory);
    free(a->value);
    *a = (argument){.may_be_written = a->may_be_written, .is_local = a->is_local};
}

static argument argument_copy(const argument *a) {
    argument copy = *a;
    if (a->memory) strict_memory_retain(a->memory);
    if (a->value) {
        copy.value = strict_alloc(a->bytes, 1);
        memcpy(copy.value, a->value, a->bytes);
    }
    return copy;
}

/* ---- objects ---- */

static void release_kernel(cl_kernel kernel) {
    if (atomic_fetch_sub(&kernel->references, 1) != 1) return;
    kernel->magic = 0;
    for (cl_uint i = 0; i < kernel->count; i++) argument_drop(&kernel->arguments[i]);
    (void)strict_driver->clReleaseKernel(kernel->asked);
    (void)strict_driver->clReleaseKernel(kernel->run);
    free(kernel->arguments);
    free(kernel);
}

static bool may_be_written(cl_kernel real, cl_uint index) {
    cl_kernel_arg_type_qualifier qualifier = 0;
    return strict_driver->clGetKernelArgInfo(real, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier, &qualifier,
                                             NULL) != CL_SUCCESS ||
           !(qualifier & CL_KERNEL_ARG_TYPE_CONST);
}

/* If the driver does not tell, an argument without a value counts as local memory. */
static bool may_be_local(cl_kernel real, cl_uint index) {
    cl_kernel_arg_address_qualifier qualifier = 0;
    return strict_driver->clGetKernelArgInfo(real, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof qualifier, &qualifier,
                                             NULL) != CL_SUCCESS ||
           qualifier == CL_KERNEL_ARG_ADDRESS_LOCAL;
}

static cl_kernel CL_API_CALL create(cl_program program, const char *name, cl_int *error) {
    cl_context context = NULL;
    cl_kernel asked = strict_driver->clCreateKernel(program, name, error), run = NULL;
    if (asked) run = strict_driver->clCreateKernel(program, name, error);
    if (!run) {
        if (asked) (void)strict_driver->clReleaseKernel(asked);
        return NULL;
    }
    (void)strict_driver->clGetKernelInfo(asked, CL_KERNEL_CONTEXT, sizeof context, &context, NULL);
    cl_kernel kernel = strict_alloc(1, sizeof *kernel);
    *kernel = (struct _cl_kernel){
        .dispatch = strict_calls, .magic = magic, .asked = asked, .run = run, .in = strict_context_of(context)};
    atomic_init(&kernel->references, 1);
    (void)strict_driver->clGetKernelInfo(asked, CL_KERNEL_NUM_ARGS, sizeof kernel->count, &kernel->count, NULL);
    kernel->arguments = strict_alloc(kernel->count, sizeof *kernel->arguments);
    for (cl_uint i = 0; i < kernel->count; i++) {
        kernel->arguments[i].may_be_written = may_be_written(asked, i);
        kernel->arguments[i].is_local = may_be_local(asked, i);
    }
    (void)strict_driver->clGetKernelWorkGroupInfo(asked, kernel->in->devices[0]->id, CL_KERNEL_LOCAL_MEM_SIZE,
                                                  sizeof kernel->own_local_bytes, &kernel->own_local_bytes, NULL);
    return kernel;
}

static cl_int CL_API_CALL retain(cl_kernel kernel) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    atomic_fetch_add(&kernel->references, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release(cl_kernel kernel) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    release_kernel(kernel);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    cl_mem memory = NULL;
    if (value && bytes == sizeof memory) memcpy((void *)&memory, value, sizeof memory);
    if (memory && !strict_is_memory(memory)) memory = NULL; /* a number of that size */
    const void *real = memory ? (const void *)&memory->real[0] : value;
    cl_int error = strict_driver->clSetKernelArg(kernel->asked, index, bytes, real);
    if (error != CL_SUCCESS) return error;
    argument *a = &kernel->arguments[index];
    argument_drop(a);
    a->set = true;
    a->bytes = bytes;
    if (memory) {
        strict_memory_retain(memory);
        a->memory = memory;
    } else if (value) {
        a->value = strict_alloc(bytes, 1);
        memcpy(a->value, value, bytes);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_info(cl_kernel kernel, cl_kernel_info what, size_t room, void *out, size_t *needed) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    return strict_driver->clGetKernelInfo(kernel->asked, what, room, out, needed);
}

static cl_int CL_API_CALL get_argument_info(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t room,
                                            void *out, size_t *needed) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    return strict_driver->clGetKernelArgInfo(kernel->asked, index, what, room, out, needed);
}

static cl_int CL_API_CALL get_group_info(cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info what, size_t room,
                                         void *out, size_t *needed) {
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    const strict_device *device = id ? strict_device_of(id) : kernel->in->devices[0];
    cl_int error = strict_driver->clGetKernelWorkGroupInfo(kernel->asked, id, what, room, out, needed);
    size_t most;
    if (error != CL_SUCCESS || !out || what != CL_KERNEL_WORK_GROUP_SIZE) return error;
    memcpy(&most, out, sizeof most);
    if (most > strict_group_limit(device)) most = strict_group_limit(device);
    memcpy(out, &most, sizeof most);
    return CL_SUCCESS;
}

/* ---- launches ---- */

static cl_int migrate_arguments(const strict_command *c) {
    const strict_launch *launch = c->launch;
    for (cl_uint i = 0; i < launch->kernel->count; i++) {
        const argument *a = &launch->arguments[i];
        if (!a->memory) continue;
        bool writes = a->may_be_written && !(a->memory->flags & CL_MEM_READ_ONLY);
        cl_int error = strict_migrate(a->memory, c->queue, writes);
        if (error != CL_SUCCESS) return error;
    }
    return CL_SUCCESS;
}

static cl_int set_arguments(const strict_command *c) {
    const strict_launch *launch = c->launch;
    for (cl_uint i = 0; i < launch->kernel->count; i++) {
        const argument *a = &launch->arguments[i];
        cl_mem real = a->memory ? strict_memory_copy(a->memory, c->queue->device) : NULL;
        const void *value = a->memory ? (const void *)&real : a->value;
        cl_int error = strict_driver->clSetKernelArg(launch->kernel->run, i, a->bytes, value);
        if (error != CL_SUCCESS) return error;
    }
    return CL_SUCCESS;
}

static cl_int run_launch(strict_command *c) {
    const strict_launch *launch = c->launch;
    cl_int error = migrate_arguments(c);
    if (error != CL_SUCCESS) return error;
    strict_dawdle(c);
    pthread_mutex_lock(&launching);
    strict_below(c->queue->device);
    error = set_arguments(c);
    if (error == CL_SUCCESS)
        error = strict_driver->clEnqueueNDRangeKernel(c->queue->real, launch->kernel->run, launch->dims,
                                                      launch->has_offset ? launch->offset : NULL, launch->global,
                                                      launch->has_local ? launch->local : NULL, 0, NULL, NULL);
    cl_int ended = strict_driver->clFinish(c->queue->real);
    strict_above(c->queue->device);
    pthread_mutex_unlock(&launching);
    return error != CL_SUCCESS ? error : ended;
}

static void drop_launch(strict_command *c) {
    strict_launch *launch = c->launch;
    for (cl_uint i = 0; i < launch->kernel->count; i++) argument_drop(&launch->arguments[i]);
    release_kernel(launch->kernel);
    free(launch->arguments);
    free(launch);
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

/* Sets the global offset, which the code that programs.c added to the program reads. It tells how work-groups are
 * renumbered (group g of n becomes (a * g + b) % n; a = 0: unchanged), and how many words of local memory to fill. */
static void set_offset(strict_launch *launch, cl_command_queue queue) {
    enum { BITS = 20, FILLS = 60 };
    const uint64_t most = (1u << BITS) - 1;
    const uint64_t number = atomic_fetch_add(&queue->launches, 1);
    launch->has_offset = strict_options.order || strict_options.nan;
    for (cl_uint d = 0; d < launch->dims && strict_options.order && launch->has_local; d++) {
        const uint64_t groups = launch->global[d] / launch->local[d], stream = queue->number * 4u + d + 1;
        if (groups < 2 || groups > most) continue;
        uint64_t turn = number * 64, a = 0;
        while (a == 0 || divisor(a, groups) != 1) a = strict_random(stream, turn++, groups - 1);
        launch->offset[d] = a << BITS | strict_random(stream, turn, groups - 1);
    }
    if (!strict_options.nan) return;
    uint64_t words = 0;
    for (cl_uint i = 0; i < launch->kernel->count && words == 0; i++) {
        const argument *a = &launch->arguments[i];
        if (a->set && !a->memory && !a->value && a->bytes > sizeof(cl_mem)) words = a->bytes / 4;
    }
    launch->offset[0] |= (uint64_t)1 << FILLS | (words > most ? most : words) << (2 * BITS);
}

/* Drivers differ in whether CL_KERNEL_LOCAL_MEM_SIZE includes the arguments that are set (PoCL 3.1 does, 6.0 does not).
 * So `create` asks for own_local_bytes before any argument is set. */
static cl_ulong local_bytes_of(cl_kernel kernel) {
    cl_ulong bytes = kernel->own_local_bytes;
    for (cl_uint i = 0; i < kernel->count; i++) {
        const argument *a = &kernel->arguments[i];
        if (a->is_local && !a->value && !a->memory) bytes += a->bytes;
    }
    return bytes;
}

static cl_int check_limits(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *local) {
    const strict_device *device = queue->device;
    const cl_ulong local_bytes = local_bytes_of(kernel);
    size_t items = 1;
    for (cl_uint d = 0; local && d < dims; d++) items *= local[d];
    if (!local) strict_counted(device, STRICT_NULL_LOCALS);
    bool too_many = items > strict_group_limit(device), too_much = local_bytes > strict_local_limit(device);
    if (too_many || too_much) strict_counted(device, STRICT_LIMITS);
    return too_many ? CL_INVALID_WORK_GROUP_SIZE : too_much ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int check(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,
                    const size_t *local) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    if (!is_kernel(kernel)) return CL_INVALID_KERNEL;
    if (kernel->in->handle != queue->context) return CL_INVALID_CONTEXT;
    if (dims < 1 || dims > 3) return CL_INVALID_WORK_DIMENSION;
    if (!global) return CL_INVALID_GLOBAL_WORK_SIZE;
    if (offset && queue->device->kind) strict_die("disguised devices use the global offset for themselves");
    for (cl_uint d = 0; d < dims; d++)
        if (local && (local[d] == 0 || global[d] % local[d] != 0)) return CL_INVALID_WORK_GROUP_SIZE;
    for (cl_uint i = 0; i < kernel->count; i++)
        if (!kernel->arguments[i].set) return CL_INVALID_KERNEL_ARGS;
    return check_limits(queue, kernel, dims, local);
}

static cl_int CL_API_CALL enqueue_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                         const size_t *global, const size_t *local, cl_uint count,
                                         const cl_event *waits, cl_event *event) {
    cl_int error = check(queue, kernel, dims, offset, global, local);
    if (error != CL_SUCCESS) return error;
    strict_counted(queue->device, STRICT_LAUNCHES);
    strict_launch *launch = strict_alloc(1, sizeof *launch);
    *launch = (strict_launch){.kernel = kernel, .dims = dims, .has_local = local != NULL, .has_offset = offset != NULL};
    for (cl_uint d = 0; d < dims; d++) {
        launch->global[d] = global[d];
        if (local) launch->local[d] = local[d];
        if (offset) launch->offset[d] = offset[d];
    }
    (void)retain(kernel);
    launch->arguments = strict_alloc(kernel->count, sizeof *launch->arguments);
    for (cl_uint i = 0; i < kernel->count; i++) launch->arguments[i] = argument_copy(&kernel->arguments[i]);
    if (queue->device->kind) set_offset(launch, queue);
    strict_command *command = strict_command_create(queue, CL_COMMAND_NDRANGE_KERNEL, run_launch);
    command->launch = launch;
    command->drop = drop_launch;
    return strict_enqueue(command, false, count, waits, event);
}

void strict_kernels_install(struct _cl_icd_dispatch *calls) {
    calls->clCreateKernel = create;
    calls->clRetainKernel = retain;
    calls->clReleaseKernel = release;
    calls->clSetKernelArg = set_argument;
    calls->clGetKernelInfo = get_info;
    calls->clGetKernelArgInfo = get_argument_info;
    calls->clGetKernelWorkGroupInfo = get_group_info;
    calls->clEnqueueNDRangeKernel = enqueue_launch;
}
