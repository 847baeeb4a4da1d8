/* State of replicas that each keep up their own: what was added up over them becomes their mean. */
#include "graph/plan.h"

static clq_status make_list(clq_weights *weights, unsigned replicas) {
    const clq_dtype dtype = clq_weights_dtype(weights, CLQ_ARENA_STATE);
    const size_t elements = clq_values_count(dtype, weights->apart_bytes);
    clq_element_program p = {.output_count = 1};
    const unsigned sum = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = dtype});
    p.outputs[0].from =
        clq_element_do(&p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = sum, .number = 1 / (double)replicas});
    CLQ_TRY(clq_list_create(weights->device, 1, &weights->mean));
    clq_list *list = weights->mean;
    clq_value state = clq_plan_value(list, "state", weights->state, 0, weights->apart_bytes);
    clq_list_scope(list, "state");
    clq_elementwise(list, "mean", &p,
                    &(clq_element_values){
                        .elements = elements, .channels = 1, .whole = true, .inputs = {state}, .outputs = {state}});
    clq_list_set_params(list, &(clq_step_params){.count = 1});
    return clq_list_bind(list);
}

clq_status clq_weights_mean_state(clq_weights *weights, clq_queue *queue, unsigned replicas) {
    if (!weights->mean) {
        clq_status status = make_list(weights, replicas);
        if (status != CLQ_OK) {
            clq_list_destroy(weights->mean);
            weights->mean = NULL;
            return status;
        }
    }
    return clq_list_run(weights->mean, queue, 0, clq_list_launch_count(weights->mean));
}
