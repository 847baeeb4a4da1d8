/* Which tensor of a file is which variable of a model: by a name map, by the variables' names, or by the paths that
 * Keras gives them. */
#include "train/weight_files.h"

#include <math.h>
#include <string.h>

/* ---- names ---- */

/* Finds a variable by its name; variable_count: there is none. */
static uint32_t find_variable(const clq_model *model, const char *name) {
    uint32_t v = 0;
    while (v < model->variable_count && strcmp(model->variables[v].name, name) != 0) v++;
    return v;
}

static uint32_t find_natural(const clq_matching *m, const char *name) {
    if (!m->stores) return find_variable(m->model, name);
    uint32_t v = 0;
    while (v < m->stores->count && (!m->stores->paths[v] || strcmp(m->stores->paths[v], name) != 0)) v++;
    return v;
}

static bool is_float(clq_dtype dtype) {
    return dtype == CLQ_F32 || dtype == CLQ_F64 || dtype == CLQ_F16 || dtype == CLQ_BF16;
}

/* Whether a tensor of a Keras file is no weight: the optimizer's state, or whole numbers, such as seeds. */
static bool is_no_weight(const clq_matching *m, const clq_safetensors_entry *tensor) {
    return m->stores && (strncmp(tensor->name, "optimizer/", 10) == 0 || !is_float(tensor->dtype));
}

static bool fits(const clq_safetensors_entry *tensor, const clq_variable *variable) {
    return tensor->rank == variable->shape.rank &&
           memcmp(tensor->dims, variable->shape.dims, tensor->rank * sizeof *tensor->dims) == 0;
}

static clq_status note(const clq_matching *m, const clq_safetensors_entry *tensor, const clq_map_line *line, uint32_t v,
                       clq_weight_matches *out) {
    if (out->of[v].tensor)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensors '%s' and '%s' would both be variable %s", m->path,
                        out->of[v].tensor->name, tensor->name, m->model->variables[v].name);
    out->of[v] = (clq_weight_match){.tensor = tensor, .line = line};
    return CLQ_OK;
}

static clq_status refuse_name(const clq_matching *m, const clq_map_line *line, const char *ours) {
    clq_nearest nearest = clq_nearest_of(ours);
    clq_text text = {0};
    for (uint32_t v = 0; v < m->model->variable_count; v++) clq_nearest_try(&nearest, m->model->variables[v].name);
    clq_text_add(&text, "%s: line %zu: model %s has no variable '%.120s'", m->map->path, line->number,
                 clq_model_name(m->model), ours);
    clq_nearest_add(&nearest, &text);
    const clq_status status = text.failed ? CLQ_ERROR_MEMORY : clq_fail(CLQ_ERROR_ARGUMENT, "%s", text.data);
    clq_free(text.data);
    return status;
}

/* Matches a tensor by the map. *told: a line of the map names the tensor. */
static clq_status match_by_map(const clq_matching *m, const clq_safetensors_entry *tensor, bool *used, bool *told,
                               clq_weight_matches *out) {
    const clq_map_line *line;
    char *ours;
    CLQ_TRY(clq_weight_map_find(m->map, tensor->name, &line, &ours));
    *told = line != NULL;
    clq_status status = CLQ_OK;
    if (line) used[line - m->map->lines] = true;
    if (ours) {
        const uint32_t v = find_variable(m->model, ours);
        status = v < m->model->variable_count ? note(m, tensor, line, v, out) : refuse_name(m, line, ours);
    }
    clq_free(ours);
    return status;
}

static clq_status match_one(const clq_matching *m, size_t index, bool *used, clq_weight_matches *out) {
    const clq_safetensors_entry *tensor = clq_safetensors_at(m->file, index);
    bool told = false;
    if (m->map) CLQ_TRY(match_by_map(m, tensor, used, &told, out));
    if (told) return CLQ_OK;
    const uint32_t v = find_natural(m, tensor->name);
    const bool known = v < m->model->variable_count;
    if (known && (!m->partial || fits(tensor, &m->model->variables[v]))) return note(m, tensor, NULL, v, out);
    if (!known && is_no_weight(m, tensor)) return CLQ_OK;
    out->left[index] = true;
    if (m->partial) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' is not part of model %s", m->path, tensor->name,
                    clq_model_name(m->model));
}

/* Refuses a line that was not used: no tensor matches it, or earlier lines match all tensors that do. */
static clq_status refuse_unused(const clq_matching *m, const clq_map_line *line) {
    for (size_t i = 0; i < clq_safetensors_count(m->file); i++) {
        const char *theirs = clq_safetensors_at(m->file, i)->name;
        if (!clq_map_line_names(line, theirs)) continue;
        const clq_map_line *other = m->map->lines;
        while (!clq_map_line_names(other, theirs)) other++;
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: line %zu: line %zu is about tensor '%s' already", m->map->path,
                        line->number, other->number, theirs);
    }
    clq_nearest nearest = clq_nearest_of(line->theirs);
    for (size_t i = 0; i < clq_safetensors_count(m->file); i++)
        clq_nearest_try(&nearest, clq_safetensors_at(m->file, i)->name);
    return clq_nearest_fail(&nearest, "%s: line %zu: %s has no tensor '%s'", m->map->path, line->number, m->path,
                            line->theirs);
}

static clq_status check_used(const clq_matching *m, const bool *used) {
    for (size_t i = 0; m->map && i < m->map->count; i++)
        if (!used[i]) return refuse_unused(m, &m->map->lines[i]);
    return CLQ_OK;
}

clq_status clq_weights_match(const clq_matching *m, clq_weight_matches *out) {
    const size_t tensors = clq_safetensors_count(m->file);
    bool *used = clq_alloc(m->map ? m->map->count : 1, sizeof *used);
    out->of = clq_alloc(CLQ_MAX(m->model->variable_count, 1u), sizeof *out->of);
    out->left = clq_alloc(CLQ_MAX(tensors, (size_t)1), sizeof *out->left);
    clq_status status = used && out->of && out->left ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < tensors && status == CLQ_OK; i++) status = match_one(m, i, used, out);
    if (status == CLQ_OK) status = check_used(m, used);
    clq_free(used);
    return status;
}

void clq_weight_matches_release(clq_weight_matches *matches) {
    clq_free(matches->of);
    clq_free(matches->left);
}

/* ---- layers by their names in the file ---- */

static const char name_key[] = "name:";

/* Adds "block.dense": the names of the groups around a group, without those that have none, and its own. False: the
 * group itself has no name, or there was no memory (to->failed). */
static bool chain_names(const clq_safetensors *file, const char *group, clq_text *to) {
    for (const char *end = group; *end;) {
        end += strcspn(end + 1, "/") + 1;
        char *key = clq_strprintf("%s%.*s", name_key, (int)(end - group), group);
        const char *name = key ? clq_safetensors_metadata(file, key) : NULL;
        if (!key) to->failed = true;
        if (name) clq_text_add(to, "%s%s", to->length ? "." : "", name);
        clq_free(key);
        if (!*end && !name) return false;
    }
    return !to->failed && to->data;
}

static clq_status note_layer(const clq_layer *layer, const char *group, clq_stores *stores) {
    for (size_t k = 0; k < layer->variable_places; k++) {
        if (!layer->variables[k]) continue;
        char **path = &stores->paths[layer->variables[k] - 1];
        if (!*path) *path = clq_variable_store(layer, layer->variables[k] - 1, group);
        if (!*path) return CLQ_ERROR_MEMORY;
    }
    return CLQ_OK;
}

/* The layer's path, if the group of this name is the layer's own or its block's. The caller frees it. NULL: it is
 * another group, or *status says that there was no memory. */
static char *place_within(const clq_layer *layer, const char *name, const char *group, clq_status *status) {
    const bool own = strcmp(layer->name, name) == 0, block = layer->block_store && strlen(name) == layer->block_bytes &&
                                                             strncmp(layer->name, name, layer->block_bytes) == 0;
    if (!own && !block) return NULL;
    char *path = own ? clq_strdup(group) : clq_strprintf("%s/%s", group, layer->block_store);
    if (!path) *status = CLQ_ERROR_MEMORY;
    return path;
}

static clq_status note_group(const clq_model *model, const clq_safetensors *file, const char *group,
                             clq_stores *stores) {
    clq_text chain = {0};
    clq_status status = CLQ_OK;
    if (chain_names(file, group, &chain))
        for (uint32_t i = 0; i < model->layer_count && status == CLQ_OK; i++)
            if (!model->layers[i].path && model->layers[i].variable_places) {
                char *path = place_within(&model->layers[i], chain.data, group, &status);
                if (path) status = note_layer(&model->layers[i], path, stores);
                clq_free(path);
            }
    if (chain.failed) status = CLQ_ERROR_MEMORY;
    clq_free(chain.data);
    return status;
}

clq_status clq_stores_find_by_names(const clq_model *model, const clq_safetensors *file, clq_stores *stores) {
    const char *key, *name;
    bool all = true;
    for (uint32_t v = 0; v < stores->count; v++) all = all && stores->paths[v];
    if (all || !model->keras_config) return CLQ_OK;
    for (size_t i = 0; clq_safetensors_metadata_at(file, i, &key, &name); i++)
        if (strncmp(key, name_key, strlen(name_key)) == 0)
            CLQ_TRY(note_group(model, file, key + strlen(name_key), stores));
    return CLQ_OK;
}

/* ---- values ---- */

/* Element i of a tensor that may be unaligned. */
static double element(const clq_safetensors_entry *entry, size_t i) {
    const char *at = (const char *)entry->data + i * clq_dtype_bytes(entry->dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
    } value;
    memcpy(&value, at, clq_dtype_bytes(entry->dtype));
    switch (entry->dtype) {
    case CLQ_F64: return value.f64;
    case CLQ_F16: return (double)clq_half_to_float(value.u16);
    case CLQ_BF16: return (double)clq_bfloat_to_float(value.u16);
    default: return (double)value.f32;
    }
}

void clq_describe_dims(char *text, size_t bytes, unsigned rank, const size_t *dims) {
    clq_text built = {0};
    for (unsigned d = 0; d < rank; d++) clq_text_add(&built, "%s%zu", d ? ", " : "", dims[d]);
    size_t length = built.failed ? 0 : CLQ_MIN(built.length, bytes - 1);
    memcpy(text, built.data ? built.data : "", length);
    text[length] = '\0';
    clq_free(built.data);
}

clq_status clq_check_tensor_shape(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path) {
    const clq_shape *shape = &variable->shape;
    char got[96], wanted[96];
    if (fits(entry, variable)) return CLQ_OK;
    clq_describe_dims(got, sizeof got, entry->rank, entry->dims);
    clq_describe_dims(wanted, sizeof wanted, shape->rank, shape->dims);
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' has shape (%s) and the model's is (%s)", path, entry->name,
                    got, wanted);
}

/* *turned: the entry with its axes in the order that the map's line gives. steps: by axis of *turned, how many elements
 * apart its entries are in the file. */
static clq_status turn(const clq_weight_match *match, const char *path, clq_safetensors_entry *turned,
                       size_t steps[CLQ_ARRAY_DIMS_MAX]) {
    const clq_safetensors_entry *entry = match->tensor;
    const clq_axis_order *order = match->line ? match->line->order : NULL;
    size_t own[CLQ_ARRAY_DIMS_MAX], step = 1;
    if (order && order->rank != entry->rank)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' has %u axes, and '%s' is a layout of %u", path,
                        entry->name, entry->rank, order->word, order->rank);
    *turned = *entry;
    for (unsigned d = entry->rank; d-- > 0; step *= entry->dims[d]) own[d] = step;
    for (unsigned d = 0; d < entry->rank; d++) {
        const unsigned from = order ? order->axes[d] : d;
        turned->dims[d] = entry->dims[from];
        steps[d] = own[from];
    }
    return CLQ_OK;
}

/* If the map's line turns the axes, the message has both shapes: the file's, and the turned one. */
static clq_status check_turned(const clq_weight_match *match, const clq_safetensors_entry *turned,
                               const clq_variable *variable, const char *path) {
    const clq_safetensors_entry *entry = match->tensor;
    char has[96], is[96], wanted[96];
    if (!match->line || !match->line->order) return clq_check_tensor_shape(turned, variable, path);
    if (fits(turned, variable)) return CLQ_OK;
    clq_describe_dims(has, sizeof has, entry->rank, entry->dims);
    clq_describe_dims(is, sizeof is, turned->rank, turned->dims);
    clq_describe_dims(wanted, sizeof wanted, variable->shape.rank, variable->shape.dims);
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "%s: tensor '%s' has shape (%s), which '%s' makes (%s), and the model's is (%s)", path, entry->name,
                    has, match->line->order->word, is, wanted);
}

clq_status clq_read_matched(const clq_weight_match *match, const clq_variable *variable, const char *path, float *out) {
    const clq_safetensors_entry *entry = match->tensor;
    clq_safetensors_entry turned;
    size_t steps[CLQ_ARRAY_DIMS_MAX], at[CLQ_ARRAY_DIMS_MAX] = {0}, from = 0;
    if (!is_float(entry->dtype))
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' is %s; f32, f64, f16 and bf16 are read", path, entry->name,
                        clq_dtype_name(entry->dtype));
    CLQ_TRY(turn(match, path, &turned, steps));
    if (!match->line || !match->line->reshaped || turned.count != variable->elements)
        CLQ_TRY(check_turned(match, &turned, variable, path));
    for (size_t i = 0; i < entry->count; i++) {
        const double value = element(entry, from);
        out[i] = (float)value;
        if (!isfinite(out[i]))
            return clq_fail(CLQ_ERROR_FORMAT, "%s: tensor '%s': value %zu is %g, and weights must be finite as float32",
                            path, entry->name, from, value);
        for (unsigned d = turned.rank; d-- > 0;) { /* the next place, as an odometer turns */
            from += steps[d];
            if (++at[d] < turned.dims[d]) break;
            from -= steps[d] * turned.dims[d];
            at[d] = 0;
        }
    }
    return CLQ_OK;
}

clq_status clq_read_weights(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path,
                            float *out) {
    const clq_weight_match match = {.tensor = entry};
    return clq_read_matched(&match, variable, path, out);
}

clq_status clq_refuse_strangers(const clq_model *model, const clq_safetensors *file, const char *path,
                                const char *prefix) {
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < clq_safetensors_count(file); i++) {
        const char *name = clq_safetensors_at(file, i)->name;
        if (strncmp(name, prefix, length) == 0 && find_variable(model, name + length) == model->variable_count)
            return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' is not part of model %s", path, name,
                            clq_model_name(model));
    }
    return CLQ_OK;
}
