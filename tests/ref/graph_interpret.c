#include "ref/graph_interpret.h"

#include "ref/ref_elementwise.h"
#include "ref/ref_product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* What does not exist reads as none, and is written nowhere. */
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

/* ---- derivatives of activations, which are known by what they gave ---- */

static double slope(clq_activation activation, double y) {
    switch (activation) {
    case CLQ_RELU: return y > 0 ? 1 : 0;
    case CLQ_SIGMOID: return y * (1 - y);
    case CLQ_TANH: return 1 - y * y;
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

/* y went through the chain after the activation had given it. */
static double chain_slope(const struct clq_slopes_problem *p, double y) {
    double product = slope(p->activation, y);
    for (unsigned i = 0; i < p->chain.count; i++) {
        double next;
        ref_activation(p->chain.links[i], 1, 1, &y, &next);
        product *= slope(p->chain.links[i], next);
        y = next;
    }
    return product;
}

static void slopes(const interpreter *r, const clq_node *node) {
    const struct clq_slopes_problem *p = &node->attributes.slopes;
    size_t channels, rows = rows_of(r, node->inputs[1], &channels);
    const double *y = in(r, node, 0), *dy = in(r, node, 1);
    double *dz = numbers(rows * channels), *db = out(r, node, 1);
    if (p->activation == CLQ_SOFTMAX)
        softmax_slopes(rows, channels, y, dy, dz);
    else
        for (size_t i = 0; i < rows * channels; i++) dz[i] = dy[i] * (y ? chain_slope(p, y[i]) : 1);
    for (size_t i = 0; db && i < rows * channels; i++) db[i % channels] += dz[i];
    if (out(r, node, 0)) memcpy(out(r, node, 0), dz, rows * channels * sizeof *dz);
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

/* The references want room for both. */
static void product_gradient(const interpreter *r, const clq_node *node, bool conv, const void *p, clq_id x, clq_id w,
                             const double *dz) {
    double *dx = numbers(numbers_of(r, x)), *dw = numbers(numbers_of(r, w));
    (conv ? ref_conv2d_gradients(p, r->inputs->count, at(r, x), at(r, w), dz, dx, dw)
          : ref_dense_gradients(p, r->inputs->count, at(r, x), at(r, w), dz, dx, dw));
    if (out(r, node, 0)) memcpy(out(r, node, 0), dx, numbers_of(r, x) * sizeof *dx);
    memcpy(out(r, node, 1), dw, numbers_of(r, w) * sizeof *dw);
    free(dx);
    free(dw);
}

/* Where the maxima were, as places in their windows, becomes a value like any other. */
static void pool2d(const interpreter *r, const clq_pool2d_problem *p, const double *x, double *y, double *winners) {
    size_t outputs = r->inputs->count * p->out_h * p->out_w * p->channels;
    int *places = calloc(outputs ? outputs : 1, sizeof *places);
    assert_non_null(places);
    ref_pool2d(p, r->inputs->count, x, y, places);
    for (size_t i = 0; winners && i < outputs; i++) winners[i] = places[i];
    free(places);
}

/* From winners where there are any, so that neither y nor x is looked at again. */
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
    product_gradient(r, node, true, &p->conv, node->inputs[1], node->inputs[2], dz);
    free(dz);
}

/* ---- the loss ---- */

static void loss(const interpreter *r, const clq_node *node) {
    const clq_loss_problem *p = &node->attributes.loss;
    const double *x = in(r, node, 0), *labels = in(r, node, 1);
    size_t rows = p->rows ? p->rows : 1, values = rows * p->classes;
    double *metrics = out(r, node, 0), *dx = out(r, node, 1), *target = numbers(values), totals[CLQ_TOTALS_MAX];
    for (size_t n = 0; n < r->inputs->count; n++, x += values) {
        for (size_t i = 0; i < values; i++)
            target[i] = clq_loss_has_index(p) ? (double)(i % p->classes) == labels[n * rows + i / p->classes]
                                              : labels[n * values + i];
        ref_totals(p, x, target, totals);
        for (unsigned k = 0; k < clq_loss_totals(p); k++) metrics[p->metrics_at + k] += totals[k];
        if (!dx) continue;
        (void)ref_loss(p, x, target, dx + n * values);
        for (size_t i = 0; i < values; i++) dx[n * values + i] *= r->inputs->scale;
    }
    free(target);
}

/* ---- all ---- */

static void copy(const interpreter *r, const clq_node *node, double factor) {
    for (size_t i = 0; i < numbers_of(r, node->outputs[0]); i++) out(r, node, 0)[i] = in(r, node, 0)[i] * factor;
}

static void run_node(const interpreter *r, const clq_node *node) {
    const clq_operation *op = node->op;
    if (op == &clq_op_scale_bytes) {
        copy(r, node, 1.0 / 255);
    } else if (op == &clq_op_copy || op == &clq_op_reshape) {
        copy(r, node, 1);
    } else if (op == &clq_op_dense) {
        dense(r, node);
    } else if (op == &clq_op_conv2d) {
        conv2d(r, node);
    } else if (op == &clq_op_pool2d) {
        pool2d(r, &node->attributes.pool2d, in(r, node, 0), out(r, node, 0), out(r, node, 1));
        activate(r, node, 0, node->attributes.pool2d.activation);
    } else if (op == &clq_op_conv_pool) {
        conv_pool(r, node);
    } else if (op == &clq_op_chain) {
        copy(r, node, 1);
        for (unsigned i = 0; i < node->attributes.slopes.chain.count; i++)
            activate(r, node, 0, node->attributes.slopes.chain.links[i]);
    } else if (op == &clq_op_softmax) {
        copy(r, node, 1);
        activate(r, node, 0, CLQ_SOFTMAX);
    } else if (op == &clq_op_loss) {
        loss(r, node);
    } else if (op == &clq_op_slopes) {
        slopes(r, node);
    } else if (op == &clq_op_dense_gradient || op == &clq_op_conv2d_gradient) {
        product_gradient(r, node, op == &clq_op_conv2d_gradient, &node->attributes, node->inputs[0], node->inputs[1],
                         in(r, node, 2));
    } else if (op == &clq_op_pool2d_gradient) {
        pool2d_gradient(r, node);
    } else if (op == &clq_op_conv_pool_gradient) {
        conv_pool_gradient(r, node);
    } else if (op == &clq_op_square_sum) {
        for (size_t i = 0; i < numbers_of(r, node->inputs[0]); i++)
            *out(r, node, 0) += in(r, node, 0)[i] * in(r, node, 0)[i];
    } else if (op != &clq_op_update) {
        fail_msg("%s has no reference", op->name);
    }
}

static void fill_value(const interpreter *r, clq_id id) {
    const clq_graph_value *value = clq_graph_value_at(r->graph, id);
    const double *from = NULL;
    if (value->home == CLQ_HOME_SAMPLES) from = r->inputs->samples;
    if (value->home == CLQ_HOME_LABELS) from = r->inputs->labels;
    if (value->home == CLQ_HOME_WEIGHT) from = r->inputs->weights[value->index];
    r->memory[id] = numbers(numbers_of(r, id));
    if (from) memcpy(r->memory[id], from, numbers_of(r, id) * sizeof *from);
}

static void give(const interpreter *r, clq_id id, const ref_outputs *outputs) {
    const clq_graph_value *value = clq_graph_value_at(r->graph, id);
    double *to = NULL;
    if (value->home == CLQ_HOME_OUTPUT || id == r->graph->output) to = outputs->output;
    if (value->home == CLQ_HOME_METRICS) to = outputs->metrics;
    if (value->home == CLQ_HOME_GRADIENT && outputs->gradients) to = outputs->gradients[value->index];
    if (value->home == CLQ_HOME_NORMS && outputs->norms) to = &outputs->norms[value->index];
    if (to) memcpy(to, r->memory[id], numbers_of(r, id) * sizeof *to);
}

void ref_interpret(const clq_graph *graph, const ref_inputs *inputs, const ref_outputs *outputs) {
    interpreter r = {.graph = graph, .inputs = inputs, .memory = calloc(graph->value_count + 1, sizeof *r.memory)};
    assert_non_null(r.memory);
    for (clq_id id = 1; id <= graph->value_count; id++) fill_value(&r, id);
    for (uint32_t n = 0; n < graph->node_count; n++) run_node(&r, &graph->nodes[n]);
    for (clq_id id = 1; id <= graph->value_count; id++) give(&r, id, outputs);
    for (clq_id id = 1; id <= graph->value_count; id++) free(r.memory[id]);
    free(r.memory);
}
