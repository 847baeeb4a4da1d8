/* Attention of tokens that come one after another, in models that decode (decode.c). Caches keep rows from run to run.
 * These operations are not trained. */
#include "graph/step/step.h"

/* inputs: keys and values of the samples, their places, and both caches; outputs: the caches, in place */
static void emit_append(clq_emission *e) {
    clq_cached_append(e->list, &e->node->attributes.cached, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}
const clq_operation clq_op_cached_append = {
    .name = "cached_append", .traits = CLQ_OP_WIDE, .exact = 1u << 2, .emit = emit_append};

/* inputs: queries, both caches, and the samples' places */
static void emit_attend(clq_emission *e) {
    clq_cached_attend(e->list, &e->node->attributes.cached, e->in[0], e->in[1], e->in[2], e->in[3], e->out[0]);
}
static double attend_work(const clq_node *node) { return clq_cached_flops(&node->attributes.cached); }
const clq_operation clq_op_cached_attend = {
    .name = "cached_attend", .traits = CLQ_OP_WIDE, .exact = 1u << 3, .emit = emit_attend, .work = attend_work};
