/* Samples for a model with several inputs: from a folder's numbered files, from memory, and as integers. Also what is
 * refused. */
#include "data/folder.h"

enum { N = 5, FIRST = 2, SECOND = 3, ALL = FIRST + SECOND };

/* Sample n has the values n and -n for the first input, and 10 n, 10 n + 1, 10 n + 2 for the second. */
static float first[N * FIRST], second[N * SECOND];
static int64_t whole[N * SECOND];
static const int32_t labels[N] = {0, 1, 2, 3, 4};

static int make_numbers(void **state) {
    (void)state;
    for (size_t n = 0; n < N; n++) {
        first[n * FIRST] = (float)n;
        first[n * FIRST + 1] = -(float)n;
        for (size_t k = 0; k < SECOND; k++) {
            second[n * SECOND + k] = (float)(10 * n + k);
            whole[n * SECOND + k] = (int64_t)(10 * n + k);
        }
    }
    return 0;
}

static void check_row(const float *row, int32_t n) {
    assert_true(row[0] == (float)n && row[1] == -(float)n);
    for (int32_t k = 0; k < SECOND; k++) assert_true(row[FIRST + k] == (float)(10 * n + k));
}

/* Two epochs in batches, in the order of a shuffle. */
static void check_walk(clq_dataset *data) {
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_true(info->rank == 1 && info->shape[0] == ALL && info->sample_elements == ALL);
    assert_int_equal(info->sample_dtype, CLQ_F32);
    assert_ok(clq_dataset_shuffle(data, N, 3));
    assert_ok(clq_dataset_batch(data, 2, false));
    for (size_t epoch = 0, seen = 0; epoch < 2; epoch++) {
        clq_batch batch;
        for (bool more = true; more;) {
            assert_ok(clq_dataset_next(data, &batch, &more));
            if (!more) break;
            assert_int_equal(batch.sample_elements, ALL);
            for (size_t i = 0; i < batch.count; i++, seen++)
                check_row((const float *)batch.samples + i * ALL, ((const int32_t *)batch.labels)[i]);
        }
        assert_int_equal(seen, (epoch + 1) * N);
    }
}

static clq_dataset *of_one(void) {
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(first, CLQ_F32, N, 1, DIMS(FIRST), labels, CLQ_I32, 0, &data));
    return data;
}

static void of_memory(void **state) {
    (void)state;
    clq_dataset *data = of_one();
    float values[N * SECOND];
    memcpy(values, second, sizeof values);
    assert_ok(clq_dataset_add_samples(data, values, CLQ_F32, SECOND));
    memset(values, 0, sizeof values); /* they were copied */
    check_walk(data);
    clq_dataset_destroy(data);
}

/* Adding an input makes a walk that is under way start over. */
static void added_on_the_way(void **state) {
    (void)state;
    clq_dataset *data = of_one();
    clq_batch batch;
    bool more = false;
    assert_ok(clq_dataset_batch(data, 2, false));
    assert_ok(clq_dataset_prefetch(data, 2));
    assert_ok(clq_dataset_next(data, &batch, &more));
    assert_ok(clq_dataset_add_samples(data, second, CLQ_F32, SECOND));
    assert_ok(clq_dataset_next(data, &batch, &more));
    assert_int_equal(((const int32_t *)batch.labels)[0], 0);
    check_walk(data);
    clq_dataset_destroy(data);
}

static void put_folder(folder *f) {
    put_npy(f, "x_train.npy", CLQ_F32, 2, DIMS(N, FIRST), first);
    put_npy(f, "x_train_1.npy", CLQ_I64, 2, DIMS(N, SECOND), whole);
    put_npy(f, "y_train.npy", CLQ_I32, 1, DIMS(N), labels);
}

static void of_folders(void **state) {
    (void)state;
    clq_dataset *data;
    folder f = folder_make();
    put_folder(&f);
    assert_ok(clq_dataset_open(f.path, "train", &data));
    check_walk(data);
    clq_dataset_destroy(data);
    assert_true(clq_dataset_reads("x_train_1.npy") && clq_dataset_reads("x_test_12.npy"));
    assert_false(clq_dataset_reads("z_train_1.npy") || clq_dataset_reads("x_train_.npy"));
    folder_remove(&f);
}

/* Integers of each type become floats with the same values. */
static void integers(void **state) {
    (void)state;
    static const int8_t i8[] = {-128, 127};
    static const int16_t i16[] = {-32768, 32767};
    static const int32_t i32[] = {-(1 << 24), 1 << 24};
    static const uint16_t u16[] = {0, 65535};
    static const uint32_t u32[] = {0, 1 << 24};
    static const uint64_t u64[] = {0, 1 << 24};
    static const uint8_t bools[] = {0, 1};
    const struct {
        clq_dtype dtype;
        const void *values;
        float want[2];
    } cases[] = {{CLQ_I8, i8, {-128, 127}},  {CLQ_I16, i16, {-32768, 32767}}, {CLQ_I32, i32, {-0x1p24f, 0x1p24f}},
                 {CLQ_U16, u16, {0, 65535}}, {CLQ_U32, u32, {0, 0x1p24f}},    {CLQ_U64, u64, {0, 0x1p24f}},
                 {CLQ_BOOL, bools, {0, 1}}};
    folder f = folder_make();
    put_npy(&f, "y_train.npy", CLQ_I32, 1, DIMS(2), labels);
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        clq_dataset *data;
        clq_batch batch;
        bool more;
        put_npy(&f, "x_train.npy", cases[c].dtype, 1, DIMS(2), cases[c].values);
        assert_ok(clq_dataset_open(f.path, "train", &data));
        assert_ok(clq_dataset_batch(data, 2, false));
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_int_equal(batch.sample_dtype, CLQ_F32);
        assert_memory_equal(batch.samples, cases[c].want, sizeof cases[c].want);
        clq_dataset_destroy(data);
    }
    folder_remove(&f);
}

static void bad_folders(void **state) {
    (void)state;
    const int64_t large[N * SECOND] = {[7] = (1 << 24) + 1};
    const uint64_t larger[N * SECOND] = {[3] = UINT64_MAX};
    const uint8_t bytes[N * SECOND] = {0};
    folder f = folder_make();
    put_folder(&f);
    put_npy(&f, "x_train_1.npy", CLQ_I64, 2, DIMS(N, SECOND), large);
    expect_bad(&f, CLQ_ERROR_FORMAT, "x_train_1.npy: value 1 of sample 2", "16777216");
    put_npy(&f, "x_train_1.npy", CLQ_U64, 2, DIMS(N, SECOND), larger);
    expect_bad(&f, CLQ_ERROR_FORMAT, "x_train_1.npy: value 0 of sample 1", "16777216");
    put_npy(&f, "x_train_1.npy", CLQ_U8, 2, DIMS(N, SECOND), bytes);
    expect_bad(&f, CLQ_ERROR_MISMATCH, "x_train_1.npy: samples are u8", "f32");
    put_npy(&f, "x_train_1.npy", CLQ_F32, 2, DIMS(N - 1, SECOND), second);
    expect_bad(&f, CLQ_ERROR_MISMATCH, "has 4 samples", "has 5");
    put_npy(&f, "x_train_3.npy", CLQ_F32, 2, DIMS(N, SECOND), second);
    put_npy(&f, "x_train_1.npy", CLQ_F32, 2, DIMS(N, SECOND), second);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "x_train_3.npy and no x_train_2.npy", "inputs are numbered");
    for (unsigned i = 1; i <= CLQ_MODEL_INPUTS_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "x_train_%u.npy", i);
        put_npy(&f, name, CLQ_F32, 2, DIMS(N, 1), second);
    }
    expect_bad(&f, CLQ_ERROR_UNSUPPORTED, "at most 64 inputs", "x_train_64.npy");
    folder_remove(&f);
}

static void bad_arrays(void **state) {
    (void)state;
    clq_dataset *data = of_one();
    float odd[N * SECOND] = {0};
    odd[4] = (float)INT64_MAX * (float)INT64_MAX * (float)INT64_MAX;
    expect_failure(clq_dataset_add_samples(data, whole, CLQ_I64, SECOND), CLQ_ERROR_ARGUMENT, "u8", "f32");
    expect_failure(clq_dataset_add_samples(data, second, CLQ_U8, SECOND), CLQ_ERROR_ARGUMENT, "samples are u8",
                   "are f32");
    expect_failure(clq_dataset_add_samples(data, second, CLQ_F32, 0), CLQ_ERROR_ARGUMENT, "has no values", "memory");
    expect_failure(clq_dataset_add_samples(data, odd, CLQ_F32, SECOND), CLQ_ERROR_ARGUMENT, "value 1 of sample 1",
                   "finite");
    assert_int_equal(clq_dataset_get_info(data)->sample_elements, FIRST);
    clq_dataset_destroy(data);
}

static void out_of_memory(void **state) {
    (void)state;
    clq_dataset *data = of_one();
    uint64_t nth = 1;
    for (bool failed = true; failed; nth++) {
        clq_memory_fail_at(nth, false);
        const clq_status status = clq_dataset_add_samples(data, second, CLQ_F32, SECOND);
        failed = clq_memory_fail_at(0, false) >= nth;
        assert_int_equal(status, failed ? CLQ_ERROR_MEMORY : CLQ_OK);
        assert_int_equal(clq_dataset_get_info(data)->sample_elements, failed ? FIRST : ALL);
    }
    assert_true(nth > 2);
    check_walk(data);
    clq_dataset_destroy(data);
    folder f = folder_make();
    put_folder(&f);
    for (nth = 1;; nth++) {
        data = NULL;
        clq_memory_fail_at(nth, false);
        const clq_status status = clq_dataset_open(f.path, "train", &data);
        const bool failed = clq_memory_fail_at(0, false) >= nth;
        assert_int_equal(status, failed ? CLQ_ERROR_MEMORY : CLQ_OK);
        assert_true(failed == (data == NULL));
        clq_dataset_destroy(data);
        if (!failed) break;
    }
    assert_true(nth > 10);
    folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_memory),     cmocka_unit_test(added_on_the_way), cmocka_unit_test(of_folders),
        cmocka_unit_test(integers),      cmocka_unit_test(bad_folders),      cmocka_unit_test(bad_arrays),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_numbers, NULL);
}
