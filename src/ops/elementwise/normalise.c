/* Batch normalisation: elementwise programs over samples, with sums over rows. Between them run small kernels, whose
 * items take channels. */
#include "ops/elementwise/cut.h"

enum { MEAN_ROW, RATE_ROW, SCALE_ROW }; /* of the statistics, as in cl/normalise.cl */

/* Takes a number per element, in the type in which x is stored. */
static unsigned take_floats(const clq_list *list, clq_element_program *p, clq_value x) {
    return clq_element_take(p,
                            (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = clq_list_storage(list, x)});
}

static unsigned take_row(clq_element_program *p, unsigned row) {
    return clq_element_take(p, (struct clq_element_input){.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32, .row = row});
}

static unsigned join(clq_element_program *p, clq_element_op op, unsigned a, unsigned b) {
    return clq_element_do(p, (clq_instruction){.op = op, .a = a, .b = b});
}

/* values: the program's inputs, outputs and sums. */
static void add_program(clq_list *list, const char *label, const clq_normalise_problem *p,
                        const clq_element_program *program, clq_element_values values) {
    values.elements = p->positions * p->channels;
    values.channels = p->channels;
    clq_elementwise(list, label, program, &values);
}

static clq_value scratch_row(clq_list *list, const clq_normalise_problem *p, const char *name) {
    return clq_list_scratch(list, name, CLQ_F32, p->channels, 0);
}

/* Begins a launch whose items take channels. The caller adds the arguments, and then calls end_channels. x: the samples
 * that the kernel reads, or none. */
static clq_cut begin_channels(clq_list *list, const clq_normalise_problem *p, const char *label, const char *function,
                              bool gamma, clq_value x) {
    clq_cut cut = clq_cut_make(list, 0, (double)p->channels, 64);
    clq_kernel_options options = clq_cut_options(&cut, "%s", gamma ? " -DGAMMA" : "");
    clq_options_storage(&options, list, "X", x);
    clq_launch_begin(list, label, "normalise", options.text, function);
    return cut;
}

/* rows: how many numbers the kernel reads and writes for each channel. */
static void end_channels(clq_list *list, const clq_normalise_problem *p, const clq_cut *cut, double rows) {
    clq_cut_work(list, cut);
    clq_launch_cost(list, (double)p->channels * rows * 2, 0, (double)p->channels * rows * sizeof(float), 0);
}

void clq_normalise_moments(clq_list *list, const clq_normalise_problem *p, clq_value x, unsigned rank, unsigned ranks,
                           clq_value moments) {
    clq_element_program program = {.sum_count = 2};
    unsigned number = take_floats(list, &program, x), pivot = take_row(&program, 0);
    program.inputs[1].dtype = program.inputs[0].dtype; /* the pivot is x's first row */
    program.sums[0] = join(&program, CLQ_ELEMENT_SUBTRACT, number, pivot);
    program.sums[1] = clq_element_do(&program, (clq_instruction){.op = CLQ_ELEMENT_SQUARE, .a = program.sums[0]});
    const clq_value sums = scratch_row(list, p, "sums"), squares = scratch_row(list, p, "square sums");
    add_program(list, "sums", p, &program, (clq_element_values){.inputs = {x, x}, .sums = {sums, squares}});
    clq_cut cut = begin_channels(list, p, "moments", "normalise_moments", false, x);
    CLQ_LAUNCH_READS(list, x, sums, squares);
    clq_launch_value(list, moments, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->positions, p->channels, rank, ranks);
    end_channels(list, p, &cut, 3 + CLQ_MOMENTS_ROWS * (double)ranks);
}

void clq_normalise_statistics(clq_list *list, const clq_normalise_problem *p, clq_value moments, unsigned ranks,
                              clq_value gamma, clq_value moving_mean, clq_value moving_variance, clq_value statistics) {
    clq_cut cut = begin_channels(list, p, "statistics", "normalise_statistics", gamma != CLQ_NO_VALUE, CLQ_NO_VALUE);
    CLQ_LAUNCH_READS(list, moments, gamma);
    clq_launch_value(list, moving_mean, CLQ_READS_WRITES);
    clq_launch_value(list, moving_variance, CLQ_READS_WRITES);
    clq_launch_value(list, statistics, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, p->channels, ranks);
    clq_launch_float(list, (float)p->epsilon);
    clq_launch_float(list, (float)p->momentum);
    clq_launch_float(list, (float)(1 - p->momentum)); /* rounded once, after the subtraction */
    end_channels(list, p, &cut, 5 + CLQ_STATISTICS_ROWS + CLQ_MOMENTS_ROWS * (double)ranks);
}

void clq_normalise_moving(clq_list *list, const clq_normalise_problem *p, clq_value gamma, clq_value moving_mean,
                          clq_value moving_variance, clq_value statistics) {
    clq_cut cut = begin_channels(list, p, "statistics", "normalise_moving", gamma != CLQ_NO_VALUE, CLQ_NO_VALUE);
    CLQ_LAUNCH_READS(list, moving_mean, moving_variance, gamma);
    clq_launch_value(list, statistics, CLQ_WRITES);
    clq_launch_size(list, p->channels);
    clq_launch_float(list, (float)p->epsilon);
    end_channels(list, p, &cut, 3 + CLQ_STATISTICS_ROWS);
}

/* Subtracts the mean first. With a large mean, scale * x - scale * mean would leave only rounding errors. */
void clq_normalise_forward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value statistics,
                           clq_value beta, clq_value y) {
    clq_element_program program = {.output_count = 1};
    unsigned number = take_floats(list, &program, x), mean = take_row(&program, MEAN_ROW),
             scale = take_row(&program, SCALE_ROW);
    unsigned apart = join(&program, CLQ_ELEMENT_SUBTRACT, number, mean);
    unsigned result = join(&program, CLQ_ELEMENT_MULTIPLY, apart, scale);
    if (beta != CLQ_NO_VALUE) result = join(&program, CLQ_ELEMENT_ADD, result, take_row(&program, 0));
    program.outputs[0].from = result;
    program.outputs[0].dtype = clq_list_storage(list, y);
    add_program(list, "forward", p, &program,
                (clq_element_values){.inputs = {x, statistics, statistics, beta}, .outputs = {y}});
}

void clq_normalise_gradients(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                             clq_value statistics, clq_value dgamma, clq_value dbeta) {
    clq_element_program program = {.sum_count = 2};
    unsigned number = take_floats(list, &program, x), slope = take_floats(list, &program, dy);
    unsigned mean = take_row(&program, MEAN_ROW), rate = take_row(&program, RATE_ROW);
    unsigned apart = join(&program, CLQ_ELEMENT_SUBTRACT, number, mean);
    unsigned normal = join(&program, CLQ_ELEMENT_MULTIPLY, apart, rate);
    program.sums[0] = join(&program, CLQ_ELEMENT_MULTIPLY, slope, normal);
    program.sums[1] = slope;
    add_program(list, "gradients", p, &program,
                (clq_element_values){.inputs = {x, dy, statistics, statistics}, .sums = {dgamma, dbeta}});
}

void clq_normalise_corrections(clq_list *list, const clq_normalise_problem *p, clq_value statistics, clq_value dgamma,
                               clq_value dbeta, clq_value corrections) {
    clq_cut cut = begin_channels(list, p, "corrections", "normalise_corrections", false, CLQ_NO_VALUE);
    CLQ_LAUNCH_READS(list, statistics, dgamma, dbeta);
    clq_launch_value(list, corrections, CLQ_WRITES);
    clq_launch_size(list, p->channels);
    end_channels(list, p, &cut, 4 + CLQ_CORRECTIONS_ROWS);
}

void clq_normalise_backward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                            clq_value statistics, clq_value corrections, clq_value dx) {
    clq_element_program program = {.output_count = 1};
    unsigned number = take_floats(list, &program, x), slope = take_floats(list, &program, dy);
    unsigned mean = take_row(&program, MEAN_ROW), scale = take_row(&program, SCALE_ROW);
    unsigned of_mean = take_row(&program, 0), of_variance = take_row(&program, 1);
    unsigned apart = join(&program, CLQ_ELEMENT_SUBTRACT, number, mean);
    unsigned bend = join(&program, CLQ_ELEMENT_MULTIPLY, apart, of_variance);
    unsigned rest = join(&program, CLQ_ELEMENT_SUBTRACT, slope, of_mean);
    unsigned sum = join(&program, CLQ_ELEMENT_SUBTRACT, rest, bend);
    program.outputs[0].from = join(&program, CLQ_ELEMENT_MULTIPLY, sum, scale);
    program.outputs[0].dtype = clq_list_storage(list, dx);
    add_program(
        list, "backward", p, &program,
        (clq_element_values){.inputs = {x, dy, statistics, statistics, corrections, corrections}, .outputs = {dx}});
}
