/* Metrics that are matrices of counts. They are not among the other metrics' numbers, but are read separately. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

/* Finds the places of matrices, in the order of matrix_names. */
clq_status clq_trainer_set_matrices(clq_trainer *trainer) {
    size_t at = 0, count = 0;
    for (uint32_t i = 0; i < trainer->model->output_count; i++) {
        const clq_loss_problem *p = &trainer->losses[i];
        at += clq_loss_sums(p);
        for (unsigned k = 0; k < p->metric_count; k++) {
            const size_t classes = p->metrics[k] == CLQ_METRIC_BINARY_CONFUSION ? 2 : p->classes;
            if (clq_metric_is_matrix(p->metrics[k]))
                trainer->matrices[count++] = (clq_matrix_place){.classes = classes, .at = at};
            at += clq_metric_bins(p, k);
        }
    }
    for (size_t i = 0; i < CLQ_MATRIX_SOURCES && count > 0; i++) {
        trainer->counted[i] = clq_alloc(at, sizeof *trainer->counted[i]);
        if (!trainer->counted[i]) return CLQ_ERROR_MEMORY;
    }
    return CLQ_OK;
}

void clq_trainer_keep_matrices(clq_trainer *trainer, clq_matrix_source source, const double *totals) {
    if (trainer->matrix_count == 0) return;
    memcpy(trainer->counted[source], totals, clq_trainer_width(trainer) * sizeof *totals);
    trainer->has_counted[source] = true;
}

clq_status clq_trainer_take_matrix(const clq_trainer *trainer, const double *totals, size_t index, uint64_t *counts) {
    const char *name;
    size_t classes;
    CLQ_TRY(clq_trainer_matrix(trainer, index, &name, &classes));
    /* Totals are whole numbers, except if some replicas did not compute a batch. */
    for (size_t i = 0; i < classes * classes; i++) counts[i] = (uint64_t)round(totals[trainer->matrices[index].at + i]);
    return CLQ_OK;
}

size_t clq_trainer_matrix_count(const clq_trainer *trainer) { return trainer->matrix_count; }

clq_status clq_trainer_matrix(const clq_trainer *trainer, size_t index, const char **name, size_t *classes) {
    if (index >= trainer->matrix_count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "matrix %zu is out of range: the metrics have %u", index,
                        trainer->matrix_count);
    *name = trainer->matrix_names[index];
    *classes = trainer->matrices[index].classes;
    return CLQ_OK;
}

clq_status clq_trainer_read_matrix(const clq_trainer *trainer, size_t index, clq_matrix_source source,
                                   uint64_t *counts) {
    if ((unsigned)source >= CLQ_MATRIX_SOURCES)
        return clq_fail(CLQ_ERROR_ARGUMENT, "source %d is none of clq_matrix_source", (int)source);
    if (index < trainer->matrix_count && !trainer->has_counted[source])
        return clq_fail(CLQ_ERROR_STATE, "%s: %s", trainer->matrix_names[index],
                        source == CLQ_MATRIX_OF_TRAINING ? "no epoch of clq_fit has ended yet"
                                                         : "nothing was evaluated yet");
    return clq_trainer_take_matrix(trainer, trainer->counted[source], index, counts);
}
