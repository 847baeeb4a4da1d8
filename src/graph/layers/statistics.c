/* keras.ops that compute with statistics of numbers along axes: variances, deviations, logarithms of sums, and numbers
 * in relation to these or to norms. Also rsqrt. */
#include "graph/layers/layer.h"

#include <float.h>
#include <math.h>

#define NUMPY "keras.src.ops.numpy"
#define MATH "keras.src.ops.math"
#define NN "keras.src.ops.nn"

/* ---- what expansions are made of ---- */

/* x's numbers along an axis, or along adjacent axes, as runs of `repeats` numbers. */
typedef struct runs {
    clq_parts parts;
    clq_node of;
    clq_shape shape, one; /* x's shape; the shape (outer, inner) of one number for each run */
    clq_repeat_problem problem;
} runs;

static runs *begin(clq_expansion *e, runs *r, clq_repeat_problem problem) {
    r->shape = clq_model_input_of(e->model, e->y, 0)->shape;
    r->problem = problem;
    r->one = CLQ_SHAPE(problem.outer, problem.inner);
    r->parts = clq_expand_parts(e, &r->of);
    return r;
}

static clq_id sum_of(const runs *r, clq_id x, double scale) {
    clq_repeat_problem problem = r->problem;
    problem.scale = (float)scale;
    return clq_part_reduce(&r->parts, x, &problem, r->one);
}
static clq_id spread(const runs *r, clq_id of_runs) {
    return clq_part_repeat(&r->parts, of_runs, &r->problem, r->shape);
}
static clq_id apply(const runs *r, clq_element_op op, clq_id x) { return clq_part_combine(&r->parts, op, x, 0); }

/* The largest number of each run. Each run is one window of a pooling. */
static clq_id largest_of(const runs *r, clq_id x) {
    clq_node node = clq_part_node(&r->parts, &clq_op_pool2d, CLQ_IDS(x));
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = r->problem.outer,
                                                  .in_w = r->problem.repeats,
                                                  .channels = r->problem.inner,
                                                  .out_h = r->problem.outer,
                                                  .out_w = 1,
                                                  .size_h = 1,
                                                  .size_w = r->problem.repeats,
                                                  .stride_h = 1,
                                                  .stride_w = r->problem.repeats};
    return clq_part_add(&r->parts, node, r->one);
}

static clq_id finish(clq_expansion *e, clq_id y) {
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}

/* ---- reductions ---- */

static clq_id variance_of(const runs *r, clq_id x) {
    const double share = 1.0 / (double)r->problem.repeats;
    const clq_id apart = clq_part_combine(&r->parts, CLQ_ELEMENT_SUBTRACT, x, spread(r, sum_of(r, x, share)));
    return sum_of(r, apply(r, CLQ_ELEMENT_SQUARE, apart), share);
}
static clq_id expand_var(clq_expansion *e, const clq_id *x) {
    runs r;
    return finish(e, variance_of(begin(e, &r, clq_layer_runs(e)), x[0]));
}
static clq_id expand_std(clq_expansion *e, const clq_id *x) {
    runs r;
    return finish(e, apply(&r, CLQ_ELEMENT_SQRT, variance_of(begin(e, &r, clq_layer_runs(e)), x[0])));
}
CLQ_REDUCTION_KIND(clq_layer_op_var, "Var", "var", NUMPY, expand_var);
CLQ_REDUCTION_KIND(clq_layer_op_std, "Std", "std", NUMPY, expand_std);

/* Limits x to finite numbers, because infinity less infinity would be NaN. */
static clq_id finite_of(const runs *r, clq_id x) {
    clq_node node = clq_part_node(&r->parts, &clq_op_elementwise, CLQ_IDS(x));
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned least = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = -FLT_MAX});
    const unsigned most = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = FLT_MAX});
    const unsigned raised = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = number, .b = least});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MINIMUM, .a = raised, .b = most});
    return clq_part_add(&r->parts, node, r->one);
}

/* max + log of the sum of exp(x - max) */
static clq_id log_of_sum(const runs *r, clq_id x) {
    const clq_id most = finite_of(r, largest_of(r, x));
    const clq_id apart = clq_part_combine(&r->parts, CLQ_ELEMENT_SUBTRACT, x, spread(r, most));
    const clq_id log = apply(r, CLQ_ELEMENT_LOG, sum_of(r, apply(r, CLQ_ELEMENT_EXP, apart), 1));
    return clq_part_combine(&r->parts, CLQ_ELEMENT_ADD, log, most);
}
static clq_id expand_log_of_sum(clq_expansion *e, const clq_id *x) {
    runs r;
    return finish(e, log_of_sum(begin(e, &r, clq_layer_runs(e)), x[0]));
}
CLQ_REDUCTION_KIND(clq_layer_op_logsumexp, "Logsumexp", "logsumexp", MATH, expand_log_of_sum);

/* ---- of x's shape: numbers in relation to a statistic along one axis ---- */

typedef struct along_config {
    int axis; /* first */
    double order, epsilon;
} along_config;

static clq_status infer_along(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const int given = ((const along_config *)layer->config)->axis;
    unsigned axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (clq_find_axis(&y->shape, given, &axis)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", given);
}
static runs *begin_along(clq_expansion *e, runs *r) {
    clq_repeat_problem problem = {.outer = 1, .repeats = 1, .inner = 1, .scale = 1};
    const clq_shape *x = &e->y->shape;
    unsigned axis = 0;
    (void)clq_find_axis(x, ((const along_config *)e->layer->config)->axis, &axis); /* as it was inferred */
    for (unsigned d = 0; d < x->rank; d++)
        *(d < axis ? &problem.outer : d == axis ? &problem.repeats : &problem.inner) *= x->dims[d];
    return begin(e, r, problem);
}

static const clq_attribute log_softmax_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, along_config, axis), .needed = true},
};
static clq_id expand_log_softmax(clq_expansion *e, const clq_id *x) {
    runs r;
    const clq_id all = log_of_sum(begin_along(e, &r), x[0]);
    return finish(e, clq_part_combine(&r.parts, CLQ_ELEMENT_SUBTRACT, x[0], spread(&r, all)));
}
const clq_layer_kind clq_layer_op_log_softmax = {.type = "LogSoftmax",
                                                 .stem = "log_softmax",
                                                 .module = NN,
                                                 .inputs = {1, 1},
                                                 CLQ_LAYER_CONFIG(along_config, log_softmax_attributes),
                                                 .infer = infer_along,
                                                 .expand = expand_log_softmax};

static const clq_attribute normalize_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, along_config, axis), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("order", CLQ_ATTRIBUTE_NUMBER, along_config, order), .fallback = 2, .whole = true},
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, along_config, epsilon), .fallback = 1e-7, .least = FLT_MIN,
     .most = INFINITY},
};
static clq_status infer_normalize(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const double order = ((const along_config *)layer->config)->order;
    if (order == 1 || order == 2) return infer_along(model, layer, y);
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "order %g is not supported; there are 1 and 2", order);
}
static clq_id norm_of(const runs *r, double order, clq_id x) {
    if (order == 1) return sum_of(r, apply(r, CLQ_ELEMENT_ABS, x), 1);
    return apply(r, CLQ_ELEMENT_SQRT, sum_of(r, apply(r, CLQ_ELEMENT_SQUARE, x), 1));
}
/* x divided by its norm, or by epsilon if epsilon is larger than the norm. */
static clq_id expand_normalize(clq_expansion *e, const clq_id *x) {
    const along_config *config = e->layer->config;
    runs r;
    const clq_id norm = norm_of(begin_along(e, &r), config->order, x[0]);
    clq_node node = clq_part_node(&r.parts, &clq_op_elementwise, CLQ_IDS(norm));
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned least = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = config->epsilon});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = number, .b = least});
    const clq_id by = spread(&r, clq_part_add(&r.parts, node, r.one));
    return finish(e, clq_part_combine(&r.parts, CLQ_ELEMENT_DIVIDE, x[0], by));
}
const clq_layer_kind clq_layer_op_normalize = {.type = "Normalize",
                                               .stem = "normalize",
                                               .module = NN,
                                               .inputs = {1, 1},
                                               CLQ_LAYER_CONFIG(along_config, normalize_attributes),
                                               .infer = infer_normalize,
                                               .expand = expand_normalize};

/* ---- 1 / sqrt(x) ---- */

static clq_id expand_rsqrt(clq_expansion *e, const clq_id *x) {
    return clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_POWER, .number = -0.5}, x);
}
CLQ_FUNCTION_KIND(clq_layer_op_rsqrt, "Rsqrt", "rsqrt", MATH, expand_rsqrt);
