/* clique bench step: where a training step's time goes, launch by launch, and how far each launch is from what the
 * device could do.
 *
 * A launch is compared with the longer of two times: for its arithmetic, at the rate of a kernel that only multiplies
 * and adds in registers; and for its traffic, at the rate of a kernel that only copies or changes in place as much
 * memory (limits.c). Both rates are measured in the same run. stepper.c says how launches are timed. */
#include "lab.h"
#include "stepper.h"

#include <math.h>
#include <string.h>

enum { KEY_MODELS = CLQ_BENCH_KEY_OWN, KEY_BATCH, KEY_TIMING, KEY_TUNE };

typedef struct options {
    const char *models;
    uint64_t batch;
    bool timing_given;
    clq_bench_timing timing;
    clq_tuning tuning;
    size_t pairs_done; /* pairs of a device and a model that are done */
} options;

static const char *const timing_names[] = {[CLQ_BENCH_BY_PROFILE] = "profile", [CLQ_BENCH_ALONE] = "alone"};

/* ---- limits ---- */

/* The rate of traffic is measured for 2^SIZE_LEAST bytes and each further power of two, up to what a model needs. */
enum { SIZE_LEAST = 16, SIZE_MOST = 28 };

typedef struct limits {
    double gflops, gbps[SIZE_MOST - SIZE_LEAST + 1];
    unsigned sizes; /* sizes that are measured so far */
} limits;

/* The largest measured size that is not above `bytes`, as an index. */
static unsigned size_of(double bytes) {
    unsigned size = 0;
    while (size < SIZE_MOST - SIZE_LEAST && ldexp(1, (int)size + SIZE_LEAST + 1) <= bytes) size++;
    return size;
}

static clq_status measure_limits(const clq_bench_run *run, clq_queue *queue, const clq_list *list, limits *l) {
    unsigned most = 0;
    for (size_t i = 0; i < clq_list_launch_count(list); i++) {
        clq_launch_info info;
        clq_list_launch_info(list, i, &info);
        most = CLQ_MAX(most, size_of(info.bytes));
    }
    for (; l->sizes <= most; l->sizes++)
        CLQ_TRY(clq_bench_stream(run, queue, (size_t)1 << (l->sizes + SIZE_LEAST), &l->gbps[l->sizes]));
    double gflops;
    CLQ_TRY(clq_bench_peak(queue, &gflops));
    l->gflops = fmax(l->gflops, gflops); /* the best so far: other programs only lower the rate */
    return CLQ_OK;
}

/* The best rate of this size and all larger ones. A device moves few bytes as fast as many, but the cost of launches
 * lowers the rates that are measured for small sizes. */
static double traffic_limit(const limits *l, double bytes) {
    double best = NAN;
    for (unsigned size = size_of(bytes); size < l->sizes; size++) best = fmax(best, l->gbps[size]);
    return best;
}

typedef struct bound {
    double us; /* the least time; NaN: not known */
    const char *what;
} bound;

static bound bound_of(const limits *l, const clq_launch_info *info) {
    double arithmetic = info->flops / l->gflops * 1e-3, memory = info->bytes / traffic_limit(l, info->bytes) * 1e-3;
    if (isnan(arithmetic) || isnan(memory) || (arithmetic == 0 && memory == 0)) return (bound){NAN, NULL};
    return arithmetic > memory ? (bound){arithmetic, "arithmetic"} : (bound){memory, "memory"};
}

/* ---- rows ---- */

/* A row's figures: of one launch, or of the whole step, which then has `launches` launches. */
typedef struct figures {
    const char *segment, *layer, *launch;
    clq_bench_times times;
    double share, flops, bytes;
    bound bound;
    clq_bench_times wall; /* the step's, by the host's clock; NaN for a launch */
    uint64_t launches;
} figures;

typedef struct subject {
    clq_bench_run *run;
    uint32_t device;
    const char *model; /* its name in rows */
    const char *timing;
} subject;

static void put_text_or_null(clq_bench_row *row, const char *key, const char *text) {
    clq_bench_put(row, key, text ? clq_json_text(text) : json_null());
}

static clq_status add(const subject *s, const figures *f, const char *reason) {
    const options *o = s->run->context;
    clq_bench_row row = clq_bench_row_of(s->run, s->device);
    clq_bench_put_text(&row, "model", s->model);
    clq_bench_put_count(&row, "batch", o->batch);
    clq_bench_put_text(&row, "segment", f->segment);
    clq_bench_put_text(&row, "layer", f->layer);
    clq_bench_put_text(&row, "launch", f->launch);
    put_text_or_null(&row, "timing", s->timing);
    clq_bench_put_number(&row, "us", f->times.p50_us);
    clq_bench_put_number(&row, "us_least", f->times.min_us);
    clq_bench_put_number(&row, "us_most", f->times.p99_us);
    clq_bench_put_number(&row, "share", f->share);
    clq_bench_put_number(&row, "gflops", f->flops / f->times.p50_us * 1e-3);
    clq_bench_put_number(&row, "gbps", f->bytes / f->times.p50_us * 1e-3);
    put_text_or_null(&row, "limit", f->bound.what);
    clq_bench_put_number(&row, "pct_of_limit", 100 * f->bound.us / f->times.p50_us);
    clq_bench_put_number(&row, "pct_of_limit_most", 100 * f->bound.us / f->times.min_us);
    clq_bench_put_number(&row, "wall_us", f->wall.p50_us);
    clq_bench_put_number(&row, "wall_us_least", f->wall.min_us);
    clq_bench_put(&row, "launches", f->launches ? json_integer((json_int_t)f->launches) : json_null());
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(s->run, &row);
}

/* Names a launch. A number distinguishes launches with the same name in one layer and segment. The caller frees the
 * name. */
static char *name_of(const clq_list *list, size_t first, size_t launch) {
    clq_launch_info info, other;
    unsigned number = 1;
    clq_list_launch_info(list, launch, &info);
    for (size_t i = first; i < launch; i++) {
        clq_list_launch_info(list, i, &other);
        number += strcmp(other.scope, info.scope) == 0 && strcmp(other.label, info.label) == 0;
    }
    return number > 1 ? clq_strprintf("%s %u", info.label, number) : clq_strdup(info.label);
}

static clq_status add_launch(const subject *s, const clq_bench_stepper *stepper, clq_segment segment, size_t first,
                             size_t launch, const figures *base) {
    const clq_list *list = clq_plan_list(stepper->plan);
    clq_launch_info info;
    clq_list_launch_info(list, launch, &info);
    char *name = name_of(list, first, launch);
    if (!name) return CLQ_ERROR_MEMORY;
    figures f = *base;
    f.segment = clq_segment_name(segment);
    f.layer = info.scope;
    f.launch = name;
    clq_status status = add(s, &f, NULL);
    clq_free(name);
    return status;
}

static clq_status add_rows(const subject *s, const clq_bench_stepper *stepper, const limits *l,
                           const clq_bench_step_times *times) {
    const clq_list *list = clq_plan_list(stepper->plan);
    figures whole = {.segment = "step", .layer = "all", .launch = "all", .share = 1, .wall = times->step};
    for (size_t i = 0; i < stepper->launches; i++) {
        whole.times.p50_us += times->launches[i].p50_us;
        whole.times.min_us += times->launches[i].min_us;
        whole.times.p99_us += times->launches[i].p99_us;
    }
    for (int segment = 0; segment < CLQ_SEGMENT_COUNT; segment++) {
        size_t first, end;
        clq_plan_segment_range(stepper->plan, (clq_segment)segment, &first, &end);
        for (size_t i = first; i < end; i++) {
            clq_launch_info info;
            clq_list_launch_info(list, i, &info);
            const figures f = {.times = times->launches[i],
                               .share = times->launches[i].p50_us / whole.times.p50_us,
                               .flops = info.flops,
                               .bytes = info.bytes,
                               .bound = bound_of(l, &info),
                               .wall = clq_bench_no_times};
            whole.flops += f.flops;
            whole.bytes += f.bytes;
            whole.bound.us += isnan(f.bound.us) ? 0 : f.bound.us;
            whole.launches++;
            CLQ_TRY(add_launch(s, stepper, (clq_segment)segment, first, i, &f));
        }
    }
    return add(s, &whole, NULL);
}

/* ---- measuring ---- */

/* Updates the number of rows that the run will have: those that there are, and for each pair that is left, this one
 * included, as many as this one has. */
static void expect(clq_bench_run *run, size_t launches) {
    const options *o = run->context;
    size_t left = clq_bench_models_count(o->models) * run->devices.count - o->pairs_done;
    run->expected = json_array_size(run->rows) + left * (launches + 1);
}

/* A big model's step takes seconds. So without -n, or -w, the default is reduced to as many steps as take SECONDS
 * seconds, but at least to STEPS_LEAST, enough for a median. */
enum { SECONDS = 10, STEPS_LEAST = 8 };

typedef struct counts {
    uint64_t warm_ups, steps;
} counts;

static clq_status count_steps(const clq_bench_run *run, clq_bench_stepper *stepper, clq_queue *queue, counts *out) {
    *out = (counts){run->warm_ups, run->iterations};
    if (run->iterations_given && run->warm_ups_given) return CLQ_OK;
    CLQ_TRY(clq_bench_stepper_run(stepper, queue, 1)); /* the first step takes longer */
    const double start = clq_now();
    CLQ_TRY(clq_bench_stepper_run(stepper, queue, 1));
    const double fit = fmax(SECONDS / fmax(clq_now() - start, 1e-6), STEPS_LEAST);
    if (!run->iterations_given) out->steps = (uint64_t)fmin((double)run->iterations, fit);
    if (!run->warm_ups_given) out->warm_ups = (uint64_t)fmin((double)run->warm_ups, fit);
    return CLQ_OK;
}

static clq_status measure(subject *s, clq_bench_stepper *stepper, clq_queue *queue, const clq_model *model, limits *l) {
    const options *o = s->run->context;
    clq_bench_step_times times;
    counts n;
    CLQ_TRY(clq_bench_stepper_open(clq_queue_device(queue), model, o->batch, o->tuning, stepper));
    CLQ_TRY(measure_limits(s->run, queue, clq_plan_list(stepper->plan), l));
    CLQ_TRY(count_steps(s->run, stepper, queue, &n));
    CLQ_TRY(clq_bench_stepper_time(stepper, queue, n.warm_ups, n.steps, o->timing_given ? &o->timing : NULL, &times));
    s->timing = timing_names[times.timing];
    expect(s->run, stepper->launches);
    clq_status status = add_rows(s, stepper, l, &times);
    clq_free(times.launches);
    return status;
}

static clq_status measure_model(clq_bench_run *run, uint32_t device, clq_queue *queue, const char *name, limits *l) {
    options *o = run->context;
    subject s = {.run = run, .device = device, .model = clq_bench_model_name(name)};
    clq_bench_stepper stepper = {0};
    clq_model *model;
    CLQ_TRY(clq_bench_model_open(name, NULL, &model));
    clq_status status = measure(&s, &stepper, queue, model, l);
    clq_bench_stepper_release(&stepper);
    clq_model_destroy(model);
    if (clq_bench_is_local(status)) {
        const figures none = {.segment = "step",
                              .layer = "all",
                              .launch = "all",
                              .times = clq_bench_no_times,
                              .share = NAN,
                              .bound = {NAN, NULL},
                              .wall = clq_bench_no_times};
        expect(run, 0);
        status = add(&s, &none, clq_error_detail());
    }
    o->pairs_done++;
    return status;
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    const options *o = run->context;
    limits l = {.gflops = NAN};
    char name[CLQ_BENCH_MODEL_BYTES];
    for (const char *at = o->models; *at && clq_bench_next_model(&at, name);)
        CLQ_TRY(measure_model(run, device, queue, name, &l));
    return CLQ_OK;
}

static clq_status run_step(clq_bench_run *run, void *context) {
    (void)context;
    return clq_bench_each_device(run, measure_device);
}

/* ---- options ---- */

static clq_status check(const void *context) {
    return clq_bench_models_check(((const options *)context)->models, NULL);
}

static clq_status set_timing(options *o, const char *text) {
    static const char *const words[] = {[CLQ_BENCH_BY_PROFILE] = "profile", [CLQ_BENCH_ALONE] = "alone", "auto", NULL};
    size_t kind;
    CLQ_TRY(clq_find_word("--timing", text, words, &kind));
    o->timing_given = strcmp(words[kind], "auto") != 0;
    if (o->timing_given) o->timing = (clq_bench_timing)kind;
    return CLQ_OK;
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    switch (option->key) {
    case KEY_MODELS: o->models = text; return CLQ_OK;
    case KEY_TIMING: return set_timing(o, text);
    case KEY_TUNE: return clq_tuning_parse(text, &o->tuning);
    default:
        if (clq_parse_u64(text, 1, 1 << 20, &o->batch)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--batch '%s': expected a whole number from 1 to %d", text, 1 << 20);
    }
}

clq_status clq_bench_step(int argc, char **argv) {
    static const clq_argument table[] = {
        {"models", KEY_MODELS, "A,B", .help = "by name, with options, or Keras's .json files (default mlp,cnn)"},
        {"batch", KEY_BATCH, "N", .help = "samples of a step (default 64)"},
        {"timing", KEY_TIMING, "auto|profile|alone",
         .help = "of launches: as the driver records them, or each waited for by itself (default auto: the record, "
                 "where it "
                 "agrees with the clock)"},
        {"tune", KEY_TUNE, "off|quick|full", .help = "as clique train's (default off)"},
        {0}};
    static const clq_bench_column columns[] = {{"label", "device", -8, 0},
                                               {"model", "model", -11, 0},
                                               {"segment", "segment", -8, 0},
                                               {"layer", "layer", -16, 0},
                                               {"launch", "launch", -16, 0},
                                               {"us", "us", 9, 1},
                                               {"us_least", "least", 9, 1},
                                               {"share", "share", 5, 3},
                                               {"gflops", "GFLOP/s", 7, 1},
                                               {"gbps", "GB/s", 6, 1},
                                               {"limit", "limit", -10, 0},
                                               {"pct_of_limit", "%", 4, 0},
                                               {"pct_of_limit_most", "best", 4, 0},
                                               {"wall_us", "wall us", 9, 1},
                                               {"wall_us_least", "least", 9, 1},
                                               {"launches", "launches", 8, 0},
                                               {"timing", "timing", -7, 0},
                                               {"reason", "reason", -1, 0},
                                               {0}};
    static const clq_bench_spec spec = {.name = "step",
                                        .about = "Where a training step's time goes on each device, launch by launch.",
                                        .options = table,
                                        .set = set_option,
                                        .check = check,
                                        .run = run_step,
                                        .iterations = 200,
                                        .iterations_most = 10000,
                                        .iterations_help =
                                            "steps, recorded, and as many that are not; fewer of big models",
                                        .warm_ups = 20,
                                        .warm_ups_help = "steps before them that count for nothing",
                                        .columns = columns};
    options o = {.models = "mlp,cnn", .batch = 64};
    return clq_bench_main(&spec, &o, argc, argv);
}
