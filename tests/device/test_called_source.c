/* Kernels that only call the functions that do their work: what the text becomes, and for which kernels this can be
 * done. */
#include "device/internal.h"
#include "fixture.h"

static const char kernels[] = "static int twice(int x) { return 2 * x; }\n"
                              "TILE_KERNEL void first(global const STORED(A) *restrict a,\n"
                              "#ifdef WIDE\n"
                              "                       global float *wide,\n"
                              "#endif\n"
                              "                       int count) {\n"
                              "    work(a, twice(count));\n"
                              "}\n"
                              "KERNEL void second(global float *y, local float *shared) { y[get_global_id(0)] = 0; }\n"
                              "int behind;\n";

static const char as_calls[] =
    "static int twice(int x) { return 2 * x; }\n"
    "TILE_KERNEL void first_of_item(CLQ_ITEM, global const STORED(A) *restrict a,\n"
    "#ifdef WIDE\n"
    "                       global float *wide,\n"
    "#endif\n"
    "                       int count) {\n"
    "    work(a, twice(count));\n"
    "}\n"
    "__kernel CLQ_GROUP_OF_ONE void first(global const STORED(A) *restrict a,\n"
    "#ifdef WIDE\n"
    "                       global float *wide,\n"
    "#endif\n"
    "                       int count) {\n"
    "    first_of_item(CLQ_HERE, a, \n"
    "#ifdef WIDE\n"
    "wide, \n"
    "#endif\n"
    "count);\n"
    "}\n"
    "#line 9\n"
    "KERNEL void second_of_item(CLQ_ITEM, global float *y, local float *shared) { y[get_global_id(0)] = 0; }\n"
    "__kernel CLQ_GROUP_OF_ONE void second(global float *y, local float *shared) {\n"
    "    second_of_item(CLQ_HERE, y, shared);\n"
    "}\n"
    "#line 10\n"
    "int behind;\n";

static void kernels_call_functions(void **state) {
    (void)state;
    clq_text text = {0};
    CHECK_OK(clq_called_source(kernels, true, &text));
    assert_string_equal(text.data, as_calls);
    clq_free(text.data);
}

static void others_stay(void **state) {
    (void)state;
    static const char *const texts[] = {"kernel void plain(int n) {\n}\n",
                                        "KERNEL void local_family(int n) {\n}\n",
                                        "TILE_KERNEL void first(int n) {\n}\nkernel void plain(int n) {\n}\n",
                                        "TILE_KERNEL void macros(int n, SHAPE_ARGS) {\n}\n",
                                        "TILE_KERNEL void macros(int n FOR_PEERS(PEER)) {\n}\n",
                                        "TILE_KERNEL void macros(OFF_PARAMETER int n) {\n}\n",
                                        "int none;\n"};
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) {
        clq_text text = {0};
        if (clq_called_source(texts[i], false, &text) != CLQ_ERROR_UNSUPPORTED) fail_msg("text %zu", i);
        clq_free(text.data);
    }
}

/* The kernels that take longest to compile, products and convolutions, can be turned into calls. */
static void products_are_such(void **state) {
    (void)state;
    static const char *const files[] = {"product_tile", "product_blocks", "conv_pool", "winograd_tile"};
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        clq_text text = {0};
        if (clq_called_source(clq_source_text(files[i]), true, &text) != CLQ_OK) fail_msg("%s.cl", files[i]);
        clq_free(text.data);
    }
}

static void memory_runs_out(void **state) {
    (void)state;
    size_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        clq_text text = {0};
        clq_memory_fail_at(nth, false);
        clq_status status = clq_called_source(kernels, true, &text);
        bool reached = clq_memory_fail_at(0, false) >= nth;
        assert_int_equal(status, reached ? CLQ_ERROR_MEMORY : CLQ_OK);
        failures += reached;
        clq_free(text.data);
        if (!reached) break;
    }
    assert_true(failures > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_call_functions), cmocka_unit_test(others_stay),
                                       cmocka_unit_test(products_are_such), cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
