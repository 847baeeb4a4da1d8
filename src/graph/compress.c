/* Compressed gradients: the messages, the compression error, and the launches that pack and unpack. */
#include "graph/plan.h"

#include <math.h>

struct clq_compressor {
    clq_weights *weights;
    clq_compression how;
    unsigned ranks;
    size_t floats, chosen;              /* of the arena; of a message with TOP_K */
    clq_buffer *error, *sent, *arrived; /* arrived: NULL if the sum of the messages replaces `sent` */
    clq_list *pack, *unpack;
    clq_placement placement; /* of the scratch memory of `pack` */
};

size_t clq_compression_chosen(const clq_compression *how, const clq_model *model) {
    size_t elements = 0;
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE) elements += model->variables[i].elements;
    /* In double, 0.07 * 100 is above 7. Without the last factor, it would be rounded up to 8. */
    const double wished = ceil(how->fraction * (double)elements * (1 - 1e-12));
    return CLQ_MAX(CLQ_MIN((size_t)wished, elements), (size_t)1);
}

static clq_status make_buffers(clq_compressor *c) {
    clq_device *device = c->weights->device;
    const bool halves = c->how.kind == CLQ_COMPRESSION_F16;
    const size_t bytes = halves ? clq_values_bytes(CLQ_F16, c->floats) : clq_values_bytes(CLQ_U32, 2 * c->chosen);
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, c->weights->arena_bytes, "compression error", &c->error));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "compressed gradient", &c->sent));
    if (halves) return CLQ_OK;
    return clq_buffer_create(device, CLQ_MEMORY_DEVICE, c->ranks * bytes, "compressed gradients", &c->arrived);
}

/* Messages and errors are of the gradient without its loss scale, since errors are kept when the scale changes. */
static void add_scale(const clq_compressor *c, clq_list *list, bool over, clq_value gradient) {
    const clq_weights *weights = c->weights;
    if (weights->scaling)
        clq_scale_by_state(list, c->floats, weights->first_scale, over,
                           clq_plan_whole_value(list, "loss scale", weights->scaling), gradient);
}

static clq_status make_pack(clq_compressor *c) {
    CLQ_TRY(clq_list_create(c->weights->device, 1, &c->pack));
    clq_list_scope(c->pack, "compress");
    const clq_value gradient = clq_plan_whole_value(c->pack, "gradient", c->weights->gradient),
                    error = clq_plan_whole_value(c->pack, "error", c->error),
                    sent = clq_plan_whole_value(c->pack, "sent", c->sent);
    add_scale(c, c->pack, true, gradient);
    if (c->how.kind == CLQ_COMPRESSION_F16)
        clq_compress_halves(c->pack, c->floats, c->ranks, gradient, error, sent);
    else
        clq_choose_largest(c->pack, c->floats, c->chosen, gradient, error, sent);
    CLQ_TRY(clq_placement_create(c->pack, &c->placement));
    return clq_list_bind(c->pack);
}

static clq_status make_unpack(clq_compressor *c) {
    CLQ_TRY(clq_list_create(c->weights->device, 1, &c->unpack));
    clq_list_scope(c->unpack, "compress");
    const clq_value gradient = clq_plan_whole_value(c->unpack, "gradient", c->weights->gradient),
                    arrived = clq_plan_whole_value(c->unpack, "arrived", c->arrived ? c->arrived : c->sent);
    if (c->how.kind == CLQ_COMPRESSION_F16)
        clq_expand_halves(c->unpack, c->floats, arrived, gradient);
    else
        clq_add_pairs(c->unpack, c->floats, c->chosen, c->ranks, arrived, gradient);
    add_scale(c, c->unpack, false, gradient);
    return clq_list_bind(c->unpack);
}

clq_status clq_compressor_create(clq_weights *weights, const clq_compression *how, unsigned ranks,
                                 clq_compressor **out) {
    clq_compressor *c = clq_alloc(1, sizeof *c);
    if (!c) return CLQ_ERROR_MEMORY;
    c->weights = weights;
    c->how = *how;
    c->ranks = ranks;
    c->floats = clq_values_count(CLQ_F32, weights->arena_bytes);
    c->chosen = clq_compression_chosen(how, weights->model);
    clq_status status;
    CLQ_TRY_OR(fail, status, make_buffers(c));
    CLQ_TRY_OR(fail, status, make_pack(c));
    CLQ_TRY_OR(fail, status, make_unpack(c));
    *out = c;
    return CLQ_OK;
fail:
    clq_compressor_destroy(c);
    return status;
}

void clq_compressor_destroy(clq_compressor *c) {
    if (!c) return;
    clq_list_destroy(c->pack); /* views go before the buffers */
    clq_list_destroy(c->unpack);
    clq_placement_release(&c->placement);
    clq_buffer_destroy(c->error);
    clq_buffer_destroy(c->sent);
    clq_buffer_destroy(c->arrived);
    clq_free(c);
}

clq_compressed clq_compressor_message(const clq_compressor *c) {
    if (c->how.kind == CLQ_COMPRESSION_F16)
        return (clq_compressed){.sent = c->sent, .arrived = c->sent, .count = c->floats, .dtype = CLQ_F16};
    return (clq_compressed){
        .sent = c->sent, .arrived = c->arrived, .gathered = true, .count = 2 * c->chosen, .dtype = CLQ_U32};
}

clq_buffer *clq_compressor_error(const clq_compressor *c) { return c->error; }

clq_status clq_compressor_pack(clq_compressor *c, clq_queue *queue) {
    return clq_list_run(c->pack, queue, 0, clq_list_launch_count(c->pack));
}

clq_status clq_compressor_unpack(clq_compressor *c, clq_queue *queue) {
    return clq_list_run(c->unpack, queue, 0, clq_list_launch_count(c->unpack));
}
