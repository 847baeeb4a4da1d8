/* Images whose places are moved by random draws of each sample, against their definition in double. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

enum { KINDS = CLQ_WARP_CROP + 1, FILLS = CLQ_FILL_WRAPPED + 1 };

typedef struct warp_size {
    size_t height, width, channels, out_height, out_width; /* out: only for crops; others keep the size */
    uint32_t capacity;
} warp_size;

static const warp_size sizes[] = {{5, 7, 3, 3, 4, 4}, {1, 6, 1, 1, 1, 3}, {8, 3, 2, 7, 3, 5}, {17, 19, 5, 9, 16, 6}};

/* The ranges lead beyond all edges, by more than an image. For a crop they are all places where it fits. */
static clq_warp_problem problem_of(clq_warp_kind kind, const warp_size *size, unsigned variant) {
    clq_warp_problem p = {.kind = kind,
                          .height = size->height,
                          .width = size->width,
                          .channels = size->channels,
                          .out_height = size->height,
                          .out_width = size->width,
                          .value = -3.5};
    static const double ranges[KINDS][2][2] = {[CLQ_WARP_TURN] = {{-0.4, 0.7}, {0, 0}},
                                               [CLQ_WARP_ZOOM] = {{-0.8, 1.4}, {-0.3, 4.5}},
                                               [CLQ_WARP_SHIFT] = {{-1.3, 0.9}, {-0.4, 2.6}}};
    memcpy(p.ranges, ranges[kind], sizeof p.ranges);
    if (kind == CLQ_WARP_FLIP) p.flags = 1 + variant % 3;
    if (kind == CLQ_WARP_ZOOM) p.flags = variant % 2;
    if (kind != CLQ_WARP_CROP) return p;
    p.out_height = size->out_height;
    p.out_width = size->out_width;
    p.ranges[0][1] = (double)(size->height - size->out_height) + 1 - 1e-3;
    p.ranges[1][1] = (double)(size->width - size->out_width) + 1 - 1e-3;
    return p;
}

/* Near a tie, rounding may go either way. There are few ties, so nearly all places are compared. */
static void check_nearest(rig *r, clq_value y, const clq_warp_problem *p, uint32_t count, double *want,
                          const double *ties, double relative) {
    const size_t places = count * p->out_height * p->out_width;
    float *got = rig_alloc(places * p->channels + 1, sizeof *got);
    size_t compared = 0;
    rig_read_stored(r, y, CLQ_F32, got, places * p->channels);
    for (size_t i = 0; i < places; i++) {
        if (ties[i] < 1e-4) continue;
        rig_check_close(r, "the nearest", got + i * p->channels, want + i * p->channels, p->channels, relative, 0);
        compared++;
    }
    assert_true(compared * 50 >= places * 49);
    rig_check_untouched(r, y, places * p->channels * sizeof *got);
    clq_free(got);
}

static void check(rig *r, const clq_warp_problem *p, uint32_t capacity, uint32_t count, clq_dtype of_x,
                  clq_dtype of_y) {
    const size_t elements = p->height * p->width * p->channels, out = p->out_height * p->out_width,
                 n = out * p->channels * count;
    clq_random random = clq_random_start(83, elements + (size_t)p->kind);
    rig_data x = rig_make(&random, of_x, elements * count, -1, 1), draws = rig_make(&random, CLQ_F32, 4 * count, 0, 1);
    double *want = rig_alloc(n + 1, sizeof *want), *ties = rig_alloc(out * count + 1, sizeof *ties);
    rig_begin(r, capacity);
    const clq_value vx = rig_value_of(r, "x", of_x, 0, elements), vdraws = rig_value_of(r, "draws", CLQ_F32, 0, 4),
                    vy = rig_value_of(r, "y", of_y, 0, out * p->channels);
    clq_warp(r->list, p, vx, vdraws, vy);
    rig_bind(r);
    rig_fill(r, vx, x.stored, clq_values_bytes(of_x, elements * count));
    rig_fill(r, vdraws, draws.stored, 4 * count * sizeof(float));
    rig_run(r, count);
    ref_warp(p, count, x.exact, draws.exact, want, ties);
    /* A place is at most about 3 images away and is rounded some times. Neighbouring numbers differ by up to 4.5. */
    const double slips =
        p->kind == CLQ_WARP_FLIP || p->kind == CLQ_WARP_CROP ? 0 : 4e-6 * (double)(p->height + p->width);
    if (p->nearest && of_y == CLQ_F32)
        check_nearest(r, vy, p, count, want, ties, 0);
    else
        rig_check_value(r, "y", vy, of_y, want, n, 0, slips);
    rig_end(r);
    rig_release(&x);
    rig_release(&draws);
    clq_free(want);
    clq_free(ties);
}

/* Each combination is a program of its own. A driver runs it in one of the families. */
static void every_kind_and_fill(rig *r) {
    for (unsigned i = 0; i < KINDS * FILLS * 2; i++) {
        if (!rig_takes(r, i / 2 + i)) continue;
        for (size_t k = 0; k < CLQ_COUNT_OF(sizes); k++) {
            clq_warp_problem p = problem_of((clq_warp_kind)(i / 2 % KINDS), &sizes[k], i + (unsigned)k);
            const uint32_t capacity = sizes[k].capacity;
            p.fill = (clq_warp_fill)(i / 2 / KINDS);
            p.nearest = i % 2;
            if (!rig_affords(r, p.height * p.width * p.channels * capacity)) continue;
            check(r, &p, capacity, capacity, CLQ_F32, CLQ_F32);
            check(r, &p, capacity, k == 1 ? 0 : capacity - 1, CLQ_F32, CLQ_F32);
        }
    }
}

/* 16 bits in memory. */
static void stored(rig *r) {
    static const clq_dtype types[][2] = {{CLQ_F16, CLQ_F16}, {CLQ_BF16, CLQ_F32}, {CLQ_F32, CLQ_BF16}};
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++) {
        clq_warp_problem p = problem_of(i % 2 ? CLQ_WARP_ZOOM : CLQ_WARP_TURN, &sizes[0], 1);
        p.fill = i % 2 ? CLQ_FILL_VALUE : CLQ_FILL_REFLECTED;
        if (rig_takes(r, i)) check(r, &p, 4, 3, types[i][0], types[i][1]);
    }
}

static void test_every_kind_and_fill(void **state) {
    (void)state;
    rig_each(every_kind_and_fill);
}

static void test_stored(void **state) {
    (void)state;
    rig_each(stored);
}

/* ---- the reference, by examples of Keras's documentation ---- */

static void warp_row(clq_warp_problem p, double draw, const double *x, const double *want, size_t width) {
    const double draws[] = {draw, draw, draw, draw};
    double y[16];
    p.channels = 1;
    p.height = p.out_height = 1;
    p.width = p.out_width = width;
    ref_warp(&p, 1, x, draws, y, NULL);
    for (size_t i = 0; i < width; i++)
        if (fabs(y[i] - want[i]) > 1e-12) fail_msg("kind %d, fill %d: [%zu] is %g", (int)p.kind, (int)p.fill, i, y[i]);
}

/* What lies beyond the edges of a b c d, for each fill: k k, a a, b a | a b, c d | a b. A shift to the right is
 * positive. */
static void test_fills_are_keras_s(void **state) {
    (void)state;
    static const double x[] = {1, 2, 3, 4}, right[FILLS][4] = {{9, 9, 1, 2}, {1, 1, 1, 2}, {2, 1, 1, 2}, {3, 4, 1, 2}},
                        left[FILLS][4] = {{3, 4, 9, 9}, {3, 4, 4, 4}, {3, 4, 4, 3}, {3, 4, 1, 2}},
                        half[FILLS][4] = {
                            {5, 1.5, 2.5, 3.5}, {1, 1.5, 2.5, 3.5}, {1, 1.5, 2.5, 3.5}, {2.5, 1.5, 2.5, 3.5}};
    for (unsigned fill = 0; fill < FILLS; fill++) {
        clq_warp_problem p = {.kind = CLQ_WARP_SHIFT, .fill = (clq_warp_fill)fill, .value = 9};
        p.ranges[1][0] = -0.5;
        p.ranges[1][1] = 0.5;
        warp_row(p, 1, x, right[fill], 4);
        warp_row(p, 0, x, left[fill], 4);
        warp_row(p, 0.625, x, half[fill], 4);
    }
}

/* A quarter turn against the clock; a zoom by 1, which is outwards, of a row with a middle; flips; a crop. */
static void test_kinds_are_keras_s(void **state) {
    (void)state;
    static const double square[] = {1, 2, 3, 4}, turned[] = {2, 4, 1, 3}, draws[4] = {0};
    static const double row[] = {1, 2, 3, 4, 5}, out[] = {0, 1, 3, 5, 0}, flipped[] = {5, 4, 3, 2, 1};
    clq_warp_problem p = {
        .kind = CLQ_WARP_TURN, .height = 2, .width = 2, .channels = 1, .out_height = 2, .out_width = 2};
    double y[4];
    p.ranges[0][0] = p.ranges[0][1] = 0.25;
    ref_warp(&p, 1, square, draws, y, NULL);
    for (size_t i = 0; i < 4; i++) assert_true(fabs(y[i] - turned[i]) < 1e-12);
    p = (clq_warp_problem){.kind = CLQ_WARP_ZOOM};
    p.ranges[0][0] = p.ranges[0][1] = 1; /* both axes */
    warp_row(p, 0.3, row, out, 5);
    p.flags = 1;
    p.ranges[0][0] = p.ranges[0][1] = 0.2;
    p.ranges[1][0] = p.ranges[1][1] = 1;
    warp_row(p, 0.3, row, out, 5);
    p = (clq_warp_problem){.kind = CLQ_WARP_FLIP, .flags = 1};
    warp_row(p, 0.5, row, flipped, 5);
    warp_row(p, 0.51, row, row, 5);
    p.flags = 2;
    warp_row(p, 0.5, row, row, 5);
    p = (clq_warp_problem){
        .kind = CLQ_WARP_CROP, .height = 1, .width = 5, .channels = 1, .out_height = 1, .out_width = 2};
    p.ranges[1][0] = p.ranges[1][1] = 2.9;
    ref_warp(&p, 1, row, draws, y, NULL);
    assert_true(y[0] == 3 && y[1] == 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind_and_fill), cmocka_unit_test(test_stored),
                                       cmocka_unit_test(test_fills_are_keras_s),
                                       cmocka_unit_test(test_kinds_are_keras_s)};
    return cmocka_run_group_tests_name("ops/warp", tests, NULL, NULL);
}
