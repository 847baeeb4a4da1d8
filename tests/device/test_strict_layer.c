/* The strict layer of the tests (tests/support/strict) is on, and a small program that breaks a rule shows each of its
 * checks. The programs call OpenCL themselves, because the library does not break these rules. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "support/check.h"
#include "support/strict.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { NVIDIAS = 2, WORDS = 256, ILLEGAL_ACCESS = -9999 };

static strict layer;

typedef struct rig {
    cl_device_id ids[NVIDIAS];
    cl_context context;
    cl_command_queue queues[NVIDIAS];
} rig;

static void must(cl_int error) {
    if (error != CL_SUCCESS) fail_msg("OpenCL error %d", (int)error);
}

static void configure(const char *words) {
    char all[256];
    (void)snprintf(all, sizeof all, "disguise=nnaai- seed=1 %s", words);
    assert_int_equal(layer.configure(all), 0);
    layer.reset();
}

static cl_platform_id platform(const char *name) {
    cl_platform_id list[16];
    cl_uint count = 0;
    must(clGetPlatformIDs(CLQ_COUNT_OF(list), list, &count));
    for (cl_uint i = 0; i < count; i++) {
        char text[128] = "";
        must(clGetPlatformInfo(list[i], CL_PLATFORM_NAME, sizeof text, text, NULL));
        if (strcmp(text, name) == 0) return list[i];
    }
    fail_msg("there is no platform %s: the layer is not on", name);
    return NULL;
}

static rig rig_open(const char *words) {
    rig r;
    cl_int error;
    cl_uint count = 0;
    configure(words);
    must(clGetDeviceIDs(platform("NVIDIA CUDA"), CL_DEVICE_TYPE_GPU, NVIDIAS, r.ids, &count));
    assert_int_equal(count, NVIDIAS);
    r.context = clCreateContext(NULL, NVIDIAS, r.ids, NULL, NULL, &error);
    must(error);
    for (unsigned i = 0; i < NVIDIAS; i++) {
        r.queues[i] = clCreateCommandQueue(r.context, r.ids[i], CL_QUEUE_PROFILING_ENABLE, &error);
        must(error);
    }
    layer.reset();
    return r;
}

static void rig_close(rig *r) {
    for (unsigned i = 0; i < NVIDIAS; i++) must(clReleaseCommandQueue(r->queues[i]));
    must(clReleaseContext(r->context));
}

static cl_mem buffer(const rig *r, cl_mem_flags flags, size_t bytes) {
    cl_int error;
    cl_mem memory = clCreateBuffer(r->context, flags, bytes, NULL, &error);
    must(error);
    return memory;
}

static cl_kernel kernel(const rig *r, const char *source) {
    cl_int error;
    cl_program program = clCreateProgramWithSource(r->context, 1, &source, NULL, &error);
    must(error);
    must(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    cl_kernel made = clCreateKernel(program, "work", &error);
    must(error);
    must(clReleaseProgram(program));
    return made;
}

static cl_int state(cl_event event) {
    cl_int status;
    must(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    return status;
}

/* Waits long enough for a command to start that must not start yet. */
static void linger(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }

/* ---- facts ---- */

static void disguises(void **unused) {
    (void)unused;
    const struct {
        const char *platform, *name;
        cl_uint count, units;
        size_t group;
        cl_ulong local;
    } kinds[] = {{"NVIDIA CUDA", "NVIDIA H100 80GB HBM3", 2, 132, 1024, 49152},
                 {"AMD Accelerated Parallel Processing", "gfx90a", 2, 104, 256, 65536},
                 {"Intel(R) OpenCL Graphics", "Intel(R) Arc(TM) A770 Graphics", 1, 512, 512, 65536}};
    configure("");
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) {
        cl_device_id ids[4];
        cl_uint count, units;
        cl_bool unified;
        cl_ulong local;
        size_t group;
        char name[128];
        must(clGetDeviceIDs(platform(kinds[i].platform), CL_DEVICE_TYPE_GPU, 4, ids, &count));
        assert_int_equal(count, kinds[i].count);
        must(clGetDeviceInfo(ids[0], CL_DEVICE_NAME, sizeof name, name, NULL));
        must(clGetDeviceInfo(ids[0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
        must(clGetDeviceInfo(ids[0], CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL));
        must(clGetDeviceInfo(ids[0], CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL));
        must(clGetDeviceInfo(ids[0], CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL));
        assert_string_equal(name, kinds[i].name);
        assert_int_equal(units, kinds[i].units);
        assert_int_equal(group, kinds[i].group);
        assert_int_equal(local, kinds[i].local);
        assert_false(unified);
    }
    cl_device_id left;
    must(clGetDeviceIDs(platform("Portable Computing Language"), CL_DEVICE_TYPE_CPU, 1, &left, NULL));
}

static void addresses(void **unused) {
    (void)unused;
    enum { BUS_NV = 0x4008 };
    for (unsigned same = 0; same < 2; same++) {
        cl_uint bus[NVIDIAS];
        rig r = rig_open(same ? "same_pci" : "");
        for (unsigned i = 0; i < NVIDIAS; i++) must(clGetDeviceInfo(r.ids[i], BUS_NV, sizeof bus[i], &bus[i], NULL));
        assert_int_equal(bus[0] == bus[1], same);
        rig_close(&r);
    }
}

static void platforms_share_no_context(void **unused) {
    (void)unused;
    cl_device_id ids[2];
    cl_int error;
    configure("");
    must(clGetDeviceIDs(platform("NVIDIA CUDA"), CL_DEVICE_TYPE_GPU, 1, &ids[0], NULL));
    must(clGetDeviceIDs(platform("Intel(R) OpenCL Graphics"), CL_DEVICE_TYPE_GPU, 1, &ids[1], NULL));
    assert_null(clCreateContext(NULL, 2, ids, NULL, NULL, &error));
    assert_int_equal(error, CL_INVALID_DEVICE);
}

static void nothing_after_version_1_2(void **unused) {
    (void)unused;
    rig r = rig_open("");
    assert_null(clSVMAlloc(r.context, CL_MEM_READ_WRITE, 64, 0));
    assert_int_equal(layer.count(0, STRICT_LATER), 1);
    rig_close(&r);
}

/* ---- queues and events ---- */

static void commands_are_held_until_a_flush(void **unused) {
    (void)unused;
    rig r = rig_open("hold");
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, sizeof(cl_uint));
    cl_uint wrote = 7, read = 0;
    cl_event event;
    must(clEnqueueWriteBuffer(r.queues[0], memory, CL_FALSE, 0, sizeof wrote, &wrote, 0, NULL, &event));
    linger();
    assert_int_equal(state(event), CL_QUEUED);
    wrote = 8; /* a program must not do this: the write takes the bytes that lie there when the command runs */
    must(clFlush(r.queues[0]));
    must(clWaitForEvents(1, &event));
    assert_int_equal(state(event), CL_COMPLETE);
    must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof read, &read, 0, NULL, NULL));
    assert_int_equal(read, 8);
    must(clReleaseEvent(event));
    must(clReleaseMemObject(memory));
    rig_close(&r);
}

static void unflushed_waits_are_counted_and_not_helped(void **unused) {
    (void)unused;
    rig r = rig_open("hold");
    cl_event first, second;
    must(clEnqueueMarkerWithWaitList(r.queues[0], 0, NULL, &first));
    must(clEnqueueMarkerWithWaitList(r.queues[1], 1, &first, &second));
    assert_int_equal(layer.count(1, STRICT_UNFLUSHED), 1);
    must(clFlush(r.queues[1]));
    linger();
    assert_true(state(second) > CL_COMPLETE);
    must(clFlush(r.queues[0]));
    must(clEnqueueMarkerWithWaitList(r.queues[1], 1, &first, NULL));
    must(clWaitForEvents(1, &second));
    must(clFinish(r.queues[1]));
    assert_int_equal(layer.count(-1, STRICT_UNFLUSHED), 1);
    must(clReleaseEvent(second));
    must(clReleaseEvent(first));
    rig_close(&r);
}

typedef struct called {
    pthread_t from;
    atomic_int status;
} called;

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *to) {
    called *c = to;
    (void)event;
    c->from = pthread_self();
    atomic_store(&c->status, status);
}

static void callbacks_come_late_from_other_threads(void **unused) {
    (void)unused;
    rig r = rig_open("hold callback_us=2000");
    called c = {.status = CL_QUEUED};
    cl_event event;
    must(clEnqueueMarkerWithWaitList(r.queues[0], 0, NULL, &event));
    must(clSetEventCallback(event, CL_COMPLETE, on_event, &c));
    assert_int_equal(layer.count(0, STRICT_UNFLUSHED), 1);
    must(clFlush(r.queues[0]));
    for (int i = 0; i < 2000 && atomic_load(&c.status) != CL_COMPLETE; i++) linger();
    assert_int_equal(atomic_load(&c.status), CL_COMPLETE);
    assert_false(pthread_equal(c.from, pthread_self()));
    must(clReleaseEvent(event));
    rig_close(&r);
}

static void host_events_gate_commands(void **unused) {
    (void)unused;
    for (cl_int end = CL_COMPLETE; end >= -1; end--) {
        rig r = rig_open("hold");
        cl_int error;
        cl_event gate = clCreateUserEvent(r.context, &error), gated, behind;
        must(error);
        must(clEnqueueMarkerWithWaitList(r.queues[0], 1, &gate, &gated));
        must(clEnqueueMarkerWithWaitList(r.queues[0], 0, NULL, &behind));
        must(clFlush(r.queues[0]));
        linger();
        assert_true(state(gated) > CL_COMPLETE);
        must(clSetUserEventStatus(gate, end));
        must(clFinish(r.queues[0]));
        cl_int expected = end == CL_COMPLETE ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        assert_int_equal(state(gated), expected);
        assert_int_equal(state(behind), expected);
        must(clReleaseEvent(gated));
        must(clReleaseEvent(behind));
        must(clReleaseEvent(gate));
        rig_close(&r);
    }
}

/* The command's run time, in nanoseconds of the device's clock. */
static cl_ulong duration(cl_event event) {
    cl_ulong begin, end;
    must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL));
    must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    return end - begin;
}

static void delays_take_time(void **unused) {
    (void)unused;
    rig r = rig_open("delay_us=3000 slow=0:50");
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, WORDS);
    cl_ulong most = 0;
    for (int i = 0; i < 8; i++) {
        char bytes[WORDS];
        cl_event event;
        must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL, &event));
        most = CLQ_MAX(most, duration(event));
        must(clReleaseEvent(event));
    }
    assert_true(most > 3000000); /* more than the longest delay, because the device is slow as well */
    must(clReleaseMemObject(memory));
    rig_close(&r);
}

/* ---- memory ---- */

static void write_word(const rig *r, unsigned device, cl_mem memory, size_t at, const cl_uint *word) {
    must(clEnqueueWriteBuffer(r->queues[device], memory, CL_FALSE, at * sizeof *word, sizeof *word, word, 0, NULL,
                              NULL));
    must(clFlush(r->queues[device]));
}

static void disjoint_writes_of_two_devices_are_lost(void **unused) {
    (void)unused;
    const cl_uint wrote[NVIDIAS] = {11, 22}, zeros[NVIDIAS] = {0};
    for (unsigned migrates = 0; migrates < 2; migrates++) {
        rig r = rig_open(migrates ? "hold migrate" : "hold");
        cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, sizeof wrote);
        cl_uint read[NVIDIAS];
        must(clEnqueueWriteBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof zeros, zeros, 0, NULL, NULL));
        layer.meet(NVIDIAS);
        for (unsigned i = 0; i < NVIDIAS; i++) write_word(&r, i, memory, i, &wrote[i]);
        for (unsigned i = 0; i < NVIDIAS; i++) must(clFinish(r.queues[i]));
        must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof read, read, 0, NULL, NULL));
        assert_int_equal((read[0] == wrote[0]) + (read[1] == wrote[1]), migrates ? 1 : 2);
        assert_int_equal(layer.count(-1, STRICT_MIGRATIONS) > 0, migrates);
        must(clReleaseMemObject(memory));
        rig_close(&r);
    }
}

/* If the devices write one after the other, both writes are kept, through views as well. */
static void ordered_writes_of_two_devices_are_kept(void **unused) {
    (void)unused;
    rig r = rig_open("hold migrate");
    const cl_uint wrote[NVIDIAS] = {11, 22};
    const size_t align = 512;
    cl_uint read;
    cl_int error;
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, 2 * align);
    const cl_buffer_region region = {align, align};
    cl_mem view = clCreateSubBuffer(memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    must(error);
    write_word(&r, 0, memory, 0, &wrote[0]);
    must(clFinish(r.queues[0]));
    write_word(&r, 1, view, 0, &wrote[1]);
    must(clFinish(r.queues[1]));
    must(clEnqueueReadBuffer(r.queues[1], memory, CL_TRUE, 0, sizeof read, &read, 0, NULL, NULL));
    assert_int_equal(read, wrote[0]);
    must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, align, sizeof read, &read, 0, NULL, NULL));
    assert_int_equal(read, wrote[1]);
    must(clReleaseMemObject(view));
    must(clReleaseMemObject(memory));
    rig_close(&r);
}

static void mapped_memory_is_a_copy(void **unused) {
    (void)unused;
    rig r = rig_open("hold");
    cl_int error;
    cl_uint word = 5;
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, sizeof word);
    must(clEnqueueWriteBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL));
    cl_uint *mapped = clEnqueueMapBuffer(r.queues[0], memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, sizeof word, 0,
                                         NULL, NULL, &error);
    must(error);
    assert_int_equal(*mapped, 5);
    *mapped = 6;
    must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL));
    assert_int_equal(word, 5);
    must(clEnqueueUnmapMemObject(r.queues[0], memory, mapped, 0, NULL, NULL));
    must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL));
    assert_int_equal(word, 6);
    must(clReleaseMemObject(memory));
    rig_close(&r);
}

static void transfers_are_counted_by_their_host_memory(void **unused) {
    (void)unused;
    rig here = rig_open("hold"), there = rig_open("hold");
    cl_int error;
    cl_uint pageable = 0;
    const size_t bytes = sizeof pageable;
    cl_mem memory = buffer(&here, CL_MEM_READ_WRITE, bytes);
    cl_mem pinned[2] = {buffer(&here, CL_MEM_ALLOC_HOST_PTR, bytes), buffer(&there, CL_MEM_ALLOC_HOST_PTR, bytes)};
    const rig *owners[2] = {&here, &there};
    void *mapped[2];
    for (int i = 0; i < 2; i++) {
        mapped[i] =
            clEnqueueMapBuffer(owners[i]->queues[0], pinned[i], CL_TRUE, CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &error);
        must(error);
        must(clEnqueueReadBuffer(here.queues[0], memory, CL_FALSE, 0, bytes, mapped[i], 0, NULL, NULL));
    }
    assert_int_equal(layer.count(-1, STRICT_PAGEABLE), 0);
    assert_int_equal(layer.count(-1, STRICT_FOREIGN_PINNED), 1);
    must(clEnqueueWriteBuffer(here.queues[0], memory, CL_FALSE, 0, bytes, &pageable, 0, NULL, NULL));
    assert_int_equal(layer.count(-1, STRICT_PAGEABLE), 1);
    must(clEnqueueWriteBuffer(here.queues[0], memory, CL_TRUE, 0, bytes, &pageable, 0, NULL, NULL));
    must(clEnqueueReadBuffer(here.queues[0], memory, CL_TRUE, 0, bytes, &pageable, 0, NULL, NULL));
    assert_int_equal(layer.count(-1, STRICT_PAGEABLE), 1);
    assert_int_equal(layer.count(-1, STRICT_BLOCKING_WRITES), 1);
    assert_int_equal(layer.count(-1, STRICT_BLOCKING_READS), 1);
    for (int i = 0; i < 2; i++) {
        must(clEnqueueUnmapMemObject(owners[i]->queues[0], pinned[i], mapped[i], 0, NULL, NULL));
        must(clFinish(owners[i]->queues[0]));
        must(clReleaseMemObject(pinned[i]));
    }
    must(clReleaseMemObject(memory));
    rig_close(&there);
    rig_close(&here);
}

/* ---- kernels ---- */

static void launch(const rig *r, cl_kernel k, size_t global, size_t local, cl_mem memory, cl_uint *out) {
    must(clSetKernelArg(k, 0, sizeof memory, (const void *)&memory));
    must(clEnqueueNDRangeKernel(r->queues[0], k, 1, NULL, &global, &local, 0, NULL, NULL));
    must(clEnqueueReadBuffer(r->queues[0], memory, CL_TRUE, 0, WORDS * sizeof *out, out, 0, NULL, NULL));
}

static void memory_begins_as_nan(void **unused) {
    (void)unused;
    static const char source[] = "#define ARRAYS local float a[4] __attribute__((aligned(16))); local ushort b[8]\n"
                                 "/* kernel void no(local float *comment) { */\n"
                                 "kernel void work(global uint *out, local float *c) {\n"
                                 "    ARRAYS;\n"
                                 "    size_t i = get_local_id(0);\n"
                                 "    uint bad = isnan(a[i]) + 2 * isnan(vload_half(i, (local half *)b)) + 4 * "
                                 "isnan(c[i]) + 8 * isnan(as_float(out[i]));\n"
                                 "    a[i] = c[i] = 1.0f;\n"
                                 "    out[get_global_id(0) + 4] = bad;\n"
                                 "}\n";
    rig r = rig_open("hold nan");
    cl_kernel k = kernel(&r, source);
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, WORDS * sizeof(cl_uint));
    cl_uint out[WORDS];
    must(clSetKernelArg(k, 1, 4 * sizeof(cl_float), NULL));
    launch(&r, k, 64, 4, memory, out);
    for (unsigned i = 0; i < 64; i++) assert_int_equal(out[i + 4], 15);
    must(clReleaseMemObject(memory));
    must(clReleaseKernel(k));
    rig_close(&r);
}

/* PoCL's basic device takes work-groups one by one. */
static void groups_come_in_another_order(void **unused) {
    (void)unused;
    static const char source[] = "kernel void work(global uint *out) {\n"
                                 "    uint turn = get_local_id(0) == 0 ? atomic_inc(&out[0]) : 0;\n"
                                 "    if (get_local_id(0) == 0) out[1 + get_group_id(0)] = turn;\n"
                                 "    out[128 + get_global_id(0)] = get_group_id(0);\n"
                                 "}\n";
    enum { GROUPS = 60 };
    for (unsigned ordered = 0; ordered < 2; ordered++) {
        rig r = rig_open(ordered ? "order" : "");
        cl_kernel k = kernel(&r, source);
        cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, WORDS * sizeof(cl_uint));
        cl_uint out[WORDS] = {0};
        unsigned moved = 0;
        must(clEnqueueWriteBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL));
        launch(&r, k, GROUPS * 2, 2, memory, out);
        for (unsigned g = 0; g < GROUPS; g++) moved += out[1 + g] != g;
        assert_int_equal(moved > 0, ordered);
        assert_int_equal(out[0], GROUPS);
        for (unsigned i = 0; i < GROUPS * 2; i++) assert_int_equal(out[128 + i], i / 2);
        must(clReleaseMemObject(memory));
        must(clReleaseKernel(k));
        rig_close(&r);
    }
}

static void limits_are_enforced(void **unused) {
    (void)unused;
    static const char source[] = "kernel void work(global uint *out, local uint *in) { out[0] = in[0]; }\n";
    rig r = rig_open("hold");
    cl_kernel k = kernel(&r, source);
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, sizeof(cl_uint));
    const size_t items = 2048, few = 64;
    must(clSetKernelArg(k, 0, sizeof memory, (const void *)&memory));
    must(clSetKernelArg(k, 1, 64, NULL));
    assert_int_equal(clEnqueueNDRangeKernel(r.queues[0], k, 1, NULL, &items, &items, 0, NULL, NULL),
                     CL_INVALID_WORK_GROUP_SIZE);
    must(clSetKernelArg(k, 1, 49152 + 4, NULL));
    assert_int_equal(clEnqueueNDRangeKernel(r.queues[0], k, 1, NULL, &items, &few, 0, NULL, NULL), CL_OUT_OF_RESOURCES);
    assert_int_equal(layer.count(0, STRICT_LIMITS), 2);
    must(clSetKernelArg(k, 1, 49152, NULL));
    must(clEnqueueNDRangeKernel(r.queues[0], k, 1, NULL, &items, NULL, 0, NULL, NULL));
    must(clFinish(r.queues[0]));
    assert_int_equal(layer.count(0, STRICT_LIMITS), 2);
    assert_int_equal(layer.count(0, STRICT_NULL_LOCALS), 1);
    assert_int_equal(layer.count(0, STRICT_LAUNCHES), 1);
    must(clReleaseMemObject(memory));
    must(clReleaseKernel(k));
    rig_close(&r);
}

static cl_mem view(cl_mem of, size_t origin, size_t bytes) {
    cl_int error;
    const cl_buffer_region region = {origin, bytes};
    cl_mem made = clCreateSubBuffer(of, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    must(error);
    return made;
}

static void overlapping_views_end_newest_first(void **unused) {
    (void)unused;
    rig r = rig_open("");
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, 8192);
    cl_mem apart[] = {view(memory, 0, 1024), view(memory, 1024, 1024)};
    cl_mem newest_first[] = {view(memory, 4096, 1024), view(memory, 4096, 2048)};
    for (int i = 0; i < 2; i++) must(clReleaseMemObject(apart[i]));
    for (int i = 1; i >= 0; i--) must(clReleaseMemObject(newest_first[i]));
    assert_int_equal(layer.count(0, STRICT_VIEWS), 0);
    cl_mem oldest_first[] = {view(memory, 4096, 1024), view(memory, 4096, 2048)};
    must(clRetainMemObject(oldest_first[0]));
    must(clReleaseMemObject(oldest_first[0])); /* still held */
    assert_int_equal(layer.count(0, STRICT_VIEWS), 0);
    for (int i = 0; i < 2; i++) must(clReleaseMemObject(oldest_first[i]));
    assert_int_equal(layer.count(0, STRICT_VIEWS), 1);
    must(clReleaseMemObject(memory));
    rig_close(&r);
}

/* A launch uses the arguments that were set when it was enqueued, even if it starts later. */
static void arguments_are_taken_when_enqueued(void **unused) {
    (void)unused;
    static const char source[] = "kernel void work(global uint *out, uint value) { out[value] = value; }\n";
    rig r = rig_open("hold");
    cl_kernel k = kernel(&r, source);
    cl_mem memory = buffer(&r, CL_MEM_READ_WRITE, 4 * sizeof(cl_uint));
    const size_t one = 1;
    must(clSetKernelArg(k, 0, sizeof memory, (const void *)&memory));
    for (cl_uint value = 0; value < 4; value++) {
        must(clSetKernelArg(k, 1, sizeof value, &value));
        must(clEnqueueNDRangeKernel(r.queues[0], k, 1, NULL, &one, &one, 0, NULL, NULL));
    }
    cl_uint out[4];
    must(clEnqueueReadBuffer(r.queues[0], memory, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL));
    for (cl_uint value = 0; value < 4; value++) assert_int_equal(out[value], value);
    must(clReleaseMemObject(memory));
    must(clReleaseKernel(k));
    rig_close(&r);
}

/* ---- failure ---- */

static void an_illegal_access_sticks_to_its_device(void **unused) {
    (void)unused;
    rig r = rig_open("");
    cl_event event;
    cl_int error;
    layer.lose(0, 2);
    must(clEnqueueMarkerWithWaitList(r.queues[0], 0, NULL, &event));
    must(clFlush(r.queues[0]));
    assert_int_equal(clFinish(r.queues[0]), ILLEGAL_ACCESS);
    assert_int_equal(clEnqueueMarkerWithWaitList(r.queues[0], 0, NULL, NULL), ILLEGAL_ACCESS);
    assert_int_equal(clWaitForEvents(1, &event), ILLEGAL_ACCESS);
    assert_null(clCreateBuffer(r.context, CL_MEM_READ_WRITE, 4, NULL, &error));
    assert_int_equal(error, ILLEGAL_ACCESS);
    must(clFinish(r.queues[1]));
    layer.lose(0, ULONG_MAX);
    must(clFinish(r.queues[0]));
    must(clReleaseEvent(event));
    rig_close(&r);
}

static int load(void **unused) {
    (void)unused;
    return strict_load(&layer, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disguises),
        cmocka_unit_test(addresses),
        cmocka_unit_test(platforms_share_no_context),
        cmocka_unit_test(nothing_after_version_1_2),
        cmocka_unit_test(commands_are_held_until_a_flush),
        cmocka_unit_test(unflushed_waits_are_counted_and_not_helped),
        cmocka_unit_test(callbacks_come_late_from_other_threads),
        cmocka_unit_test(host_events_gate_commands),
        cmocka_unit_test(delays_take_time),
        cmocka_unit_test(disjoint_writes_of_two_devices_are_lost),
        cmocka_unit_test(ordered_writes_of_two_devices_are_kept),
        cmocka_unit_test(mapped_memory_is_a_copy),
        cmocka_unit_test(transfers_are_counted_by_their_host_memory),
        cmocka_unit_test(memory_begins_as_nan),
        cmocka_unit_test(groups_come_in_another_order),
        cmocka_unit_test(limits_are_enforced),
        cmocka_unit_test(overlapping_views_end_newest_first),
        cmocka_unit_test(arguments_are_taken_when_enqueued),
        cmocka_unit_test(an_illegal_access_sticks_to_its_device),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
