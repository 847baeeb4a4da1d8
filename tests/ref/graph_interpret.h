/* Runs a step graph node by node in plain C, in double, with the references of its operations. Tests compare with the
 * results: no pass may change them, and the emitted launches must give the same. */
#ifndef REF_GRAPH_INTERPRET_H
#define REF_GRAPH_INTERPRET_H

#include "graph/step/step.h"

/* What a graph reads, in double: samples as stored (bytes are 0 to 255), labels, weights by variable. */
typedef struct ref_inputs {
    size_t count;                                                                      /* samples */
    double scale;                                                                      /* of the gradients */
    const double *samples, *labels[CLQ_MODEL_OUTPUTS_MAX];                             /* by output */
    const double *const *weights;                                                      /* and state, by variable */
    uint32_t step, first_row;                                                          /* as in clq_step_params */
    const double *received[CLQ_CROSSINGS_MAX], *received_gradients[CLQ_CROSSINGS_MAX]; /* of a stage; NULL: zeros */
    /* For a graph that accumulates: sum_factor as in clq_step_params, and the gradients, by variable, that the
     * gradients' memory has at the start. NULL: zeros. */
    double sum_factor;
    bool rounds; /* true: F16 and BF16 values are rounded when they are stored; false: all values stay double */
    const double *const *gradients;
} ref_inputs;

/* What a run gives, in the caller's memory. NULL: not wanted. Gradients and states are by variable. */
typedef struct ref_outputs {
    double *outputs[CLQ_MODEL_OUTPUTS_MAX], *metrics;
    double *const *gradients, *const *states;                            /* states: after the step */
    double *norms;                                                       /* by variable: sums of squares */
    double *sent[CLQ_CROSSINGS_MAX], *sent_gradients[CLQ_CROSSINGS_MAX]; /* of a stage */
} ref_outputs;

/* Leaves out the update. If ranks exchange sums, only this rank has samples. An operation without a reference fails the
 * test. */
void ref_interpret(const clq_graph *graph, const ref_inputs *inputs, const ref_outputs *outputs);

#endif
