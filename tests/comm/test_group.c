/* The public calls, used as a program uses them, with its own contexts, queues, buffers, kernels and events. */
#include <clique/comm.h>

#include "base/base.h" /* only for failing allocations; everything else is public */
#include "support/check.h"
#include "support/pocl_names.h"

#include <stdlib.h>
#include <time.h>

enum { MOST = 8 };

typedef struct machine {
    unsigned count;
    clq_rank ranks[MOST];
    cl_mem memory[MOST];
} machine;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void cl_ok(cl_int error) { assert_int_equal(error, CL_SUCCESS); }

/* Finds the nth device whose platform's name begins with `platform`. If basic, counts only PoCL's single-thread
 * devices. Otherwise counts all other devices. */
static cl_device_id find_device(const char *platform, bool basic, unsigned nth) {
    cl_platform_id platforms[16];
    cl_uint platform_count;
    cl_ok(clGetPlatformIDs(16, platforms, &platform_count));
    for (cl_uint p = 0; p < platform_count && p < 16; p++) {
        char name[256];
        cl_device_id devices[16];
        cl_uint device_count;
        cl_ok(clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name, name, NULL));
        if (strncmp(name, platform, strlen(platform)) != 0) continue;
        cl_ok(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &device_count));
        for (cl_uint d = 0; d < device_count; d++) {
            cl_ok(clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name, name, NULL));
            if (pocl_name_is(name, POCL_BASIC) == basic && nth-- == 0) return devices[d];
        }
    }
    fail_msg("no such device: %s", platform);
    return NULL;
}

/* kinds: b, p, i as in comm_ranks.h. shared: one context for all devices. Otherwise each device has a context of its
 * own. */
static void machine_open(machine *m, const char *kinds, bool shared, bool queues) {
    *m = (machine){.count = (unsigned)strlen(kinds)};
    unsigned basics = 0;
    cl_device_id ids[MOST];
    cl_context context = NULL;
    cl_int error;
    for (unsigned r = 0; r < m->count; r++)
        ids[r] = kinds[r] == 'b' ? find_device("Portable", true, basics++)
                                 : find_device(kinds[r] == 'i' ? "Intel" : "Portable", false, 0);
    if (shared) {
        context = clCreateContext(NULL, m->count, ids, NULL, NULL, &error);
        cl_ok(error);
    }
    for (unsigned r = 0; r < m->count; r++) {
        m->ranks[r].device = ids[r];
        if (shared)
            cl_ok(clRetainContext(m->ranks[r].context = context));
        else
            m->ranks[r].context = clCreateContext(NULL, 1, &ids[r], NULL, NULL, &error);
        cl_ok(error);
        if (queues) m->ranks[r].queue = clCreateCommandQueue(m->ranks[r].context, ids[r], 0, &error);
        cl_ok(error);
    }
    if (shared) clReleaseContext(context);
}

static void machine_buffers(machine *m, size_t count, bool with_values) {
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (unsigned r = 0; r < m->count; r++) {
        cl_int error;
        for (size_t i = 0; i < count; i++) values[i] = with_values ? (float)(i % 100) + (float)r : 0.0f;
        if (m->memory[r]) clReleaseMemObject(m->memory[r]);
        m->memory[r] = clCreateBuffer(m->ranks[r].context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                      count * sizeof *values, values, &error);
        cl_ok(error);
    }
    free(values);
}

static void machine_close(machine *m) {
    for (unsigned r = 0; r < m->count; r++) {
        if (m->memory[r]) clReleaseMemObject(m->memory[r]);
        if (m->ranks[r].queue) clReleaseCommandQueue(m->ranks[r].queue);
        clReleaseContext(m->ranks[r].context);
    }
}

static float *machine_read(const machine *m, unsigned rank, size_t count, const cl_event *after) {
    cl_int error;
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    cl_command_queue queue = clCreateCommandQueue(m->ranks[rank].context, m->ranks[rank].device, 0, &error);
    cl_ok(error);
    cl_ok(clEnqueueReadBuffer(queue, m->memory[rank], CL_TRUE, 0, count * sizeof *values, values, after != NULL, after,
                              NULL));
    clReleaseCommandQueue(queue);
    return values;
}

/* Checks that every element is scale * (i % 100) + added. */
static void expect_values(const machine *m, size_t count, float scale, float added, const cl_event *after) {
    for (unsigned r = 0; r < m->count; r++) {
        float *values = machine_read(m, r, count, after ? &after[r] : NULL);
        for (size_t i = 0; i < count; i++) {
            float expected = scale * (float)(i % 100) + added;
            if (values[i] != expected)
                fail_msg("rank %u element %zu: %g, not %g", r, i, (double)values[i], (double)expected);
        }
        free(values);
    }
}

static float ranks_sum(const machine *m) { return (float)(m->count * (m->count - 1) / 2); }

static void release(cl_event *events, unsigned count) {
    for (unsigned r = 0; r < count; r++) cl_ok(clReleaseEvent(events[r]));
}

static void whole(const machine *m, clq_slice *slices) {
    for (unsigned r = 0; r < m->count; r++) slices[r] = (clq_slice){m->memory[r], 0};
}

static void check_blocking(const char *kinds, bool shared, bool queues, const clq_group_config *config) {
    const size_t count = 10007;
    machine m;
    clq_group *group;
    clq_slice slices[MOST];
    machine_open(&m, kinds, shared, queues);
    machine_buffers(&m, count, true);
    whole(&m, slices);
    assert_ok(clq_group_create(m.ranks, m.count, config, &group));
    assert_ok(clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
    expect_values(&m, count, (float)m.count, ranks_sum(&m), NULL);
    clq_group_destroy(group);
    machine_close(&m);
}

static void test_blocking(void **state) {
    (void)state;
    const clq_group_config staged = {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 1024};
    const clq_group_config peer = {.transport = CLQ_TRANSPORT_PEER, .chunk_bytes = 1024};
    check_blocking("b", false, true, NULL);
    check_blocking("bb", false, true, NULL);
    check_blocking("bbb", false, false, NULL);
    check_blocking("pi", false, true, NULL);
    check_blocking("ipb", false, true, &staged);
    check_blocking("bbb", false, false, &staged);
    check_blocking("bbb", true, true, &peer);
    check_blocking("bp", true, true, &peer);
    check_blocking("pbb", true, false, &peer);
    check_blocking("bb", true, true, NULL);
}

/* Many calls in flight. Each call works on the result of the call before. */
static void test_calls_run_in_order(void **state) {
    (void)state;
    enum { CALLS = 12 };
    const size_t count = 3001;
    const clq_group_config configs[] = {{0}, {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 2048}};
    for (size_t c = 0; c < 2; c++) {
        machine m;
        clq_group *group;
        clq_slice slices[MOST];
        cl_event done[CALLS][MOST];
        machine_open(&m, "bb", false, true);
        machine_buffers(&m, count, true);
        whole(&m, slices);
        assert_ok(clq_group_create(m.ranks, m.count, &configs[c], &group));
        for (int i = 0; i < CALLS; i++)
            assert_ok(clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, NULL, done[i]));
        assert_ok(clq_group_wait(group));
        /* 2 v + 1, doubled eleven more times. */
        expect_values(&m, count, 4096.0f, 2048.0f, NULL);
        for (int i = 0; i < CALLS; i++)
            for (unsigned r = 0; r < m.count; r++) {
                cl_int execution;
                cl_ok(
                    clGetEventInfo(done[i][r], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof execution, &execution, NULL));
                assert_int_equal(execution, CL_COMPLETE);
            }
        for (int i = 0; i < CALLS; i++) release(done[i], m.count);
        clq_group_destroy(group);
        machine_close(&m);
    }
}

static const char *kernel_source =
    "kernel void fill(global float *a, float base, int n)"
    "{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = (float)(i % 100) + base; }"
    "kernel void twice(global float *a, float unused, int n)"
    "{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = 2.0f * a[i]; }";

typedef struct kernels {
    cl_program program;
    cl_kernel fill, twice;
} kernels;

static void build(const clq_rank *rank, cl_mem memory, float base, int count, kernels *out) {
    cl_int error;
    out->program = clCreateProgramWithSource(rank->context, 1, &kernel_source, NULL, &error);
    cl_ok(error);
    cl_ok(clBuildProgram(out->program, 1, &rank->device, "", NULL, NULL));
    out->fill = clCreateKernel(out->program, "fill", &error);
    cl_ok(error);
    out->twice = clCreateKernel(out->program, "twice", &error);
    cl_ok(error);
    cl_kernel both[2] = {out->fill, out->twice};
    for (int k = 0; k < 2; k++) {
        cl_ok(clSetKernelArg(both[k], 0, sizeof memory, &memory));
        cl_ok(clSetKernelArg(both[k], 1, sizeof base, &base));
        cl_ok(clSetKernelArg(both[k], 2, sizeof count, &count));
    }
}

/* A kernel writes the input, and the collective waits for the kernel by its event or by the queue. Another kernel on
 * the same queue waits for the collective. All of them are enqueued before anything has run. */
static void check_composition(const char *kinds, bool by_events, const clq_group_config *config) {
    enum { COUNT = 20000, ROUNDS = 3 };
    const size_t items = 64;
    machine m;
    clq_group *group;
    clq_slice slices[MOST];
    kernels k[MOST];
    machine_open(&m, kinds, false, true);
    machine_buffers(&m, COUNT, false);
    whole(&m, slices);
    assert_ok(clq_group_create(m.ranks, m.count, config, &group));
    for (unsigned r = 0; r < m.count; r++) build(&m.ranks[r], m.memory[r], (float)r, COUNT, &k[r]);
    for (int round = 0; round < ROUNDS; round++) {
        cl_event filled[MOST], reduced[MOST], doubled[MOST];
        for (unsigned r = 0; r < m.count; r++) {
            cl_ok(clEnqueueNDRangeKernel(m.ranks[r].queue, k[r].fill, 1, NULL, &items, NULL, 0, NULL, &filled[r]));
            if (by_events) cl_ok(clFlush(m.ranks[r].queue));
        }
        assert_ok(
            clq_all_reduce(group, slices, slices, COUNT, CLQ_F32, CLQ_REDOP_SUM, by_events ? filled : NULL, reduced));
        for (unsigned r = 0; r < m.count; r++) {
            cl_ok(clEnqueueNDRangeKernel(m.ranks[r].queue, k[r].twice, 1, NULL, &items, NULL, 1, &reduced[r],
                                         &doubled[r]));
            cl_ok(clFlush(m.ranks[r].queue));
        }
        expect_values(&m, COUNT, 2.0f * (float)m.count, 2.0f * ranks_sum(&m), doubled);
        release(filled, m.count);
        release(reduced, m.count);
        release(doubled, m.count);
    }
    assert_ok(clq_group_wait(group));
    clq_group_destroy(group);
    for (unsigned r = 0; r < m.count; r++) {
        clReleaseKernel(k[r].fill);
        clReleaseKernel(k[r].twice);
        clReleaseProgram(k[r].program);
    }
    machine_close(&m);
}

static void test_composes_with_callers_kernels(void **state) {
    (void)state;
    const clq_group_config staged = {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 4096};
    check_composition("bb", true, NULL);
    check_composition("bb", false, NULL);
    check_composition("pi", true, NULL);
    check_composition("pi", false, &staged);
    check_composition("bip", true, &staged);
}

static void test_offsets_and_broadcast(void **state) {
    (void)state;
    const size_t count = 1000;
    machine m;
    clq_group *group;
    clq_slice in[MOST], out[MOST];
    machine_open(&m, "bbb", false, true);
    machine_buffers(&m, 2 * count + 3, true);
    for (unsigned r = 0; r < m.count; r++) {
        in[r] = (clq_slice){m.memory[r], 4};
        out[r] = (clq_slice){m.memory[r], (count + 2) * 4};
    }
    assert_ok(clq_group_create(m.ranks, m.count, NULL, &group));
    assert_ok(clq_all_reduce(group, in, out, count, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
    for (unsigned r = 0; r < m.count; r++) {
        float *values = machine_read(&m, r, 2 * count + 3, NULL);
        for (size_t i = 0; i < 2 * count + 3; i++) {
            bool written = i >= count + 2 && i < 2 * count + 2;
            float expected = written ? 3.0f * (float)((i - count - 1) % 100) + 3.0f : (float)(i % 100) + (float)r;
            if (values[i] != expected)
                fail_msg("rank %u element %zu: %g, not %g", r, i, (double)values[i], (double)expected);
        }
        free(values);
    }
    assert_ok(clq_broadcast(group, out, out, count * 2, CLQ_U16, 2, NULL, NULL));
    assert_ok(clq_broadcast(group, in, in, 1, CLQ_F32, 1, NULL, NULL));
    float *values = machine_read(&m, 0, 3, NULL);
    assert_true(values[0] == 0.0f && values[1] == 2.0f && values[2] == 2.0f);
    free(values);
    clq_group_destroy(group);
    machine_close(&m);
}

static void test_bad_arguments(void **state) {
    (void)state;
    const size_t count = 100;
    machine m, other;
    clq_group *group = NULL, *none = NULL;
    clq_slice s[MOST], t[MOST];
    cl_event done[MOST] = {NULL};
    machine_open(&m, "bb", false, true);
    machine_open(&other, "bb", false, true);
    machine_buffers(&m, count, true);
    machine_buffers(&other, count, true);
    whole(&m, s);
    assert_ok(clq_group_create(m.ranks, 2, NULL, &group));
    assert_int_equal(clq_group_create(NULL, 2, NULL, &none), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_group_create(m.ranks, 0, NULL, &none), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_group_create(m.ranks, 1000, NULL, &none), CLQ_ERROR_ARGUMENT);
    clq_rank wrong[2] = {m.ranks[0],
                         {.context = m.ranks[1].context, .device = m.ranks[1].device, .queue = m.ranks[0].queue}};
    assert_int_equal(clq_group_create(wrong, 2, NULL, &none), CLQ_ERROR_ARGUMENT);
    wrong[1] = (clq_rank){0};
    assert_int_equal(clq_group_create(wrong, 2, NULL, &none), CLQ_ERROR_ARGUMENT);
    assert_null(none);

    assert_int_equal(clq_all_reduce(group, s, s, count + 1, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_all_reduce(group, s, s, SIZE_MAX / 2, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_all_reduce(group, NULL, s, count, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_all_reduce(group, s, s, count, CLQ_BOOL, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_UNSUPPORTED);
    assert_int_equal(clq_all_reduce(group, s, s, count, CLQ_F32, (clq_redop)9, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_broadcast(group, s, s, count, CLQ_F32, 2, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_broadcast(group, s, s, count, (clq_dtype)999, 0, NULL, done), CLQ_ERROR_ARGUMENT);
    memcpy(t, s, sizeof t);
    t[1].offset = 2;
    assert_int_equal(clq_all_reduce(group, t, t, 10, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    t[1].offset = 16; /* input and output overlap, but not in place */
    assert_int_equal(clq_all_reduce(group, s, t, 10, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    t[1] = (clq_slice){other.memory[1], 0};
    assert_int_equal(clq_all_reduce(group, s, t, 10, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    t[1] = (clq_slice){NULL, 0};
    assert_int_equal(clq_all_reduce(group, s, t, 10, CLQ_F32, CLQ_REDOP_SUM, NULL, done), CLQ_ERROR_ARGUMENT);
    assert_true(strlen(clq_error_detail()) > 0);
    assert_null(done[0]);

    /* The refused calls have not harmed the group. */
    assert_ok(clq_all_reduce(group, s, s, count, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
    expect_values(&m, count, 2.0f, 1.0f, NULL);
    assert_ok(clq_group_wait(group));
    char *text = NULL;
    assert_ok(clq_group_explain(group, &text));
    assert_non_null(strstr(text, "direct"));
    free(text);
    clq_group_destroy(group);
    clq_group_destroy(NULL);
    machine_close(&m);
    machine_close(&other);
}

static cl_int wait_for_end(cl_event event) {
    cl_int state = CL_SUBMITTED;
    for (double end = now() + 5; now() < end && state > CL_COMPLETE;) {
        cl_ok(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return state;
}

/* The wait event of one rank never comes, or fails. The events of all ranks become negative, and the group reports the
 * cause. */
static void check_waits(bool fails, bool aborted) {
    const size_t count = 100;
    machine m;
    clq_group *group;
    clq_slice slices[MOST];
    cl_event waits[MOST] = {NULL}, done[MOST];
    cl_int error;
    machine_open(&m, "bbb", false, false);
    machine_buffers(&m, count, true);
    whole(&m, slices);
    assert_ok(clq_group_create(m.ranks, m.count, &(clq_group_config){.deadline_s = aborted ? 30 : 1}, &group));
    waits[1] = clCreateUserEvent(m.ranks[1].context, &error);
    cl_ok(error);
    double start = now();
    assert_ok(clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, waits, done));
    if (fails) cl_ok(clSetUserEventStatus(waits[1], -77));
    if (aborted) clq_group_abort(group);
    for (unsigned r = 0; r < m.count; r++) assert_true(wait_for_end(done[r]) < 0);
    assert_int_equal(clq_group_wait(group), fails ? CLQ_ERROR_DEVICE : aborted ? CLQ_ERROR_ABORTED : CLQ_ERROR_TIMEOUT);
    if (!aborted) assert_non_null(strstr(clq_error_detail(), "rank 1"));
    assert_true(now() - start < 2.5);
    assert_int_not_equal(clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL), CLQ_OK);
    release(done, m.count);
    clq_group_destroy(group);
    if (!fails) cl_ok(clSetUserEventStatus(waits[1], CL_COMPLETE)); /* too late: no rank waits any more */
    cl_ok(clReleaseEvent(waits[1]));
    machine_close(&m);
}

static void test_waits_that_fail(void **state) {
    (void)state;
    check_waits(true, false);
    check_waits(false, false);
    check_waits(false, true);
}

/* All ranks and all runs get the same bits, whichever rank is faster. */
static void test_repeatable(void **state) {
    (void)state;
    const size_t count = 5003;
    const clq_group_config configs[] = {{0}, {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 640}};
    for (size_t c = 0; c < 2; c++) {
        float *first = NULL;
        for (int run = 0; run < 4; run++) {
            machine m;
            clq_group *group;
            clq_slice slices[MOST];
            machine_open(&m, "bib", false, true);
            machine_buffers(&m, count, true);
            whole(&m, slices);
            for (unsigned r = 0; r < m.count; r++) {
                float *values = machine_read(&m, r, count, NULL);
                for (size_t i = 0; i < count; i++) values[i] = 1.0f / (values[i] + 3.0f * (float)r + 0.1f);
                cl_ok(
                    clEnqueueWriteBuffer(m.ranks[r].queue, m.memory[r], CL_TRUE, 0, count * 4, values, 0, NULL, NULL));
                free(values);
            }
            assert_ok(clq_group_create(m.ranks, m.count, &configs[c], &group));
            assert_ok(clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
            for (unsigned r = 0; r < m.count; r++) {
                float *values = machine_read(&m, r, count, NULL);
                if (!first)
                    first = values;
                else {
                    assert_memory_equal(values, first, count * 4);
                    free(values);
                }
            }
            clq_group_destroy(group);
            machine_close(&m);
        }
        free(first);
    }
}

/* The caller's thread makes the links of one call while the ranks' threads use the links of another call. */
static void test_links_made_under_way(void **state) {
    (void)state;
    const size_t part = 1 << 16;
    const clq_group_config config = {
        .algorithm = CLQ_ALGORITHM_DOUBLING, .transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 1024};
    machine m;
    clq_group *group;
    clq_slice whole_slices[MOST], parts[MOST];
    cl_event reduced[MOST], gathered[MOST];
    machine_open(&m, "ppp", false, true);
    machine_buffers(&m, m.count * part, true);
    whole(&m, whole_slices);
    for (unsigned r = 0; r < m.count; r++) parts[r] = (clq_slice){m.memory[r], r * part * sizeof(float)};
    assert_ok(clq_group_create(m.ranks, m.count, &config, &group));
    assert_ok(clq_all_reduce(group, whole_slices, whole_slices, m.count * part, CLQ_F32, CLQ_REDOP_SUM, NULL, reduced));
    assert_ok(clq_all_gather(group, parts, whole_slices, part, CLQ_F32, NULL, gathered)); /* a ring: other links */
    assert_ok(clq_group_wait(group));
    expect_values(&m, m.count * part, (float)m.count, ranks_sum(&m), gathered);
    release(reduced, m.count);
    release(gathered, m.count);
    clq_group_destroy(group);
    machine_close(&m);
}

/* Each allocation of making a group and of a call fails once. The call reports the failure, nothing leaks, and no
 * thread hangs. */
static void test_allocation_failures(void **state) {
    (void)state;
    const size_t count = 1000;
    const clq_group_config configs[] = {{0}, {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 2048}};
    for (size_t c = 0; c < 2; c++) {
        machine m;
        clq_slice slices[MOST];
        bool succeeded = false;
        machine_open(&m, "bb", false, true);
        machine_buffers(&m, count, true);
        whole(&m, slices);
        for (uint64_t nth = 1; !succeeded; nth++) {
            clq_group *group = NULL;
            cl_event done[MOST] = {NULL};
            clq_memory_fail_at(nth, false);
            clq_status status = clq_group_create(m.ranks, m.count, &configs[c], &group);
            if (status == CLQ_OK)
                status = clq_all_reduce(group, slices, slices, count, CLQ_F32, CLQ_REDOP_SUM, NULL, done);
            if (status == CLQ_OK) status = clq_group_wait(group);
            clq_memory_fail_at(0, false);
            succeeded = status == CLQ_OK;
            if (!succeeded && status != CLQ_ERROR_MEMORY)
                fail_msg("%s: %s", clq_status_text(status), clq_error_detail());
            assert_true(nth < 2000);
            for (unsigned r = 0; r < m.count; r++)
                if (done[r]) cl_ok(clReleaseEvent(done[r]));
            clq_group_destroy(group);
        }
        machine_close(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_calls_run_in_order),
        cmocka_unit_test(test_composes_with_callers_kernels),
        cmocka_unit_test(test_offsets_and_broadcast),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_waits_that_fail),
        cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_links_made_under_way),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests_name("comm/group", tests, NULL, NULL);
}
