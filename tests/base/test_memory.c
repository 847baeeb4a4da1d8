#include "support/check.h"

static void assert_zero(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) assert_int_equal(((const char *)data)[i], 0);
}

static void zeroed_and_aligned(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) { /* so that blocks are used again */
        char *plain = clq_alloc(100, 3), *aligned = clq_alloc_aligned(4096, 1000);
        assert_non_null(plain);
        assert_non_null(aligned);
        assert_int_equal((uintptr_t)aligned % 4096, 0);
        assert_zero(plain, 300);
        assert_zero(aligned, 1000);
        memset(plain, 1, 300);
        memset(aligned, 1, 1000);
        clq_free(plain);
        clq_free(aligned);
    }
    void *nothing = clq_alloc(0, 8), *nothing_aligned = clq_alloc_aligned(64, 0);
    assert_non_null(nothing);
    assert_non_null(nothing_aligned);
    clq_free(nothing);
    clq_free(nothing_aligned);
    clq_free(NULL);
}

static void grows_and_shrinks(void **state) {
    (void)state;
    uint32_t *numbers = clq_realloc(NULL, 0, 4, sizeof(*numbers));
    assert_non_null(numbers);
    assert_zero(numbers, 16);
    for (uint32_t i = 0; i < 4; i++) numbers[i] = i + 1;
    numbers = clq_realloc(numbers, 4, 1000, sizeof(*numbers));
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(numbers[i], i + 1);
    assert_zero(numbers + 4, 996 * 4);
    memset(numbers + 4, 1, 996 * 4);
    numbers = clq_realloc(numbers, 1000, 2, sizeof(*numbers));
    assert_int_equal(numbers[1], 2);
    numbers = clq_realloc(numbers, 2, 100, sizeof(*numbers));
    assert_zero(numbers + 2, 98 * 4);
    assert_null(clq_realloc(numbers, 100, SIZE_MAX / 2, sizeof(*numbers)));
    assert_int_equal(numbers[1], 2);
    clq_free(numbers);
}

static void impossible_sizes(void **state) {
    (void)state;
    assert_null(clq_alloc(SIZE_MAX / 2, 3));
    assert_non_null(strstr(clq_error_detail(), "out of host memory"));
    assert_null(clq_alloc(SIZE_MAX / 8 + 1, 8));
    size_t result = 7;
    assert_false(clq_mul_size(SIZE_MAX, 2, &result));
    assert_false(clq_add_size(SIZE_MAX, 1, &result));
    assert_true(clq_mul_size(SIZE_MAX, 1, &result));
    assert_true(result == SIZE_MAX);
    assert_true(clq_add_size(SIZE_MAX - 1, 1, &result));
    assert_int_equal(clq_round_up(0, 8), 0);
    assert_int_equal(clq_round_up(9, 8), 16);
    assert_int_equal(clq_round_up(16, 8), 16);
    assert_int_equal(clq_ceil_div(0, 3), 0);
    assert_int_equal(clq_ceil_div(7, 3), 3);
    assert_int_equal(clq_ceil_div(SIZE_MAX, SIZE_MAX), 1);
}

static void the_nth_fails(void **state) {
    (void)state;
    clq_memory_fail_at(2, false);
    void *a = clq_alloc(1, 1), *b = clq_alloc(1, 1), *c = clq_alloc(1, 1);
    assert_int_equal(clq_memory_fail_at(2, true), 3);
    void *d = clq_alloc_aligned(64, 1), *e = clq_strdup("x"), *f = clq_realloc(NULL, 0, 1, 1);
    char *g = clq_strprintf("%d", 1);
    assert_int_equal(clq_memory_fail_at(0, false), 4);
    void *h = clq_alloc(1, 1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_non_null(d);
    assert_null(e);
    assert_null(f);
    assert_null(g);
    assert_non_null(h);
    clq_free(a);
    clq_free(c);
    clq_free(d);
    clq_free(h);
}

static void room_for_one_more(void **state) {
    (void)state;
    uint32_t *list = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 100; i++) {
        list = clq_grow(list, i, &capacity, 3, sizeof *list);
        assert_non_null(list);
        list[i] = i;
    }
    assert_int_equal(capacity, 192);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(list[i], i);
    clq_memory_fail_at(1, false);
    assert_ptr_equal(clq_grow(list, 191, &capacity, 3, sizeof *list), list);
    assert_null(clq_grow(list, 192, &capacity, 3, sizeof *list));
    clq_memory_fail_at(0, false);
    assert_int_equal(capacity, 192);
    clq_free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroed_and_aligned), cmocka_unit_test(grows_and_shrinks), cmocka_unit_test(room_for_one_more),
        cmocka_unit_test(impossible_sizes),   cmocka_unit_test(the_nth_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
