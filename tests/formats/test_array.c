#include "formats/formats.h"
#include "support/check.h"

static void creates(void **state) {
    (void)state;
    clq_array array;
    assert_ok(clq_array_create(CLQ_F32, 3, (size_t[]){2, 3, 4}, &array));
    assert_int_equal(array.count, 24);
    assert_int_equal(array.rank, 3);
    assert_int_equal((uintptr_t)array.data % 64, 0);
    for (int i = 0; i < 24; i++) assert_true(((float *)array.data)[i] == 0);
    clq_array_release(&array);
    assert_null(array.data);
    clq_array_release(&array);
    assert_ok(clq_array_create(CLQ_I64, 0, NULL, &array));
    assert_int_equal(array.count, 1);
    clq_array_release(&array);
    assert_ok(clq_array_create(CLQ_U8, 2, (size_t[]){0, 7}, &array));
    assert_int_equal(array.count, 0);
    assert_non_null(array.data);
    clq_array_release(&array);
}

static void refuses(void **state) {
    (void)state;
    clq_array array = {.rank = 77};
    size_t many[CLQ_ARRAY_DIMS_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "dimensions", clq_array_create(CLQ_U8, CLQ_ARRAY_DIMS_MAX + 1, many, &array));
    assert_fails(CLQ_ERROR_ARGUMENT, "type", clq_array_create(CLQ_DTYPE_COUNT, 1, many, &array));
    assert_fails(CLQ_ERROR_MEMORY, "(4294967296, 4294967296) u8",
                 clq_array_create(CLQ_U8, 2, (size_t[]){(size_t)1 << 32, (size_t)1 << 32}, &array));
    assert_fails(CLQ_ERROR_MEMORY, "does not fit", clq_array_create(CLQ_F64, 1, (size_t[]){SIZE_MAX / 8 + 2}, &array));
    assert_fails(CLQ_ERROR_MEMORY, "does not fit", clq_array_create(CLQ_F64, 1, (size_t[]){SIZE_MAX / 16 + 1}, &array));
    assert_int_equal(array.rank, 77);
}

static void describes(void **state) {
    (void)state;
    char text[256];
    clq_array array = {.dtype = CLQ_U8, .rank = 3, .dims = {60000, 28, 28}};
    clq_array_describe(&array, text, sizeof(text));
    assert_string_equal(text, "(60000, 28, 28) u8");
    array.rank = 1;
    clq_array_describe(&array, text, sizeof(text));
    assert_string_equal(text, "(60000,) u8");
    array.rank = 0;
    clq_array_describe(&array, text, sizeof(text));
    assert_string_equal(text, "() u8");
    array = (clq_array){.dtype = CLQ_BF16, .rank = 8};
    for (int i = 0; i < 8; i++) array.dims[i] = SIZE_MAX;
    clq_array_describe(&array, text, sizeof(text));
    assert_int_equal(strlen(text), 1 + 8 * 20 + 7 * 2 + strlen(") bf16"));
    clq_array_describe(&array, text, 10);
    assert_int_equal(strlen(text), 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(creates), cmocka_unit_test(refuses),
                                       cmocka_unit_test(describes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
