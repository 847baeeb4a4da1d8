/* Kernels of several sources and sets of options as functions of one program. */
#include "fixture.h"

enum { FLOATS = 40, BYTES = FLOATS * sizeof(float) };

static const char calls[] = "kernel void together(global float *w, global float *v, global float *g, int vectors,\n"
                            "                int tail, float rate, global float *y) {\n"
                            "    update_0(0, 0, 0, 1, 1, 1, w, g, vectors, tail, 0, rate, 0, 0, 0, 0, 0, 0, 0, 0, 0);\n"
                            "    update_1(0, 0, 0, 1, 1, 1, w, g, v, vectors, tail, 0, rate, 0, 0, 0, 0, 0,\n"
                            "             0.5f, 0, 0, 0);\n"
                            "    repeat_2(0, 0, 0, 2, 1, 1, g, y, 40, 1, 1, 1, 0.5f);\n"
                            "    repeat_2(1, 0, 0, 2, 1, 1, g, y, 40, 1, 1, 1, 0.5f);\n"
                            "}\n";

/* Some parts define TILE without a value and one with a value. Only one part defines RULE. */
static const clq_program_part parts[] = {{"update", "-DTILE -DTAIL", "update"},
                                         {"update", "-DTILE=1  -DTAIL -DRULE=momentum -DSTATES=1", "update"},
                                         {"repeat", "-DTILE -DWIDTH=1", "repeat"}};

static clq_buffer *make(clq_device *device, clq_queue *queue, const void *from, size_t bytes) {
    clq_buffer *buffer;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "a test", &buffer));
    CHECK_OK(clq_queue_write(queue, buffer, 0, from, bytes, true));
    return buffer;
}

static void run(clq_device *device, clq_queue *queue, const char *text, float w[FLOATS], float v[FLOATS],
                const float g[FLOATS], float y[FLOATS]) {
    const clq_program_wish wish = {.file = "together", .options = "", .kernels = "", .text = text};
    static const size_t one = 1;
    int vectors = FLOATS / (int)clq_device_vector(device), tail = FLOATS % (int)clq_device_vector(device);
    float rate = 0.25f;
    clq_kernel *kernel;
    CHECK_OK(clq_kernel_create_among(device, &wish, "together", &kernel));
    clq_buffer *const buffers[] = {make(device, queue, w, BYTES), make(device, queue, v, BYTES),
                                   make(device, queue, g, BYTES), make(device, queue, y, BYTES)};
    for (uint32_t i = 0; i < 3; i++) CHECK_OK(clq_kernel_set_buffer(kernel, i, buffers[i]));
    CHECK_OK(clq_kernel_set_bytes(kernel, 3, &vectors, sizeof vectors));
    CHECK_OK(clq_kernel_set_bytes(kernel, 4, &tail, sizeof tail));
    CHECK_OK(clq_kernel_set_bytes(kernel, 5, &rate, sizeof rate));
    CHECK_OK(clq_kernel_set_buffer(kernel, 6, buffers[3]));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &one, &one));
    CHECK_OK(clq_queue_read(queue, buffers[0], 0, w, BYTES, true));
    CHECK_OK(clq_queue_read(queue, buffers[1], 0, v, BYTES, true));
    CHECK_OK(clq_queue_read(queue, buffers[3], 0, y, BYTES, true));
    clq_kernel_destroy(kernel);
    for (size_t i = 0; i < CLQ_COUNT_OF(buffers); i++) clq_buffer_destroy(buffers[i]);
}

/* Weights and gradients are small whole numbers: nothing is rounded. */
static void fused_on(clq_device *device, clq_queue *queue) {
    clq_text text = {0};
    float w[FLOATS], v[FLOATS], g[FLOATS], y[FLOATS] = {0};
    for (int i = 0; i < FLOATS; i++) {
        w[i] = (float)i;
        v[i] = (float)(2 * i);
        g[i] = (float)(4 * i);
    }
    CHECK_OK(clq_fused_source(parts, CLQ_COUNT_OF(parts), &text));
    clq_text_add(&text, "%s", calls);
    assert_false(text.failed);
    run(device, queue, text.data, w, v, g, y);
    clq_free(text.data);
    for (int i = 0; i < FLOATS; i++) {
        assert_true(v[i] == 0.0f);           /* half of 2 i, less a quarter of 4 i */
        assert_true(w[i] == 0.0f);           /* i, less a quarter of 4 i, and v */
        assert_true(y[i] == (float)(2 * i)); /* half of 4 i */
    }
}

static void parts_are_functions(void **state) {
    (void)state;
    on_each_device(fused_on);
}

static void wrong_parts(void **state) {
    (void)state;
    clq_text text = {0};
    CHECK_FAILS(CLQ_ERROR_UNSUPPORTED,
                clq_fused_source(&(clq_program_part){"repeat", "-cl-opt-disable", "repeat"}, 1, &text));
    CHECK_DETAIL("-cl-opt-disable");
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_fused_source(&(clq_program_part){"nothing", "", "repeat"}, 1, &text));
    CHECK_DETAIL("nothing.cl");
    clq_free(text.data);
}

static void memory_runs_out(void **state) {
    (void)state;
    size_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        clq_text text = {0};
        clq_memory_fail_at(nth, false);
        clq_status status = clq_fused_source(parts, CLQ_COUNT_OF(parts), &text);
        bool reached = clq_memory_fail_at(0, false) >= nth;
        if (reached) {
            assert_int_equal(status, CLQ_ERROR_MEMORY);
            failures++;
        } else {
            CHECK_OK(status);
        }
        clq_free(text.data);
        if (!reached) break;
    }
    assert_true(failures > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_functions), cmocka_unit_test(wrong_parts),
                                       cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
