/* clique bench p2p: for each two devices, bandwidth one way, both ways at once, and the latency of a few bytes. On the
 * diagonal, a copy within the device. A transfer is over when the receiver has the bytes: for a peer copy, when a
 * command of the receiver has used them.
 *
 * Devices of one platform share a context if the driver's copies between them pass a test; they then copy directly
 * (peer). All others send through pinned host memory (staged). If a pair cannot be measured, it is named with the
 * reason. Limits: for peer and local copies in host memory, memcpy on the same cores; for staged ones, the slower of
 * reading from the one device and writing to the other, each alone. */
#include "lane.h"

#include <math.h>
#include <string.h>

enum { KEY_TRANSPORT = CLQ_BENCH_KEY_OWN, LATENCY_BYTES = 16 };

typedef enum transport { TRANSPORT_AUTO, TRANSPORT_PEER, TRANSPORT_STAGED } transport;
static const char *const transport_names[] = {"auto", "peer", "staged", NULL};

typedef struct options {
    clq_bench_sizes size; /* min is the size of a transfer; 0: the default */
    transport transport;
} options;

typedef enum what { ONE_WAY, TWO_WAY, LATENCY, WHATS } what;
static const char *const what_names[WHATS] = {"one-way", "two-way", "latency"};
static const char *const what_titles[WHATS] = {"one-way, GB/s", "two-way, both directions' sum, GB/s", "latency, us"};

typedef struct cell {
    double value; /* GB/s, or us for latencies */
    char path;    /* the path's letter: 'p', 's' or 'l'; 0: not measured */
} cell;

typedef struct party {
    clq_device *device;
    char reason[CLQ_REASON_MAX];  /* why it shares no context with its platform's other devices */
    double read_gbps, write_gbps; /* with pinned memory, for staged lanes; NaN until needed */
    double copy_gbps;             /* host memcpy on its cores; NaN if it has its own memory */
} party;

typedef struct field {
    clq_bench_run *run;
    const options *options;
    size_t bytes;
    uint32_t count;
    party *parties;
    cell *cells[WHATS]; /* (count, count): by from and to */
    uint64_t seed;
} field;

static clq_status open_parties(field *f) {
    clq_device *opened[CLQ_REPLICAS_MAX];
    char reasons[CLQ_REPLICAS_MAX][CLQ_REASON_MAX];
    CLQ_TRY(clq_devices_open(&f->run->devices, f->options->transport != TRANSPORT_STAGED, opened, reasons));
    for (uint32_t i = 0; i < f->count; i++) {
        f->parties[i].device = opened[i];
        f->parties[i].read_gbps = f->parties[i].write_gbps = f->parties[i].copy_gbps = NAN;
        memcpy(f->parties[i].reason, reasons[i], sizeof f->parties[i].reason);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        party *p = &f->parties[i];
        if (clq_device_get_info(p->device)->host_unified)
            CLQ_TRY(clq_bench_host_rate(clq_bench_cores_of(p->device), f->bytes, CLQ_BENCH_COPY, &p->copy_gbps));
    }
    return CLQ_OK;
}

/* ---- limits ---- */

static clq_status read_to_host(void *context, uint64_t repeats) {
    clq_bench_lane *lane = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_read(lane->down, lane->source, 0, clq_buffer_host(lane->target), lane->bytes, false));
        CLQ_TRY(clq_queue_finish(lane->down));
    }
    return CLQ_OK;
}

static clq_status write_from_host(void *context, uint64_t repeats) {
    clq_bench_lane *lane = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_write(lane->down, lane->source, 0, clq_buffer_host(lane->target), lane->bytes, false));
        CLQ_TRY(clq_queue_finish(lane->down));
    }
    return CLQ_OK;
}

/* Measures a device's link to the host alone, once per device. */
static clq_status measure_link(field *f, party *p) {
    if (!isnan(p->read_gbps)) return CLQ_OK;
    clq_bench_lane lane = {.bytes = f->bytes};
    clq_bench_times reading = clq_bench_no_times, writing = clq_bench_no_times;
    clq_status status;
    CLQ_TRY_OR(end, status, clq_queue_create(p->device, 0, &lane.down));
    CLQ_TRY_OR(end, status, clq_buffer_create(p->device, CLQ_MEMORY_DEVICE, f->bytes, "device memory", &lane.source));
    CLQ_TRY_OR(end, status, clq_buffer_create(p->device, CLQ_MEMORY_PINNED, f->bytes, "host memory", &lane.target));
    CLQ_TRY_OR(end, status, clq_bench_measure(f->run, &(clq_bench_work){read_to_host, NULL, &lane}, &reading));
    CLQ_TRY_OR(end, status, clq_bench_measure(f->run, &(clq_bench_work){write_from_host, NULL, &lane}, &writing));
    p->read_gbps = (double)f->bytes / reading.p50_us * 1e-3;
    p->write_gbps = (double)f->bytes / writing.p50_us * 1e-3;
end:
    clq_bench_lane_release(&lane);
    return status;
}

static clq_status limit_of(field *f, what w, bool staged, uint32_t from, uint32_t to, double *out) {
    party *a = &f->parties[from], *b = &f->parties[to];
    if (staged) {
        CLQ_TRY(measure_link(f, a));
        CLQ_TRY(measure_link(f, b));
        double there = CLQ_MIN(a->read_gbps, b->write_gbps), back = CLQ_MIN(b->read_gbps, a->write_gbps);
        *out = w == TWO_WAY ? there + back : there;
        return CLQ_OK;
    }
    if (w == ONE_WAY || isnan(a->copy_gbps) || isnan(b->copy_gbps)) {
        *out = isnan(b->copy_gbps) ? NAN : a->copy_gbps;
        return CLQ_OK;
    }
    unsigned cores = CLQ_MIN(clq_bench_cores_of(a->device) + clq_bench_cores_of(b->device), clq_cpu_count());
    return clq_bench_host_rate(cores, f->bytes, CLQ_BENCH_COPY, out);
}

/* ---- lanes at work ---- */

static clq_status move_one(void *context, uint64_t repeats) { return clq_bench_lane_move(context, repeats); }

/* Two lanes side by side: one moves in this thread, the other in a second thread, which lives as long as the
 * measurement. */
typedef struct duplex {
    clq_bench_lane *lanes; /* two lanes */
    clq_barrier *barrier;
    uint64_t repeats; /* 0: the other thread ends */
    clq_error error;  /* the other thread's failure */
} duplex;

static void other_way(void *context) {
    duplex *d = context;
    for (;;) {
        (void)clq_barrier_wait(d->barrier, 0);
        if (d->repeats == 0) return;
        clq_status status = clq_bench_lane_move(&d->lanes[1], d->repeats);
        if (status != CLQ_OK) clq_error_take(status, &d->error);
        (void)clq_barrier_wait(d->barrier, 0);
    }
}

static clq_status move_both(void *context, uint64_t repeats) {
    duplex *d = context;
    d->repeats = repeats;
    (void)clq_barrier_wait(d->barrier, 0);
    clq_status status = clq_bench_lane_move(&d->lanes[0], repeats);
    (void)clq_barrier_wait(d->barrier, 0);
    CLQ_TRY(status);
    return d->error.status == CLQ_OK ? CLQ_OK : clq_error_raise(&d->error);
}

static clq_status measure_both(field *f, clq_bench_lane *lanes, clq_bench_times *times) {
    duplex d = {.lanes = lanes};
    clq_thread *thread;
    CLQ_TRY(clq_barrier_create(2, &d.barrier));
    clq_status status = clq_thread_start("other way", other_way, &d, &thread);
    if (status == CLQ_OK) {
        status = clq_bench_measure(f->run, &(clq_bench_work){move_both, NULL, &d}, times);
        d.repeats = 0;
        (void)clq_barrier_wait(d.barrier, 0);
        clq_thread_join(thread);
    }
    clq_barrier_destroy(d.barrier);
    return status;
}

static clq_status measure_lanes(field *f, what w, bool staged, uint32_t from, uint32_t to, clq_bench_times *times,
                                uint64_t *wrong) {
    clq_device *a = f->parties[from].device, *b = f->parties[to].device;
    clq_bench_lane lanes[2] = {{0}, {0}};
    size_t bytes = w == LATENCY ? LATENCY_BYTES : f->bytes;
    uint64_t wrong_back = 0;
    clq_status status;
    CLQ_TRY_OR(end, status, clq_bench_lane_open(a, b, staged, bytes, f->seed++, &lanes[0]));
    if (w == TWO_WAY) CLQ_TRY_OR(end, status, clq_bench_lane_open(b, a, staged, bytes, f->seed++, &lanes[1]));
    if (w == TWO_WAY)
        CLQ_TRY_OR(end, status, measure_both(f, lanes, times));
    else
        CLQ_TRY_OR(end, status, clq_bench_measure(f->run, &(clq_bench_work){move_one, NULL, &lanes[0]}, times));
    CLQ_TRY_OR(end, status, clq_bench_lane_check(&lanes[0], wrong));
    if (w == TWO_WAY) CLQ_TRY_OR(end, status, clq_bench_lane_check(&lanes[1], &wrong_back));
    *wrong += wrong_back;
end:
    clq_bench_lane_release(&lanes[0]);
    clq_bench_lane_release(&lanes[1]);
    return status;
}

/* ---- rows ---- */

/* Fails with the reason why the pair has no peer copies. */
static clq_status no_peer(const field *f, uint32_t from, uint32_t to) {
    const clq_device_choice *a = &f->run->devices.items[from], *b = &f->run->devices.items[to];
    const clq_device_info *one = clq_device_get_info(f->parties[from].device);
    if (strcmp(one->platform, clq_device_get_info(f->parties[to].device)->platform) != 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "no peer copies: the devices have different drivers");
    if (a->index == b->index && a->part == b->part && a->parts == b->parts)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "no peer copies: it is one device in two contexts");
    const char *reason = f->parties[from].reason;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "no peer copies: %s",
                    reason[0] ? reason : "the devices have no context in common");
}

static clq_status add(field *f, what w, const char *path, uint32_t from, uint32_t to, const clq_bench_times *times,
                      uint64_t wrong, double limit, const char *reason) {
    size_t bytes = w == LATENCY ? LATENCY_BYTES : f->bytes;
    double rate = w == LATENCY ? NAN : (double)bytes * (w == TWO_WAY ? 2 : 1) / times->p50_us * 1e-3;
    cell value = {w == LATENCY ? times->p50_us : rate, isnan(times->p50_us) ? '\0' : path[0]};
    f->cells[w][from * f->count + to] = value;
    if (w == TWO_WAY) f->cells[w][to * f->count + from] = value;
    clq_bench_row row = clq_bench_row_start();
    clq_bench_put_count(&row, "from", from);
    clq_bench_put_count(&row, "to", to);
    clq_bench_put_text(&row, "what", what_names[w]);
    clq_bench_put_text(&row, "path", path);
    clq_bench_put_count(&row, "bytes", bytes);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_number(&row, "gbps", rate);
    clq_bench_put_limit(&row, "gbps", rate, limit);
    clq_bench_put_wrong(&row, times, wrong);
    clq_bench_put_reason(&row, reason);
    if (reason)
        clq_bench_print(f->run, "not measured: %s from %s to %s: %s\n", what_names[w], f->run->labels[from],
                        f->run->labels[to], reason);
    return clq_bench_add(f->run, &row);
}

static clq_status measure_pair(field *f, what w, uint32_t from, uint32_t to) {
    bool shared = clq_device_same_context(f->parties[from].device, f->parties[to].device), local = from == to;
    bool staged = !local && (f->options->transport == TRANSPORT_STAGED || !shared);
    const char *path = local ? "local" : staged ? "staged" : "peer";
    clq_bench_times times = clq_bench_no_times;
    uint64_t wrong = 0;
    double limit = NAN;
    clq_status status = CLQ_OK;
    if (staged && f->options->transport == TRANSPORT_PEER) {
        path = "peer";
        status = no_peer(f, from, to);
    }
    if (status == CLQ_OK && w != LATENCY) status = limit_of(f, w, staged, from, to, &limit);
    if (status == CLQ_OK) status = measure_lanes(f, w, staged, from, to, &times, &wrong);
    if (status != CLQ_OK && !clq_bench_is_local(status)) return status;
    if (status != CLQ_OK) times = clq_bench_no_times;
    return add(f, w, path, from, to, &times, wrong, limit, status == CLQ_OK ? NULL : clq_error_detail());
}

static clq_status measure_pairs(field *f) {
    for (uint32_t from = 0; from < f->count; from++)
        for (uint32_t to = 0; to < f->count; to++) {
            CLQ_TRY(measure_pair(f, ONE_WAY, from, to));
            if (from != to) CLQ_TRY(measure_pair(f, LATENCY, from, to));
            if (from < to) CLQ_TRY(measure_pair(f, TWO_WAY, from, to));
        }
    return CLQ_OK;
}

/* ---- matrices ---- */

static void print_matrix(const field *f, what w) {
    clq_bench_print(f->run, "\n%s (rows: from, columns: to)\n%-12s", what_titles[w], "");
    for (uint32_t to = 0; to < f->count; to++) clq_bench_print(f->run, " %12s", f->run->labels[to]);
    for (uint32_t from = 0; from < f->count; from++) {
        clq_bench_print(f->run, "\n%-12s", f->run->labels[from]);
        for (uint32_t to = 0; to < f->count; to++) {
            const cell *c = &f->cells[w][from * f->count + to];
            if (c->path)
                clq_bench_print(f->run, " %10.2f %c", c->value, c->path);
            else
                clq_bench_print(f->run, " %10s  ", "-");
        }
    }
    clq_bench_print(f->run, "\n");
}

static clq_status run_field(field *f) {
    size_t n = f->count;
    f->parties = clq_alloc(n, sizeof *f->parties);
    for (int w = 0; w < WHATS; w++)
        if (!(f->cells[w] = clq_alloc(n * n, sizeof *f->cells[w]))) return CLQ_ERROR_MEMORY;
    if (!f->parties) return CLQ_ERROR_MEMORY;
    CLQ_TRY(open_parties(f));
    f->run->expected = n * n + n * (n - 1) + n * (n - 1) / 2;
    clq_error end;
    clq_error_take(measure_pairs(f), &end);
    for (int w = 0; w < WHATS && json_array_size(f->run->rows) > 0; w++) print_matrix(f, (what)w);
    clq_bench_print(f->run,
                    "p: peer copy in a shared context; s: staged through pinned host memory; l: on one device\n");
    return end.status == CLQ_OK ? CLQ_OK : clq_error_raise(&end);
}

/* A link of 1 Gbit/s takes half a second for 64 MiB, so transfers between processes are smaller. */
static const size_t bytes_alone = (size_t)64 << 20, bytes_between = (size_t)16 << 20;

static clq_status run_between(clq_bench_run *run, const options *o) {
    if (o->transport != TRANSPORT_AUTO)
        return clq_world_check(run->world,
                               clq_fail(CLQ_ERROR_ARGUMENT, "--transport is of the devices of one process, and "
                                                            "this p2p is between processes: leave it out"));
    return clq_bench_between(run, o->size.min ? (size_t)o->size.min : bytes_between);
}

static clq_status run_p2p(clq_bench_run *run, void *context) {
    const options *o = context;
    if (run->world) return run_between(run, o);
    field f = {.run = run,
               .options = o,
               .bytes = o->size.min ? (size_t)o->size.min : bytes_alone,
               .count = run->devices.count};
    if (f.count < 2)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "p2p measures pairs: name two devices or more by --devices, for example all");
    clq_status status = run_field(&f);
    for (uint32_t i = 0; f.parties && i < f.count; i++) clq_device_close(f.parties[i].device);
    for (int w = 0; w < WHATS; w++) clq_free(f.cells[w]);
    clq_free(f.parties);
    return status;
}

/* ---- options ---- */

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    if (option->key == 'b') {
        CLQ_TRY(clq_bench_sizes_set(&o->size, option, text));
        return o->size.min > 0 ? CLQ_OK : clq_fail(CLQ_ERROR_ARGUMENT, "-b: the smallest size is 1");
    }
    size_t kind;
    CLQ_TRY(clq_find_word("--transport", text, transport_names, &kind));
    o->transport = (transport)kind;
    return CLQ_OK;
}

clq_status clq_bench_p2p(int argc, char **argv) {
    static const clq_argument table[] = {
        {NULL, 'b', "BYTES", .help = "what each transfer moves (default 64M; between processes 16M)"},
        {"transport", KEY_TRANSPORT, "NAME", .help = "auto (peer where it can be), peer or staged"},
        {0}};
    static const clq_bench_spec spec = {.name = "p2p",
                                        .about =
                                            "Bandwidth one way and both ways, and latency, between each two devices.",
                                        .options = table,
                                        .set = set_option,
                                        .span = CLQ_BENCH_OF_HOSTS,
                                        .run = run_p2p,
                                        .iterations = 10,
                                        .iterations_most = 1000000,
                                        .warm_ups = 2};
    options o = {0};
    return clq_bench_main(&spec, &o, argc, argv);
}
