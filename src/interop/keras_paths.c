/* Where Keras's files of weights have the layers of a model's file: under their classes, numbered in the file's order.
 * A block has its layers under names of its own. What writes the block knows these and notes them as "store" of a
 * layer; an empty "store" is the place of the block itself. */
#include "interop/keras_graph.h"

static bool is_function(json_t *layer) {
    const char *module = json_string_value(json_object_get(layer, "module"));
    return module && (strncmp(module, "keras.src.ops.", 14) == 0 || strncmp(module, "keras.src.activations.", 22) == 0);
}

/* The layer's class in Keras's source, which is its name in files of weights. One class has another name for users. */
static const char *class_of(json_t *layer) {
    const char *name = clq_keras_class(layer);
    return strcmp(name, "GroupQueryAttention") == 0 ? "GroupedQueryAttention" : name;
}

/* Makes the path of a layer by its class and its number among the layers of that class, from 0 on. counts: by class,
 * the number of the last layer. */
static clq_status count_store(const clq_keras_graph *f, json_t *layer, json_t *counts, char **out) {
    clq_text text = {0};
    clq_store_name(class_of(layer), &text);
    clq_status status = text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
    if (status == CLQ_OK && text.length > 0) { /* a class of other letters has no name there */
        json_t *before = json_object_get(counts, text.data);
        const json_int_t number = before ? json_integer_value(before) + 1 : 0;
        char digits[32] = "";
        if (number > 0) (void)snprintf(digits, sizeof digits, "_%lld", (long long)number);
        *out = clq_strprintf("%s%slayers/%s%s", f->path ? f->path : "", f->path ? "/" : "", text.data, digits);
        if (!*out) status = CLQ_ERROR_MEMORY;
        if (status == CLQ_OK && json_object_set_new(counts, text.data, json_integer(number)) != 0)
            status = clq_fail(CLQ_ERROR_MEMORY, "config.layers: out of memory");
    }
    clq_free(text.data);
    return status;
}

static clq_status name_store(const clq_keras_graph *f, json_t *layer, char **out) {
    const char *store = json_string_value(json_object_get(layer, "store"));
    if (!store || !f->path) return CLQ_OK;
    *out = clq_strprintf("%s%s%s", f->path, *store ? "/" : "", store);
    return *out ? CLQ_OK : CLQ_ERROR_MEMORY;
}

clq_status clq_keras_note_stores(clq_keras_graph *f) {
    const size_t count = json_array_size(f->layers);
    json_t *counts = json_object();
    f->stores = clq_alloc(count, sizeof *f->stores);
    clq_status status = f->stores ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK && !counts) status = clq_fail(CLQ_ERROR_MEMORY, "config.layers: out of memory");
    for (size_t i = 0; i < count && status == CLQ_OK; i++) {
        json_t *layer = clq_keras_layer_at(f, i);
        if (f->own_config)
            status = name_store(f, layer, &f->stores[i]);
        else if (!is_function(layer) && (f->path || !f->scope))
            status = count_store(f, layer, counts, &f->stores[i]);
    }
    json_decref(counts);
    return status;
}
