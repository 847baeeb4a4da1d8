/* Where a plan's values lie: values that live at the same time do not overlap, and all lie in blocks that the device
 * allocates. */
#include "device/internal.h"
#include "launch/list.h"
#include "two_models.h"

static const subject *const subjects[] = {&conv_subject, &mlp_subject};

/* ---- cases with a known answer ---- */

static void relu(clq_list *list, size_t elements, clq_value x, clq_value y) {
    clq_element_program p = {.output_count = 1};
    const unsigned in = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
    p.outputs[0].from = clq_element_do(&p, (clq_instruction){.op = CLQ_ELEMENT_RELU, .a = in});
    const clq_element_values values = {.elements = elements, .channels = 1, .inputs = {x}, .outputs = {y}};
    clq_elementwise(list, "forward", &p, &values);
}

/* x -> a -> b -> c -> y: only neighbours live at the same time, so two places of 1024 bytes hold three values. */
static void check_chain(clq_device *device, clq_queue *queue) {
    enum { CAPACITY = 4, FLOATS = 64 };
    clq_list *list;
    clq_buffer *x, *y;
    clq_placement placement;
    CHECK_OK(clq_list_create(device, CAPACITY, &list));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 1024, "x", &x));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 1024, "y", &y));
    clq_value values[5];
    for (size_t i = 0; i < 5; i++)
        values[i] =
            clq_list_value(list, i % 4 ? CLQ_VALUE_ACTIVATION : CLQ_VALUE_EXTERNAL, "value", 0, FLOATS * sizeof(float));
    clq_list_value(list, CLQ_VALUE_SCRATCH, "unused", 1 << 20, 0);
    clq_list_place(list, values[0], x, 0);
    clq_list_place(list, values[4], y, 0);
    for (size_t i = 0; i < 4; i++) relu(list, FLOATS, values[i], values[i + 1]);
    CHECK_OK(clq_placement_create(list, &placement));
    assert_int_equal(placement.bytes, 2 * 1024);
    assert_int_equal(placement.unplanned_bytes, 3 * 1024);
    assert_int_equal(placement.chunk_count, 1);
    CHECK_OK(clq_list_bind(list));
    float in[CAPACITY * FLOATS], out[CAPACITY * FLOATS];
    for (size_t i = 0; i < CLQ_COUNT_OF(in); i++) in[i] = (float)i - 100;
    CHECK_OK(clq_queue_write(queue, x, 0, in, sizeof in, true));
    clq_list_set_params(list, &(clq_step_params){.count = CAPACITY});
    CHECK_OK(clq_list_run(list, queue, 0, 4));
    CHECK_OK(clq_queue_read(queue, y, 0, out, sizeof out, true));
    for (size_t i = 0; i < CLQ_COUNT_OF(in); i++) assert_true(out[i] == CLQ_MAX(in[i], 0.0f));
    clq_list_destroy(list);
    clq_placement_release(&placement);
    clq_buffer_destroy(x);
    clq_buffer_destroy(y);
}

static void chains_on(clq_device *device, clq_queue *queue) {
    check_chain(device, queue);
    clq_list *empty;
    clq_placement placement;
    CHECK_OK(clq_list_create(device, 1, &empty));
    CHECK_OK(clq_placement_create(empty, &placement));
    assert_int_equal(placement.bytes, 0);
    assert_int_equal(placement.chunk_count, 0);
    clq_list_destroy(empty);
    clq_placement_release(&placement);
    clq_placement_release(&placement); /* it is {0} now */
}

static void neighbours_take_turns(void **state) {
    (void)state;
    on_each_driver(chains_on);
}

/* ---- plans ---- */

static bool in_chunks(const clq_value_slot *value) {
    return value->kind != CLQ_VALUE_EXTERNAL && value->first_use != SIZE_MAX;
}

static void check_value(const bench *b, const clq_value_slot *value) {
    const clq_placement *placement = &b->plan->placement;
    size_t chunk = 0;
    while (chunk < placement->chunk_count && placement->chunks[chunk] != value->buffer) chunk++;
    assert_int_equal(chunk < placement->chunk_count, in_chunks(value));
    if (!in_chunks(value)) return;
    assert_int_equal(value->offset % clq_device_view_align(b->device), 0);
    assert_true(value->offset + value->bytes <= clq_buffer_bytes(value->buffer));
}

/* Values that live at the same time must not overlap, and the sums of bytes must be right. */
static void check_places(const bench *b) {
    const clq_list *list = b->plan->list;
    size_t align = clq_device_view_align(b->device), most = 0, all = 0, pairs = 0, shared = 0;
    for (size_t i = 0; i < list->value_count; i++) {
        const clq_value_slot *v = &list->values[i];
        check_value(b, v);
        if (!in_chunks(v)) continue;
        all += clq_round_up(v->bytes, align);
        for (size_t k = 0; k < i; k++) {
            const clq_value_slot *u = &list->values[k];
            if (!in_chunks(u) || u->buffer != v->buffer || u->offset >= v->offset + v->bytes ||
                v->offset >= u->offset + u->bytes)
                continue;
            shared++;
            if (u->first_use <= v->last_use && v->first_use <= u->last_use)
                fail_msg("%s, %s: %s (launches %zu to %zu) and %s (%zu to %zu) share bytes",
                         clq_device_label(b->device), b->s->name, u->name, u->first_use, u->last_use, v->name,
                         v->first_use, v->last_use);
        }
        pairs += i;
    }
    for (size_t launch = 0; launch < list->launch_count; launch++) {
        size_t alive = 0;
        for (size_t i = 0; i < list->value_count; i++) {
            const clq_value_slot *v = &list->values[i];
            if (in_chunks(v) && v->first_use <= launch && launch <= v->last_use) alive += clq_round_up(v->bytes, align);
        }
        most = CLQ_MAX(most, alive);
    }
    assert_true(pairs > 0);
    /* Inference overwrites inputs in place, so few values remain, and all may live at once. */
    bool shares = b->plan->config.update != NULL;
    assert_true(shared > 0 || !shares);
    clq_plan_memory memory;
    clq_plan_get_memory(b->plan, &memory);
    assert_int_equal(memory.activation_bytes_unplanned, all);
    assert_true(memory.activation_bytes >= most); /* the least possible */
    assert_true(shares ? memory.activation_bytes < all : memory.activation_bytes <= all);
    size_t chunks = 0;
    for (size_t c = 0; c < b->plan->placement.chunk_count; c++)
        chunks += clq_buffer_bytes(b->plan->placement.chunks[c]);
    assert_int_equal(memory.activation_bytes, chunks);
}

static void check_memory(const bench *b, size_t arenas, size_t io) {
    clq_plan_memory memory;
    clq_plan_get_memory(b->plan, &memory);
    assert_int_equal(memory.parameter_bytes, b->s->arena_bytes);
    assert_int_equal(memory.gradient_bytes, arenas > 1 ? b->s->arena_bytes : 0);
    assert_int_equal(memory.optimizer_bytes, arenas > 2 ? (arenas - 2) * b->s->arena_bytes : 0);
    assert_int_equal(memory.io_bytes, io);
}

/* Every layer's output has one gradient, but tensors that need none have none: no weights come before them. */
static size_t gradients_in(const bench *b) {
    size_t gradients = 0;
    for (size_t i = 0; i < b->plan->list->value_count; i++) {
        const clq_value_slot *v = &b->plan->list->values[i];
        gradients += v->kind == CLQ_VALUE_ACTIVATION && strcmp(v->name, "gradient") == 0;
    }
    return gradients;
}

static void places_on(clq_device *device, clq_queue *queue) {
    static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}};
    /* training: samples, labels, three slots of metrics, norms; inference: samples and outputs */
    static const size_t training_io[] = {9 * 84 + 9 * 4 + 24 + 5 * 4, 9 * 12 * 4 + 9 * 4 * 4 + 24 + 6 * 4};
    static const size_t gradients[] = {5, 3}; /* logits, and the inputs of 4 and of 2 layers that are no activations */
    static const size_t inference_io[] = {9 * 84 + 9 * 3 * 4, 9 * 12 * 4 + 9 * 4 * 4};
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        clq_plan_config with_adam = training_of(subjects[i], 9);
        with_adam.update = &adam;
        bench training = open_bench(device, queue, subjects[i], with_adam);
        bench inference = open_bench(device, queue, subjects[i], inference_of(subjects[i], 9));
        check_places(&training);
        check_places(&inference);
        assert_int_equal(gradients_in(&training), gradients[i]);
        assert_int_equal(gradients_in(&inference), 0);
        check_memory(&training, 4, training_io[i]);
        check_memory(&inference, 1, inference_io[i]);
        close_bench(&training);
        close_bench(&inference);
    }
}

static void values_alive_together_lie_apart(void **state) {
    (void)state;
    on_each_driver(places_on);
}

/* ---- runs with all dead memory poisoned ---- */

typedef struct outcome {
    float gradient[WEIGHTS_MOST], metrics[6], norms[VARIABLES_MOST], output[COUNT_MOST * CLASSES_MOST];
} outcome;

static outcome read_outcome(const bench *b) {
    outcome o = {.metrics = {0}};
    const clq_plan *plan = b->plan;
    if (plan->weights->gradient) read_arena(b, plan->weights->gradient, o.gradient);
    if (plan->metrics) read_floats(b, plan->metrics, 0, o.metrics, 6);
    if (plan->norms) read_floats(b, plan->norms, 0, o.norms, b->s->variables);
    if (plan->output[0]) read_floats(b, plan->output[0], 0, o.output, b->capacity * b->s->classes);
    return o;
}

/* Fills with NaN all memory that holds no value from before this launch that is still needed. */
static void poison_dead(const bench *b, size_t launch) {
    const clq_list *list = b->plan->list;
    for (size_t c = 0; c < b->plan->placement.chunk_count; c++) {
        clq_buffer *chunk = b->plan->placement.chunks[c];
        size_t bytes = clq_buffer_bytes(chunk);
        unsigned char *before = clq_alloc(bytes, 1), *after = clq_alloc(bytes, 1);
        assert_true(before && after);
        CHECK_OK(clq_queue_read(b->queue, chunk, 0, before, bytes, true));
        memset(after, 0xFF, bytes);
        for (size_t i = 0; i < list->value_count; i++) {
            const clq_value_slot *v = &list->values[i];
            if (in_chunks(v) && v->buffer == chunk && v->first_use < launch && launch <= v->last_use)
                memcpy(after + v->offset, before + v->offset, v->bytes);
        }
        CHECK_OK(clq_queue_write(b->queue, chunk, 0, after, bytes, true));
        clq_free(before);
        clq_free(after);
    }
}

/* In all activations that live at this launch, the rows beyond the count must still be blank. */
static void check_rows_beyond(const bench *b, size_t launch, uint32_t count) {
    const clq_list *list = b->plan->list;
    for (size_t i = 0; i < list->value_count; i++) {
        const clq_value_slot *v = &list->values[i];
        if (!in_chunks(v) || v->kind != CLQ_VALUE_ACTIVATION || v->first_use > launch || launch > v->last_use) continue;
        size_t from = v->bytes / b->capacity * count, bytes = v->bytes - from;
        unsigned char *rows = clq_alloc(bytes, 1);
        assert_non_null(rows);
        CHECK_OK(clq_queue_read(b->queue, v->buffer, v->offset + from, rows, bytes, true));
        for (size_t k = 0; k < bytes; k++)
            if (rows[k] != 0xFF)
                fail_msg("%s, %s: launch %zu (%s) left something in byte %zu of %s, beyond %u examples",
                         clq_device_label(b->device), b->s->name, launch, list->launches[launch].scope, from + k,
                         v->name, count);
        clq_free(rows);
    }
}

static void check_poisoned(clq_device *device, clq_queue *queue, const subject *s, clq_plan_config config) {
    static const uint32_t counts[] = {5, 0, 9};
    data d = make_data(s);
    bench b = open_bench(device, queue, s, config);
    put_weights(&b, &d);
    for (size_t i = 0; i < CLQ_COUNT_OF(counts); i++) {
        blank(&b, 0x11);
        fill_whole(&b, b.plan->output[0], 0xFF); /* read_outcome reads rows beyond the count */
        fill_whole(&b, b.plan->metrics, 0xFF);
        put_batch(&b, &d, counts[i]);
        run_segments(&b, counts[i], 0.125f, 1);
        outcome whole = read_outcome(&b);
        blank(&b, 0xFF);
        put_batch(&b, &d, counts[i]);
        size_t first, end;
        clq_plan_segment_range(b.plan, CLQ_SEGMENT_NORM, &first, &end);
        for (size_t launch = 0; launch < end; launch++) {
            poison_dead(&b, launch);
            CHECK_OK(clq_list_run(b.plan->list, queue, launch, launch + 1));
            CHECK_OK(clq_queue_finish(queue));
            check_rows_beyond(&b, launch, counts[i]);
        }
        outcome poisoned = read_outcome(&b);
        assert_memory_equal(&poisoned, &whole, sizeof whole);
    }
    close_bench(&b);
}

static void poison_on(clq_device *device, clq_queue *queue) {
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        check_poisoned(device, queue, subjects[i], training_of(subjects[i], COUNT_MOST));
        check_poisoned(device, queue, subjects[i], inference_of(subjects[i], COUNT_MOST));
    }
}

static void dead_memory_does_not_matter(void **state) {
    (void)state;
    on_each_driver(poison_on);
}

/* ---- devices with a small limit per allocation ---- */

enum { BLOCK = 5120 }; /* the conv model's largest value has 4536 bytes */

static outcome run_once(const bench *b, const data *d) {
    blank(b, 0xFF);
    put_weights(b, d);
    put_batch(b, d, COUNT_MOST);
    run_segments(b, COUNT_MOST, 0.125f, 1);
    return read_outcome(b);
}

static void check_chunks(clq_device *device, clq_queue *queue) {
    data d = make_data(&conv_subject);
    bench b = open_bench(device, queue, &conv_subject, training_of(&conv_subject, COUNT_MOST));
    assert_int_equal(b.plan->placement.chunk_count, 1);
    outcome in_one = run_once(&b, &d);
    close_bench(&b);
    device->info.max_alloc_bytes = BLOCK;
    b = open_bench(device, queue, &conv_subject, training_of(&conv_subject, COUNT_MOST));
    assert_true(b.plan->placement.chunk_count > 1);
    for (size_t c = 0; c < b.plan->placement.chunk_count; c++)
        assert_true(clq_buffer_bytes(b.plan->placement.chunks[c]) <= BLOCK);
    check_places(&b);
    outcome in_several = run_once(&b, &d);
    assert_memory_equal(&in_several, &in_one, sizeof in_one);
    close_bench(&b);
}

static void check_refused(clq_device *device, const clq_model *model, clq_plan_config config, const char *words) {
    clq_plan *plan = NULL;
    uint64_t used = clq_device_memory_used(device);
    CHECK_FAILS(CLQ_ERROR_DEVICE_MEMORY, clq_plan_create_alone(model, device, &config, &plan));
    CHECK_DETAIL(words);
    assert_null(plan);
    assert_int_equal(clq_device_memory_used(device), used);
}

static void little_memory_on(clq_device *device, clq_queue *queue) {
    const uint64_t block = device->info.max_alloc_bytes, budget = device->memory_budget;
    check_chunks(device, queue); /* leaves BLOCK as the limit */
    clq_model *model;
    CHECK_OK(clq_model_create("conv", &model));
    CHECK_OK(clq_model_finish(model, build_conv(model)));
    clq_plan_config config = training_of(&conv_subject, 16); /* 16 x 84 floats are 5376 bytes */
    check_refused(device, model, config, "input_layer needs 5");
    CHECK_DETAIL("in one piece and the device allocates at most 5.00 KiB: use a smaller batch");
    config.capacity = 61; /* 61 x 84 bytes */
    check_refused(device, model, config, "samples needs");
    config = training_of(&conv_subject, COUNT_MOST);
    config.metric_slots = 641;
    check_refused(device, model, config, "metrics needs");
    config.metric_slots = 0x80000001u; /* 8 bytes, were they counted in 32 bits */
    check_refused(device, model, config, "metrics needs");
    device->info.max_alloc_bytes = block;
    config.metric_slots = 1;
    device->memory_budget = clq_device_memory_used(device) + 8192; /* enough for the arenas and what goes in and out */
    check_refused(device, model, config, "activations needs");
    device->memory_budget = budget;
    clq_plan *plan;
    CHECK_OK(clq_plan_create_alone(model, device, &config, &plan));
    clq_plan_destroy(plan);
    clq_model_destroy(model);
}

static void little_memory_is_used_or_refused(void **state) {
    (void)state;
    on_each_driver(little_memory_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_take_turns),
        cmocka_unit_test(values_alive_together_lie_apart),
        cmocka_unit_test(dead_memory_does_not_matter),
        cmocka_unit_test(little_memory_is_used_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
