/* The order in which Keras runs the calls of a Functional model's layers (keras_order.c). What Keras does to masks
 * depends on it (keras_masks.c). */
#ifndef CLQ_INTEROP_KERAS_ORDER_H
#define CLQ_INTEROP_KERAS_ORDER_H

#include "base/base.h"

/* Calls of layers. Call i reads the outputs of the calls inputs[input_end[i - 1]] up to inputs[input_end[i]], without
 * the last; call 0 begins at inputs[0]. */
typedef struct clq_keras_calls {
    size_t layer_count, call_count;
    const size_t *layer_of, *inputs, *input_end;
    const size_t *outputs; /* (output_count) calls; numbers from call_count on are passed over */
    size_t output_count;
} clq_keras_calls;

/* turns (call_count): the place of each call in the order in which Keras runs them; SIZE_MAX: no output needs it, and
 * Keras does not run it. Errors: MEMORY. */
clq_status clq_keras_find_turns(const clq_keras_calls *calls, size_t *turns);

#endif
