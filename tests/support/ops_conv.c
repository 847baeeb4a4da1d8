#include "support/ops_conv.h"

#include "ref/ref_product.h"

/* F(2x2, 3x3) adds 16 products of sums, where a plain sum adds 9 products. With the transforms' own additions, it makes
 * at most (2 n + 12) roundings over n channels, of numbers up to (8 / 3)^2 times as large. For any n from 8 on, the
 * error is at most three times that of the (9 n + 8) roundings of a plain sum. With fewer channels the transforms'
 * share is larger: for n = 1, six times. */
enum { WINOGRAD_GROWTH = 3, FEW_CHANNELS = 8, WINOGRAD_GROWTH_OF_FEW = 6 };
/* F(4x4, 3x3) adds in the same way: at most (2 n + 30) roundings of numbers up to 84 times as large. In each dimension,
 * for an output or a tap, the largest sum of |A| |G| |B| over the points is 9.14 times what a plain sum has. */
enum { WIDE_ROUNDINGS = 30, WIDE_SIZE = 84 };
/* The error of all numbers together, whose errors are independent: three times that of plain sums. Simulated in float32
 * for random numbers, 16 to 256 channels lose 0.8e-6 to 1.4e-6. */
#define WIDE_RELATIVE 3e-6

#define WIDE "wide winograd"
#define STRIDED "strided winograd"

typedef struct made {
    const clq_conv2d_problem *p;
    const rig_variant *variant;
} made;

bool conv_is_winograd(const clq_list *list) {
    clq_launch_info info;
    clq_list_launch_info(list, clq_list_launch_count(list) - 1, &info);
    return info.file && strncmp(info.file, "winograd", strlen("winograd")) == 0;
}

static bool names_strided(const rig_variant *variant) { return variant->conv && strcmp(variant->conv, STRIDED) == 0; }

/* Whether the variant computes tiles of 4x4 outputs. */
static bool names_wide(const rig_variant *variant) {
    return variant->conv && (strcmp(variant->conv, WIDE) == 0 || names_strided(variant));
}

static bool names_winograd(const rig_variant *variant) {
    return variant->conv && (strncmp(variant->conv, "winograd", strlen("winograd")) == 0 || names_wide(variant));
}

static void check_variant(const clq_list *list, const rig_variant *variant) {
    if (variant->conv) assert_int_equal(conv_is_winograd(list), names_winograd(variant));
    if (!names_wide(variant)) return;
    clq_launch_info info;
    clq_list_launch_info(list, clq_list_launch_count(list) - 1, &info);
    const bool strided = strstr(info.options, "-DSTRIDE=2") || strstr(info.options, "-DSPREAD");
    assert_true(strstr(info.options, "-DSIDE=") && strided == names_strided(variant));
    assert_null(strstr(info.options, "-DSIDE=2"));
}

static void forward(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value b, clq_value y) {
    const made *m = problem;
    clq_conv2d_forward(list, m->p, x, w, b, y);
    check_variant(list, m->variant);
}

static void backward(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value dz, clq_value dx,
                     clq_value dw) {
    const made *m = problem;
    clq_conv2d_backward(list, m->p, x, w, dz, dx, dw);
    check_variant(list, m->variant);
}

static void ref(const void *problem, size_t count, const double *x, const double *w, const double *b, double *z) {
    ref_conv2d(((const made *)problem)->p, count, x, w, b, z);
}

static void ref_gradients(const void *problem, size_t count, const double *x, const double *w, const double *dz,
                          double *dx, double *dw) {
    ref_conv2d_gradients(((const made *)problem)->p, count, x, w, dz, dx, dw);
}

/* With wide tiles, a weight's gradient sums one product of transforms per tile. */
static size_t gradient_terms(const void *problem, size_t count) {
    const made *m = problem;
    const size_t rows = m->p->out_h * m->p->out_w, tiles = (m->p->out_h + 3) / 4 * ((m->p->out_w + 3) / 4);
    return names_wide(m->variant) ? WIDE_SIZE * (count * tiles + WIDE_ROUNDINGS) : count * rows;
}

static size_t growth_of(const clq_conv2d_problem *p, const rig_variant *variant) {
    if (!names_winograd(variant)) return 1;
    if (names_wide(variant)) return WIDE_SIZE * (2 * p->in_c + WIDE_ROUNDINGS) / (9 * p->in_c + FEW_CHANNELS) + 1;
    return p->in_c < FEW_CHANNELS || p->out_c < FEW_CHANNELS ? WINOGRAD_GROWTH_OF_FEW : WINOGRAD_GROWTH;
}

void conv_check(rig *r, const conv_case *c, const rig_variant *variant) {
    const clq_conv2d_problem *p = &c->p;
    product_layer layer = {
        .in = p->in_h * p->in_w * p->in_c,
        .out = p->out_h * p->out_w * p->out_c,
        .weights = p->kernel_h * p->kernel_w * p->in_c * p->out_c,
        .biases = c->bias ? p->out_c : 0,
        .rows = p->out_h * p->out_w,
        .growth = growth_of(p, variant),
        .gradient_terms = gradient_terms,
        .relative = names_wide(variant) ? WIDE_RELATIVE : 0,
        .activation = p->activation,
        .adds = p->adds,
        .problem = &(made){p, variant},
        .forward = forward,
        .backward = backward,
        .ref = ref,
        .ref_gradients = ref_gradients,
    };
    product_check(r, &layer, c->capacity, variant);
}
