/* Choices and their selections: given, kept and by rule. Which selections are kept. What the tuner chooses, with
 * scripted times. Every candidate must compute the same, with the same bits in every run. */
#include "device/fixture.h"
#include "graph/plan.h"
#include "graph/trial.h"
#include "support/files.h"
#include "support/named.h"

#include <math.h>
#include <sys/stat.h>

enum { CAPACITY = 6, SAMPLE = 12 * 12, CLASSES = 4 };

static char folder[256], logged[1024];
static clq_system *sys;
static clq_device *device;
static clq_model *large, *model, *tiny; /* large: has more kinds of candidates, to compare results */

static void keep_log(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) (void)snprintf(logged, sizeof logged, "%s", line);
}

/* ---- devices that keep programs and selections in a folder of their own ---- */

static clq_status open_device(const char *cache_dir) {
    uint32_t indices[TEST_DEVICES];
    clq_system_config config = {.cache_dir = cache_dir};
    CLQ_TRY(clq_system_open(&config, &sys));
    (void)find_devices(sys, indices);
    return clq_device_open(sys, (clq_device_choice){indices[0], 0, 1}, &device);
}

static void close_device(void) {
    clq_device_close(device);
    clq_system_close(sys);
}

static void damage(const char *file) {
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    int last = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(last ^ 1, f), last ^ 1);
    assert_int_equal(fclose(f), 0);
}

static void forget(const char *file) { assert_int_equal(unlink(file), 0); }

/* Calls `body` for each file of a kept selection: a file that is too small for a program. */
static void on_kept_selections(void (*body)(const char *file)) {
    enum { BYTES_MOST = 48 + CLQ_CANDIDATE_BYTES };
    char programs[512];
    (void)snprintf(programs, sizeof programs, "%s/programs", folder);
    DIR *dir = opendir(programs);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char file[1024];
        struct stat s;
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(file, sizeof file, "%s/%s", programs, entry->d_name);
        assert_int_equal(stat(file, &s), 0);
        if (s.st_size < BYTES_MOST) body(file);
    }
    (void)closedir(dir);
}

/* At the start of each test, only programs are kept, no selections. */
static int set_up(void **state) {
    (void)state;
    on_kept_selections(forget);
    logged[0] = '\0';
    return 0;
}

/* ---- plans ---- */

static clq_plan_config training(const clq_selections *selections) {
    static const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                          .classes = CLASSES,
                                          .weight = 1,
                                          .metric_count = 1,
                                          .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    static const clq_optimizer update = {.kind = CLQ_OPTIMIZER_SGD};
    return (clq_plan_config){.capacity = CAPACITY,
                             .sample_dtype = CLQ_U8,
                             .loss = &loss,
                             .update = &update,
                             .metric_slots = 1,
                             .selections = selections};
}

static clq_plan *plan_of(const clq_model *m, const clq_selections *selections) {
    clq_plan *plan;
    const clq_plan_config config = training(selections);
    CHECK_OK(clq_plan_create_alone(m, device, &config, &plan));
    return plan;
}

/* Checks what a new plan of the model selects for `key`. */
static void assert_selected(const clq_model *m, const char *key, const char *candidate, bool kept) {
    clq_plan *plan = plan_of(m, NULL);
    bool found = false;
    for (size_t i = 0; i < clq_list_choice_count(clq_plan_list(plan)); i++) {
        const clq_choice *q = clq_list_choice(clq_plan_list(plan), i);
        if (strcmp(q->key, key) != 0) continue;
        found = true;
        assert_string_equal(q->candidates[q->selected].name, candidate);
        assert_int_equal(q->kept, kept);
    }
    assert_true(found);
    clq_plan_destroy(plan);
}

/* The first choice of a plan by rule. */
static clq_choice first_choice(const clq_model *m) {
    clq_plan *plan = plan_of(m, NULL);
    assert_true(clq_list_choice_count(clq_plan_list(plan)) > 0);
    clq_choice choice = *clq_list_choice(clq_plan_list(plan), 0);
    clq_plan_destroy(plan);
    assert_true(choice.count > 1);
    return choice;
}

static void selections_are_kept(void **state) {
    (void)state;
    clq_choice q = first_choice(model);
    assert_selected(model, q.key, q.candidates[0].name, false);
    CHECK_OK(clq_selection_keep(device, q.key, q.candidates[1].name));
    assert_selected(model, q.key, q.candidates[1].name, true);
    CHECK_OK(clq_selection_keep(device, q.key, q.candidates[0].name)); /* replaces the other */
    assert_selected(model, q.key, q.candidates[0].name, true);
    CHECK_OK(clq_selection_keep(device, q.key, q.candidates[1].name));
    close_device(); /* acts as another process */
    CHECK_OK(open_device(folder));
    assert_selected(model, q.key, q.candidates[1].name, true);
    CHECK_OK(clq_selection_keep(device, q.key, "of another version"));
    assert_selected(model, q.key, q.candidates[0].name, false);
    assert_string_equal(logged, "");
}

static void own_selections_come_first(void **state) {
    (void)state;
    clq_choice q = first_choice(model);
    clq_selection own = {.candidate = ""};
    memcpy(own.key, q.key, sizeof own.key);
    CHECK_OK(clq_selection_keep(device, q.key, q.candidates[1].name));
    memcpy(own.candidate, q.candidates[0].name, sizeof own.candidate);
    const clq_selections tables[] = {{&own, 1, false, 0}, {NULL, 0, true, 0}, {NULL, 0, true, 1}, {NULL, 0, true, 99}};
    const size_t want[] = {0, 0, 1, q.count - 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(tables); i++) {
        clq_plan *plan = plan_of(model, &tables[i]);
        assert_int_equal(clq_list_choice(clq_plan_list(plan), 0)->selected, want[i]);
        clq_plan_destroy(plan);
    }
}

static void damaged_selections_are_none(void **state) {
    (void)state;
    clq_choice q = first_choice(model);
    CHECK_OK(clq_selection_keep(device, q.key, q.candidates[1].name));
    on_kept_selections(damage);
    assert_selected(model, q.key, q.candidates[0].name, false);
    assert_non_null(strstr(logged, "is damaged"));
}

/* ---- the weights of trials ---- */

static void trials_begin_as_training_does(void **state) {
    (void)state;
    enum { CHANNELS = 5 };
    clq_model *m;
    clq_plan *plan;
    clq_trials trials;
    const clq_tune_config tune = {.anew = true};
    CHECK_OK(clq_model_create("normalised", &m));
    CHECK_OK(clq_model_finish(m, clq_batch_norm(m, clq_input(m, CLQ_SHAPE(CHANNELS)), NULL)));
    CHECK_OK(clq_plan_create_alone(
        m, device,
        &(clq_plan_config){.mode = CLQ_MODE_PREDICT, .capacity = 4, .sample_dtype = CLQ_F32, .metric_slots = 1},
        &plan));
    CHECK_OK(clq_trials_open(plan, &tune, &trials));
    CHECK_OK(clq_trials_prepare(&trials, plan));
    for (uint32_t v = 0; v < m->variable_count; v++) {
        float got[CHANNELS];
        const char *name = m->variables[v].name;
        CHECK_OK(clq_queue_read(trials.queue, clq_weights_arena(plan->weights, clq_variable_arena(&m->variables[v])),
                                clq_plan_variable_offset(plan, v), got, sizeof got, true));
        const bool one = strstr(name, "variance") || strstr(name, "gamma");
        for (size_t i = 0; i < CHANNELS; i++) assert_true(got[i] == (one ? 1.0f : 0.0f));
    }
    clq_trials_release(&trials);
    clq_plan_destroy(plan);
    clq_model_destroy(m);
}

/* ---- the tuner, with scripted times ---- */

typedef struct script {
    const char *fast[4]; /* candidates that each halve the time of a trial, which is 1 s without them */
    size_t trials;
    double clock; /* one second per trial */
} script;

static clq_status scripted_trial(void *context, clq_plan *plan, size_t first, size_t end, double *seconds) {
    script *s = context;
    assert_true(first < end && end <= clq_list_launch_count(clq_plan_list(plan)));
    *seconds = 1;
    for (size_t i = 0; i < clq_list_choice_count(clq_plan_list(plan)); i++) {
        const clq_choice *q = clq_list_choice(clq_plan_list(plan), i);
        for (size_t k = 0; k < CLQ_COUNT_OF(s->fast) && s->fast[k]; k++)
            if (strcmp(q->candidates[q->selected].name, s->fast[k]) == 0) *seconds /= 2;
    }
    s->trials++;
    s->clock += 1;
    return CLQ_OK;
}

static double scripted_now(void *context) { return ((script *)context)->clock; }

static clq_status tune_with(script *s, const clq_model *m, bool anew, double budget_s, clq_tune_log *log) {
    const clq_plan_config config = training(NULL);
    const clq_tune_config tune = {.anew = anew,
                                  .compares = log,
                                  .budget_s = budget_s,
                                  .trial = scripted_trial,
                                  .now = scripted_now,
                                  .context = s};
    return clq_plan_tune(m, device, &config, &tune, log);
}

/* A plan made now asks nothing that was not measured, and goes by what was. */
static void assert_kept(const clq_tune_log *log) {
    clq_plan *plan = plan_of(model, NULL);
    for (size_t i = 0; i < clq_list_choice_count(clq_plan_list(plan)); i++) {
        const clq_choice *q = clq_list_choice(clq_plan_list(plan), i);
        size_t k = 0;
        while (k < log->count && strcmp(log->rows[k].choice.key, q->key) != 0) k++;
        assert_true(k < log->count && q->kept);
        assert_int_equal(q->selected, log->rows[k].choice.selected);
    }
    clq_plan_destroy(plan);
}

static void the_fastest_is_kept(void **state) {
    (void)state;
    script s = {.fast = {"apart", "packed blocks"}};
    clq_tune_log log = {.count = 0};
    CHECK_OK(tune_with(&s, model, false, 0, &log));
    size_t fastest = 0;
    assert_true(log.count > 3);
    for (size_t i = 0; i < log.count; i++) {
        const clq_tune_row *row = &log.rows[i];
        const clq_choice *q = &row->choice;
        assert_true(row->measured && row->flops > 0 && row->seconds[q->selected] > 0);
        for (size_t k = 0; k < q->count; k++) {
            bool fast =
                strcmp(q->candidates[k].name, "apart") == 0 || strcmp(q->candidates[k].name, "packed blocks") == 0;
            if (fast) assert_int_equal(q->selected, k);
            fastest += fast;
        }
    }
    assert_true(fastest > 1);
    assert_kept(&log);
    const clq_tune_row *step = &log.rows[log.count - 1];
    assert_string_equal(step->choice.key, "step without its update");
    assert_true(step->seconds[1] < step->seconds[0]);
    clq_tune_log_release(&log);

    s = (script){.fast = {NULL}};
    CHECK_OK(tune_with(&s, model, false, 0, NULL)); /* all choices are known */
    assert_int_equal(s.trials, 0);
    CHECK_OK(tune_with(&s, model, true, 0, &log)); /* starts from the rules again, which nothing beats now */
    for (size_t i = 0; i + 1 < log.count; i++) assert_int_equal(log.rows[i].choice.selected, 0);
    assert_string_equal(logged, "");
    clq_tune_log_release(&log);
}

static void the_budget_holds(void **state) {
    (void)state;
    script all = {.fast = {NULL}};
    CHECK_OK(tune_with(&all, model, true, 0, NULL));
    script part = {.fast = {"apart"}};
    clq_tune_log log = {.count = 0};
    on_kept_selections(forget);
    CHECK_OK(tune_with(&part, model, false, 150, &log));
    size_t unmeasured = 0;
    for (size_t i = 0; i < log.count; i++) unmeasured += !log.rows[i].measured;
    assert_true(unmeasured > 0 && unmeasured < log.count);
    clq_tune_log_release(&log);
    script before = part;
    assert_true(part.trials > 0 && part.trials < all.trials);
    CHECK_OK(
        tune_with(&part, model, false, 150, NULL)); /* the other choices kept their rules: the next run does the same */
    assert_int_equal(part.trials, before.trials);

    part = (script){.fast = {NULL}};
    CHECK_OK(tune_with(&part, model, true, 150, NULL)); /* no log: steps are not measured */
    assert_true(part.clock <= 150);
}

static void nothing_is_measured_in_vain(void **state) {
    (void)state;
    close_device();
    CHECK_OK(open_device(""));
    script s = {.fast = {"apart"}};
    CHECK_OK(tune_with(&s, model, true, 0, NULL));
    assert_int_equal(s.trials, 0);
    assert_non_null(strstr(logged, "nothing is measured"));
    assert_fails(CLQ_ERROR_STATE, "no folder", clq_selection_keep(device, "a key", "a candidate"));

    logged[0] = '\0';
    close_device();
    (void)files_remove(folder);
    char in_the_way[512];
    assert_int_equal(mkdir(folder, 0700), 0);
    CHECK_OK(open_device(folder));
    (void)snprintf(in_the_way, sizeof in_the_way, "%s/programs", folder);
    (void)files_remove(in_the_way); /* the folder that the self-test made */
    FILE *f = fopen(in_the_way, "wb");
    assert_non_null(f);
    (void)fclose(f);
    clq_choice q = first_choice(tiny);
    CHECK_OK(tune_with(&s, tiny, true, 0, NULL));
    assert_non_null(strstr(logged, "not used, since it cannot be kept"));
    assert_selected(tiny, q.key, q.candidates[0].name, false);
}

/* Builds the programs of the plan by rule, and of the plans with another candidate for one choice. The device keeps
 * them. */
static void load_candidates(const clq_model *m) {
    clq_plan *by_rule = plan_of(m, &(clq_selections){.by_rule = true});
    for (size_t i = 0; i < clq_list_choice_count(clq_plan_list(by_rule)); i++) {
        const clq_choice *q = clq_list_choice(clq_plan_list(by_rule), i);
        clq_selection other = {.candidate = ""};
        memcpy(other.key, q->key, sizeof other.key);
        for (size_t k = 1; k < q->count; k++) {
            memcpy(other.candidate, q->candidates[k].name, sizeof other.candidate);
            clq_plan_destroy(plan_of(m, &(clq_selections){&other, 1, true, 0}));
        }
    }
    clq_plan_destroy(by_rule);
}

static clq_status tune_tiny(void *context) {
    script *s = context;
    *s = (script){.fast = {NULL}};
    uint64_t used = clq_device_memory_used(device);
    clq_tune_log log = {.count = 0};
    clq_status status = tune_with(s, tiny, true, 1, &log);
    clq_tune_log_release(&log);
    assert_int_equal(clq_device_memory_used(device), used);
    return status;
}

/* A program that could not be saved for lack of memory would be compiled again in each round: the programs are built
 * first. */
static void runs_out_of_memory(void **state) {
    (void)state;
    script s;
    load_candidates(tiny);
    CHECK_OK(tune_tiny(&s)); /* builds the programs */
    assert_true(s.trials > 0);
    assert_true(walk_allocations(tune_tiny, &s) > 200);
}

/* ---- each candidate ---- */

static float *gradient_of(clq_queue *queue, clq_plan *plan, size_t *floats) {
    clq_random random = clq_random_start(3, 0);
    *floats = clq_plan_arena_bytes(plan) / sizeof(float);
    float *values = clq_alloc(*floats, sizeof *values);
    unsigned char samples[CAPACITY * SAMPLE];
    int32_t labels[CAPACITY];
    assert_non_null(values);
    for (size_t i = 0; i < *floats; i++) values[i] = (float)(clq_random_unit(&random) - 0.5);
    for (size_t i = 0; i < sizeof samples; i++) samples[i] = (unsigned char)clq_random_below(&random, 256);
    for (size_t i = 0; i < CAPACITY; i++) labels[i] = (int32_t)clq_random_below(&random, CLASSES);
    CHECK_OK(clq_queue_write(queue, clq_plan_parameters(plan), 0, values, *floats * sizeof *values, true));
    CHECK_OK(clq_queue_write(queue, clq_plan_samples(plan), 0, samples, sizeof samples, true));
    CHECK_OK(clq_queue_write(queue, clq_plan_labels(plan, 0), 0, labels, sizeof labels, true));
    clq_plan_set_params(plan, &(clq_step_params){.count = CAPACITY, .scale = 1.0f / CAPACITY});
    for (int s = CLQ_SEGMENT_FORWARD; s <= CLQ_SEGMENT_BACKWARD; s++)
        CHECK_OK(clq_plan_run(plan, queue, (clq_segment)s, (clq_segment)s));
    CHECK_OK(clq_queue_read(queue, clq_plan_gradient(plan), 0, values, *floats * sizeof *values, true));
    return values;
}

static bool has_candidate(const clq_plan *plan, size_t nth) {
    bool has = false;
    for (size_t i = 0; i < clq_list_choice_count(clq_plan_list(plan)); i++)
        has |= clq_list_choice(clq_plan_list(plan), i)->count > nth;
    return has;
}

static void candidates_on(clq_device *now, clq_queue *queue) {
    if (pocl_name_is(clq_device_get_info(now)->name, POCL_POOL)) return; /* runs the same as basic, in other threads */
    clq_device *folders = device;
    device = now;
    float *want = NULL;
    for (size_t nth = 0, more = true; more; nth++) {
        size_t floats;
        clq_plan *plan = plan_of(large, &(clq_selections){.by_rule = true, .nth = nth});
        float *got = gradient_of(queue, plan, &floats), *again = gradient_of(queue, plan, &floats), most = 0;
        assert_memory_equal(got, again, floats * sizeof *got);
        for (size_t i = 0; i < floats && want; i++) most = fmaxf(most, fabsf(want[i]));
        for (size_t i = 0; i < floats && want; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-5f * most))
                fail_msg("candidate %zu: [%zu] is %.9g and %.9g by rule", nth, i, (double)got[i], (double)want[i]);
        clq_free(again);
        if (want) clq_free(got);
        if (!want) want = got;
        more = has_candidate(plan, nth + 1);
        clq_plan_destroy(plan);
    }
    clq_free(want);
    device = folders;
}

static void candidates_compute_the_same(void **state) {
    (void)state;
    on_each_driver(candidates_on);
}

/* ---- */

static clq_tensor begin(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(12, 12, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU});
    return clq_max_pool2d(m, x, &(clq_pool_config){.size = {2, 2}});
}

static clq_tensor build(clq_model *m) {
    return clq_dense(m, clq_flatten(m, begin(m), NULL), &(clq_dense_config){.units = CLASSES});
}

static clq_tensor build_large(clq_model *m) {
    clq_tensor x = begin(m);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 20, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 70, .activation = CLQ_ACTIVATION_TANH});
    return clq_dense(m, x, &(clq_dense_config){.units = CLASSES});
}

static clq_tensor build_tiny(clq_model *m) {
    return clq_dense(m, clq_input(m, CLQ_SHAPE(SAMPLE)), &(clq_dense_config){.units = CLASSES});
}

static int set_up_all(void **state) {
    (void)state;
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_WARNING);
    bool ok = clq_model_create("large", &large) == CLQ_OK && clq_model_finish(large, build_large(large)) == CLQ_OK &&
              clq_model_create("tuned", &model) == CLQ_OK && clq_model_finish(model, build(model)) == CLQ_OK &&
              clq_model_create("tiny", &tiny) == CLQ_OK && clq_model_finish(tiny, build_tiny(tiny)) == CLQ_OK;
    (void)snprintf(folder, sizeof folder, "%s/clique-tune-XXXXXX", P_tmpdir);
    if (!ok || !mkdtemp(folder) || open_device(folder) != CLQ_OK) return -1;
    clq_plan_destroy(plan_of(tiny, NULL)); /* makes the folder of what is kept */
    CHECK_OK(clq_selection_keep(device, "a key", "a candidate"));
    return 0;
}

static int tear_down_all(void **state) {
    (void)state;
    clq_model_destroy(large);
    clq_model_destroy(model);
    clq_model_destroy(tiny);
    close_device();
    (void)files_remove(folder);
    return 0;
}

/* ---- rounds ---- */

/* of: the seconds that part b takes in a round, while part a always takes 1 s. Round -1 is the trial before the rounds.
 * Part a has one launch, part b two. */
typedef struct ratios {
    double (*of)(size_t round);
    size_t tried_b;
} ratios;

static clq_status trial_of_ratios(void *context, clq_plan *plan, size_t first, size_t end, double *seconds) {
    ratios *r = context;
    (void)plan;
    *seconds = end - first == 1 ? 1.0 : r->of(r->tried_b++ - 1);
    return CLQ_OK;
}

static double faster(size_t round) { return round + 1 ? 0.9 : 5.0; }
static double equal(size_t round) { return round + 1 ? 1.0 : 5.0; }
static double slower(size_t round) { return round + 1 ? 1.5 : 5.0; }
static double disturbed_at_first(size_t round) { return round < 11 ? 1.12 : 0.9; }
static double disturbed_always(size_t round) { return round % 2 ? 1.12 : 0.9; }

static clq_trial_result compare(double (*of)(size_t round)) {
    ratios r = {.of = of};
    const clq_tune_config tune = {.trial = trial_of_ratios, .context = &r};
    clq_trials trials = {.tune = &tune};
    clq_trial_result result;
    CHECK_OK(clq_trials_compare(&trials, (clq_trial_part){NULL, 0, 1}, (clq_trial_part){NULL, 0, 2}, &result));
    assert_int_equal(r.tried_b, result.rounds + 1);
    return result;
}

/* Other programs may disturb the times. While they decide the result, more rounds are made. If they do to the end, the
 * present selection stays. */
static void doubtful_rounds_are_repeated(void **state) {
    (void)state;
    clq_trial_result found = compare(faster);
    assert_true(found.b_wins && found.rounds == 21 && found.b_s == 0.9);
    found = compare(equal);
    assert_true(!found.b_wins && found.rounds == 21);
    found = compare(slower);
    assert_true(!found.b_wins && found.rounds == 3);
    found = compare(disturbed_at_first);
    assert_true(found.b_wins && found.rounds > 21 && found.rounds < 63);
    found = compare(disturbed_always);
    assert_true(!found.b_wins && found.rounds == 63);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(selections_are_kept, set_up),
        cmocka_unit_test_setup(own_selections_come_first, set_up),
        cmocka_unit_test_setup(damaged_selections_are_none, set_up),
        cmocka_unit_test_setup(trials_begin_as_training_does, set_up),
        cmocka_unit_test_setup(the_fastest_is_kept, set_up),
        cmocka_unit_test_setup(the_budget_holds, set_up),
        cmocka_unit_test_setup(runs_out_of_memory, set_up),
        cmocka_unit_test_setup(nothing_is_measured_in_vain, set_up),
        cmocka_unit_test(doubtful_rounds_are_repeated),
        cmocka_unit_test(candidates_compute_the_same),
    };
    return run_named(argc, argv, tests, set_up_all, tear_down_all);
}
