/* A case of tests/golden: a training of Keras in float64, which is made again and compared (tests/golden/README.md):
 * the loss of every step, the first step's gradient norm of every variable, and the initial model's predictions. */
#ifndef SUPPORT_INTEROP_GOLDEN_H
#define SUPPORT_INTEROP_GOLDEN_H

#include "formats/formats.h"
#include "train/train.h"

typedef struct golden {
    char name[128], folder[1024];
    json_t *json;
    clq_trainer_config config;
    clq_output_config outputs[CLQ_MODEL_OUTPUTS_MAX]; /* of a model of several */
    size_t batch, steps;
    size_t pieces; /* that a batch of the trace is cut into, to be accumulated; 0: it is one step's */
    bool drop_remainder;
    double class_weights[16];
    const char *sample_weights; /* a file of the folder; NULL: none */
} golden;

/* How cases are run; all zero: mirrored, by hand. */
typedef struct golden_way {
    const char *strategy;                                       /* by whole steps; NULL: mirrored, by its parts */
    void (*set)(clq_trainer_config *config, unsigned replicas); /* NULL: nothing more */
    uint32_t micro_batches;                                     /* of a pipeline */
    const char *disabled_paths;                                 /* as of clq_trainer_config */
    bool synchronized;                                          /* every BatchNormalization of the cases */
    bool lowered;                                               /* products by bfloat16, where there are units */
    size_t steps;                                               /* the first ones of the trace alone; 0: all */
    void (*look_at)(const clq_trainer *trainer);                /* each trainer, at its end; NULL: nothing */
} golden_way;
extern golden_way golden_by;

/* Setup and teardown of a group of tests: the OpenCL system that cases run on. */
int golden_open(void **state);
int golden_close(void **state);

/* Runs a case; where it ends the test, Keras's training was not followed. Returns whether a question of the plans has a
 * candidate behind the one that `selections` force; NULL: they force none. */
bool golden_run(golden *g, const char *spec, const clq_selections *selections);
/* The same, of a trainer that may be refused: then its status is returned. */
clq_status golden_try(golden *g, const char *spec, const clq_selections *selections, bool *out_more);

/* Every case of a folder of tests/golden, in the order of their names; returns how many there are. */
size_t golden_each(const char *group, void (*run)(golden *g, void *context), void *context);

/* Whether the model has moving statistics that train. */
bool golden_has_statistics(const golden *g);
/* Whether an output has a mask, so that its loss is a mean over the steps of a batch that count. */
bool golden_leaves_steps_out(const golden *g);
/* Whether the last error is a limit of strategies that decisions 050 and 081 or docs/command-line.md tell. */
bool golden_refusal_is_documented(void);

#endif
