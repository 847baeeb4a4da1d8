/* Datasets split into parts: from one pipeline of global batches, which are cut as TensorFlow cuts them, and from a
 * function that makes each pipeline. Expectations from TensorFlow are literal and name their source. */
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

enum { LABELS = 2, REPLICAS_MOST = 5 };

static clq_model *model;
static clq_trainer *trainers[REPLICAS_MOST + 1]; /* by number of replicas; global batch 10 */

/* range(count): sample i is the number i, and its label -i. */
static clq_dataset *range_of(size_t first, size_t count) {
    float values[32], labels[32][LABELS];
    clq_dataset *data;
    assert_true(count <= CLQ_COUNT_OF(values));
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(first + i);
        for (size_t k = 0; k < LABELS; k++) labels[i][k] = -(float)(k + 1) * values[i];
    }
    assert_ok(clq_dataset_arrays(values, CLQ_F32, count, 1, (size_t[]){1}, labels, CLQ_F32, LABELS, &data));
    return data;
}
static clq_dataset *batched(size_t first, size_t count, size_t batch, bool drop) {
    clq_dataset *data = range_of(first, count);
    assert_ok(clq_dataset_batch(data, batch, drop));
    return data;
}

/* Describes a batch as "[0,1][2,3][]", and checks that each sample has its own label. */
static void describe(const clq_distributed_batch *batch, char *out) {
    size_t total = 0;
    for (unsigned r = 0; r < batch->replicas; r++) {
        const clq_batch *part = &batch->parts[r];
        const float *values = part->samples, *labels = part->labels;
        out += sprintf(out, "[");
        for (size_t i = 0; i < part->count; i++) {
            out += sprintf(out, "%s%g", i ? "," : "", (double)values[i]);
            for (size_t k = 0; k < LABELS; k++) assert_true(labels[i * LABELS + k] == -(float)(k + 1) * values[i]);
        }
        out += sprintf(out, "]");
        total += part->count;
    }
    assert_int_equal(total, batch->count);
}

/* Checks one epoch. `expected` has its batches with spaces in between. */
static void expect_epoch(clq_distributed_dataset *data, const char *expected) {
    char got[512] = "", *at = got;
    clq_distributed_batch batch;
    bool more;
    for (;;) {
        assert_ok(clq_distributed_next(data, &batch, &more));
        if (!more) break;
        if (at > got) *at++ = ' ';
        describe(&batch, at);
        at += strlen(at);
    }
    assert_string_equal(got, expected);
}

static void expect_cut(unsigned replicas, size_t count, size_t batch, bool drop, const char *expected) {
    clq_dataset *data = batched(0, count, batch, drop);
    clq_distributed_dataset *parts;
    assert_ok(clq_distribute_dataset(trainers[replicas], data, &parts));
    for (unsigned epoch = 0; epoch < 2; epoch++) expect_epoch(parts, expected);
    clq_distributed_destroy(parts);
    clq_dataset_destroy(data);
}

/* tensorflow/python/data/experimental/kernel_tests/rebatch_dataset_test.py, LegacyRebatchDatasetTest. It cuts by
 * ceil(batch / replicas), as the strategies here do. */
static void global_batches_are_cut_as_tensorflow_does(void **state) {
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        expect_cut(2, 8, 4, drop, "[0,1][2,3] [4,5][6,7]");     /* testBasic */
        expect_cut(3, 8, 4, drop, "[0,1][2,3][] [4,5][6,7][]"); /* testBatchNotDivisibleByNumReplicas */
    }
    expect_cut(2, 10, 4, false, "[0,1][2,3] [4,5][6,7] [8][9]"); /* testFinalPartialBatch */
    expect_cut(2, 10, 4, true, "[0,1][2,3] [4,5][6,7]");
    expect_cut(2, 9, 4, false, "[0,1][2,3] [4,5][6,7] [8][]"); /* testFinalPartialBatchAfterRebatch */
    expect_cut(2, 9, 4, true, "[0,1][2,3] [4,5][6,7]");
    expect_cut(5, 8, 4, true, "[0][1][2][3][] [4][5][6][7][]"); /* RebatchDatasetTest.testEmptySplits */
    /* More cases of the same rule. */
    expect_cut(1, 5, 2, false, "[0,1] [2,3] [4]");
    expect_cut(5, 7, 7, false, "[0,1][2,3][4,5][6][]");
    expect_cut(5, 2, 4, false, "[0][1][][][]");
}

/* The parts follow the dataset's order, from the dataset's place on. */
static void shuffled_batches_are_cut(void **state) {
    (void)state;
    clq_dataset *data = batched(0, 10, 4, false), *alone = batched(0, 10, 4, false);
    clq_distributed_dataset *parts;
    clq_distributed_batch batch;
    clq_batch whole;
    bool more, more_alone;
    assert_ok(clq_dataset_shuffle(data, 10, 7));
    assert_ok(clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));
    assert_ok(clq_dataset_shuffle(alone, 10, 7));
    assert_ok(clq_distribute_dataset(trainers[3], data, &parts));
    assert_ok(clq_dataset_seek(data, 1, 2));
    assert_ok(clq_dataset_seek(alone, 1, 2));
    for (unsigned i = 0; i < 6; i++) {
        assert_ok(clq_distributed_next(parts, &batch, &more));
        assert_ok(clq_dataset_next(alone, &whole, &more_alone));
        assert_int_equal(more, more_alone);
        const float *values = whole.samples;
        for (unsigned r = 0; r < 3 && more; values += batch.parts[r++].count)
            assert_memory_equal(batch.parts[r].samples, values, batch.parts[r].count * sizeof *values);
        if (more) assert_int_equal(batch.count, whole.count);
    }
    clq_distributed_destroy(parts);
    clq_dataset_destroy(data);
    clq_dataset_destroy(alone);
}

/* ---- from a function ---- */

/* `shards`: pipeline i of n has samples / n samples of range(samples), from i * (samples / n) on, and the first one has
 * as many more as remain. Otherwise each pipeline has all samples. */
typedef struct making {
    size_t samples, batch; /* batch: of a replica */
    bool shards, drop;
    unsigned calls;
    clq_input_context seen[REPLICAS_MOST];
} making;
#define MAKING(count, size, parts, drops)                                                                              \
    (making) { .samples = (count), .batch = (size), .shards = (parts), .drop = (drops) }

static clq_status make(void *context, const clq_input_context *input, clq_dataset **out) {
    making *m = context;
    const size_t each = m->samples / input->pipelines;
    m->seen[m->calls++] = *input;
    *out = m->shards ? batched(input->index * each, each + (input->index == 0) * (m->samples % input->pipelines),
                               m->batch, m->drop)
                     : batched(0, m->samples, m->batch, m->drop);
    return CLQ_OK;
}

static void expect_made(unsigned replicas, clq_input_replication replication, making m, const char *expected) {
    clq_distributed_dataset *parts;
    const unsigned pipelines = replication == CLQ_INPUT_PER_WORKER ? 1 : replicas;
    assert_ok(clq_distribute_function(trainers[replicas], replication, make, &m, &parts));
    assert_int_equal(m.calls, pipelines);
    for (unsigned p = 0; p < pipelines; p++)
        assert_true(m.seen[p].index == p && m.seen[p].pipelines == pipelines && m.seen[p].replicas == replicas);
    for (unsigned epoch = 0; epoch < 2; epoch++) expect_epoch(parts, expected);
    clq_distributed_destroy(parts);
}

/* One worker's pipeline makes batches of a replica's size, which go to the replicas in turn. */
static void batches_go_to_replicas_in_turn(void **state) {
    (void)state;
    expect_made(2, CLQ_INPUT_PER_WORKER, MAKING(8, 2, false, false), "[0,1][2,3] [4,5][6,7]");
    expect_made(2, CLQ_INPUT_PER_WORKER, MAKING(9, 2, false, false), "[0,1][2,3] [4,5][6,7] [8][]");
    expect_made(3, CLQ_INPUT_PER_WORKER, MAKING(11, 2, false, false), "[0,1][2,3][4,5] [6,7][8,9][10]");
    /* The last of 5 whole batches is alone in its turn. */
    expect_made(2, CLQ_INPUT_PER_WORKER, MAKING(10, 2, false, true), "[0,1][2,3] [4,5][6,7]");
    expect_made(2, CLQ_INPUT_PER_WORKER, MAKING(10, 2, false, false), "[0,1][2,3] [4,5][6,7] [8,9][]");
    expect_made(1, CLQ_INPUT_PER_WORKER, MAKING(5, 3, false, false), "[0,1,2] [3,4]");
}

static void every_replica_has_a_pipeline(void **state) {
    (void)state;
    expect_made(2, CLQ_INPUT_PER_REPLICA, MAKING(8, 2, true, false), "[0,1][4,5] [2,3][6,7]");
    expect_made(2, CLQ_INPUT_PER_REPLICA, MAKING(4, 3, false, false), "[0,1,2][0,1,2] [3][3]");
    expect_made(1, CLQ_INPUT_PER_REPLICA, MAKING(5, 3, false, true), "[0,1,2]");
    /* The first pipeline has one sample more than the others, and so one batch more. */
    expect_made(3, CLQ_INPUT_PER_REPLICA, MAKING(13, 2, true, false), "[0,1][4,5][8,9] [2,3][6,7][10,11] [4][][]");
    expect_made(3, CLQ_INPUT_PER_REPLICA, MAKING(13, 1, true, true), "[0][4][8] [1][5][9] [2][6][10] [3][7][11]");
}

static void batches_are_divided(void **state) {
    (void)state;
    size_t batch = 0;
    const clq_input_context input = {.index = 0, .pipelines = 1, .replicas = 3};
    assert_ok(clq_input_batch_per_replica(&input, 12, &batch));
    assert_int_equal(batch, 4);
    assert_fails(CLQ_ERROR_ARGUMENT, "cannot be divided evenly by 3", clq_input_batch_per_replica(&input, 10, &batch));
    assert_fails(CLQ_ERROR_ARGUMENT, "batch of 0", clq_input_batch_per_replica(&input, 0, &batch));
    assert_int_equal(batch, 4);
}

/* ---- bad input ---- */

static clq_status make_badly(void *context, const clq_input_context *input, clq_dataset **out) {
    static clq_dataset *first;
    const char *how = context;
    if (input->index == 0) return *out = first = batched(0, 8, 2, false), CLQ_OK;
    if (strcmp(how, "same") == 0) *out = first;
    if (strcmp(how, "large") == 0) *out = batched(0, 8, 6, false);
    if (strcmp(how, "library's") == 0) return clq_dataset_arrays(NULL, CLQ_I8, 1, 1, NULL, NULL, CLQ_F32, 1, out);
    return strcmp(how, "own") == 0 ? CLQ_ERROR_NOT_FOUND : CLQ_OK;
}

static void wrong_datasets_are_refused(void **state) {
    (void)state;
    clq_distributed_dataset *parts = NULL;
    const struct {
        const char *how;
        clq_status status;
        const char *says;
    } cases[] = {{"none", CLQ_ERROR_ARGUMENT, "no dataset for pipeline 1"},
                 {"same", CLQ_ERROR_ARGUMENT, "the dataset of another pipeline"},
                 {"large", CLQ_ERROR_ARGUMENT, "replica 1 takes at most 5 samples"},
                 {"own", CLQ_ERROR_NOT_FOUND, "pipeline 1 returned \"not found\""},
                 {"library's", CLQ_ERROR_ARGUMENT, "u8 or f32"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        assert_fails(
            cases[i].status, cases[i].says,
            clq_distribute_function(trainers[2], CLQ_INPUT_PER_REPLICA, make_badly, (void *)cases[i].how, &parts));
    making m = MAKING(12, 4, false, false); /* 4 for each of 3 replicas are 12, but the global batch is 10 */
    assert_fails(CLQ_ERROR_ARGUMENT, "12 samples, and the global batch is 10",
                 clq_distribute_function(trainers[3], CLQ_INPUT_PER_WORKER, make, &m, &parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_input_replication",
                 clq_distribute_function(trainers[3], (clq_input_replication)2, make, &m, &parts));
    clq_dataset *data = batched(0, 12, 11, false);
    assert_fails(CLQ_ERROR_ARGUMENT, "global batch of 10", clq_distribute_dataset(trainers[2], data, &parts));
    clq_dataset_destroy(data);
    assert_null(parts);
}

static clq_status open_quietly(void *context, const clq_input_context *input, clq_dataset **out) {
    const float values[5] = {0, 1, 2, 3, 4}, labels[5][LABELS] = {{0}};
    (void)context;
    CLQ_TRY(clq_dataset_arrays(values, CLQ_F32, 5, 1, (size_t[]){1}, labels, CLQ_F32, LABELS, out));
    CLQ_TRY(clq_dataset_batch(*out, 1 + input->index, false)); /* the dataset is handed over even if a call fails */
    return clq_dataset_shuffle(*out, 5, 1);
}

static clq_status walk(void *context) {
    clq_distributed_dataset *parts = NULL;
    clq_distributed_batch batch;
    bool more;
    clq_status status = clq_distribute_dataset(trainers[2], context, &parts);
    for (unsigned i = 0; i < 4 && status == CLQ_OK; i++) status = clq_distributed_next(parts, &batch, &more);
    clq_distributed_destroy(parts);
    CLQ_TRY(status);
    CLQ_TRY(clq_distribute_function(trainers[2], CLQ_INPUT_PER_REPLICA, open_quietly, NULL, &parts));
    for (unsigned i = 0; i < 4 && status == CLQ_OK; i++) status = clq_distributed_next(parts, &batch, &more);
    clq_distributed_destroy(parts);
    return status;
}

static void allocations_fail(void **state) {
    (void)state;
    clq_dataset *data = batched(0, 9, 2, false);
    assert_ok(clq_dataset_shuffle(data, 9, 1));
    assert_true(walk_allocations(walk, data) >= 4);
    clq_dataset_destroy(data);
}

/* If a batch could not be made, the next call makes it: no pipeline loses a batch. */
static void failed_turns_are_repeated(void **state) {
    (void)state;
    clq_distributed_dataset *parts;
    clq_distributed_batch batch;
    bool more;
    unsigned failures = 0;
    assert_ok(clq_distribute_function(trainers[2], CLQ_INPUT_PER_REPLICA, open_quietly, NULL, &parts));
    size_t counts[2] = {0};
    for (unsigned turn = 0; turn < 6; turn++) {
        clq_status status;
        for (uint64_t n = 1; n < 40; n++) {
            (void)clq_memory_fail_at(n, false);
            status = clq_distributed_next(parts, &batch, &more);
            (void)clq_memory_fail_at(0, false);
            if (status == CLQ_OK) break;
            assert_int_equal(status, CLQ_ERROR_MEMORY);
            failures++;
        }
        assert_int_equal(status, CLQ_OK);
        assert_int_equal(more, turn < 5);
        for (unsigned r = 0; r < 2 && more; r++) counts[r] += batch.parts[r].count;
    }
    assert_true(failures >= 4); /* both pipelines started */
    assert_true(counts[0] == 5 && counts[1] == 5);
    clq_distributed_destroy(parts);
}

static int start(void **state) {
    static const char *const specs[] = {NULL, "pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2", NULL, "pocl:0*5"};
    if (open_system(state) != 0) return -1;
    assert_ok(clq_model_create("cut", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = LABELS})));
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = 10;
    config.sample_dtype = CLQ_F32;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    for (size_t n = 0; n < CLQ_COUNT_OF(specs); n++) {
        clq_devices devices;
        if (!specs[n]) continue;
        assert_ok(clq_devices_select(sys, specs[n], &devices));
        assert_ok(clq_trainer_create(model, &devices, &config, &trainers[n]));
    }
    return 0;
}

static int stop(void **state) {
    for (size_t n = 0; n < CLQ_COUNT_OF(trainers); n++) clq_trainer_destroy(trainers[n]);
    clq_model_destroy(model);
    return close_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(global_batches_are_cut_as_tensorflow_does),
                                       cmocka_unit_test(shuffled_batches_are_cut),
                                       cmocka_unit_test(batches_go_to_replicas_in_turn),
                                       cmocka_unit_test(every_replica_has_a_pipeline),
                                       cmocka_unit_test(batches_are_divided),
                                       cmocka_unit_test(wrong_datasets_are_refused),
                                       cmocka_unit_test(allocations_fail),
                                       cmocka_unit_test(failed_turns_are_repeated)};
    return cmocka_run_group_tests_name("train/distributed", tests, start, stop);
}
