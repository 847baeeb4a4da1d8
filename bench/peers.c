/* clique bench peers: runs the same all-reduces, training and matrix products on Clique and on Open MPI, PyTorch,
 * TensorFlow and OpenBLAS, as far as these are installed.
 *
 * This process loads no driver and measures nothing. For each size, model and shape it starts `clique-bench` and every
 * peer, one at a time and in turn, `--rounds` times, so that all meet the machine in the same state. A row has the
 * median of the rounds' medians, and the least and the most of all rounds. All-reduces sum floats; a peer that reduces
 * in place is compared with Clique in place. Training uses synthetic samples of the model's input shape, and Adam.
 * Clique trains on all selected devices; a peer trains once as one process on all cores, and once with as many replicas
 * as there are devices. Clique multiplies matrices on the first selected device, OpenBLAS with as many threads as that
 * device has cores. */
#include "peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_COLLECTIVES = CLQ_BENCH_KEY_OWN, KEY_MODELS, KEY_BATCH, KEY_SAMPLES, KEY_EPOCHS, KEY_ROUNDS, KEY_LIMIT };
enum { KEY_MPIRUN = KEY_LIMIT + 1, KEY_PYTHON, KEY_GEMM, KEY_CC };
enum { ROUNDS_MAX = 64, VERSION_BYTES = 64 };

typedef struct bench {
    clq_bench_run *run;
    clq_peers peers;
    clq_bench_sizes sizes;
    clq_bench_shapes shapes;
    const char *collectives, *models, *mpirun, *python, *cc;
    uint64_t batch, samples, epochs, rounds;
    unsigned ranks;       /* devices selected */
    unsigned first_cores; /* cores of the first device */
} bench;

typedef enum kind { ALL_REDUCE, TRAIN, GEMM } kind;
static const char *const kind_names[] = {[ALL_REDUCE] = "all_reduce", [TRAIN] = "train", [GEMM] = "gemm"};

static const struct variant {
    const char *name;
    clq_peer_system system;
    kind kind;
    bool alone; /* whether it is one process on all cores */
} variants[] = {
    {"openmpi", CLQ_PEER_MPI, ALL_REDUCE, false},     {"pytorch-gloo", CLQ_PEER_TORCH, ALL_REDUCE, false},
    {"pytorch", CLQ_PEER_TORCH, TRAIN, true},         {"pytorch-ddp", CLQ_PEER_TORCH, TRAIN, false},
    {"tensorflow", CLQ_PEER_TENSORFLOW, TRAIN, true}, {"tensorflow-mirrored", CLQ_PEER_TENSORFLOW, TRAIN, false},
    {"openblas", CLQ_PEER_BLAS, GEMM, true}};
enum { VARIANTS = CLQ_COUNT_OF(variants) };

/* What is measured: an all-reduce of `bytes` bytes, a model's training, or a matrix product. */
typedef struct subject {
    kind kind;
    uint64_t bytes;
    const char *model, *data; /* data: with the model's shape */
    const clq_bench_shape *shape;
} subject;

/* The figures of the rounds. */
typedef struct outcome {
    clq_peer_figures rounds[ROUNDS_MAX];
    unsigned count;
    bool in_place;
    char version[VERSION_BYTES], reason[CLQ_PEER_REASON_MAX]; /* reason: why a round failed; "": none did */
} outcome;

/* ---- options ---- */

static clq_status set_whole(const char *what, const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    if (clq_parse_u64(text, least, most, out)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected a whole number from %llu to %llu", what, text,
                    (unsigned long long)least, (unsigned long long)most);
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    bench *b = context;
    switch (option->key) {
    case KEY_COLLECTIVES: b->collectives = text; return CLQ_OK;
    case KEY_MODELS: b->models = text; return CLQ_OK;
    case KEY_MPIRUN: b->mpirun = text; return CLQ_OK;
    case KEY_PYTHON: b->python = text; return CLQ_OK;
    case KEY_CC: b->cc = text; return CLQ_OK;
    case KEY_GEMM: return clq_bench_shapes_set(&b->shapes, "--gemm", text);
    case KEY_BATCH: return set_whole("--batch", text, 1, 1u << 20, &b->batch);
    case KEY_SAMPLES: return set_whole("--samples", text, 1, 1u << 20, &b->samples);
    case KEY_EPOCHS: return set_whole("--epochs", text, 1, 64, &b->epochs);
    case KEY_ROUNDS: return set_whole("--rounds", text, 1, ROUNDS_MAX, &b->rounds);
    case KEY_LIMIT:
        if (clq_parse_double(text, 0.1, 86400, &b->peers.limit_s)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--limit '%s': expected seconds, from 0.1 to 86400", text);
    default: return clq_bench_sizes_set(&b->sizes, option, text);
    }
}

static bool is_none(const char *list) { return strcmp(list, "none") == 0; }

static clq_status check(const void *context) {
    const bench *b = context;
    CLQ_TRY(clq_bench_sizes_check(&b->sizes, sizeof(float)));
    if (b->sizes.max > (uint64_t)1 << 32)
        return clq_fail(CLQ_ERROR_ARGUMENT, "-e: MPI counts elements in an int; the largest size here is 4G");
    if (strcmp(b->collectives, "all_reduce") != 0 && !is_none(b->collectives))
        return clq_fail(CLQ_ERROR_ARGUMENT, "--collectives '%s': expected all_reduce or none", b->collectives);
    return is_none(b->models) ? CLQ_OK : clq_bench_models_check(b->models, NULL);
}

/* ---- one run ---- */

/* Complete batches, so that all systems take the same steps. */
static unsigned long long samples_of(const bench *b) { return CLQ_MAX(b->samples / b->batch, (uint64_t)1) * b->batch; }

static bool is_usable(const bench *b, const struct variant *v, const subject *s) {
    return b->peers.ready[v->system] && v->kind == s->kind && !(v->kind == TRAIN && !v->alone && b->ranks == 1);
}

static void add_devices(const clq_bench_run *run, clq_peer_command *c) {
    clq_peer_command_add(c, "--devices");
    clq_peer_command_add(c, "%s", run->devices_spec);
    if (!run->build_deadline) return;
    clq_peer_command_add(c, "--build-deadline");
    clq_peer_command_add(c, "%s", run->build_deadline);
}

static void add_own(const bench *b, const subject *s, clq_peer_command *c) {
    unsigned long long bytes = s->bytes, samples = b->run->iterations, warm_ups = b->run->warm_ups;
    switch (s->kind) {
    case TRAIN:
        clq_peer_command_add_words(c, "train --batch %llu --data %s -n %llu -w 1 --models",
                                   (unsigned long long)b->batch, s->data, (unsigned long long)b->epochs);
        clq_peer_command_add(c, "%s", s->model);
        break;
    case GEMM:
        clq_peer_command_add_words(c, "gemm --variants chosen -n %llu -w %llu --sizes %s", samples, warm_ups,
                                   s->shape->name);
        break;
    default:
        clq_peer_command_add_words(c, "all_reduce -b %llu -e %llu -n %llu -w %llu", bytes, bytes, samples, warm_ups);
        break;
    }
    add_devices(b->run, c);
}

/* Whether this row is the one for which the run of this program was started. */
static bool is_wanted(const bench *b, const subject *s, const json_t *row) {
    if (s->kind == GEMM) return json_integer_value(json_object_get(row, "device")) == 0;
    return json_integer_value(json_object_get(row, s->kind == TRAIN ? "replicas" : "ranks")) == b->ranks;
}

/* Runs Clique, and appends the figures to own[in_place]. Training and products have no such distinction: their figures
 * go to both. */
static clq_status run_own(const bench *b, const subject *s, outcome own[2]) {
    clq_peer_command command = {0};
    add_own(b, s, &command);
    json_t *document, *row;
    CLQ_TRY(clq_peer_run_own(&b->peers, &command, &document));
    size_t i;
    unsigned found = 0;
    json_array_foreach(json_object_get(document, "rows"), i, row) {
        clq_peer_figures figures;
        if (!is_wanted(b, s, row) || !clq_peer_figures_read(row, &figures)) continue;
        for (unsigned in_place = 0; in_place < 2; in_place++)
            if (s->kind != ALL_REDUCE || in_place == json_is_true(json_object_get(row, "in_place"))) {
                own[in_place].rounds[own[in_place].count++] = figures;
                found++;
            }
    }
    json_decref(document);
    return found == 2 ? CLQ_OK : clq_fail(CLQ_ERROR_SYSTEM, "clique bench %s left no figures", command.argv[0]);
}

/* The beginning of a peer's command, up to the number of ranks. */
static void add_peer(const bench *b, const struct variant *v, clq_peer_command *c) {
    const char *starter = b->peers.starters[v->system], *program = b->peers.programs[v->system];
    if (starter) clq_peer_command_add(c, "%s", starter);
    if (v->system == CLQ_PEER_MPI)
        clq_peer_command_add_words(c, "-n %u --oversubscribe %s", b->ranks,
                                   geteuid() == 0 ? "--allow-run-as-root" : "");
    clq_peer_command_add(c, "%s", program ? program : b->peers.sources[v->system]);
    if (!program) clq_peer_command_add_words(c, "%s %u", kind_names[v->kind], v->alone ? 1 : b->ranks);
}

static clq_status run_peer(const bench *b, const struct variant *v, const subject *s, outcome *out) {
    clq_peer_command command = {0};
    unsigned processes = v->alone || v->system == CLQ_PEER_TENSORFLOW ? 1 : b->ranks;
    add_peer(b, v, &command);
    switch (s->kind) {
    case TRAIN:
        clq_peer_command_add(&command, "%s", s->model);
        clq_peer_command_add_words(&command, "%llu %llu %llu %u", (unsigned long long)b->batch, samples_of(b),
                                   (unsigned long long)b->epochs, CLQ_MAX(clq_cpu_count() / processes, 1u));
        break;
    case GEMM:
        clq_peer_command_add_words(&command, "%zu %zu %zu %s %llu %llu %u", s->shape->m, s->shape->n, s->shape->k,
                                   clq_bench_shape_transpose(s->shape), (unsigned long long)b->run->iterations,
                                   (unsigned long long)b->run->warm_ups, b->first_cores);
        break;
    default:
        clq_peer_command_add_words(&command, "%llu %llu %llu", (unsigned long long)s->bytes,
                                   (unsigned long long)b->run->iterations, (unsigned long long)b->run->warm_ups);
        break;
    }
    json_t *answer;
    CLQ_TRY(clq_peer_run(&b->peers, &command, out->reason, &answer));
    if (!answer) return CLQ_OK;
    const char *version = json_string_value(json_object_get(answer, "version"));
    if (clq_peer_figures_read(answer, &out->rounds[out->count]) && version) {
        out->count++;
        (void)snprintf(out->version, sizeof out->version, "%s", version);
        out->in_place = json_is_true(json_object_get(answer, "in_place"));
    } else {
        (void)snprintf(out->reason, sizeof out->reason, "printed figures that cannot be");
    }
    json_decref(answer);
    return CLQ_OK;
}

/* ---- rows ---- */

static int by_typical(const void *left, const void *right) {
    double a = ((const clq_peer_figures *)left)->typical, b = ((const clq_peer_figures *)right)->typical;
    return (a > b) - (a < b);
}

/* The figures of all rounds together; NaN if a round failed. */
static clq_peer_figures sum_up(outcome *o) {
    if (o->reason[0]) return (clq_peer_figures){NAN, NAN, NAN};
    qsort(o->rounds, o->count, sizeof o->rounds[0], by_typical);
    clq_peer_figures all = o->rounds[(o->count - 1) / 2];
    for (unsigned i = 0; i < o->count; i++) {
        all.least = CLQ_MIN(all.least, o->rounds[i].least);
        all.most = CLQ_MAX(all.most, o->rounds[i].most);
    }
    return all;
}

static void put_figures(clq_bench_row *row, const char *who, const clq_peer_figures *f) {
    char key[32];
    clq_bench_put_number(row, who, f->typical);
    (void)snprintf(key, sizeof key, "%s_least", who);
    clq_bench_put_number(row, key, f->least);
    (void)snprintf(key, sizeof key, "%s_most", who);
    clq_bench_put_number(row, key, f->most);
}

/* Ratios of the speeds: Clique's over the peer's. */
static void put_ratio(clq_bench_row *row, bool of_times, const clq_peer_figures *ours, const clq_peer_figures *peer) {
    const clq_peer_figures *up = of_times ? peer : ours, *down = of_times ? ours : peer;
    clq_bench_put_number(row, "ratio", up->typical / down->typical);
    clq_bench_put_number(row, "ratio_least", up->least / down->most);
    clq_bench_put_number(row, "ratio_most", up->most / down->least);
}

static double busbw(const bench *b, const subject *s, const clq_peer_figures *f) {
    double n = b->ranks;
    return s->kind != ALL_REDUCE ? NAN : (double)s->bytes / f->typical * 1e-3 * 2 * (n - 1) / n;
}

static clq_status add_row(bench *b, const struct variant *v, const subject *s, outcome *own, outcome *peer) {
    const clq_peer_figures ours = sum_up(own), theirs = sum_up(peer);
    clq_bench_row row = clq_bench_row_start();
    clq_bench_put_text(&row, "what", kind_names[s->kind]);
    clq_bench_put(&row, "bytes", s->kind == ALL_REDUCE ? json_integer((json_int_t)s->bytes) : json_null());
    clq_bench_put(&row, "model", s->model ? clq_json_text(clq_bench_model_name(s->model)) : json_null());
    clq_bench_put(&row, "batch", s->model ? json_integer((json_int_t)b->batch) : json_null());
    clq_bench_put(&row, "shape", s->shape ? clq_json_text(s->shape->name) : json_null());
    clq_bench_put_count(&row, "ranks", s->kind == GEMM ? 1 : b->ranks);
    clq_bench_put_text(&row, "peer_name", v->name);
    clq_bench_put(&row, "peer_version", peer->version[0] ? clq_json_text(peer->version) : json_null());
    clq_bench_put_text(&row, "unit", s->kind == TRAIN ? "images/s" : "us");
    put_figures(&row, "ours", &ours);
    put_figures(&row, "peer", &theirs);
    clq_bench_put_number(&row, "busbw_gbps", busbw(b, s, &ours));
    clq_bench_put_number(&row, "peer_busbw_gbps", busbw(b, s, &theirs));
    put_ratio(&row, s->kind != TRAIN, &ours, &theirs);
    clq_bench_put_reason(&row, peer->reason[0] ? peer->reason : NULL);
    return clq_bench_add(b->run, &row);
}

/* ---- the whole ---- */

static clq_status run_rounds(const bench *b, const subject *s, outcome own[2], outcome peers[VARIANTS]) {
    for (uint64_t round = 0; round < b->rounds; round++) {
        CLQ_TRY(run_own(b, s, own));
        for (unsigned i = 0; i < VARIANTS; i++)
            if (is_usable(b, &variants[i], s) && !peers[i].reason[0]) CLQ_TRY(run_peer(b, &variants[i], s, &peers[i]));
    }
    return CLQ_OK;
}

static clq_status measure(bench *b, const subject *s) {
    unsigned usable = 0;
    for (unsigned i = 0; i < VARIANTS; i++) usable += is_usable(b, &variants[i], s);
    if (usable == 0) return CLQ_OK;
    outcome *outcomes = clq_alloc(2 + VARIANTS, sizeof *outcomes), *peers = outcomes + 2;
    if (!outcomes) return CLQ_ERROR_MEMORY;
    clq_status status = run_rounds(b, s, outcomes, peers);
    for (unsigned i = 0; i < VARIANTS && status == CLQ_OK; i++)
        if (is_usable(b, &variants[i], s))
            status = add_row(b, &variants[i], s, &outcomes[peers[i].in_place], &peers[i]);
    clq_free(outcomes);
    return status;
}

/* Calls body for each size, model and shape. */
static clq_status each_subject(bench *b, clq_status (*body)(bench *, const subject *)) {
    if (!is_none(b->collectives)) {
        uint64_t size = b->sizes.min;
        do CLQ_TRY(body(b, &(subject){.kind = ALL_REDUCE, .bytes = size / sizeof(float) * sizeof(float)}));
        while (clq_bench_sizes_next(&b->sizes, &size));
    }
    char name[CLQ_BENCH_MODEL_BYTES];
    for (const char *at = is_none(b->models) ? "" : b->models; *at && clq_bench_next_model(&at, name);) {
        char data[CLQ_BENCH_DATA_BYTES];
        clq_model *model;
        CLQ_TRY(clq_bench_model_open(name, NULL, &model));
        clq_status status = clq_bench_model_data(model, samples_of(b), data);
        clq_model_destroy(model);
        if (status == CLQ_OK) status = body(b, &(subject){.kind = TRAIN, .model = name, .data = data});
        CLQ_TRY(status);
    }
    for (size_t i = 0; i < b->shapes.count; i++)
        CLQ_TRY(body(b, &(subject){.kind = GEMM, .shape = &b->shapes.items[i]}));
    return CLQ_OK;
}

static clq_status count_rows(bench *b, const subject *s) {
    for (unsigned i = 0; i < VARIANTS; i++) b->run->expected += is_usable(b, &variants[i], s);
    return CLQ_OK;
}

static clq_status run_peers(clq_bench_run *run, void *context) {
    bench *b = context;
    clq_status status = each_subject(b, count_rows);
    if (status == CLQ_OK) status = each_subject(b, measure);
    size_t rows = json_array_size(run->rows);
    if (status != CLQ_ERROR_INTERRUPTED) return status;
    return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted after %zu row%s", rows, rows == 1 ? "" : "s");
}

/* Finds the devices by a short benchmark in a child process, then the peers. */
static clq_status describe(clq_bench_run *run, void *context) {
    bench *b = context;
    b->run = run;
    CLQ_TRY(clq_peers_open(&b->peers));
    clq_peer_command command = {0};
    clq_peer_command_add_words(&command, "launch -n 1 -w 0");
    add_devices(run, &command);
    json_t *document;
    CLQ_TRY(clq_peer_run_own(&b->peers, &command, &document));
    run->described = json_incref(json_object_get(document, "devices"));
    json_decref(document);
    b->ranks = (unsigned)json_array_size(run->described);
    if (b->ranks == 0) return clq_fail(CLQ_ERROR_SYSTEM, "clique bench launch named no device");
    json_int_t units = json_integer_value(json_object_get(json_array_get(run->described, 0), "compute_units"));
    b->first_cores = (unsigned)CLQ_MAX(CLQ_MIN(units, (json_int_t)clq_cpu_count()), (json_int_t)1);
    return clq_peers_find(&b->peers, run, b->mpirun, b->python, b->shapes.count > 0 ? b->cc : NULL);
}

clq_status clq_bench_peers(int argc, char **argv) {
    static const clq_argument table[] = {
        CLQ_BENCH_SIZES_OPTIONS,
        {"collectives", KEY_COLLECTIVES, "all_reduce|none", .help = "default all_reduce"},
        {"models", KEY_MODELS, "A,B|none", .help = "by name, or Keras's .json files (default mlp,cnn)"},
        {"gemm", KEY_GEMM, "MxNxK,…",
         .help = "matrix products, as of clique bench gemm --sizes, on the first device (default none)"},
        {"batch", KEY_BATCH, "N", .help = "global batch (default 64)"},
        {"samples", KEY_SAMPLES, "N", .help = "of an epoch (default 6400)"},
        {"epochs", KEY_EPOCHS, "N", .help = "timed epochs of each run, behind one to warm up (default 3)"},
        {"rounds", KEY_ROUNDS, "N", .help = "runs of each, interleaved (default 3)"},
        {"limit", KEY_LIMIT, "SECONDS", .help = "what takes longer is stopped (default 300)"},
        {"mpirun", KEY_MPIRUN, "PATH", .help = "of Open MPI; mpicc is beside it or in PATH (default mpirun)"},
        {"python", KEY_PYTHON, "PATH", .help = "that has torch, tensorflow or both (default python3)"},
        {"cc", KEY_CC, "PATH", .help = "a C compiler that finds OpenBLAS (default cc)"},
        {0}};
    static const clq_bench_column columns[] = {{"what", "what", -10, 0},
                                               {"bytes", "bytes", 10, 0},
                                               {"model", "model", -11, 0},
                                               {"shape", "shape", -16, 0},
                                               {"ranks", "ranks", 5, 0},
                                               {"peer_name", "peer", -19, 0},
                                               {"unit", "unit", -8, 0},
                                               {"ours", "clique", 10, 1},
                                               {"peer", "peer", 10, 1},
                                               {"busbw_gbps", "busbw", 6, 2},
                                               {"peer_busbw_gbps", "peer's", 6, 2},
                                               {"ratio", "ratio", 6, 2},
                                               {"ratio_least", "least", 6, 2},
                                               {"ratio_most", "most", 6, 2},
                                               {"reason", "reason", -6, 0},
                                               {0}};
    static const clq_bench_spec spec = {
        .name = "peers",
        .about = "The same all-reduces, training and matrix products on Open MPI, PyTorch, TensorFlow and "
                 "OpenBLAS, interleaved with Clique.",
        .options = table,
        .set = set_option,
        .check = check,
        .describe = describe,
        .run = run_peers,
        .iterations = 20,
        .iterations_most = 1000000,
        .iterations_help = "timed samples of each run of an all-reduce or product",
        .warm_ups = 5,
        .columns = columns};
    bench b = {.sizes = {.min = 4096, .max = (uint64_t)64 << 20, .factor = 4},
               .collectives = "all_reduce",
               .models = "mlp,cnn",
               .mpirun = "mpirun",
               .python = "python3",
               .cc = "cc",
               .batch = 64,
               .samples = 6400,
               .epochs = 3,
               .rounds = 3,
               .peers.limit_s = 300};
    clq_status status = clq_bench_main(&spec, &b, argc, argv);
    clq_peers_close(&b.peers);
    return status;
}
