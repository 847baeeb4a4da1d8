/* Masks that Keras's MultiHeadAttention ends. In Keras a mask lies on a tensor, and MultiHeadAttention takes it off its
 * query, value and key (keras/src/layers/attention/multi_head_attention.py, `call`): calls that run later see none. So
 * which layers have a mask depends on the order in which Keras runs them. */
#include "interop/keras_graph.h"
#include "interop/keras_order.h"

static bool ends_masks(const clq_keras_graph *f, const clq_keras_node *n) {
    json_t *layer = clq_keras_layer_at(f, n->layer);
    return !clq_keras_is_model(layer) && clq_keras_ends_masks(layer);
}

static void end_mask(clq_keras_graph *f, uint32_t node, size_t turn) {
    if (node != CLQ_KERAS_GIVEN) f->mask_ends[node] = CLQ_MIN(f->mask_ends[node], turn);
}

/* Of the tensors that the call gets by place, and by the names of a query, a value and a key. */
static void end_masks(clq_keras_graph *f, const clq_keras_node *n, size_t turn) {
    static const char *const names[] = {"query", "value", "key"};
    for (uint32_t i = 0; i < CLQ_MIN(n->positional, 3u); i++) end_mask(f, f->sources[n->first_source + i].node, turn);
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        json_t *given = json_object_get(n->keywords, names[i]), *config = json_object_get(given, "config");
        clq_keras_source from;
        if (!json_object_get(config, "keras_history")) continue;
        if (clq_keras_find_node(f, json_object_get(config, "keras_history"), names[i], &from) == CLQ_OK)
            end_mask(f, from.node, turn);
        else
            clq_error_clear(); /* reading the call says so */
    }
}

static clq_status find_turns(clq_keras_graph *f, const clq_keras_source *outputs, size_t output_count) {
    size_t *layers = clq_alloc(f->node_count, sizeof *layers), *ends = clq_alloc(f->node_count, sizeof *ends),
           *inputs = clq_alloc(CLQ_MAX(f->source_count, 1u), sizeof *inputs),
           *last = clq_alloc(output_count, sizeof *last), count = 0;
    clq_status status = layers && ends && inputs && last ? CLQ_OK : CLQ_MEMORY;
    for (uint32_t k = 0; k < f->node_count && status == CLQ_OK; k++) {
        const clq_keras_node *n = &f->nodes[k];
        layers[k] = n->layer;
        for (uint32_t i = 0; i < n->source_count; i++) {
            const uint32_t from = f->sources[n->first_source + i].node;
            if (from != CLQ_KERAS_GIVEN) inputs[count++] = from;
        }
        ends[k] = count;
    }
    for (size_t i = 0; i < output_count && status == CLQ_OK; i++) last[i] = outputs[i].node;
    const clq_keras_calls calls = {.layer_count = json_array_size(f->layers),
                                   .call_count = f->node_count,
                                   .layer_of = layers,
                                   .inputs = inputs,
                                   .input_end = ends,
                                   .outputs = last,
                                   .output_count = output_count};
    if (status == CLQ_OK) status = clq_keras_find_turns(&calls, f->turns);
    clq_free(layers);
    clq_free(ends);
    clq_free(inputs);
    clq_free(last);
    return status;
}

clq_status clq_keras_note_masks(clq_keras_graph *f, const clq_keras_source *outputs, size_t count) {
    bool any = false;
    for (uint32_t k = 0; k < f->node_count; k++) any = any || ends_masks(f, &f->nodes[k]);
    if (!any) return CLQ_OK;
    f->turns = clq_alloc(f->node_count, sizeof *f->turns);
    f->mask_ends = clq_alloc(f->node_count, sizeof *f->mask_ends);
    if (!f->turns || !f->mask_ends) return CLQ_MEMORY;
    CLQ_TRY(find_turns(f, outputs, count));
    for (uint32_t k = 0; k < f->node_count; k++) f->mask_ends[k] = SIZE_MAX;
    for (uint32_t k = 0; k < f->node_count; k++)
        if (ends_masks(f, &f->nodes[k])) end_masks(f, &f->nodes[k], f->turns[k]);
    return CLQ_OK;
}

bool clq_keras_has_mask(const clq_keras_graph *f, uint32_t node, uint32_t reader) {
    const size_t turn = f->turns && reader != CLQ_KERAS_GIVEN ? f->turns[reader] : SIZE_MAX - 1;
    return !f->turns || node == CLQ_KERAS_GIVEN || f->mask_ends[node] >= turn;
}
