/* The gradient of a model, in the pieces in which backward finishes it. */
#include "why/why.h"

/* Multiplications by a variable for one sample, as the layer's kernels make them: each element once for each place of
 * the layer's output. */
static double work_of(const clq_model *model, const clq_variable *variable) {
    double places = 0;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const clq_model_tensor *tensor = &model->tensors[t];
        if (tensor->layer != variable->layer) continue;
        places += (double)tensor->elements / (double)tensor->shape.dims[tensor->shape.rank - 1];
    }
    return places * (double)variable->elements;
}

clq_status clq_why_pieces(const clq_model *model, clq_scale_piece *out, size_t *count, size_t *bytes) {
    double whole = 0, done = 0;
    size_t pieces = 0, all = 0;
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE) whole += work_of(model, &model->variables[i]);
    for (uint32_t i = model->variable_count; i-- > 0;) {
        const clq_variable *variable = &model->variables[i];
        if (variable->role != CLQ_ROLE_TRAINABLE) continue;
        done += work_of(model, variable);
        if (pieces < CLQ_PIECES_MAX) out[pieces++].bytes = 0; /* the rest joins the last piece */
        out[pieces - 1].part = whole > 0 ? CLQ_MIN(done / whole, 1.0) : 1.0;
        out[pieces - 1].bytes += clq_variable_bytes(variable);
        all += clq_variable_bytes(variable);
    }
    if (pieces == 0)
        return clq_fail(CLQ_ERROR_MISMATCH, "model '%s' has nothing to train, so that its replicas exchange nothing",
                        clq_model_name(model));
    *count = pieces;
    *bytes = all;
    return CLQ_OK;
}

size_t clq_why_bucket_bytes(size_t gradient_bytes, size_t wanted, bool near) {
    if (!clq_buckets_pay(gradient_bytes, wanted, !near)) return CLQ_SCALE_WHOLE;
    return clq_bucket_bytes(gradient_bytes, wanted, !near);
}
