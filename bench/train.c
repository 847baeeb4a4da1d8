/* clique bench train: images per second of whole training epochs on 1 to n of the selected devices.
 *
 * For each model and each number of replicas: epochs to warm up (kernels build, caches fill), then `runs` timed ones;
 * the median is the row. Efficiency is against n times the rate of the first device alone, in the same run. */
#include "bench.h"

#include "cli/arguments.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_DEVICES = 256, KEY_MODELS, KEY_BATCH, KEY_DATA, KEY_JSON, KEY_CSV, RUNS_MAX = 64 };

typedef struct epoch {
    double seconds;
    clq_comm_times comm;
} epoch;

typedef struct measured {
    const clq_bench_options *options;
    clq_trainer *trainer;
    epoch epochs[RUNS_MAX];
    unsigned count;
    size_t samples, batches;
    clq_comm_times before; /* the all-reduces until the last epoch's end */
} measured;

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    measured *m = context;
    clq_comm_times now = clq_trainer_comm_times(m->trainer);
    clq_comm_times comm = {now.total_s - m->before.total_s, now.exposed_s - m->before.exposed_s};
    if (info->epoch >= m->options->warm_ups)
        m->epochs[m->count++] = (epoch){.seconds = info->train.seconds, .comm = comm};
    m->before = now;
    m->samples = info->train.samples;
    return CLQ_OK;
}

static int by_seconds(const void *left, const void *right) {
    double a = ((const epoch *)left)->seconds, b = ((const epoch *)right)->seconds;
    return (a > b) - (a < b);
}

static clq_status measure(const clq_bench_options *o, const clq_model *model, const clq_devices *devices,
                          clq_dataset *data, measured *out) {
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = o->batch;
    config.sample_dtype = clq_dataset_get_info(data)->sample_dtype;
    *out = (measured){.options = o, .batches = clq_dataset_batches(data)};
    CLQ_TRY(clq_trainer_create(model, devices, &config, &out->trainer));
    clq_fit_config fit = {.epochs = o->warm_ups + o->runs, .context = out, .on_epoch = note_epoch};
    clq_status status = clq_fit(out->trainer, data, &fit);
    clq_trainer_destroy(out->trainer);
    if (status == CLQ_OK) qsort(out->epochs, out->count, sizeof out->epochs[0], by_seconds);
    return status;
}

static clq_status measure_model(const clq_bench_options *o, const char *name, const clq_devices *devices,
                                clq_dataset *data, clq_bench_result *result) {
    clq_model *model;
    CLQ_TRY(clq_model_builtin(name, &model));
    clq_status status = CLQ_OK;
    double alone = 0.0;
    for (uint32_t n = 1; n <= devices->count && status == CLQ_OK; n++) {
        clq_devices some = *devices;
        some.count = n;
        measured m;
        status = measure(o, model, &some, data, &m);
        if (status != CLQ_OK) break;
        const epoch *median = &m.epochs[m.count / 2];
        double samples = (double)m.samples, batches = (double)m.batches, rate = samples / median->seconds;
        double step_ms = median->seconds / batches * 1e3, comm_ms = median->comm.total_s / batches * 1e3;
        double least = samples / m.epochs[m.count - 1].seconds, most = samples / m.epochs[0].seconds;
        /* The part of the all-reduce that hid behind backward. */
        double hidden = median->comm.total_s - median->comm.exposed_s,
               overlap = hidden > 0 ? hidden / median->comm.total_s : 0.0;
        if (n == 1) alone = rate;
        double efficiency = rate / (alone * n);
        printf("%-10s %8u %7zu %12.0f %10.4f %10.4f %10.2f   %.0f to %.0f\n", name, n, (size_t)o->batch, rate, step_ms,
               comm_ms, efficiency, least, most);
        fflush(stdout);
        status = clq_bench_result_add(result, json_pack("{s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "model",
                                                        name, "replicas", (int)n, "batch", (json_int_t)o->batch,
                                                        "images_per_s", rate, "images_per_s_least", least,
                                                        "images_per_s_most", most, "step_ms", step_ms, "comm_ms",
                                                        comm_ms, "overlap", overlap, "efficiency", efficiency));
    }
    clq_model_destroy(model);
    return status;
}

static clq_status for_each_model(const clq_bench_options *o, const clq_devices *devices, clq_dataset *data,
                                 clq_bench_result *result) {
    char name[32];
    for (const char *at = o->models; *at;) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof name)
            return clq_fail(CLQ_ARGUMENT, "--models '%s': expected names with commas between", o->models);
        memcpy(name, at, length);
        name[length] = '\0';
        CLQ_TRY(measure_model(o, name, devices, data, result));
        at += length + (at[length] == ',');
    }
    return CLQ_OK;
}

static clq_status run(const clq_bench_options *o, int argc, char **argv, clq_system *system) {
    clq_devices devices;
    clq_dataset *data = NULL;
    clq_bench_result result = {0};
    clq_status status;
    CLQ_TRY(clq_devices_select(system, o->devices, &devices));
    CLQ_TRY(clq_dataset_open(o->data, "train", &data));
    CLQ_TRY_OR(end, status, clq_dataset_shuffle(data, clq_dataset_get_info(data)->samples, 0));
    CLQ_TRY_OR(end, status, clq_dataset_batch(data, o->batch, false));
    CLQ_TRY_OR(end, status, clq_dataset_prefetch(data, CLQ_AUTO));
    CLQ_TRY_OR(end, status, clq_bench_result_start("train", argc, argv, &devices, &result));
    printf("%-10s %8s %7s %12s %10s %10s %10s   %s\n", "model", "replicas", "batch", "images/s", "step ms", "comm ms",
           "efficiency", "spread");
    CLQ_TRY_OR(end, status, for_each_model(o, &devices, data, &result));
    status = clq_bench_result_write(&result, o->json, o->csv);
end:
    clq_bench_result_release(&result);
    clq_dataset_destroy(data);
    return status;
}

static clq_status set_option(void *context, const struct argp_option *option, const char *text) {
    clq_bench_options *o = context;
    switch (option->key) {
    case KEY_DEVICES: o->devices = text; return CLQ_OK;
    case KEY_MODELS: o->models = text; return CLQ_OK;
    case KEY_DATA: o->data = text; return CLQ_OK;
    case KEY_JSON: o->json = text; return CLQ_OK;
    case KEY_CSV: o->csv = text; return CLQ_OK;
    case KEY_BATCH:
        if (clq_parse_u64(text, 1, 1u << 24, &o->batch)) return CLQ_OK;
        return clq_fail(CLQ_ARGUMENT, "--batch '%s': expected a whole number of at least 1", text);
    case 'w':
        if (clq_parse_u64(text, 0, 1000, &o->warm_ups)) return CLQ_OK;
        return clq_fail(CLQ_ARGUMENT, "-w '%s': expected a whole number from 0 to 1000", text);
    default:
        if (clq_parse_u64(text, 1, RUNS_MAX, &o->runs)) return CLQ_OK;
        return clq_fail(CLQ_ARGUMENT, "-n '%s': expected a whole number from 1 to %d", text, RUNS_MAX);
    }
}

clq_status clq_bench_train(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"devices", KEY_DEVICES, "SPEC", 0, "as clique train (default auto)", 0},
        {"models", KEY_MODELS, "A,B", 0, "built-in models (default mlp,cnn)", 0},
        {"batch", KEY_BATCH, "N", 0, "global batch (default 64)", 0},
        {"data", KEY_DATA, "NAME|DIR", 0, "default fashion-mnist", 0},
        {"json", KEY_JSON, "FILE", 0, "the result as JSON", 0},
        {"csv", KEY_CSV, "FILE", 0, "the rows as CSV", 0},
        {0, 'n', "RUNS", 0, "timed epochs (default 3); the median is told", 0},
        {0, 'w', "EPOCHS", 0, "epochs before them, which count for nothing (default 1)", 0},
        {0}};
    clq_bench_options options = {
        .devices = "auto", .models = "mlp,cnn", .data = "fashion-mnist", .batch = 64, .warm_ups = 1, .runs = 3};
    CLQ_TRY(clq_arguments_parse("clique bench train", "Training speed on 1 to n of the selected devices.", table, argc,
                                argv, set_option, &options));
    clq_system *system;
    CLQ_TRY(clq_system_open(NULL, &system));
    clq_status status = run(&options, argc, argv, system);
    clq_system_close(system);
    return status;
}
