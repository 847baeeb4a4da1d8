/* What came of the callbacks of `clique train`. */
#include "cli/cli.h"

#include <math.h>

/* Epochs are counted from 1, as in the lines of epochs. */
clq_status clq_train_callbacks_tell(const clq_fit_callbacks *callbacks, FILE *to) {
    clq_early_stopping_result found = {.stopped = false};
    if (callbacks->early_stopping) CLQ_TRY(clq_early_stopping_read(callbacks->early_stopping, &found));
    if (found.has_best && (found.stopped || found.restored_best_weights))
        return clq_print(to, "%sepoch %llu was the best, with %.4f%s\n", found.stopped ? "stopped early: " : "",
                         (unsigned long long)found.best_epoch + 1, found.best,
                         found.restored_best_weights ? ": its weights are put back" : "");
    return found.stopped ? clq_print(to, "stopped early: no epoch had a number\n") : CLQ_OK;
}

json_t *clq_train_callbacks_describe(const clq_fit_callbacks *callbacks) {
    clq_early_stopping_result found;
    if (!callbacks->early_stopping || clq_early_stopping_read(callbacks->early_stopping, &found) != CLQ_OK)
        return json_null();
    return json_pack("{s:b, s:I, s:o, s:b}", "stopped", found.stopped, "best_epoch", (json_int_t)found.best_epoch,
                     "best", clq_json_number(found.has_best ? found.best : (double)NAN), "restored_best",
                     found.restored_best_weights);
}
