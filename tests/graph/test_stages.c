/* The pipeline stages of random models, run one after the other, give what the whole model gives: outputs, losses,
 * gradients and state. The interpreter runs their graphs in double, with each single cut and with all cuts at once.
 * Some models also run as plans. */
#include "device/fixture.h"
#include "graph/layers/layer.h"
#include "graph/random_numbers.h"
#include "ref/graph_interpret.h"

#include <math.h>

enum { GRAPHS = 120, PLANS = 12, METRICS = 2 * OUTPUTS, TENSORS_MOST = 96 };
static const double scale = 0.25;

/* ---- the results of a model ---- */

typedef struct results {
    double output[OUTPUTS][COUNT * CLASSES], metrics[METRICS];
    double *gradients[VARIABLES_MOST], *states[VARIABLES_MOST];
} results;

static void start(const subject *s, results *r) {
    *r = (results){.output = {{0}}};
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        r->gradients[v] = clq_alloc(s->model->variables[v].elements, sizeof(double));
        r->states[v] = clq_alloc(s->model->variables[v].elements, sizeof(double));
        assert_true(r->gradients[v] && r->states[v]);
    }
}

static void end(const subject *s, const results *r) {
    free_numbers(r->gradients, s->model->variable_count);
    free_numbers(r->states, s->model->variable_count);
}

static void assert_same(const subject *s, const char *what, const double *got, const double *want, size_t count,
                        double relative, double floor) {
    double most = floor;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= relative * most + 1e-30))
            fail_msg("%s:%s: [%zu of %zu] is %.17g, should be %.17g", what, s->path, i, count, got[i], want[i]);
}

static void compare(const subject *s, const results *got, const results *want, double relative) {
    double most = 0;
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        for (size_t i = 0; i < s->model->variables[v].elements; i++) most = fmax(most, fabs(want->gradients[v][i]));
    for (size_t i = 0; i < OUTPUTS; i++)
        assert_same(s, "output", got->output[i], want->output[i], COUNT * CLASSES, relative, 0);
    assert_same(s, "metrics", got->metrics, want->metrics, METRICS, relative, 0);
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        const clq_variable *variable = &s->model->variables[v];
        assert_same(s, variable->name, got->gradients[v], want->gradients[v], variable->elements, relative, most);
        assert_same(s, variable->name, got->states[v], want->states[v], variable->elements, relative, 0);
    }
}

/* ---- stages ---- */

/* The values and gradients that have crossed cuts so far, by the id of the tensor. */
typedef struct post {
    double *values[TENSORS_MOST], *gradients[TENSORS_MOST];
} post;

static void open_post(const subject *s, post *p) {
    assert_true(s->model->tensor_count < TENSORS_MOST);
    for (uint32_t id = 1; id <= s->model->tensor_count; id++) {
        p->values[id] = clq_alloc(COUNT * s->model->tensors[id - 1].elements, sizeof(double));
        p->gradients[id] = clq_alloc(COUNT * s->model->tensors[id - 1].elements, sizeof(double));
        assert_true(p->values[id] && p->gradients[id]);
    }
}

static void close_post(const subject *s, const post *p) {
    for (uint32_t id = 1; id <= s->model->tensor_count; id++) {
        clq_free(p->values[id]);
        clq_free(p->gradients[id]);
    }
}

/* Stage `index`, 0 to cut_count, of the stages between cuts [0, cut_count). */
static clq_stage stage_of(const clq_model *model, const clq_cut *cuts, size_t cut_count, size_t index) {
    return (clq_stage){.before = index > 0 ? cuts[index - 1] : (clq_cut){.at = 1},
                       .after = index < cut_count ? cuts[index] : (clq_cut){.at = model->tensor_count + 1}};
}

/* How often the cuts of all models had each property. If any count stayed 0, the test would show little. */
static struct { unsigned cut, shared, several, passing, untrained, early_losses, stateful; } seen;

static bool crosses(const clq_cut *cut, uint32_t id) {
    for (unsigned i = 0; i < cut->count; i++)
        if (cut->tensors[i] == id) return true;
    return false;
}

static void note_stage(const subject *s, const clq_stage *stage) {
    seen.several += stage->after.count > 1;
    for (unsigned i = 0; i < stage->before.count; i++) {
        seen.passing += crosses(&stage->after, stage->before.tensors[i]);
        seen.untrained += !stage->before.trained[i];
    }
    for (uint32_t i = 0; i < s->model->output_count; i++)
        seen.early_losses += s->config.loss && stage->after.count && clq_stage_has_tensor(stage, s->model->outputs[i]);
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        seen.stateful += s->model->variables[v].role == CLQ_ROLE_STATE && clq_stage_has_variable(stage, s->model, v);
}

/* ---- graphs ---- */

static void interpret(const clq_graph *graph, const numbers *n, const clq_stage *stage, post *p, bool backward,
                      results *r) {
    ref_inputs in = {.count = COUNT,
                     .scale = scale,
                     .samples = n->samples,
                     .labels = {n->labels[0], n->labels[1]},
                     .weights = (const double *const *)n->weights,
                     .step = 5,
                     .first_row = 2};
    ref_outputs out = {
        .outputs = {r->output[0], r->output[1]}, .metrics = r->metrics, .gradients = r->gradients, .states = r->states};
    for (unsigned i = 0; stage && i < stage->before.count; i++) {
        in.received[i] = p->values[stage->before.tensors[i]];
        if (backward) out.sent_gradients[i] = p->gradients[stage->before.tensors[i]];
    }
    for (unsigned i = 0; stage && i < stage->after.count; i++) {
        if (backward)
            in.received_gradients[i] = p->gradients[stage->after.tensors[i]];
        else
            out.sent[i] = p->values[stage->after.tensors[i]];
    }
    ref_interpret(graph, &in, &out);
}

static void interpret_stage(subject *s, const numbers *n, clq_list *list, const clq_stage *stage, post *p,
                            bool backward, results *r) {
    clq_graph graph = {0};
    s->config.stage = stage;
    const clq_pass_context context = {.config = &s->config, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    CHECK_OK(clq_graph_build(&graph, s->model, &context, NULL, NULL));
    interpret(&graph, n, stage, p, backward, r);
    clq_graph_release(&graph);
    s->config.stage = NULL;
}

static void interpret_stages(subject *s, const numbers *n, clq_list *list, const clq_cut *cuts, size_t count,
                             const results *want) {
    post p;
    results r;
    open_post(s, &p);
    start(s, &r);
    for (size_t i = 0; i <= count; i++) {
        const clq_stage stage = stage_of(s->model, cuts, count, i);
        note_stage(s, &stage);
        interpret_stage(s, n, list, &stage, &p, false, &r);
    }
    for (size_t i = count + 1; i-- > 0 && s->config.update;) {
        const clq_stage stage = stage_of(s->model, cuts, count, i);
        interpret_stage(s, n, list, &stage, &p, true, &r);
    }
    compare(s, &r, want, 1e-12);
    end(s, &r);
    close_post(s, &p);
}

static void graphs_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        subject s;
        numbers n;
        results whole;
        clq_list *list;
        clq_cut *cuts;
        size_t count;
        build(&s, seed);
        make_numbers(&s, &n);
        start(&s, &whole);
        CHECK_OK(clq_list_create(device, COUNT, &list));
        clq_list_set_selections(list, &fused);
        CHECK_OK(clq_model_cuts(s.model, &cuts, &count));
        seen.cut += count > 0;
        seen.shared += count + s.model->input + 1 < s.model->tensor_count;
        interpret_stage(&s, &n, list, NULL, NULL, false, &whole);
        for (size_t i = 0; i < count; i++) interpret_stages(&s, &n, list, &cuts[i], 1, &whole);
        interpret_stages(&s, &n, list, cuts, count, &whole);
        clq_free(cuts);
        clq_list_destroy(list);
        end(&s, &whole);
        free_numbers(n.weights, n.variables);
        clq_model_destroy(s.model);
    }
}

static void stages_compute_what_the_model_does(void **state) {
    (void)state;
    on_each_driver(graphs_on);
    const unsigned *counts = (const unsigned *)&seen;
    for (size_t i = 0; i < sizeof seen / sizeof *counts; i++)
        if (!counts[i]) fail_msg("no model has what counter %zu of `seen` counts", i);
}

/* ---- plans ---- */

static void get(clq_queue *queue, const clq_buffer *buffer, size_t offset, double *to, size_t count) {
    float *floats = clq_alloc(count, sizeof *floats);
    assert_non_null(floats);
    CHECK_OK(clq_queue_read(queue, buffer, offset, floats, count * sizeof *floats, true));
    for (size_t i = 0; i < count; i++) to[i] += (double)floats[i];
    clq_free(floats);
}

/* Copies crossing tensors from the post to a plan, or from a plan to the post. */
static void carry(const subject *s, const clq_plan *plan, const clq_stage *stage, clq_queue *queue, post *p,
                  clq_crossing kind) {
    const clq_cut *cut = clq_stage_cut_of(stage, kind);
    const bool gradient = kind == CLQ_RECEIVED_GRADIENT || kind == CLQ_SENT_GRADIENT;
    for (unsigned i = 0; i < cut->count; i++) {
        clq_buffer *buffer = clq_plan_crossing(plan, kind, i);
        const size_t count = COUNT * s->model->tensors[cut->tensors[i] - 1].elements;
        double *values = (gradient ? p->gradients : p->values)[cut->tensors[i]];
        assert_int_equal(buffer != NULL, !gradient || (cut->trained[i] && s->config.update));
        if (!buffer) continue;
        assert_true(clq_buffer_bytes(buffer) == count * sizeof(float));
        if (kind == CLQ_RECEIVED || kind == CLQ_RECEIVED_GRADIENT) {
            put(queue, buffer, 0, values, count, CLQ_F32);
            continue;
        }
        for (size_t v = 0; v < count; v++) values[v] = 0;
        get(queue, buffer, 0, values, count);
    }
}

static void fill(const subject *s, const numbers *n, clq_plan *plan, clq_queue *queue) {
    const clq_weights *weights = clq_plan_weights(plan);
    if (clq_plan_samples(plan))
        put(queue, clq_plan_samples(plan), 0, n->samples, CLQ_COUNT_OF(n->samples), s->config.sample_dtype);
    for (uint32_t i = 0; i < s->model->output_count && s->config.loss; i++) {
        const clq_dtype dtype = clq_loss_has_index(&s->losses[i]) ? CLQ_I32 : CLQ_F32;
        const size_t count = COUNT * clq_loss_target_elements(&s->losses[i]);
        if (clq_plan_labels(plan, i)) put(queue, clq_plan_labels(plan, i), 0, n->labels[i], count, dtype);
    }
    for (uint32_t v = 0; v < n->variables; v++) {
        const clq_variable *variable = &s->model->variables[v];
        clq_buffer *arena = clq_weights_arena(weights, clq_variable_arena(variable));
        if (clq_weights_offset(weights, v) == CLQ_NO_OFFSET) continue;
        put(queue, arena, clq_weights_offset(weights, v), n->weights[v], variable->elements, CLQ_F32);
    }
    clq_plan_set_params(plan, &(clq_step_params){.count = COUNT, .scale = (float)scale, .step = 5, .first_row = 2});
}

/* Adds a stage's results to r. Metrics add up over the stages; each variable is in one stage. */
static void collect(const subject *s, clq_plan *plan, clq_queue *queue, results *r) {
    const clq_weights *weights = clq_plan_weights(plan);
    for (uint32_t i = 0; i < s->model->output_count; i++)
        if (clq_plan_output(plan, i)) get(queue, clq_plan_output(plan, i), 0, r->output[i], COUNT * CLASSES);
    if (s->config.loss)
        get(queue, clq_plan_metrics(plan), 0, r->metrics, clq_losses_width(s->losses, s->model->output_count));
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        const clq_variable *variable = &s->model->variables[v];
        const size_t offset = clq_weights_offset(weights, v);
        if (offset == CLQ_NO_OFFSET) continue;
        if (variable->role == CLQ_ROLE_STATE && s->config.mode == CLQ_MODE_TRAIN)
            get(queue, clq_weights_arena(weights, CLQ_ARENA_STATE), offset, r->states[v], variable->elements);
        if (variable->role == CLQ_ROLE_TRAINABLE && s->config.update)
            get(queue, clq_plan_gradient(plan), offset, r->gradients[v], variable->elements);
    }
}

static void run_plans(subject *s, const numbers *n, clq_device *device, clq_queue *queue, const clq_cut *cuts,
                      size_t count, const results *want) {
    clq_plan *plans[TENSORS_MOST];
    clq_stage stages[TENSORS_MOST];
    post p;
    results r;
    open_post(s, &p);
    start(s, &r);
    for (size_t i = 0; i <= count; i++) {
        stages[i] = stage_of(s->model, cuts, count, i);
        clq_plan_config config = s->config;
        config.stage = &stages[i];
        CHECK_OK(clq_plan_create_alone(s->model, device, &config, &plans[i]));
        fill(s, n, plans[i], queue);
        carry(s, plans[i], &stages[i], queue, &p, CLQ_RECEIVED);
        CHECK_OK(clq_plan_run(plans[i], queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS));
        carry(s, plans[i], &stages[i], queue, &p, CLQ_SENT);
    }
    for (size_t i = count + 1; i-- > 0 && s->config.update;) {
        carry(s, plans[i], &stages[i], queue, &p, CLQ_RECEIVED_GRADIENT);
        CHECK_OK(clq_plan_run(plans[i], queue, CLQ_SEGMENT_BACKWARD, CLQ_SEGMENT_BACKWARD));
        carry(s, plans[i], &stages[i], queue, &p, CLQ_SENT_GRADIENT);
    }
    for (size_t i = 0; i <= count; i++) {
        collect(s, plans[i], queue, &r);
        clq_plan_destroy(plans[i]);
    }
    compare(s, &r, want, 1e-5);
    end(s, &r);
    close_post(s, &p);
}

static void plans_on(clq_device *device, clq_queue *queue) {
    for (uint64_t seed = 0, run = 0; run < PLANS; seed++) {
        subject s;
        numbers n;
        results whole;
        clq_list *list;
        clq_cut *cuts;
        size_t count;
        build(&s, seed);
        CHECK_OK(clq_model_cuts(s.model, &cuts, &count));
        if (count > 0) {
            run++;
            make_numbers(&s, &n);
            start(&s, &whole);
            CHECK_OK(clq_list_create(device, COUNT, &list));
            s.config.unfused_graph = true;
            interpret_stage(&s, &n, list, NULL, NULL, false, &whole);
            s.config.unfused_graph = false;
            /* Compiling kernels takes most of the time: so only one cut, or all cuts at once. */
            run_plans(&s, &n, device, queue, run % 3 ? &cuts[seed % count] : cuts, run % 3 ? 1 : count, &whole);
            clq_list_destroy(list);
            end(&s, &whole);
            free_numbers(n.weights, n.variables);
        }
        clq_free(cuts);
        clq_model_destroy(s.model);
    }
}

static void plans_of_stages_compute_what_the_model_does(void **state) {
    (void)state;
    on_each_driver(plans_on);
}

/* ---- cuts ---- */

static void cuts_are_where_a_model_can_be_cut(void **state) {
    (void)state;
    clq_model *m;
    clq_cut *cuts;
    size_t count;
    CHECK_OK(clq_model_create("branched", &m));
    const clq_tensor x = clq_input(m, CLQ_SHAPE(4));                                                         /* 1 */
    const clq_tensor a = clq_dense(m, x, &(clq_dense_config){.units = 4});                                   /* 2 */
    const clq_tensor b = clq_share(m, a, a);                                                                 /* 3 */
    const clq_tensor c = clq_activate(m, b, CLQ_ACTIVATION_TANH, NULL);                                      /* 4 */
    const clq_tensor d = clq_dense(m, clq_add(m, CLQ_TENSORS(x, c), NULL), &(clq_dense_config){.units = 2}); /* 5, 6 */
    CHECK_OK(clq_model_finish(m, d));
    CHECK_OK(clq_model_cuts(m, &cuts, &count));
    assert_int_equal(count, 3); /* not between the two uses of a layer, and not behind the input alone */
    assert_int_equal(cuts[0].at, 4);
    assert_int_equal(cuts[1].at, 5);
    assert_int_equal(cuts[2].at, 6);
    assert_int_equal(cuts[0].count, 2); /* the samples pass through */
    assert_int_equal(cuts[0].tensors[0], 1);
    assert_int_equal(cuts[0].tensors[1], 3);
    assert_false(cuts[0].trained[0]);
    assert_true(cuts[0].trained[1]);
    assert_int_equal(cuts[2].count, 1);
    assert_int_equal(cuts[2].tensors[0], 5);
    assert_int_equal(clq_cut_bytes(m, &cuts[0], false), 32);
    assert_int_equal(clq_cut_bytes(m, &cuts[0], true), 16);
    clq_free(cuts);
    clq_model_destroy(m);
}

static clq_status find_cuts(void *context) {
    clq_cut *cuts;
    size_t count;
    CLQ_TRY(clq_model_cuts(context, &cuts, &count));
    clq_free(cuts);
    return CLQ_OK;
}

static void cuts_need_memory(void **state) {
    (void)state;
    subject s;
    build(&s, 1);
    assert_true(walk_allocations(find_cuts, s.model) >= 2);
    clq_model_destroy(s.model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_where_a_model_can_be_cut),
        cmocka_unit_test(cuts_need_memory),
        cmocka_unit_test(stages_compute_what_the_model_does),
        cmocka_unit_test(plans_of_stages_compute_what_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
