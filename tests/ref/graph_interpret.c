#include "ref/graph_interpret.h"

#include "ref/ref_elementwise.h"
#include "ref/ref_product.h"
#include "ref/ref_recurrent.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

typedef struct interpreter {
    const clq_graph *graph;
    const ref_inputs *inputs;
    double **memory; /* by value */
} interpreter;

static size_t numbers_of(const interpreter *r, clq_id id) {
    const clq_graph_value *value = clq_graph_value_at(r->graph, id);
    return value->per_sample ? r->inputs->count * value->elements : value->elements;
}
static size_t rows_of(const interpreter *r, clq_id id, size_t *channels) {
    const clq_shape *shape = &clq_graph_value_at(r->graph, id)->shape;
    *channels = shape->dims[shape->rank - 1];
    return numbers_of(r, id) / *channels;
}

/* NULL for a value that does not exist (id 0). */
static double *at(const interpreter *r, clq_id id) { return id ? r->memory[id] : NULL; }
static double *in(const interpreter *r, const clq_node *node, unsigned i) { return at(r, node->inputs[i]); }
static double *out(const interpreter *r, const clq_node *node, unsigned i) { return at(r, node->outputs[i]); }

static double *numbers(size_t count) {
    double *memory = calloc(count ? count : 1, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static void activate(const interpreter *r, const clq_node *node, unsigned output, clq_activation activation) {
    size_t channels, rows = rows_of(r, node->outputs[output], &channels);
    double *y = out(r, node, output), *z = numbers(rows * channels);
    memcpy(z, y, rows * channels * sizeof *z);
    ref_activation(activation, rows, channels, z, y);
    free(z);
}

/* ---- derivatives of activations, computed from their outputs ---- */

static double slope(clq_activation activation, double y) {
    switch (activation) {
    case CLQ_ACTIVATION_RELU: return y > 0 ? 1 : 0;
    case CLQ_ACTIVATION_SIGMOID: return y * (1 - y);
    case CLQ_ACTIVATION_TANH: return 1 - y * y;
    default: return 1;
    }
}

static void softmax_slopes(size_t rows, size_t channels, const double *y, const double *dy, double *dz) {
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t c = 0; c < channels; c++) sum += dy[i * channels + c] * y[i * channels + c];
        for (size_t c = 0; c < channels; c++) dz[i * channels + c] = y[i * channels + c] * (dy[i * channels + c] - sum);
    }
}

static void softmax_gradient(const interpreter *r, const clq_node *node) {
    size_t channels, rows = rows_of(r, node->inputs[1], &channels);
    double *dz = numbers(rows * channels), *db = out(r, node, 1);
    softmax_slopes(rows, channels, in(r, node, 0), in(r, node, 1), dz);
    for (size_t i = 0; db && i < rows * channels; i++) db[i % channels] += dz[i];
    memcpy(out(r, node, 0), dz, rows * channels * sizeof *dz);
    free(dz);
}

/* ---- products and pools ---- */

static void dense(const interpreter *r, const clq_node *node) {
    const clq_dense_problem *p = &node->attributes.dense;
    ref_dense(p, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2), out(r, node, 0));
    activate(r, node, 0, p->activation);
}
static void conv2d(const interpreter *r, const clq_node *node) {
    const clq_conv2d_problem *p = &node->attributes.conv2d;
    ref_conv2d(p, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2), out(r, node, 0));
    activate(r, node, 0, p->activation);
}

static void grouped(const interpreter *r, const clq_node *node) {
    const clq_grouped_problem *p = &node->attributes.grouped;
    ref_grouped(p, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2), out(r, node, 0));
    activate(r, node, 0, p->conv.activation);
}

/* Computes both gradients, even if only one is wanted. */
static void grouped_gradient(const interpreter *r, const clq_node *node) {
    double *dx = numbers(numbers_of(r, node->inputs[0])), *dw = numbers(numbers_of(r, node->inputs[1]));
    ref_grouped_gradients(&node->attributes.grouped, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2),
                          dx, dw);
    if (out(r, node, 0)) memcpy(out(r, node, 0), dx, numbers_of(r, node->inputs[0]) * sizeof *dx);
    if (out(r, node, 1)) memcpy(out(r, node, 1), dw, numbers_of(r, node->inputs[1]) * sizeof *dw);
    free(dx);
    free(dw);
}

/* A transposed convolution is the gradient of a convolution by its input. It does not depend on that input's values. */
static void conv2d_transpose(const interpreter *r, const clq_node *node) {
    const size_t images = numbers_of(r, node->outputs[0]), weights = numbers_of(r, node->inputs[1]);
    double *nothing = numbers(images), *dw = numbers(weights);
    ref_conv2d_gradients(&node->attributes.conv2d, r->inputs->count, nothing, in(r, node, 1), in(r, node, 0),
                         out(r, node, 0), dw);
    free(nothing);
    free(dw);
}
static void conv2d_transpose_gradient(const interpreter *r, const clq_node *node) {
    const clq_conv2d_problem *p = &node->attributes.conv2d;
    double *dx = numbers(numbers_of(r, node->inputs[2])), *dw = numbers(numbers_of(r, node->inputs[1]));
    if (out(r, node, 0)) ref_conv2d(p, r->inputs->count, in(r, node, 2), in(r, node, 1), NULL, out(r, node, 0));
    ref_conv2d_gradients(p, r->inputs->count, in(r, node, 2), in(r, node, 1), in(r, node, 0), dx, dw);
    if (out(r, node, 1)) memcpy(out(r, node, 1), dw, numbers_of(r, node->inputs[1]) * sizeof *dw);
    free(dx);
    free(dw);
}

/* Adds `more` to the gradient in memory and multiplies the sum by sum_factor. If that is 0, overwrites the gradient. */
static void accumulate(const interpreter *r, clq_id id, const double *more) {
    const double factor = r->inputs->sum_factor;
    for (size_t i = 0; i < numbers_of(r, id); i++)
        at(r, id)[i] = factor == 0 ? more[i] : factor * (at(r, id)[i] + more[i]);
}

/* The references always write both gradients, so both get memory. */
static void product_gradient(const interpreter *r, const clq_node *node, bool conv, bool adds, const void *p, clq_id x,
                             clq_id w, const double *dz) {
    double *dx = numbers(numbers_of(r, x)), *dw = numbers(numbers_of(r, w));
    (conv ? ref_conv2d_gradients(p, r->inputs->count, at(r, x), at(r, w), dz, dx, dw)
          : ref_dense_gradients(p, r->inputs->count, at(r, x), at(r, w), dz, dx, dw));
    if (out(r, node, 0)) memcpy(out(r, node, 0), dx, numbers_of(r, x) * sizeof *dx);
    if (adds)
        accumulate(r, node->outputs[1], dw);
    else if (out(r, node, 1))
        memcpy(out(r, node, 1), dw, numbers_of(r, w) * sizeof *dw);
    free(dx);
    free(dw);
}

/* winners, if not NULL, takes the place of each maximum in its window, as a double like any other value. */
static void pool2d(const interpreter *r, const clq_pool2d_problem *p, const double *x, double *y, double *winners) {
    size_t outputs = r->inputs->count * p->out_h * p->out_w * p->channels;
    int *places = calloc(outputs ? outputs : 1, sizeof *places);
    assert_non_null(places);
    ref_pool2d(p, r->inputs->count, x, y, places);
    for (size_t i = 0; winners && i < outputs; i++) winners[i] = places[i];
    free(places);
}

/* A maximum's gradient goes where `winners` says, without another look at x or y. */
static void unpool(const interpreter *r, const clq_pool2d_problem *p, const double *dz, const double *winners,
                   double *dx) {
    size_t inputs = p->in_h * p->in_w * p->channels, outputs = p->out_h * p->out_w * p->channels;
    double *x = numbers(inputs);
    for (size_t n = 0; n < r->inputs->count; n++) {
        if (p->average) {
            ref_pool2d_gradient(p, 1, x, dz + n * outputs, dx + n * inputs);
            continue;
        }
        for (size_t o = 0; o < outputs; o++) {
            size_t place = (size_t)winners[n * outputs + o], c = o % p->channels, w = o / p->channels % p->out_w,
                   h = o / p->channels / p->out_w;
            size_t row = h * p->stride_h + place / p->size_w - p->pad_top;
            size_t column = w * p->stride_w + place % p->size_w - p->pad_left;
            dx[n * inputs + (row * p->in_w + column) * p->channels + c] += dz[n * outputs + o];
        }
    }
    free(x);
}

static void pool2d_gradient(const interpreter *r, const clq_node *node) {
    const clq_pool2d_problem *p = &node->attributes.pool2d;
    size_t outputs = numbers_of(r, node->inputs[1]);
    double *dz = numbers(outputs);
    const double *y = in(r, node, 0), *dy = in(r, node, 1);
    for (size_t i = 0; i < outputs; i++) dz[i] = dy[i] * (y ? slope(p->activation, y[i]) : 1);
    unpool(r, p, dz, in(r, node, 2), out(r, node, 0));
    free(dz);
}

static void conv_pool(const interpreter *r, const clq_node *node) {
    const clq_conv_pool_problem *p = &node->attributes.conv_pool;
    size_t between = r->inputs->count * p->conv.out_h * p->conv.out_w * p->conv.out_c;
    double *z = numbers(between), *y = numbers(between);
    ref_conv2d(&p->conv, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2), z);
    ref_activation(p->conv.activation, between, 1, z, y);
    pool2d(r, &p->pool, y, out(r, node, 0), out(r, node, 1));
    free(z);
    free(y);
}
static void conv_pool_gradient(const interpreter *r, const clq_node *node) {
    const clq_conv_pool_problem *p = &node->attributes.conv_pool;
    double *dz = numbers(r->inputs->count * p->conv.out_h * p->conv.out_w * p->conv.out_c);
    unpool(r, &p->pool, in(r, node, 3), in(r, node, 4), dz);
    product_gradient(r, node, true, false, &p->conv, node->inputs[1], node->inputs[2], dz);
    free(dz);
}

/* ---- the loss ---- */

static void loss(const interpreter *r, const clq_node *node) {
    const clq_loss_problem *p = &node->attributes.loss.problem;
    const double *x = in(r, node, 0), *labels = in(r, node, 1), *mask = in(r, node, 3);
    const double part = mask ? *in(r, node, 4) / *in(r, node, 5) : 1;
    size_t rows = p->rows ? p->rows : 1, values = rows * p->classes;
    double *metrics = out(r, node, 0), *dx = out(r, node, 1), *target = numbers(values), totals[CLQ_METRICS_ROW_MAX];
    for (size_t n = 0; n < r->inputs->count; n++, x += values) {
        for (size_t i = 0; i < values; i++)
            target[i] = clq_loss_has_index(p) ? (double)(i % p->classes) == labels[n * rows + i / p->classes]
                                              : labels[n * values + i];
        const double *counts = mask ? mask + n * p->mask_steps : NULL;
        ref_totals(p, x, target, counts, part, totals);
        for (unsigned k = 0; k < clq_loss_totals(p); k++) metrics[k] += totals[k];
        if (!dx) continue;
        (void)ref_masked_loss(p, x, target, counts, part, dx + n * values);
        for (size_t i = 0; i < values; i++) dx[n * values + i] *= r->inputs->scale;
    }
    free(target);
}

/* Computes what a penalty adds to the totals of the loss (see give_metrics). */
static void penalty(const interpreter *r, const clq_node *node, bool gradient) {
    const struct clq_penalty_attributes *a = &node->attributes.penalty;
    assert_true(!node->inputs[1]);
    if (gradient)
        ref_penalty_gradient(&a->problem, r->inputs->count, r->inputs->scale, in(r, node, 0), out(r, node, 0));
    else
        out(r, node, 0)[0] = ref_penalty(&a->problem, r->inputs->count, in(r, node, 0)) / (double)a->weight;
}

/* ---- elementwise programs ---- */

static void elementwise(const interpreter *r, const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    const clq_graph_value *x = clq_graph_value_at(r->graph, clq_element_place(node));
    const double *inputs[CLQ_ELEMENT_INPUTS];
    double *outputs[CLQ_ELEMENT_OUTPUTS], *sums[CLQ_ELEMENT_SUMS];
    for (unsigned i = 0; i < p->input_count; i++) inputs[i] = in(r, node, i);
    for (unsigned i = 0; i < p->output_count; i++) outputs[i] = out(r, node, i);
    for (unsigned i = 0; i < p->sum_count; i++) sums[i] = out(r, node, (unsigned)p->output_count + i);
    ref_element_program(p, x->elements, x->shape.dims[x->shape.rank - 1], x->per_sample ? r->inputs->count : 1,
                        r->inputs->step, r->inputs->first_row, inputs, outputs, sums);
}

/* ---- batch normalisation: statistics are mean, 1 / deviation, gamma / deviation, 1 / rows, as the engine has them
 * ---- */

static void moments(const interpreter *r, const clq_node *node) {
    const clq_normalise_problem *p = &node->attributes.normalise.problem;
    const size_t rows = r->inputs->count * p->positions, n = p->channels;
    double *to = out(r, node, 0) + node->attributes.normalise.exchange.rank * CLQ_MOMENTS_ROWS * n;
    double *variance = numbers(n);
    ref_moments(rows, n, in(r, node, 0), to + n, variance);
    for (size_t c = 0; c < n; c++) {
        to[c] = (double)rows;
        to[2 * n + c] = variance[c] * (double)rows;
    }
    free(variance);
}

static void set_statistics(const interpreter *r, const clq_node *node, const double *gamma, size_t c, double mean,
                           double variance, double rows) {
    const clq_normalise_problem *p = &node->attributes.normalise.problem;
    double *to = out(r, node, 0) + c, scale = 1 / sqrt(variance + p->epsilon);
    to[0] = mean;
    to[p->channels] = scale;
    to[2 * p->channels] = scale * (gamma ? gamma[c] : 1);
    to[3 * p->channels] = rows > 0 ? 1 / rows : 0;
}

static void statistics(const interpreter *r, const clq_node *node) {
    const clq_normalise_problem *p = &node->attributes.normalise.problem;
    const double *m = in(r, node, 0) + node->attributes.normalise.exchange.rank * CLQ_MOMENTS_ROWS * p->channels;
    for (size_t c = 0; c < p->channels; c++) {
        const double rows = m[c], mean = m[p->channels + c], variance = m[2 * p->channels + c] / rows;
        set_statistics(r, node, in(r, node, 1), c, mean, variance, rows);
        out(r, node, 1)[c] = in(r, node, 2)[c] * p->momentum + mean * (1 - p->momentum);
        out(r, node, 2)[c] = in(r, node, 3)[c] * p->momentum + variance * (1 - p->momentum);
    }
}

static void moving_statistics(const interpreter *r, const clq_node *node) {
    for (size_t c = 0; c < node->attributes.normalise.problem.channels; c++)
        set_statistics(r, node, in(r, node, 0), c, in(r, node, 1)[c], in(r, node, 2)[c], 0);
}

static void normalise(const interpreter *r, const clq_node *node) {
    const size_t n = node->attributes.normalise.problem.channels, all = numbers_of(r, node->inputs[0]);
    const double *x = in(r, node, 0), *s = in(r, node, 1), *beta = in(r, node, 2);
    for (size_t i = 0; i < all; i++)
        out(r, node, 0)[i] = (x[i] - s[i % n]) * s[2 * n + i % n] + (beta ? beta[i % n] : 0);
}

static void normalise_sums(const interpreter *r, const clq_node *node) {
    const size_t n = node->attributes.normalise.problem.channels, all = numbers_of(r, node->inputs[0]);
    const double *x = in(r, node, 0), *dy = in(r, node, 1), *s = in(r, node, 2);
    for (size_t i = 0; i < all; i++) {
        out(r, node, 0)[i % n] += dy[i] * (x[i] - s[i % n]) * s[n + i % n];
        out(r, node, 1)[i % n] += dy[i];
    }
}

static void normalise_corrections(const interpreter *r, const clq_node *node) {
    const size_t n = node->attributes.normalise.problem.channels;
    const double *s = in(r, node, 0), *dgamma = in(r, node, 1), *dbeta = in(r, node, 2);
    for (size_t c = 0; c < n; c++) {
        out(r, node, 0)[c] = dbeta[c] * s[3 * n + c];
        out(r, node, 0)[n + c] = dgamma[c] * s[3 * n + c] * s[n + c];
    }
}

static void normalise_gradient(const interpreter *r, const clq_node *node) {
    const size_t n = node->attributes.normalise.problem.channels, all = numbers_of(r, node->inputs[0]);
    const double *x = in(r, node, 0), *dy = in(r, node, 1), *s = in(r, node, 2), *corrections = in(r, node, 3);
    for (size_t i = 0; i < all; i++) {
        const size_t c = i % n;
        out(r, node, 0)[i] = s[2 * n + c] * (dy[i] - corrections[c] - (x[i] - s[c]) * corrections[n + c]);
    }
}

static void row_norm_gradient(const interpreter *r, const clq_node *node) {
    const clq_row_norm_problem *p = &node->attributes.row_norm;
    const size_t channels = p->groups * p->width;
    double *dx = numbers(numbers_of(r, node->inputs[0])), *dgamma = numbers(channels), *dbeta = numbers(channels);
    double *const made[] = {dx, dgamma, dbeta};
    ref_row_norm_gradient(p, r->inputs->count, in(r, node, 0), in(r, node, 3), in(r, node, 1), dx, dgamma, dbeta);
    for (unsigned i = 0; i < 3; i++) {
        if (out(r, node, i)) memcpy(out(r, node, i), made[i], numbers_of(r, node->outputs[i]) * sizeof **made);
        free(made[i]);
    }
}

/* ---- recurrent cells ---- */

static void recurrent(const interpreter *r, const clq_node *node) {
    const ref_recurrent_values values = {.z = in(r, node, 0),
                                         .u = in(r, node, 1),
                                         .bias = in(r, node, 2),
                                         .h0 = in(r, node, 3),
                                         .c0 = in(r, node, 4),
                                         .mask = in(r, node, 5),
                                         .drops = in(r, node, 6),
                                         .y = out(r, node, 0),
                                         .h = out(r, node, 1),
                                         .c = out(r, node, 2),
                                         .before = out(r, node, 3),
                                         .kept = out(r, node, 4)};
    ref_recurrent(&node->attributes.recurrent, r->inputs->count, &values);
}
static void recurrent_gradient(const interpreter *r, const clq_node *node) {
    const ref_recurrent_slopes slopes = {.dy = in(r, node, 0),
                                         .dh = in(r, node, 1),
                                         .dc = in(r, node, 2),
                                         .u = in(r, node, 3),
                                         .kept = in(r, node, 4),
                                         .mask = in(r, node, 5),
                                         .drops = in(r, node, 6),
                                         .dz = out(r, node, 0),
                                         .dr = out(r, node, 1),
                                         .dboth = out(r, node, 2),
                                         .dh0 = out(r, node, 3),
                                         .dc0 = out(r, node, 4)};
    ref_recurrent_gradient(&node->attributes.recurrent, r->inputs->count, &slopes);
}

/* ---- repeats and concatenations ---- */

static void concatenate(const interpreter *r, const clq_node *node) {
    const clq_concatenation *p = &node->attributes.concatenation;
    double *to = out(r, node, 0);
    for (size_t row = 0; row < r->inputs->count * p->rows; row++)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            for (size_t e = 0; e < p->widths[i]; e++) *to++ = in(r, node, i)[row * p->widths[i] + e];
}
static void slice(const interpreter *r, const clq_node *node) {
    const clq_concatenation *p = &node->attributes.concatenation;
    const double *from = in(r, node, 0);
    double *to = out(r, node, 0);
    for (size_t row = 0; row < r->inputs->count * p->rows; row++)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            for (size_t e = 0; e < p->widths[i]; e++, from++)
                if (i == p->part) *to++ = *from;
}

static void place(const interpreter *r, const clq_node *node) {
    const clq_concatenation *p = &node->attributes.concatenation;
    const double *from = in(r, node, 0);
    double *to = out(r, node, 0);
    for (size_t row = 0; row < r->inputs->count * p->rows; row++)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            for (size_t e = 0; e < p->widths[i]; e++) *to++ = i == p->part ? *from++ : 0;
}

/* ---- all ---- */

static void copy(const interpreter *r, const clq_node *node, double factor) {
    for (size_t i = 0; i < numbers_of(r, node->outputs[0]); i++) out(r, node, 0)[i] = in(r, node, 0)[i] * factor;
}

/* The sum of squares of each variable's gradient. Several values may be the gradient of one variable: the last one
 * counts. */
static void squares(const interpreter *r, double *sums) {
    for (clq_id id = 1; id <= r->graph->value_count; id++) {
        const clq_graph_value *value = clq_graph_value_at(r->graph, id);
        if (value->home != CLQ_HOME_GRADIENT) continue;
        sums[value->index] = 0;
        for (size_t i = 0; i < numbers_of(r, id); i++) sums[value->index] += r->memory[id][i] * r->memory[id][i];
    }
}

static void run_node(const interpreter *r, const clq_node *node) {
    const clq_operation *op = node->op;
    if (op == &clq_op_scale_bytes) {
        copy(r, node, (double)node->attributes.factor);
    } else if (op == &clq_op_reshape || op == &clq_op_all_reduce || op == &clq_op_fan_out ||
               op == &clq_op_stop_gradient || op == &clq_op_scale_gradient) {
        copy(r, node, 1);
    } else if (op == &clq_op_elementwise) {
        elementwise(r, node);
    } else if (op == &clq_op_moments) {
        moments(r, node);
    } else if (op == &clq_op_statistics) {
        statistics(r, node);
    } else if (op == &clq_op_moving_statistics) {
        moving_statistics(r, node);
    } else if (op == &clq_op_normalise) {
        normalise(r, node);
    } else if (op == &clq_op_normalise_sums) {
        normalise_sums(r, node);
    } else if (op == &clq_op_normalise_corrections) {
        normalise_corrections(r, node);
    } else if (op == &clq_op_normalise_gradient) {
        normalise_gradient(r, node);
    } else if (op == &clq_op_repeat) {
        ref_repeat(&node->attributes.repeat, r->inputs->count, in(r, node, 0), out(r, node, 0));
    } else if (op == &clq_op_reduce) {
        ref_reduce_axis(&node->attributes.repeat, r->inputs->count, in(r, node, 0), out(r, node, 0));
    } else if (op == &clq_op_arrange) {
        const clq_graph_value *x = clq_graph_value_at(r->graph, node->inputs[0]);
        ref_arrange(&node->attributes.arrangement, x->per_sample ? r->inputs->count : 1, x->elements, in(r, node, 0),
                    out(r, node, 0));
    } else if (op == &clq_op_row_norm) {
        ref_row_norm(&node->attributes.row_norm, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2),
                     out(r, node, 0), out(r, node, 1));
    } else if (op == &clq_op_row_norm_gradient) {
        row_norm_gradient(r, node);
    } else if (op == &clq_op_batched) {
        ref_batched(&node->attributes.batched, r->inputs->count, in(r, node, 0), in(r, node, 1), out(r, node, 0));
    } else if (op == &clq_op_attention) {
        ref_attention(&node->attributes.attention, r->inputs->count, in(r, node, 0), in(r, node, 1), in(r, node, 2),
                      in(r, node, 3), out(r, node, 0));
    } else if (op == &clq_op_gather) {
        ref_gather(&node->attributes.gather, r->inputs->count, in(r, node, 0), in(r, node, 1), out(r, node, 0));
    } else if (op == &clq_op_gather_gradient) {
        ref_gather_gradient(&node->attributes.gather, r->inputs->count, in(r, node, 0), in(r, node, 1),
                            out(r, node, 0));
    } else if (op == &clq_op_recurrent) {
        recurrent(r, node);
    } else if (op == &clq_op_recurrent_gradient) {
        recurrent_gradient(r, node);
    } else if (op == &clq_op_grouped) {
        grouped(r, node);
    } else if (op == &clq_op_grouped_gradient) {
        grouped_gradient(r, node);
    } else if (op == &clq_op_conv2d_transpose) {
        conv2d_transpose(r, node);
    } else if (op == &clq_op_conv2d_transpose_gradient) {
        conv2d_transpose_gradient(r, node);
    } else if (op == &clq_op_concatenate) {
        concatenate(r, node);
    } else if (op == &clq_op_slice) {
        slice(r, node);
    } else if (op == &clq_op_place) {
        place(r, node);
    } else if (op == &clq_op_dense) {
        dense(r, node);
    } else if (op == &clq_op_conv2d) {
        conv2d(r, node);
    } else if (op == &clq_op_pool2d) {
        pool2d(r, &node->attributes.pool2d, in(r, node, 0), out(r, node, 0), out(r, node, 1));
        activate(r, node, 0, node->attributes.pool2d.activation);
    } else if (op == &clq_op_frames) {
        /* Only kernels need frames: the reference's gradient reads the images. */
    } else if (op == &clq_op_conv_pool) {
        conv_pool(r, node);
    } else if (op == &clq_op_softmax) {
        copy(r, node, 1);
        activate(r, node, 0, CLQ_ACTIVATION_SOFTMAX);
    } else if (op == &clq_op_loss) {
        loss(r, node);
    } else if (op == &clq_op_penalty || op == &clq_op_penalty_gradient) {
        penalty(r, node, op == &clq_op_penalty_gradient);
    } else if (op == &clq_op_warp) {
        ref_warp(&node->attributes.warp, r->inputs->count, in(r, node, 0), in(r, node, 1), out(r, node, 0), NULL);
    } else if (op == &clq_op_softmax_gradient) {
        softmax_gradient(r, node);
    } else if (op == &clq_op_dense_gradient) {
        product_gradient(r, node, false, node->attributes.dense.adds, &node->attributes, node->inputs[0],
                         node->inputs[1], in(r, node, 2));
    } else if (op == &clq_op_conv2d_gradient) {
        product_gradient(r, node, true, node->attributes.conv2d.adds, &node->attributes, node->inputs[0],
                         node->inputs[1], in(r, node, 2));
    } else if (op == &clq_op_accumulate) {
        accumulate(r, node->outputs[0], in(r, node, 0));
    } else if (op == &clq_op_pool2d_gradient) {
        pool2d_gradient(r, node);
    } else if (op == &clq_op_conv_pool_gradient) {
        conv_pool_gradient(r, node);
    } else if (op == &clq_op_squares) {
        squares(r, out(r, node, 0));
    } else if (op == &clq_op_clip && node->attributes.clip.kind == CLQ_CLIP_GLOBAL_NORM) {
        double sum = 0;
        for (size_t i = 0; i < numbers_of(r, node->inputs[0]); i++) sum += in(r, node, 0)[i];
        *out(r, node, 0) = fmin(1, node->attributes.clip.limit / sqrt(sum));
    } else if (op != &clq_op_update && op != &clq_op_directions && op != &clq_op_step_squares && op != &clq_op_ratios) {
        fail_msg("%s has no reference", op->name);
    }
}

/* Rounds a node's outputs to the data types that they are stored as. */
static void store_outputs(const interpreter *r, const clq_node *node) {
    for (unsigned k = 0; k < CLQ_NODE_OUTPUTS; k++) {
        const clq_id id = node->outputs[k];
        for (size_t i = 0; id && i < numbers_of(r, id); i++)
            r->memory[id][i] = ref_stored(r->memory[id][i], clq_graph_value_at(r->graph, id)->dtype);
    }
}

static void fill_value(const interpreter *r, clq_id id) {
    const clq_graph_value *value = clq_graph_value_at(r->graph, id);
    const double *from = NULL;
    if (value->home == CLQ_HOME_SAMPLES) from = r->inputs->samples;
    if (value->home == CLQ_HOME_LABELS) from = r->inputs->labels[value->index];
    if (value->home == CLQ_HOME_WEIGHT || value->home == CLQ_HOME_STATE) from = r->inputs->weights[value->index];
    if (value->home == CLQ_HOME_RECEIVED) from = r->inputs->received[value->index];
    if (value->home == CLQ_HOME_RECEIVED_GRADIENT) from = r->inputs->received_gradients[value->index];
    if (value->home == CLQ_HOME_GRADIENT && r->inputs->gradients) from = r->inputs->gradients[value->index];
    r->memory[id] = numbers(numbers_of(r, id));
    if (from) memcpy(r->memory[id], from, numbers_of(r, id) * sizeof *from);
    for (size_t i = 0; value->home == CLQ_HOME_CONSTANT && i < value->elements; i++)
        r->memory[id][i] = (double)r->graph->constants[value->index].numbers[i];
}

static void give(const interpreter *r, clq_id id, const ref_outputs *outputs) {
    const clq_graph_value *value = clq_graph_value_at(r->graph, id);
    double *to = NULL;
    if (value->home == CLQ_HOME_OUTPUT) to = outputs->outputs[value->index];
    for (uint32_t i = 0; i < r->graph->output_count; i++)
        if (id == r->graph->outputs[i]) to = outputs->outputs[i];
    if (value->home == CLQ_HOME_STATE && outputs->states) to = outputs->states[value->index]; /* the last one stays */
    if (value->home == CLQ_HOME_GRADIENT && outputs->gradients) to = outputs->gradients[value->index];
    if (value->home == CLQ_HOME_NORMS && outputs->norms) to = outputs->norms;
    if (value->home == CLQ_HOME_SENT) to = outputs->sent[value->index];
    if (value->home == CLQ_HOME_SENT_GRADIENT) to = outputs->sent_gradients[value->index];
    if (to) memcpy(to, r->memory[id], numbers_of(r, id) * sizeof *to);
}

/* Several values may go to the same metrics: a loss's totals and the penalties. They are added up. */
static void give_metrics(const interpreter *r, double *metrics) {
    for (unsigned add = 0; add < 2; add++)
        for (clq_id id = 1; id <= r->graph->value_count; id++) {
            const clq_graph_value *value = clq_graph_value_at(r->graph, id);
            for (size_t i = 0; value->home == CLQ_HOME_METRICS && i < value->elements; i++)
                metrics[value->index + i] = add ? metrics[value->index + i] + r->memory[id][i] : 0;
        }
}

void ref_interpret(const clq_graph *graph, const ref_inputs *inputs, const ref_outputs *outputs) {
    interpreter r = {.graph = graph, .inputs = inputs, .memory = calloc(graph->value_count + 1, sizeof *r.memory)};
    assert_non_null(r.memory);
    for (clq_id id = 1; id <= graph->value_count; id++) fill_value(&r, id);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        run_node(&r, &graph->nodes[n]);
        if (inputs->rounds) store_outputs(&r, &graph->nodes[n]);
    }
    for (clq_id id = 1; id <= graph->value_count; id++) give(&r, id, outputs);
    if (outputs->metrics) give_metrics(&r, outputs->metrics);
    for (clq_id id = 1; id <= graph->value_count; id++) free(r.memory[id]);
    free(r.memory);
}
