/* What Keras does to masks while it runs a Functional or Sequential model (keras_masks.c). */
#ifndef CLQ_INTEROP_KERAS_MASKS_H
#define CLQ_INTEROP_KERAS_MASKS_H

#include "interop/keras_graph.h"

/* Whether Keras's layer gives the very tensor object that it gets. A mask that is taken off one is then off the other,
 * too. SAME_UNTRAINED: in evaluation and prediction alone. */
typedef enum clq_keras_sameness { CLQ_KERAS_OTHER, CLQ_KERAS_SAME_UNTRAINED, CLQ_KERAS_SAME } clq_keras_sameness;
clq_keras_sameness clq_keras_find_sameness(const char *class_name, json_t *config);
bool clq_keras_may_be_same(const char *class_name); /* with some configuration */

/* Notes what the calls of a graph do to masks. The masks of the models within the graph must have been noted before.
 * Errors: MEMORY. */
clq_status clq_keras_note_masks(clq_keras_graph *f, const clq_keras_source *inputs, size_t input_count,
                                const clq_keras_source *outputs, size_t output_count);
void clq_keras_release_masks(clq_keras_masks *masks); /* takes NULL */

/* Whether the mask that a tensor was made with is still on it when node `reader` runs; for the reader CLQ_KERAS_GIVEN,
 * at the end. UNSURE: the mask is on it in training, and not in evaluation. STAYS, too, if nothing was noted. */
typedef enum clq_keras_mask_state {
    CLQ_KERAS_MASK_STAYS,
    CLQ_KERAS_MASK_ENDED,
    CLQ_KERAS_MASK_UNSURE
} clq_keras_mask_state;
clq_keras_mask_state clq_keras_mask_state_of(const clq_keras_graph *f, const clq_keras_source *from, uint32_t reader);
/* For a call of an inner model: whether it ends the mask of an input while another of its inputs is the same tensor. */
bool clq_keras_mixes_masks(const clq_keras_graph *f, const clq_keras_node *n);
/* Whether anything that runs after a call may look at the mask of an input of the call; and at the mask of its output.
 * True if nothing was noted. */
bool clq_keras_heeds_input(const clq_keras_graph *f, uint32_t node, uint32_t input);
bool clq_keras_heeds_output(const clq_keras_graph *f, uint32_t node);
/* For a call whose output has the shape of its input: whether the call may change nothing. If so, some of Keras's
 * backends give the input itself, with its mask. */
bool clq_keras_may_do_nothing(json_t *layer, const clq_keras_node *n);
/* A bit for each input that has a mask, of the inputs whose masks the block was written for (`heeded`). */
unsigned clq_keras_find_masked(const clq_keras_graph *block, const clq_tensor *inputs);
/* Whether two tensors have the same values because equal layers compute them from the same tensors. An example is a
 * mask that a file names and that a layer makes, too. False: it is not known. */
bool clq_keras_same_numbers(const clq_model *model, clq_tensor a, clq_tensor b);

#endif
