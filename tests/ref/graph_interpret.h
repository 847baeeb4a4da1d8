/* Runs a step graph in plain C, in double, node by node, by the references of its operations: what every pass must
 * leave as it was, and what the emitted launches must give. */
#ifndef REF_GRAPH_INTERPRET_H
#define REF_GRAPH_INTERPRET_H

#include "graph/step/step.h"

/* What a graph reads, in double: samples as stored (bytes are 0 to 255), labels, weights by variable. */
typedef struct ref_inputs {
    size_t count;                                                                      /* samples */
    double scale;                                                                      /* of each sample's loss */
    const double *samples, *labels[CLQ_MODEL_OUTPUTS_MAX];                             /* by output */
    const double *const *weights;                                                      /* state, too */
    uint32_t step, first_row;                                                          /* as of clq_step_params */
    const double *received[CLQ_CROSSINGS_MAX], *received_gradients[CLQ_CROSSINGS_MAX]; /* of a stage; NULL: zeros */
    /* Of a graph that accumulates: as of clq_step_params, and what the gradients' memory has; NULL: zeros. */
    double sum_factor;
    bool rounds; /* values are rounded as they are stored; else all have the bits of a double */
    const double *const *gradients;
} ref_inputs;

/* What it gives, the caller's memory; NULL: not wanted. Gradients by variable. */
typedef struct ref_outputs {
    double *outputs[CLQ_MODEL_OUTPUTS_MAX], *metrics;
    double *const *gradients, *const *states;                            /* states: after the step */
    double *norms;                                                       /* by variable: sums of squares */
    double *sent[CLQ_CROSSINGS_MAX], *sent_gradients[CLQ_CROSSINGS_MAX]; /* of a stage */
} ref_outputs;

/* The update is left out. Of ranks that exchange, only this one has samples. Ends the test where it meets an operation
 * that it does not know. */
void ref_interpret(const clq_graph *graph, const ref_inputs *inputs, const ref_outputs *outputs);

#endif
