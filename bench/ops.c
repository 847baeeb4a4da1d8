/* clique bench ops: operations that memory bandwidth limits: activations, pooling, loss, update. GB/s count each
 * necessary read and each necessary write of a number once. Sampled results of one run are verified against plain C in
 * double. The limit is the traffic, reads and writes together, of a kernel that only copies or changes in place as much
 * memory as the operation touches. */
#include "lab.h"

#include <math.h>

enum { KEY_BATCH = CLQ_BENCH_KEY_OWN, KEY_PARAMETERS };

typedef struct options {
    uint64_t batch, parameters;
} options;

/* The shapes: the output of the first convolution in the built-in `cnn`, and rows with as many classes as ImageNet
 * has. */
enum { SIDE = 26, CHANNELS = 32, POOL = 2, POOLED = SIDE / POOL, CLASSES = 1000 };
enum { ACTIVATED = SIDE * SIDE * CHANNELS, POOLED_FLOATS = POOLED * POOLED * CHANNELS };
static const float rate = 1e-3f;

enum { SLOTS = 4 };

/* One operation under test. A slot is one of its arrays. */
typedef struct trial {
    const struct kind *kind;
    const options *options;
    clq_bench_lab lab;
    clq_value values[SLOTS];
    size_t counts[SLOTS];
    float *floats[SLOTS];  /* the slot's first content; NULL: only written */
    unsigned char *winner; /* pooling backward's, in slot 2; otherwise NULL */
    int32_t *labels;       /* the loss's, in slot 2; otherwise NULL */
    size_t result;         /* the slot that is verified */
    double bytes;          /* bytes read and bytes written, added up */
    double footprint;      /* bytes of all arrays */
} trial;

typedef struct kind {
    const char *name;
    uint32_t (*capacity)(const options *o);
    clq_status (*build)(trial *t);
    double (*want)(const trial *t, size_t index); /* the right value of the result at `index` */
    double absolute;                              /* tolerance, in addition to 1e-4 of the value */
} kind;

static uint32_t by_batch(const options *o) { return (uint32_t)o->batch; }
static uint32_t by_one(const options *o) {
    (void)o;
    return 1;
}

static void count_bytes(trial *t, size_t bytes) {
    t->bytes += (double)bytes;
    t->footprint += (double)bytes;
}

static clq_status reads(trial *t, size_t slot, const char *name, size_t count) {
    t->counts[slot] = count;
    t->values[slot] = clq_bench_lab_value(&t->lab, name, count * sizeof(float));
    count_bytes(t, count * sizeof(float));
    t->floats[slot] = clq_bench_floats(count, slot);
    return t->floats[slot] ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void writes(trial *t, size_t slot, const char *name, size_t count) {
    t->counts[slot] = count;
    t->values[slot] = clq_bench_lab_value(&t->lab, name, count * sizeof(float));
    count_bytes(t, count * sizeof(float));
    t->result = slot;
}

/* ---- activations ---- */

/* result = op(a), element by element; or op(a, b) if b is not CLQ_NO_VALUE. */
static void build_elementwise(trial *t, clq_element_op op, clq_value a, clq_value b, clq_value result) {
    static const struct clq_element_input each = {.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32};
    clq_element_program p = {.output_count = 1};
    clq_instruction instruction = {.op = op, .a = clq_element_take(&p, each)};
    if (b != CLQ_NO_VALUE) instruction.b = clq_element_take(&p, each);
    p.outputs[0].from = clq_element_do(&p, instruction);
    const clq_element_values values = {
        .elements = ACTIVATED, .channels = CHANNELS, .inputs = {a, b}, .outputs = {result}};
    clq_elementwise(t->lab.list, "activation", &p, &values);
}

static clq_status build_relu(trial *t) {
    CLQ_TRY(reads(t, 0, "x", t->options->batch * ACTIVATED));
    writes(t, 1, "y", t->counts[0]);
    build_elementwise(t, CLQ_ELEMENT_RELU, t->values[0], CLQ_NO_VALUE, t->values[1]);
    return CLQ_OK;
}

static double want_relu(const trial *t, size_t i) { return CLQ_MAX((double)t->floats[0][i], 0.0); }

static clq_status build_relu_backward(trial *t) {
    CLQ_TRY(reads(t, 0, "y", t->options->batch * ACTIVATED));
    CLQ_TRY(reads(t, 1, "dy", t->counts[0]));
    writes(t, 2, "dz", t->counts[0]);
    build_elementwise(t, CLQ_ELEMENT_RELU_SLOPE, t->values[0], t->values[1], t->values[2]);
    return CLQ_OK;
}

static double want_relu_backward(const trial *t, size_t i) {
    return t->floats[0][i] > 0 ? (double)t->floats[1][i] : 0.0;
}

static clq_status build_tanh(trial *t) {
    CLQ_TRY(reads(t, 0, "x", t->options->batch * ACTIVATED));
    writes(t, 1, "y", t->counts[0]);
    build_elementwise(t, CLQ_ELEMENT_TANH, t->values[0], CLQ_NO_VALUE, t->values[1]);
    return CLQ_OK;
}

static double want_tanh(const trial *t, size_t i) { return tanh((double)t->floats[0][i]); }

static clq_status build_softmax(trial *t) {
    CLQ_TRY(reads(t, 0, "x", t->options->batch * CLASSES));
    writes(t, 1, "y", t->counts[0]);
    clq_softmax_forward(t->lab.list, CLASSES, CLASSES, t->values[0], t->values[1]);
    return CLQ_OK;
}

static double want_softmax(const trial *t, size_t i) {
    const float *row = t->floats[0] + i / CLASSES * CLASSES;
    double sum = 0;
    for (size_t c = 0; c < CLASSES; c++) sum += exp((double)row[c]);
    return exp((double)t->floats[0][i]) / sum;
}

/* ---- pooling ---- */

static const clq_pool2d_problem pool = {.in_h = SIDE,
                                        .in_w = SIDE,
                                        .channels = CHANNELS,
                                        .out_h = POOLED,
                                        .out_w = POOLED,
                                        .size_h = POOL,
                                        .size_w = POOL,
                                        .stride_h = POOL,
                                        .stride_w = POOL};

static clq_value add_winner(trial *t, size_t slot) {
    size_t bytes = t->options->batch * clq_pool2d_winner_bytes(&pool);
    count_bytes(t, bytes);
    t->counts[slot] = bytes;
    return t->values[slot] = clq_bench_lab_value(&t->lab, "winner", bytes);
}

static clq_status build_pool(trial *t) {
    CLQ_TRY(reads(t, 0, "x", t->options->batch * ACTIVATED));
    writes(t, 1, "y", t->options->batch * POOLED_FLOATS);
    clq_pool2d_forward(t->lab.list, &pool, t->values[0], t->values[1], add_winner(t, 2));
    return CLQ_OK;
}

/* The index of a place of the input: image, row, column, channel. */
static size_t input_at(size_t n, size_t y, size_t x, size_t c) { return ((n * SIDE + y) * SIDE + x) * CHANNELS + c; }

static double want_pool(const trial *t, size_t i) {
    size_t c = i % CHANNELS, x = i / CHANNELS % POOLED, y = i / CHANNELS / POOLED % POOLED, n = i / POOLED_FLOATS;
    double most = -INFINITY;
    for (size_t ty = 0; ty < POOL; ty++)
        for (size_t tx = 0; tx < POOL; tx++)
            most = CLQ_MAX(most, (double)t->floats[0][input_at(n, y * POOL + ty, x * POOL + tx, c)]);
    return most;
}

/* The winners are random: any are valid. */
static clq_status build_pool_backward(trial *t) {
    CLQ_TRY(reads(t, 0, "dy", t->options->batch * POOLED_FLOATS));
    writes(t, 1, "dx", t->options->batch * ACTIVATED);
    clq_pool2d_backward(t->lab.list, &pool, CLQ_NO_VALUE, t->values[0], add_winner(t, 2), t->values[1]);
    t->winner = clq_alloc(t->counts[2], 1);
    if (!t->winner) return CLQ_ERROR_MEMORY;
    clq_random random = clq_random_start(3, 0);
    for (size_t i = 0; i < t->counts[2]; i++) t->winner[i] = (unsigned char)(clq_random_u32(&random) % (POOL * POOL));
    return CLQ_OK;
}

static double want_pool_backward(const trial *t, size_t i) {
    size_t c = i % CHANNELS, x = i / CHANNELS % SIDE, y = i / CHANNELS / SIDE % SIDE, n = i / ACTIVATED;
    size_t window = ((n * POOLED + y / POOL) * POOLED + x / POOL) * CHANNELS + c;
    return t->winner[window] == y % POOL * POOL + x % POOL ? (double)t->floats[0][window] : 0.0;
}

/* ---- loss ---- */

static clq_status build_cross_entropy(trial *t) {
    size_t batch = t->options->batch;
    CLQ_TRY(reads(t, 0, "logits", batch * CLASSES));
    t->counts[2] = batch * sizeof(int32_t);
    t->values[2] = clq_bench_lab_value(&t->lab, "labels", t->counts[2]);
    t->values[3] = clq_bench_lab_value(&t->lab, "metrics", 2 * sizeof(float));
    writes(t, 1, "gradient", batch * CLASSES);
    t->labels = clq_alloc(batch, sizeof *t->labels);
    if (!t->labels) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < batch; i++) t->labels[i] = (int32_t)(i * 7919 % CLASSES);
    static const clq_loss_problem problem = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                             .classes = CLASSES,
                                             .from_logits = true,
                                             .weight = 1,
                                             .metric_count = 1,
                                             .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    clq_loss_and_metrics(
        t->lab.list, &problem,
        &(clq_loss_values){.x = t->values[0], .targets = t->values[2], .dx = t->values[1], .metrics = t->values[3]});
    return CLQ_OK;
}

static double want_cross_entropy(const trial *t, size_t i) {
    double hit = (size_t)t->labels[i / CLASSES] == i % CLASSES ? 1 : 0;
    return (want_softmax(t, i) - hit) / (double)t->options->batch;
}

/* ---- update ---- */

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-7;

static clq_status build_adam(trial *t) {
    static const char *const names[SLOTS] = {"weights", "gradient", "first moment", "second moment"};
    size_t count = t->options->parameters;
    for (size_t slot = 0; slot < SLOTS; slot++) CLQ_TRY(reads(t, slot, names[slot], count));
    for (size_t i = 0; i < count; i++) t->floats[3][i] *= t->floats[3][i]; /* a mean of squares */
    t->bytes += 3.0 * (double)count * sizeof(float);                       /* all but the gradient are written too */
    const clq_update_arenas arenas = {
        .w = t->values[0], .g = t->values[1], .states = {t->values[2], t->values[3]}, .floats = count};
    clq_update(t->lab.list,
               &(clq_update_problem){.optimizer = {CLQ_OPTIMIZER_ADAM, {(double)rate, beta1, beta2, epsilon}}},
               &arenas);
    return CLQ_OK;
}

static double want_adam(const trial *t, size_t i) {
    double w = (double)t->floats[0][i], g = (double)t->floats[1][i], m = (double)t->floats[2][i];
    double v = (double)t->floats[3][i];
    m += (g - m) * (1 - beta1);
    v += (g * g - v) * (1 - beta2);
    return w - (double)rate * m / (sqrt(v) + epsilon);
}

/* ---- a trial ---- */

static const kind kinds[] = {
    {"relu", by_batch, build_relu, want_relu, 0},
    {"relu backward", by_batch, build_relu_backward, want_relu_backward, 0},
    {"tanh", by_batch, build_tanh, want_tanh, 1e-6},
    {"softmax", by_batch, build_softmax, want_softmax, 1e-9},
    {"max pool", by_batch, build_pool, want_pool, 0},
    {"max pool backward", by_batch, build_pool_backward, want_pool_backward, 0},
    {"cross-entropy", by_batch, build_cross_entropy, want_cross_entropy, 1e-9},
    {"adam", by_one, build_adam, want_adam, 1e-6},
};

static clq_status fill(trial *t) {
    for (size_t slot = 0; slot < SLOTS; slot++)
        if (t->floats[slot]) CLQ_TRY(clq_bench_lab_write(&t->lab, t->values[slot], t->floats[slot]));
    if (t->winner) CLQ_TRY(clq_bench_lab_write(&t->lab, t->values[2], t->winner));
    if (t->labels) CLQ_TRY(clq_bench_lab_write(&t->lab, t->values[2], t->labels));
    return CLQ_OK;
}

/* Fills the arrays again and runs once, because an update changes its inputs. */
static clq_status verify(trial *t, uint64_t *wrong) {
    float *got;
    clq_list *list = t->lab.list;
    CLQ_TRY(fill(t));
    CLQ_TRY(clq_list_run(list, t->lab.queue, 0, clq_list_launch_count(list)));
    CLQ_TRY(clq_bench_lab_read(&t->lab, t->values[t->result], &got));
    size_t places[CLQ_BENCH_SAMPLES], samples = clq_bench_sampled(t->counts[t->result], places);
    *wrong = 0;
    for (size_t i = 0; i < samples; i++) {
        double want = t->kind->want(t, places[i]), error = fabs((double)got[places[i]] - want);
        *wrong += !(error <= 1e-4 * fabs(want) + t->kind->absolute);
    }
    clq_free(got);
    return CLQ_OK;
}

static clq_status try_kind(const clq_bench_run *run, trial *t, clq_queue *queue, clq_bench_times *times,
                           uint64_t *wrong) {
    CLQ_TRY(clq_bench_lab_open(queue, t->kind->capacity(t->options), &t->lab));
    CLQ_TRY(t->kind->build(t));
    CLQ_TRY(clq_bench_lab_bind(&t->lab));
    clq_list_set_params(t->lab.list, &(clq_step_params){.count = clq_list_capacity(t->lab.list),
                                                        .scale = 1.0f / (float)t->options->batch,
                                                        .rate = rate});
    CLQ_TRY(fill(t));
    CLQ_TRY(clq_bench_lab_measure(run, &t->lab, times));
    return verify(t, wrong);
}

/* ---- rows ---- */

static clq_status add(clq_bench_run *run, uint32_t device, const trial *t, const clq_bench_times *times, uint64_t wrong,
                      double limit, const char *reason) {
    double gbps = t->bytes / times->p50_us * 1e-3;
    clq_bench_row row = clq_bench_row_of(run, device);
    clq_bench_put_text(&row, "op", t->kind->name);
    clq_bench_put_count(&row, "bytes", (uint64_t)t->bytes);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_number(&row, "gbps", gbps);
    clq_bench_put_limit(&row, "gbps", gbps, limit);
    clq_bench_put_wrong(&row, times, wrong);
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(run, &row);
}

static clq_status measure_kind(clq_bench_run *run, uint32_t device, clq_queue *queue, const kind *k) {
    trial t = {.kind = k, .options = run->context};
    clq_bench_times times = clq_bench_no_times;
    uint64_t wrong = 0;
    double limit = NAN;
    clq_status status = try_kind(run, &t, queue, &times, &wrong);
    if (status == CLQ_OK) status = clq_bench_stream(run, queue, (size_t)t.footprint, &limit);
    bool told = status == CLQ_OK || clq_bench_is_local(status);
    if (status != CLQ_OK) times = clq_bench_no_times;
    if (told) status = add(run, device, &t, &times, wrong, limit, status == CLQ_OK ? NULL : clq_error_detail());
    clq_bench_lab_release(&t.lab);
    for (size_t slot = 0; slot < SLOTS; slot++) clq_free(t.floats[slot]);
    clq_free(t.winner);
    clq_free(t.labels);
    return status;
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) CLQ_TRY(measure_kind(run, device, queue, &kinds[i]));
    return CLQ_OK;
}

static clq_status run_ops(clq_bench_run *run, void *context) {
    (void)context;
    run->expected = CLQ_COUNT_OF(kinds) * run->devices.count;
    return clq_bench_each_device(run, measure_device);
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    uint64_t *target = option->key == KEY_BATCH ? &o->batch : &o->parameters,
             most = option->key == KEY_BATCH ? 1 << 14 : 1 << 28;
    if (clq_parse_u64(text, 1, most, target)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--%s '%s': expected a whole number from 1 to %llu", option->name, text,
                    (unsigned long long)most);
}

clq_status clq_bench_ops(int argc, char **argv) {
    static const clq_argument table[] = {
        {"batch", KEY_BATCH, "N",
         .help = "examples: of 26x26x32 for activations and pooling, of 1000 classes (default 64)"},
        {"parameters", KEY_PARAMETERS, "N", .help = "floats that are updated (default 1000000)"},
        {0}};
    static const clq_bench_column columns[] = {{"label", "device", -12, 0},      {"op", "op", -17, 0},
                                               {"bytes", "bytes", 10, 0},        {"time_us.min", "us min", 10, 2},
                                               {"time_us.p50", "us p50", 10, 2}, {"time_us.p99", "us p99", 10, 2},
                                               {"gbps", "GB/s", 8, 2},           {"limit_gbps", "limit", 8, 2},
                                               {"pct_of_limit", "%", 5, 0},      {"wrong", "wrong", 6, 0},
                                               {"reason", "reason", -1, 0},      {0}};
    static const clq_bench_spec spec = {.name = "ops",
                                        .about = "Activations, pooling, loss and update: time and memory traffic.",
                                        .options = table,
                                        .set = set_option,
                                        .run = run_ops,
                                        .iterations = 20,
                                        .iterations_most = 1000000,
                                        .warm_ups = 2,
                                        .columns = columns};
    options o = {.batch = 64, .parameters = 1000000};
    return clq_bench_main(&spec, &o, argc, argv);
}
