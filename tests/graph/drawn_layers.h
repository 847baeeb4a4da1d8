/* Random layers of every sort, for tests of step graphs: a table has a row for each way to draw a layer. A drawn layer
 * fits the tensor that it is applied to, so no model is refused. Layers whose gradient is not the derivative of their
 * output, such as clq_stop_gradient, are left out: finite differences cannot check them. */
#ifndef CLQ_TEST_GRAPH_DRAWN_LAYERS_H
#define CLQ_TEST_GRAPH_DRAWN_LAYERS_H

#include "graph/keyed_layers.h"
#include <clique/custom.h>

/* ---- settings by their keys ---- */

static keyed_config keyed(const clq_layer_kind *kind) {
    keyed_config config = {.kind = kind};
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        char *member = (char *)config.bytes + row->at;
        if (row->type == CLQ_ATTRIBUTE_NUMBER) *(double *)(void *)member = row->fallback;
        if (row->type == CLQ_ATTRIBUTE_CHOICE || row->type == CLQ_ATTRIBUTE_AXIS)
            *(int *)(void *)member = (int)row->fallback;
    }
    return config;
}
#define SET(config, type, key, to) (*(type *)setting(&(config), key) = (to))

static clq_tensor apply(subject *s, const keyed_config *config, const clq_tensor *x, size_t count) {
    return clq_model_add_layer(s->model, config->kind, NULL, config->bytes, x, count);
}
static clq_tensor apply_plain(subject *s, const clq_layer_kind *kind, const clq_tensor *x, size_t count) {
    const keyed_config config = keyed(kind);
    return apply(s, &config, x, count);
}
static clq_tensor apply_axis(subject *s, const clq_layer_kind *kind, int axis, const clq_tensor *x, size_t count) {
    keyed_config config = keyed(kind);
    SET(config, int, "axis", axis);
    return apply(s, &config, x, count);
}
/* An operation between a tensor and a number. place: which operand the number is, 1 or 2. */
static clq_tensor apply_number(subject *s, const clq_layer_kind *kind, unsigned place, double number, clq_tensor x) {
    const clq_operand operand = {.place = place, .number = number};
    return clq_model_add_layer(s->model, kind, NULL, &operand, &x, 1);
}
static clq_tensor apply_pair(subject *s, const clq_layer_kind *kind, clq_tensor x, clq_tensor y) {
    const clq_operand none = {.place = 0};
    return clq_model_add_layer(s->model, kind, NULL, &none, CLQ_TENSORS(x, y));
}

static clq_activation drawn_activation(subject *s) {
    const clq_activation drawn = (clq_activation)below(s, CLQ_ACTIVATION_SILU + 20);
    return clq_activation_row_of(drawn) ? drawn : any_activation(s);
}
static clq_tensor bend(subject *s, clq_tensor x) { return apply_plain(s, &clq_layer_op_sin, &x, 1); }
static clq_tensor mean_over(subject *s, clq_tensor x, int axis, bool keep_dims) {
    keyed_config config = keyed(&clq_layer_op_mean);
    SET(config, clq_axes, "axis", ((clq_axes){1, {axis}}));
    SET(config, bool, "keepdims", keep_dims);
    return apply(s, &config, &x, 1);
}

/* ---- layers of any tensor ---- */

typedef clq_tensor draw_layer(subject *s, clq_tensor x, clq_shape in);

static clq_tensor draw_dense(subject *s, clq_tensor x, clq_shape in) {
    clq_dense_config config = {.units = 2 + below(s, 4)};
    (void)in;
    config.activation = drawn_activation(s);
    config.no_bias = below(s, 4) == 0;
    x = clq_dense(s->model, x, &config);
    return below(s, 8) ? x : clq_freeze(s->model, x);
}

static clq_tensor draw_activation(subject *s, clq_tensor x, clq_shape in) {
    (void)in;
    switch (below(s, 6)) {
    case 0: return clq_leaky_relu(s->model, x, 0.2, NULL);
    case 1: return clq_prelu(s->model, x, below(s, 2), NULL);
    case 2: return apply_plain(s, &clq_layer_elu, &x, 1);
    default: return clq_activate(s->model, x, drawn_activation(s), NULL);
    }
}

static clq_tensor draw_norm(subject *s, clq_tensor x, clq_shape in) {
    clq_row_norm_config config = {.epsilon = 0.1};
    const size_t channels = in.dims[in.rank - 1];
    if (in.rank > 1 && below(s, 2)) config.axes = (clq_axes){2, {-2, -1}};
    switch (below(s, 5)) {
    case 0: return clq_rms_norm(s->model, x, &config);
    case 1: return clq_unit_norm(s->model, x, NULL);
    case 2:
        if (s->model->tensors[x.id - 1].mask) return clq_rms_norm(s->model, x, &config);
        return clq_batch_norm(s->model, x, &(clq_batch_norm_config){.momentum = 0.7, .epsilon = 0.1});
    case 3:
        if (in.rank == 1) return clq_rms_norm(s->model, x, &config);
        config = (clq_row_norm_config){.epsilon = 0.1, .groups = channels % 2 ? -1 : 2};
        config.no_scale = below(s, 3) == 0;
        return clq_group_norm(s->model, x, &config);
    default:
        config.no_scale = below(s, 3) == 0;
        config.no_center = below(s, 3) == 0;
        return clq_layer_norm(s->model, x, &config);
    }
}

static clq_tensor draw_noise(subject *s, clq_tensor x, clq_shape in) {
    keyed_config gaussian = keyed(&clq_layer_gaussian_dropout);
    const unsigned shared = below(s, 1u << in.rank);
    SET(gaussian, double, "rate", 0.2);
    switch (below(s, 4)) {
    case 0: return clq_gaussian_noise(s->model, x, 0.2, NULL);
    case 1: return clq_alpha_dropout(s->model, x, 0.25, NULL);
    case 2: return apply(s, &gaussian, &x, 1);
    default: return clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.3, .shared = shared});
    }
}

static clq_tensor draw_function(subject *s, clq_tensor x, clq_shape in) {
    static const clq_layer_kind *const kinds[] = {
        &clq_layer_op_sin,      &clq_layer_op_cos,      &clq_layer_op_tanh,        &clq_layer_op_silu,
        &clq_layer_op_softplus, &clq_layer_op_softsign, &clq_layer_op_log_sigmoid, &clq_layer_op_square,
        &clq_layer_op_absolute, &clq_layer_op_negative, &clq_layer_op_relu6,       &clq_layer_op_sign};
    const unsigned kind = below(s, CLQ_COUNT_OF(kinds) + 4);
    keyed_config clip = keyed(&clq_layer_op_clip);
    (void)in;
    SET(clip, double, "x_min", -0.4);
    SET(clip, double, "x_max", 0.6);
    if (kind < CLQ_COUNT_OF(kinds)) return apply_plain(s, kinds[kind], &x, 1);
    switch (kind - CLQ_COUNT_OF(kinds)) {
    case 0: return apply(s, &clip, &x, 1);
    case 1: x = bend(s, x); return apply_plain(s, below(s, 2) ? &clq_layer_op_exp : &clq_layer_op_expm1, &x, 1);
    case 2: x = apply_plain(s, &clq_layer_op_softplus, &x, 1); return apply_plain(s, &clq_layer_op_sqrt, &x, 1);
    default:
        x = apply_number(s, &clq_layer_op_add, 2, 0.5, apply_plain(s, &clq_layer_op_softplus, &x, 1));
        return apply_plain(s, below(s, 2) ? &clq_layer_op_log : &clq_layer_op_reciprocal, &x, 1);
    }
}

static const clq_layer_kind *const pairs[] = {&clq_layer_op_add, &clq_layer_op_subtract, &clq_layer_op_multiply,
                                              &clq_layer_op_maximum, &clq_layer_op_minimum};

/* Arithmetic of x with a number, with its mean along an axis, which broadcasts, or with a tensor of the same shape. */
static clq_tensor draw_arithmetic(subject *s, clq_tensor x, clq_shape in) {
    const clq_layer_kind *kind = pairs[below(s, CLQ_COUNT_OF(pairs))];
    const bool first = below(s, 2);
    if (below(s, 3) == 0) return apply_number(s, kind, 1 + first, 0.3, x);
    if (below(s, 4) == 0) return apply_number(s, &clq_layer_op_power, 2, 2, x);
    const clq_tensor mean = mean_over(s, x, (int)below(s, in.rank), true);
    if (below(s, 3) == 0) {
        const clq_tensor sines = bend(s, mean);
        return apply_pair(s, &clq_layer_op_divide, x, apply_plain(s, &clq_layer_op_exp, &sines, 1));
    }
    return first ? apply_pair(s, kind, mean, x) : apply_pair(s, kind, x, bend(s, x));
}

/* The offset 0.0871 keeps compared numbers apart: rounding errors seldom decide a comparison. */
static clq_tensor draw_choice(subject *s, clq_tensor x, clq_shape in) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_op_greater, &clq_layer_op_less_equal,
                                                  &clq_layer_op_not_equal};
    const clq_tensor mean =
                         apply_number(s, &clq_layer_op_add, 2, 0.0871, mean_over(s, x, (int)below(s, in.rank), true)),
                     other = bend(s, x);
    const clq_tensor decides = apply_pair(s, kinds[below(s, CLQ_COUNT_OF(kinds))], x, mean);
    return apply_plain(s, &clq_layer_op_where, CLQ_TENSORS(decides, x, other));
}

static clq_tensor draw_expression(subject *s, clq_tensor x, clq_shape in) {
    (void)in;
    if (below(s, 2))
        return clq_expression(
            s->model, "x * sigmoid(b * x) + c", CLQ_TENSORS(x),
            &(clq_expression_config){.variables = {{.name = "b", .value = 1}, {.name = "c", .by_channel = true}}});
    return clq_expression(s->model, "where(x > y + 0.217, a * x - y, exp(-abs(y)) / (1.5 + square(x)))",
                          CLQ_TENSORS(x, bend(s, x)),
                          &(clq_expression_config){.variables = {{.name = "a", .value = 0.5, .by_channel = true}}});
}

static clq_tensor draw_softmax(subject *s, clq_tensor x, clq_shape in) {
    const bool by_function = below(s, 2) || s->model->tensors[x.id - 1].mask; /* the layer refuses masks */
    return apply_axis(s, by_function ? &clq_layer_op_softmax : &clq_layer_softmax, (int)below(s, in.rank), &x, 1);
}
static clq_tensor draw_sums(subject *s, clq_tensor x, clq_shape in) {
    return apply_axis(s, &clq_layer_op_cumsum, (int)below(s, in.rank), &x, 1);
}

/* Reduces one axis, or two adjacent axes. At least one axis stays. */
static clq_tensor draw_reduction(subject *s, clq_tensor x, clq_shape in) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_op_sum, &clq_layer_op_mean, &clq_layer_op_max,
                                                  &clq_layer_op_min};
    keyed_config config = keyed(kinds[below(s, CLQ_COUNT_OF(kinds))]);
    const bool two = in.rank > 1 && below(s, 3) == 0;
    const int first = (int)below(s, in.rank - two);
    SET(config, clq_axes, "axis", ((clq_axes){1u + two, {first, first + 1}}));
    SET(config, bool, "keepdims", in.rank == 1u + two || below(s, 2));
    return apply(s, &config, &x, 1);
}

static clq_tensor draw_top(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_top_k);
    (void)in;
    SET(config, size_t, "k", 1);
    return apply(s, &config, &x, 1);
}

/* ---- other places ---- */

static clq_tensor draw_order(subject *s, clq_tensor x, clq_shape in) {
    clq_shape order = {.rank = in.rank};
    for (unsigned d = 0; d < in.rank; d++) order.dims[d] = d + 1;
    for (unsigned d = in.rank; d > 1; d--) {
        const unsigned other = below(s, d);
        const size_t keep = order.dims[d - 1];
        order.dims[d - 1] = order.dims[other];
        order.dims[other] = keep;
    }
    if (below(s, 2)) return clq_permute(s->model, x, order, NULL);
    keyed_config config = keyed(&clq_layer_op_swapaxes);
    SET(config, int, "axis1", (int)order.dims[0] - 1);
    SET(config, int, "axis2", (int)order.dims[1] - 1 - (int)in.rank);
    return apply(s, &config, &x, 1);
}

/* Splits an axis in two, or joins two adjacent axes. */
static clq_tensor draw_shape(subject *s, clq_tensor x, clq_shape in) {
    clq_shape out = {.rank = 0};
    const unsigned axis = below(s, in.rank);
    const size_t size = in.dims[axis], factor = size % 3 == 0 ? 3 : size % 2 == 0 ? 2 : 1;
    const bool splits = in.rank == 1 || (in.rank < 4 && below(s, 2));
    for (unsigned d = 0; d < in.rank; d++) {
        if (d == axis && splits) {
            out.dims[out.rank++] = factor;
            out.dims[out.rank++] = size / factor;
        } else if (d > 0 && d == CLQ_MAX(axis, 1u) && !splits) {
            out.dims[out.rank - 1] *= in.dims[d];
        } else {
            out.dims[out.rank++] = in.dims[d];
        }
    }
    return clq_reshape(s->model, x, out, NULL);
}

static struct clq_index drawn_index(subject *s, size_t size, bool alone) {
    struct clq_index index = {.kind = alone ? CLQ_PLACES_ONE : CLQ_PLACES_RANGE, .step = 1};
    index.first = (long)below(s, (unsigned)size) - (below(s, 2) ? (long)size : 0);
    if (alone) return index;
    const bool back = below(s, 3) == 0;
    index.step = (back ? -1 : 1) * (long)(1 + below(s, 3));
    index.from_begin = below(s, 2);
    index.to_end = true;
    if (index.from_begin && !back && size > 2 && below(s, 2)) {
        index.to_end = false;
        index.end = -1;
    }
    return index;
}
static clq_tensor draw_places(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_op_get_item);
    clq_places *places = setting(&config, "places");
    unsigned left = in.rank;
    const unsigned named = 1 + below(s, in.rank);
    for (unsigned d = 0; d < named; d++) {
        if (below(s, 6) == 0 && left < 4) {
            places->axes[places->count++].kind = CLQ_PLACES_NEW;
            left++;
        }
        const bool alone = left > 1 && below(s, 4) == 0;
        left -= alone;
        places->axes[places->count++] = drawn_index(s, in.dims[d], alone);
    }
    return apply(s, &config, &x, 1);
}

static clq_tensor draw_pads(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_op_pad);
    clq_pads *pads = setting(&config, "pad_width");
    const unsigned mode = below(s, 3);
    SET(config, int, "mode", (int)mode);
    if (mode == 0 && in.dims[0] % 2) SET(config, double, "constant_values", 0.75);
    pads->rank = in.rank;
    for (unsigned d = 0; d < in.rank; d++)
        for (unsigned side = 0; side < 2; side++) pads->sides[d][side] = below(s, in.dims[d] > 2 || mode == 0 ? 3 : 1);
    return apply(s, &config, &x, 1);
}

static clq_tensor draw_flip(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_op_flip);
    SET(config, clq_axes, "axis", ((clq_axes){1u + (in.rank > 1), {-1, 0}}));
    return apply(s, &config, &x, 1);
}

static clq_tensor draw_joined(subject *s, clq_tensor x, clq_shape in) {
    const clq_tensor other = bend(s, x);
    if (s->model->tensors[x.id - 1].mask) return other; /* steps with masks are not joined */
    if (in.rank < 4 && below(s, 2))
        return apply_axis(s, &clq_layer_op_stack, (int)below(s, in.rank + 1), CLQ_TENSORS(x, other));
    return clq_concatenate(s->model, CLQ_TENSORS(x, other, x), (int)below(s, in.rank), NULL);
}

static clq_tensor draw_part(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_op_split);
    const unsigned axis = below(s, in.rank);
    clq_sections *sections = setting(&config, "indices_or_sections");
    if (in.dims[axis] < 2) return bend(s, x);
    sections->count = 1;
    sections->places[0] = 1 + below(s, (unsigned)in.dims[axis] - 1);
    SET(config, int, "axis", (int)axis);
    const unsigned part = below(s, 2);
    return clq_model_output_of(s->model, apply(s, &config, &x, 1), part, NULL);
}

static clq_tensor draw_axis(subject *s, clq_tensor x, clq_shape in) {
    for (unsigned d = 0; d < in.rank && in.rank > 1; d++)
        if (in.dims[d] == 1) return apply_axis(s, &clq_layer_op_squeeze, (int)d, &x, 1);
    if (in.rank == 4) return bend(s, x);
    return apply_axis(s, &clq_layer_op_expand_dims, (int)below(s, in.rank + 1), &x, 1);
}

/* ---- products ---- */

static clq_tensor draw_einsum_dense(subject *s, clq_tensor x, clq_shape in) {
    static const struct {
        const char *equation, *bias;
        unsigned rank, open, units;
    } ways[] = {{"ab,bc->ac", "c", 1, 0, 1},
                {"abc,cd->abd", "d", 2, 1, 1},
                {"abc,cde->abde", "de", 2, 1, 2},
                {"abcd,cde->abe", "e", 3, 1, 1},
                {"abcd,de->abce", "e", 3, 2, 1}};
    unsigned way = below(s, CLQ_COUNT_OF(ways));
    while (ways[way].rank != in.rank) way = (way + 1) % CLQ_COUNT_OF(ways);
    keyed_config config = keyed(&clq_layer_einsum_dense);
    clq_shape *out = setting(&config, "output_shape");
    (void)snprintf(((clq_short_text *)setting(&config, "equation"))->text, CLQ_SHORT_TEXT_MAX, "%s",
                   ways[way].equation);
    if (below(s, 2))
        (void)snprintf(((clq_short_text *)setting(&config, "bias_axes"))->text, CLQ_SHORT_TEXT_MAX, "%s",
                       ways[way].bias);
    for (unsigned d = 0; d < ways[way].open; d++) out->dims[out->rank++] = in.dims[d];
    for (unsigned u = 0; u < ways[way].units; u++) out->dims[out->rank++] = 2 + below(s, 3);
    SET(config, clq_activation, "activation", any_activation(s));
    return apply(s, &config, &x, 1);
}

static clq_tensor turned(subject *s, clq_tensor x) {
    keyed_config config = keyed(&clq_layer_op_swapaxes);
    SET(config, int, "axis1", -1);
    SET(config, int, "axis2", -2);
    return apply(s, &config, &x, 1);
}
static clq_tensor draw_product(subject *s, clq_tensor x, clq_shape in) {
    const clq_tensor other = bend(s, x);
    keyed_config config = keyed(&clq_layer_op_einsum), dot = keyed(&clq_layer_dot);
    const char *const equation = in.rank == 3 ? "bihd,bjhd->bhij" : below(s, 2) ? "bij,bkj->bik" : "bij,bik->bkj";
    (void)snprintf(((clq_short_text *)setting(&config, "subscripts"))->text, CLQ_SHORT_TEXT_MAX, "%s", equation);
    if (in.rank == 2 && below(s, 4) == 0) {
        const int axis = (int)below(s, 2);
        int *axes = setting(&dot, "axes");
        axes[0] = axes[1] = axis;
        SET(dot, bool, "normalize", below(s, 2));
        return apply(s, &dot, CLQ_TENSORS(x, other));
    }
    if (in.rank < 4 && below(s, 2)) return apply(s, &config, CLQ_TENSORS(x, other));
    return below(s, 2) ? apply_plain(s, &clq_layer_op_matmul, CLQ_TENSORS(x, turned(s, other)))
                       : apply_plain(s, &clq_layer_op_matmul, CLQ_TENSORS(turned(s, other), x));
}

/* ---- windows ---- */

static size_t window(subject *s, size_t size) { return 1 + below(s, (unsigned)CLQ_MIN(size, (size_t)3)); }

static clq_tensor draw_convolution(subject *s, clq_tensor x, clq_shape in) {
    const bool grouped = in.dims[2] % 2 == 0 && below(s, 2);
    clq_conv2d_config config = {.filters = grouped ? 4 : 3, .groups = grouped ? 2 : 1};
    for (unsigned d = 0; d < 2; d++) config.kernel[d] = window(s, in.dims[d]);
    config.padding = below(s, 2) ? CLQ_PADDING_SAME : CLQ_PADDING_VALID;
    if (below(s, 2)) config.strides[0] = config.strides[1] = 1 + below(s, 2);
    if (config.strides[0] < 2 && config.padding == CLQ_PADDING_SAME && below(s, 3) == 0) config.dilation[0] = 2;
    config.activation = drawn_activation(s);
    config.no_bias = below(s, 4) == 0;
    return clq_conv2d(s->model, x, &config);
}
static clq_tensor draw_depthwise(subject *s, clq_tensor x, clq_shape in) {
    clq_depthwise_conv2d_config config = {.multiplier = 1 + below(s, 2)};
    for (unsigned d = 0; d < 2; d++) config.kernel[d] = window(s, in.dims[d]);
    config.padding = below(s, 2) ? CLQ_PADDING_SAME : CLQ_PADDING_VALID;
    config.activation = drawn_activation(s);
    if (below(s, 2)) return clq_depthwise_conv2d(s->model, x, &config);
    return clq_separable_conv2d(s->model, x, &(clq_separable_conv2d_config){.depthwise = config, .filters = 3});
}
static clq_tensor draw_transposed(subject *s, clq_tensor x, clq_shape in) {
    clq_conv2d_config config = {.filters = 2};
    (void)in;
    for (unsigned d = 0; d < 2; d++) {
        config.kernel[d] = 1 + below(s, 3);
        config.strides[d] = 1 + below(s, 2);
    }
    config.padding = below(s, 2) ? CLQ_PADDING_SAME : CLQ_PADDING_VALID;
    config.activation = drawn_activation(s);
    config.no_bias = below(s, 4) == 0;
    return clq_conv2d_transpose(s->model, x, &config);
}
static clq_tensor draw_pool(subject *s, clq_tensor x, clq_shape in) {
    clq_pool_config config = {.padding = below(s, 2) ? CLQ_PADDING_SAME : CLQ_PADDING_VALID};
    for (unsigned d = 0; d < 2; d++) {
        config.size[d] = window(s, in.dims[d]);
        config.strides[d] = 1 + below(s, 2);
    }
    return below(s, 2) ? clq_max_pool2d(s->model, x, &config) : clq_average_pool2d(s->model, x, &config);
}
static clq_tensor draw_global_pool(subject *s, clq_tensor x, clq_shape in) {
    (void)in;
    const bool keeps = below(s, 2);
    return below(s, 2) ? clq_global_max_pool(s->model, x, keeps, NULL)
                       : clq_global_average_pool(s->model, x, keeps, NULL);
}
static clq_tensor draw_size(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_resizing);
    SET(config, size_t, "height", 1 + below(s, (unsigned)in.dims[0] + 2));
    SET(config, size_t, "width", 1 + below(s, (unsigned)in.dims[1] + 2));
    SET(config, int, "interpolation", (int)below(s, 3));
    if (below(s, 2)) return apply(s, &config, &x, 1);
    return clq_up_sampling2d(s->model, x, (const size_t[]){1 + below(s, 2), 2}, NULL);
}
static clq_tensor draw_frame(subject *s, clq_tensor x, clq_shape in) {
    size_t sides[2][2];
    for (unsigned i = 0; i < 4; i++) sides[i / 2][i % 2] = below(s, 2);
    if (below(s, 2) || in.dims[0] < 3 || in.dims[1] < 3)
        return clq_zero_padding(s->model, x, (const size_t(*)[2])sides, NULL);
    return clq_cropping(s->model, x, (const size_t(*)[2])sides, NULL);
}

/* ---- sequences ---- */

static clq_tensor draw_convolution_of_rows(subject *s, clq_tensor x, clq_shape in) {
    clq_conv1d_config config = {.filters = 3, .kernel = window(s, in.dims[0])};
    static const clq_padding paddings[] = {CLQ_PADDING_VALID, CLQ_PADDING_SAME, CLQ_PADDING_CAUSAL};
    config.padding = paddings[below(s, 3)];
    config.strides = 1 + below(s, 2);
    if (config.strides == 1 && config.padding == CLQ_PADDING_CAUSAL) config.dilation = 1 + below(s, 2);
    config.activation = drawn_activation(s);
    if (below(s, 3)) return clq_conv1d(s->model, x, &config);
    keyed_config back = keyed(&clq_layer_conv1d_transpose);
    SET(back, size_t, "filters", 2);
    SET(back, size_t, "kernel_size", config.kernel);
    SET(back, size_t, "strides", config.strides);
    SET(back, clq_padding, "padding", config.padding == CLQ_PADDING_SAME ? CLQ_PADDING_SAME : CLQ_PADDING_VALID);
    return apply(s, &back, &x, 1);
}
static clq_tensor draw_pool_of_rows(subject *s, clq_tensor x, clq_shape in) {
    clq_pool1d_config config = {.size = window(s, in.dims[0]), .strides = 1 + below(s, 2)};
    config.padding = below(s, 2) ? CLQ_PADDING_SAME : CLQ_PADDING_VALID;
    return below(s, 2) ? clq_max_pool1d(s->model, x, &config) : clq_average_pool1d(s->model, x, &config);
}

static clq_tensor draw_recurrent(subject *s, clq_tensor x, clq_shape in) {
    clq_recurrent_config config = clq_recurrent_config_default(2 + below(s, 3));
    const clq_cell cell = below(s, 2) ? CLQ_CELL_LSTM : CLQ_CELL_GRU;
    (void)in;
    config.return_sequences = below(s, 2);
    config.no_bias = below(s, 4) == 0;
    config.go_backwards = below(s, 3) == 0;
    config.zero_output_for_mask = config.return_sequences && below(s, 2);
    if (below(s, 3) == 0) config.dropout = 0.3;
    if (below(s, 3) == 0) config.recurrent_dropout = 0.2;
    if (below(s, 3) == 0) {
        keyed_config simple = keyed(&clq_layer_simple_rnn);
        SET(simple, size_t, "units", config.units);
        SET(simple, clq_activation, "activation", CLQ_ACTIVATION_TANH);
        SET(simple, bool, "return_sequences", config.return_sequences);
        return apply(s, &simple, &x, 1);
    }
    if (below(s, 2)) return clq_recurrent(s->model, x, cell, &config);
    config.go_backwards = false;
    return clq_bidirectional(s->model, x, cell, &config);
}

static clq_tensor draw_attention(subject *s, clq_tensor x, clq_shape in) {
    clq_attention_config config = {.heads = 1 + below(s, 2), .key = 2 + below(s, 2)};
    config.value = below(s, 2) ? 3 : 0;
    config.causal = in.rank == 2 && below(s, 2);
    config.dropout = below(s, 3) ? 0 : 0.2;
    config.no_bias = below(s, 4) == 0;
    if (in.rank == 3 && below(s, 2)) config.axes = (clq_axes){1, {-2}};
    if (below(s, 2)) return clq_attention(s->model, &x, 1, &config);
    return clq_attention(s->model, CLQ_TENSORS(x, bend(s, x)), &config);
}
static clq_tensor draw_scores(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(below(s, 2) ? &clq_layer_score_attention : &clq_layer_additive_attention);
    (void)in;
    SET(config, bool, "use_causal_mask", below(s, 2));
    if (below(s, 3) == 0) SET(config, double, "dropout", 0.2);
    return apply(s, &config, CLQ_TENSORS(x, bend(s, x)));
}
/* x: (tokens, heads, width). */
static clq_tensor draw_dot_attention(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_op_attention), rotary = keyed(&clq_layer_rotary_embedding);
    clq_tensor q = x, k = bend(s, x);
    SET(config, bool, "is_causal", below(s, 2));
    if (below(s, 2)) SET(config, size_t, "sliding_window", 1 + below(s, 3));
    if (below(s, 2)) SET(config, double, "scale", 0.7);
    if (in.dims[2] % 2 == 0 && below(s, 2)) {
        q = apply(s, &rotary, &q, 1);
        k = apply(s, &rotary, &k, 1);
    }
    return apply(s, &config, CLQ_TENSORS(q, k, x));
}
/* Attention as imported models write it: two products around a softmax of scores, which may be scaled and added to. */
static clq_tensor draw_written_attention(subject *s, clq_tensor x, clq_shape in) {
    const clq_tensor k = turned(s, bend(s, x));
    clq_tensor scores = apply_plain(s, &clq_layer_op_matmul, CLQ_TENSORS(x, k));
    if (below(s, 2)) scores = apply_number(s, &clq_layer_op_multiply, 2, 0.6, scores);
    if (below(s, 3) == 0) scores = apply_pair(s, &clq_layer_op_add, scores, bend(s, scores));
    if (below(s, 4) == 0) scores = apply_number(s, &clq_layer_op_divide, 2, 1.4, scores);
    scores = below(s, 2) ? apply_axis(s, &clq_layer_op_softmax, -1, &scores, 1)
                         : clq_activate(s->model, scores, CLQ_ACTIVATION_SOFTMAX, NULL);
    (void)in;
    return apply_plain(s, &clq_layer_op_matmul, CLQ_TENSORS(scores, x));
}

static clq_tensor draw_rows(subject *s, clq_tensor x, clq_shape in) {
    keyed_config config = keyed(&clq_layer_position_embedding);
    SET(config, size_t, "sequence_length", in.dims[0] + 2);
    return clq_add(s->model, CLQ_TENSORS(x, apply(s, &config, &x, 1)), NULL);
}

static clq_tensor draw_repeats(subject *s, clq_tensor x, clq_shape in) {
    (void)in;
    return clq_repeat_vector(s->model, x, 1 + below(s, 3), NULL);
}

/* ---- the rows ---- */

enum { ANY_SIZE = 4096 };
static const struct drawn_layer {
    const char *name;
    unsigned least, most; /* axes of the input */
    size_t largest;       /* elements of the input; the layer may give more */
    draw_layer *draw;
} drawn_layers[] = {
    {"dense", 1, 4, ANY_SIZE, draw_dense},
    {"activation", 1, 4, ANY_SIZE, draw_activation},
    {"norm", 1, 4, ANY_SIZE, draw_norm},
    {"noise", 1, 4, ANY_SIZE, draw_noise},
    {"function", 1, 4, ANY_SIZE, draw_function},
    {"arithmetic", 1, 4, ANY_SIZE, draw_arithmetic},
    {"where", 1, 4, ANY_SIZE, draw_choice},
    {"expression", 1, 4, ANY_SIZE, draw_expression},
    {"softmax", 1, 4, ANY_SIZE, draw_softmax},
    {"cumsum", 1, 4, ANY_SIZE, draw_sums},
    {"reduce", 1, 4, ANY_SIZE, draw_reduction},
    {"top_k", 2, 4, ANY_SIZE, draw_top},
    {"permute", 2, 4, ANY_SIZE, draw_order},
    {"reshape", 1, 4, ANY_SIZE, draw_shape},
    {"places", 1, 4, ANY_SIZE, draw_places},
    {"pad", 1, 4, 80, draw_pads},
    {"flip", 1, 4, ANY_SIZE, draw_flip},
    {"join", 1, 4, 80, draw_joined},
    {"split", 1, 4, ANY_SIZE, draw_part},
    {"axis", 1, 4, ANY_SIZE, draw_axis},
    {"einsum_dense", 1, 3, ANY_SIZE, draw_einsum_dense},
    {"product", 2, 4, 80, draw_product},
    {"conv", 3, 3, ANY_SIZE, draw_convolution},
    {"depthwise", 3, 3, 160, draw_depthwise},
    {"transposed", 3, 3, 80, draw_transposed},
    {"pool", 3, 3, ANY_SIZE, draw_pool},
    {"global", 2, 4, ANY_SIZE, draw_global_pool},
    {"resize", 3, 3, 80, draw_size},
    {"frame", 3, 3, 120, draw_frame},
    {"conv1d", 2, 2, 160, draw_convolution_of_rows},
    {"pool1d", 2, 2, ANY_SIZE, draw_pool_of_rows},
    {"recurrent", 2, 2, ANY_SIZE, draw_recurrent},
    {"attention", 2, 3, 160, draw_attention},
    {"scores", 2, 2, 120, draw_scores},
    {"dot_attention", 3, 3, 120, draw_dot_attention},
    {"written_attention", 2, 3, 120, draw_written_attention},
    {"rows", 2, 2, ANY_SIZE, draw_rows},
    {"repeat", 1, 1, 80, draw_repeats},
};

static size_t elements_of(const clq_shape *shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape->rank; d++) elements *= shape->dims[d];
    return elements;
}

static clq_tensor add_drawn_layer(subject *s, clq_tensor x) {
    const clq_shape in = *shape_of(s, x);
    const size_t elements = elements_of(&in);
    unsigned row = below(s, CLQ_COUNT_OF(drawn_layers));
    while (in.rank < drawn_layers[row].least || in.rank > drawn_layers[row].most ||
           elements > drawn_layers[row].largest)
        row = below(s, CLQ_COUNT_OF(drawn_layers));
    note(s, drawn_layers[row].name);
    x = drawn_layers[row].draw(s, x, in);
    if (x.id == 0) fail_msg("%s: refused: %s", s->path, s->model->error.detail);
    return x;
}

/* The beginning of a model: the images, masked sequences, rows of an embedding, or reshaped images. */
static clq_tensor add_beginning(subject *s, clq_tensor x) {
    clq_recurrent_config recurrent = clq_recurrent_config_default(4);
    const bool zero = below(s, 2);
    recurrent.return_sequences = true;
    switch (below(s, 6)) {
    case 0: note(s, "masked"); return clq_recurrent(s->model, masked_sequence(s, x, 9), CLQ_CELL_GRU, &recurrent);
    case 1:
        note(s, "embedding");
        x = clq_embedding(s->model, clq_reshape(s->model, x, CLQ_SHAPE(12, 6), NULL),
                          &(clq_embedding_config){.rows = 256, .width = 3});
        return clq_reshape(s->model, x, CLQ_SHAPE(12, 18), NULL);
    case 2:
        note(s, "masked rows");
        x = clq_embedding(s->model, clq_flatten(s->model, x, NULL),
                          &(clq_embedding_config){.rows = 256, .width = 2, .mask_zero = zero});
        return clq_recurrent(s->model, x, CLQ_CELL_LSTM, &recurrent);
    case 3: note(s, "rows"); return clq_reshape(s->model, x, CLQ_SHAPE(9, 8), NULL);
    case 4: note(s, "heads"); return clq_reshape(s->model, x, CLQ_SHAPE(6, 3, 4), NULL);
    default: return x;
    }
}

/* Adds a beginning and two to six layers. Now and then, the input of a layer also goes to the end of the model. */
static clq_tensor add_drawn_layers(subject *s, clq_tensor x) {
    branches b = {.count = 1};
    unsigned layers = 2 + below(s, 5);
    b.ends[0] = add_beginning(s, x);
    while (layers-- > 0) {
        const clq_tensor y = add_drawn_layer(s, b.ends[b.count - 1]);
        const bool goes_on = b.count < 4 && below(s, 5) == 0;
        if (goes_on) note(s, "|");
        b.count += goes_on;
        b.ends[b.count - 1] = y;
    }
    return gather(s, &b);
}

#endif
