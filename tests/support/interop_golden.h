/* A case of tests/golden: a training that Keras ran in float64 (tests/golden/README.md). The test trains the same model
 * and compares the loss of every step, the first step's gradient norm of every variable, and the initial model's
 * predictions. */
#ifndef SUPPORT_INTEROP_GOLDEN_H
#define SUPPORT_INTEROP_GOLDEN_H

#include "formats/formats.h"
#include "train/train.h"

typedef struct golden {
    char name[128], folder[1024];
    json_t *json;
    clq_trainer_config config;
    clq_output_config outputs[CLQ_MODEL_OUTPUTS_MAX]; /* for a model with several outputs */
    size_t batch, steps;
    size_t pieces; /* parts that a batch of the trace is split into, whose gradients are accumulated; 0: not split */
    bool drop_remainder;
    double class_weights[16];
    const char *sample_weights; /* a file in the folder; NULL: none */
} golden;

/* How cases are run. All zero: the mirrored strategy, with steps by hand. */
typedef struct golden_way {
    const char *strategy; /* trained by whole steps; NULL: mirrored, by the parts of a step */
    void (*set)(clq_trainer_config *config, unsigned replicas); /* sets further options; NULL: none */
    uint32_t micro_batches;                                     /* of a pipeline */
    const char *disabled_paths;                                 /* as in clq_trainer_config */
    bool synchronized;                                          /* every BatchNormalization of the cases */
    bool lowered;                                /* products may use bfloat16 if there are matrix units */
    size_t steps;                                /* only the first steps of the trace; 0: all */
    void (*look_at)(const clq_trainer *trainer); /* called with each trainer at its end; NULL: nothing */
} golden_way;
extern golden_way golden_by;

/* Setup and teardown of a group of tests: the OpenCL system that cases run on. */
int golden_open(void **state);
int golden_close(void **state);

/* Runs a case, and fails the test if the training does not follow Keras's. Returns whether a choice of the plans has a
 * candidate behind the one that `selections` forces. NULL: none is forced, and the result is false. */
bool golden_run(golden *g, const char *spec, const clq_selections *selections);
/* The same for a trainer that may be refused. Returns the refusal's status. */
clq_status golden_try(golden *g, const char *spec, const clq_selections *selections, bool *out_more);

/* Calls `run` for every case of a folder of tests/golden, in the order of their names. Returns how many there are. */
size_t golden_each(const char *group, void (*run)(golden *g, void *context), void *context);

/* Whether the model has moving statistics, which training updates. */
bool golden_has_statistics(const golden *g);
/* Whether an output has a mask, so that its loss is a mean over the steps of a batch that count. */
bool golden_leaves_steps_out(const golden *g);
/* Whether the last error is a limit of strategies that decisions 050 and 081 or docs/command-line.md document. */
bool golden_refusal_is_documented(void);

#endif
