#include "support/comm_cases.h"

#include "comm/communicator.h"
#include "support/comm_values.h"

#include <stdio.h>

const clq_group_config comm_settings[COMM_SETTINGS] = {
    {.algorithm = CLQ_ALGORITHM_AUTO},
    {.algorithm = CLQ_ALGORITHM_AUTO, .transport = CLQ_TRANSPORT_STAGED},
    {.algorithm = CLQ_ALGORITHM_AUTO, .transport = CLQ_TRANSPORT_PEER},
    {.algorithm = CLQ_ALGORITHM_AUTO, .transport = CLQ_TRANSPORT_MAPPED},
    {.algorithm = CLQ_ALGORITHM_DIRECT},
    {.algorithm = CLQ_ALGORITHM_RING},
    {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED},
    {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_PEER},
    {.algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE, .transport = CLQ_TRANSPORT_STAGED},
    {.algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE, .transport = CLQ_TRANSPORT_PEER},
    {.algorithm = CLQ_ALGORITHM_DOUBLING, .transport = CLQ_TRANSPORT_STAGED},
    {.algorithm = CLQ_ALGORITHM_DOUBLING, .transport = CLQ_TRANSPORT_PEER},
    {.algorithm = CLQ_ALGORITHM_HIERARCHICAL},
    {.algorithm = CLQ_ALGORITHM_HIERARCHICAL, .transport = CLQ_TRANSPORT_STAGED},
    {.algorithm = CLQ_ALGORITHM_HIERARCHICAL, .transport = CLQ_TRANSPORT_PEER},
};

enum { GUARD = 9, GUARD_BYTE = 0xa5 }; /* elements before and behind a range, which nobody may write */

/* A rank's part: where its ranges are, and what its memory holds before the call and must hold after it. */
typedef struct part {
    cl_mem memory[2]; /* of the input and of the output; the same object if they share it */
    clq_buffer *buffer[2];
    size_t at[2], bytes[2]; /* of the ranges */
    size_t total[2];        /* of the memory objects */
    char *before[2], *after[2];
    cl_event written, done;
} part;

typedef struct trial {
    ranks *all;
    clq_group *group;
    const comm_case *c;
    const char *where;
    part parts[CLQ_REPLICAS_MAX];
} trial;

static void describe(const trial *t, char *text, size_t bytes) {
    static const char *const callers[] = {"communicator", "blocking", "events"};
    static const char *const placements[] = {"in place", "apart", "neighbours"};
    const comm_case *c = t->c;
    (void)snprintf(text, bytes, "%s, %s: %s of %zu %s (%s), root %u to %u, %s, shift %zu, %s memory", t->where,
                   callers[c->caller], clq_collective_name(c->collective), c->count, clq_dtype_name(c->dtype),
                   clq_redop_name(c->op), c->root, c->to, placements[c->placement], c->shift,
                   c->plain ? "plain" : "own");
}

static void must(const trial *t, clq_status status) {
    char text[512];
    if (status == CLQ_OK) return;
    describe(t, text, sizeof text);
    fail_msg("%s: %s: %s", text, clq_status_text(status), clq_error_detail());
}

static void must_cl(const trial *t, cl_int error) {
    char text[512];
    if (error == CL_SUCCESS) return;
    describe(t, text, sizeof text);
    fail_msg("%s: OpenCL's error %d", text, error);
}

static bool is_float(clq_dtype dtype) {
    return dtype == CLQ_F32 || dtype == CLQ_F64 || dtype == CLQ_F16 || dtype == CLQ_BF16;
}

/* ---- what goes in, and what must come out ---- */

/* Floats are whole numbers whose sums and products are exact in every type and order, unless c->random. All other
 * inputs are any bits. */
static void put_input(const comm_case *c, unsigned rank, size_t i, void *array) {
    clq_philox any = clq_philox4x32(c->seed * 64 + rank, i, 0);
    uint64_t word = any.word[0] | (uint64_t)any.word[1] << 32;
    if (!clq_collective_reduces(c->collective) || !is_float(c->dtype))
        values_put_any(c->dtype, array, i, word);
    else if (c->random && c->dtype == CLQ_F32)
        ((float *)array)[i] = (float)((double)any.word[0] / 4294967296.0 - 0.5) * (any.word[1] % 64 ? 1.0f : 1000.0f);
    else if (c->op == CLQ_REDOP_PROD)
        values_put(c->dtype, array, i, (any.word[0] % 2 ? 1 : -1) * (any.word[1] % 2 ? 1 : 2));
    else
        values_put(c->dtype, array, i, (int64_t)(any.word[0] % 61) - 30);
}

static char *fill(size_t bytes) {
    char *array = clq_alloc(bytes, 1);
    assert_non_null(array);
    memset(array, GUARD_BYTE, bytes);
    return array;
}

/* Reduces element by element in rank order: the reference. */
static void reduce_all(const trial *t, const char *const *inputs, size_t elements, char *out) {
    const comm_case *c = t->c;
    memcpy(out, inputs[0], elements * clq_dtype_bytes(c->dtype));
    for (size_t i = 0; i < elements; i++) {
        for (unsigned r = 1; r < t->all->count; r++) values_combine(c->dtype, c->op, out, inputs[r], out, i);
        if (c->op == CLQ_REDOP_AVG) values_average(c->dtype, out, i, t->all->count);
    }
}

/* Writes what rank r must have in its output. whole: the reduction of all inputs. */
static void expect_output(trial *t, unsigned r, const char *const *inputs, const char *whole) {
    const comm_case *c = t->c;
    part *mine = &t->parts[r];
    const size_t bytes = c->count * clq_dtype_bytes(c->dtype);
    char *out = mine->after[1] + mine->at[1];
    switch (c->collective) {
    case CLQ_ALL_REDUCE: memcpy(out, whole, bytes); break;
    case CLQ_REDUCE_SCATTER: memcpy(out, whole + r * bytes, bytes); break;
    case CLQ_REDUCE:
        if (r == c->root) memcpy(out, whole, bytes);
        break;
    case CLQ_ALL_GATHER:
        for (unsigned from = 0; from < t->all->count; from++) memcpy(out + from * bytes, inputs[from], bytes);
        break;
    case CLQ_BROADCAST: memcpy(out, inputs[c->root], bytes); break;
    case CLQ_SEND_RECV:
        if (r == c->to) memcpy(out, inputs[c->root], bytes);
        break;
    default: break;
    }
}

static size_t in_elements(const trial *t) {
    return t->c->collective == CLQ_REDUCE_SCATTER ? t->c->count * t->all->count : t->c->count;
}

/* Decides where the ranges lie, before any memory is made. */
static void lay_out(const trial *t, unsigned r, part *mine) {
    const comm_case *c = t->c;
    const unsigned n = t->all->count;
    const size_t element = clq_dtype_bytes(c->dtype), bytes = c->count * element, guard = GUARD * element;
    const size_t shift = c->shift ? (c->shift + r % 3) * element : 0;
    mine->bytes[0] = clq_collective_in_bytes(c->collective, n, r, c->root, bytes);
    mine->bytes[1] = clq_collective_out_bytes(c->collective, n, r, c->root, c->to, bytes);
    mine->at[0] = mine->at[1] = guard + shift;
    if (c->placement == IN_PLACE) {
        size_t most = CLQ_MAX(mine->bytes[0], mine->bytes[1]);
        if (c->collective == CLQ_REDUCE_SCATTER) mine->at[1] += r * bytes;
        if (c->collective == CLQ_ALL_GATHER) mine->at[0] += r * bytes;
        mine->total[0] = mine->total[1] = guard + shift + most + guard;
    } else if (c->placement == NEIGHBOURS) {
        mine->at[1] = mine->at[0] + mine->bytes[0];
        mine->total[0] = mine->total[1] = mine->at[1] + mine->bytes[1] + guard;
    } else {
        mine->at[1] = guard + (c->shift ? element : 0);
        mine->total[0] = mine->at[0] + mine->bytes[0] + guard;
        mine->total[1] = mine->at[1] + mine->bytes[1] + guard;
    }
}

/* Makes the contents of every memory object, before and after the call. */
static void make_contents(trial *t) {
    const comm_case *c = t->c;
    const bool shared = c->placement != APART;
    const size_t elements = in_elements(t), element = clq_dtype_bytes(c->dtype);
    char *inputs[CLQ_REPLICAS_MAX], *whole = fill(elements * element + 1);
    for (unsigned r = 0; r < t->all->count; r++) {
        part *mine = &t->parts[r];
        lay_out(t, r, mine);
        inputs[r] = fill(elements * element + 1);
        for (size_t i = 0; i < elements; i++) put_input(c, r, i, inputs[r]);
        for (int side = 0; side < 2; side++) {
            mine->before[side] = side && shared ? mine->before[0] : fill(mine->total[side]);
            mine->after[side] = side && shared ? mine->after[0] : fill(mine->total[side]);
        }
        memcpy(mine->before[0] + mine->at[0], inputs[r], mine->bytes[0]);
        memcpy(mine->after[0] + mine->at[0], inputs[r], mine->bytes[0]);
    }
    if (clq_collective_reduces(c->collective)) reduce_all(t, (const char *const *)inputs, elements, whole);
    for (unsigned r = 0; r < t->all->count; r++) expect_output(t, r, (const char *const *)inputs, whole);
    for (unsigned r = 0; r < t->all->count; r++) clq_free(inputs[r]);
    clq_free(whole);
}

/* ---- memory ---- */

static cl_command_queue queue_of(const trial *t, unsigned r) { return clq_queue_handle(t->all->queues[r]); }

static void make_memory(trial *t, unsigned r, int side) {
    part *mine = &t->parts[r];
    clq_device *device = t->all->devices[r];
    cl_int error = CL_SUCCESS;
    const size_t bytes = mine->total[side];
    if (t->c->plain)
        mine->memory[side] = clCreateBuffer(clq_device_context(device), CL_MEM_READ_WRITE, bytes, NULL, &error);
    else if (t->c->caller != CALL_COMM)
        must(t, clq_group_alloc(t->group, r, bytes, &mine->memory[side]));
    else
        must(t, clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "test", &mine->buffer[side]));
    must_cl(t, error);
    if (t->c->plain && t->c->caller == CALL_COMM)
        must(t, clq_buffer_wrap(device, mine->memory[side], &mine->buffer[side]));
    if (!mine->memory[side]) mine->memory[side] = clq_buffer_handle(mine->buffer[side]);
    /* With CALL_EVENTS, events order what comes after the write. Otherwise the write is done when the call returns. */
    bool waits = t->c->caller != CALL_EVENTS;
    must_cl(t, clEnqueueWriteBuffer(queue_of(t, r), mine->memory[side], waits, 0, bytes, mine->before[side], 0, NULL,
                                    waits || side ? NULL : &mine->written));
}

static void make_all_memory(trial *t) {
    for (unsigned r = 0; r < t->all->count; r++) {
        part *mine = &t->parts[r];
        if (t->c->placement == APART) make_memory(t, r, 1);
        make_memory(t, r, 0);
        if (t->c->placement != APART) mine->memory[1] = mine->memory[0], mine->buffer[1] = mine->buffer[0];
        if (t->c->caller == CALL_EVENTS) must_cl(t, clFlush(queue_of(t, r)));
    }
}

static void free_side(const trial *t, part *mine, int side) {
    clq_buffer_destroy(mine->buffer[side]);
    if (t->c->plain)
        must_cl(t, clReleaseMemObject(mine->memory[side]));
    else if (t->c->caller != CALL_COMM)
        clq_group_free(t->group, mine->memory[side]);
    clq_free(mine->before[side]);
    clq_free(mine->after[side]);
}

static void free_all(trial *t) {
    for (unsigned r = 0; r < t->all->count; r++) {
        part *mine = &t->parts[r];
        if (mine->written) must_cl(t, clReleaseEvent(mine->written));
        if (mine->done) must_cl(t, clReleaseEvent(mine->done));
        free_side(t, mine, 0);
        if (t->c->placement == APART) free_side(t, mine, 1);
    }
}

/* ---- running ---- */

static clq_task task_of(const trial *t, unsigned rank) {
    const part *mine = &t->parts[rank];
    const comm_case *c = t->c;
    return (clq_task){.collective = c->collective,
                      .queue = t->all->queues[rank],
                      .in = mine->buffer[0],
                      .out = mine->buffer[1],
                      .in_offset = mine->at[0],
                      .out_offset = mine->at[1],
                      .count = c->count,
                      .dtype = c->dtype,
                      .op = c->op,
                      .root = c->root,
                      .to = c->to};
}

static clq_status run_rank(ranks *all, unsigned rank, void *context) {
    const clq_task task = task_of(context, rank);
    return clq_comm_run(all->comm, rank, &task);
}

static clq_status call_group(trial *t, const cl_event *waits, cl_event *done) {
    const comm_case *c = t->c;
    clq_slice in[CLQ_REPLICAS_MAX], out[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < t->all->count; r++) {
        const part *mine = &t->parts[r];
        in[r] = mine->bytes[0] ? (clq_slice){mine->memory[0], mine->at[0]} : (clq_slice){NULL, 1};
        out[r] = mine->bytes[1] ? (clq_slice){mine->memory[1], mine->at[1]} : (clq_slice){NULL, 1};
    }
    switch (c->collective) {
    case CLQ_ALL_REDUCE: return clq_all_reduce(t->group, in, out, c->count, c->dtype, c->op, waits, done);
    case CLQ_REDUCE_SCATTER: return clq_reduce_scatter(t->group, in, out, c->count, c->dtype, c->op, waits, done);
    case CLQ_ALL_GATHER: return clq_all_gather(t->group, in, out, c->count, c->dtype, waits, done);
    case CLQ_BROADCAST: return clq_broadcast(t->group, in, out, c->count, c->dtype, c->root, waits, done);
    case CLQ_REDUCE: return clq_reduce(t->group, in, out, c->count, c->dtype, c->op, c->root, waits, done);
    case CLQ_SEND_RECV:
        return clq_send_recv(t->group, c->root, &in[c->root], c->to, &out[c->to], c->count, c->dtype, waits, done);
    default: return clq_group_barrier(t->group, waits, done);
    }
}

static void run(trial *t) {
    cl_event waits[CLQ_REPLICAS_MAX], done[CLQ_REPLICAS_MAX];
    const unsigned n = t->all->count;
    if (t->c->caller == CALL_BLOCKING) must(t, call_group(t, NULL, NULL));
    if (t->c->caller == CALL_EVENTS) {
        for (unsigned r = 0; r < n; r++) waits[r] = r % 2 ? NULL : t->parts[r].written; /* the queue orders the rest */
        must(t, call_group(t, waits, done));
        for (unsigned r = 0; r < n; r++) t->parts[r].done = done[r];
    }
    if (t->c->caller != CALL_COMM) return;
    /* Builds the kernels first, as a group does: a kernel may take longer to compile than the deadline allows. */
    const clq_task first = task_of(t, 0);
    must(t, clq_walk_prepare_all(t->all->comm, &first));
    ranks_run(t->all, run_rank, t);
    for (unsigned r = 0; r < n; r++)
        if (t->all->results[r].status != CLQ_OK) must(t, clq_error_raise(&t->all->results[r]));
}

/* ---- checking ---- */

static bool same(const trial *t, const part *mine, const char *now, int side, size_t *where) {
    const comm_case *c = t->c;
    const size_t element = clq_dtype_bytes(c->dtype), begin = mine->at[1], end = begin + mine->bytes[1];
    const bool written = (side == 1 || c->placement != APART) && clq_collective_reduces(c->collective);
    const bool exact = !(written && is_float(c->dtype));
    if (exact && memcmp(now, mine->after[side], mine->total[side]) == 0) return true;
    for (size_t at = 0; at < mine->total[side]; at += element) {
        bool inside = written && at >= begin && at < end;
        if (inside && c->random) continue;
        *where = at / element;
        if (inside && is_float(c->dtype) ? !values_equal(c->dtype, now, mine->after[side], *where)
                                         : memcmp(now + at, mine->after[side] + at, element) != 0)
            return false;
    }
    return true;
}

static void check_side(const trial *t, unsigned r, int side, uint64_t *hash) {
    const part *mine = &t->parts[r];
    char *now = fill(mine->total[side]), text[512];
    size_t where = 0;
    const cl_event *after = mine->done ? &mine->done : NULL;
    must_cl(t, clEnqueueReadBuffer(queue_of(t, r), mine->memory[side], CL_TRUE, 0, mine->total[side], now,
                                   after != NULL, after, NULL));
    bool good = same(t, mine, now, side, &where);
    if (side == 1 || t->c->placement != APART) *hash = clq_hash128_of(now + mine->at[1], mine->bytes[1], 1).low;
    clq_free(now);
    if (good) return;
    describe(t, text, sizeof text);
    fail_msg("%s: rank %u, element %zu of the %s memory (its range begins at %zu)", text, r, where,
             side ? "output's" : "input's", mine->at[side] / clq_dtype_bytes(t->c->dtype));
}

uint64_t comm_case_run(ranks *all, clq_group *group, const comm_case *c, const char *where) {
    trial *t = clq_alloc(1, sizeof *t);
    assert_non_null(t);
    *t = (trial){.all = all, .group = group, .c = c, .where = where};
    uint64_t hashes[CLQ_REPLICAS_MAX] = {0};
    make_contents(t);
    make_all_memory(t);
    run(t);
    for (unsigned r = 0; r < all->count; r++) {
        check_side(t, r, 0, &hashes[r]);
        if (c->placement == APART) check_side(t, r, 1, &hashes[r]);
        if (c->collective == CLQ_ALL_REDUCE && hashes[r] != hashes[0])
            fail_msg("%s: rank %u has other bits than rank 0", where, r);
    }
    if (c->caller != CALL_COMM) must(t, clq_group_wait(group));
    free_all(t);
    clq_free(t);
    return clq_hash128_of(hashes, all->count * sizeof hashes[0], 2).low;
}

clq_group *comm_case_group(const ranks *all, const clq_group_config *config) {
    clq_rank given[CLQ_REPLICAS_MAX];
    clq_group *group;
    for (unsigned r = 0; r < all->count; r++)
        given[r] = (clq_rank){clq_device_context(all->devices[r]), clq_device_id(all->devices[r]),
                              clq_queue_handle(all->queues[r])};
    if (clq_group_create(given, all->count, config, &group) != CLQ_OK) fail_msg("%s", clq_error_detail());
    return group;
}
