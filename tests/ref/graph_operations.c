/* The references of single operations, for the programs that test whole models: each links its own
 * layer's files only. */
#include "ref/ops_activation.c"
#include "ref/ops_conv2d.c"
#include "ref/ops_dense.c"
#include "ref/ops_element_program.c"
#include "ref/ops_loss.c"
#include "ref/ops_normalise.c"
#include "ref/ops_penalty.c"
#include "ref/ops_pool2d.c"
#include "ref/ops_rearrange.c"
#include "ref/ops_recurrent.c"
#include "ref/ops_update.c"
#include "ref/ops_warp.c"
