/* clique bench p2p with several processes: for each two of them, the bandwidth one way between host memories, and the
 * latency of a few bytes, which is half the time there and back. Both are measured as collectives between processes
 * work: with their messages, and through the world's thread. With more than ALL_PAIRS_MOST processes, only neighbors on
 * the ring are measured. */
#include "bench.h"

#include "comm/comm.h"

#include <math.h>

enum { LATENCY_BYTES = 16, ALL_PAIRS_MOST = 8 };

/* A transfer one way, or there and back. All ranks call it, but only two of them transfer anything. */
typedef struct route {
    clq_outer *outer;
    clq_outer_way way;
    char *out, *in; /* `way.bytes` bytes each */
} route;

static clq_status travel(void *context, uint64_t repeats) {
    const route *r = context;
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_outer_travel(r->outer, &r->way));
    return CLQ_OK;
}

static char sent_at(size_t i) { return (char)((i * 7 + i / 251) % 127 + 1); }

/* Counts the bytes that did not arrive, over all ranks. */
static clq_status count_wrong(const clq_bench_run *run, const route *r, uint64_t *out) {
    const unsigned rank = clq_world_rank(run->world);
    *out = 0;
    for (size_t i = 0; i < r->way.bytes && (rank == r->way.to || (r->way.returns && rank == r->way.from)); i++)
        *out += r->in[i] != sent_at(i);
    return clq_bench_add_up(run, out);
}

static clq_status open_route(const clq_bench_run *run, route *r) {
    r->way.out = r->out = clq_alloc(r->way.bytes, 1);
    r->way.in = r->in = clq_alloc(r->way.bytes, 1);
    for (size_t i = 0; i < r->way.bytes && r->out; i++) r->out[i] = sent_at(i);
    CLQ_TRY(clq_world_check(run->world, r->out && r->in ? CLQ_OK : CLQ_ERROR_MEMORY));
    return clq_outer_create(run->world, 0, &r->outer);
}

static clq_status measure(const clq_bench_run *run, route *r, clq_bench_times *times, uint64_t *wrong) {
    clq_status status = open_route(run, r);
    if (status == CLQ_OK) status = clq_bench_measure(run, &(clq_bench_work){.work = travel, .context = r}, times);
    if (status == CLQ_OK) status = count_wrong(run, r, wrong);
    clq_outer_destroy(r->outer);
    clq_free(r->in);
    clq_free(r->out);
    return status;
}

clq_status clq_bench_rate_between(const clq_bench_run *run, unsigned from, unsigned to, size_t bytes, double *out) {
    clq_bench_times times;
    uint64_t wrong;
    CLQ_TRY(measure(run, &(route){.way = {.from = from, .to = to, .bytes = bytes}}, &times, &wrong));
    *out = (double)bytes / times.p50_us * 1e-3;
    return CLQ_OK;
}

/* ---- rows ---- */

static clq_status add(clq_bench_run *run, const route *r, const clq_bench_times *times, uint64_t wrong, double *cell) {
    const double gbps = r->way.returns ? NAN : (double)r->way.bytes / times->p50_us * 1e-3;
    clq_bench_row row = clq_bench_row_start();
    clq_bench_put_count(&row, "from", r->way.from);
    clq_bench_put_count(&row, "to", r->way.to);
    clq_bench_put_text(&row, "what", r->way.returns ? "latency" : "one-way");
    clq_bench_put_text(&row, "path", clq_world_engine_name(run->world));
    clq_bench_put_count(&row, "bytes", r->way.bytes);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_number(&row, "gbps", gbps);
    clq_bench_put_limit(&row, "gbps", gbps, NAN);
    clq_bench_put_wrong(&row, times, wrong);
    clq_bench_put_reason(&row, NULL);
    *cell = r->way.returns ? times->p50_us : gbps;
    return clq_bench_add(run, &row);
}

static clq_status measure_route(clq_bench_run *run, route *r, double *cell) {
    clq_bench_times times = clq_bench_no_times;
    uint64_t wrong = 0;
    CLQ_TRY(measure(run, r, &times, &wrong));
    if (r->way.returns) times = (clq_bench_times){times.min_us / 2, times.p50_us / 2, times.p99_us / 2};
    return add(run, r, &times, wrong, cell);
}

static bool is_measured(unsigned size, unsigned from, unsigned to) {
    return from != to && (size <= ALL_PAIRS_MOST || to == (from + 1) % size);
}

/* cells: the bandwidths, (size, size), then the latencies, (size, size). */
static clq_status measure_all(clq_bench_run *run, size_t bytes, double *cells) {
    const unsigned size = clq_world_size(run->world);
    for (unsigned from = 0; from < size; from++)
        for (unsigned to = 0; to < size; to++) {
            double *cell = &cells[from * size + to];
            if (!is_measured(size, from, to)) continue;
            CLQ_TRY(measure_route(run, &(route){.way = {.from = from, .to = to, .bytes = bytes}}, cell));
            CLQ_TRY(measure_route(run,
                                  &(route){.way = {.from = from, .to = to, .bytes = LATENCY_BYTES, .returns = true}},
                                  cell + (size_t)size * size));
        }
    return CLQ_OK;
}

static void print_matrix(clq_bench_run *run, const char *title, const double *cells) {
    const unsigned size = clq_world_size(run->world);
    clq_bench_print(run, "\n%s (rows: from, columns: to)\n%-6s", title, "rank");
    for (unsigned to = 0; to < size; to++) clq_bench_print(run, " %10u", to);
    for (unsigned from = 0; from < size; from++) {
        clq_bench_print(run, "\n%-6u", from);
        for (unsigned to = 0; to < size; to++)
            if (isnan(cells[from * size + to]))
                clq_bench_print(run, " %10s", "-");
            else
                clq_bench_print(run, " %10.2f", cells[from * size + to]);
    }
    clq_bench_print(run, "\n");
}

clq_status clq_bench_between(clq_bench_run *run, size_t bytes) {
    const size_t size = clq_world_size(run->world), pairs = size <= ALL_PAIRS_MOST ? size * (size - 1) : size;
    double *cells = clq_alloc(2 * size * size, sizeof *cells);
    CLQ_TRY(clq_world_check(run->world, cells ? CLQ_OK : CLQ_ERROR_MEMORY));
    for (size_t i = 0; i < 2 * size * size; i++) cells[i] = NAN;
    run->expected = 2 * pairs;
    clq_error end;
    clq_error_take(measure_all(run, bytes, cells), &end);
    if (json_array_size(run->rows) > 0) {
        print_matrix(run, "one-way, GB/s", cells);
        print_matrix(run, "latency, us", cells + size * size);
    }
    clq_free(cells);
    return end.status == CLQ_OK ? CLQ_OK : clq_error_raise(&end);
}
