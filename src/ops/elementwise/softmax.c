/* Softmax over rows, and its backward pass. */
#include "ops/elementwise/cut.h"

static void softmax(clq_list *list, const char *label, const char *function, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value out) {
    bool backward = dy != CLQ_NO_VALUE;
    double n = (double)elements, bytes = n * sizeof(float) * (backward ? 3 : 2), capacity = clq_list_capacity(list);
    size_t group = channels > 64 ? 256 : 64, rows = elements / channels;
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(rows * group) * capacity, group);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, label, "loss", options.text, function);
    clq_launch_value(list, y, CLQ_READS);
    if (backward) clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, out, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, elements, channels);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, n * (backward ? 4 : 12), 0, bytes);
}

void clq_softmax_forward(clq_list *list, size_t elements, size_t channels, clq_value x, clq_value y) {
    softmax(list, "forward", "softmax_forward", elements, channels, x, CLQ_NO_VALUE, y);
}

static void add_sums(clq_list *list, size_t elements, size_t channels, clq_value x, clq_value sums) {
    clq_element_program p = {.sum_count = 1};
    p.sums[0] = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
    const clq_element_values values = {.elements = elements, .channels = channels, .inputs = {x}, .sums = {sums}};
    clq_elementwise(list, "backward", &p, &values);
}

void clq_softmax_backward(clq_list *list, size_t elements, size_t channels, clq_value y, clq_value dy, clq_value dx,
                          clq_value db) {
    if (dx == CLQ_NO_VALUE) dx = clq_list_scratch(list, "softmax gradient", CLQ_F32, 0, elements);
    softmax(list, "backward", "softmax_backward", elements, channels, y, dy, dx);
    if (db != CLQ_NO_VALUE) add_sums(list, elements, channels, dx, db);
}
