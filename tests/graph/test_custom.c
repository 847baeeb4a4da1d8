/* Custom operations, with an application's own kernels. The check of an operation finds each mistake, bad operations
 * are refused, and what an operation owns is destroyed once. train/own_layers trains with custom operations. */
#include "device/fixture.h"
#include "graph/layers/layer.h"
#include "support/own_operation.h"

#include <math.h>

static clq_system *sys;
static clq_devices devices;
static const clq_shape row = {1, {6}};

/* ---- the check ---- */

static void a_right_operation_passes(void **state) {
    const clq_shape image = CLQ_SHAPE(3, 2);
    const clq_custom_operation operation = own_operation();
    clq_custom_report report = {.gradients = 0};
    (void)state;
    CHECK_OK(clq_custom_check(&devices, &operation, &row, 1, 1, &report));
    assert_int_equal(report.gradients, devices.count * (18 + 6 + 1));
    assert_true(report.gradient_error < 1e-3 && report.gradient[0] == 'd');
    CHECK_OK(clq_custom_check(&devices, &operation, &image, 1, 2, NULL));
}

static void each_mistake_is_found(void **state) {
    static const char *const says[OWN_FLAWS] = {
        "operation 'parabola', kernel parabola: it writes behind the end of y[24]",
        "kernel parabola: it writes in front of y[0]",
        "kernel parabola: it writes for samples that a smaller batch does not have, from y[18]",
        "kernel parabola: it writes into what it only reads, x0[0]",
        "kernel parabola: it does not write, or is not finite, or reads what is not its own, at y[1]",
        "kernel parabola: it does not write, or is not finite, or reads what is not its own, at y[0]",
        "kernel parabola_gradient: dx0[",
        "kernel parabola_gradient: dw0[",
    };
    clq_devices first = devices;
    first.count = 1;
    (void)state;
    for (unsigned flaw = 1; flaw <= OWN_FLAWS; flaw++) {
        clq_custom_operation operation = own_operation();
        clq_custom_report report = {.gradients = 7};
        operation.numbers[0] = flaw;
        CHECK_FAILS(CLQ_ERROR_MISMATCH, clq_custom_check(&first, &operation, &row, 1, 1, &report));
        CHECK_DETAIL(says[flaw - 1]);
        assert_int_equal(report.gradients, 7); /* as it was */
    }
}

/* If there are many derivatives, the check compares those at the ends of samples and variables, and others that the
 * seed chooses. */
static void mistakes_at_ends_are_found(void **state) {
    static const clq_shape images[] = {{3, {28, 28, 3}}, {2, {40, 90}}};
    clq_devices first = devices;
    first.count = 1;
    (void)state;
    for (unsigned flaw = OWN_FLAWS + 1; flaw <= OWN_FLAWS_AT_ENDS; flaw++) {
        clq_custom_operation operation = own_operation();
        clq_custom_report report = {.gradients = 0};
        const clq_shape *image = &images[flaw - OWN_FLAWS - 1];
        CHECK_OK(clq_custom_check(&first, &operation, image, 1, flaw, &report));
        assert_int_equal(report.gradients,
                         CLQ_CUSTOM_COMPARED + CLQ_MIN(image->dims[image->rank - 1], (size_t)CLQ_CUSTOM_COMPARED) + 1);
        operation.numbers[0] = flaw;
        CHECK_FAILS(CLQ_ERROR_MISMATCH, clq_custom_check(&first, &operation, image, 1, flaw, NULL));
        CHECK_DETAIL(flaw == OWN_FLAWS + 1 ? "kernel parabola_gradient: dx0[2351] is "
                                           : "kernel parabola_gradient: dw0[0] is ");
    }
}

/* An operation must compute each sample from that sample alone. */
static void samples_that_depend_on_others_are_found(void **state) {
    static const char source[] = "kernel void parabola(int count, global const float *x, global float *y) {\n"
                                 "    const int i = (int)get_global_id(0), all = count * Y_SIZE;\n"
                                 "    if (i < all) y[i] = x[(i + Y_SIZE) % all];\n"
                                 "}\n";
    const clq_custom_operation operation = {.name = "mixed", .source = source, .forward = "parabola"};
    clq_devices first = devices;
    first.count = 1;
    (void)state;
    CHECK_FAILS(CLQ_ERROR_MISMATCH, clq_custom_check(&first, &operation, &row, 1, 1, NULL));
    CHECK_DETAIL("kernel parabola: a sample alone has other bits than among others, in y[0]");
}

/* A compiler error becomes one line, with the name of the layer and the name of the operation. */
static void what_does_not_compile_is_one_line(void **state) {
    static const char *const sources[] = {
        "kernel void parabola(int count) {\n    undeclared(\n}\n",
        "\xff\n\x01 kernel\n#error \"\n",
        "kernel void other(int count) {}\n",
    };
    clq_devices first = devices;
    first.count = 1;
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        clq_custom_operation operation = own_operation();
        operation.source = sources[i];
        CHECK_FAILS(CLQ_ERROR_BUILD, clq_custom_check(&first, &operation, &row, 1, 1, NULL));
        CHECK_DETAIL("parabola.cl ");
        assert_null(strchr(clq_error_detail(), '\n'));
    }
}

/* ---- what is refused ---- */

static unsigned ended;
static void count_end(void *user) {
    assert_ptr_equal(user, &ended);
    ended++;
}

/* What `user` points to must be destroyed once, whether or not the layer is added. */
static void check_refused(clq_custom_operation operation, clq_status status, const char *says) {
    clq_model *model;
    operation.user = &ended;
    operation.destroy = count_end;
    ended = 0;
    CHECK_OK(clq_model_create("refused", &model));
    clq_tensor x = clq_input(model, row);
    clq_tensor y = clq_custom(model, &operation, &x, 1, NULL);
    CHECK_FAILS(status, clq_model_finish(model, y));
    CHECK_DETAIL("layer 'custom': ");
    CHECK_DETAIL(says);
    clq_model_destroy(model);
    assert_int_equal(ended, 1);
}

static clq_status set(void *user, clq_custom_shapes *s) {
    (void)user;
    *s = *(const clq_custom_shapes *)user;
    return CLQ_OK;
}

static void nonsense_is_refused(void **state) {
    clq_custom_operation bad = own_operation();
    (void)state;
    bad.name = "two words";
    check_refused(bad, CLQ_ERROR_ARGUMENT, "an operation's name 'two words' should be a letter or '_'");
    bad.name = NULL;
    check_refused(bad, CLQ_ERROR_ARGUMENT, "an operation's name NULL should be");
    bad = own_operation(), bad.source = NULL;
    check_refused(bad, CLQ_ERROR_ARGUMENT, "operation 'parabola' has no source");
    bad = own_operation(), bad.forward = "a-b";
    check_refused(bad, CLQ_ERROR_ARGUMENT, "forward's kernel 'a-b' should be");
    bad = own_operation(), bad.backward = "";
    check_refused(bad, CLQ_ERROR_ARGUMENT, "backward's kernel '' should be");
    bad = own_operation(), bad.backward = NULL;
    check_refused(bad, CLQ_ERROR_ARGUMENT, "it has variables, and no kernel for backward that trains them");
    bad = own_operation(), bad.numbers[7] = NAN;
    check_refused(bad, CLQ_ERROR_ARGUMENT, "operation 'parabola': number 7, nan, should be finite");
}

static void shapes_are_checked(void **state) {
    static const struct {
        clq_custom_shapes set;
        const char *says;
    } bad[] = {
        {{.output = {0}}, "a shape has 1 to 6 dimensions, not 0"},
        {{.output = {1, {3}}, .variable_count = 5}, "1 inputs, 5 variables and 0 kept values are too many"},
        {{.output = {1, {3}}, .kept_count = 3}, "3 kept values are too many"},
        {{.output = {1, {3}}, .kept_count = 1}, "a shape has 1 to 6 dimensions, not 0"},
        {{.output = {1, {3}}, .variable_count = 1, .variables = {{.name = "a b", .shape = {1, {1}}}}},
         "a variable's name 'a b' should be"},
        {{.output = {1, {3}}, .variable_count = 1, .variables = {{.name = "a"}}}, "variable 'a': a shape has"},
        {{.output = {1, {3}},
          .variable_count = 2,
          .variables = {{.name = "a", .shape = {1, {1}}}, {.name = "a", .shape = {1, {1}}}}},
         "two variables are 'a': give one of them another name"},
        {{.output = {1, {3}}, .group = 4}, "a work-group of 4 should have at most 1024 work-items, and divide the 3"},
        {{.output = {1, {3}}, .forward_items = (size_t)1 << 40}, "work-items for a sample are too many"},
        {{.output = {1, {3}}, .operations = -1}, "-1 operations for a sample should be finite and at least 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clq_custom_operation operation = own_operation();
        clq_custom_shapes shapes = bad[i].set;
        clq_model *model;
        operation.infer = set;
        operation.user = &shapes;
        CHECK_OK(clq_model_create("refused", &model));
        clq_tensor x = clq_input(model, row);
        CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_model_finish(model, clq_custom(model, &operation, &x, 1, "own")));
        CHECK_DETAIL("layer 'own': operation 'parabola': ");
        CHECK_DETAIL(bad[i].says);
        clq_model_destroy(model);
    }
    const clq_custom_operation own = own_operation();
    const clq_shape four = CLQ_SHAPE(2, 1, 2, 2);
    CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, clq_custom_check(&devices, &own, &four, 1, 1, NULL));
    CHECK_DETAIL(
        "operation 'parabola' refuses inputs of these shapes, the first of which is (2, 1, 2, 2): not supported");
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_custom_check(&devices, &own, &row, 0, 1, NULL));
    CHECK_DETAIL("operation 'parabola' has 1 to 4 inputs, not 0");
}

/* This holds also after a failure, and for a model that is already finished. */
static void what_an_operation_owns_is_ended_once(void **state) {
    clq_custom_operation operation = own_operation();
    clq_model *model;
    (void)state;
    operation.user = &ended;
    operation.destroy = count_end;
    ended = 0;
    CHECK_OK(clq_model_create("owner", &model));
    clq_tensor x = clq_input(model, row), y = clq_custom(model, &operation, &x, 1, NULL);
    (void)clq_custom(model, &operation, &y, 1, NULL); /* leads to no output */
    y = clq_share(model, y, y);
    CHECK_OK(clq_model_finish(model, y));
    assert_int_equal(ended, 1);
    assert_int_equal(clq_model_variable_count(model), 2);
    assert_int_equal(clq_custom(model, &operation, &x, 1, NULL).id, 0);
    assert_int_equal(ended, 2);
    clq_model_destroy(model);
    assert_int_equal(ended, 3);
}

/* ---- keys and memory ---- */

static void add_key(const char *source, double number, clq_text *to) {
    clq_custom_operation operation = own_operation();
    clq_model *model;
    operation.source = source;
    operation.numbers[3] = number;
    CHECK_OK(clq_model_create("key", &model));
    clq_tensor x = clq_input(model, row);
    CHECK_OK(clq_model_finish(model, clq_custom(model, &operation, &x, 1, NULL)));
    clq_model_add_key(model, to);
    assert_false(to->failed);
    clq_model_destroy(model);
}

/* Keys differ, so measurements of one operation are not used for another. */
static void sources_and_numbers_are_of_the_key(void **state) {
    clq_text keys[4] = {{0}};
    (void)state;
    add_key(own_source, 0, &keys[0]);
    add_key(own_source, 0, &keys[1]);
    add_key(own_source, 1, &keys[2]);
    add_key(own_source + 1, 0, &keys[3]);
    assert_string_equal(keys[0].data, keys[1].data);
    for (size_t i = 2; i < 4; i++) assert_string_not_equal(keys[0].data, keys[i].data);
    for (size_t i = 0; i < 4; i++) clq_free(keys[i].data);
}

static clq_status build(void *context) {
    clq_custom_operation operation = own_operation();
    clq_model *model;
    (void)context;
    operation.user = &ended;
    operation.destroy = count_end;
    ended = 0;
    CLQ_TRY(clq_model_create("memory", &model));
    clq_tensor x = clq_input(model, row);
    const clq_status status = clq_model_finish(model, clq_custom(model, &operation, &x, 1, NULL));
    clq_model_destroy(model);
    assert_int_equal(ended, 1);
    return status;
}

static clq_status check(void *context) {
    const clq_custom_operation operation = own_operation();
    return clq_custom_check(context, &operation, &row, 1, 1, NULL);
}

static void models_and_checks_run_out_of_memory(void **state) {
    clq_devices first = devices;
    first.count = 1;
    (void)state;
    assert_true(walk_allocations(build, NULL) >= 10);
    assert_true(walk_allocations(check, &first) >= 20);
}

static int start(void **state) {
    (void)state;
    if (clq_system_open(NULL, &sys) != CLQ_OK) return -1;
#if defined(__x86_64__)
    static const char spec[] = "pocl:0,intel:0";
#else
    static const char spec[] = "pocl:0";
#endif
    return clq_devices_select(sys, spec, &devices) == CLQ_OK ? 0 : -1;
}
static int finish(void **state) {
    (void)state;
    clq_system_close(sys);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_right_operation_passes),
                                       cmocka_unit_test(each_mistake_is_found),
                                       cmocka_unit_test(mistakes_at_ends_are_found),
                                       cmocka_unit_test(samples_that_depend_on_others_are_found),
                                       cmocka_unit_test(what_does_not_compile_is_one_line),
                                       cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(shapes_are_checked),
                                       cmocka_unit_test(what_an_operation_owns_is_ended_once),
                                       cmocka_unit_test(sources_and_numbers_are_of_the_key),
                                       cmocka_unit_test(models_and_checks_run_out_of_memory)};
    return cmocka_run_group_tests_name("graph/custom", tests, start, finish);
}
