/* clique bench train: images per second of complete training epochs on 1 to n of the selected devices.
 *
 * For each model and each number of replicas, it trains epochs to warm up (kernels build, caches fill), then -n timed
 * ones; the row has the median. The efficiency is relative to n times the rate of the first device alone, in the same
 * run. "of apart" compares the replicas with what each trains on its own at the same time. Both are measured in turns
 * of a twentieth of a second, so that disturbances of the machine affect both alike. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MODELS = CLQ_BENCH_KEY_OWN, KEY_BATCH, KEY_DATA, KEY_TUNE, KEY_DEADLINE, KEY_SHARES, RUNS_MAX = 64 };

typedef struct options {
    const char *models, *data, *shares;
    uint64_t batch;
    clq_tuning tuning;
    double deadline_s; /* 0: the library's default */
} options;

typedef struct epoch {
    double seconds;
    clq_comm_times comm;
} epoch;

typedef struct measured {
    const clq_bench_run *run;
    clq_trainer *trainer;
    epoch epochs[RUNS_MAX];
    unsigned count;
    size_t samples, batches;
    clq_comm_times before; /* the all-reduces' times up to the end of the last epoch */
    double of_apart;       /* median; 0: not measured */
} measured;

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    measured *m = context;
    clq_comm_times now = clq_trainer_comm_times(m->trainer);
    clq_comm_times comm = {.total_s = now.total_s - m->before.total_s,
                           .exposed_s = now.exposed_s - m->before.exposed_s};
    if (info->epoch >= m->run->warm_ups) m->epochs[m->count++] = (epoch){.seconds = info->train.seconds, .comm = comm};
    m->before = now;
    m->samples = info->train.samples;
    return CLQ_OK;
}

static int by_seconds(const void *left, const void *right) {
    double a = ((const epoch *)left)->seconds, b = ((const epoch *)right)->seconds;
    return (a > b) - (a < b);
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static clq_status compare_apart(measured *m, clq_dataset *data) {
    enum { TURNS_LEAST = 3, TURNS_MOST = 31, STEPS_LEAST = 8, STEPS_MOST = 1000 };
    const double turn_s = 0.05, all_s = 3.0;
    double shares[TURNS_MOST], step_s = m->epochs[m->count / 2].seconds / (double)m->batches, began = clq_now();
    uint64_t steps = (uint64_t)CLQ_MAX(CLQ_MIN(turn_s / step_s, (double)STEPS_MOST), (double)STEPS_LEAST);
    size_t count = 0;
    for (unsigned i = 0; i < TURNS_MOST && (i < TURNS_LEAST || clq_now() - began < all_s); i++) {
        CLQ_TRY(clq_trainer_compare_apart(m->trainer, data, steps, &shares[count]));
        if (shares[count] > 0.0) count++;
    }
    qsort(shares, count, sizeof shares[0], by_value);
    m->of_apart = count ? shares[count / 2] : 0.0;
    return CLQ_OK;
}

static clq_status measure(const clq_bench_run *run, const options *o, const clq_model *model,
                          const clq_devices *devices, clq_dataset *data, measured *out) {
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = o->batch;
    config.tuning = o->tuning;
    config.group.deadline_s = o->deadline_s;
    config.sample_dtype = clq_dataset_get_info(data)->sample_dtype;
    double weights[CLQ_REPLICAS_MAX];
    if (devices->count > 1) CLQ_TRY(clq_shares_parse(o->shares, weights, &config.strategy_options));
    *out = (measured){.run = run, .batches = clq_dataset_batches(data)};
    CLQ_TRY(clq_trainer_create(model, devices, &config, &out->trainer));
    clq_fit_config fit = {.epochs = run->warm_ups + run->iterations, .context = out, .on_epoch = note_epoch};
    clq_status status = clq_fit(out->trainer, data, &fit);
    if (status == CLQ_OK) qsort(out->epochs, out->count, sizeof out->epochs[0], by_seconds);
    if (status == CLQ_OK && devices->count > 1) status = compare_apart(out, data);
    clq_trainer_destroy(out->trainer);
    return status;
}

static clq_status measure_model(clq_bench_run *run, const options *o, const char *name, clq_dataset *data) {
    clq_model *model;
    CLQ_TRY(clq_bench_model_open(name, o->data, &model));
    clq_status status = clq_dataset_cut_for(data, o->data, model);
    double alone = 0.0;
    for (uint32_t n = 1; n <= run->devices.count && status == CLQ_OK; n++) {
        clq_devices some = run->devices;
        some.count = n;
        measured m;
        status = measure(run, o, model, &some, data, &m);
        if (status != CLQ_OK) break;
        const epoch *median = &m.epochs[m.count / 2];
        double samples = (double)m.samples, batches = (double)m.batches, rate = samples / median->seconds;
        /* The part of the all-reduce's time that overlapped with the backward pass. */
        double hidden = median->comm.total_s - median->comm.exposed_s,
               overlap = hidden > 0 ? hidden / median->comm.total_s : 0.0;
        if (n == 1) alone = rate;
        clq_bench_row row = clq_bench_row_start();
        clq_bench_put_text(&row, "model", clq_bench_model_name(name));
        clq_bench_put_count(&row, "replicas", n);
        clq_bench_put_count(&row, "batch", o->batch);
        if (strcmp(o->shares, "equal") != 0) clq_bench_put_text(&row, "shares", o->shares);
        clq_bench_put_number(&row, "images_per_s", rate);
        clq_bench_put_number(&row, "images_per_s_least", samples / m.epochs[m.count - 1].seconds);
        clq_bench_put_number(&row, "images_per_s_most", samples / m.epochs[0].seconds);
        clq_bench_put_number(&row, "step_ms", median->seconds / batches * 1e3);
        clq_bench_put_number(&row, "comm_ms", median->comm.total_s / batches * 1e3);
        clq_bench_put_number(&row, "overlap", overlap);
        clq_bench_put_number(&row, "efficiency", rate / (alone * n));
        if (m.of_apart > 0.0)
            clq_bench_put_number(&row, "of_apart", m.of_apart);
        else
            clq_bench_put(&row, "of_apart", json_null());
        status = clq_bench_add(run, &row);
    }
    clq_model_destroy(model);
    return status;
}

static clq_status check(const void *context) {
    const options *o = context;
    return clq_bench_models_check(o->models, o->data);
}

static clq_status run_train(clq_bench_run *run, void *context) {
    const options *o = context;
    clq_dataset *data = NULL;
    clq_status status;
    char name[CLQ_BENCH_MODEL_BYTES];
    run->expected = clq_bench_models_count(o->models) * run->devices.count;
    CLQ_TRY(clq_dataset_open(o->data, "train", &data));
    CLQ_TRY_OR(end, status, clq_dataset_shuffle(data, SIZE_MAX, 0));
    CLQ_TRY_OR(end, status, clq_dataset_batch(data, o->batch, false));
    CLQ_TRY_OR(end, status, clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));
    for (const char *at = o->models; *at && clq_bench_next_model(&at, name);)
        CLQ_TRY_OR(end, status, measure_model(run, o, name, data));
end:
    clq_dataset_destroy(data);
    return status;
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    switch (option->key) {
    case KEY_MODELS: o->models = text; return CLQ_OK;
    case KEY_DATA: o->data = text; return CLQ_OK;
    case KEY_SHARES: o->shares = text; return CLQ_OK;
    case KEY_TUNE: return clq_tuning_parse(text, &o->tuning);
    case KEY_DEADLINE: return clq_argument_seconds(option, text, &o->deadline_s);
    default:
        if (clq_parse_u64(text, 1, 1u << 24, &o->batch)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--batch '%s': expected a whole number of at least 1", text);
    }
}

clq_status clq_bench_train(int argc, char **argv) {
    static const clq_argument table[] = {
        {"models", KEY_MODELS, "A,B", .help = "by name, with options, or Keras's .json files (default mlp,cnn)"},
        {"batch", KEY_BATCH, "N", .help = "global batch (default 64)"},
        {"data", KEY_DATA, "NAME|DIR", .help = "default fashion-mnist"},
        {"shares", KEY_SHARES, "equal|auto", .help = "as clique train's (default equal)"},
        {"tune", KEY_TUNE, "off|quick|full", .help = "as clique train's (default off)"},
        {"deadline", KEY_DEADLINE, "SECONDS", .help = "as clique train's (default 600)"},
        {0}};
    static const clq_bench_column columns[] = {{"model", "model", -10, 0},
                                               {"replicas", "replicas", 8, 0},
                                               {"batch", "batch", 7, 0},
                                               {"images_per_s", "images/s", 10, 0},
                                               {"step_ms", "step ms", 9, 4},
                                               {"comm_ms", "comm ms", 9, 4},
                                               {"efficiency", "efficiency", 10, 2},
                                               {"of_apart", "of apart", 8, 2},
                                               {"images_per_s_least", "least", 10, 0},
                                               {"images_per_s_most", "most", 10, 0},
                                               {0}};
    static const clq_bench_spec spec = {.name = "train",
                                        .about = "Training speed on 1 to n of the selected devices.",
                                        .options = table,
                                        .set = set_option,
                                        .check = check,
                                        .run = run_train,
                                        .iterations = 3,
                                        .iterations_most = RUNS_MAX,
                                        .warm_ups = 1,
                                        .iterations_help = "timed epochs; the median is reported",
                                        .warm_ups_help = "epochs before them, which count for nothing",
                                        .columns = columns};
    options o = {.models = "mlp,cnn", .data = "fashion-mnist", .shares = "equal", .batch = 64};
    return clq_bench_main(&spec, &o, argc, argv);
}
