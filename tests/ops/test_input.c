#include "support/ops_rig.h"

static void check(rig *r, size_t elements, uint32_t capacity, uint32_t count) {
    size_t n = elements * count;
    unsigned char *x = rig_alloc(n + 1, 1);
    float *y = rig_alloc(n + 1, sizeof(float));
    for (size_t i = 0; i < n; i++) x[i] = (unsigned char)(i * 37 + i / 256);
    rig_begin(r, capacity);
    clq_value in = rig_value(r, "x", 0, elements), out = rig_value(r, "y", 0, elements * sizeof(float));
    clq_input_u8(r->list, elements, 1.0f / 255.0f, in, out);
    rig_bind(r);
    rig_fill(r, in, x, n);
    rig_run(r, count);
    rig_read(r, out, y, n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        float want = (float)x[i] * (1.0f / 255.0f);
        if (memcmp(&want, &y[i], sizeof want) != 0)
            fail_msg("%s: %u became %.9g, not %.9g", r->name, x[i], (double)y[i], (double)want);
    }
    rig_check_untouched(r, out, n * sizeof(float));
    rig_end(r);
    clq_free(x);
    clq_free(y);
}

static void bytes_become_floats(rig *r) {
    check(r, 256, 1, 1); /* every byte */
    check(r, 1, 3, 0);
    check(r, 1, 33, 17);
    check(r, 15, 2, 1);
    check(r, 17, 5, 4);
    if (!rig_affords(r, 784 * 900)) return;
    check(r, 784, 64, 63);
    check(r, 784, 900, 899); /* enough for several work-items */
}

static void test_input(void **state) {
    (void)state;
    rig_each(bytes_become_floats);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
