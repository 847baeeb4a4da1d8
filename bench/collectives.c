/* clique bench all_reduce, reduce_scatter, all_gather, broadcast, reduce, send_recv: time the library's public calls,
 * blocking, with one rank per selected device, over a range of sizes, out of place and in place. As in nccl-tests, size
 * and bandwidths count the whole buffer: algbw = size / time, busbw = algbw times the collective's factor.
 *
 * A call of its own counts wrong values, on whole numbers whose result is exact in every type and order (values.c). The
 * same run measures the limits. Between devices that share the host's memory, the limit of algorithm direct is the rate
 * of plain copies that move the same bytes on as many threads. The limit over links follows from the rates R and C at
 * which all cores reduce and copy; for a staged all-reduce over n devices it is 2 / (n (1 / R + 3 / C)). In all other
 * cases, also between processes, the limit is the rate of the slowest link of the ring that the collective uses,
 * measured alone. */
#include "values.h"

#include "comm/comm.h"

#include <math.h>
#include <string.h>

enum { KEY_ALGO = CLQ_BENCH_KEY_OWN, KEY_TRANSPORT, KEY_MEMORY, KEY_CHUNK, KEY_SLOTS, KEY_ROOT, KEY_EXPLAIN };
enum { KEY_BUCKET = KEY_EXPLAIN + 1, KEY_DEADLINE, AGGREGATED_MOST = 4096 };

typedef struct options {
    clq_collective collective;
    clq_bench_sizes sizes;
    uint64_t check, chunk, slots, root, aggregated, bucket;
    clq_dtype dtype;
    clq_redop op;
    clq_algorithm algorithm;
    clq_transport transport;
    bool plain, explain;
    double deadline_s; /* 0: the library's default */
} options;

typedef struct bench {
    clq_bench_run *run;
    const options *o;
    unsigned n;           /* ranks of all processes together */
    unsigned here, first; /* this process's ranks, and the number of its first one */
    unsigned root_process, receiver_process;
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_queue *queues[CLQ_REPLICAS_MAX];
    clq_group *group;
    clq_slice in[CLQ_REPLICAS_MAX], out[CLQ_REPLICAS_MAX]; /* of the first call of those that are issued together */
    size_t stride;                                         /* bytes from one call to the next */
    cl_mem owned[2 * CLQ_REPLICAS_MAX];
    clq_buffer *plain[2 * CLQ_REPLICAS_MAX];
    size_t count; /* element count of the call */
    bool in_place;
    double slowest_gbps;           /* of the links; 0: not measured yet */
    float *engine_in, *engine_out; /* buffers of the engine's own all-reduce; NULL: it is not measured */
} bench;

/* ---- options ---- */

/* name: gives NULL for a value that is not offered here. */
static clq_status set_name(const char *what, const char *text, unsigned count, const char *(*name)(unsigned),
                           unsigned *out) {
    char all[256] = "";
    clq_nearest nearest = clq_nearest_of(text);
    for (unsigned i = 0; i < count; i++) {
        if (!name(i)) continue;
        if (strcmp(text, name(i)) == 0) {
            *out = i;
            return CLQ_OK;
        }
        size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", name(i));
        clq_nearest_try(&nearest, name(i));
    }
    return clq_nearest_fail(&nearest, "%s '%s': expected one of %s", what, text, all);
}

static clq_status set_whole(const char *what, const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    if (clq_parse_u64(text, least, most, out)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected a whole number from %llu to %llu", what, text,
                    (unsigned long long)least, (unsigned long long)most);
}

static const char *dtype_name(unsigned i) { return clq_dtype_name((clq_dtype)i); }
static const char *reduced_name(unsigned i) { return i == CLQ_BOOL ? NULL : dtype_name(i); } /* no sum of bools */
static const char *redop_name(unsigned i) { return clq_redop_name((clq_redop)i); }
static const char *algorithm_name(unsigned i) { return clq_algorithm_name((clq_algorithm)i); }
static const char *transport_name(unsigned i) { return clq_transport_name((clq_transport)i); }
static const char *memory_name(unsigned i) { return i ? "plain" : "group"; }

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    unsigned value = 0;
    switch (option->key) {
    case 'd':
        CLQ_TRY(set_name("-d", text, CLQ_DTYPE_COUNT, clq_collective_reduces(o->collective) ? reduced_name : dtype_name,
                         &value));
        o->dtype = (clq_dtype)value;
        return CLQ_OK;
    case 'o':
        CLQ_TRY(set_name("-o", text, CLQ_REDOP_COUNT, redop_name, &value));
        o->op = (clq_redop)value;
        return CLQ_OK;
    case 'c': return set_whole("-c", text, 0, 1, &o->check);
    case KEY_ALGO:
        CLQ_TRY(set_name("--algo", text, CLQ_ALGORITHM_COUNT, algorithm_name, &value));
        o->algorithm = (clq_algorithm)value;
        return CLQ_OK;
    case KEY_TRANSPORT:
        CLQ_TRY(set_name("--transport", text, CLQ_TRANSPORT_COUNT, transport_name, &value));
        o->transport = (clq_transport)value;
        return CLQ_OK;
    case KEY_MEMORY:
        CLQ_TRY(set_name("--memory", text, 2, memory_name, &value));
        o->plain = value == 1;
        return CLQ_OK;
    case KEY_CHUNK: return set_whole("--chunk", text, 1, (uint64_t)1 << 30, &o->chunk);
    case KEY_SLOTS: return set_whole("--slots", text, 1, 64, &o->slots);
    case KEY_ROOT: return set_whole("--root", text, 0, UINT16_MAX, &o->root);
    case KEY_EXPLAIN: o->explain = true; return CLQ_OK;
    case KEY_DEADLINE: return clq_argument_seconds(option, text, &o->deadline_s);
    case KEY_BUCKET: return set_whole("--bucket", text, 1, (uint64_t)1 << 30, &o->bucket);
    case 'm': return set_whole("-m", text, 1, AGGREGATED_MOST, &o->aggregated);
    default: return clq_bench_sizes_set(&o->sizes, option, text);
    }
}

static clq_status check_options(const void *context) {
    const options *o = context;
    CLQ_TRY(clq_bench_sizes_check(&o->sizes, 0));
    return CLQ_OK;
}

/* ---- buffers ---- */

/* Whether the size in the table is n times what one rank gives or gets. */
static bool is_split(clq_collective c) { return c == CLQ_REDUCE_SCATTER || c == CLQ_ALL_GATHER; }

static size_t in_elements(const bench *b) {
    return b->o->collective == CLQ_REDUCE_SCATTER ? b->n * b->count : b->count;
}
static size_t out_elements(const bench *b) { return b->o->collective == CLQ_ALL_GATHER ? b->n * b->count : b->count; }

static clq_status make_memory(bench *b, unsigned rank, unsigned which, size_t bytes, cl_mem *out) {
    unsigned at = 2 * rank + which;
    bytes = CLQ_MAX((b->o->aggregated - 1) * b->stride + bytes, (size_t)64);
    if (!b->o->plain) {
        CLQ_TRY(clq_group_alloc(b->group, rank, bytes, &b->owned[at]));
        *out = b->owned[at];
        return CLQ_OK;
    }
    CLQ_TRY(clq_buffer_create(b->devices[rank], CLQ_MEMORY_DEVICE, bytes, "a caller's memory", &b->plain[at]));
    *out = clq_buffer_handle(b->plain[at]);
    return CLQ_OK;
}

static void free_buffers(bench *b) {
    if (clq_world_failure(b->run->world) == CLQ_OK) { /* otherwise the engine may still use them */
        if (b->engine_out != b->engine_in) clq_free(b->engine_out);
        clq_free(b->engine_in);
    }
    b->engine_in = b->engine_out = NULL;
    for (unsigned i = 0; i < 2 * b->here; i++) {
        clq_group_free(b->group, b->owned[i]);
        clq_buffer_destroy(b->plain[i]);
        b->owned[i] = NULL;
        b->plain[i] = NULL;
    }
}

/* In place, reduce-scatter writes its result to the rank's part of its input, and all-gather reads its input from the
 * rank's part of the result. */
static clq_status make_buffers(bench *b) {
    const size_t element = clq_dtype_bytes(b->o->dtype), part = b->count * element;
    size_t in_bytes = in_elements(b) * element, out_bytes = out_elements(b) * element;
    b->stride = clq_round_up(CLQ_MAX(in_bytes, out_bytes), CLQ_BUFFER_ALIGN);
    for (unsigned r = 0; r < b->here; r++) {
        b->in[r] = b->out[r] = (clq_slice){0};
        if (!b->in_place) {
            CLQ_TRY(make_memory(b, r, 0, in_bytes, &b->in[r].memory));
            CLQ_TRY(make_memory(b, r, 1, out_bytes, &b->out[r].memory));
            continue;
        }
        CLQ_TRY(make_memory(b, r, 0, CLQ_MAX(in_bytes, out_bytes), &b->in[r].memory));
        b->out[r].memory = b->in[r].memory;
        if (b->o->collective == CLQ_REDUCE_SCATTER) b->out[r].offset = (b->first + r) * part;
        if (b->o->collective == CLQ_ALL_GATHER) b->in[r].offset = (b->first + r) * part;
    }
    return CLQ_OK;
}

/* ---- the calls ---- */

static unsigned receiver(const bench *b) { return b->n > 1 ? ((unsigned)b->o->root + 1) % b->n : 0; }

/* The slice of a rank, which is numbered in the whole group. An empty one if the rank is another process's. */
static const clq_slice *slice_of(const bench *b, const clq_slice *slices, unsigned rank) {
    static const clq_slice none = {.memory = NULL};
    return rank >= b->first && rank - b->first < b->here ? &slices[rank - b->first] : &none;
}

static clq_status call_once(const bench *b, const clq_slice *in, const clq_slice *out) {
    const options *o = b->o;
    unsigned root = (unsigned)o->root, to = receiver(b);
    switch (o->collective) {
    case CLQ_ALL_REDUCE: return clq_all_reduce(b->group, in, out, b->count, o->dtype, o->op, NULL, NULL);
    case CLQ_REDUCE_SCATTER: return clq_reduce_scatter(b->group, in, out, b->count, o->dtype, o->op, NULL, NULL);
    case CLQ_ALL_GATHER: return clq_all_gather(b->group, in, out, b->count, o->dtype, NULL, NULL);
    case CLQ_BROADCAST: return clq_broadcast(b->group, in, out, b->count, o->dtype, root, NULL, NULL);
    case CLQ_REDUCE: return clq_reduce(b->group, in, out, b->count, o->dtype, o->op, root, NULL, NULL);
    default:
        return clq_send_recv(b->group, root, slice_of(b, in, root), to, slice_of(b, out, to), b->count, o->dtype, NULL,
                             NULL);
    }
}

/* Issues as many calls together as --agg-iters says. */
static clq_status call(const bench *b) {
    clq_slice in[CLQ_REPLICAS_MAX], out[CLQ_REPLICAS_MAX];
    if (b->o->aggregated == 1) return call_once(b, b->in, b->out);
    memcpy(in, b->in, sizeof in);
    memcpy(out, b->out, sizeof out);
    CLQ_TRY(clq_group_start(b->group));
    clq_status status = CLQ_OK, ended;
    for (uint64_t i = 0; i < b->o->aggregated && status == CLQ_OK; i++) {
        status = call_once(b, in, out);
        for (unsigned r = 0; r < b->here; r++) {
            in[r].offset += b->stride;
            out[r].offset += b->stride;
        }
    }
    ended = clq_group_end(b->group);
    return status == CLQ_OK ? ended : status;
}

static clq_status call_repeatedly(void *context, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(call(context));
    return CLQ_OK;
}

static clq_status call_engine(void *context, uint64_t repeats) {
    const bench *b = context;
    for (uint64_t i = 0; i < repeats; i++)
        CLQ_TRY(clq_world_engine_all_reduce(b->run->world, b->engine_in, b->engine_out, b->count));
    return CLQ_OK;
}

/* ---- checking ---- */

static clq_status upload_inputs(const bench *b) {
    const size_t element = clq_dtype_bytes(b->o->dtype), elements = in_elements(b);
    char *values = clq_alloc(CLQ_MAX(elements, (size_t)1), element);
    if (!values) return CLQ_ERROR_MEMORY;
    clq_status status = CLQ_OK;
    for (unsigned r = 0; r < b->here && status == CLQ_OK && elements > 0; r++) {
        for (size_t i = 0; i < elements; i++)
            clq_bench_value_put(b->o->dtype, values, i, clq_bench_value_in(b->first + r, i));
        clq_buffer *buffer;
        status = clq_buffer_wrap(b->devices[r], b->in[r].memory, &buffer);
        if (status != CLQ_OK) break;
        for (uint64_t k = 0; k < b->o->aggregated && status == CLQ_OK; k++)
            status = clq_queue_write(b->queues[r], buffer, b->in[r].offset + k * b->stride, values, elements * element,
                                     true);
        if (status == CLQ_OK) status = clq_queue_finish(b->queues[r]);
        clq_buffer_destroy(buffer);
    }
    clq_free(values);
    return status;
}

/* Whether a rank gets a result. */
static bool has_result(const bench *b, unsigned rank) {
    if (b->o->collective == CLQ_REDUCE) return rank == b->o->root;
    return b->o->collective != CLQ_SEND_RECV || rank == receiver(b);
}

static void put_expected(const bench *b, unsigned rank, char *values, size_t i) {
    const options *o = b->o;
    switch (o->collective) {
    case CLQ_ALL_REDUCE:
    case CLQ_REDUCE: clq_bench_value_put_reduced(o->dtype, o->op, b->n, i, values, i); break;
    case CLQ_REDUCE_SCATTER: clq_bench_value_put_reduced(o->dtype, o->op, b->n, rank * b->count + i, values, i); break;
    case CLQ_ALL_GATHER:
        clq_bench_value_put(o->dtype, values, i, clq_bench_value_in((unsigned)(i / b->count), i % b->count));
        break;
    default: clq_bench_value_put(o->dtype, values, i, clq_bench_value_in((unsigned)o->root, i)); break;
    }
}

static clq_status count_wrong_of(const bench *b, unsigned rank, uint64_t which, char *got, char *want,
                                 uint64_t *wrong) {
    const size_t element = clq_dtype_bytes(b->o->dtype), elements = out_elements(b);
    clq_buffer *buffer;
    CLQ_TRY(clq_buffer_wrap(b->devices[rank], b->out[rank].memory, &buffer));
    clq_status status =
        clq_queue_read(b->queues[rank], buffer, b->out[rank].offset + which * b->stride, got, elements * element, true);
    clq_buffer_destroy(buffer);
    CLQ_TRY(status);
    for (size_t i = 0; i < elements; i++) put_expected(b, b->first + rank, want, i);
    for (size_t i = 0; i < elements; i++) *wrong += memcmp(got + i * element, want + i * element, element) != 0;
    return CLQ_OK;
}

static clq_status count_wrong(const bench *b, uint64_t *wrong) {
    const size_t elements = CLQ_MAX(out_elements(b), (size_t)1), element = clq_dtype_bytes(b->o->dtype);
    CLQ_TRY(upload_inputs(b));
    CLQ_TRY(call(b));
    char *got = clq_alloc(elements, element), *want = clq_alloc(elements, element);
    clq_status status = got && want ? CLQ_OK : CLQ_ERROR_MEMORY;
    *wrong = 0;
    for (unsigned r = 0; r < b->here && status == CLQ_OK && out_elements(b) > 0; r++)
        for (uint64_t k = 0; k < b->o->aggregated && status == CLQ_OK; k++)
            if (has_result(b, b->first + r)) status = count_wrong_of(b, r, k, got, want, wrong);
    clq_free(want);
    clq_free(got);
    return status == CLQ_OK ? clq_bench_add_up(b->run, wrong) : status;
}

/* ---- rows ---- */

static double bus_factor(const bench *b) {
    double n = b->n;
    if (b->o->collective == CLQ_ALL_REDUCE) return 2 * (n - 1) / n;
    return is_split(b->o->collective) ? (n - 1) / n : 1;
}

typedef struct figures {
    clq_bench_times times, engine; /* engine: its own all-reduce; clq_bench_no_times: not measured */
    double algbw, busbw, limit;
    uint64_t wrong;
} figures;

static double ratio_of(const figures *f) { return f->engine.p50_us / f->times.p50_us; }

static clq_algorithm algorithm_of(const bench *b) {
    return clq_group_algorithm(b->group, b->o->collective, b->count * clq_dtype_bytes(b->o->dtype));
}

/* Keys of runs with several processes. */
static void put_engine(const bench *b, clq_bench_row *row, const figures *f) {
    clq_bench_put_count(row, "processes", clq_world_size(b->run->world));
    clq_bench_put_text(row, "engine", clq_world_engine_name(b->run->world));
    clq_bench_put_times(row, "engine_time_us", &f->engine);
    clq_bench_put_number(row, "ratio", ratio_of(f));
}

static clq_status add_row(bench *b, uint64_t bytes, const figures *f) {
    const options *o = b->o;
    clq_bench_row row = clq_bench_row_start();
    clq_bench_put_count(&row, "bytes", bytes);
    clq_bench_put_count(&row, "count", b->count);
    clq_bench_put_text(&row, "dtype", clq_dtype_name(o->dtype));
    clq_bench_put_text(&row, "redop", clq_collective_reduces(o->collective) ? clq_redop_name(o->op) : "none");
    clq_bench_put_text(&row, "algo", clq_algorithm_name(algorithm_of(b)));
    clq_bench_put_text(&row, "transport", clq_transport_name(clq_group_transport(b->group, b->o->collective)));
    clq_bench_put_text(&row, "memory", memory_name(o->plain));
    clq_bench_put_count(&row, "ranks", b->n);
    clq_bench_put_count(&row, "agg_iters", o->aggregated);
    clq_bench_put(&row, "in_place", json_boolean(b->in_place));
    clq_bench_put_times(&row, "time_us", &f->times);
    clq_bench_put_number(&row, "algbw_gbps", f->algbw);
    clq_bench_put_number(&row, "busbw_gbps", f->busbw);
    if (o->check)
        clq_bench_put_count(&row, "wrong", f->wrong);
    else
        clq_bench_put(&row, "wrong", json_null());
    clq_bench_put_limit(&row, "gbps", f->busbw, f->limit);
    if (b->run->world) put_engine(b, &row, f);
    return b->in_place ? clq_bench_add(b->run, &row) : clq_bench_keep(b->run, &row); /* a size gets both rows or none */
}

/* The engine's own all-reduce is measured only beside a sum of floats. While it runs, no process hears of the others.
 * The world takes a silence of 5 s for a failure, so the engine's is left out if ours takes longer than this. */
static const double engine_most_s = 1;

static bool has_engine(const bench *b) {
    const options *o = b->o;
    return b->run->world && o->collective == CLQ_ALL_REDUCE && o->dtype == CLQ_F32 && o->op == CLQ_REDOP_SUM &&
           b->count > 0;
}

static clq_status make_engine_buffers(bench *b) {
    double seconds = 0;
    if (!has_engine(b)) return CLQ_OK;
    for (int i = 0; i < 2; i++) { /* the first call may have to compile */
        const double began = clq_now();
        CLQ_TRY(call(b));
        seconds = clq_now() - began;
    }
    CLQ_TRY(clq_bench_find_last(b->run, &seconds));
    if (seconds > engine_most_s) return CLQ_OK;
    b->engine_in = clq_alloc(b->count, sizeof *b->engine_in);
    b->engine_out = b->in_place ? b->engine_in : clq_alloc(b->count, sizeof *b->engine_out);
    return b->engine_in && b->engine_out ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static clq_status measure_times(bench *b, figures *f) {
    const clq_bench_work works[] = {{call_repeatedly, NULL, b}, {call_engine, NULL, b}};
    clq_bench_times times[] = {clq_bench_no_times, clq_bench_no_times};
    const double calls = (double)b->o->aggregated;
    CLQ_TRY(make_engine_buffers(b));
    CLQ_TRY(clq_bench_measure_in_turns(b->run, works, b->engine_in ? 2 : 1, times));
    f->times = (clq_bench_times){times[0].min_us / calls, times[0].p50_us / calls, times[0].p99_us / calls};
    f->engine = times[1];
    return CLQ_OK;
}

static clq_status find_limit(bench *b, uint64_t bytes, figures *f) {
    const options *o = b->o;
    clq_bench_traffic traffic = {.run = b->run,
                                 .devices = b->devices,
                                 .n = b->n,
                                 .collective = o->collective,
                                 .root = (unsigned)o->root,
                                 .bytes = b->count * clq_dtype_bytes(o->dtype),
                                 .dtype = o->dtype,
                                 .op = o->op,
                                 .in_place = b->in_place,
                                 .direct = algorithm_of(b) == CLQ_ALGORITHM_DIRECT,
                                 .transport = clq_group_transport(b->group, o->collective)};
    if (b->run->world) { /* between processes, a process's ranks count as one */
        traffic.n = clq_world_size(b->run->world);
        traffic.root = b->root_process;
        if (o->collective == CLQ_SEND_RECV && b->receiver_process == b->root_process) return CLQ_OK; /* no limit */
        if (is_split(o->collective)) traffic.bytes = (size_t)bytes / traffic.n;
    }
    CLQ_TRY(clq_bench_collective_limit(&traffic, &b->slowest_gbps, &f->limit));
    /* The limit was measured as a time. Here it becomes a busbw for this size. */
    f->limit = bus_factor(b) * (double)bytes / f->limit * 1e-3;
    return CLQ_OK;
}

static clq_status measure(bench *b, uint64_t bytes, figures *f) {
    *f = (figures){.limit = NAN};
    clq_status status = make_buffers(b);
    if (status == CLQ_OK && b->o->check) status = count_wrong(b, &f->wrong);
    if (status == CLQ_OK) status = measure_times(b, f);
    if (status == CLQ_OK) {
        f->algbw = (double)bytes / f->times.p50_us * 1e-3;
        f->busbw = f->algbw * bus_factor(b);
        status = find_limit(b, bytes, f);
    }
    free_buffers(b);
    return status;
}

static void print_figures(const bench *b, const figures *f) {
    clq_bench_print(b->run, "  %10.2f %7.2f %7.2f", f->times.p50_us, f->algbw, f->busbw);
    if (b->o->check)
        clq_bench_print(b->run, " %6llu", (unsigned long long)f->wrong);
    else
        clq_bench_print(b->run, " %6s", "-");
    if (isfinite(f->limit) && f->limit > 0)
        clq_bench_print(b->run, " %6.1f%%", 100 * f->busbw / f->limit);
    else
        clq_bench_print(b->run, " %7s", "-");
    if (!b->run->world) return;
    if (isnan(f->engine.p50_us))
        clq_bench_print(b->run, " %10s %6s", "-", "-");
    else
        clq_bench_print(b->run, " %10.2f %6.2f", f->engine.p50_us, ratio_of(f));
}

static clq_status measure_size(bench *b, uint64_t bytes) {
    const options *o = b->o;
    b->count = bytes / clq_dtype_bytes(o->dtype) / (is_split(o->collective) ? b->n : 1);
    bytes = b->count * clq_dtype_bytes(o->dtype) * (is_split(o->collective) ? b->n : 1);
    figures f[2];
    for (int in_place = 0; in_place < 2; in_place++) {
        b->in_place = in_place;
        CLQ_TRY(measure(b, bytes, &f[in_place]));
    }
    char root[16] = "-1";
    if (o->collective == CLQ_BROADCAST || o->collective == CLQ_REDUCE || o->collective == CLQ_SEND_RECV)
        (void)snprintf(root, sizeof root, "%u", (unsigned)o->root);
    clq_bench_print(b->run, "%12llu %12zu %6s %6s %5s", (unsigned long long)bytes, b->count, clq_dtype_name(o->dtype),
                    clq_collective_reduces(o->collective) ? clq_redop_name(o->op) : "none", root);
    for (int i = 0; i < 2; i++) print_figures(b, &f[i]);
    clq_bench_print(b->run, "\n");
    for (int in_place = 0; in_place < 2; in_place++) {
        b->in_place = in_place;
        CLQ_TRY(add_row(b, bytes, &f[in_place]));
    }
    return CLQ_OK;
}

/* ---- the whole ---- */

static clq_status open_own_group(bench *b) {
    const options *o = b->o;
    clq_rank ranks[CLQ_REPLICAS_MAX] = {0};
    CLQ_TRY(clq_devices_open(&b->run->devices, o->transport == CLQ_TRANSPORT_PEER, b->devices, NULL));
    for (unsigned r = 0; r < b->here; r++) {
        CLQ_TRY(clq_queue_create(b->devices[r], 0, &b->queues[r]));
        ranks[r] = (clq_rank){clq_device_context(b->devices[r]), clq_device_id(b->devices[r]), NULL};
    }
    const clq_group_config config = {.algorithm = o->algorithm,
                                     .transport = o->transport,
                                     .chunk_bytes = (size_t)o->chunk,
                                     .slots = (unsigned)o->slots,
                                     .deadline_s = o->deadline_s,
                                     .bucket_bytes = (size_t)o->bucket};
    const clq_build_limit limit = clq_device_build_limit(b->devices[0]);
    return clq_group_create_within(ranks, b->here, &config, &limit, &b->group);
}

static clq_status check_root(const bench *b) {
    if (b->o->root < b->n) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--root %llu is out of range: there are %u ranks",
                    (unsigned long long)b->o->root, b->n);
}

/* All processes come to the same result, and the lowest reports the failure. */
static clq_status check_spread(const bench *b) {
    const clq_collective collective = b->o->collective;
    uint64_t most = b->here, ranks = b->n;
    if (!b->run->world || (collective != CLQ_REDUCE_SCATTER && collective != CLQ_ALL_GATHER)) return CLQ_OK;
    const bool is_even = ranks == most * clq_world_size(b->run->world);
    return clq_world_check(b->run->world, is_even ? CLQ_OK
                                                  : clq_fail(CLQ_ERROR_UNSUPPORTED,
                                                             "%s needs equally many ranks in each process: choose "
                                                             "them (--devices)",
                                                             clq_collective_name(collective)));
}

/* Finds the process that has a rank. */
static clq_status find_process(const bench *b, unsigned rank, unsigned *out) {
    uint64_t begun = b->first <= rank; /* 1 in that process and those before it, which the sum counts */
    CLQ_TRY(clq_bench_add_up(b->run, &begun));
    *out = (unsigned)begun - 1;
    return CLQ_OK;
}

static clq_status open_group(bench *b) {
    clq_status status = clq_world_check(b->run->world, open_own_group(b));
    if (status == CLQ_OK && b->run->world) status = clq_group_span(b->group, b->run->world);
    CLQ_TRY(status);
    b->n = clq_group_total(b->group);
    b->first = clq_group_first(b->group);
    CLQ_TRY(clq_world_check(b->run->world, check_root(b)));
    CLQ_TRY(check_spread(b));
    CLQ_TRY(find_process(b, (unsigned)b->o->root, &b->root_process));
    CLQ_TRY(find_process(b, receiver(b), &b->receiver_process));
    return CLQ_OK;
}

static void print_head(const bench *b) {
    const char *engine = b->run->world ? clq_world_engine_name(b->run->world) : NULL;
    const int width = engine ? 59 : 41;
    clq_bench_print(b->run, "#\n# %*s %*s\n", 33 + width, "out-of-place", width, "in-place");
    clq_bench_print(b->run, "# %10s %12s %6s %6s %5s", "size", "count", "type", "redop", "root");
    for (int i = 0; i < 2; i++) {
        clq_bench_print(b->run, "  %10s %7s %7s %6s %7s", "time", "algbw", "busbw", "#wrong", "%limit");
        if (engine) clq_bench_print(b->run, " %10s %6s", engine, "ratio");
    }
    clq_bench_print(b->run, "\n# %10s %12s %6s %6s %5s", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; i++) {
        clq_bench_print(b->run, "  %10s %7s %7s %6s %7s", "(us)", "(GB/s)", "(GB/s)", "", "");
        if (engine) clq_bench_print(b->run, " %10s %6s", "(us)", "");
    }
    clq_bench_print(b->run, "\n");
}

static void print_foot(const bench *b) {
    double sum = 0;
    size_t index, rows = 0, wrong = 0;
    json_t *row;
    json_array_foreach(b->run->rows, index, row) {
        sum += json_number_value(json_object_get(row, "busbw_gbps"));
        wrong += (size_t)json_integer_value(json_object_get(row, "wrong"));
        rows++;
    }
    if (b->o->check) clq_bench_print(b->run, "# Wrong values: %zu %s\n", wrong, wrong ? "FAILED" : "OK");
    if (rows > 0) clq_bench_print(b->run, "# Avg bus bandwidth: %.4g GB/s\n", sum / (double)rows);
}

static clq_status explain(const bench *b) {
    char *text;
    CLQ_TRY(clq_group_explain(b->group, &text));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) clq_bench_print(b->run, "# %s\n", line);
    free(text);
    return CLQ_OK;
}

static clq_status run_collective(clq_bench_run *run, void *context) {
    static bench b;
    b = (bench){.run = run, .o = context, .n = run->devices.count, .here = run->devices.count};
    if (!run->world) CLQ_TRY(check_root(&b));
    run->expected = 2 * clq_bench_sizes_count(&b.o->sizes);
    clq_status status = open_group(&b);
    if (status == CLQ_OK && b.o->explain) status = explain(&b);
    if (status == CLQ_OK) print_head(&b);
    uint64_t bytes = 0;
    bool first = true;
    while (status == CLQ_OK && (first ? (bytes = b.o->sizes.min, true) : clq_bench_sizes_next(&b.o->sizes, &bytes))) {
        first = false;
        status = measure_size(&b, bytes);
    }
    if (status == CLQ_OK || status == CLQ_ERROR_INTERRUPTED) print_foot(&b);
    clq_group_destroy(b.group);
    for (unsigned r = 0; r < b.here; r++) {
        clq_queue_destroy(b.queues[r]);
        clq_device_close(b.devices[r]);
    }
    return status;
}

static clq_status bench_collective(clq_collective collective, const char *name, const char *about, int argc,
                                   char **argv) {
    static const clq_argument table[] = {
        CLQ_BENCH_SIZES_OPTIONS,
        {NULL, 'c', "0|1", .help = "count wrong values (default 1)"},
        {NULL, 'd', "TYPE", .help = "f32, f64, f16, bf16, i8, u8, i32, … (default f32)"},
        {NULL, 'o', "OP", .help = "sum, prod, min, max or avg (default sum)"},
        {"algo", KEY_ALGO, "NAME", .help = "auto, ring, direct, reduce-to-one, doubling, hierarchical or torus"},
        {"transport", KEY_TRANSPORT, "NAME", .help = "auto, staged, peer or mapped"},
        {"memory", KEY_MEMORY, "group|plain", .help = "the group's (needs no mapping) or plain cl_mem objects"},
        {"chunk", KEY_CHUNK, "BYTES", .help = "of a link's slot (default 256 KiB)"},
        {"slots", KEY_SLOTS, "N", .help = "per link (default 4)"},
        {"root", KEY_ROOT, "RANK", .help = "of broadcast and reduce; the sender of send_recv (default 0)"},
        {"agg-iters", 'm', "N",
         .help = "calls issued together, each on memory of its own; times are of one (default 1)"},
        {"bucket", KEY_BUCKET, "BYTES", .help = "what of them travels as one message at most (default 512 KiB)"},
        {"deadline", KEY_DEADLINE, "SECONDS",
         .help = "of one collective: a rank that is not done within it failed (default 30)"},
        {"explain", KEY_EXPLAIN, NULL, .help = "say which algorithm and transport is used, and why"},
        {0}};
    options o = {.collective = collective,
                 .sizes = {.min = 1024, .max = (uint64_t)64 << 20, .factor = 4},
                 .check = 1,
                 .aggregated = 1,
                 .dtype = CLQ_F32};
    const clq_bench_spec spec = {.name = name,
                                 .about = about,
                                 .span = CLQ_BENCH_OF_DEVICES,
                                 .options = table,
                                 .set = set_option,
                                 .check = check_options,
                                 .run = run_collective,
                                 .iterations = 20,
                                 .iterations_most = 1000000,
                                 .warm_ups = 5};
    return clq_bench_main(&spec, &o, argc, argv);
}

clq_status clq_bench_all_reduce(int argc, char **argv) {
    return bench_collective(CLQ_ALL_REDUCE, "all_reduce", "The reduction of all ranks' buffers, on every rank.", argc,
                            argv);
}
clq_status clq_bench_reduce_scatter(int argc, char **argv) {
    return bench_collective(CLQ_REDUCE_SCATTER, "reduce_scatter", "The reduction of all, a part on each rank.", argc,
                            argv);
}
clq_status clq_bench_all_gather(int argc, char **argv) {
    return bench_collective(CLQ_ALL_GATHER, "all_gather", "All ranks' buffers, one behind the other, on every rank.",
                            argc, argv);
}
clq_status clq_bench_broadcast(int argc, char **argv) {
    return bench_collective(CLQ_BROADCAST, "broadcast", "One rank's buffer, on every rank.", argc, argv);
}
clq_status clq_bench_reduce(int argc, char **argv) {
    return bench_collective(CLQ_REDUCE, "reduce", "The reduction of all ranks' buffers, on one rank.", argc, argv);
}
clq_status clq_bench_send_recv(int argc, char **argv) {
    return bench_collective(CLQ_SEND_RECV, "send_recv", "One rank's buffer, on the rank after it.", argc, argv);
}
