/* Labels for a model with several outputs: from a folder's numbered files and from memory, in every kind of walk over
 * the data. Also what is refused. */
#include "data/folder.h"

#include <math.h>

enum { N = 11, VALUES = 2, BATCH = 4 };

/* Sample n is n, its labels are 10 n for the first output, (n, -n) for the second and 100 - n for the third. */
static uint8_t samples[N];
static int32_t first[N], third[N];
static float second[N * VALUES];

static int make_numbers(void **state) {
    (void)state;
    for (size_t n = 0; n < N; n++) {
        samples[n] = (uint8_t)n;
        first[n] = 10 * (int32_t)n;
        second[n * VALUES] = (float)n;
        second[n * VALUES + 1] = -(float)n;
        third[n] = 100 - (int32_t)n;
    }
    return 0;
}

static clq_dataset *of_one(void) {
    clq_dataset *data;
    OK(clq_dataset_arrays(samples, CLQ_U8, N, 1, DIMS(1), first, CLQ_I32, 0, &data));
    return data;
}

static clq_dataset *from_memory(void) {
    clq_dataset *data = of_one();
    float values[N * VALUES];
    memcpy(values, second, sizeof values);
    OK(clq_dataset_add_labels(data, values, CLQ_F32, VALUES));
    memset(values, 0, sizeof values); /* they were copied */
    OK(clq_dataset_add_labels(data, third, CLQ_I32, 0));
    return data;
}

static void put_folder(folder *f, const char *part) {
    static const char *const names[] = {"x_%s.npy", "y_%s.npy", "y_%s_1.npy", "y_%s_2.npy"};
    char file[4][32];
    for (size_t i = 0; i < 4; i++) snprintf(file[i], sizeof file[i], names[i], part);
    put_npy(f, file[0], CLQ_U8, 2, DIMS(N, 1), samples);
    put_npy(f, file[1], CLQ_I32, 1, DIMS(N), first);
    put_npy(f, file[2], CLQ_F32, 2, DIMS(N, VALUES), second);
    put_npy(f, file[3], CLQ_I32, 2, DIMS(N, 1), third);
}

static void check_info(const clq_dataset *data) {
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_int_equal(info->labels_count, 3);
    assert_false(info->labels[0].is_float || info->labels[2].is_float);
    assert_true(info->labels[1].is_float);
    assert_int_equal(info->labels[0].classes, 101);
    assert_int_equal(info->labels[1].elements, VALUES);
    assert_true(info->labels[1].least == -10 && info->labels[1].least_at == 10);
    assert_int_equal(info->labels[2].elements, 1);
    assert_int_equal(info->labels[2].classes, 101);
    assert_true(info->labels[2].least == 90 && info->labels[2].least_at == 10);
    assert_false(info->float_labels);
    assert_int_equal(info->classes, info->labels[0].classes);
}

static void check_row(size_t n, int32_t of_first, const float *of_second, int32_t of_third) {
    assert_int_equal(of_first, 10 * n);
    assert_true(of_second[0] == (float)n && of_second[1] == -(float)n);
    assert_int_equal(of_third, 100 - n);
}

static void check_batch(const clq_batch *batch) {
    assert_int_equal(batch->more_count, 2);
    const clq_labels *more = batch->more_labels;
    assert_true(more[0].is_float && !more[1].is_float && !batch->float_labels);
    assert_int_equal(more[0].elements, VALUES);
    assert_int_equal(more[1].elements, 1);
    for (size_t i = 0; i < batch->count; i++)
        check_row(((const uint8_t *)batch->samples)[i], ((const int32_t *)batch->labels)[i],
                  (const float *)more[0].values + i * VALUES, ((const int32_t *)more[1].values)[i]);
}

/* Checks rows, which are not copied into batches: all of them, and those from the second on. */
static void check_rows(const clq_rows *rows) {
    assert_int_equal(rows->feed->count, 4);
    for (size_t from = 0; from < CLQ_MIN(rows->count, (size_t)2); from++) {
        const clq_rows part = clq_rows_part(rows, from, rows->count - from);
        uint8_t numbers[BATCH];
        int32_t a[BATCH], c[BATCH];
        float b[BATCH * VALUES];
        void *const labels[] = {a, b, c};
        clq_rows_copy(&part, clq_feed_find(part.feed, CLQ_FEED_SAMPLES, 0), numbers);
        for (unsigned i = 0; i < 3; i++) clq_rows_copy(&part, clq_feed_find(part.feed, CLQ_FEED_LABELS, i), labels[i]);
        for (size_t i = 0; i < part.count; i++) check_row(numbers[i], a[i], b + i * VALUES, c[i]);
    }
}

/* Two epochs, by both kinds of walk. */
static void check_walk(clq_dataset *data, size_t buffer, int ahead, bool drop) {
    OK(clq_dataset_shuffle(data, buffer, 3));
    OK(clq_dataset_batch(data, BATCH, drop));
    OK(clq_dataset_prefetch(data, ahead));
    size_t seen = 0;
    for (size_t epoch = 0; epoch < 2; epoch++)
        for (bool more = true; more;) {
            clq_batch batch;
            clq_rows rows;
            OK(clq_dataset_next(data, &batch, &more));
            if (!more) break;
            check_batch(&batch);
            seen += batch.count;
            OK(clq_dataset_next_rows(data, &rows, &more));
            if (!more) break;
            check_rows(&rows);
            seen += rows.count;
        }
    assert_int_equal(seen, 2 * (drop ? N / BATCH * BATCH : N));
}

static void check_all(clq_dataset *data) {
    check_info(data);
    for (int drop = 0; drop < 2; drop++)
        for (int ahead = 0; ahead <= 2; ahead += 2) {
            check_walk(data, 0, ahead, drop);
            check_walk(data, N, ahead, drop);
        }
    OK(clq_dataset_take(data, 5));
    OK(clq_dataset_shuffle(data, 5, 1));
    clq_batch batch;
    bool more;
    OK(clq_dataset_next(data, &batch, &more));
    check_batch(&batch);
    clq_dataset_destroy(data);
}

static void of_memory(void **state) {
    (void)state;
    check_all(from_memory());
}

static void of_folders(void **state) {
    (void)state;
    static const char *const parts[] = {"train", "test"};
    folder f = folder_make();
    for (size_t i = 0; i < 2; i++) {
        clq_dataset *data;
        put_folder(&f, parts[i]);
        OK(clq_dataset_open(f.path, parts[i], &data));
        check_all(data);
        folder_clear(&f);
    }
    folder_remove(&f);
}

/* Samples become labels, as in fit(x, x): in place of the labels of two outputs, with weights kept, and again with
 * another factor. */
static void samples_are_labels(void **state) {
    (void)state;
    enum { COUNT = 4, WIDTH = 3 };
    static const uint8_t bytes[COUNT * WIDTH] = {0, 255, 51, 1, 2, 3, 4, 5, 6, 102, 8, 9};
    static const int32_t classes[COUNT] = {0, 1, 2, 1};
    static const float weights[COUNT] = {1, 2, 3, 4};
    clq_dataset *data;
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_arrays(bytes, CLQ_U8, COUNT, 1, (const size_t[]){WIDTH}, classes, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_add_labels(data, classes, CLQ_I32, 1));
    assert_ok(clq_dataset_set_weights(data, weights));
    assert_ok(clq_dataset_batch(data, COUNT, false));
    assert_fails(CLQ_ERROR_ARGUMENT, "samples times nan are no labels",
                 clq_dataset_label_by_samples(data, (double)NAN));
    assert_fails(CLQ_ERROR_ARGUMENT, "must be finite", clq_dataset_label_by_samples(data, 2e36));
    assert_int_equal(clq_dataset_get_info(data)->labels_count, 2);
    for (unsigned k = 0; k < 2; k++) {
        const double factor = k ? 1.0 / 255 : 1;
        assert_ok(clq_dataset_label_by_samples(data, factor));
        const clq_dataset_info *info = clq_dataset_get_info(data);
        assert_true(info->labels_count == 1 && info->float_labels && info->label_elements == WIDTH && info->weighted);
        assert_true(info->label_least == 0 && info->label_least_at == 0 && info->classes == 0);
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_true(batch.float_labels && batch.label_elements == WIDTH && batch.more_count == 0);
        for (size_t i = 0; i < COUNT * WIDTH; i++)
            assert_true(((const float *)batch.labels)[i] == (float)bytes[i] * (float)factor);
        assert_memory_equal(batch.weights, weights, sizeof weights);
    }
    clq_dataset_destroy(data);
}

/* The dataset reads ahead while labels are added, and then starts over. */
static void added_on_the_way(void **state) {
    (void)state;
    clq_dataset *data = of_one();
    clq_batch batch;
    bool more;
    OK(clq_dataset_batch(data, BATCH, false));
    OK(clq_dataset_prefetch(data, 2));
    for (size_t i = 0; i < 5; i++) OK(clq_dataset_next(data, &batch, &more));
    assert_int_equal(batch.more_count, 0);
    OK(clq_dataset_add_labels(data, second, CLQ_F32, VALUES));
    OK(clq_dataset_add_labels(data, third, CLQ_I32, 1));
    OK(clq_dataset_next(data, &batch, &more));
    assert_true(more && batch.epoch == 0 && batch.index == 0);
    check_batch(&batch);
    clq_dataset_destroy(data);
}

/* ---- what is refused ---- */

static void bad_folders(void **state) {
    (void)state;
    folder f = folder_make();
    put_folder(&f, "train");
    put_npy(&f, "y_train_4.npy", CLQ_I32, 1, DIMS(N), first);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "y_train_4.npy", "no y_train_3.npy");
    folder_clear(&f);
    put_folder(&f, "train");
    put_npy(&f, "y_train_2.npy", CLQ_I32, 1, DIMS(N - 1), third);
    expect_bad(&f, CLQ_ERROR_MISMATCH, "y_train_2.npy has 10 labels", "has 11 samples");
    put_npy(&f, "y_train_2.npy", CLQ_I32, 1, DIMS(N), third);
    for (unsigned i = 3; i <= CLQ_MODEL_OUTPUTS_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "y_train_%u.npy", i);
        put_npy(&f, name, CLQ_I32, 1, DIMS(N), third);
    }
    expect_bad(&f, CLQ_ERROR_UNSUPPORTED, "labels for 8 outputs", "the most");
    folder_clear(&f);
    put_folder(&f, "train");
    put_npy(&f, "y_train_2.npy", CLQ_I32, 0, DIMS(0), third);
    expect_bad(&f, CLQ_ERROR_MISMATCH, "y_train_2.npy has 1 label ", "has 11 samples");
    put_npy(&f, "y_train_2.npy", CLQ_F16, 1, DIMS(N), third);
    expect_bad(&f, CLQ_ERROR_UNSUPPORTED, "y_train_2.npy", "f16");
    put_file(&f, "y_train_2.npy", "rubbish", 7);
    expect_bad(&f, CLQ_ERROR_FORMAT, "y_train_2.npy", "NPY");
    folder_remove(&f);
}

static void bad_arrays(void **state) {
    (void)state;
    clq_dataset *data = from_memory();
    clq_batch batch;
    bool more;
    float odd[N] = {0};
    odd[3] = INFINITY;
    OK(clq_dataset_next(data, &batch, &more)); /* a refused call changes nothing */
    expect_failure(clq_dataset_add_labels(data, first, CLQ_I64, 1), CLQ_ERROR_ARGUMENT, "i32", "f32");
    expect_failure(clq_dataset_add_labels(data, odd, CLQ_F32, 1), CLQ_ERROR_ARGUMENT, "label 3", "finite");
    expect_failure(clq_dataset_add_labels(data, second, CLQ_F32, 0), CLQ_ERROR_ARGUMENT, "there are no labels",
                   "memory");
    check_batch(&batch);
    OK(clq_dataset_next(data, &batch, &more));
    assert_true(more && batch.index == 1);
    for (size_t i = 3; i < CLQ_MODEL_OUTPUTS_MAX; i++) OK(clq_dataset_add_labels(data, first, CLQ_I32, 1));
    expect_failure(clq_dataset_add_labels(data, first, CLQ_I32, 1), CLQ_ERROR_ARGUMENT, "labels for 8 outputs",
                   "the most");
    assert_int_equal(clq_dataset_get_info(data)->labels_count, CLQ_MODEL_OUTPUTS_MAX);
    clq_dataset_destroy(data);
}

/* Each allocation fails once. The dataset is then unchanged. */
static void out_of_memory(void **state) {
    (void)state;
    for (size_t is_float = 0; is_float < 2; is_float++) {
        clq_dataset *data = of_one();
        uint64_t nth = 1;
        for (bool failed = true; failed; nth++) {
            clq_memory_fail_at(nth, false);
            const clq_status status = is_float ? clq_dataset_add_labels(data, second, CLQ_F32, VALUES)
                                               : clq_dataset_add_labels(data, third, CLQ_I32, 1);
            failed = clq_memory_fail_at(0, false) >= nth;
            assert_int_equal(status, failed ? CLQ_ERROR_MEMORY : CLQ_OK);
            assert_int_equal(clq_dataset_get_info(data)->labels_count, failed ? 1 : 2);
        }
        assert_true(nth > 2);
        clq_dataset_destroy(data);
    }
    folder f = folder_make();
    put_folder(&f, "train");
    for (uint64_t nth = 1;; nth++) {
        clq_dataset *data = NULL;
        clq_memory_fail_at(nth, false);
        const clq_status status = clq_dataset_open(f.path, "train", &data);
        const bool failed = clq_memory_fail_at(0, false) >= nth;
        assert_int_equal(status, failed ? CLQ_ERROR_MEMORY : CLQ_OK);
        assert_true(failed == (data == NULL));
        clq_dataset_destroy(data);
        if (failed) continue;
        assert_true(nth > 12);
        break;
    }
    folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_labels), cmocka_unit_test(of_memory),   cmocka_unit_test(of_folders),
        cmocka_unit_test(added_on_the_way),   cmocka_unit_test(bad_folders), cmocka_unit_test(bad_arrays),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_numbers, NULL);
}
