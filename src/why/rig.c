/* Made-up work on several devices at once. */
#include "why/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double window_s = 8e-3; /* of one look at a rate */
/* A thread that was just started may share a core with the one that started it. The system moves it within some
 * milliseconds, which are not counted. */
static const double settle_s = 12e-3;
static const double deadline_s = 30; /* of a collective */

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double clq_median(double *values, size_t count) {
    if (count == 0) return 0.0;
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- life ---- */

/* Zeros: sums of arbitrary data may be numbers that take longer to add. */
static clq_status open_values(clq_rig_member *m, size_t bytes) {
    CLQ_TRY(clq_buffer_create(m->device, CLQ_MEMORY_DEVICE, bytes, "made-up gradient", &m->values));
    CLQ_TRY(clq_buffer_create(m->device, CLQ_MEMORY_DEVICE, bytes, "made-up parameters", &m->copy));
    m->gradient = clq_buffer_host(m->values);
    m->parameters = clq_buffer_host(m->copy);
    m->borrows = !m->gradient || !m->parameters;
    if (m->borrows) {
        m->gradient = clq_alloc(bytes, 1);
        m->parameters = clq_alloc(bytes, 1);
        if (!m->gradient || !m->parameters) return CLQ_ERROR_MEMORY;
        return clq_queue_write(m->queue, m->values, 0, m->gradient, bytes, true);
    }
    memset(m->gradient, 0, bytes);
    return CLQ_OK;
}

static clq_status open_member(clq_rig_member *m, size_t memory_bytes) {
    m->times = clq_alloc(CLQ_RIG_TIMES_MAX, sizeof *m->times);
    if (!m->times) return CLQ_ERROR_MEMORY;
    CLQ_TRY(clq_queue_create(m->device, 0, &m->queue));
    CLQ_TRY(clq_load_create(m->queue, CLQ_LOAD_ARITHMETIC, 0, &m->arithmetic));
    CLQ_TRY(clq_load_create(m->queue, CLQ_LOAD_MEMORY, memory_bytes, &m->memory));
    return open_values(m, m->rig->value_bytes);
}

clq_status clq_rig_open(const clq_devices *devices, size_t memory_bytes, size_t value_bytes, clq_rig *rig) {
    clq_device *opened[CLQ_REPLICAS_MAX];
    *rig = (clq_rig){.count = 0};
    CLQ_TRY(clq_desk_open(rig));
    CLQ_TRY(clq_devices_open(devices, false, opened, NULL));
    rig->count = devices->count;
    /* Whole lines, and at least one line for each part of a sum. */
    rig->value_bytes =
        clq_round_up(CLQ_MAX(value_bytes, (size_t)CLQ_VARIABLE_ALIGN * rig->count), (size_t)CLQ_VARIABLE_ALIGN);
    for (unsigned r = 0; r < rig->count; r++)
        rig->members[r] = (clq_rig_member){.rig = rig, .rank = r, .device = opened[r]};
    for (unsigned r = 0; r < rig->count; r++) CLQ_TRY(open_member(&rig->members[r], memory_bytes));
    return CLQ_OK;
}

void clq_rig_close(clq_rig *rig) {
    for (unsigned r = 0; r < rig->count; r++) {
        clq_rig_member *m = &rig->members[r];
        clq_load_destroy(m->arithmetic);
        clq_load_destroy(m->memory);
        if (m->borrows) {
            clq_free(m->gradient);
            clq_free(m->parameters);
        }
        clq_buffer_destroy(m->copy);
        clq_buffer_destroy(m->values);
        clq_queue_destroy(m->queue);
        clq_device_close(m->device);
        clq_free(m->times);
    }
    clq_desk_close(rig);
    *rig = (clq_rig){.count = 0};
}

/* ---- a run ---- */

static void give_up(clq_rig_member *m, clq_status status) {
    clq_error_take(status, &m->error);
    clq_barrier_abort(m->rig->start);
    clq_desk_abort(m->rig);
    if (m->rig->comm) clq_comm_abort(m->rig->comm, &m->error);
}

static void work(void *context) {
    clq_rig_member *m = context;
    const clq_rig *rig = m->rig;
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < rig->rounds_before && status == CLQ_OK; i++) status = rig->round(m);
    if (status == CLQ_OK) status = clq_barrier_wait(rig->start, deadline_s);
    const double begun = clq_now();
    double now = begun;
    size_t rounds = 0;
    while (status == CLQ_OK && (rig->rounds_wanted ? rounds < rig->rounds_wanted : now - begun < rig->lasts_s)) {
        const double start = now;
        status = rig->round(m);
        now = clq_now();
        if (rounds < CLQ_RIG_TIMES_MAX) m->times[rounds] = now - start;
        rounds++;
    }
    m->timed = CLQ_MIN(rounds, (size_t)CLQ_RIG_TIMES_MAX);
    if (status != CLQ_OK)
        give_up(m, status);
    else
        m->seconds = (now - begun) / (double)CLQ_MAX(rounds, (size_t)1);
}

/* Runs the first `count` members at the same time. Fields of the rig that are not set here keep their values. */
static clq_status run(clq_rig *rig, unsigned count) {
    clq_status status = clq_barrier_create(count, &rig->start);
    unsigned started = 0;
    rig->at_work = count;
    rig->present = rig->turn = 0;
    atomic_store(&rig->aborted, false);
    for (; started < count && status == CLQ_OK; started++) {
        clq_rig_member *m = &rig->members[started];
        char name[16];
        (void)snprintf(name, sizeof name, "probe %u", started % 1000u);
        m->error = (clq_error){.status = CLQ_OK};
        status = clq_thread_start(name, work, m, &m->thread);
        if (status != CLQ_OK) give_up(m, status);
    }
    for (unsigned r = 0; r < started; r++) {
        clq_thread_join(rig->members[r].thread);
        rig->members[r].thread = NULL;
    }
    clq_barrier_destroy(rig->start);
    rig->start = NULL;
    for (unsigned aborted = 0; aborted < 2; aborted++) /* prefers the failure that ended the other members */
        for (unsigned r = 0; r < started; r++)
            if (rig->members[r].error.status != CLQ_OK &&
                (rig->members[r].error.status == CLQ_ERROR_ABORTED) == (aborted == 1))
                return clq_error_raise(&rig->members[r].error);
    return status;
}

/* ---- rates ---- */

static clq_status round_of_load(clq_rig_member *m) {
    const clq_rig *rig = m->rig;
    CLQ_TRY(clq_load_enqueue(rig->load == CLQ_LOAD_ARITHMETIC ? m->arithmetic : m->memory, rig->rounds[m->rank]));
    return clq_queue_finish(m->queue);
}

static double work_of(const clq_rig_member *m, clq_load_kind kind) {
    return clq_load_work(kind == CLQ_LOAD_ARITHMETIC ? m->arithmetic : m->memory);
}

/* Sets the member's rounds of the load so that they take about a twentieth of a look at a rate. */
static clq_status fit_rounds(clq_rig *rig, clq_load_kind kind, unsigned member) {
    clq_rig_member *m = &rig->members[member];
    int rounds = 1;
    rig->load = kind;
    for (double seconds = 0; rounds < CLQ_LOAD_ROUNDS_MAX; rounds *= 2) {
        rig->rounds[member] = rounds;
        const double start = clq_now();
        CLQ_TRY(round_of_load(m));
        seconds = clq_now() - start;
        if (seconds > window_s / 20) break;
    }
    return CLQ_OK;
}

clq_status clq_rig_rate_alone(clq_rig *rig, clq_load_kind kind, unsigned member, double *rate) {
    clq_rig_member *m = &rig->members[member];
    CLQ_TRY(fit_rounds(rig, kind, member));
    const double start = clq_now();
    size_t rounds = 0;
    double now = start;
    for (; now - start < window_s; rounds++) {
        CLQ_TRY(round_of_load(m));
        now = clq_now();
    }
    *rate = work_of(m, kind) * rig->rounds[member] * (double)rounds / (now - start) * 1e-9;
    return CLQ_OK;
}

clq_status clq_rig_rates(clq_rig *rig, clq_load_kind kind, unsigned count, double *rates) {
    for (unsigned r = 0; r < count; r++) CLQ_TRY(fit_rounds(rig, kind, r));
    rig->round = round_of_load;
    rig->rounds_wanted = 0;
    rig->rounds_before = (size_t)(20 * settle_s / window_s);
    /* Longer than one look, because threads that share a core take turns of some milliseconds. */
    rig->lasts_s = 3 * window_s;
    CLQ_TRY(run(rig, count));
    for (unsigned r = 0; r < count; r++) {
        const clq_rig_member *m = &rig->members[r];
        rates[r] = work_of(m, kind) * rig->rounds[r] / m->seconds * 1e-9;
    }
    return CLQ_OK;
}

/* ---- launches ---- */

clq_status clq_rig_launch(clq_rig *rig, unsigned member, double *seconds) {
    enum { LAUNCHES = 64, LOOKS = 9 };
    static const size_t one[1] = {1};
    const clq_rig_member *m = &rig->members[member];
    clq_kernel *kernel;
    double looks[LOOKS];
    CLQ_TRY(clq_kernel_create(m->device, "bench", "", "empty", &kernel));
    clq_status status = CLQ_OK;
    for (size_t i = 0; i <= LOOKS && status == CLQ_OK; i++) { /* the first is not counted */
        const double start = clq_now();
        for (size_t k = 0; k < LAUNCHES && status == CLQ_OK; k++)
            status = clq_queue_launch(m->queue, kernel, 1, one, one);
        if (status == CLQ_OK) status = clq_queue_finish(m->queue);
        if (i > 0) looks[i - 1] = (clq_now() - start) / LAUNCHES;
    }
    (void)clq_queue_finish(m->queue);
    clq_kernel_destroy(kernel);
    if (status == CLQ_OK) *seconds = clq_median(looks, LOOKS);
    return status;
}

/* ---- copies ---- */

clq_status clq_rig_copy(clq_rig *rig, unsigned member, size_t bytes, double *gbps) {
    enum { LOOKS = 9 };
    const clq_rig_member *m = &rig->members[member];
    double looks[LOOKS];
    void *host = clq_alloc(bytes, 1);
    clq_status status = host ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < LOOKS && status == CLQ_OK; i++) {
        const double start = clq_now();
        status = clq_queue_write(m->queue, m->values, 0, host, bytes, true);
        if (status == CLQ_OK) status = clq_queue_read(m->queue, m->values, 0, host, bytes, true);
        looks[i] = (clq_now() - start) / 2;
    }
    clq_free(host);
    if (status == CLQ_OK) *gbps = (double)bytes / clq_median(looks, LOOKS) * 1e-9;
    return status;
}

/* ---- meetings ---- */

static clq_status all_reduce(clq_rig_member *m, size_t bytes) {
    return clq_comm_all_reduce(m->rig->comm, m->rank, m->queue, m->values, 0, m->values, 0,
                               clq_values_count(CLQ_F32, bytes), CLQ_F32);
}

/* The same collectives as in strategy/exchange/zero.c. */
static clq_status scatter_and_gather(clq_rig_member *m, size_t bytes) {
    const size_t lines = CLQ_MAX(bytes / CLQ_VARIABLE_ALIGN / m->rig->at_work, (size_t)1);
    const size_t own = lines * CLQ_VARIABLE_ALIGN * m->rank;
    clq_task task = {.collective = CLQ_REDUCE_SCATTER,
                     .queue = m->queue,
                     .in = m->values,
                     .out = m->values,
                     .out_offset = own,
                     .count = clq_values_count(CLQ_F32, lines * CLQ_VARIABLE_ALIGN),
                     .dtype = CLQ_F32,
                     .op = CLQ_REDOP_SUM};
    CLQ_TRY(clq_comm_run(m->rig->comm, m->rank, &task));
    task.collective = CLQ_ALL_GATHER;
    task.in_offset = own;
    task.out_offset = 0;
    return clq_comm_run(m->rig->comm, m->rank, &task);
}

static clq_status meet(clq_rig_member *m, size_t bytes) {
    switch (m->rig->meeting) {
    case CLQ_RIG_SCATTER_GATHER: return scatter_and_gather(m, bytes);
    case CLQ_RIG_STORE: return clq_desk_update(m, bytes);
    case CLQ_RIG_OWN_STORE: return clq_desk_update_alone(m, bytes);
    default: return all_reduce(m, bytes);
    }
}

/* Each meeting comes after its part of the work. */
static clq_status round_of_work_and_meetings(clq_rig_member *m) {
    const clq_rig *rig = m->rig;
    const int64_t rounds = rig->rounds[m->rank], count = rig->meeting_count;
    for (int64_t i = 0; i < count; i++) {
        const int part = (int)(rounds * (i + 1) / count - rounds * i / count);
        if (part > 0) CLQ_TRY(clq_load_enqueue(m->arithmetic, part));
        CLQ_TRY(meet(m, rig->meetings[i]));
    }
    return CLQ_OK;
}

static clq_status open_comm(clq_rig *rig, unsigned count) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    bool in_caller = !rig->sleeps && count <= clq_cpu_count();
    for (unsigned r = 0; r < count; r++) {
        devices[r] = rig->members[r].device;
        in_caller = in_caller && clq_device_runs_in_caller(devices[r]);
    }
    CLQ_TRY(clq_comm_create(devices, count, &(clq_group_config){.deadline_s = deadline_s}, &rig->comm));
    if (in_caller) clq_comm_set_patience(rig->comm, clq_patience_s);
    return CLQ_OK;
}

static void close_comm(clq_rig *rig) {
    clq_comm_destroy(rig->comm);
    rig->comm = NULL;
}

static double longest_round(const clq_rig *rig, unsigned count) {
    double longest = 0;
    for (unsigned r = 0; r < count; r++) longest = CLQ_MAX(longest, rig->members[r].seconds);
    return longest;
}

/* Runs what was set up a few times, and takes the median. */
static clq_status time_rounds(clq_rig *rig, unsigned count, double *seconds) {
    enum { LOOKS = 3 };
    double looks[LOOKS];
    rig->rounds_wanted = rig->rounds_before = 32;
    for (size_t i = 0; i < LOOKS; i++) {
        CLQ_TRY(run(rig, count));
        looks[i] = longest_round(rig, count);
    }
    *seconds = clq_median(looks, LOOKS);
    return CLQ_OK;
}

static clq_status round_of_all_reduce(clq_rig_member *m) { return all_reduce(m, m->rig->meetings[0]); }

clq_status clq_rig_has_room(clq_rig *rig, unsigned count) {
    clq_status status = open_comm(rig, count);
    close_comm(rig);
    return status;
}

clq_status clq_rig_all_reduce(clq_rig *rig, unsigned count, size_t bytes, double *seconds) {
    CLQ_TRY(open_comm(rig, count));
    rig->meetings[0] = CLQ_MAX(bytes, sizeof(float));
    rig->round = round_of_all_reduce;
    clq_status status = time_rounds(rig, count, seconds);
    close_comm(rig);
    return status;
}

clq_status clq_rig_hop(clq_rig *rig, unsigned count, double *seconds) {
    double round_s;
    rig->round = clq_desk_pass_on;
    CLQ_TRY(time_rounds(rig, count, &round_s));
    *seconds = round_s / count;
    return CLQ_OK;
}

/* ---- what meetings cost work ---- */

static void set_work(clq_rig *rig, unsigned count, const clq_rig_exchange *exchange) {
    static const double look_s = 25e-3;
    double longest = 0;
    rig->load = CLQ_LOAD_ARITHMETIC;
    rig->meeting = exchange->meeting;
    rig->meeting_count = exchange->count;
    for (unsigned i = 0; i < exchange->count; i++) rig->meetings[i] = CLQ_MAX(exchange->bytes[i], sizeof(float));
    for (unsigned r = 0; r < count; r++) {
        const double round_s = work_of(&rig->members[r], CLQ_LOAD_ARITHMETIC) / (exchange->gflops[r] * 1e9);
        rig->rounds[r] = (int)CLQ_MIN(CLQ_MAX(exchange->work_s[r] / round_s, 1.0), (double)CLQ_LOAD_ROUNDS_MAX);
        longest = CLQ_MAX(longest, round_s * rig->rounds[r]);
    }
    rig->rounds_wanted = (size_t)CLQ_MIN(CLQ_MAX(look_s / longest, 4.0), 1000.0);
    rig->rounds_before = (size_t)CLQ_MIN(CLQ_MAX(settle_s / longest, 1.0), 1000.0);
}

/* Compares members round by round. Members that do not meet are still at the same round at nearly the same time. */
static double slowest_of_rounds(const clq_rig *rig, unsigned count) {
    const double *times[CLQ_REPLICAS_MAX];
    size_t rounds = rig->members[0].timed;
    for (unsigned r = 0; r < count; r++) {
        times[r] = rig->members[r].times;
        rounds = CLQ_MIN(rounds, rig->members[r].timed);
    }
    return clq_mean_of_slowest(times, count, rounds);
}

/* means[r]: the mean over all members like member r, because other load on the machine slows now one of them, now
 * another. Returns the largest of these means. */
static double mean_by_kind(const clq_rig *rig, unsigned count, const unsigned *alike, double *means) {
    double sums[CLQ_REPLICAS_MAX] = {0}, largest = 0;
    unsigned counts[CLQ_REPLICAS_MAX] = {0};
    for (unsigned r = 0; r < count; r++) {
        sums[alike[r]] += rig->members[r].seconds;
        counts[alike[r]]++;
    }
    for (unsigned r = 0; r < count; r++) {
        means[r] = sums[alike[r]] / counts[alike[r]];
        largest = CLQ_MAX(largest, means[r]);
    }
    return largest;
}

/* What the looks found. Each row has one value for each look. */
typedef struct found {
    clq_looks looks;
    double mean[CLQ_RIG_EXCHANGES_MAX][CLQ_LOOKS_MAX], slowest[CLQ_RIG_EXCHANGES_MAX][CLQ_LOOKS_MAX],
        met[CLQ_RIG_EXCHANGES_MAX][CLQ_LOOKS_MAX];
    double slowing[CLQ_REPLICAS_MAX][CLQ_LOOKS_MAX]; /* by the first exchange's work */
} found;

/* Times the work on all members without meetings, then with them. means: of each member's kind, without meetings. */
static clq_status look_at_exchange(clq_rig *rig, unsigned count, const clq_rig_exchange *exchange,
                                   const unsigned *alike, size_t i, double *means, found *f) {
    const unsigned look = f->looks.count;
    set_work(rig, count, exchange);
    rig->round = round_of_load;
    CLQ_TRY(run(rig, count));
    f->mean[i][look] = mean_by_kind(rig, count, alike, means);
    f->slowest[i][look] = CLQ_MAX(slowest_of_rounds(rig, count), f->mean[i][look]);
    rig->round = round_of_work_and_meetings;
    CLQ_TRY(run(rig, count));
    f->met[i][look] = longest_round(rig, count);
    return CLQ_OK;
}

/* Times a member's rounds, as set up, while the other members rest. */
static clq_status time_alone(clq_rig *rig, unsigned member, double *seconds) {
    clq_rig_member *m = &rig->members[member];
    const double start = clq_now();
    for (size_t i = 0; i < rig->rounds_wanted; i++) CLQ_TRY(round_of_load(m));
    *seconds = (clq_now() - start) / (double)rig->rounds_wanted;
    return CLQ_OK;
}

static clq_status look(clq_rig *rig, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                       clq_store *const *stores, const unsigned *alike, found *f) {
    double alone[CLQ_REPLICAS_MAX], means[CLQ_REPLICAS_MAX];
    set_work(rig, count, &exchanges[0]);
    for (unsigned r = 0; r < count; r++)
        if (alike[r] == r) CLQ_TRY(time_alone(rig, r, &alone[r]));
    for (size_t i = 0; i < exchange_count; i++) {
        rig->store = stores[i];
        CLQ_TRY(look_at_exchange(rig, count, &exchanges[i], alike, i, means, f));
        for (unsigned r = 0; r < count && i == 0; r++) f->slowing[r][f->looks.count] = means[r] / alone[alike[r]];
    }
    return CLQ_OK;
}

static void conclude(found *f, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                     clq_rig_together *together) {
    double spread = 0;
    for (size_t i = 0; i < exchange_count; i++) {
        const unsigned picked = clq_looks_pick(&f->looks, f->mean[i]);
        (void)clq_looks_pick(&f->looks, f->slowest[i]);
        (void)clq_looks_pick(&f->looks, f->met[i]);
        const double mean = clq_middle_mean(f->mean[i], picked), slowest = clq_middle_mean(f->slowest[i], picked),
                     met = clq_middle_mean(f->met[i], picked);
        const double added = CLQ_MAX(met - mean, 0.0);
        const bool waits = exchanges[i].meeting != CLQ_RIG_OWN_STORE; /* in own stores, no member waits for others */
        exchanges[i].waiting_s = waits ? CLQ_MIN(CLQ_MAX(slowest - mean, 0.0), added) : 0.0;
        exchanges[i].seconds = added - exchanges[i].waiting_s;
        if (i == 0) spread = clq_middle_spread(f->met[i], picked);
    }
    for (unsigned r = 0; r < count; r++) {
        const unsigned picked = clq_looks_pick(&f->looks, f->slowing[r]);
        together->slowing[r] = CLQ_MAX(clq_middle_mean(f->slowing[r], picked), 1.0);
    }
    clq_doubt_add(&together->doubt, &f->looks, spread);
}

static clq_status look_at_all(clq_rig *rig, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                              clq_store *const *stores, clq_patience *patience, clq_rig_together *together) {
    enum { LOOKS = 9, QUIET_LEAST = 5 };
    found *f = clq_alloc(1, sizeof *f);
    if (!f) return CLQ_ERROR_MEMORY;
    f->looks = (clq_looks){.first = LOOKS, .least = QUIET_LEAST};
    clq_status status = CLQ_OK;
    while (status == CLQ_OK && clq_looks_wanted(&f->looks, patience)) {
        clq_looks_begin(&f->looks);
        status = look(rig, count, exchanges, exchange_count, stores, together->alike, f);
        clq_looks_end(&f->looks, patience);
    }
    if (status == CLQ_OK) conclude(f, count, exchanges, exchange_count, together);
    clq_free(f);
    return status;
}

clq_status clq_rig_exchanges(clq_rig *rig, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                             clq_patience *patience, clq_rig_together *together) {
    clq_store *stores[CLQ_RIG_EXCHANGES_MAX] = {NULL};
    bool meets = false;
    for (size_t i = 0; i < exchange_count; i++) meets = meets || !exchanges[i].optimizer;
    clq_status status = meets ? open_comm(rig, count) : CLQ_OK;
    for (size_t i = 0; i < exchange_count && status == CLQ_OK; i++)
        if (exchanges[i].optimizer)
            status = clq_store_create(
                &(clq_store_config){.optimizer = *exchanges[i].optimizer,
                                    .bytes = clq_round_up(exchanges[i].bytes[0], (size_t)CLQ_VARIABLE_ALIGN)},
                &stores[i]);
    if (status == CLQ_OK) status = look_at_all(rig, count, exchanges, exchange_count, stores, patience, together);
    for (size_t i = 0; i < exchange_count; i++) clq_store_destroy(stores[i]);
    rig->store = NULL;
    close_comm(rig);
    return status;
}
