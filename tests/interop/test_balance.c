/* On a large GPU the work-groups of a launch share its work: no single one is left with a large part of it while the
 * others are done. Told from the launch lists of whole training steps, on a device that seems to have the 132 compute
 * units of an H100; nothing is compiled or run. */
#include "graph/graph.h"
#include "launch/list.h"
#include "ops/product/product_local.h"
#include "ops/convolution/winograd.h"
#include "support/check.h"
#include "support/disguise.h"

enum { SMALL_BYTES = 256 << 10, GROUPS_LEAST = 16 };

static clq_system *sys;
static clq_device *device;

/* ---- the device ---- */

/* What a trial would find out by compiling and running a block of kernels, which is not what is tested here. */
static void trust(const char *name) {
    clq_device_keep_trial_result(device, clq_hash128_of(name, strlen(name), 0), true);
}

static void open_device(const char *platform) {
    assert_int_equal(disguise_platform(platform), 0);
    assert_ok(clq_system_open(&(clq_system_config){.cache_dir = ""}, &sys));
    assert_ok(clq_device_open(sys, (clq_device_choice){.index = 0, .parts = 1}, &device));
    assert_int_equal(clq_device_get_info(device)->type, CLQ_DEVICE_GPU);
    assert_int_equal(clq_device_get_info(device)->compute_units, 132);
    char name[CLQ_CANDIDATE_BYTES + 32];
    for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
        clq_local_block_name(i, name);
        trust(name);
    }
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS; i++) {
        const clq_winograd_block *b = clq_winograd_block_get(i);
        (void)snprintf(name, sizeof name, "winograd %zux%zu", b->tiles, b->columns);
        trust(name);
    }
}

static void close_device(void) {
    clq_device_close(device);
    clq_system_close(sys);
}

/* ---- what the work-groups of a launch have to do ---- */

/* The n-th int among the kernel's arguments. */
static double int_of(const clq_list *list, const clq_launch *launch, size_t n) {
    for (size_t i = 0; i < launch->argument_count; i++) {
        const clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind == CLQ_ARGUMENT_INT && n-- == 0) return argument->word.as_int;
    }
    fail_msg("%s has too few ints", launch->function);
    return 0;
}

/* The number of an option -DNAME=number. */
static double option_of(const clq_launch *launch, const char *name) {
    char text[64];
    (void)snprintf(text, sizeof text, "-D%s=", name);
    const char *at = strstr(launch->options, text);
    if (!at) fail_msg("%s has no option %s", launch->function, name);
    return at ? strtod(at + strlen(text), NULL) : 0;
}

static double groups_along(const clq_launch *launch, unsigned dim) {
    size_t local = launch->has_local ? launch->local[dim] : 1;
    return dim < launch->dims ? (double)clq_ceil_div(launch->global[dim], local) : 1;
}

static double groups_of(const clq_launch *launch) {
    return groups_along(launch, 0) * groups_along(launch, 1) * groups_along(launch, 2);
}

/* The part of `n` that the largest of so many shares is, where shares are rounded up to whole ones. */
static double largest_share(double n, double shares) {
    double share = (double)(uint64_t)((n + shares - 1) / shares);
    return n < 1 ? 1 : share / n;
}

/* A work-group's part of what all of them read. */
static double even(const clq_list *list, const clq_launch *launch) {
    (void)list;
    return 1 / groups_of(launch);
}

static double of_outer(const clq_list *list, const clq_launch *launch) {
    double pixels = option_of(launch, "ROWS_PER_EXAMPLE") * option_of(launch, "OUT_H") * option_of(launch, "OUT_W");
    double blocks = groups_along(launch, 0) * groups_along(launch, 1);
    return largest_share(pixels * clq_list_capacity(list), groups_along(launch, 2)) / blocks;
}

static double of_column_sums(const clq_list *list, const clq_launch *launch) {
    double rows = int_of(list, launch, 0) * clq_list_capacity(list), width = int_of(list, launch, 1);
    double fold = int_of(list, launch, 2), columns = option_of(launch, "COLUMNS");
    double long_rows = (double)(uint64_t)(rows / fold);
    return largest_share(long_rows, groups_along(launch, 1)) * CLQ_MIN(columns / (width * fold), 1.0);
}

static double of_fold(const clq_list *list, const clq_launch *launch) {
    double channels = int_of(list, launch, 2), columns = int_of(list, launch, 3);
    return CLQ_MIN(columns / channels, 1.0);
}

static double of_reduce_rows(const clq_list *list, const clq_launch *launch) {
    double floats = int_of(list, launch, 0), across = int_of(list, launch, 2);
    return CLQ_MIN(across * option_of(launch, "WIDE") / floats, 1.0);
}

static double whole(const clq_list *list, const clq_launch *launch) {
    (void)list;
    (void)launch;
    return 1.0;
}

/* Every kernel for work-groups that a step launches. In a product each work-group makes a block of the result, and
 * blocks are alike: an operand that several of them read is counted for each, since they read it side by side. */
static const struct {
    const char *function;
    double (*largest)(const clq_list *list, const clq_launch *launch);
} kernels[] = {
    {"product_rows", even},
    {"product_join", even},
    {"product_outer", of_outer},
    {"product_reduce_rows", of_reduce_rows},
    {"winograd_local_weights", even},
    {"winograd_local", even},
    {"pool2d_forward", even},
    {"pool2d_backward", even},
    {"elementwise", even},
    {"elementwise_sums", of_column_sums},
    {"fold_columns", of_fold},
    {"softmax_forward", even},
    {"softmax_backward", even},
    {"loss_and_metrics", even},
    {"sum_shares", even},
    {"block_squares", even},
    {"variable_squares", whole}, /* the largest variable's blocks may be all */
    {"update", even},
};

static double largest_of(const clq_list *list, const clq_launch *launch) {
    for (size_t i = 0; launch->file && i < CLQ_COUNT_OF(kernels); i++)
        if (strcmp(kernels[i].function, launch->function) == 0) return kernels[i].largest(list, launch);
    fail_msg("%s, %s: how do the work-groups of %s share their work?", launch->scope, launch->label,
             launch->file ? launch->function : "a library");
    return 1;
}

/* Of all values, or parts of them, that the launch reads: each once. */
static double bytes_read(const clq_list *list, const clq_launch *launch) {
    const clq_argument *arguments = &list->arguments[launch->first_argument];
    double bytes = 0;
    for (size_t i = 0; i < launch->argument_count; i++) {
        bool reads = arguments[i].kind == CLQ_ARGUMENT_VALUE && arguments[i].value && arguments[i].access & CLQ_READS;
        for (size_t k = 0; k < i && reads; k++)
            reads = arguments[k].value != arguments[i].value || arguments[k].offset != arguments[i].offset;
        if (reads) bytes += (double)arguments[i].bytes;
    }
    return bytes;
}

/* ---- steps ---- */

static unsigned check_launch(const clq_list *list, size_t index) {
    const clq_launch *launch = &list->launches[index];
    double bytes = bytes_read(list, launch), largest = largest_of(list, launch);
    bool balanced = bytes <= SMALL_BYTES || largest * GROUPS_LEAST <= 1;
    print_message("%-16s %-16s %-26s %7.0f %12.0f %12.0f%s\n", launch->scope, launch->label, launch->function,
                  groups_of(launch), bytes, bytes * largest, balanced ? "" : "  <- one work-group's part is too large");
    return !balanced;
}

static unsigned check_step(const clq_model *model, uint32_t batch) {
    const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                   .classes = 10,
                                   .weight = 1,
                                   .metric_count = 1,
                                   .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}};
    const clq_plan_config config = {.capacity = batch,
                                    .sample_dtype = CLQ_U8,
                                    .loss = &loss,
                                    .update = &adam,
                                    .gradient_norms = true,
                                    .metric_slots = 1,
                                    .unbound = true};
    clq_plan *plan;
    unsigned faults = 0;
    assert_ok(clq_plan_create_alone(model, device, &config, &plan));
    const clq_list *list = clq_plan_list(plan);
    print_message("%s, batch of %u\n%-16s %-16s %-26s %7s %12s %12s\n", clq_model_name(model), batch, "layer", "launch",
                  "kernel", "groups", "bytes read", "of one group");
    for (size_t i = 0; i < clq_list_launch_count(list); i++) faults += check_launch(list, i);
    clq_queue *queue;
    assert_ok(clq_queue_create(device, 0, &queue));
    assert_fails(CLQ_ERROR_INTERNAL, "before it is bound",
                 clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_UPDATE));
    clq_queue_destroy(queue);
    clq_plan_destroy(plan);
    return faults;
}

/* A built-in model, or a file of bench/models. */
static clq_model *open_model(const char *name) {
    clq_model *model;
    if (!strchr(name, '.')) {
        assert_ok(clq_model_builtin(name, &model));
        return model;
    }
    char *path = clq_strprintf("%s/bench/models/%s", clq_environment("CLQ_TEST_SOURCE"), name);
    assert_non_null(path);
    assert_ok(clq_model_read_keras_json(path, &model));
    clq_free(path);
    return model;
}

static void groups_share_the_work(void **state) {
    static const struct {
        const char *name;
        uint32_t batches[3];
    } models[] = {{"mlp", {64, 128, 1000}},
                  {"cnn", {64, 128, 1000}},
                  {"vgg.json", {64, 128}},
                  {"lenet5.json", {64, 128, 1000}},
                  {"cnn3x3.json", {64, 128}}};
    unsigned faults = 0;
    open_device(*state);
    for (size_t m = 0; m < CLQ_COUNT_OF(models); m++) {
        clq_model *model = open_model(models[m].name);
        for (size_t b = 0; b < CLQ_COUNT_OF(models[m].batches) && models[m].batches[b]; b++)
            faults += check_step(model, models[m].batches[b]);
        clq_model_destroy(model);
    }
    close_device();
    assert_int_equal(faults, 0);
}

/* ---- large matrices ---- */

/* Whether the tuner may measure CLBlast's product. Until that was done the device's own blocks are used. */
static bool asks_for_clblast(void *platform) {
    enum { SIDE = 1024, BYTES = SIDE * SIDE * sizeof(float) };
    clq_list *list;
    clq_value values[3];
    open_device(platform);
    assert_ok(clq_list_create(device, 1, &list));
    for (size_t i = 0; i < 3; i++) values[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "matrix", BYTES, 0);
    clq_gemm(list, &(clq_gemm_problem){.m = SIDE, .n = SIDE, .k = SIDE}, values[0], values[1], values[2]);
    assert_ok(clq_list_status(list));
    for (size_t i = 0; i < clq_list_launch_count(list); i++) assert_non_null(list->launches[i].file);
    assert_int_equal(clq_list_choice_count(list), 1);
    const clq_choice *choice = clq_list_choice(list, 0);
    bool asked = false;
    for (size_t i = 0; i < choice->count; i++) asked = asked || strcmp(choice->candidates[i].name, "clblast") == 0;
    clq_list_destroy(list);
    close_device();
    return asked;
}

static void clblast_is_not_used_unmeasured(void **state) { assert_true(asks_for_clblast(*state)); }

/* CLBlast 1.6 has products whose work-groups have 128 items, by which the training would fail. */
static void clblast_is_not_used_by_small_groups(void **state) {
    assert_int_equal(setenv("CLQ_TEST_GPU_GROUP", "64", 1), 0);
    assert_false(asks_for_clblast(*state));
    assert_int_equal(setenv("CLQ_TEST_GPU_GROUP", "1024", 1), 0);
}

int main(void) {
    static char nvidia[] = "NVIDIA CUDA", amd[] = "AMD Accelerated Parallel Processing", other[] = "Somebody's OpenCL";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(groups_share_the_work, nvidia),
        cmocka_unit_test_prestate(groups_share_the_work, amd),
        cmocka_unit_test_prestate(groups_share_the_work, other),
        cmocka_unit_test_prestate(clblast_is_not_used_unmeasured, nvidia),
        cmocka_unit_test_prestate(clblast_is_not_used_by_small_groups, nvidia),
    };
    if (disguise_load_gpus() != 0 || disguise_as_gpus("") != 0 || disguise_size("132", "1024", "49152") != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
