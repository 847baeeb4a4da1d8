/* Convolutions by Winograd's products: the families' kernels against the plain reference, and when they are used. */
#include "ops/convolution/winograd.h"
#include "support/ops_conv.h"

/* For the tile family: both channels are whole vectors. */
static const conv_case tiles[] = {
    /* valid, odd sizes; panels of two vectors */
    {{13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, true},
    /* small enough for a simulator */
    {{4, 3, 16, 4, 3, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 1, true},
    /* same; panels of one vector forward, of three back; several blocks and slices of the weights' gradient, some of
       them empty for few samples; added up */
    {{16, 15, 48, 16, 15, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_TANH, true}, 12, false},
    /* all places that a tap reaches; five vectors */
    {{5, 6, 16, 7, 8, 80, 3, 3, 1, 1, 1, 1, 2, 2, CLQ_ACTIVATION_RELU, false}, 4, true},
    /* padding behind only, rows and columns left out; long sums, several parts of the input's channels, and groups of
       the output's; weights' gradients added up */
    {{5, 4, 256, 4, 3, 160, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, true}, 4, true},
};
/* Small, with panels of one vector forward and of three back. */
static const conv_case narrow = {{7, 10, 48, 7, 10, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_TANH, false}, 5, false};

/* For the tile family, in tiles of 4x4 outputs. */
static const conv_case wide[] = {
    /* valid, odd sizes that leave out parts of tiles both ways */
    {{13, 16, 32, 11, 14, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, true},
    /* small enough for a simulator; a single tile, rows left out */
    {{3, 4, 16, 3, 4, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 1, true},
    /* same; panels of one vector forward, of three back; several blocks and slices of the weights' gradient, some of
       them empty for few samples; added up */
    {{32, 31, 48, 32, 31, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_TANH, true}, 12, false},
    /* all places that a tap reaches; five vectors */
    {{5, 6, 16, 7, 8, 80, 3, 3, 1, 1, 1, 1, 2, 2, CLQ_ACTIVATION_RELU, false}, 4, true},
    /* several parts of the input's channels, and groups of the output's */
    {{6, 6, 144, 6, 6, 160, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, true},
    /* padding behind only; long sums; weights beyond caches, whose blocks are larger; their gradients added up */
    {{5, 4, 512, 4, 3, 256, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, true}, 7, true},
};

/* For the tile family, with a stride of 2. */
static const conv_case strided[] = {
    /* valid, odd and even sizes; parts of tiles one way */
    {{17, 14, 32, 8, 6, 64, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, true},
    /* small enough for a simulator; a single tile, rows left out */
    {{5, 7, 16, 3, 4, 16, 3, 3, 2, 2, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 1, true},
    /* padding in front, and behind one way; panels of one vector; several blocks and slices of the weights' gradient,
       some of them empty for few samples; added up */
    {{64, 63, 48, 32, 32, 16, 3, 3, 2, 2, 1, 1, 1, 1, CLQ_ACTIVATION_TANH, true}, 12, false},
    /* padding behind; five vectors */
    {{16, 10, 16, 8, 5, 80, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 4, true},
    /* several parts of the input's channels, and groups of the output's */
    {{12, 12, 144, 6, 6, 160, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 2, true},
    /* parts of tiles both ways; long sums; weights beyond caches, whose blocks are larger; their gradients added up */
    {{7, 9, 512, 4, 5, 256, 3, 3, 2, 2, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, true}, 7, true},
};

/* For the local family: any channels. */
static const conv_case local[] = {
    /* valid, odd sizes; more tiles and columns than a block; edges of both */
    {{13, 13, 32, 11, 11, 68, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, true},
    /* small enough for a simulator */
    {{4, 3, 4, 4, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 1, true},
    /* edges of tiles below; a step of half the channels that there are */
    {{7, 10, 36, 7, 10, 32, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_TANH, false}, 3, true},
    /* all places that a tap reaches */
    {{5, 6, 8, 7, 8, 68, 3, 3, 1, 1, 1, 1, 2, 2, CLQ_ACTIVATION_SIGMOID, false}, 1, true},
    /* padding behind only, rows and columns left out */
    {{5, 4, 64, 4, 3, 4, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 3, false},
    /* no whole vectors */
    {{6, 5, 3, 6, 5, 7, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 5, true},
    /* sums that are put aside: twice forward, once back */
    {{2, 3, 515, 2, 3, 260, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, true},
};

static void check_tile(rig *r, size_t index) { conv_check(r, &tiles[index], &(rig_variant){.conv = "winograd"}); }

static void check_wide(rig *r, size_t index) { conv_check(r, &wide[index], &(rig_variant){.conv = "wide winograd"}); }

static void check_strided(rig *r, size_t index) {
    conv_check(r, &strided[index], &(rig_variant){.conv = "strided winograd"});
}

static void check_local(rig *r, size_t index) { conv_check(r, &local[index], &(rig_variant){.conv = "winograd"}); }

static void check_both(rig *r) {
    enum { EVERYWHERE = 1 };
    if (r->family == CLQ_FAMILY_TILE)
        product_check_cases(r, CLQ_COUNT_OF(tiles), EVERYWHERE, check_tile);
    else
        product_check_cases(r, CLQ_COUNT_OF(local), EVERYWHERE, check_local);
    if (r->family == CLQ_FAMILY_TILE) product_check_cases(r, CLQ_COUNT_OF(wide), EVERYWHERE, check_wide);
    if (r->family == CLQ_FAMILY_TILE) product_check_cases(r, CLQ_COUNT_OF(strided), EVERYWHERE, check_strided);
}

static void matches_reference(void **state) {
    (void)state;
    rig_each(check_both);
}

/* Checks each block of the local family on one of the drivers, with tiles, columns and channels that do not fill
 * blocks. If the other device is PoCL's pool, it is left out, because it builds the blocks as the basic device does. */
static void check_blocks(rig *r) {
    static const conv_case odd = {{7, 9, 14, 7, 9, 36, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 3, true};
    static const conv_case simulated = {
        {3, 5, 5, 3, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, true};
    const clq_device_info *info = clq_device_get_info(r->device);
    bool built = strcmp(info->driver, "pocl") == 0 && !clq_device_runs_in_caller(r->device);
    if (r->family != CLQ_FAMILY_LOCAL || built) return;
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS; i++) {
        char block[CLQ_CANDIDATE_BYTES];
#if defined(__x86_64__) /* elsewhere only PoCL runs blocks */
        if (!rig_takes(r, i)) continue;
#endif
        clq_winograd_block_name(i, block);
        conv_check(r, rig_is_simulated(r) ? &simulated : &odd, &(rig_variant){.conv = block});
        if (!rig_is_simulated(r)) assert_true(clq_winograd_block_works(r->device, i, NULL));
    }
}

static void blocks_match_reference(void **state) {
    (void)state;
    rig_each(check_blocks);
}

/* 16 bits in memory, and floats after the transforms. */
static void check_stored(rig *r, size_t index) {
    static const rig_variant how[] = {{.conv = "winograd", .x = CLQ_F16, .w = CLQ_F16, .y = CLQ_F16},
                                      {.conv = "winograd", .x = CLQ_BF16, .w = CLQ_BF16},
                                      {.conv = "wide winograd", .x = CLQ_F16, .w = CLQ_BF16, .y = CLQ_F16}};
    conv_check(r, index == 0 ? &tiles[1] : index == 1 ? &narrow : &wide[1], &how[index]);
}
static void check_tiles_stored(rig *r) {
    if (r->family == CLQ_FAMILY_TILE) product_check_cases(r, 3, 1, check_stored);
}

static void stored_in_16_bits(void **state) {
    (void)state;
    rig_each(check_tiles_stored);
}

/* Whether a convolution is made with Winograd's products, forward and for the data gradient. */
static bool is_winograd(rig *r, const clq_conv2d_problem *p, uint32_t capacity, const char *conv) {
    rig_begin(r, capacity);
    rig_force(r, &(rig_variant){.conv = conv});
    clq_value x = rig_value(r, "x", 4, 0), w = rig_value(r, "w", 4, 0), y = rig_value(r, "y", 4, 0);
    clq_conv2d_forward(r->list, p, x, w, CLQ_NO_VALUE, y);
    bool there = conv_is_winograd(r->list);
    clq_conv2d_backward(r->list, p, x, w, y, x, CLQ_NO_VALUE);
    if (conv || clq_device_get_info(r->device)->type == CLQ_DEVICE_CPU) /* on a GPU, rates decide for each */
        assert_int_equal(conv_is_winograd(r->list), there);
    assert_int_equal(clq_list_status(r->list), CLQ_OK);
    clq_list_destroy(r->list);
    r->list = NULL;
    return there;
}

/* The same for the weights' gradient. */
static bool outer_is_winograd(rig *r, const clq_conv2d_problem *p, uint32_t capacity, const char *conv) {
    rig_begin(r, capacity);
    rig_force(r, &(rig_variant){.conv = conv});
    clq_value x = rig_value(r, "x", 4, 0), w = rig_value(r, "w", 4, 0), dz = rig_value(r, "dz", 4, 0);
    clq_conv2d_backward(r->list, p, x, w, dz, CLQ_NO_VALUE, w);
    bool there = conv_is_winograd(r->list);
    assert_int_equal(clq_list_status(r->list), CLQ_OK);
    clq_list_destroy(r->list);
    r->list = NULL;
    return there;
}

/* Only the tile family has Winograd's products for the weights' gradient. */
static void check_choice_of_outer(rig *r) {
    const clq_conv2d_problem good = {13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    bool tile = r->family == CLQ_FAMILY_TILE;
    assert_int_equal(outer_is_winograd(r, &good, 64, NULL), tile);
    assert_int_equal(outer_is_winograd(r, &good, 1, "winograd"), tile);
    assert_false(outer_is_winograd(r, &good, 1, NULL)); /* few tiles */
    assert_false(outer_is_winograd(r, &good, 64, "direct"));
    clq_conv2d_problem p = {13, 13, 32, 6, 6, 64, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(outer_is_winograd(r, &p, 64, "winograd")); /* few outputs, and a stride of 2 */
    p = (clq_conv2d_problem){13, 13, 1040, 11, 11, 1040, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(outer_is_winograd(r, &p, 64, "winograd")); /* sums that take too much memory */
    p = (clq_conv2d_problem){13, 13, 33, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(outer_is_winograd(r, &p, 64, "winograd")); /* parts of vectors */
}

/* Unless the selection names another way, tiles have 4x4 outputs if there are enough channels, and never with a
 * pool. */
static void check_width(rig *r) {
    if (r->family != CLQ_FAMILY_TILE) return;
    static const struct {
        clq_conv2d_problem p;
        const char *conv, *forward, *outer;
    } cases[] = {
        {{16, 16, 64, 16, 16, 64, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, NULL, "-DSIDE=4", "-DSIDE=4"},
        {{16, 16, 64, 16, 16, 64, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false},
         "winograd",
         "-DSIDE=2",
         "-DSIDE=2"},
        /* two rows and columns of tiles: six in ten of their places lie outside */
        {{5, 5, 64, 5, 5, 64, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, NULL, "-DSIDE=2", "-DSIDE=2"},
        /* one tile of an image */
        {{4, 4, 512, 4, 4, 512, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, NULL, "-DSIDE=4", "-DSIDE=4"},
        /* more channels than have room */
        {{8, 8, 1024, 8, 8, 64, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, NULL, "-DSIDE=2", "-DSIDE=4"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        rig_begin(r, 64);
        rig_force(r, &(rig_variant){.conv = cases[i].conv});
        clq_value x = rig_value(r, "x", 4, 0), w = rig_value(r, "w", 4, 0), y = rig_value(r, "y", 4, 0);
        clq_launch_info info;
        clq_conv2d_forward(r->list, &cases[i].p, x, w, CLQ_NO_VALUE, y);
        clq_list_launch_info(r->list, clq_list_launch_count(r->list) - 1, &info);
        assert_non_null(strstr(info.options, cases[i].forward));
        clq_conv2d_backward(r->list, &cases[i].p, x, w, y, CLQ_NO_VALUE, w);
        clq_list_launch_info(r->list, clq_list_launch_count(r->list) - 1, &info);
        assert_non_null(strstr(info.options, cases[i].outer));
        clq_list_destroy(r->list);
        r->list = NULL;
    }
}

static void check_choice(rig *r) {
    check_width(r);
    check_choice_of_outer(r);
    const clq_conv2d_problem good = tiles[0].p;
    const clq_conv2d_problem small = {5, 5, 32, 3, 3, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false};
    bool tile = r->family == CLQ_FAMILY_TILE;
    assert_true(is_winograd(r, &good, 1, "winograd"));
    if (clq_device_get_info(r->device)->type == CLQ_DEVICE_CPU) {
        assert_true(is_winograd(r, &good, 64, NULL));
        assert_int_equal(is_winograd(r, &narrow.p, 64, NULL), tile);
        assert_false(is_winograd(r, &small, 1, NULL)); /* few pixels */
    }
    assert_false(is_winograd(r, &good, 64, "direct"));
    clq_conv2d_problem p = {13, 13, 32, 6, 6, 64, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(is_winograd(r, &p, 64, "winograd")); /* few outputs, and a stride of 2 */
    p = (clq_conv2d_problem){13, 13, 32, 9, 9, 64, 3, 3, 1, 1, 2, 2, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(is_winograd(r, &p, 64, "winograd")); /* dilation */
    p = (clq_conv2d_problem){13, 13, 32, 9, 11, 64, 5, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_false(is_winograd(r, &p, 64, "winograd")); /* taps */
    p = (clq_conv2d_problem){13, 13, 33, 11, 11, 35, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_int_equal(is_winograd(r, &p, 64, "winograd"), !tile); /* parts of vectors */
    p = (clq_conv2d_problem){13, 13, 1040, 11, 11, 1040, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false};
    assert_int_equal(is_winograd(r, &p, 64, "winograd"), !tile); /* beyond a cache */
}

static void used_where_it_fits_and_pays(void **state) {
    (void)state;
    rig_each(check_choice);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_reference), cmocka_unit_test(blocks_match_reference),
                                       cmocka_unit_test(stored_in_16_bits),
                                       cmocka_unit_test(used_where_it_fits_and_pays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
