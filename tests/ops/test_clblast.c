/* CLBlast's products take their scratch memory from the launch list: a step allocates nothing, whatever its count. */
#define _GNU_SOURCE
#include "support/ops_rig.h"

#include <CL/cl.h>
#include <clblast_c.h>
#include <dlfcn.h>
#include <stdatomic.h>

static atomic_uint buffers_made;

/* Replaces the loader's function, for all libraries of the process. */
__attribute__((visibility("default"))) cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags,
                                                                         size_t bytes, void *host, cl_int *error) {
    cl_mem(CL_API_CALL * loader)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    void *symbol = dlsym(RTLD_NEXT, "clCreateBuffer");
    memcpy(&loader, &symbol, sizeof loader);
    atomic_fetch_add(&buffers_made, 1);
    return loader(context, flags, bytes, host, error);
}

static bool has_scratch(const rig *r) {
    for (clq_value v = 1; v <= clq_list_value_count(r->list); v++) {
        clq_value_info info;
        clq_list_value_info(r->list, v, &info);
        if (strcmp(info.name, "CLBlast's scratch") == 0) return true;
    }
    return false;
}

typedef struct layer {
    uint32_t capacity;
    size_t in, out;
} layer;

static void run_counting(rig *r, uint32_t count) {
    unsigned before = atomic_load(&buffers_made);
    rig_run(r, count);
    assert_int_equal(atomic_load(&buffers_made) - before, 0);
}

/* Makes y = x w and dw = x^T dy at several counts, the capacity first: other counts may need more scratch memory than
 * the capacity. */
static void check_layer(rig *r, const layer *l) {
    const uint32_t counts[] = {l->capacity, l->capacity - 1, l->capacity / 2 + 3};
    const size_t in = l->in, out = l->out, rows = l->capacity;
    clq_random random = clq_random_start(41, in);
    float *x, *w, *dy, *y = rig_alloc(rows * out, sizeof *y), *dw = rig_alloc(in * out, sizeof *dw);
    double *x64, *w64, *dy64, *want = rig_alloc(CLQ_MAX(rows, in) * out, sizeof *want);
    rig_numbers(&random, rows * in, -1, 1, &x, &x64);
    rig_numbers(&random, in * out, -1, 1, &w, &w64);
    rig_numbers(&random, rows * out, -1, 1, &dy, &dy64);
    rig_begin(r, l->capacity);
    rig_force(r, &(rig_variant){.product = "clblast"});
    clq_value vx = rig_value(r, "x", 0, in * sizeof *x), vw = rig_value(r, "w", in * out * sizeof *w, 0),
              vy = rig_value(r, "y", 0, out * sizeof *y), vdy = rig_value(r, "dy", 0, out * sizeof *dy),
              vdw = rig_value(r, "dw", in * out * sizeof *dw, 0);
    const clq_dense_problem p = {.in = in, .out = out, .rows_per_example = 1};
    clq_dense_forward(r->list, &p, vx, vw, CLQ_NO_VALUE, vy);
    clq_dense_backward(r->list, &p, vx, vw, vdy, CLQ_NO_VALUE, vdw);
    rig_bind(r);
    assert_true(has_scratch(r));
    rig_fill(r, vw, w, in * out * sizeof *w);
    for (size_t c = 0; c < CLQ_COUNT_OF(counts); c++) {
        size_t n = counts[c];
        rig_fill(r, vx, x, n * in * sizeof *x);
        rig_fill(r, vdy, dy, n * out * sizeof *dy);
        rig_fill(r, vy, NULL, 0);
        run_counting(r, counts[c]);
        run_counting(r, counts[c]);
        rig_read(r, vy, y, n * out * sizeof *y);
        rig_read(r, vdw, dw, in * out * sizeof *dw);
        memset(want, 0, n * out * sizeof *want);
        for (size_t i = 0; i < n * out; i++)
            for (size_t k = 0; k < in; k++) want[i] += x64[i / out * in + k] * w64[k * out + i % out];
        rig_check_close(r, "y", y, want, n * out, 0, 1e-6 * (double)in);
        memset(want, 0, in * out * sizeof *want);
        for (size_t i = 0; i < in * out; i++)
            for (size_t k = 0; k < n; k++) want[i] += x64[k * in + i / out] * dy64[k * out + i % out];
        rig_check_close(r, "dw", dw, want, in * out, 0, 1e-6 * (double)n);
        rig_check_untouched(r, vy, n * out * sizeof *y);
    }
    rig_end(r);
    void *const all[] = {x, w, dy, y, dw, x64, w64, dy64, want};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

/* Has CLBlast make small products as it makes large ones, which need scratch memory. */
static void make_small_as_large(const rig *r) {
    const char *names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
    const size_t values[] = {1};
    assert_int_equal(
        CLBlastOverrideParameters(clq_device_id(r->device), "GemmRoutine", CLBlastPrecisionSingle, 1, names, values),
        CLBlastSuccess);
}

/* The first layer's sizes are no whole tiles. The second layer's are, but only at the capacity. CLBlast's kernels take
 * seconds to build, once for each device. */
static void check_layers(rig *r) {
    static const layer layers[] = {{131, 150, 137}, {128, 128, 128}};
    if (r->family != CLQ_FAMILY_LOCAL || !clq_device_runs_in_caller(r->device)) return;
    make_small_as_large(r);
    for (size_t i = 0; i < CLQ_COUNT_OF(layers); i++) check_layer(r, &layers[i]);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    rig_each(check_layers);
    assert_true(atomic_load(&buffers_made) > 0); /* otherwise the counter counts nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
