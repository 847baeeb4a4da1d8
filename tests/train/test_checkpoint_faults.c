/* Checkpoints while OpenCL calls fail. If a checkpoint cannot be taken, or a trainer cannot resume from it, one line
 * says so. The folder keeps what it has: a new trainer resumes from the newest whole checkpoint, bit for bit. */
#include "support/faults.h"
#include "train/resumed.h"

enum { TAKEN = 2, END = 4 };

static faults layer;

/* In the short form one call out of so many fails. The number is odd, so that in turn a call fails once, or that call
 * and all later ones fail. With the argument `long` it is 1. */
static unsigned thinned = 7;

typedef struct scene {
    const setting *of;
    clq_model *model;
    const char *folder;           /* with a checkpoint of step TAKEN */
    float expected[WEIGHTS_MOST]; /* at step END */
    unsigned first, failures;     /* first: the first call that fails */
} scene;

static clq_trainer *open_scene_trainer(const scene *s) { return make_trainer(s->model, s->of, "adam:lr=0.01"); }

static void check_weights(const scene *s, clq_trainer *trainer) {
    static float now[WEIGHTS_MOST];
    read_weights(trainer, s->model, now);
    if (memcmp(now, s->expected, sizeof now) != 0) fail_msg("%s: other weights at step %d", s->of->name, END);
}

static void begin_scene(const setting *of, scene *out) {
    static unsigned number;
    char name[64];
    snprintf(name, sizeof name, "at-%u", number++);
    *out = (scene){.of = of, .model = make_model(of->synchronized, 8), .folder = files_path(name)};
    out->first = 1 + number % thinned;
    clq_trainer *trainer = open_scene_trainer(out);
    clq_dataset *data = make_data();
    clq_checkpoints *checkpoints = open_checkpoints(out->folder);
    make_steps(trainer, data, TAKEN);
    assert_ok(clq_checkpoints_save(checkpoints, trainer, data));
    clq_checkpoints_close(checkpoints);
    make_steps(trainer, data, END - TAKEN);
    read_weights(trainer, out->model, out->expected);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
}

/* The failure is one line, which names the device. No checkpoint came or went. */
static void check_failure(scene *s, unsigned n, clq_status status, clq_checkpoints *checkpoints) {
    const char *line = clq_error_detail();
    s->failures++;
    if (status != CLQ_ERROR_DEVICE && status != CLQ_ERROR_DEVICE_MEMORY)
        fail_msg("%s, call %u: %s: %s", s->of->name, n, clq_status_text(status), line);
    if (!strstr(line, "pocl:") && !strstr(line, "intel"))
        fail_msg("%s, call %u: no device in: %s", s->of->name, n, line);
    if (strchr(line, '\n')) fail_msg("%s, call %u: several lines: %s", s->of->name, n, line);
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    assert_int_equal(counts.written, 0);
    assert_int_equal(files_count(s->folder), 1);
}

/* A trainer that lost a device fails again in the same way, and no checkpoint is made of what it has. */
static void check_lost(scene *s, clq_status status, clq_trainer *trainer, clq_dataset *data,
                       clq_checkpoints *checkpoints) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(data, &batch, &more));
    assert_int_equal(clq_step(trainer, &batch), status);
    assert_int_not_equal(clq_checkpoints_save(checkpoints, trainer, data), CLQ_OK);
    assert_int_equal(files_count(s->folder), 1);
}

/* Resumes from the folder's checkpoint, and trains to step END. */
static void go_on(const scene *s, clq_checkpoints *checkpoints, clq_trainer *trainer, clq_dataset *data) {
    uint64_t step = 0;
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    assert_int_equal(step, TAKEN);
    make_steps(trainer, data, END - TAKEN);
    check_weights(s, trainer);
}

/* In turn, each call fails while a checkpoint is taken after the one in the folder. The next attempt resumes from that
 * one. */
static void taking_fails(scene *s) {
    bool more = true;
    for (unsigned n = s->first; more; n += thinned) {
        clq_trainer *trainer = open_scene_trainer(s);
        clq_dataset *data = make_data();
        clq_checkpoints *checkpoints = open_checkpoints(s->folder);
        go_on(s, checkpoints, trainer, data);
        (void)layer.arm(n, CL_OUT_OF_RESOURCES, n % 2);
        const clq_status status = clq_checkpoints_save(checkpoints, trainer, data);
        if (status != CLQ_OK) {
            check_failure(s, n, status, checkpoints);
            check_lost(s, status, trainer, data, checkpoints);
        }
        clq_checkpoints_close(checkpoints);
        clq_trainer_destroy(trainer);
        more = layer.arm(0, 0, false) >= n;
        clq_dataset_destroy(data);
        if (status != CLQ_OK) continue;
        char path[600];
        snprintf(path, sizeof path, "%s/step-%012d", s->folder, END);
        assert_int_equal(files_remove(path), 0);
    }
}

/* In turn, each call of a restore fails. The dataset stays where it was. */
static void going_on_fails(scene *s) {
    bool more = true;
    for (unsigned n = s->first; more; n += thinned) {
        clq_trainer *trainer = open_scene_trainer(s);
        clq_dataset *data = make_data();
        clq_checkpoints *checkpoints = open_checkpoints(s->folder);
        uint64_t step = 77, epoch, index;
        assert_ok(clq_dataset_seek(data, 1, 3));
        (void)layer.arm(n, CL_OUT_OF_RESOURCES, n % 2);
        const clq_status status = clq_checkpoints_restore(checkpoints, trainer, data, &step);
        if (status != CLQ_OK) {
            check_failure(s, n, status, checkpoints);
            assert_int_equal(step, 77);
            clq_dataset_tell(data, &epoch, &index);
            assert_true(epoch == 1 && index == 3);
            assert_int_equal(clq_checkpoints_restore(checkpoints, trainer, data, &step), status);
            check_lost(s, status, trainer, data, checkpoints);
        }
        clq_trainer_destroy(trainer);
        more = layer.arm(0, 0, false) >= n;
        trainer = open_scene_trainer(s);
        go_on(s, checkpoints, trainer, data);
        clq_trainer_destroy(trainer);
        clq_checkpoints_close(checkpoints);
        clq_dataset_destroy(data);
    }
}

/* Gives how many checkpoints failed. */
static unsigned each_call_fails(const setting *of) {
    scene s;
    begin_scene(of, &s);
    taking_fails(&s);
    const unsigned taking = s.failures;
    going_on_fails(&s);
    printf("%s, %s: %u failed checkpoints, %u failed restores\n", of->name, clq_precision_name(precision), taking,
           s.failures - taking);
    if (s.failures < taking + 2) fail_msg("%s: too few calls of restores failed", of->name);
    clq_model_destroy(s.model);
    return taking;
}

/* One strategy for each kind of state that replicas and stores hold. The long form has all strategies. */
static void each_call_of_each_strategy(void **state) {
    (void)state;
    static const char *const some = "single; sharded optimizer; topk; local steps; central; ps; pipeline; tensor";
    unsigned scenes = 0, failed = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(settings); i++) {
        if (thinned > 1 && !strstr(some, settings[i].name)) continue;
        failed += each_call_fails(&settings[i]);
        scenes++;
    }
    /* Counted for all strategies together: replicas' threads share the counted calls, and a store's checkpoint makes
     * few. */
    if (failed < 2 * scenes) fail_msg("too few calls of checkpoints failed: %u in %u trainings", failed, scenes);
}

/* Also with a loss scale. */
static void each_call_of_mixed_precision(void **state) {
    (void)state;
    precision = CLQ_PRECISION_MIXED;
    assert_true(each_call_fails(&settings[2]) > 0);
    precision = CLQ_PRECISION_F32;
}

/* ---- a checkpoint of a fit ---- */

static clq_status arm_last(void *context, uint64_t step) {
    if (step == END) (void)layer.arm(*(const unsigned *)context, CL_OUT_OF_RESOURCES, true);
    return CLQ_OK;
}

/* The fit ends with the failed call's line, and the checkpoint before it stays. */
static void a_fit_ends(void **state) {
    (void)state;
    scene s;
    unsigned failures = 0;
    begin_scene(&settings[2], &s);
    for (unsigned n = 1; n <= 13; n += 4) {
        char name[64];
        snprintf(name, sizeof name, "fit-%u", n);
        clq_trainer *trainer = open_scene_trainer(&s);
        clq_dataset *data = make_data();
        clq_checkpoints *checkpoints;
        const clq_checkpoints_config config = {.folder = files_path(name), .every = TAKEN, .resume = true};
        assert_ok(clq_checkpoints_open(&config, &checkpoints));
        const clq_status status = clq_fit(
            trainer, data,
            &(clq_fit_config){.steps = END, .checkpoints = checkpoints, .on_checkpoint = arm_last, .context = &n});
        (void)layer.arm(0, 0, false);
        if (status != CLQ_OK) {
            failures++;
            assert_int_equal(status, CLQ_ERROR_DEVICE);
            expect_text(clq_error_detail(), "replica ");
            assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, TAKEN);
            clq_trainer_destroy(trainer);
            trainer = open_scene_trainer(&s);
            go_on(&s, checkpoints, trainer, data);
        }
        clq_checkpoints_close(checkpoints);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
    }
    assert_true(failures >= 2);
    clq_model_destroy(s.model);
}

static int begin(void **state) { return faults_load(&layer) || start(state) ? -1 : 0; }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_each_strategy),
        cmocka_unit_test(each_call_of_mixed_precision),
        cmocka_unit_test(a_fit_ends),
    };
    if (argc > 1 && strcmp(argv[1], "long") == 0) thinned = 1;
    return cmocka_run_group_tests(tests, begin, end);
}
