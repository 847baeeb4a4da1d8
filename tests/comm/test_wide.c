/* Communicators over the devices of several processes. Checks values, and that the bits equal those of the hierarchical
 * algorithm in one process with as many devices. Here a process is a thread with devices of its own, on a network that
 * the tests simulate. */
#include "support/comm_ranks.h"
#include "support/stop.h"
#include "support/world_fabric.h"

static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};
enum { PROCESSES_MAX = 4 };

/* One collective over all devices. */
typedef struct trial {
    clq_collective collective;
    size_t count;
    unsigned root, to, total;
    clq_redop op;
    bool in_place, is_whole; /* is_whole: values are whole numbers, whose float sum is the same in any order */
    bool halves;             /* halves travel; if not is_whole, two processes with one device each */
} trial;

typedef struct cluster {
    unsigned processes;
    ranks of[PROCESSES_MAX];
    float *kept; /* rank 0's result of the last all-reduce */
    bool aborts;
} cluster;

typedef struct process {
    clq_comm *comm;
    const trial *trial;
    float *kept;
} process;

static float value_of(const trial *t, unsigned rank, size_t i) {
    const unsigned mixed = (unsigned)(i * 7 + rank * 13 + i / 64) % 61;
    return t->is_whole ? (float)((int)mixed - 30) : (float)mixed / 7;
}

static float rounded(float value) { return clq_half_to_float(clq_half_of_float(value)); }

static float reduced(const trial *t, size_t i) {
    if (t->halves && !t->is_whole) return rounded(rounded(value_of(t, 0, i)) + rounded(value_of(t, 1, i)));
    float sum = value_of(t, 0, i);
    for (unsigned r = 1; r < t->total; r++) {
        const float next = value_of(t, r, i);
        sum = t->op == CLQ_REDOP_MAX ? (next > sum ? next : sum) : sum + next;
    }
    return t->op == CLQ_REDOP_AVG ? sum * (1.0F / (float)t->total) : sum;
}

static bool wanted(const trial *t, unsigned rank, size_t i, float *out) {
    switch (t->collective) {
    case CLQ_ALL_REDUCE: *out = reduced(t, i); return t->is_whole || t->halves;
    case CLQ_REDUCE: *out = reduced(t, i); return rank == t->root;
    case CLQ_REDUCE_SCATTER: *out = reduced(t, rank * t->count + i); return true;
    case CLQ_ALL_GATHER: *out = value_of(t, (unsigned)(i / t->count), i % t->count); return true;
    case CLQ_BROADCAST: *out = value_of(t, t->root, i); return true;
    default: *out = value_of(t, t->root, i); return rank == t->to;
    }
}

typedef struct memory {
    clq_buffer *in, *out;
    size_t in_offset, out_offset, outs;
} memory;

static clq_status make_memory(const ranks *mine, unsigned rank, unsigned global, const trial *t, memory *out) {
    const size_t ins = t->collective == CLQ_REDUCE_SCATTER ? t->total * t->count : t->count;
    out->outs = t->collective == CLQ_ALL_GATHER ? t->total * t->count : t->count;
    const size_t most = CLQ_MAX(ins, out->outs) + 1;
    out->in_offset = t->in_place && t->collective == CLQ_ALL_GATHER ? global * t->count * sizeof(float) : 0;
    out->out_offset = t->in_place && t->collective == CLQ_REDUCE_SCATTER ? global * t->count * sizeof(float) : 0;
    float *values = clq_alloc(most, sizeof *values);
    if (!values) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < ins; i++) values[out->in_offset / sizeof *values + i] = value_of(t, global, i);
    clq_status status =
        clq_buffer_create(mine->devices[rank], CLQ_MEMORY_DEVICE, most * sizeof *values, "in", &out->in);
    if (status == CLQ_OK) status = clq_queue_write(mine->queues[rank], out->in, 0, values, most * sizeof *values, true);
    out->out = out->in;
    if (status == CLQ_OK && !t->in_place)
        status = clq_buffer_create(mine->devices[rank], CLQ_MEMORY_DEVICE, most * sizeof *values, "out", &out->out);
    clq_free(values);
    return status;
}

static clq_status check(process *self, ranks *mine, unsigned rank, unsigned global, const memory *m) {
    const trial *t = self->trial;
    float *values = clq_alloc(m->outs, sizeof *values), right;
    clq_status status = CLQ_OK;
    if (m->outs > 0)
        status = clq_queue_read(mine->queues[rank], m->out, m->out_offset, values, m->outs * sizeof *values, true);
    for (size_t i = 0; status == CLQ_OK && i < m->outs; i++)
        if (wanted(t, global, i, &right) && values[i] != right)
            status = clq_fail(CLQ_ERROR_STATE, "%s of %zu%s, root %u: rank %u of %u: [%zu] is %.9g, not %.9g",
                              clq_collective_name(t->collective), t->count, t->in_place ? " in place" : "", t->root,
                              global, t->total, i, (double)values[i], (double)right);
    if (self->kept && global == 0)
        self->kept = values;
    else
        clq_free(values);
    return status;
}

static clq_status run_device(ranks *mine, unsigned rank, void *context) {
    process *self = context;
    const trial *t = self->trial;
    const unsigned global = clq_comm_first(self->comm) + rank;
    memory m = {0};
    CLQ_TRY(make_memory(mine, rank, global, t, &m));
    const clq_task task = {.collective = t->collective,
                           .queue = mine->queues[rank],
                           .in = m.in,
                           .out = m.out,
                           .in_offset = m.in_offset,
                           .out_offset = m.out_offset,
                           .count = t->count,
                           .dtype = CLQ_F32,
                           .op = t->op,
                           .halves = t->halves,
                           .root = t->root,
                           .to = t->to};
    clq_status status = clq_comm_run(self->comm, rank, &task);
    if (status == CLQ_OK) status = check(self, mine, rank, global, &m);
    if (m.out != m.in) clq_buffer_destroy(m.out);
    clq_buffer_destroy(m.in);
    return status;
}

static clq_status run_devices(process *self, ranks *mine, ranks_body *body) {
    ranks_run(mine, body, self);
    for (unsigned r = 0; r < mine->count; r++) CLQ_TRY(clq_error_raise(&mine->results[r]));
    return CLQ_OK;
}

static clq_status run_trials(process *self, ranks *mine, bool is_even) {
    static const size_t counts[] = {0, 1, 257, 20000};
    for (int c = CLQ_ALL_REDUCE; c < CLQ_COLLECTIVE_COUNT; c++)
        for (size_t n = 0; n < CLQ_COUNT_OF(counts); n++)
            for (unsigned way = 0; way < 4; way++) {
                const clq_redop ops[] = {CLQ_REDOP_SUM, CLQ_REDOP_AVG, CLQ_REDOP_MAX, CLQ_REDOP_SUM};
                trial t = {.collective = (clq_collective)c, .count = counts[n], .op = ops[way], .is_whole = true};
                t.total = clq_comm_total(self->comm);
                t.in_place = way % 2 == 0 && c != CLQ_SEND_RECV;
                t.halves = way == 0; /* whole numbers of this size are exact as halves, too */
                t.root = (unsigned)(way + n) % t.total;
                t.to = (unsigned)(2 * way + n + 1) % t.total;
                if (!is_even && (c == CLQ_REDUCE_SCATTER || c == CLQ_ALL_GATHER)) continue;
                self->trial = &t;
                CLQ_TRY(run_devices(self, mine, run_device));
            }
    return CLQ_OK;
}

static bool is_even(const cluster *all) {
    for (unsigned p = 1; p < all->processes; p++)
        if (all->of[p].count != all->of[0].count) return false;
    return true;
}

/* Must run before the world is closed. */
static void destroy(ranks *mine) {
    clq_comm_destroy(mine->comm);
    mine->comm = NULL;
}

static void runs_all(fabric_rank *rank) {
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    process self = {.comm = mine->comm};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    if (status == CLQ_OK) status = run_trials(&self, mine, is_even(all));
    fabric_note(rank, status);
    destroy(mine);
}

/* kinds: the devices of each process. config: of the first process. others: config of all other processes. */
static void with_cluster(unsigned processes, const char *const *kinds, const clq_group_config *config,
                         const clq_group_config *others, void (*body)(fabric_rank *), cluster *all) {
    fabric_rank ranks_of[FABRIC_RANKS_MAX];
    all->processes = processes;
    for (unsigned p = 0; p < processes; p++) ranks_open(&all->of[p], kinds[p], false, p == 0 ? config : others);
    fabric *network = fabric_open(processes, 0, 0);
    fabric_run(network, processes, &patient, body, all, ranks_of);
    fabric_close(network);
    for (unsigned p = 0; p < processes; p++) ranks_close(&all->of[p]);
    for (unsigned p = 0; p < processes; p++)
        if (ranks_of[p].ended != CLQ_OK) fail_msg("process %u: %s", p, ranks_of[p].detail);
}

static void all_collectives(void **state) {
    (void)state;
    static const struct {
        unsigned processes;
        const char *kinds[PROCESSES_MAX];
        clq_group_config config;
    } clusters[] = {
        {1, {"bb"}, {0}},
        {2, {"b", "b"}, {0}},
        {2, {"bb", "bb"}, {0}},
        {3, {"bb", "bb", "bb"}, {0}},
        {4, {"b", "b", "b", "b"}, {0}},
        {2, {"bb", "b"}, {0}}, /* different numbers of devices */
        {3, {"b", "pbb", "bb"}, {0}},
        {2, {"bb", "bb"}, {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED}},
        {3, {"bb", "bb", "bb"}, {.algorithm = CLQ_ALGORITHM_DOUBLING, .transport = CLQ_TRANSPORT_STAGED}},
        {3, {"b", "b", "b"}, {.algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE, .transport = CLQ_TRANSPORT_STAGED}},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(clusters); i++) {
        cluster all = {0};
        with_cluster(clusters[i].processes, clusters[i].kinds, &clusters[i].config, &clusters[i].config, runs_all,
                     &all);
    }
}

/* The processes exchange halves: each process's number is rounded to a half, and so is the sum. */
static void sums_halves(fabric_rank *rank) {
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    process self = {.comm = mine->comm};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    for (unsigned i = 0; i < 4 && status == CLQ_OK; i++) {
        const trial t = {.collective = i < 2 ? CLQ_ALL_REDUCE : CLQ_REDUCE_SCATTER,
                         .count = 30011,
                         .total = 2,
                         .in_place = i % 2 == 0,
                         .halves = true};
        self.trial = &t;
        status = run_devices(&self, mine, run_device);
    }
    fabric_note(rank, status);
    destroy(mine);
}

static void halves_travel(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "b"};
    const clq_group_config config = {0};
    cluster all = {0};
    with_cluster(2, kinds, &config, &config, sums_halves, &all);
}

/* ---- the bits of one process ---- */

static const trial fractions = {.collective = CLQ_ALL_REDUCE, .count = 30011};

static void keeps_sum(fabric_rank *rank) {
    static float none;
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    trial t = fractions;
    process self = {.comm = mine->comm, .trial = &t, .kept = &none};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    if (status == CLQ_OK) {
        t.total = clq_comm_total(self.comm);
        status = run_devices(&self, mine, run_device);
    }
    if (rank->rank == 0) all->kept = self.kept;
    fabric_note(rank, status);
    destroy(mine);
}

typedef struct whole {
    float *sum;
} whole;

static clq_status sum_in_one_process(ranks *all, unsigned rank, void *context) {
    whole *result = context;
    const size_t bytes = fractions.count * sizeof(float);
    memory m = {0};
    trial t = fractions;
    t.total = all->count;
    t.in_place = true;
    CLQ_TRY(make_memory(all, rank, rank, &t, &m));
    clq_status status =
        clq_comm_all_reduce(all->comm, rank, all->queues[rank], m.in, 0, m.in, 0, fractions.count, CLQ_F32);
    if (status == CLQ_OK && rank == 0) status = clq_queue_read(all->queues[0], m.in, 0, result->sum, bytes, true);
    clq_buffer_destroy(m.in);
    return status;
}

static void sums_have_the_bits_of_one_process(void **state) {
    (void)state;
    const clq_group_config config = {.algorithm = CLQ_ALGORITHM_HIERARCHICAL, .transport = CLQ_TRANSPORT_STAGED};
    const char *const kinds[] = {"b1b1", "b1b1"};
    cluster all = {0};
    whole one = {.sum = clq_alloc(fractions.count, sizeof(float))};
    ranks single;
    with_cluster(2, kinds, &config, &config, keeps_sum, &all);
    ranks_open(&single, "b1b1b2b2", false, &config);
    ranks_run(&single, sum_in_one_process, &one);
    ranks_expect_ok(&single);
    ranks_close(&single);
    assert_memory_equal(all.kept, one.sum, fractions.count * sizeof(float));
    clq_free(all.kept);
    clq_free(one.sum);
}

/* ---- barriers and failure ---- */

static atomic_uint came;

static clq_status work(void *context) {
    (void)context;
    nap(2e-3);
    atomic_fetch_add(&came, 1);
    return CLQ_OK;
}

static clq_status meet_device(ranks *mine, unsigned rank, void *context) {
    process *self = context;
    const unsigned total = clq_comm_total(self->comm);
    for (unsigned turn = 1; turn <= 5; turn++) {
        const clq_task task = {.collective = CLQ_BARRIER, .queue = mine->queues[rank], .between = work};
        CLQ_TRY(clq_comm_run(self->comm, rank, &task));
        if (atomic_load(&came) < turn * total)
            return clq_fail(CLQ_ERROR_STATE, "turn %u: %u came", turn, atomic_load(&came));
    }
    return CLQ_OK;
}

static void meets(fabric_rank *rank) {
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    process self = {.comm = mine->comm};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    if (status == CLQ_OK) status = run_devices(&self, mine, meet_device);
    fabric_note(rank, status);
    destroy(mine);
}

static void barriers_hold_all_devices(void **state) {
    (void)state;
    const char *const kinds[] = {"bb", "bb", "b"};
    cluster all = {0};
    atomic_store(&came, 0);
    with_cluster(3, kinds, NULL, NULL, meets, &all);
}

static clq_status fail_one(ranks *mine, unsigned rank, void *context) {
    process *self = context;
    clq_status status = CLQ_OK;
    for (unsigned turn = 0; status == CLQ_OK; turn++) {
        if (turn == 3 && clq_comm_first(self->comm) + rank == 3) {
            const clq_error why = {CLQ_ERROR_DEVICE, "its device is lost"};
            clq_comm_abort(mine->comm, &why);
        }
        status = run_device(mine, rank, context);
    }
    return status;
}

static void fails(fabric_rank *rank) {
    const trial t = {.collective = CLQ_ALL_REDUCE, .count = 5000, .is_whole = true, .total = 4};
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    process self = {.comm = mine->comm, .trial = &t};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    if (status == CLQ_OK) ranks_run(mine, fail_one, &self);
    for (unsigned r = 0; status == CLQ_OK && r < mine->count; r++)
        if (mine->results[r].status == CLQ_OK || !strstr(mine->results[r].detail, "its device is lost"))
            status = clq_fail(CLQ_ERROR_STATE, "device %u: %s", r, mine->results[r].detail);
    if (status == CLQ_OK && clq_world_failure(rank->world) == CLQ_OK)
        status = clq_fail(CLQ_ERROR_STATE, "the world goes on");
    fabric_note(rank, status);
    destroy(mine);
}

static void a_failure_ends_all_processes(void **state) {
    (void)state;
    const char *const kinds[] = {"bb", "bb"};
    cluster all = {0};
    with_cluster(2, kinds, NULL, NULL, fails, &all);
}

/* The leader of process 0 waits for process 1, which aborts or does not come within 0.5 s. */
static void leaves_in_the_lurch(fabric_rank *rank) {
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    const trial t = {.collective = CLQ_ALL_REDUCE, .count = 5000, .is_whole = true, .total = 4};
    process self = {.comm = mine->comm, .trial = &t};
    const clq_error why = {CLQ_ERROR_ABORTED, "no more of this"};
    clq_status status = clq_comm_span(mine->comm, rank->world);
    if (status == CLQ_OK && rank->rank == 0) {
        ranks_run(mine, run_device, &self);
        status = clq_error_raise(&mine->results[0]);
    } else if (status == CLQ_OK) {
        nap(0.2);
        if (!all->aborts) {
            while (clq_world_failure(rank->world) == CLQ_OK) nap(0.01);
        } else {
            clq_comm_abort(mine->comm, &why);
        }
        status = clq_world_failure(rank->world);
    }
    fabric_note(rank, status);
    destroy(mine);
}

static void leave_in_the_lurch(const clq_group_config *config, bool aborts, fabric_rank *ended) {
    const char *const kinds[] = {"bb", "bb"};
    cluster all = {.processes = 2, .aborts = aborts};
    for (unsigned p = 0; p < 2; p++) ranks_open(&all.of[p], kinds[p], false, config);
    fabric *network = fabric_open(2, 0, 0);
    const double began = clq_now();
    fabric_run(network, 2, &patient, leaves_in_the_lurch, &all, ended);
    fabric_close(network);
    assert_true(clq_now() - began < 20);
    for (unsigned p = 0; p < 2; p++) ranks_close(&all.of[p]);
}

static void an_abort_ends_the_wait_of_others(void **state) {
    (void)state;
    fabric_rank ended[2];
    leave_in_the_lurch(NULL, true, ended);
    assert_int_equal(ended[0].ended, CLQ_ERROR_ABORTED);
    expect_text(ended[0].detail, "no more of this");
}

static void who_does_not_come_is_named(void **state) {
    (void)state;
    fabric_rank ended[2];
    leave_in_the_lurch(&(clq_group_config){.deadline_s = 0.5}, false, ended);
    assert_int_equal(ended[0].ended, CLQ_ERROR_TIMEOUT);
    expect_text(ended[0].detail, "rank 1 on ");
    expect_text(ended[0].detail, "did not come to an all-reduce within the deadline of 0.5 s");
}

static void unlike_algorithms(fabric_rank *rank) {
    cluster *all = rank->context;
    ranks *mine = &all->of[rank->rank];
    const clq_status status = clq_comm_span(mine->comm, rank->world);
    fabric_note(rank,
                status == CLQ_ERROR_MISMATCH && strstr(clq_error_detail(), "rank 1 on") ? CLQ_OK : CLQ_ERROR_STATE);
    destroy(mine);
}

static void unlike_processes_are_named(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "b"};
    cluster all = {0};
    const clq_group_config ring = {.algorithm = CLQ_ALGORITHM_RING};
    with_cluster(2, kinds, NULL, &ring, unlike_algorithms, &all);
}

/* ---- public groups ---- */

enum { GROUP_COUNT = 700 };

static clq_slice slice_of(clq_group *group, const ranks *mine, unsigned rank, size_t elements, float first) {
    float *values = clq_alloc(elements, sizeof *values);
    clq_slice slice = {0};
    for (size_t i = 0; values && i < elements; i++) values[i] = first + (float)(i % 100);
    if (clq_group_alloc(group, rank, elements * sizeof *values, &slice.memory) == CLQ_OK)
        (void)clEnqueueWriteBuffer(clq_queue_handle(mine->queues[rank]), slice.memory, CL_TRUE, 0,
                                   elements * sizeof *values, values, 0, NULL, NULL);
    clq_free(values);
    return slice;
}

static bool holds(const ranks *mine, unsigned rank, const clq_slice *slice, size_t at, float value) {
    float found = 0;
    return clEnqueueReadBuffer(clq_queue_handle(mine->queues[rank]), slice->memory, CL_TRUE, at * sizeof found,
                               sizeof found, &found, 0, NULL, NULL) == CL_SUCCESS &&
           found == value;
}

/* Each element is the rank's number among all ranks, plus i % 100. */
static clq_status call_group(clq_group *group, const ranks *mine) {
    const unsigned first = clq_group_first(group), total = clq_group_total(group);
    clq_slice in[CLQ_REPLICAS_MAX], out[CLQ_REPLICAS_MAX];
    bool right = total == 3;
    for (unsigned r = 0; r < mine->count; r++) {
        in[r] = slice_of(group, mine, r, GROUP_COUNT, (float)(first + r));
        out[r] = slice_of(group, mine, r, GROUP_COUNT, 0);
    }
    CLQ_TRY(clq_group_start(group)); /* two calls that are packed */
    CLQ_TRY(clq_all_reduce(group, in, out, GROUP_COUNT, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
    CLQ_TRY(clq_all_reduce(group, in, in, GROUP_COUNT, CLQ_F32, CLQ_REDOP_MAX, NULL, NULL));
    CLQ_TRY(clq_group_end(group));
    for (unsigned r = 0; r < mine->count; r++)
        right = right && holds(mine, r, &out[r], 150, 3 + 3 * 50) && holds(mine, r, &in[r], 699, 2 + 99);
    /* From the first process to the last rank of the second. */
    CLQ_TRY(clq_send_recv(group, 0, out, total - 1, &in[mine->count - 1], GROUP_COUNT, CLQ_F32, NULL, NULL));
    if (first > 0) right = right && holds(mine, mine->count - 1, &in[mine->count - 1], 150, 3 + 3 * 50);
    CLQ_TRY(clq_broadcast(group, in, out, GROUP_COUNT, CLQ_F32, total - 1, NULL, NULL));
    for (unsigned r = 0; r < mine->count; r++) right = right && holds(mine, r, &out[r], 150, 3 + 3 * 50);
    CLQ_TRY(clq_group_barrier(group, NULL, NULL));
    return right ? CLQ_OK : clq_fail(CLQ_ERROR_STATE, "a wrong value");
}

static clq_status misuse_group(clq_group *group, const ranks *mine, clq_world *world) {
    clq_slice in[CLQ_REPLICAS_MAX], out[CLQ_REPLICAS_MAX];
    clq_group *part;
    const int colors[CLQ_REPLICAS_MAX] = {0};
    for (unsigned r = 0; r < mine->count; r++) in[r] = out[r] = slice_of(group, mine, r, GROUP_COUNT, 0);
    const bool right =
        clq_broadcast(group, in, out, 10, CLQ_F32, clq_group_total(group), NULL, NULL) == CLQ_ERROR_ARGUMENT &&
        clq_all_gather(group, in, out, 10, CLQ_F32, NULL, NULL) == CLQ_ERROR_UNSUPPORTED && /* with 1 and 2 ranks */
        clq_group_span(group, world) == CLQ_ERROR_STATE &&
        clq_group_split(group, colors, NULL, 1, &part) == CLQ_ERROR_UNSUPPORTED;
    return right ? clq_group_barrier(group, NULL, NULL) : clq_fail(CLQ_ERROR_STATE, "misuse: %s", clq_error_detail());
}

static void runs_group(fabric_rank *rank) {
    cluster *all = rank->context;
    const ranks *mine = &all->of[rank->rank];
    clq_rank members[CLQ_REPLICAS_MAX];
    clq_group *group;
    for (unsigned r = 0; r < mine->count; r++)
        members[r] = (clq_rank){clq_device_context(mine->devices[r]), clq_device_id(mine->devices[r]),
                                clq_queue_handle(mine->queues[r])};
    clq_status status = clq_group_create(members, mine->count, NULL, &group);
    if (status == CLQ_OK) {
        status = clq_group_span(group, rank->world);
        if (status == CLQ_OK) status = call_group(group, mine);
        if (status == CLQ_OK) status = misuse_group(group, mine, rank->world);
        if (status != CLQ_OK) clq_world_abort(rank->world, clq_error_detail());
        fabric_note(rank, status);
        clq_group_destroy(group);
        return;
    }
    fabric_note(rank, status);
}

static void groups_span_processes(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "bb"};
    cluster all = {0};
    with_cluster(2, kinds, NULL, NULL, runs_group, &all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_collectives),
        cmocka_unit_test(halves_travel),
        cmocka_unit_test(sums_have_the_bits_of_one_process),
        cmocka_unit_test(barriers_hold_all_devices),
        cmocka_unit_test(a_failure_ends_all_processes),
        cmocka_unit_test(an_abort_ends_the_wait_of_others),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(unlike_processes_are_named),
        cmocka_unit_test(groups_span_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
