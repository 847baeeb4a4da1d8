/* Activations, chains of them, and their backward pass with the sums over rows that are the gradients of biases:
 * elementwise programs, but for softmax, which works on rows. */
#include "ops/elementwise/cut.h"

#include <assert.h>

static void softmax(clq_list *list, const char *label, const char *function, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value out) {
    bool backward = dy != CLQ_NO_VALUE;
    double n = (double)elements, bytes = n * sizeof(float) * (backward ? 3 : 2), capacity = clq_list_capacity(list);
    size_t group = channels > 64 ? 256 : 64, rows = elements / channels;
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(rows * group) * capacity, group);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s", "");
    clq_launch_begin(list, label, "loss", options, function);
    clq_launch_value(list, y, CLQ_READS);
    if (backward) clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, out, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_launch_int(list, clq_cut_int(channels));
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, n * (backward ? 4 : 12), 0, bytes);
}

/* ---- chains as programs ---- */

static const clq_element_op forth[] = {
    [CLQ_RELU] = CLQ_ELEMENT_RELU, [CLQ_SIGMOID] = CLQ_ELEMENT_SIGMOID, [CLQ_TANH] = CLQ_ELEMENT_TANH};
static const clq_element_op back[] = {[CLQ_RELU] = CLQ_ELEMENT_RELU_SLOPE,
                                      [CLQ_SIGMOID] = CLQ_ELEMENT_SIGMOID_SLOPE,
                                      [CLQ_TANH] = CLQ_ELEMENT_TANH_SLOPE};

static unsigned take_floats(clq_element_program *p) {
    return clq_element_take(p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
}

/* The registers behind each link; at[0] goes in. The last. */
static unsigned go_forth(clq_element_program *p, const clq_chain *chain, unsigned at[CLQ_CHAIN_LINKS_MOST + 1]) {
    for (unsigned i = 0; i < chain->count; i++)
        at[i + 1] = clq_element_do(p, (clq_instruction){.op = forth[chain->links[i]], .a = at[i]});
    return at[chain->count];
}

void clq_activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x,
                            clq_value y) {
    if (act == CLQ_SOFTMAX) {
        softmax(list, "forward", "softmax_forward", elements, channels, x, CLQ_NO_VALUE, y);
        return;
    }
    const clq_chain one = {.count = act != CLQ_LINEAR, .links = {act}};
    clq_chain_forward(list, &one, elements, x, y);
}

void clq_chain_forward(clq_list *list, const clq_chain *chain, size_t elements, clq_value x, clq_value y) {
    if (chain->count == 0 && x == y) return;
    clq_element_program p = {.output_count = 1};
    unsigned at[CLQ_CHAIN_LINKS_MOST + 1] = {take_floats(&p)};
    p.outputs[0].from = go_forth(&p, chain, at);
    const clq_element_values values = {.elements = elements, .channels = 1, .inputs = {x}, .outputs = {y}};
    clq_elementwise(list, "forward", &p, &values);
}

/* The register with the gradient before the activation; what is read in the order of the program's inputs. */
static unsigned go_back(clq_element_program *p, const clq_chain *chain, clq_activation act, clq_value y, clq_value dy,
                        clq_value inputs[2]) {
    unsigned at[CLQ_CHAIN_LINKS_MOST + 1] = {0};
    bool linear = act == CLQ_LINEAR && chain->count == 0; /* has no y */
    if (!linear) {
        inputs[p->input_count] = y;
        at[0] = take_floats(p);
        (void)go_forth(p, chain, at);
    }
    inputs[p->input_count] = dy;
    unsigned gradient = take_floats(p);
    for (unsigned i = chain->count; i-- > 0;)
        gradient = clq_element_do(p, (clq_instruction){.op = back[chain->links[i]], .a = at[i + 1], .b = gradient});
    if (act != CLQ_LINEAR) gradient = clq_element_do(p, (clq_instruction){.op = back[act], .a = at[0], .b = gradient});
    return gradient;
}

void clq_activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                             clq_value dy, clq_value dz, clq_value db) {
    static const clq_chain none;
    clq_chain_backward(list, &none, act, elements, channels, y, dy, dz, db);
}

void clq_chain_backward(clq_list *list, const clq_chain *chain, clq_activation act, size_t elements, size_t channels,
                        clq_value y, clq_value dy, clq_value dz, clq_value db) {
    assert(act != CLQ_SOFTMAX || chain->count == 0);
    if (act == CLQ_SOFTMAX) {
        if (dz == CLQ_NO_VALUE)
            dz = clq_list_value(list, CLQ_VALUE_SCRATCH, "softmax gradient", 0, elements * sizeof(float));
        softmax(list, "backward", "softmax_backward", elements, channels, y, dy, dz);
        act = CLQ_LINEAR; /* what is left are the sums */
        dy = dz;
    }
    clq_element_program p = {.sum_count = db != CLQ_NO_VALUE};
    clq_element_values values = {.elements = elements, .channels = channels, .outputs = {dz}, .sums = {db}};
    unsigned gradient = go_back(&p, chain, act, y, dy, values.inputs);
    bool store = dz != CLQ_NO_VALUE && !(gradient == 0 && dz == dy); /* a gradient that goes through is there */
    p.output_count = store;
    p.outputs[0].from = p.sums[0] = gradient;
    if (p.output_count + p.sum_count > 0) clq_elementwise(list, "backward", &p, &values);
}
