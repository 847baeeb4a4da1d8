/* Built-in models for the shape and classes of data, and texts that are cut for a model. */
#include "train/train.h"

/* If the data could not be looked at, the model was built for an assumed shape and number of classes, which the user
 * did not choose. So its failure says why they were assumed. */
static clq_status explain(clq_status status, const char *data, const clq_error *unseen) {
    clq_error error;
    if (unseen->status == CLQ_OK || status == CLQ_ERROR_MEMORY) return status;
    clq_error_take(status, &error);
    return clq_fail(status, "%s (shape and classes are assumed, as data '%s' cannot be looked at: %s)", error.detail,
                    data, unseen->detail);
}

clq_status clq_model_for_data(const char *name, const char *data, clq_model **out) {
    clq_dataset_sight sight = {0};
    clq_error unseen = {0};
    if (clq_dataset_look(data, "train", &sight) != CLQ_OK) {
        const clq_status status = clq_dataset_look(data, "test", &sight);
        if (status != CLQ_OK) clq_error_take(status, &unseen);
        sight.classes = 0; /* the last classes may be missing in a test set */
    }
    clq_shape input = {.rank = sight.rank};
    for (unsigned d = 0; d < sight.rank; d++) input.dims[d] = sight.shape[d];
    const clq_status status = clq_model_builtin_for(name, input, sight.classes, out);
    return status == CLQ_OK ? CLQ_OK : explain(status, data, &unseen);
}

clq_status clq_dataset_cut_for(clq_dataset *data, const char *name, const clq_model *model) {
    const size_t tokens = clq_model_input(model)->elements;
    clq_error error;
    if (!clq_dataset_is_text(name)) return CLQ_OK;
    const clq_status status = clq_dataset_window(data, tokens);
    if (status == CLQ_OK) return CLQ_OK;
    clq_error_take(status, &error);
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "%s; model %s takes windows of %zu: a longer text, or a model of a shorter context", error.detail,
                    clq_model_name(model), tokens);
}
