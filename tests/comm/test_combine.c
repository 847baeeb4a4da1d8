/* Tests by itself the kernel with which a rank combines what it received, on every device (also oclgrind's). Checks
 * every type and operation against the reference (comm_values.h), with offsets and lengths that are no multiples of a
 * vector, and with any bit patterns. */
#include "comm/reduce/combine.h"
#include "support/check.h"
#include "support/comm_values.h"
#include "support/pocl_names.h"

enum { ROOM = 600 }; /* elements */

typedef struct trial {
    clq_device *device;
    clq_queue *queue;
    clq_kernel *kernel;
    clq_dtype dtype;
    clq_redop op;
    clq_buffer *buffers[3]; /* to, operand, received */
    uint64_t content[3][ROOM];
} trial;

static void fill(trial *t, bool any) {
    size_t bytes = ROOM * clq_dtype_bytes(t->dtype);
    clq_random random = clq_random_start(t->dtype * 16u + t->op, any);
    for (int b = 0; b < 3; b++) {
        for (size_t i = 0; i < ROOM; i++) {
            uint64_t word = (uint64_t)clq_random_u32(&random) << 32 | clq_random_u32(&random);
            if (any) values_put_any(t->dtype, t->content[b], i, word);
            if (!any || values_tiny(t->dtype, t->content[b], i))
                values_put(t->dtype, t->content[b], i, (int64_t)(word % 17) - 8);
        }
        assert_ok(clq_queue_write(t->queue, t->buffers[b], 0, t->content[b], bytes, true));
    }
}

static unsigned long long bits_of(const trial *t, const void *array, size_t i) {
    unsigned long long bits = 0;
    size_t element = clq_dtype_bytes(t->dtype);
    memcpy(&bits, (const char *)array + i * element, element);
    return bits;
}

static bool is_flushed(clq_dtype dtype, const void *got, const void *want, size_t i) {
    uint64_t zeros[ROOM] = {0};
    return values_tiny(dtype, want, i) && values_equal(dtype, got, zeros, i);
}

static void check(trial *t, size_t count, const size_t at[3], bool in_place, unsigned ranks, bool any) {
    size_t element = clq_dtype_bytes(t->dtype);
    int target = in_place ? 1 : 0;
    fill(t, any);
    assert_ok(clq_combine_launch(t->queue, t->kernel, t->dtype,
                                 (clq_place_at){t->buffers[target], at[target] * element},
                                 (clq_place_at){t->buffers[1], at[1] * element},
                                 (clq_place_at){t->buffers[2], at[2] * element}, count * element, ranks, NULL));
    uint64_t got[ROOM], want[ROOM], a[ROOM], b[ROOM];
    assert_ok(clq_queue_read(t->queue, t->buffers[target], 0, got, ROOM * element, true));
    memcpy(want, t->content[target], sizeof want);
    for (size_t i = 0; i < count; i++) {
        char *to = (char *)want + (at[target] + i) * element;
        memcpy(a, (const char *)t->content[1] + (at[1] + i) * element, element);
        memcpy(b, (const char *)t->content[2] + (at[2] + i) * element, element);
        values_combine(t->dtype, t->op, a, b, a, 0);
        if (ranks > 0) values_average(t->dtype, a, 0, ranks);
        memcpy(to, a, element);
    }
    for (size_t i = 0; i < ROOM; i++)
        if (!values_equal(t->dtype, got, want, i) && !is_flushed(t->dtype, got, want, i))
            fail_msg("%s: %s %s: element %zu is %#llx, should be %#llx (%zu from %zu on)", clq_device_label(t->device),
                     clq_dtype_name(t->dtype), clq_redop_name(t->op), i, bits_of(t, got, i), bits_of(t, want, i), count,
                     at[target]);
}

static void check_kind(clq_device *device, clq_dtype dtype, clq_redop op) {
    static trial t;
    t = (trial){.device = device, .dtype = dtype, .op = op};
    assert_ok(clq_queue_create(device, 0, &t.queue));
    assert_ok(clq_combine_create(device, dtype, op, &t.kernel));
    for (int b = 0; b < 3; b++)
        assert_ok(clq_buffer_create(device, CLQ_MEMORY_DEVICE, ROOM * clq_dtype_bytes(dtype), "test", &t.buffers[b]));
    const size_t counts[] = {0, 1, 17, 255, 509};
    for (size_t c = 0; c < CLQ_COUNT_OF(counts); c++) {
        const size_t at[3] = {5 + c, 64 + c % 2, c % 3};
        /* An average of arbitrary floats has one rounding more than the reference. So averages are tested with values
         * whose sum is exact. */
        check(&t, counts[c], at, c % 2 != 0, op == CLQ_REDOP_AVG ? 3 : 0, op != CLQ_REDOP_AVG);
    }
    /* Offsets at multiples of a vector: GPUs load such vectors by other instructions. */
    const size_t vectors[] = {1, 63, 510};
    for (size_t c = 0; c < CLQ_COUNT_OF(vectors); c++)
        check(&t, vectors[c], (const size_t[3]){16 * c, 64, 32}, c % 2 != 0, op == CLQ_REDOP_AVG ? 3 : 0,
              op != CLQ_REDOP_AVG);
    for (int b = 0; b < 3; b++) clq_buffer_destroy(t.buffers[b]);
    clq_kernel_destroy(t.kernel);
    clq_queue_destroy(t.queue);
}

/* PoCL's pool uses the same compiler as PoCL's basic device. So the pool tests only half of the combinations: for each
 * type one of sum and product, one of minimum and maximum, and the average if it tests the sum. */
static bool takes(const clq_device *device, size_t dtype, unsigned op) {
    _Static_assert(CLQ_REDOP_SUM / 2 == CLQ_REDOP_PROD / 2 && CLQ_REDOP_MIN / 2 == CLQ_REDOP_MAX / 2,
                   "each pair is of one kind");
    return !pocl_name_is(clq_device_get_info(device)->name, POCL_POOL) || op % 2 == dtype % 2;
}

static void check_device(clq_device *device) {
    for (size_t d = 0; d < VALUES_DTYPES; d++)
        for (unsigned op = 0; op < CLQ_REDOP_COUNT; op++)
            if (takes(device, d, op)) check_kind(device, values_dtypes[d], (clq_redop)op);
    clq_kernel *none = NULL;
    assert_int_equal(clq_combine_create(device, CLQ_BOOL, CLQ_REDOP_SUM, &none), CLQ_ERROR_UNSUPPORTED);
    assert_null(none);
}

/* Tests each kind of device once, because devices of one kind compile to the same program. */
static void test_every_kind_of_device(void **state) {
    (void)state;
    clq_system *system;
    assert_ok(clq_system_open(NULL, &system));
    assert_true(clq_system_device_count(system) > 0);
    const char *last = "";
    for (uint32_t i = 0; i < clq_system_device_count(system); i++) {
        const char *name = clq_system_device_info(system, i)->name;
        if (strcmp(name, last) == 0) continue;
        last = name;
        clq_device *device;
        assert_ok(clq_device_open(system, (clq_device_choice){.index = i, .parts = 1}, &device));
        check_device(device);
        clq_device_close(device);
    }
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind_of_device)};
    return cmocka_run_group_tests_name("comm/combine", tests, NULL, NULL);
}
