/* Weights from files and into files: safetensors, and Keras's .keras and .weights.h5. */
#include "train/weight_files.h"

#include <string.h>

/* ---- what was loaded ---- */

struct clq_loaded {
    char **names[CLQ_LOADED_KINDS];
    size_t count[CLQ_LOADED_KINDS], capacity[CLQ_LOADED_KINDS];
};

size_t clq_loaded_count(const clq_loaded *loaded, clq_loaded_kind kind) {
    return (unsigned)kind < CLQ_LOADED_KINDS ? loaded->count[kind] : 0;
}

const char *clq_loaded_name(const clq_loaded *loaded, clq_loaded_kind kind, size_t index) {
    return index < clq_loaded_count(loaded, kind) ? loaded->names[kind][index] : NULL;
}

void clq_loaded_destroy(clq_loaded *loaded) {
    for (unsigned kind = 0; loaded && kind < CLQ_LOADED_KINDS; kind++) {
        for (size_t i = 0; i < loaded->count[kind]; i++) clq_free(loaded->names[kind][i]);
        clq_free(loaded->names[kind]);
    }
    clq_free(loaded);
}

static clq_status note(clq_loaded *to, clq_loaded_kind kind, const char *name) {
    char **grown = clq_grow(to->names[kind], to->count[kind], &to->capacity[kind], 16, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    to->names[kind] = grown;
    grown[to->count[kind]] = clq_strdup(name);
    if (!grown[to->count[kind]]) return CLQ_ERROR_MEMORY;
    to->count[kind]++;
    return CLQ_OK;
}

static clq_status note_all(const clq_trainer *trainer, const clq_safetensors *file, const clq_weight_matches *matches,
                           clq_loaded *to) {
    const clq_model *model = trainer->model;
    for (uint32_t v = 0; v < model->variable_count; v++)
        if (clq_strategy_has_variable(trainer->strategy, v))
            CLQ_TRY(
                note(to, matches->of[v].tensor ? CLQ_LOADED_VARIABLES : CLQ_LEFT_VARIABLES, model->variables[v].name));
    for (size_t i = 0; i < clq_safetensors_count(file); i++)
        if (matches->left[i]) CLQ_TRY(note(to, CLQ_LEFT_TENSORS, clq_safetensors_at(file, i)->name));
    return CLQ_OK;
}

/* Where Keras keeps a model's variables follows from the model's config text, so the model must have one. */
static clq_status check_prepared(const clq_model *model, const char *path) {
    if (model->keras_config) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "%s: model %s was made here and is not prepared for files of Keras's: call "
                    "clq_model_prepare_keras, or take .safetensors",
                    path, clq_model_name(model));
}

/* ---- loading ---- */

static clq_status open_any(const char *path, clq_safetensors **out) {
    return clq_keras_file_is(path) ? clq_keras_file_open(path, out) : clq_safetensors_open(path, out);
}

/* Reads variable v's values from the file. If the file has none, and the matching is partial, they are the
 * trainer's. */
static clq_status read_variable(clq_trainer *trainer, const clq_matching *m, const clq_weight_matches *matches,
                                uint32_t v, float *out) {
    const clq_variable *variable = &m->model->variables[v];
    if (matches->of[v].tensor) return clq_read_matched(&matches->of[v], variable, m->path, out);
    if (m->partial) return clq_strategy_read_variable(trainer->strategy, 0, v, false, out);
    if (m->stores && m->stores->paths[v])
        return clq_fail(CLQ_ERROR_MISMATCH, "%s has no '%s', which the model needs for %s", m->path,
                        m->stores->paths[v], variable->name);
    return clq_fail(CLQ_ERROR_MISMATCH, "%s has no tensor '%s', which the model needs", m->path, variable->name);
}

/* Reads the variables that the trainer has; without a trainer, all variables. */
static clq_status read_matched(clq_trainer *trainer, const clq_matching *m, const clq_weight_matches *matches,
                               clq_image *all) {
    CLQ_TRY(clq_image_open(m->model, all));
    for (uint32_t v = 0; v < m->model->variable_count; v++)
        if (!trainer || clq_strategy_has_variable(trainer->strategy, v))
            CLQ_TRY(read_variable(trainer, m, matches, v, clq_image_of(all, v)));
    return CLQ_OK;
}

static clq_status check_any(const clq_matching *m, const clq_weight_matches *matches) {
    for (uint32_t v = 0; v < m->model->variable_count; v++)
        if (matches->of[v].tensor) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: none of its tensors is a variable of model %s, such as %s", m->path,
                    clq_model_name(m->model), m->model->variable_count ? m->model->variables[0].name : "none");
}

/* trainer: may be NULL if the matching is not partial. report: gets the names of what is loaded and what is left; NULL:
 * not wanted. The caller releases *all in any case. */
static clq_status read_matching(clq_trainer *trainer, clq_matching *m, clq_loaded *report, clq_image *all) {
    clq_stores stores = {0};
    clq_weight_matches matches = {0};
    clq_status status = CLQ_OK;
    if (clq_keras_file_is(m->path)) {
        status = check_prepared(m->model, m->path);
        if (status == CLQ_OK) status = clq_model_stores(m->model, &stores);
        if (status == CLQ_OK) status = clq_stores_find_by_names(m->model, m->file, &stores);
        m->stores = &stores;
    }
    if (status == CLQ_OK) status = clq_weights_match(m, &matches);
    if (status == CLQ_OK && m->partial) status = check_any(m, &matches);
    if (status == CLQ_OK && report) status = note_all(trainer, m->file, &matches, report);
    if (status == CLQ_OK) status = read_matched(trainer, m, &matches, all);
    clq_weight_matches_release(&matches);
    clq_stores_release(&stores);
    return status;
}

/* All tensors are read before the first weight changes: a bad file leaves the trainer as it was. */
static clq_status load_matching(clq_trainer *trainer, clq_matching *m, clq_loaded *report) {
    clq_image all = {0};
    clq_status status = read_matching(trainer, m, report, &all);
    if (status == CLQ_OK) status = clq_trainer_put_weights(trainer, all.values);
    clq_image_release(&all);
    return status;
}

clq_status clq_read_weights_file(const clq_model *model, const char *path, float **values) {
    clq_safetensors *file;
    clq_image all = {0};
    CLQ_TRY(open_any(path, &file));
    clq_matching m = {.model = model, .file = file, .path = path};
    const clq_status status = read_matching(NULL, &m, NULL, &all);
    if (status == CLQ_OK) {
        *values = all.values;
        all.values = NULL;
    }
    clq_image_release(&all);
    clq_safetensors_close(file);
    return status;
}

clq_status clq_trainer_load(clq_trainer *trainer, const char *path) {
    clq_safetensors *file;
    CLQ_TRY(open_any(path, &file));
    clq_matching m = {.model = trainer->model, .file = file, .path = path};
    const clq_status status = load_matching(trainer, &m, NULL);
    clq_safetensors_close(file);
    return status;
}

clq_status clq_trainer_load_part(clq_trainer *trainer, const char *path, const char *map_path, clq_loaded **out) {
    clq_weight_map map = {0};
    clq_safetensors *file = NULL;
    clq_loaded *report = clq_alloc(1, sizeof *report);
    clq_status status = report ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK && map_path) status = clq_weight_map_read(map_path, &map);
    if (status == CLQ_OK) status = open_any(path, &file);
    if (status == CLQ_OK) {
        clq_matching m = {
            .model = trainer->model, .file = file, .path = path, .map = map_path ? &map : NULL, .partial = true};
        status = load_matching(trainer, &m, report);
    }
    clq_safetensors_close(file);
    clq_weight_map_release(&map);
    if (status == CLQ_OK && out)
        *out = report;
    else
        clq_loaded_destroy(report);
    return status;
}

/* ---- saving ---- */

/* Checks that all variables have known places in a Keras file. */
static clq_status check_stores(const clq_model *model, const clq_stores *stores, const char *path) {
    for (uint32_t v = 0; v < stores->count; v++)
        if (!stores->paths[v])
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "%s: where Keras keeps variable %s of a layer within a layer is not known: save "
                            ".safetensors",
                            path, model->variables[v].name);
    return CLQ_OK;
}

clq_status clq_model_check_save(const clq_model *model, const char *path) {
    clq_text config = {0};
    clq_stores stores = {0};
    if (!clq_keras_file_is(path)) return CLQ_OK;
    CLQ_TRY(clq_keras_files_check(path));
    CLQ_TRY(check_prepared(model, path));
    clq_status status = clq_keras_file_is_archive(path) ? clq_model_config_text(model, path, &config) : CLQ_OK;
    if (status == CLQ_OK) status = clq_model_stores(model, &stores);
    if (status == CLQ_OK) status = check_stores(model, &stores, path);
    clq_stores_release(&stores);
    clq_free(config.data);
    return status;
}

/* Reads the variables that the trainer has, and makes a file's sources of them. stores: their names; NULL: the
 * variables' own names. */
static clq_status read_sources(clq_trainer *trainer, const clq_stores *stores, const clq_image *all,
                               clq_safetensors_source *sources, size_t *count) {
    for (uint32_t v = 0; v < trainer->model->variable_count; v++) {
        const clq_variable *variable = &trainer->model->variables[v];
        if (!clq_strategy_has_variable(trainer->strategy, v)) continue;
        CLQ_TRY(clq_strategy_read_variable(trainer->strategy, 0, v, false, clq_image_of(all, v)));
        clq_safetensors_source *source = &sources[(*count)++];
        *source = (clq_safetensors_source){.name = stores ? stores->paths[v] : variable->name,
                                           .dtype = variable->dtype,
                                           .rank = variable->shape.rank,
                                           .data = clq_image_of(all, v)};
        memcpy(source->dims, variable->shape.dims, variable->shape.rank * sizeof *source->dims);
    }
    return CLQ_OK;
}

static clq_status write_keras(const clq_model *model, const char *path, const clq_stores *stores,
                              clq_safetensors_source *sources, size_t count) {
    static const int32_t zero = 0;
    const bool archive = clq_keras_file_is_archive(path);
    clq_text config = {0};
    clq_status status = archive ? clq_model_config_text(model, path, &config) : CLQ_OK;
    const char *const metadata[] = {"keras_config", config.data};
    for (size_t i = 0; i < stores->zero_count; i++)
        sources[count++] = (clq_safetensors_source){.name = stores->zeros[i], .dtype = CLQ_I32, .data = &zero};
    if (status == CLQ_OK) status = clq_keras_file_write(path, sources, count, metadata, archive);
    clq_free(config.data);
    return status;
}

clq_status clq_trainer_save(clq_trainer *trainer, const char *path) {
    const clq_model *model = trainer->model;
    const bool keras = clq_keras_file_is(path);
    const char *const metadata[] = {"format", "clique", "model", clq_model_name(model)};
    clq_stores stores = {0};
    clq_image all = {0};
    size_t count = 0;
    clq_status status = clq_model_check_save(model, path);
    if (status == CLQ_OK && keras) status = clq_model_stores(model, &stores);
    if (status == CLQ_OK) status = clq_image_open(model, &all);
    clq_safetensors_source *sources =
        clq_alloc(CLQ_MAX(model->variable_count + stores.zero_count, (size_t)1), sizeof *sources);
    if (!sources && status == CLQ_OK) status = CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = read_sources(trainer, keras ? &stores : NULL, &all, sources, &count);
    if (status == CLQ_OK)
        status = keras ? write_keras(model, path, &stores, sources, count)
                       : clq_safetensors_write(path, sources, count, metadata, 2);
    clq_free(sources);
    clq_image_release(&all);
    clq_stores_release(&stores);
    return status;
}
