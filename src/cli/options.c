/* Options by argp, with errors in the library's own form. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

void clq_options_start(clq_options *options) {
    *options = (clq_options){.model = "cnn", .data = "fashion-mnist", .devices = "auto", .optimizer = "adam",
                             .loss = "sparse_categorical_crossentropy", .strategy = "auto", .cross_device_ops = "auto",
                             .progress = "auto", .epochs = 0, .seed = 0};
}

typedef struct parsing {
    clq_options *options;
    const struct argp_option *table;
    clq_status status;
} parsing;

static const char *name_of(const parsing *state, int key) {
    for (const struct argp_option *option = state->table; option->name; option++)
        if (option->key == key) return option->name;
    return "?";
}

static error_t set_number(parsing *state, int key, const char *text, uint64_t min, uint64_t max, uint64_t *out) {
    if (clq_parse_u64(text, min, max, out)) return 0;
    if (max == UINT64_MAX)
        state->status = clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number of at least %llu", name_of(state, key), text, (unsigned long long)min);
    else
        state->status = clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number from %llu to %llu", name_of(state, key), text,
                                 (unsigned long long)min, (unsigned long long)max);
    return EINVAL;
}

static error_t parse_option(int key, char *text, struct argp_state *argp) {
    parsing *state = argp->input;
    clq_options *o = state->options;
    switch (key) {
    case CLQ_KEY_MODEL: o->model = text; return 0;
    case CLQ_KEY_DATA: o->data = text; return 0;
    case CLQ_KEY_DEVICES: o->devices = text; return 0;
    case CLQ_KEY_OPTIMIZER: o->optimizer = text; return 0;
    case CLQ_KEY_LOSS: o->loss = text; return 0;
    case CLQ_KEY_STRATEGY: o->strategy = text; return 0;
    case CLQ_KEY_CROSS_DEVICE_OPS: o->cross_device_ops = text; return 0;
    case CLQ_KEY_INIT: o->init = text; return 0;
    case CLQ_KEY_WEIGHTS: o->weights = text; return 0;
    case CLQ_KEY_SAVE: o->save = text; return 0;
    case CLQ_KEY_LOG: o->log = text; return 0;
    case CLQ_KEY_OUT: o->out = text; return 0;
    case CLQ_KEY_PROGRESS: o->progress = text; return 0;
    case CLQ_KEY_SHUFFLE: o->shuffle = text; return 0;
    case CLQ_KEY_BATCH: return set_number(state, key, text, 1, 1u << 24, &o->batch);
    case CLQ_KEY_BATCH_PER_REPLICA: return set_number(state, key, text, 1, 1u << 24, &o->batch_per_replica);
    case CLQ_KEY_EPOCHS: return set_number(state, key, text, 1, 1000000000, &o->epochs);
    case CLQ_KEY_STEPS: return set_number(state, key, text, 1, 1000000000000, &o->steps);
    case CLQ_KEY_SEED: return set_number(state, key, text, 0, UINT64_MAX, &o->seed);
    case CLQ_KEY_TAKE: return set_number(state, key, text, 1, UINT64_MAX, &o->take);
    case CLQ_KEY_DROP_REMAINDER: o->drop_remainder = true; return 0;
    case CLQ_KEY_NO_TEST: o->no_test = true; return 0;
    case CLQ_KEY_JSON: o->json = true; return 0;
    case ARGP_KEY_ARG:
        state->status = clq_fail(CLQ_ARGUMENT, "unexpected argument '%s': every input is an option (--help lists them)", text);
        return EINVAL;
    default: return ARGP_ERR_UNKNOWN;
    }
}

clq_status clq_options_parse(const struct argp_option *table, const char *about, int argc, char **argv, clq_options *options) {
    char name[64];
    snprintf(name, sizeof name, "clique %s", argv[0]);
    argv[0] = name; /* argp shows it in --help */
    parsing state = {.options = options, .table = table};
    const struct argp argp = {.options = table, .parser = parse_option, .doc = about};
    int end = 0;
    if (argp_parse(&argp, argc, argv, ARGP_NO_ERRS, &end, &state) == 0) return CLQ_OK;
    if (state.status != CLQ_OK) return state.status;
    const char *culprit = end > 1 && end <= argc ? argv[end - 1] : "";
    return clq_fail(CLQ_ARGUMENT, "%s: option '%s' is unknown, ambiguous, or misses its value: %s --help lists the options", name, culprit, name);
}
