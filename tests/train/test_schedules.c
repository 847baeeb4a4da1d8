/* Schedules compared with their closed forms, and each update's own rate. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

#include <math.h>
#include <stdio.h>

static double rate(const char *text, uint64_t step) {
    clq_lr_schedule schedule;
    assert_ok(clq_lr_schedule_parse(text, &schedule));
    return clq_lr_schedule_rate(&schedule, 0.5, step);
}

static void same(double found, double wanted) { assert_true(fabs(found - wanted) <= 1e-15); }

static void closed_forms(void **state) {
    (void)state;
    same(rate("constant", 0), 0.5);
    same(rate("constant", 1000000), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 0), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 2), 0.25);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 8), 0.03125);
    same(rate("exponential:decay_steps=4,decay_rate=0.25,staircase=1", 3), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25,staircase=1", 4), 0.125);
    same(rate("cosine:decay_steps=6", 0), 0.5);
    same(rate("cosine:decay_steps=6", 2), 0.375); /* cos(60 degrees) is a half */
    same(rate("cosine:decay_steps=6", 6), 0);
    same(rate("cosine:decay_steps=6,alpha=0.5", 4), 0.3125);
    same(rate("cosine:decay_steps=6,alpha=0.5", 60), 0.25);
    same(rate("inverse_time:decay_steps=4,decay_rate=2", 0), 0.5);
    same(rate("inverse_time:decay_steps=4,decay_rate=2", 2), 0.25);
    same(rate("inverse_time:decay_steps=4,decay_rate=2", 6), 0.125);
    same(rate("inverse_time:decay_steps=4,decay_rate=1,staircase=1", 3), 0.5);
    same(rate("inverse_time:decay_steps=4,decay_rate=1,staircase=1", 4), 0.25);
    same(rate("polynomial:decay_steps=4,end=0.1", 0), 0.5);
    same(rate("polynomial:decay_steps=4,end=0.1", 1), 0.4);
    same(rate("polynomial:decay_steps=4,end=0.1", 4), 0.1);
    same(rate("polynomial:decay_steps=4,end=0.1", 40), 0.1);
    same(rate("polynomial:decay_steps=4,end=0,power=2", 2), 0.125);
    same(rate("polynomial:decay_steps=4,end=0,power=0.5", 3), 0.25);
    /* Steps 5 to 8 decay over 8 steps, and steps 9 to 12 over 12. */
    same(rate("polynomial:decay_steps=4,end=0,cycle=1", 0), 0.5);
    same(rate("polynomial:decay_steps=4,end=0,cycle=1", 4), 0);
    same(rate("polynomial:decay_steps=4,end=0,cycle=1", 6), 0.125);
    same(rate("polynomial:decay_steps=4,end=0,cycle=1", 9), 0.125);
    same(rate("piecewise:boundaries=2,values=1/0.5", 2), 1); /* including the boundary */
    same(rate("piecewise:boundaries=2,values=1/0.5", 3), 0.5);
    same(rate("piecewise:boundaries=2/4/6/8,values=5/4/0/2/1", 5), 0); /* a rate may be 0 */
    same(rate("piecewise:boundaries=2/4/6/8,values=5/4/3/2/1", 8), 2);
    same(rate("piecewise:boundaries=2/4/6/8,values=5/4/3/2/1", 9), 1);
    same(rate("piecewise:boundaries=2/4,values=5/4/3", 1000000), 3);
}

static void restarts(void **state) {
    (void)state;
    static const char once[] = "cosine_restarts:first_decay_steps=6,t_mul=1,m_mul=0.5";
    same(rate(once, 0), 0.5);
    same(rate(once, 2), 0.375);
    same(rate(once, 6), 0.25);
    same(rate(once, 8), 0.1875);
    same(rate(once, 12), 0.125);
    /* Runs have 6, 12, 24, ... steps and begin at 0, 6, 18, 42. */
    static const char twice[] = "cosine_restarts:first_decay_steps=6,m_mul=0.5,alpha=0.5";
    same(rate(twice, 2), 0.4375);
    same(rate(twice, 6), 0.375);    /* (1 + 1/2) / 4 */
    same(rate(twice, 10), 0.34375); /* a third of that run: 0.5 * (0.5 * 0.5 * 0.75 + 0.5) */
    same(rate(twice, 18), 0.3125);
    same(rate(twice, 42), 0.28125);
    /* Each run begins at lr, however logarithms are rounded. Sums of the runs' lengths give its begin. */
    for (unsigned longer = 2; longer <= 7; longer++) {
        char text[80];
        uint64_t begins = 0, steps = 3;
        snprintf(text, sizeof text, "cosine_restarts:first_decay_steps=3,t_mul=%u", longer);
        for (unsigned run = 0; run < 16; run++, begins += steps, steps *= longer) {
            const double last = (1 + cos(acos(-1.0) * (double)(steps - 1) / (double)steps)) / 4;
            same(rate(text, begins), 0.5);
            if (run < 9) assert_true(fabs(rate(text, begins + steps - 1) - last) < 1e-12);
        }
    }
}

/* A warm-up goes from 0, or from a given rate, to the schedule's first rate. The schedule begins after it. */
static void warmed_up(void **state) {
    (void)state;
    same(rate("constant:warmup=4", 0), 0);
    same(rate("constant:warmup=4", 1), 0.125);
    same(rate("constant:warmup=4", 4), 0.5);
    same(rate("constant:warmup=4", 400), 0.5);
    same(rate("cosine:decay_steps=6,warmup=4,warmup_from=0.1", 0), 0.1);
    same(rate("cosine:decay_steps=6,warmup=4,warmup_from=0.1", 2), 0.3);
    same(rate("cosine:decay_steps=6,warmup=4,warmup_from=0.1", 4), 0.5);
    same(rate("cosine:decay_steps=6,warmup=4,warmup_from=0.1", 6), 0.375);
    same(rate("exponential:decay_steps=4,decay_rate=0.25,warmup=1,warmup_from=1", 0), 1); /* a warm-up may fall */
    same(rate("exponential:decay_steps=4,decay_rate=0.25,warmup=1,warmup_from=1", 3), 0.25);
    same(rate("piecewise:boundaries=2,values=1/0.25,warmup=2", 1), 0.5); /* to the first of the values */
    same(rate("piecewise:boundaries=2,values=1/0.25,warmup=2", 4), 1);
    same(rate("piecewise:boundaries=2,values=1/0.25,warmup=2", 5), 0.25);
}

static clq_model *model;

static void refused(void **state) {
    (void)state;
    clq_lr_schedule schedule;
    assert_fails(CLQ_ERROR_ARGUMENT,
                 "expected constant, exponential, cosine, inverse_time, polynomial, piecewise or cosine_restarts",
                 clq_lr_schedule_parse("linear", &schedule));
    assert_fails(CLQ_ERROR_ARGUMENT, "decay_steps has to be given", clq_lr_schedule_parse("cosine", &schedule));
    assert_fails(CLQ_ERROR_ARGUMENT, "takes: decay_steps alpha",
                 clq_lr_schedule_parse("cosine:decay_rate=2", &schedule));
    static const char *const lists[][2] = {
        {"piecewise", "got 0 and 0"},
        {"piecewise:boundaries=1/2,values=1/2", "one number more of the latter; got 2 and 2"},
        {"piecewise:boundaries=1", "got 1 and 0"},
        {"piecewise:values=1", "boundaries and values have to be given"},
        {"piecewise:boundaries=2/2,values=1/1/1", "boundaries rise, and 2 is behind 2"},
        {"piecewise:boundaries=2/1,values=1/1/1", "boundaries rise, and 1 is behind 2"},
        {"piecewise:boundaries=1.5,values=1/1", "1.5 is no whole number"},
        {"piecewise:boundaries=0/1,values=1/1/1", "at '0/1'"},
        {"piecewise:boundaries=1/,values=1/1", "at ''"},
        {"piecewise:boundaries=1,values=1/x", "at 'x'"},
        {"piecewise:boundaries=1,values=1/-1", "at '-1'"},
        {"piecewise:boundaries=1/2/3/4/5,values=1/1/1/1/1/1", "at most 4 numbers"},
        {"piecewise:boundarie=1", "did you mean 'boundaries'?"},
        {"constant:alpha=2", "constant takes: warmup warmup_from"},
        {"constant:warmup=1.5", "warmup=1.5 is not a whole number from 0 to"},
        {"constant:warmup_from=1", "warmup_from without warmup"},
        {"constant:warmup=-1", "warmup=-1 is not a whole number from 0"},
        {"polynomial", "decay_steps has to be given"},
        {"cosine_restarts:first_decay_steps=5,t_mul=0.5", "t_mul=0.5"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(lists); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, lists[i][1], clq_lr_schedule_parse(lists[i][0], &schedule));
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'cosine'?", clq_lr_schedule_parse("cosin", &schedule));
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'decay_rate'?",
                 clq_lr_schedule_parse("exponential:decay_rat=1", &schedule));
    clq_trainer_config config = apart_config();
    clq_trainer *trainer;
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    config.schedule = (clq_lr_schedule){CLQ_LR_SCHEDULE_PIECEWISE, {100, 0, 200, 0, 1, 0.5, 0.1}};
    assert_fails(CLQ_ERROR_ARGUMENT, "boundary 200 is behind the 0 that ends them",
                 clq_trainer_create(model, &devices, &config, &trainer));
    clq_strategy_kind strategy;
    clq_strategy_options options = {.stages = 0};
    assert_fails(CLQ_ERROR_ARGUMENT, "auto, single, mirrored, central, ps, pipeline or tensor",
                 clq_strategy_parse("telepathy", &strategy, &options));
    assert_fails(CLQ_ERROR_ARGUMENT, "mirrored takes no keys",
                 clq_strategy_parse("mirrored:speed=2", &strategy, &options));
}

/* A bias alone, which starts at 0, with a target of 1: an update by SGD takes lr times twice the distance off it. */
static const float sample[1] = {0}, target[1] = {1};
static const clq_batch batch = {.count = 1,
                                .samples = sample,
                                .sample_elements = 1,
                                .sample_dtype = CLQ_F32,
                                .labels = target,
                                .float_labels = true,
                                .label_elements = 1};

static clq_trainer_config of_bias(double lr) {
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", lr));
    return config;
}

static clq_status create(const clq_trainer_config *config, clq_trainer **out) {
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    return clq_trainer_create(model, &devices, config, out);
}

static void step_by(clq_trainer *trainer, double lr, double *distance) {
    clq_step_info info;
    float bias;
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.lr == lr);
    *distance *= 1 - 2 * lr;
    assert_ok(clq_trainer_get_variable(trainer, 1, &bias));
    assert_true(fabs(1 - (double)bias - *distance) < 1e-6);
}

static void updates_go_by_it(void **state) {
    (void)state;
    clq_trainer *trainer;
    clq_trainer_config config = of_bias(0.25);
    assert_ok(clq_lr_schedule_parse("exponential:decay_steps=1,decay_rate=0.5", &config.schedule));
    assert_ok(create(&config, &trainer));
    double distance = 1, lr = 0.25;
    for (int step = 0; step < 4; step++, lr /= 2) step_by(trainer, lr, &distance);
    clq_trainer_destroy(trainer);
    config.schedule.values[0] = 0;
    assert_fails(CLQ_ERROR_ARGUMENT, "decay_steps=0", create(&config, &trainer));
}

/* The batches of an update share one rate. A warm-up alone is a schedule, too. */
static void a_step_is_an_update(void **state) {
    (void)state;
    clq_trainer *trainer;
    clq_trainer_config config = of_bias(0.25);
    assert_ok(clq_lr_schedule_parse("constant:warmup=2,warmup_from=0.125", &config.schedule));
    assert_ok(create(&config, &trainer));
    static const double rates[] = {0.125, 0.1875, 0.25, 0.25};
    double distance = 1;
    for (size_t i = 0; i < CLQ_COUNT_OF(rates); i++) {
        assert_ok(clq_step_accumulate(trainer, &batch));
        step_by(trainer, rates[i], &distance);
    }
    assert_fails(CLQ_ERROR_STATE, "schedule sets the learning rate", clq_trainer_set_learning_rate(trainer, 0.1));
    clq_trainer_destroy(trainer);
}

typedef struct asked {
    uint64_t calls, bad;
    double rate;
} asked;

static double halve(void *context, uint64_t step) {
    asked *a = context;
    assert_int_equal(step, a->calls++);
    return a->calls == a->bad ? a->rate : ldexp(0.25, -(int)step);
}

static clq_trainer_config by_function(asked *a) {
    clq_trainer_config config = of_bias(0.5);
    config.learning_rate = halve;
    config.learning_rate_context = a;
    return config;
}

static clq_dataset *one_sample(void) {
    static const size_t shape[] = {1};
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, target, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_batch(data, 1, false));
    return data;
}

/* The function is asked once for each update, in order, whatever is evaluated or read in between. */
static void own_schedule(void **state) {
    (void)state;
    static const double wrong[] = {-1, 2e6, (double)NAN, (double)INFINITY};
    clq_trainer *trainer;
    clq_totals totals;
    asked a = {0};
    clq_trainer_config config = by_function(&a);
    clq_dataset *data = one_sample();
    assert_ok(create(&config, &trainer));
    double distance = 1;
    for (int step = 0; step < 4; step++) {
        assert_ok(clq_step_accumulate(trainer, &batch));
        assert_int_equal(a.calls, step + 1);
        step_by(trainer, ldexp(0.25, -step), &distance);
        assert_int_equal(a.calls, step + 1);
        if (step % 2) assert_ok(clq_evaluate(trainer, data, &totals));
        assert_int_equal(a.calls, step + 1);
    }
    assert_fails(CLQ_ERROR_STATE, "schedule sets the learning rate", clq_trainer_set_learning_rate(trainer, 0.1));
    clq_trainer_destroy(trainer);
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        a = (asked){.bad = 1, .rate = wrong[i]};
        assert_ok(create(&config, &trainer));
        assert_fails(CLQ_ERROR_ARGUMENT, "for update 0: expected a number from 0 to 1e6", clq_step(trainer, &batch));
        a.calls = a.bad = 0; /* asked again, the function gives a valid rate */
        distance = 1;
        step_by(trainer, 0.25, &distance);
        clq_trainer_destroy(trainer);
    }
    a = (asked){0};
    assert_ok(clq_lr_schedule_parse("constant:warmup=2,warmup_from=0.125", &config.schedule));
    assert_ok(create(&config, &trainer));
    distance = 1;
    for (size_t i = 0; i < 4; i++) step_by(trainer, (const double[]){0.125, 0.1875, 0.25, 0.125}[i], &distance);
    clq_trainer_destroy(trainer);
    assert_ok(clq_lr_schedule_parse("cosine:decay_steps=2", &config.schedule));
    assert_fails(CLQ_ERROR_ARGUMENT, "both a schedule, cosine, and a learning_rate function",
                 create(&config, &trainer));
    clq_dataset_destroy(data);
}

/* A step within clq_run is refused, and asks for no rate. */
static clq_status whole_gradient(clq_replica_context *replica, void *trainer) {
    if (clq_step_gradients(trainer, &batch) != CLQ_ERROR_STATE) return CLQ_ERROR_INTERNAL;
    return clq_replica_gradients(replica, 1 / (double)replica->global_count);
}

/* In a loop of clq_run the update asks for the rate. If the rate is wrong, the gradient stays for another try. */
static void own_schedule_in_loops(void **state) {
    (void)state;
    clq_trainer *trainer;
    clq_distributed_dataset *parts;
    clq_distributed_batch part;
    bool more;
    asked a = {.bad = 1, .rate = (double)NAN};
    clq_trainer_config config = by_function(&a);
    clq_dataset *data = one_sample();
    assert_ok(create(&config, &trainer));
    assert_ok(clq_distribute_dataset(trainer, data, &parts));
    assert_ok(clq_distributed_next(parts, &part, &more));
    assert_true(more);
    assert_ok(clq_run(trainer, &part, whole_gradient, trainer));
    assert_ok(clq_step_reduce(trainer));
    assert_int_equal(a.calls, 0);
    assert_fails(CLQ_ERROR_ARGUMENT, "for update 0: expected a number from 0 to 1e6", clq_step_apply(trainer));
    a.calls = a.bad = 0;
    assert_ok(clq_step_apply(trainer));
    assert_int_equal(a.calls, 1);
    double distance = 0.5; /* a rate of 0.25 has left half of it */
    step_by(trainer, 0.125, &distance);
    clq_distributed_destroy(parts);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
}

static int start(void **state) {
    if (open_system(state) != 0) return -1;
    assert_ok(clq_model_create("bias", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    return 0;
}

static int finish(void **state) {
    clq_model_destroy(model);
    return close_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_forms),     cmocka_unit_test(restarts),
                                       cmocka_unit_test(warmed_up),        cmocka_unit_test(refused),
                                       cmocka_unit_test(updates_go_by_it), cmocka_unit_test(a_step_is_an_update),
                                       cmocka_unit_test(own_schedule),     cmocka_unit_test(own_schedule_in_loops)};
    return cmocka_run_group_tests(tests, start, finish);
}
