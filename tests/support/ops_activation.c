#include "support/ops_activation.h"

static unsigned take_floats(clq_element_program *p) {
    return clq_element_take(p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
}

/* Applies the links to register at[0]; at[i + 1] is the register behind link i. Returns the last register. */
static unsigned go_forth(clq_element_program *p, const activation_chain *chain, unsigned at[CHAIN_LINKS_MOST + 1]) {
    for (unsigned i = 0; i < chain->count; i++) at[i + 1] = clq_activation_do(p, chain->links[i], at[i]);
    return at[chain->count];
}

void activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x,
                        clq_value y) {
    if (act == CLQ_ACTIVATION_SOFTMAX) {
        clq_softmax_forward(list, elements, channels, x, y);
        return;
    }
    const activation_chain one = {.count = act != CLQ_ACTIVATION_LINEAR, .links = {act}};
    chain_forward(list, &one, elements, x, y);
}

void chain_forward(clq_list *list, const activation_chain *chain, size_t elements, clq_value x, clq_value y) {
    if (chain->count == 0 && x == y) return;
    clq_element_program p = {.output_count = 1};
    unsigned at[CHAIN_LINKS_MOST + 1] = {take_floats(&p)};
    p.outputs[0].from = go_forth(&p, chain, at);
    const clq_element_values values = {.elements = elements, .channels = 1, .inputs = {x}, .outputs = {y}};
    clq_elementwise(list, "forward", &p, &values);
}

static unsigned slope(clq_element_program *p, clq_activation act, unsigned y, unsigned gradient) {
    return clq_element_do(p, (clq_instruction){.op = clq_activation_row_of(act)->slope, .a = y, .b = gradient});
}

/* Returns the register with the gradient before the activation. inputs: what the program reads, in the order of its
 * inputs. */
static unsigned go_back(clq_element_program *p, const activation_chain *chain, clq_activation act, clq_value y,
                        clq_value dy, clq_value inputs[2]) {
    unsigned at[CHAIN_LINKS_MOST + 1] = {0};
    const bool linear = act == CLQ_ACTIVATION_LINEAR && chain->count == 0; /* y is not read */
    if (!linear) {
        inputs[p->input_count] = y;
        at[0] = take_floats(p);
        (void)go_forth(p, chain, at);
    }
    inputs[p->input_count] = dy;
    unsigned gradient = take_floats(p);
    for (unsigned i = chain->count; i-- > 0;) gradient = slope(p, chain->links[i], at[i + 1], gradient);
    return act == CLQ_ACTIVATION_LINEAR ? gradient : slope(p, act, at[0], gradient);
}

void activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                         clq_value dy, clq_value dz, clq_value db) {
    static const activation_chain none;
    if (act == CLQ_ACTIVATION_SOFTMAX)
        clq_softmax_backward(list, elements, channels, y, dy, dz, db);
    else
        chain_backward(list, &none, act, elements, channels, y, dy, dz, db);
}

void chain_backward(clq_list *list, const activation_chain *chain, clq_activation act, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value dz, clq_value db) {
    clq_element_program p = {.sum_count = db != CLQ_NO_VALUE};
    clq_element_values values = {.elements = elements, .channels = channels, .outputs = {dz}, .sums = {db}};
    const unsigned gradient = go_back(&p, chain, act, y, dy, values.inputs);
    const bool store = dz != CLQ_NO_VALUE && !(gradient == 0 && dz == dy); /* an unchanged gradient is already there */
    p.output_count = store;
    p.outputs[0].from = p.sums[0] = gradient;
    if (p.output_count + p.sum_count > 0) clq_elementwise(list, "backward", &p, &values);
}
