/* The samples, labels and weights of a random model, drawn from the model's seed. */
#ifndef CLQ_TEST_GRAPH_RANDOM_NUMBERS_H
#define CLQ_TEST_GRAPH_RANDOM_NUMBERS_H

#include "graph/random_model.h"

#include <math.h>

enum { VARIABLES_MOST = 8 * LAYERS_MOST + 6 };

typedef struct numbers {
    double samples[COUNT * 72], labels[OUTPUTS][COUNT * CLASSES];
    double *weights[VARIABLES_MOST];
    uint32_t variables;
} numbers;

static void make_labels(subject *s, uint32_t output, double *labels) {
    for (size_t i = 0; i < (size_t)COUNT * CLASSES; i++)
        labels[i] =
            clq_loss_has_index(&s->losses[output]) ? below(s, CLASSES) : (double)(float)clq_random_unit(&s->random);
}

static void make_numbers(subject *s, numbers *n) {
    *n = (numbers){.variables = s->model->variable_count};
    for (size_t i = 0; i < CLQ_COUNT_OF(n->samples); i++)
        n->samples[i] =
            s->config.sample_dtype == CLQ_U8 ? below(s, 256) : (double)(float)(clq_random_unit(&s->random) - 0.5);
    make_labels(s, 0, n->labels[0]);
    for (uint32_t v = 0; v < n->variables; v++) {
        const clq_variable *variable = &s->model->variables[v];
        double limit = sqrt(6.0 / (double)(variable->fan_in + variable->fan_out));
        n->weights[v] = clq_alloc(variable->elements, sizeof(double));
        assert_non_null(n->weights[v]);
        for (size_t i = 0; i < variable->elements; i++)
            n->weights[v][i] = variable->role == CLQ_ROLE_STATE
                                   ? (double)(float)(clq_random_unit(&s->random) + 0.5)
                                   : (double)(float)((clq_random_unit(&s->random) * 2 - 1) * limit);
    }
    if (s->model->output_count > 1) make_labels(s, 1, n->labels[1]);
}

static void free_numbers(double *const *of, uint32_t variables) {
    for (uint32_t v = 0; v < variables; v++) clq_free(of[v]);
}

static void put(clq_queue *queue, clq_buffer *buffer, size_t offset, const double *from, size_t count,
                clq_dtype dtype) {
    size_t bytes = count * clq_dtype_bytes(dtype);
    void *block = clq_alloc(count, clq_dtype_bytes(dtype));
    assert_non_null(block);
    for (size_t i = 0; i < count; i++) {
        if (dtype == CLQ_U8) ((unsigned char *)block)[i] = (unsigned char)from[i];
        if (dtype == CLQ_I32) ((int32_t *)block)[i] = (int32_t)from[i];
        if (dtype == CLQ_F32) ((float *)block)[i] = (float)from[i];
    }
    CHECK_OK(clq_queue_write(queue, buffer, offset, block, bytes, true));
    clq_free(block);
}

#endif
