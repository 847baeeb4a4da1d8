/* The collectives of a communicator that spans processes (wide.h), each in its three parts. Also what they need: which
 * process has which rank, and the host's view of the leader's memory. */
#include "comm/outer/wide.h"

#include "comm/communicator.h"
#include "comm/outer/outer.h"
#include "comm/reduce/reduce.h"

#include <string.h>

/* Host memory that grows when needed. */
typedef struct memory {
    void *data;
    size_t bytes;
} memory;

struct clq_wide {
    clq_comm *local;
    clq_world *world;
    clq_outer *outer;
    clq_algorithm algorithm;
    unsigned first, total;
    unsigned *begin; /* [world's size + 1]: the first rank of each process */
    bool is_even;    /* all processes have equally many devices */
    unsigned tags;   /* for messages between devices: tags + from * most + to, both ranks within their processes */
    unsigned most;   /* the most devices of any process */
    double deadline_s;
    atomic_uint_fast64_t busy_ns;
    /* The kinds of collectives that all processes were ready for. Used by the thread that issues collectives. */
    bool ready[CLQ_COLLECTIVE_COUNT][CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT];

    /* Used by the leader alone: */
    clq_buffer *passing; /* data on its way through the leader, if no buffer of the task takes it; grows */
    memory staging;      /* the host's copy, if the device has its own memory */
    memory halves;       /* the halves that travel in place of floats */
};

unsigned clq_wide_first(const clq_wide *wide) { return wide->first; }
unsigned clq_wide_total(const clq_wide *wide) { return wide->total; }
uint64_t clq_wide_busy_ns(const clq_wide *wide) { return atomic_load(&wide->busy_ns); }

/* The process that has a rank. */
static unsigned process_of(const clq_wide *wide, unsigned rank) {
    unsigned process = 0;
    while (rank >= wide->begin[process + 1]) process++;
    return process;
}

/* The algorithm between processes: the same on all ranks. */
static clq_algorithm choose(const clq_wide *wide, size_t bytes) {
    return clq_schedule_between(wide->algorithm, clq_world_size(wide->world), bytes);
}

clq_algorithm clq_wide_algorithm(const clq_wide *wide, clq_collective collective, size_t bytes) {
    return collective == CLQ_ALL_REDUCE ? choose(wide, bytes) : CLQ_ALGORITHM_RING;
}

void clq_wide_explain(const clq_wide *wide, clq_text *text) {
    clq_text_add(text, "%u ranks in %u processes: in each to its first rank, between these over %s by %s", wide->total,
                 clq_world_size(wide->world), clq_world_engine_name(wide->world),
                 clq_algorithm_name(choose(wide, SIZE_MAX / 64)));
    if (choose(wide, 1) != choose(wide, SIZE_MAX / 64))
        clq_text_add(text, " (of few bytes by %s)", clq_algorithm_name(choose(wide, 1)));
    clq_text_add(text, ", and back\n");
}

/* ---- between processes ---- */

/* The host's view of a range of the leader's memory. */
typedef struct view {
    clq_queue *queue;
    clq_buffer *buffer;
    size_t offset, bytes;
    char *host;
    bool is_mapped, is_copy;
} view;

static clq_status grow(memory *at, size_t bytes) {
    if (bytes <= at->bytes) return CLQ_OK;
    clq_free(at->data);
    at->bytes = 0;
    at->data = clq_alloc_unset(CLQ_PART_ALIGN, bytes);
    if (!at->data) return CLQ_ERROR_MEMORY;
    at->bytes = bytes;
    return CLQ_OK;
}

/* The commands that wrote the range are done before. */
static clq_status open_view(clq_wide *wide, view *at) {
    const clq_device *device = wide->local->members[0].device;
    char *host = clq_buffer_host(at->buffer);
    if (host && clq_device_get_info(device)->host_unified) {
        at->host = host + at->offset;
        return CLQ_OK;
    }
    at->is_mapped = clq_device_get_info(device)->host_unified;
    if (at->is_mapped) {
        void *mapping;
        CLQ_TRY(clq_queue_map(at->queue, at->buffer, at->offset, at->bytes, true, &mapping));
        at->host = mapping;
        return CLQ_OK;
    }
    at->is_copy = true;
    CLQ_TRY(grow(&wide->staging, at->bytes));
    at->host = wide->staging.data;
    return clq_queue_read(at->queue, at->buffer, at->offset, at->host, at->bytes, true);
}

static clq_status close_view(const view *at) {
    if (at->is_copy) return clq_queue_write(at->queue, at->buffer, at->offset, at->host, at->bytes, true);
    if (!at->is_mapped) return CLQ_OK;
    CLQ_TRY(clq_queue_unmap(at->queue, at->buffer, at->host));
    return clq_queue_finish(at->queue);
}

/* Carries out an all-reduce or a reduce-scatter of floats on halves, in place: the values are rounded to halves, which
 * travel and are added. */
static clq_status run_in_halves(clq_wide *wide, clq_outer_task outer) {
    const bool scatters = outer.collective == CLQ_REDUCE_SCATTER;
    const size_t count = outer.count * (scatters ? clq_world_size(wide->world) : 1);
    float *out = outer.out;
    const size_t own = (size_t)(out - (const float *)outer.in);
    CLQ_TRY(grow(&wide->halves, count * sizeof(uint16_t)));
    uint16_t *halves = wide->halves.data;
    clq_reduce_to_halves(outer.in, halves, count);
    outer.in = halves;
    outer.out = halves + own;
    outer.dtype = CLQ_F16;
    CLQ_TRY(clq_outer_run(wide->outer, &outer));
    clq_reduce_from_halves(halves + own, out, outer.count);
    return CLQ_OK;
}

/* The leader's part of a collective between processes, in place in the range `at`. in_at, out_at: offsets of its input
 * and output there. count: the collective's, with processes as ranks. root: a process. */
static clq_status cross(clq_wide *wide, const clq_task *task, clq_collective collective, size_t count, unsigned root,
                        view at, size_t in_at, size_t out_at) {
    const double began = clq_now();
    const bool in_halves =
        task->halves && task->dtype == CLQ_F32 && (collective == CLQ_ALL_REDUCE || collective == CLQ_REDUCE_SCATTER);
    CLQ_TRY(open_view(wide, &at));
    const clq_outer_task outer = {.collective = collective,
                                  .algorithm = choose(wide, count * clq_dtype_bytes(in_halves ? CLQ_F16 : task->dtype)),
                                  .in = at.host + in_at,
                                  .out = at.host + out_at,
                                  .count = count,
                                  .dtype = task->dtype,
                                  .op = task->op,
                                  .root = root,
                                  .divisor = wide->total,
                                  .deadline_s = wide->deadline_s};
    clq_status status = in_halves ? run_in_halves(wide, outer) : clq_outer_run(wide->outer, &outer);
    const clq_status closed = close_view(&at);
    atomic_fetch_add(&wide->busy_ns, (uint64_t)((clq_now() - began) * 1e9));
    return status == CLQ_OK ? closed : status;
}

/* ---- among the devices of this process ---- */

/* This rank's part of a collective among this process's devices, with the task's type. An average is only a sum here:
 * the division is done between processes. */
static clq_status among(clq_wide *wide, unsigned rank, const clq_task *task, clq_collective collective, clq_place_at in,
                        clq_place_at out, size_t count, unsigned root, unsigned to) {
    clq_task local = {.collective = collective,
                      .queue = task->queue,
                      .in = in.buffer,
                      .in_offset = in.offset,
                      .out = out.buffer,
                      .out_offset = out.offset,
                      .count = count,
                      .dtype = task->dtype,
                      .op = task->op == CLQ_REDOP_AVG ? CLQ_REDOP_SUM : task->op,
                      .root = root,
                      .to = to};
    return clq_comm_run_here(wide->local, rank, &local);
}

static clq_status meet(clq_wide *wide, unsigned rank, const clq_task *task, bool works) {
    clq_task local = {.collective = CLQ_BARRIER, .queue = task->queue};
    if (works) {
        local.between = task->between;
        local.context = task->context;
    }
    return clq_comm_run_here(wide->local, rank, &local);
}

static clq_place_at in_of(const clq_task *task) { return (clq_place_at){task->in, task->in_offset}; }
static clq_place_at out_of(const clq_task *task) { return (clq_place_at){task->out, task->out_offset}; }
static view view_of(const clq_task *task, clq_place_at place, size_t bytes) {
    return (view){.queue = task->queue, .buffer = place.buffer, .offset = place.offset, .bytes = bytes};
}

/* The leader's memory for data that passes through it. */
static clq_status pass_through(clq_wide *wide, size_t bytes, clq_place_at *out) {
    if (!wide->passing || clq_buffer_bytes(wide->passing) < bytes) {
        clq_buffer_destroy(wide->passing);
        wide->passing = NULL;
        CLQ_TRY(clq_buffer_create(wide->local->members[0].device, CLQ_MEMORY_DEVICE, bytes,
                                  "what passes between machines", &wide->passing));
    }
    *out = (clq_place_at){wide->passing, 0};
    return CLQ_OK;
}

/* ---- the collectives ---- */

static clq_status all_reduce(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    CLQ_TRY(among(wide, rank, task, CLQ_REDUCE, in_of(task), out_of(task), task->count, 0, 0));
    if (rank == 0) CLQ_TRY(cross(wide, task, CLQ_ALL_REDUCE, task->count, 0, view_of(task, out_of(task), bytes), 0, 0));
    return among(wide, rank, task, CLQ_BROADCAST, out_of(task), out_of(task), task->count, 0, 0);
}

static clq_status broadcast(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned process = process_of(wide, task->root);
    const bool is_here = process == clq_world_rank(wide->world);
    if (is_here)
        CLQ_TRY(among(wide, rank, task, CLQ_BROADCAST, in_of(task), out_of(task), task->count, task->root - wide->first,
                      0));
    if (rank == 0)
        CLQ_TRY(cross(wide, task, CLQ_BROADCAST, task->count, process, view_of(task, out_of(task), bytes), 0, 0));
    if (is_here) return CLQ_OK;
    return among(wide, rank, task, CLQ_BROADCAST, out_of(task), out_of(task), task->count, 0, 0);
}

static clq_status reduce(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned process = process_of(wide, task->root);
    const bool is_here = process == clq_world_rank(wide->world);
    const unsigned root = is_here ? task->root - wide->first : 0;
    clq_place_at sum = out_of(task);
    if (rank == 0 && !(is_here && root == 0)) CLQ_TRY(pass_through(wide, bytes, &sum));
    CLQ_TRY(among(wide, rank, task, CLQ_REDUCE, in_of(task), sum, task->count, 0, 0));
    if (rank == 0) CLQ_TRY(cross(wide, task, CLQ_REDUCE, task->count, process, view_of(task, sum, bytes), 0, 0));
    if (!is_here || root == 0) return CLQ_OK;
    return among(wide, rank, task, CLQ_SEND_RECV, sum, out_of(task), task->count, 0, root);
}

static clq_status reduce_scatter(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned here = wide->local->size;
    clq_place_at sum = {0};
    if (rank == 0) CLQ_TRY(pass_through(wide, wide->total * bytes, &sum));
    CLQ_TRY(among(wide, rank, task, CLQ_REDUCE, in_of(task), sum, wide->total * task->count, 0, 0));
    if (rank == 0)
        CLQ_TRY(cross(wide, task, CLQ_REDUCE_SCATTER, here * task->count, 0, view_of(task, sum, wide->total * bytes), 0,
                      wide->first * bytes));
    for (unsigned to = 0; to < here; to++) {
        const clq_place_at from = {sum.buffer, (wide->first + to) * bytes};
        CLQ_TRY(among(wide, rank, task, CLQ_SEND_RECV, from, out_of(task), task->count, 0, to));
    }
    return CLQ_OK;
}

static clq_status all_gather(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned here = wide->local->size;
    for (unsigned from = 0; from < here; from++) {
        const clq_place_at to = {task->out, task->out_offset + (wide->first + from) * bytes};
        CLQ_TRY(among(wide, rank, task, CLQ_SEND_RECV, in_of(task), to, task->count, from, 0));
    }
    if (rank == 0)
        CLQ_TRY(cross(wide, task, CLQ_ALL_GATHER, here * task->count, 0,
                      view_of(task, out_of(task), wide->total * bytes), wide->first * bytes, 0));
    return among(wide, rank, task, CLQ_BROADCAST, out_of(task), out_of(task), wide->total * task->count, 0, 0);
}

/* Waits until all devices of this process have come. The leader also waits until the same holds for every process. */
static clq_status all_met(clq_wide *wide, unsigned rank, const clq_task *task) {
    unsigned char byte = 0;
    const clq_outer_task outer = {.collective = CLQ_ALL_REDUCE,
                                  .algorithm = CLQ_ALGORITHM_DOUBLING,
                                  .in = &byte,
                                  .out = &byte,
                                  .count = 1,
                                  .dtype = CLQ_U8,
                                  .deadline_s = wide->deadline_s};
    CLQ_TRY(meet(wide, rank, task, false));
    return rank == 0 ? clq_outer_run(wide->outer, &outer) : CLQ_OK;
}

static clq_status barrier(clq_wide *wide, unsigned rank, const clq_task *task) {
    CLQ_TRY(all_met(wide, rank, task));
    CLQ_TRY(meet(wide, rank, task, true));
    if (!task->between) return CLQ_OK;
    CLQ_TRY(all_met(wide, rank, task));
    return meet(wide, rank, task, false);
}

/* A send/recv between devices of two processes. */
static clq_status send_or_receive(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned from = process_of(wide, task->root), to = process_of(wide, task->to);
    const unsigned tag = wide->tags + (task->root - wide->begin[from]) * wide->most + task->to - wide->begin[to];
    const bool sends = wide->first + rank == task->root;
    if (!sends && wide->first + rank != task->to) return CLQ_OK;
    char *data = clq_alloc_unset(CLQ_PART_ALIGN, bytes);
    if (!data) return CLQ_ERROR_MEMORY;
    clq_status status;
    if (sends) {
        status = clq_queue_read(task->queue, task->in, task->in_offset, data, bytes, true);
        if (status == CLQ_OK) status = clq_world_send(wide->world, to, tag, data, bytes, wide->deadline_s);
    } else {
        status = clq_world_receive(wide->world, from, tag, data, bytes, wide->deadline_s);
        if (status == CLQ_OK) status = clq_queue_write(task->queue, task->out, task->out_offset, data, bytes, true);
    }
    clq_free(data);
    return status;
}

static clq_status send_recv(clq_wide *wide, unsigned rank, const clq_task *task, size_t bytes) {
    const unsigned here = clq_world_rank(wide->world);
    const bool from_here = process_of(wide, task->root) == here, to_here = process_of(wide, task->to) == here;
    if (from_here && to_here)
        return among(wide, rank, task, CLQ_SEND_RECV, in_of(task), out_of(task), task->count, task->root - wide->first,
                     task->to - wide->first);
    return bytes > 0 ? send_or_receive(wide, rank, task, bytes) : CLQ_OK;
}

clq_status clq_wide_check_spread(const clq_wide *wide, clq_collective collective) {
    if (wide->is_even || (collective != CLQ_REDUCE_SCATTER && collective != CLQ_ALL_GATHER)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s needs equally many ranks in each process",
                    clq_collective_name(collective));
}

static clq_status run(clq_wide *wide, unsigned rank, const clq_task *task) {
    size_t bytes;
    if (task->collective == CLQ_BARRIER) return barrier(wide, rank, task);
    CLQ_TRY(clq_task_check(task, wide->total, CLQ_ERROR_INTERNAL, &bytes));
    CLQ_TRY(clq_wide_check_spread(wide, task->collective));
    if (bytes == 0) return CLQ_OK;
    switch (task->collective) {
    case CLQ_ALL_REDUCE: return all_reduce(wide, rank, task, bytes);
    case CLQ_BROADCAST: return broadcast(wide, rank, task, bytes);
    case CLQ_REDUCE: return reduce(wide, rank, task, bytes);
    case CLQ_REDUCE_SCATTER: return reduce_scatter(wide, rank, task, bytes);
    case CLQ_ALL_GATHER: return all_gather(wide, rank, task, bytes);
    default: return send_recv(wide, rank, task, bytes);
    }
}

/* The first failure aborts this process's communicator, and that ends the world. */
clq_status clq_wide_run(clq_wide *wide, unsigned rank, const clq_task *task) {
    const clq_status status = run(wide, rank, task);
    if (status == CLQ_OK) return CLQ_OK;
    clq_error why;
    clq_error_take(status, &why);
    clq_comm_abort(wide->local, &why);
    return clq_error_raise(&why);
}

void clq_wide_fail(const clq_wide *wide, const clq_error *why) { clq_world_fail(wide->world, why); }

/* ---- before a collective ---- */

static clq_status prepare_pairs(clq_wide *wide, clq_task task, bool to_leader) {
    task.collective = CLQ_SEND_RECV;
    for (unsigned r = 0; r < wide->local->size; r++) {
        task.root = to_leader ? r : 0;
        task.to = to_leader ? 0 : r;
        CLQ_TRY(clq_walk_prepare_here(wide->local, &task));
    }
    return CLQ_OK;
}

/* Prepares what the collectives above call among the devices of this process. */
static clq_status prepare_here(clq_wide *wide, const clq_task *asked) {
    clq_task task = *asked;
    const bool gathers = asked->collective == CLQ_ALL_GATHER, scatters = asked->collective == CLQ_REDUCE_SCATTER;
    if (asked->collective == CLQ_BARRIER) return CLQ_OK;
    if (gathers || scatters || asked->collective == CLQ_REDUCE) CLQ_TRY(prepare_pairs(wide, task, gathers));
    task.root = task.to = 0;
    task.op = asked->op == CLQ_REDOP_AVG ? CLQ_REDOP_SUM : asked->op;
    if (gathers || scatters) task.count *= wide->total;
    task.collective = CLQ_BROADCAST;
    if (!scatters) CLQ_TRY(clq_walk_prepare_here(wide->local, &task));
    task.collective = CLQ_REDUCE;
    return clq_collective_reduces(asked->collective) ? clq_walk_prepare_here(wide->local, &task) : CLQ_OK;
}

/* One process may compile for long while another has its kernels already. So the processes meet before the first
 * collective of a kind, within the world's deadline: the group's deadline does not run meanwhile. */
clq_status clq_wide_prepare(clq_wide *wide, const clq_task *task) {
    bool *ready = &wide->ready[task->collective][task->dtype][task->op];
    CLQ_TRY(prepare_here(wide, task));
    if (!*ready) CLQ_TRY(clq_world_barrier(wide->world));
    *ready = true;
    return CLQ_OK;
}

/* ---- making ---- */

/* What a process tells the others about its communicator. */
typedef struct side {
    uint32_t devices, algorithm;
} side;

static clq_status meet_sides(clq_wide *wide) {
    const unsigned size = clq_world_size(wide->world);
    const side mine = {wide->local->size, (uint32_t)wide->algorithm};
    side *all = clq_alloc(size, sizeof *all);
    wide->begin = clq_alloc(size + 1, sizeof *wide->begin);
    clq_status status = all && wide->begin ? clq_world_gather(wide->world, &mine, sizeof mine, all) : CLQ_ERROR_MEMORY;
    wide->is_even = true;
    for (unsigned r = 0; status == CLQ_OK && r < size; r++) {
        wide->begin[r + 1] = wide->begin[r] + all[r].devices;
        wide->is_even = wide->is_even && all[r].devices == all[0].devices;
        wide->most = CLQ_MAX(wide->most, all[r].devices);
        if (all[r].algorithm != all[0].algorithm)
            status = clq_fail(CLQ_ERROR_MISMATCH, "%s has another algorithm than %s", clq_world_name(wide->world, r),
                              clq_world_name(wide->world, 0));
    }
    clq_free(all);
    if (status != CLQ_OK) return status;
    wide->first = wide->begin[clq_world_rank(wide->world)];
    wide->total = wide->begin[size];
    return clq_world_new_tags(wide->world, wide->most * wide->most, &wide->tags);
}

clq_status clq_wide_create(clq_comm *local, clq_world *world, clq_algorithm algorithm, clq_wide **out) {
    clq_wide *wide = clq_alloc(1, sizeof *wide);
    if (!wide) return clq_world_fail_with(world, CLQ_ERROR_MEMORY);
    wide->local = local;
    wide->world = world;
    wide->algorithm = algorithm;
    wide->deadline_s = local->deadline_s;
    clq_status status = meet_sides(wide);
    if (status == CLQ_OK) status = clq_outer_create(world, 0, &wide->outer);
    if (status == CLQ_OK) {
        *out = wide;
        return CLQ_OK;
    }
    /* All processes see a mismatch by themselves. After any other failure the others would wait in vain, so the world
     * ends. */
    if (status != CLQ_ERROR_MISMATCH) status = clq_world_fail_with(world, status);
    clq_wide_destroy(wide);
    return status;
}

void clq_wide_destroy(clq_wide *wide) {
    if (!wide) return;
    clq_outer_destroy(wide->outer);
    clq_buffer_destroy(wide->passing);
    clq_free(wide->staging.data);
    clq_free(wide->halves.data);
    clq_free(wide->begin);
    clq_free(wide);
}
