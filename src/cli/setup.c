/* The steps that several commands share: setting up model, devices, data and trainer, and printing. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TRACE_STEPS = 200 }; /* train's --help names this number, too */

void clq_setup_close_trainer(clq_setup *setup) {
    clq_trainer_destroy(setup->trainer);
    setup->trainer = NULL;
}

void clq_setup_release(clq_setup *setup) {
    clq_setup_close_trainer(setup);
    clq_dataset_destroy(setup->train);
    clq_dataset_destroy(setup->test);
    clq_free(setup->peers);
    clq_made_config_release(&setup->made);
    clq_free(setup->data);
    clq_free(setup->sample_weights);
    clq_loaded_destroy(setup->loaded);
    clq_model_destroy(setup->model);
    clq_system_close(setup->system);
    clq_system_close(setup->recalled);
    *setup = (clq_setup){0};
}

/* ---- the model ---- */

/* "N" is for every open size; "SHAPE,SHAPE" has a shape for each input. */
static bool parse_sizes(char *text, clq_shape shapes[CLQ_MODEL_INPUTS_MAX], clq_keras_sizes *out) {
    uint64_t open;
    *out = (clq_keras_sizes){.shapes = shapes};
    if (clq_parse_u64(text, 1, INT32_MAX, &open)) return out->open = (size_t)open, true;
    for (char *word; (word = strsep(&text, ","));) {
        clq_shape *shape = &shapes[out->count];
        *shape = (clq_shape){0};
        if (!clq_parse_sizes(word, CLQ_SHAPE_MAX, shape->dims, &shape->rank)) return false;
        if (++out->count == CLQ_MODEL_INPUTS_MAX && text) return false;
    }
    return true;
}

static clq_status read_sized(const char *path, const clq_keras_sizes *sizes, clq_model **out) {
    return clq_keras_file_is_archive(path) ? clq_model_read_keras(path, sizes, out)
                                           : clq_model_read_keras_json_sized(path, sizes, out);
}

static clq_status read_file(const clq_options *options, clq_model **out) {
    clq_shape shapes[CLQ_MODEL_INPUTS_MAX];
    clq_keras_sizes sizes = {0};
    if (options->input_shape) {
        char *text = clq_strprintf("%s", options->input_shape);
        if (!text) return CLQ_ERROR_MEMORY;
        const bool good = parse_sizes(text, shapes, &sizes);
        clq_free(text);
        if (!good)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "--input-shape '%s': expected a size, or each input's shape, e.g. 224x224x3 or 20x8,20x4",
                            options->input_shape);
    }
    if (sizes.open && read_sized(options->model, NULL, out) == CLQ_OK) {
        clq_model_destroy(*out);
        *out = NULL;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--input-shape '%s': %s leaves no size of its inputs open: leave it out",
                        options->input_shape, options->model);
    }
    return read_sized(options->model, &sizes, out);
}

static clq_status open_model(const clq_options *options, clq_model **out) {
    if (clq_model_is_file(options->model)) return read_file(options, out);
    if (options->input_shape)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--input-shape: '%s' has its shape; only a Keras file may leave sizes open",
                        options->model);
    return clq_model_for_data(options->model, options->data, out);
}

static bool is_keras_file(const char *path) { return path && clq_keras_file_is(path); }

clq_status clq_setup_model(clq_setup *setup, const clq_options *options) {
    CLQ_TRY(open_model(options, &setup->model));
    if (options->freeze) CLQ_TRY(clq_model_freeze(setup->model, options->freeze));
    if (!is_keras_file(options->save) && !is_keras_file(options->weights) && !is_keras_file(options->init))
        return CLQ_OK;
    const clq_status status = clq_model_prepare_keras(setup->model);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "model %s as a Keras file", options->model);
}

/* ---- devices and data ---- */

clq_status clq_setup_system(clq_setup *setup, const clq_options *options) {
    clq_system *recalled = setup->recalled;
    setup->recalled = NULL;
    setup->recalled_one = recalled != NULL;
    const clq_system_config config = {.memory_limit_bytes = options->memory_limit,
                                      .build_deadline_s = options->build_deadline};
    return clq_system_open_recalled(recalled, &config, &setup->system);
}

clq_status clq_setup_devices(clq_setup *setup, const clq_options *options) {
    clq_status status = clq_setup_system(setup, options);
    clq_trim_code();
    if (status == CLQ_OK) status = clq_setup_select(setup, options);
    if (setup->recalled_one && (status == CLQ_ERROR_NO_DEVICE || status == CLQ_ERROR_DEVICE)) {
        clq_end_if_stuck(setup->system, setup->begun, status);
        clq_system_close(setup->system); /* keeps what was built, which the restarted command loads */
        setup->system = NULL;
        status = clq_restart_with_all_drivers(status);
    }
    CLQ_TRY(status);
    setup->global_batch = options->batch               ? options->batch
                          : options->batch_per_replica ? options->batch_per_replica * setup->devices.count
                                                       : CLQ_BATCH_DEFAULT;
    return CLQ_OK;
}

/* Makes the samples the labels, if --labels asks for it: scaled as the model gets them. */
static clq_status label(const clq_setup *setup, const clq_options *options, clq_dataset *data) {
    static const char *const words[] = {"data", "samples", NULL};
    float factor = 1;
    size_t kind;
    if (!options->labels) return CLQ_OK;
    CLQ_TRY(clq_find_word("--labels", options->labels, words, &kind));
    if (kind == 0) return CLQ_OK;
    if (setup->model && clq_dataset_get_info(data)->sample_dtype == CLQ_U8)
        CLQ_TRY(clq_model_byte_factor(setup->model, &factor));
    const clq_status status = clq_dataset_label_by_samples(data, (double)factor);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "--labels samples");
}

clq_status clq_setup_data(const clq_setup *setup, const clq_options *options, const char *part, clq_dataset **out) {
    clq_dataset *data;
    CLQ_TRY(clq_dataset_open(options->data, part, &data));
    clq_status status = CLQ_OK;
    if (setup->model) status = clq_dataset_cut_for(data, options->data, setup->model);
    if (status == CLQ_OK) status = label(setup, options, data);
    if (status == CLQ_OK && options->take) status = clq_dataset_take(data, options->take);
    if (status == CLQ_OK && options->sample_weights && strcmp(part, "train") == 0)
        status = clq_dataset_read_weights(data, options->sample_weights);
    if (status != CLQ_OK)
        clq_dataset_destroy(data);
    else
        *out = data;
    return status;
}

clq_status clq_setup_shuffle(const clq_options *o, clq_dataset *data) {
    uint64_t buffer = SIZE_MAX; /* the whole set: the same for processes whose sets differ in length */
    if (o->shuffle && strcmp(o->shuffle, "off") == 0)
        buffer = 0;
    else if (o->shuffle && !clq_parse_u64(o->shuffle, 1, SIZE_MAX, &buffer))
        return clq_fail(CLQ_ERROR_ARGUMENT, "--shuffle '%s': expected a buffer size of at least 1, or off", o->shuffle);
    return clq_dataset_shuffle(data, (size_t)buffer, o->seed);
}

clq_status clq_setup_config(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype, bool inference_only,
                            clq_trainer_config *out) {
    clq_options chosen = *options;
    chosen.strategy = clq_setup_strategy(setup, options);
    chosen.inference_only = inference_only;
    chosen.weighted = options->sample_weights != NULL;
    chosen.world = setup->world;
    CLQ_TRY(clq_options_name(clq_settings_make(&chosen, setup->model, setup->devices.count, &setup->made)));
    clq_trainer_config config = setup->made.config;
    config.global_batch = setup->global_batch;
    config.sample_dtype = sample_dtype;
    config.measure_gradient = options->log != NULL;
    config.trace_steps = options->trace ? TRACE_STEPS : 0;
    *out = config;
    return CLQ_OK;
}

/* The message already says what needs how much memory. If several batches were tried, as --recompute auto does, the
 * message also says which batch fits. */
static clq_status advise_memory(const clq_options *options, bool inference_only, clq_status status) {
    const bool may_recompute = !inference_only && strcmp(options->recompute, "off") == 0;
    clq_error error;
    clq_error_take(status, &error);
    return clq_fail(status, "%s; %s%s--strategy central or pipeline with more --devices%s may help", error.detail,
                    strstr(error.detail, "a batch of ") ? "" : "a smaller --batch, ",
                    may_recompute ? "--recompute auto, " : "",
                    options->memory_limit ? " or a larger --memory-limit" : "");
}

clq_status clq_setup_trainer(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype,
                             bool inference_only) {
    clq_status status = clq_setup_config(setup, options, sample_dtype, inference_only, &setup->config);
    CLQ_TRY(clq_world_check(setup->world, status));
    status = clq_trainer_create(setup->model, &setup->devices, &setup->config, &setup->trainer);
    if (status == CLQ_ERROR_DEVICE_MEMORY) status = advise_memory(options, inference_only, status);
    CLQ_TRY(status);
    clq_trim_code();
    return clq_setup_weights(setup, options);
}

clq_status clq_setup_step(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype) {
    CLQ_TRY(clq_setup_model(setup, options));
    CLQ_TRY(clq_setup_recall(setup, options));
    CLQ_TRY(clq_setup_devices(setup, options));
    CLQ_TRY(clq_setup_choose(setup, options, NULL));
    return clq_setup_trainer(setup, options, sample_dtype, false);
}

FILE *clq_talk(const clq_options *options) { return options->json ? stderr : stdout; }

static clq_status print_document(json_t *document, size_t flags) {
    char *text = document ? clq_json_dumps(document, JSON_REAL_PRECISION(17) | flags) : NULL;
    json_decref(document);
    if (!text) return clq_fail_memory("building the JSON output");
    /* JSON lets the control characters DEL and C1 stand unescaped. They only occur in strings, where an escape means
     * the same. */
    for (const char *c = text; *c; c++) {
        if (c[0] == '\xc2' && (unsigned char)c[1] < 0xa0)
            printf("\\u%04x", (unsigned)(unsigned char)*++c);
        else if (*c == 0x7f)
            fputs("\\u007f", stdout);
        else
            putchar(*c);
    }
    clq_free(text);
    if (putchar('\n') == EOF || ferror(stdout))
        return clq_fail(CLQ_ERROR_WRITE, "standard output cannot be written: %s", strerror(errno));
    return CLQ_OK;
}

clq_status clq_print_json(json_t *document) { return print_document(document, JSON_INDENT(2)); }

clq_status clq_print_json_line(json_t *document) {
    CLQ_TRY(print_document(document, 0));
    return fflush(stdout) == 0 ? CLQ_OK
                               : clq_fail(CLQ_ERROR_WRITE, "standard output cannot be written: %s", strerror(errno));
}
