/* The weights that a command begins with: those of --weights or --init, or those of the model's .keras file. Without
 * either, they are random. */
#include "cli/cli.h"

#include <string.h>

enum { NAMES_SHOWN = 3 };

bool clq_model_has_weights(const clq_options *options) { return clq_keras_file_is_archive(options->model); }

clq_status clq_check_init(const clq_options *options) {
    if (options->init || (!options->init_map && !options->init_partial)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--init-%s needs --init FILE", options->init_map ? "map" : "partial");
}

static void add_names(clq_text *text, const clq_loaded *loaded, clq_loaded_kind kind, const char *what) {
    const size_t count = clq_loaded_count(loaded, kind);
    if (count == 0) return;
    clq_text_add(text, "; %zu %s", count, what);
    for (size_t i = 0; i < CLQ_MIN(count, (size_t)NAMES_SHOWN); i++) {
        clq_text_add(text, "%s ", i ? "," : ":");
        clq_text_add_clean(text, clq_loaded_name(loaded, kind, i));
    }
    if (count > NAMES_SHOWN) clq_text_add(text, ", …");
}

/* "init base.keras: 24 of 26 variables; 2 with their initial values: dense/kernel, dense/bias; 1 left in the file:
 * layers/dense/vars/0" */
clq_status clq_tell_loaded(const clq_loaded *loaded, const char *path, FILE *talk) {
    const size_t taken = clq_loaded_count(loaded, CLQ_LOADED_VARIABLES),
                 all = taken + clq_loaded_count(loaded, CLQ_LEFT_VARIABLES);
    clq_text text = {0};
    clq_text_add(&text, "init ");
    clq_text_add_clean(&text, path);
    clq_text_add(&text, ": %zu of %zu variables", taken, all);
    add_names(&text, loaded, CLQ_LEFT_VARIABLES, "with their initial values");
    add_names(&text, loaded, CLQ_LEFT_TENSORS, "left in the file");
    const clq_status status = text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
    if (status == CLQ_OK) fprintf(talk, "%s\n", text.data);
    clq_free(text.data);
    return status;
}

static json_t *list_names(const clq_loaded *loaded, clq_loaded_kind kind) {
    json_t *list = json_array();
    for (size_t i = 0; i < clq_loaded_count(loaded, kind); i++)
        (void)json_array_append_new(list, clq_json_text(clq_loaded_name(loaded, kind, i)));
    return list;
}

json_t *clq_describe_loaded(const clq_loaded *loaded) {
    return json_pack("{s:o, s:o, s:o}", "loaded", list_names(loaded, CLQ_LOADED_VARIABLES), "left_in_model",
                     list_names(loaded, CLQ_LEFT_VARIABLES), "left_in_file", list_names(loaded, CLQ_LEFT_TENSORS));
}

clq_status clq_setup_weights(clq_setup *setup, const clq_options *options) {
    const char *path = options->weights ? options->weights : options->init;
    if (path && (options->init_map || options->init_partial))
        return clq_trainer_load_part(setup->trainer, path, options->init_map, &setup->loaded);
    if (!path && clq_model_has_weights(options)) path = options->model;
    return path ? clq_trainer_load(setup->trainer, path) : CLQ_OK;
}
