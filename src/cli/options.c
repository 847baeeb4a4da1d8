/* The options that commands share. */
#include "cli/cli.h"

#include <stdio.h>

void clq_options_start(clq_options *options) {
    *options = (clq_options){.model = "cnn",
                             .data = "fashion-mnist",
                             .devices = "auto",
                             .optimizer = "adam",
                             .schedule = "constant",
                             .strategy = "auto",
                             .cross_device_ops = "auto",
                             .progress = "auto",
                             .tune = "off",
                             .matmul_precision = "highest",
                             .epochs = 0,
                             .seed = 0};
}

static clq_status set_number(const struct argp_option *option, const char *text, uint64_t min, uint64_t max,
                             uint64_t *out) {
    if (clq_parse_u64(text, min, max, out)) return CLQ_OK;
    if (max == UINT64_MAX)
        return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number of at least %llu", option->name, text,
                        (unsigned long long)min);
    return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number from %llu to %llu", option->name, text,
                    (unsigned long long)min, (unsigned long long)max);
}

static clq_status set_option(void *context, const struct argp_option *option, const char *text) {
    clq_options *o = context;
    switch (option->key) {
    case CLQ_KEY_MODEL: o->model = text; return CLQ_OK;
    case CLQ_KEY_DATA: o->data = text; return CLQ_OK;
    case CLQ_KEY_DEVICES: o->devices = text; return CLQ_OK;
    case CLQ_KEY_OPTIMIZER: o->optimizer = text; return CLQ_OK;
    case CLQ_KEY_LOSS: return clq_by_output_add(&o->losses, option->name, text);
    case CLQ_KEY_LOSS_WEIGHT: return clq_by_output_add(&o->loss_weights, option->name, text);
    case CLQ_KEY_SCHEDULE: o->schedule = text; return CLQ_OK;
    case CLQ_KEY_METRICS: return clq_by_output_add(&o->metrics, option->name, text);
    case CLQ_KEY_STRATEGY: o->strategy = text; return CLQ_OK;
    case CLQ_KEY_CROSS_DEVICE_OPS: o->cross_device_ops = text; return CLQ_OK;
    case CLQ_KEY_INIT: o->init = text; return CLQ_OK;
    case CLQ_KEY_WEIGHTS: o->weights = text; return CLQ_OK;
    case CLQ_KEY_SAVE: o->save = text; return CLQ_OK;
    case CLQ_KEY_LOG: o->log = text; return CLQ_OK;
    case CLQ_KEY_TRACE: o->trace = text; return CLQ_OK;
    case CLQ_KEY_OUT: o->out = text; return CLQ_OK;
    case CLQ_KEY_PROGRESS: o->progress = text; return CLQ_OK;
    case CLQ_KEY_SHUFFLE: o->shuffle = text; return CLQ_OK;
    case CLQ_KEY_BATCH: return set_number(option, text, 1, 1u << 24, &o->batch);
    case CLQ_KEY_BATCH_PER_REPLICA: return set_number(option, text, 1, 1u << 24, &o->batch_per_replica);
    case CLQ_KEY_BUCKET_BYTES: return set_number(option, text, 1, SIZE_MAX, &o->bucket_bytes);
    case CLQ_KEY_EPOCHS: return set_number(option, text, 1, 1000000000, &o->epochs);
    case CLQ_KEY_STEPS: return set_number(option, text, 1, 1000000000000, &o->steps);
    case CLQ_KEY_SEED: return set_number(option, text, 0, UINT64_MAX, &o->seed);
    case CLQ_KEY_TAKE: return set_number(option, text, 1, UINT64_MAX, &o->take);
    case CLQ_KEY_DROP_REMAINDER: o->drop_remainder = true; return CLQ_OK;
    case CLQ_KEY_NO_TEST: o->no_test = true; return CLQ_OK;
    case CLQ_KEY_JSON: o->json = true; return CLQ_OK;
    case CLQ_KEY_GRAPH: o->graph = true; return CLQ_OK;
    case CLQ_KEY_TUNE: o->tune = text; return CLQ_OK;
    case CLQ_KEY_MATMUL_PRECISION: o->matmul_precision = text; return CLQ_OK;
    case CLQ_KEY_BUDGET: return clq_argument_seconds(option, text, &o->budget);
    case CLQ_KEY_DEADLINE: return clq_argument_seconds(option, text, &o->deadline);
    default: return clq_fail(CLQ_ARGUMENT, "--%s is not built", option->name);
    }
}

clq_status clq_options_parse(const struct argp_option *table, const char *about, int argc, char **argv,
                             clq_options *options) {
    char program[64];
    snprintf(program, sizeof program, "clique %s", argv[0]);
    return clq_arguments_parse(program, about, table, argc, argv, set_option, options);
}
