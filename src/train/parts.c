/* A trainer with a part of a model: its step by hand, and the values that cross between parts. */
#include "train/trainer.h"
#include <clique/distribute.h>

#include <string.h>

/* ---- what crosses ---- */

struct clq_part_values {
    const clq_model *model;
    clq_cut cut;
    size_t capacity, rows;
    float *values[CLQ_CROSSINGS_MAX]; /* (capacity, elements) each, in one allocation, which begins at values[0] */
};

static const clq_model_tensor *tensor_at(const clq_part_values *values, unsigned index) {
    return &values->model->tensors[values->cut.tensors[index] - 1];
}

static const clq_cut *cut_of(const clq_trainer *trainer, clq_part_side side) {
    const clq_stage *stage = clq_strategy_part_stage(trainer->strategy);
    return side == CLQ_PART_INPUT ? &stage->before : &stage->after;
}

static clq_status check_part(const clq_trainer *trainer, const char *call) {
    if (trainer->config.parts > 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_STATE,
                    "%s is for a part of a model, and the trainer has all of %s: set parts in its config", call,
                    clq_model_name(trainer->model));
}

clq_status clq_part_values_create(const clq_trainer *trainer, clq_part_side side, clq_part_values **out) {
    size_t floats = 0;
    CLQ_TRY(check_part(trainer, "clq_part_values_create"));
    if (side != CLQ_PART_INPUT && side != CLQ_PART_OUTPUT)
        return clq_fail(CLQ_ERROR_ARGUMENT, "side %d is none of clq_part_side", (int)side);
    const clq_cut *cut = cut_of(trainer, side);
    if (cut->count == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "nothing comes %s part %u of %u: there the model %s",
                        side == CLQ_PART_INPUT ? "in front of" : "behind", trainer->config.part, trainer->config.parts,
                        side == CLQ_PART_INPUT ? "begins" : "ends");
    clq_part_values *values = clq_alloc(1, sizeof *values);
    if (!values) return CLQ_ERROR_MEMORY;
    values->model = trainer->model;
    values->cut = *cut;
    values->capacity = trainer->config.global_batch;
    for (unsigned i = 0; i < cut->count; i++) floats += tensor_at(values, i)->elements;
    values->values[0] = clq_alloc(values->capacity, floats * sizeof(float));
    if (!values->values[0]) {
        clq_free(values);
        return CLQ_ERROR_MEMORY;
    }
    for (unsigned i = 1; i < cut->count; i++)
        values->values[i] = values->values[i - 1] + values->capacity * tensor_at(values, i - 1)->elements;
    *out = values;
    return CLQ_OK;
}

void clq_part_values_destroy(clq_part_values *values) {
    if (values) clq_free(values->values[0]);
    clq_free(values);
}

unsigned clq_part_values_count(const clq_part_values *values) { return values->cut.count; }

clq_status clq_part_values_tensor(const clq_part_values *values, unsigned index, clq_part_tensor *out) {
    if (index >= values->cut.count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "tensor %u is out of range: %u cross this cut", index, values->cut.count);
    const clq_model_tensor *tensor = tensor_at(values, index);
    *out = (clq_part_tensor){.name = clq_model_tensor_name(values->model, tensor),
                             .shape = tensor->shape,
                             .elements = tensor->elements,
                             .has_gradient = values->cut.trained[index]};
    return CLQ_OK;
}

float *clq_part_values_of(clq_part_values *values, unsigned index) {
    return index < values->cut.count ? values->values[index] : NULL;
}

size_t clq_part_values_rows(const clq_part_values *values) { return values->rows; }

clq_status clq_part_values_set_rows(clq_part_values *values, size_t rows) {
    if (rows > values->capacity)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%zu rows: there is room for %zu, the global batch", rows,
                        values->capacity);
    values->rows = rows;
    return CLQ_OK;
}

/* ---- checks ---- */

static bool is_cut(const clq_part_values *values, const clq_trainer *trainer, const clq_cut *cut) {
    if (values->cut.at != cut->at || values->cut.count != cut->count) return false;
    for (unsigned i = 0; i < cut->count; i++) /* the models may be two objects that are alike */
        if (values->cut.tensors[i] != cut->tensors[i] ||
            tensor_at(values, i)->elements != trainer->model->tensors[cut->tensors[i] - 1].elements)
            return false;
    return true;
}

/* Checks the values for a side of the trainer's part. They must be NULL if the part has none there, and may be NULL if
 * they are not `wanted`. */
static clq_status check_side(const clq_trainer *trainer, clq_part_side side, const clq_part_values *values,
                             bool wanted) {
    const clq_cut *cut = cut_of(trainer, side);
    const unsigned part = trainer->config.part, parts = trainer->config.parts;
    const char *what = side == CLQ_PART_INPUT ? "input" : "output";
    if (cut->count == 0) {
        if (!values) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "part %u of %u is the %s, and no part is %s it: its %s is NULL", part,
                        parts, side == CLQ_PART_INPUT ? "first" : "last",
                        side == CLQ_PART_INPUT ? "in front of" : "behind", what);
    }
    const clq_model *model = trainer->model;
    const char *name = clq_model_tensor_name(model, &model->tensors[cut->tensors[0] - 1]);
    if (!values && wanted)
        return clq_fail(CLQ_ERROR_ARGUMENT, "part %u of %u has an %s, '%s', and NULL was given", part, parts, what,
                        name);
    if (!values || is_cut(values, trainer, cut)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "the part values are of a cut with %u tensor%s from '%s' on, and the %s of part %u of %u has %u "
                    "from '%s' on: make them for this cut",
                    values->cut.count, values->cut.count == 1 ? "" : "s",
                    clq_model_tensor_name(values->model, tensor_at(values, 0)), what, part, parts, cut->count, name);
}

static clq_status check_rows(const clq_part_values *values, size_t rows, const char *whose) {
    if (!values || values->rows == rows) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH, "the part values have %zu row%s and %s has %zu sample%s: give as many",
                    values->rows, clq_plural(values->rows), whose, rows, clq_plural(rows));
}

static clq_status check_room(const clq_part_values *values, size_t rows) {
    if (!values || rows <= values->capacity) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "%zu samples go to part values that have room for %zu: make these for a trainer of that batch",
                    rows, values->capacity);
}

/* ---- the step ---- */

/* Checks the arguments of a forward pass. *taken: the batch in the form that the strategy takes. */
static clq_status check_forward(clq_trainer *trainer, const char *call, const clq_batch *batch,
                                const clq_part_values *input, const clq_part_values *output, clq_batch_use use,
                                clq_checked_batch *taken) {
    CLQ_TRY(check_part(trainer, call));
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    CLQ_TRY(clq_trainer_take_part_batch(trainer, batch, use, taken));
    CLQ_TRY(check_side(trainer, CLQ_PART_INPUT, input, true));
    CLQ_TRY(check_side(trainer, CLQ_PART_OUTPUT, output, true));
    CLQ_TRY(check_rows(input, batch->count, "the batch"));
    return check_room(output, batch->count);
}

static clq_status run_forward(clq_trainer *trainer, clq_mode mode, const clq_rows *rows, const clq_part_values *input,
                              clq_part_values *output, float *const *outputs) {
    const clq_step_params params = clq_trainer_forward_params(trainer);
    const clq_handover handover = {.from = input ? (const float *const *)input->values : NULL,
                                   .to = output ? output->values : NULL,
                                   .outputs = outputs};
    trainer->forwarded = 0; /* plans share memory: an earlier forward pass is overwritten */
    CLQ_TRY(clq_strategy_part_forward(trainer->strategy, mode, rows, &params, &handover));
    if (output) output->rows = rows->count;
    return CLQ_OK;
}

clq_status clq_part_forward(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                            clq_part_values *output) {
    clq_checked_batch taken;
    CLQ_TRY(check_forward(trainer, "clq_part_forward", batch, input, output, CLQ_TO_TRAIN, &taken));
    if (trainer->config.inference_only)
        return clq_fail(CLQ_ERROR_STATE, "an inference-only trainer makes no gradients: use clq_part_evaluate");
    CLQ_TRY(run_forward(trainer, CLQ_MODE_TRAIN, &taken.rows, input, output, NULL));
    clq_trainer_end_batch(trainer, batch->count, true);
    trainer->gradient = CLQ_GRADIENT_NONE;
    trainer->forwarded = batch->count;
    return CLQ_OK;
}

/* If a tensor depends on no trainable variable, no gradient is computed for it: writes 0. */
static void clear_untrained(clq_part_values *values) {
    for (unsigned i = 0; i < values->cut.count; i++)
        if (!values->cut.trained[i])
            memset(values->values[i], 0, values->rows * tensor_at(values, i)->elements * sizeof(float));
}

clq_status clq_part_backward(clq_trainer *trainer, const clq_part_values *output, clq_part_values *input) {
    const size_t rows = trainer->forwarded;
    CLQ_TRY(check_part(trainer, "clq_part_backward"));
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    if (rows == 0) return clq_fail(CLQ_ERROR_STATE, "clq_part_backward comes after clq_part_forward, once for each");
    CLQ_TRY(check_side(trainer, CLQ_PART_OUTPUT, output, true));
    CLQ_TRY(check_side(trainer, CLQ_PART_INPUT, input, false));
    CLQ_TRY(check_rows(output, rows, "the forward pass"));
    CLQ_TRY(check_room(input, rows));
    const clq_handover handover = {.from = output ? (const float *const *)output->values : NULL,
                                   .to = input ? input->values : NULL};
    trainer->forwarded = 0;
    CLQ_TRY(clq_strategy_part_backward(trainer->strategy, rows, &handover));
    trainer->gradient = CLQ_GRADIENT_SUM; /* no other replica has a part of it */
    if (!input) return CLQ_OK;
    input->rows = rows;
    clear_untrained(input);
    return CLQ_OK;
}

/* ---- inference ---- */

clq_status clq_part_evaluate_sized(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                   clq_part_values *output, clq_totals *out, size_t out_bytes) {
    clq_checked_batch taken;
    double row[CLQ_METRICS_ROW_MAX];
    CLQ_TRY(check_forward(trainer, "clq_part_evaluate", batch, input, output, CLQ_TO_EVALUATE, &taken));
    CLQ_TRY(clq_trainer_keep_last_step(trainer));
    const uint32_t slot = clq_trainer_forward_params(trainer).slot;
    CLQ_TRY(run_forward(trainer, CLQ_MODE_EVALUATE, &taken.rows, input, output, NULL));
    trainer->rows++;
    CLQ_TRY(clq_strategy_read_figures(trainer->strategy, slot, 1, row, NULL));
    clq_totals totals = {.samples = batch->count};
    clq_trainer_tell(trainer, row, totals.samples, &totals.loss, &totals.metrics);
    clq_trainer_keep_matrices(trainer, CLQ_MATRIX_OF_EVALUATION, row);
    clq_struct_give(&totals, sizeof totals, out, out_bytes);
    return CLQ_OK;
}

clq_status clq_part_predict(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                            clq_part_values *output, float *const *out) {
    static float *const none[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    clq_checked_batch taken;
    CLQ_TRY(check_forward(trainer, "clq_part_predict", batch, input, output, CLQ_TO_PREDICT, &taken));
    return run_forward(trainer, CLQ_MODE_PREDICT, &taken.rows, input, output, out ? out : none);
}
