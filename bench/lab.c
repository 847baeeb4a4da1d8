#include "lab.h"

#include <math.h>

clq_status clq_bench_lab_open(clq_queue *queue, uint32_t capacity, clq_bench_lab *lab) {
    *lab = (clq_bench_lab){.queue = queue};
    CLQ_TRY(clq_list_create(clq_queue_device(queue), capacity, &lab->list));
    clq_list_scope(lab->list, "bench");
    return CLQ_OK;
}

void clq_bench_lab_release(clq_bench_lab *lab) {
    if (lab->queue) (void)clq_queue_finish(lab->queue);
    clq_list_destroy(lab->list);
    for (size_t i = 0; i < CLQ_COUNT_OF(lab->buffers); i++) clq_buffer_destroy(lab->buffers[i]);
    *lab = (clq_bench_lab){0};
}

clq_value clq_bench_lab_value(clq_bench_lab *lab, const char *name, size_t bytes) {
    return clq_list_value(lab->list, CLQ_VALUE_EXTERNAL, name, bytes, 0);
}

clq_status clq_bench_lab_bind(clq_bench_lab *lab) {
    CLQ_TRY(clq_list_status(lab->list));
    size_t count = clq_list_value_count(lab->list);
    if (count > CLQ_BENCH_LAB_VALUES) return clq_fail(CLQ_ERROR_STATE, "an operation of %zu values", count);
    for (clq_value v = 1; v <= count; v++) {
        clq_value_info info;
        clq_list_value_info(lab->list, v, &info);
        CLQ_TRY(
            clq_buffer_create(clq_list_device(lab->list), CLQ_MEMORY_DEVICE, info.bytes, info.name, &lab->buffers[v]));
        clq_list_place(lab->list, v, lab->buffers[v], 0);
    }
    CLQ_TRY(clq_list_bind(lab->list));
    clq_list_set_params(lab->list, &(clq_step_params){.count = clq_list_capacity(lab->list)});
    return CLQ_OK;
}

clq_status clq_bench_lab_write(clq_bench_lab *lab, clq_value value, const void *data) {
    if (!data) return CLQ_ERROR_MEMORY;
    clq_buffer *buffer = lab->buffers[value];
    return clq_queue_write(lab->queue, buffer, 0, data, clq_buffer_bytes(buffer), true);
}

clq_status clq_bench_lab_read(clq_bench_lab *lab, clq_value value, float **out) {
    const clq_buffer *buffer = lab->buffers[value];
    float *data = clq_alloc(clq_buffer_bytes(buffer), 1);
    if (!data) return CLQ_ERROR_MEMORY;
    clq_status status = clq_queue_read(lab->queue, buffer, 0, data, clq_buffer_bytes(buffer), true);
    if (status == CLQ_OK)
        *out = data;
    else
        clq_free(data);
    return status;
}

static clq_status run_list(void *context, uint64_t repeats) {
    clq_bench_lab *lab = context;
    size_t launches = clq_list_launch_count(lab->list);
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_list_run(lab->list, lab->queue, 0, launches));
    return clq_queue_finish(lab->queue);
}

clq_status clq_bench_lab_measure(const clq_bench_run *run, clq_bench_lab *lab, clq_bench_times *out) {
    return clq_bench_measure(run, &(clq_bench_work){.work = run_list, .context = lab}, out);
}

/* ---- numbers ---- */

float *clq_bench_floats(size_t count, uint64_t seed) {
    float *floats = clq_alloc(count, sizeof *floats);
    clq_random random = clq_random_start(seed, 0);
    for (size_t i = 0; floats && i < count; i++) floats[i] = (float)((double)clq_random_u32(&random) * 0x1p-31 - 1);
    return floats;
}

size_t clq_bench_sampled(size_t count, size_t places[CLQ_BENCH_SAMPLES]) {
    clq_random random = clq_random_start(count, 1);
    size_t samples = CLQ_MIN(count, (size_t)CLQ_BENCH_SAMPLES);
    for (size_t i = 0; i < samples; i++)
        places[i] = count == samples   ? i
                    : i == 0           ? 0
                    : i == samples - 1 ? count - 1
                                       : (size_t)clq_random_below(&random, count);
    return samples;
}

bool clq_bench_sum_is(double got, double want, size_t terms, double magnitude) {
    return fabs(got - want) <= (double)(terms + 8) * 0x1p-24 * magnitude + 1e-30;
}

json_t *clq_bench_lab_selections(const clq_bench_lab *lab) {
    clq_text text = {0};
    for (size_t i = 0; i < clq_list_choice_count(lab->list); i++) {
        const clq_choice *choice = clq_list_choice(lab->list, i);
        clq_text_add(&text, "%s%s", i ? ", " : "", choice->candidates[choice->selected].name);
    }
    json_t *answers = text.data ? json_string(text.data) : json_null();
    clq_free(text.data);
    return answers;
}
