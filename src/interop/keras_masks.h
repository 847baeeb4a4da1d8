/* What Keras does to masks while it runs a Functional or Sequential model (keras_masks.c). */
#ifndef CLQ_INTEROP_KERAS_MASKS_H
#define CLQ_INTEROP_KERAS_MASKS_H

#include "interop/keras_graph.h"

/* Whether what Keras's layer gives is the very tensor that it gets, so that a mask that is taken off the one is off the
 * other. UNTRAINED: in evaluation and prediction alone. */
typedef enum clq_keras_sameness { CLQ_KERAS_OTHER, CLQ_KERAS_SAME_UNTRAINED, CLQ_KERAS_SAME } clq_keras_sameness;
clq_keras_sameness clq_keras_find_sameness(const char *class_name, json_t *config);
bool clq_keras_may_be_same(const char *class_name); /* by some configuration */

/* Notes what the calls of a graph do to masks. Models within it have been noted. Errors: MEMORY. */
clq_status clq_keras_note_masks(clq_keras_graph *f, const clq_keras_source *inputs, size_t input_count,
                                const clq_keras_source *outputs, size_t output_count);
void clq_keras_release_masks(clq_keras_masks *masks); /* takes NULL */

/* Whether the mask that a tensor got when it was made is still on it when `reader` runs, or at the end
 * (CLQ_KERAS_GIVEN). UNSURE: it is in training, and is not in evaluation. If nothing was noted: STAYS. */
typedef enum clq_keras_mask_state {
    CLQ_KERAS_MASK_STAYS,
    CLQ_KERAS_MASK_ENDED,
    CLQ_KERAS_MASK_UNSURE
} clq_keras_mask_state;
clq_keras_mask_state clq_keras_mask_state_of(const clq_keras_graph *f, const clq_keras_source *from, uint32_t reader);
/* Of a call of a model within the model: whether it ends the mask of an input that is another input, too. */
bool clq_keras_mixes_masks(const clq_keras_graph *f, const clq_keras_node *n);
/* Whether anything that runs behind a call may look at the mask of its input; of what it gives. Nothing was noted: yes.
 */
bool clq_keras_heeds_input(const clq_keras_graph *f, uint32_t node, uint32_t input);
bool clq_keras_heeds_output(const clq_keras_graph *f, uint32_t node);
/* Of a call that gives the shape that it gets: whether it changes nothing, so that some of Keras's backends give its
 * input itself, with its mask. */
bool clq_keras_may_do_nothing(json_t *layer, const clq_keras_node *n);
/* Of the inputs of a block whose masks it was written for: bits of those that have one. */
unsigned clq_keras_find_masked(const clq_keras_graph *block, const clq_tensor *inputs);
/* Whether two tensors are the same layers of the same tensors, as a mask that a file names beside the one that a layer
 * makes. False: that is not known. */
bool clq_keras_same_numbers(const clq_model *model, clq_tensor a, clq_tensor b);

#endif
