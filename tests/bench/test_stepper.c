/* The benchmark of a step uploads as training does: from pinned memory, which the driver need not copy first. */
#define _GNU_SOURCE
#include "stepper.h"
#include "support/check.h"
#include "support/disguise.h"

#include <CL/cl.h>
#include <dlfcn.h>

/* Memory ranges that were mapped. One thread maps and uploads. */
enum { RANGES_MOST = 256 };
static struct range { const char *begin, *end; } ranges[RANGES_MOST];
static unsigned range_count, uploads, pageable;

/* These two functions replace the loader's, for all libraries of the process. */
#define FORWARD(function, name)                                                                                        \
    void *symbol_ = dlsym(RTLD_NEXT, name);                                                                            \
    memcpy(&(function), &symbol_, sizeof(function))

__attribute__((visibility("default"))) void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer,
                                                                            cl_bool blocking, cl_map_flags flags,
                                                                            size_t offset, size_t bytes, cl_uint count,
                                                                            const cl_event *events, cl_event *event,
                                                                            cl_int *error) {
    void *(CL_API_CALL * loader)(cl_command_queue, cl_mem, cl_bool, cl_map_flags, size_t, size_t, cl_uint,
                                 const cl_event *, cl_event *, cl_int *);
    FORWARD(loader, "clEnqueueMapBuffer");
    char *memory = loader(queue, buffer, blocking, flags, offset, bytes, count, events, event, error);
    if (memory && range_count < RANGES_MOST) ranges[range_count++] = (struct range){memory, memory + bytes};
    return memory;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer,
                                                                               cl_bool blocking, size_t offset,
                                                                               size_t bytes, const void *from,
                                                                               cl_uint count, const cl_event *events,
                                                                               cl_event *event) {
    cl_int(CL_API_CALL * loader)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint,
                                 const cl_event *, cl_event *);
    FORWARD(loader, "clEnqueueWriteBuffer");
    bool pinned = false;
    for (unsigned i = 0; i < range_count; i++)
        pinned = pinned || ((const char *)from >= ranges[i].begin && (const char *)from + bytes <= ranges[i].end);
    if (!blocking) uploads++;
    if (!blocking && !pinned) pageable++;
    return loader(queue, buffer, blocking, offset, bytes, from, count, events, event);
}

static void uploads_read_pinned_memory(void **state) {
    enum { BATCH = 64, STEPS = 70 /* more than there are batches */ };
    clq_bench_stepper stepper;
    clq_system *sys;
    clq_device *device;
    clq_model *model;
    clq_queue *queue;
    (void)state;
    assert_ok(clq_system_open(NULL, &sys));
    assert_ok(clq_device_open(sys, (clq_device_choice){.index = 0, .parts = 1}, &device));
    assert_false(clq_device_get_info(device)->host_unified);
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(clq_bench_stepper_open(device, model, BATCH, CLQ_TUNING_OFF, &stepper));
    assert_ok(clq_queue_create(device, 0, &queue));
    assert_ok(clq_bench_stepper_run(&stepper, queue, STEPS));
    assert_int_equal(uploads, 2 * STEPS); /* images and labels */
    assert_int_equal(pageable, 0);
    clq_queue_destroy(queue);
    clq_bench_stepper_release(&stepper);
    clq_model_destroy(model);
    clq_device_close(device);
    clq_system_close(sys);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(uploads_read_pinned_memory)};
    if (disguise_load("") != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
