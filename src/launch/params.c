/* The parameters of a step, as lists and fused launches read them. */
#include "launch/launch.h"

const clq_param_info clq_param_table[CLQ_PARAM_COUNT_OF] = {
#define ROW(name, member, type, kernel_type)                                                                           \
    [CLQ_PARAM_##name] = {#member, kernel_type, offsetof(clq_step_params, member)},
    CLQ_STEP_PARAMS(ROW)
#undef ROW
};
