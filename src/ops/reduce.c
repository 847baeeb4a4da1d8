/* Means over positions. */
#include "ops/cut.h"

enum { COLUMNS_MOST = 32 }; /* packs that a work-group reads side by side */

void clq_reduce_mean(clq_list *list, size_t positions, size_t channels, clq_value x, clq_value y) {
    double in = (double)(positions * channels), out = (double)channels, capacity = clq_list_capacity(list);
    double bytes = (in + out) * sizeof(float);
    clq_cut cut = clq_cut_make(list, bytes * capacity, in * capacity / 4, 256);
    size_t width = clq_cut_pack(&cut, channels), packs = channels / width, columns = 1;
    while (columns < packs && columns < CLQ_MIN((size_t)COLUMNS_MOST, cut.group)) columns *= 2;
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, " -DWIDTH=%zu -DCOLUMNS=%zu", width, columns);
    clq_launch_begin(list, "forward", "reduce", options, "reduce_mean");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(positions));
    clq_launch_int(list, clq_cut_int(packs));
    clq_launch_local(list, cut.group * width * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, in + out, 0, bytes);
}

void clq_reduce_mean_backward(clq_list *list, size_t positions, size_t channels, clq_value dy, clq_value dx) {
    clq_element_program p = {.output_count = 1};
    unsigned slope =
        clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_SAMPLE_AND_CHANNEL, .dtype = CLQ_F32});
    clq_instruction share = {.op = CLQ_ELEMENT_SCALE, .a = slope, .number = 1 / (double)positions};
    p.outputs[0].from = clq_element_do(&p, share);
    const clq_element_values values = {
        .elements = positions * channels, .channels = channels, .inputs = {dy}, .outputs = {dx}};
    clq_elementwise(list, "backward", &p, &values);
}
