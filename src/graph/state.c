/* Means over replicas of variables that each replica updates for itself. State is summed first and then divided by the
 * number of replicas; parameters are weighted first and then summed. */
#include "graph/plan.h"

static clq_status make_mean(clq_weights *weights, unsigned replicas) {
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

/* If making the list failed, destroys what was made of it. */
static clq_status keep_whole(clq_list **list, clq_status made) {
    if (made == CLQ_OK) return CLQ_OK;
    clq_list_destroy(*list);
    *list = NULL;
    return made;
}

clq_status clq_weights_mean_state(clq_weights *weights, clq_queue *queue, unsigned replicas) {
    if (weights->mean && weights->mean_of != replicas) {
        CLQ_TRY(clq_queue_finish(queue));
        clq_list_destroy(weights->mean);
        weights->mean = NULL;
    }
    if (!weights->mean) CLQ_TRY(keep_whole(&weights->mean, make_mean(weights, replicas)));
    weights->mean_of = replicas;
    return clq_list_run(weights->mean, queue, 0, clq_list_launch_count(weights->mean));
}

static clq_status make_weigh(clq_weights *weights) {
    CLQ_TRY(clq_list_create(weights->device, 1, &weights->weigh));
    clq_list *list = weights->weigh;
    clq_list_scope(list, "parameters");
    clq_weigh(list, clq_values_count(clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS), weights->arena_bytes),
              clq_plan_whole_value(list, "parameters", weights->parameters));
    return clq_list_bind(list);
}

clq_status clq_weights_weigh(clq_weights *weights, clq_queue *queue, float share) {
    if (!weights->weigh) CLQ_TRY(keep_whole(&weights->weigh, make_weigh(weights)));
    clq_list_set_params(weights->weigh, &(clq_step_params){.count = 1, .scale = share});
    return clq_list_run(weights->weigh, queue, 0, clq_list_launch_count(weights->weigh));
}
