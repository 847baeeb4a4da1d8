/* keras.ops.fft2: the discrete Fourier transform along the last two axes, computed as products with matrices of cosines
 * and sines. Rows are transformed first, then columns. There are two outputs: the real parts and the imaginary
 * parts. */
#include "graph/layers/layer.h"

#include <math.h>

typedef struct fourier_config {
    size_t part; /* 0: real, 1: imaginary */
} fourier_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("part", CLQ_ATTRIBUTE_SIZES, fourier_config, part)},
};

/* Keras needs an imaginary part for a real input, too. Here it has to be a ZerosLike. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    enum { PLACES_MOST = 4096 }; /* a matrix has the square of this many numbers */
    const clq_model_tensor *x = clq_model_input_of(model, y, 0), *imaginary = clq_model_input_of(model, y, 1);
    (void)layer;
    if (x->shape.rank < 2) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its input should have two axes or more");
    if (model->layers[imaginary->layer - 1].kind != &clq_layer_op_zeros ||
        !clq_shape_equal(&x->shape, &imaginary->shape))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "only real inputs are supported: zeros_like as the imaginary part");
    y->shape = x->shape;
    for (unsigned d = x->shape.rank - 2; d < x->shape.rank; d++)
        if (x->shape.dims[d] > PLACES_MOST)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%zu places are more than the %d that are supported",
                            x->shape.dims[d], PLACES_MOST);
    return CLQ_OK;
}

/* A matrix of cos(2 pi i k / n), or of sin(2 pi i k / n). */
static clq_id add_waves(clq_expansion *e, size_t n, bool sine) {
    const double turn = 8 * atan(1) / (double)n;
    float *waves = clq_alloc(n * n, sizeof *waves);
    if (!waves) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            const double angle = turn * (double)(i * k % n);
            waves[i * n + k] = (float)(sine ? sin(angle) : cos(angle));
        }
    const clq_id id = clq_graph_add_constant(e->graph, sine ? "sines" : "cosines", &CLQ_SHAPE(n, n), n * n, waves);
    clq_free(waves);
    return id;
}

typedef struct sizes {
    size_t outer, rows, columns;
} sizes;

/* If `rows` is false, x (rows, columns) times waves (columns, columns); otherwise waves (rows, rows) times x. */
static clq_id transform(clq_expansion *e, const sizes *s, bool rows, clq_id waves, clq_id x) {
    const size_t plane = s->rows * s->columns;
    const clq_shape shape = CLQ_SHAPE(s->outer, s->rows, s->columns);
    const clq_batched_matrix values = {.sample = s->outer * plane, .pitch = {plane, 0}, .row = s->columns, .column = 1};
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched =
        (clq_batched_problem){.counts = {s->outer, 1},
                              .m = s->rows,
                              .n = s->columns,
                              .k = rows ? s->rows : s->columns,
                              .a = rows ? (clq_batched_matrix){.row = s->rows, .column = 1} : values,
                              .b = rows ? values : (clq_batched_matrix){.row = s->columns, .column = 1},
                              .c = values,
                              .scale = 1};
    if (!waves || !x) return 0;
    node.inputs[0] = rows ? waves : x;
    node.inputs[1] = rows ? x : waves;
    node.outputs[0] = clq_expand_value(e, &shape, s->outer * plane);
    return clq_graph_add_node(e->graph, &node);
}

/* The real part is C X C - S X S, and the imaginary part is -(S X C + C X S). */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const bool real = ((const fourier_config *)e->layer->config)->part == 0;
    const clq_shape *in = &e->y->shape;
    const unsigned last = in->rank - 1;
    sizes s = {.outer = 1, .rows = in->dims[last - 1], .columns = in->dims[last]};
    for (unsigned d = 0; d + 1 < last; d++) s.outer *= in->dims[d];
    const clq_id by_cosines = transform(e, &s, false, add_waves(e, s.columns, false), x[0]),
                 by_sines = transform(e, &s, false, add_waves(e, s.columns, true), x[0]);
    const clq_id first = transform(e, &s, true, add_waves(e, s.rows, !real), by_cosines),
                 second = transform(e, &s, true, add_waves(e, s.rows, real), by_sines);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, clq_each_element);
    unsigned result =
        clq_element_do(p, (clq_instruction){.op = real ? CLQ_ELEMENT_SUBTRACT : CLQ_ELEMENT_ADD, .a = a, .b = b});
    if (!real) result = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_NEGATE, .a = result});
    p->outputs[p->output_count++].from = result;
    node.inputs[1] = second;
    return first && second ? clq_expand_unary(e, node, first) : 0;
}

static unsigned count_parts(const clq_layer *layer) {
    (void)layer;
    return 2;
}

const clq_layer_kind clq_layer_op_fft2 = {.type = "FFT2",
                                          .stem = "fft2",
                                          .module = "keras.src.ops.math",
                                          .inputs = {2, 2},
                                          .takes_list = true,
                                          CLQ_LAYER_CONFIG(fourier_config, attributes),
                                          .output_count = count_parts,
                                          .output_member = CLQ_OUTPUT_MEMBER(fourier_config, part),
                                          .infer = infer,
                                          .expand = expand};
