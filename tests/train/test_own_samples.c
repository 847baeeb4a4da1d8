/* Trainings over several processes, which are threads here. Each process brings its own samples to each batch
 * (clq_trainer_config.shard). The results are compared with trainings of one process on the very same batches, which
 * are put together by hand from the sets of all processes. */
#include "support/apart.h"
#include "support/files.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "support/world_fabric.h"
#include <clique/callbacks.h>
#include <clique/checkpoint.h>
#include <clique/train.h>

#include <math.h>

enum { BATCH = 40, PIXELS = 784, SAMPLES = 250, TESTS = 75, EPOCHS = 2, STEPS_MAX = 16, SEED = 5, PROCESSES = 2 };
static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};

static uint8_t samples[SAMPLES][PIXELS], tests[TESTS][PIXELS];
static int32_t labels[SAMPLES], test_labels[TESTS];
static float weights[SAMPLES];
static const double class_weights[] = {1, 2.5, 0.5};

/* ---- a case ---- */

typedef struct run {
    const char *name;
    clq_shard shard;
    size_t begin[PROCESSES], count[PROCESSES]; /* each process's range of `samples` */
    size_t tests[PROCESSES];                   /* likewise, of `tests`; OFF: the first is for both */
    size_t rows[PROCESSES];             /* a process's rows of a full batch: its replicas' shares, counted by hand */
    unsigned updates;                   /* batches of an epoch; counted by hand, too */
    bool is_even;                       /* two devices in each process; otherwise one device and two */
    bool drops, weighs, has_other_seed; /* has_other_seed: the second process shuffles by another seed */
    const char *alone;                  /* the devices of the one process it is compared with */
    double tolerance;
    clq_strategy_options options;
    const char *folder; /* of checkpoints; NULL: none */
    bool resumes, is_interrupted;
    size_t buffer;  /* the shuffle buffer; 0: the whole set */
    unsigned first; /* a first fit makes so many updates and then saves a checkpoint; 0: no such fit */
} run;

typedef struct told {
    double losses[STEPS_MAX + 1], validation[EPOCHS];
    size_t samples[STEPS_MAX + 1], trained[EPOCHS], validated[EPOCHS];
    uint64_t steps, resumed;
    size_t batches[2]; /* of an epoch of the caller's set: after the restore of a checkpoint, if any; after the fit */
} told;

static const double three_shares[] = {3, 1, 2};
/* 40 samples over 3 replicas are 14, 14, 12; over 4 they are 10 each. */
static const run runs[] = {
    {.name = "files",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {14, 26},
     .updates = 6,
     .alone = "pocl:0",
     .tolerance = 1e-4},
    {.name = "weights",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {14, 26},
     .updates = 6,
     .weighs = true,
     .alone = "pocl:0",
     .tolerance = 1e-4,
     .options = {.accumulate = 4}},
    {.name = "off",
     .shard = CLQ_SHARD_OFF,
     .begin = {0, 0},
     .count = {104, 104},
     .tests = {45, 0},
     .rows = {14, 26},
     .updates = 4,
     .alone = "pocl:0",
     .tolerance = 1e-4},
    {.name = "local steps",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {14, 26},
     .updates = 5,
     .drops = true,
     .alone = "pocl:0,pocl:1,pocl:2",
     .tolerance = 1e-4,
     .options = {.local_steps = 3}},
    {.name = "f16",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {14, 26},
     .updates = 5,
     .drops = true,
     .alone = "pocl:0,pocl:1,pocl:2",
     .tolerance = 5e-3,
     .options = {.compression = {.kind = CLQ_COMPRESSION_F16}}},
    {.name = "shares",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {20, 20},
     .updates = 5,
     .alone = "pocl:0,pocl:1,pocl:2",
     .tolerance = 1e-4,
     .options = {.shares = CLQ_SHARES_WEIGHTS, .share_weights = three_shares, .share_count = 3}},
    {.name = "sharded optimizer",
     .shard = CLQ_SHARD_FILE,
     .begin = {0, 100},
     .count = {100, 150},
     .tests = {45, 30},
     .rows = {20, 20},
     .updates = 5,
     .is_even = true,
     .alone = "pocl:0,pocl:1,pocl:2,pocl:3",
     .tolerance = 1e-4,
     .options = {.shard_optimizer = true}},
    {.name = "pipelines",
     .shard = CLQ_SHARD_OFF,
     .begin = {0, 0},
     .count = {100, 100},
     .tests = {45, 0},
     .rows = {20, 20},
     .updates = 5,
     .is_even = true,
     .alone = "pocl:0,pocl:1,pocl:2,pocl:3",
     .tolerance = 1e-4,
     .options = {.stages = 2, .micro_batches = 3}},
};

/* ---- sets ---- */

static clq_status make_set(const void *from, const int32_t *their_labels, const float *their_weights, size_t count,
                           clq_dataset **out) {
    clq_status status =
        clq_dataset_arrays(from, CLQ_U8, count, 3, (const size_t[]){28, 28, 1}, their_labels, CLQ_I32, 1, out);
    if (status == CLQ_OK && their_weights) status = clq_dataset_set_weights(*out, their_weights);
    return status;
}

static clq_status make_train(const run *r, unsigned process, clq_dataset **out) {
    const size_t begin = r->begin[process];
    return make_set(samples[begin], &labels[begin], r->weighs ? &weights[begin] : NULL, r->count[process], out);
}

static clq_status make_test(size_t begin, size_t count, clq_dataset **out) {
    CLQ_TRY(make_set(tests[begin], &test_labels[begin], NULL, count, out));
    return clq_dataset_batch(*out, BATCH, false);
}

/* ---- training ---- */

static clq_status make_model(clq_model **out) {
    CLQ_TRY(clq_model_create("small", out));
    clq_tensor x = clq_flatten(*out, clq_input(*out, CLQ_SHAPE(28, 28, 1)), NULL);
    x = clq_dense(*out, x, &(clq_dense_config){.units = 16});
    x = clq_dense(*out, x, &(clq_dense_config){.units = 10});
    return clq_model_finish(*out, x);
}

static clq_status make_trainer(const run *r, const clq_model *model, const char *spec, clq_world *world,
                               clq_trainer **out) {
    clq_devices devices;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.seed = 7;
    config.strategy_options = r->options;
    config.strategy = r->options.stages ? CLQ_STRATEGY_PIPELINE : CLQ_STRATEGY_AUTO;
    config.shard = r->shard;
    config.world = world;
    config.sample_weights = r->weighs;
    if (r->weighs) config.class_weights = class_weights;
    if (r->weighs) config.class_weight_count = CLQ_COUNT_OF(class_weights);
    /* Small steps: the errors of half precision grow from step to step. */
    const bool halves = r->options.compression.kind == CLQ_COMPRESSION_F16;
    CLQ_TRY(clq_optimizer_parse(halves ? "sgd:lr=1e-5,momentum=0.9" : "adam", &config.optimizer));
    CLQ_TRY(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static clq_status note_log(void *context, const clq_step_info *info) {
    told *t = context;
    t->losses[info->step] = info->loss;
    t->samples[info->step] = info->samples;
    t->steps = info->step;
    return CLQ_OK;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    told *t = context;
    t->validation[info->epoch] = info->validation.loss;
    t->trained[info->epoch] = info->train.samples;
    t->validated[info->epoch] = info->validation.samples;
    return CLQ_OK;
}

static clq_status interrupt(void *context, clq_trainer *trainer, const clq_step_info *info) {
    (void)context;
    (void)trainer;
    return info->step >= 2 ? clq_fail(CLQ_ERROR_INTERRUPTED, "somebody waved") : CLQ_OK;
}

static clq_status fit(const run *r, clq_trainer *trainer, clq_dataset *data, clq_dataset *test,
                      clq_checkpoints *checkpoints, unsigned steps, told *t) {
    const clq_callback callback = {.name = "waves", .on_step = interrupt};
    const clq_fit_config config = {.epochs = steps ? 0 : EPOCHS,
                                   .steps = steps,
                                   .validation = test,
                                   .context = t,
                                   .on_log = note_log,
                                   .on_epoch = note_epoch,
                                   .checkpoints = checkpoints,
                                   .callbacks = &callback,
                                   .callback_count = r->is_interrupted ? 1 : 0};
    return clq_fit(trainer, data, &config);
}

typedef struct plan {
    const run *how;
    told results[PROCESSES + 1];
} plan;

static clq_status train(const run *r, const fabric_rank *of, told *t) {
    static const char *const uneven[] = {"pocl:0", "pocl:1,pocl:2", "pocl:3"}, *const even[] = {"pocl:0,pocl:1",
                                                                                                "pocl:2,pocl:3"};
    const unsigned rank = of->rank, set = rank % PROCESSES;
    clq_model *model = NULL;
    clq_trainer *trainer = NULL;
    clq_dataset *data = NULL, *test = NULL;
    clq_checkpoints *checkpoints = NULL;
    const bool has_own = r->shard == CLQ_SHARD_FILE;
    const clq_checkpoints_config kept = {.folder = r->folder, .every = 1, .resume = r->resumes, .world = of->world};
    *t = (told){0};
    clq_status status = make_model(&model);
    if (status == CLQ_OK) status = make_train(r, set, &data);
    const size_t buffer = r->buffer ? r->buffer : SIZE_MAX;
    if (status == CLQ_OK) status = clq_dataset_shuffle(data, buffer, r->has_other_seed && set ? SEED + 1 : SEED);
    if (status == CLQ_OK) status = clq_dataset_batch(data, BATCH, r->drops);
    if (status == CLQ_OK) status = make_test(has_own && set ? r->tests[0] : 0, r->tests[has_own ? set : 0], &test);
    if (status == CLQ_OK) status = make_trainer(r, model, (r->is_even ? even : uneven)[rank], of->world, &trainer);
    if (status == CLQ_OK && r->folder) status = clq_checkpoints_open(&kept, &checkpoints);
    if (status == CLQ_OK && r->resumes) status = clq_checkpoints_restore(checkpoints, trainer, data, &t->resumed);
    t->batches[0] = data ? clq_dataset_batches(data) : 0;
    if (status == CLQ_OK && r->first) status = fit(r, trainer, data, test, NULL, r->first, t);
    if (status == CLQ_OK && r->first && checkpoints) status = clq_checkpoints_save(checkpoints, trainer, data);
    if (status == CLQ_OK) status = fit(r, trainer, data, test, r->first ? NULL : checkpoints, 0, t);
    t->batches[1] = data ? clq_dataset_batches(data) : 0;
    clq_error why;
    clq_error_take(status, &why);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    return clq_error_raise(&why);
}

static void train_rank(fabric_rank *rank) {
    plan *p = rank->context;
    fabric_note(rank, train(p->how, rank, &p->results[rank->rank]));
}

static void start(plan *p, unsigned processes, fabric_rank *ranks) {
    fabric *network = fabric_open(processes, 0, 0);
    fabric_run(network, processes, &patient, train_rank, p, ranks);
    fabric_close(network);
}

static void run_well(plan *p) {
    fabric_rank ranks[PROCESSES];
    start(p, PROCESSES, ranks);
    for (unsigned r = 0; r < PROCESSES; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("%s: process %u: %s", p->how->name, r, ranks[r].detail);
}

/* ---- by hand ---- */

typedef struct gathered {
    clq_batch batch;
    uint8_t samples[BATCH][PIXELS];
    int32_t labels[BATCH];
    float weights[BATCH];
} gathered;

/* Gathers the next batch of each process's set, one after the other. */
static void gather(clq_dataset **sets, gathered *out) {
    size_t count = 0;
    for (unsigned p = 0; p < PROCESSES; p++) {
        clq_batch own;
        bool more;
        assert_ok(clq_dataset_next(sets[p], &own, &more));
        assert_true(more && count + own.count <= BATCH);
        memcpy(out->samples[count], own.samples, own.count * PIXELS);
        memcpy(&out->labels[count], own.labels, own.count * sizeof *out->labels);
        if (own.weights) memcpy(&out->weights[count], own.weights, own.count * sizeof *out->weights);
        count += own.count;
        out->batch = own;
    }
    out->batch.count = count;
    out->batch.samples = out->samples;
    out->batch.labels = out->labels;
    if (out->batch.weights) out->batch.weights = out->weights;
}

static void train_epoch_by_hand(const run *r, clq_trainer *trainer, clq_dataset **sets, unsigned epoch, told *t) {
    static gathered next;
    const unsigned of_update = r->options.accumulate ? (unsigned)r->options.accumulate : 1;
    for (unsigned p = 0; p < PROCESSES; p++) assert_ok(clq_dataset_seek(sets[p], epoch, 0));
    for (unsigned b = 1; b <= r->updates; b++) {
        const bool ends = b % of_update == 0 || b == r->updates;
        clq_step_info info;
        gather(sets, &next);
        t->trained[epoch] += next.batch.count;
        assert_ok(ends ? clq_step(trainer, &next.batch) : clq_step_accumulate(trainer, &next.batch));
        if (!ends) continue;
        assert_ok(clq_step_read(trainer, &info));
        (void)note_log(t, &info);
    }
}

static void train_by_hand(const run *r, told *t) {
    clq_model *model;
    clq_trainer *trainer;
    clq_dataset *sets[PROCESSES], *test;
    *t = (told){0};
    assert_ok(make_model(&model));
    assert_ok(make_trainer(r, model, r->alone, NULL, &trainer));
    assert_ok(make_test(0, r->tests[0] + r->tests[1], &test));
    for (unsigned p = 0; p < PROCESSES; p++) {
        assert_ok(make_train(r, p, &sets[p]));
        assert_ok(clq_dataset_shuffle(sets[p], SAMPLES, SEED + p));
        assert_ok(clq_dataset_batch(sets[p], r->rows[p], r->drops));
    }
    for (unsigned e = 0; e < EPOCHS; e++) {
        clq_totals totals;
        train_epoch_by_hand(r, trainer, sets, e, t);
        assert_ok(clq_evaluate(trainer, test, &totals));
        t->validation[e] = totals.loss;
        t->validated[e] = totals.samples;
    }
    for (unsigned p = 0; p < PROCESSES; p++) clq_dataset_destroy(sets[p]);
    clq_dataset_destroy(test);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- tests ---- */

/* Only the training splits a set. However the training ends, its caller has the whole set again. */
static void expect_whole_sets(const plan *p) {
    for (unsigned k = 0; k < PROCESSES; k++)
        for (unsigned i = 0; i < 2; i++) {
            const size_t count = p->how->count[k], right = p->how->drops ? count / BATCH : (count + BATCH - 1) / BATCH;
            if (p->results[k].batches[i] != right)
                fail_msg("%s: process %u has a set of %u batches, not %u", p->how->name, k,
                         (unsigned)p->results[k].batches[i], (unsigned)right);
        }
}

static void expect_near(const run *r, const char *what, uint64_t at, double value, double right) {
    if (!(fabs(value - right) <= r->tolerance * CLQ_MAX(fabs(right), 1e-3)))
        fail_msg("%s: %s %d: %.9g, not %.9g", r->name, what, (int)at, value, right);
}

static void each_way_is_that_of_batches_made_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(runs); i++) {
        static told right;
        plan together = {.how = &runs[i]};
        train_by_hand(&runs[i], &right);
        run_well(&together);
        expect_whole_sets(&together);
        for (unsigned p = 0; p < PROCESSES; p++) {
            const told *own = &together.results[p];
            assert_int_equal(own->steps, right.steps);
            for (uint64_t s = 1; s <= right.steps; s++) {
                expect_near(&runs[i], "loss of step", s, own->losses[s], right.losses[s]);
                assert_int_equal(own->samples[s], right.samples[s]);
            }
            for (unsigned e = 0; e < EPOCHS; e++) {
                expect_near(&runs[i], "validation of epoch", e, own->validation[e], right.validation[e]);
                assert_int_equal(own->validated[e], right.validated[e]);
                assert_int_equal(own->trained[e], right.trained[e]);
            }
        }
    }
}

/* The training is interrupted in the middle of an epoch, or at its end. */
static void it_goes_on_bit_for_bit(void **state) {
    (void)state;
    static const size_t cases[] = {0, 2, 3}; /* files, off, local steps */
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        run undisturbed = runs[cases[i]], first = undisturbed, second = undisturbed;
        char names[2][64];
        (void)snprintf(names[0], sizeof names[0], "undisturbed %u", (unsigned)i);
        (void)snprintf(names[1], sizeof names[1], "interrupted %u", (unsigned)i);
        undisturbed.folder = files_path(names[0]);
        first.folder = second.folder = files_path(names[1]);
        first.is_interrupted = second.resumes = true;
        plan right = {.how = &undisturbed}, before = {.how = &first}, after = {.how = &second};
        fabric_rank ranks[PROCESSES];
        run_well(&right);
        start(&before, PROCESSES, ranks);
        for (unsigned p = 0; p < PROCESSES; p++) assert_int_equal(ranks[p].ended, CLQ_ERROR_INTERRUPTED);
        run_well(&after);
        expect_whole_sets(&before);
        expect_whole_sets(&after);
        for (unsigned p = 0; p < PROCESSES; p++) {
            const told *a = &before.results[p], *b = &after.results[p], *all = &right.results[p];
            if (!(a->steps >= 2 && a->steps < all->steps))
                fail_msg("%s: interrupted behind step %d of %d", undisturbed.name, (int)a->steps, (int)all->steps);
            assert_int_equal(b->resumed, a->steps);
            for (uint64_t s = 1; s <= all->steps; s++) {
                const double loss = s <= a->steps ? a->losses[s] : b->losses[s];
                if (!(loss == all->losses[s]))
                    fail_msg("%s: loss of step %d: %.9g, not %.9g", undisturbed.name, (int)s, loss, all->losses[s]);
            }
        }
    }
}

/* A fit ends in the middle of an epoch, at a batch number that an epoch of one process's whole set does not have. */
static void the_next_fit_goes_on(void **state) {
    (void)state;
    run cut = runs[0];
    cut.first = 5;
    cut.folder = files_path("between fits");
    run resumed = cut;
    resumed.first = 0;
    resumed.resumes = true;
    plan at_once = {.how = &runs[0]}, in_two = {.how = &cut}, after = {.how = &resumed};
    run_well(&at_once);
    run_well(&in_two);
    run_well(&after);
    expect_whole_sets(&in_two);
    for (unsigned p = 0; p < PROCESSES; p++) {
        const double *right = at_once.results[p].losses, *own = in_two.results[p].losses;
        for (uint64_t s = 1; s <= runs[0].updates; s++)
            if (!(own[s] == right[s])) fail_msg("loss of step %d: %.9g, not %.9g", (int)s, own[s], right[s]);
        assert_int_equal(after.results[p].resumed, cut.first);
        assert_true(after.results[p].losses[cut.first + 1] == right[cut.first + 1]);
    }
}

/* A shuffle buffer whose length lies between those of the sets is the whole set for one process alone. */
static void one_buffer_is_of_sets_of_any_lengths(void **state) {
    (void)state;
    run smaller = runs[0];
    smaller.buffer = 120;
    run_well(&(plan){.how = &smaller});
}

static char said[4096];
static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    (void)level;
    (void)snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

/* An epoch has 6 batches. The processes bring 14 and 26 samples to each, except for the last, which has 14 and 20. So
 * 84 and 150 of the 250 samples are taken. */
static void what_is_left_out_is_said_once(void **state) {
    (void)state;
    plan files = {.how = &runs[0]};
    said[0] = '\0';
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    run_well(&files);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_WARNING);
    expect_text(said, "an epoch has 6 batches, as rank 1 on ");
    expect_text(said, " has only 150 samples: 16 of all 250 samples are left out of each epoch");
    assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said)); /* one line */

    run few = runs[0];
    few.count[0] = 14, few.count[1] = 27;
    said[0] = '\0';
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    run_well(&(plan){.how = &few});
    clq_log_set_sink(NULL, NULL, CLQ_LOG_WARNING);
    expect_text(said, "an epoch has 1 batch, as rank 0 on ");
    expect_text(said, " has only 14 samples: 1 of all 41 samples is left out of each epoch");
}

static void expect_refused(const run *r, unsigned processes, clq_status status, const char *words) {
    plan p = {.how = r};
    fabric_rank ranks[PROCESSES + 1];
    start(&p, processes, ranks);
    for (unsigned k = 0; k < processes; k++) {
        assert_int_equal(ranks[k].ended, k == 0 ? status : CLQ_ERROR_ABORTED);
        expect_text(ranks[k].detail, words);
    }
}

static void other_numbers_of_processes_do_not_go_on(void **state) {
    (void)state;
    run first = runs[0], second = runs[0];
    first.folder = second.folder = files_path("of two");
    first.is_interrupted = second.resumes = true;
    plan p = {.how = &first};
    fabric_rank ranks[PROCESSES];
    start(&p, PROCESSES, ranks);
    expect_refused(&second, 3, CLQ_ERROR_MISMATCH,
                   "it is of 2 processes with files of their own (shard file), and now there are 3");
}

static void what_does_not_go_is_refused(void **state) {
    (void)state;
    static const double first_has_none[] = {0, 1, 1};
    run measured = runs[0], none = runs[0], few = runs[0];
    measured.options = (clq_strategy_options){.shares = CLQ_SHARES_AUTO};
    expect_refused(&measured, 2, CLQ_ERROR_UNSUPPORTED, "give shares as numbers, or use shard data");
    none.options = (clq_strategy_options){
        .shares = CLQ_SHARES_WEIGHTS, .share_weights = first_has_none, .share_count = CLQ_COUNT_OF(first_has_none)};
    expect_refused(&none, 2, CLQ_ERROR_ARGUMENT, "of a batch of 40 rank 0 on ");
    few.count[0] = 13;
    few.drops = true;
    expect_refused(&few, 2, CLQ_ERROR_ARGUMENT, "has 13 samples and brings 14 to each batch");
}

/* With OFF all processes must have one set. With FILE the sets must be alike except for their samples. */
static void sets_are_compared(void **state) {
    (void)state;
    run other_set = runs[2], other_order = runs[0];
    other_set.begin[1] = 1;
    other_order.has_other_seed = true;
    for (unsigned i = 0; i < 2; i++) {
        plan p = {.how = i == 0 ? &other_set : &other_order};
        fabric_rank ranks[PROCESSES];
        start(&p, PROCESSES, ranks);
        for (unsigned k = 0; k < PROCESSES; k++) {
            assert_int_equal(ranks[k].ended, CLQ_ERROR_MISMATCH);
            expect_text(ranks[k].detail,
                        i == 0 ? "another data set than rank 0 on "
                               : "another kind of samples, labels, batch, shuffle or seed than rank 0 on ");
        }
    }
}

static void read_rows(const char *part, size_t count, void *to, int32_t *to_labels) {
    clq_dataset *set;
    clq_batch batch;
    bool more;
    assert_ok(open_synthetic(part, count, &set));
    assert_ok(clq_dataset_batch(set, count, false));
    assert_ok(clq_dataset_next(set, &batch, &more));
    assert_int_equal(batch.count, count);
    memcpy(to, batch.samples, count * PIXELS);
    memcpy(to_labels, batch.labels, count * sizeof *to_labels);
    clq_dataset_destroy(set);
}

static int begin(void **state) {
    if (files_begin(state) != 0 || open_system(state) != 0) return -1;
    read_rows("train", SAMPLES, samples, labels);
    read_rows("test", TESTS, tests, test_labels);
    for (unsigned i = 0; i < SAMPLES; i++) weights[i] = (float)(i % 4) * 0.5f;
    return 0;
}
static int end(void **state) { return close_system(state) == 0 ? files_end(state) : -1; }

int main(void) {
    const struct CMUnitTest tests_of_all[] = {
        cmocka_unit_test(each_way_is_that_of_batches_made_by_hand),
        cmocka_unit_test(it_goes_on_bit_for_bit),
        cmocka_unit_test(the_next_fit_goes_on),
        cmocka_unit_test(one_buffer_is_of_sets_of_any_lengths),
        cmocka_unit_test(what_is_left_out_is_said_once),
        cmocka_unit_test(other_numbers_of_processes_do_not_go_on),
        cmocka_unit_test(what_does_not_go_is_refused),
        cmocka_unit_test(sets_are_compared),
    };
    return cmocka_run_group_tests(tests_of_all, begin, end);
}
