/* Folders of every kind that users have. The batches hold what the files hold. */
#include "data/dataset.h"
#include "data/folder.h"

#include <math.h>

/* All samples and labels of a dataset in one batch. */
static clq_batch whole(clq_dataset *dataset) {
    clq_batch batch;
    bool more = false;
    OK(clq_dataset_batch(dataset, clq_dataset_get_info(dataset)->samples, false));
    OK(clq_dataset_next(dataset, &batch, &more));
    assert_true(more);
    assert_int_equal(batch.count, clq_dataset_get_info(dataset)->samples);
    return batch;
}

static const unsigned char twelve[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};

static void idx_pairs(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
        {"train-images.idx3-ubyte", "train-labels-idx1-ubyte.gz"},
    };
    folder f = folder_make();
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        put_idx(&f, names[i][0], 3, DIMS(3, 2, 2), twelve);
        put_idx(&f, names[i][1], 1, DIMS(3), (const unsigned char[]){4, 0, 2});
        put_idx(&f, "t10k-images-idx3-ubyte", 3, DIMS(1, 2, 2), twelve);
        put_idx(&f, "t10k-labels-idx1-ubyte", 1, DIMS(1), (const unsigned char[]){9});
        clq_dataset *data;
        OK(clq_dataset_open(f.path, "train", &data));
        const clq_dataset_info *info = clq_dataset_get_info(data);
        assert_int_equal(info->samples, 3);
        assert_int_equal(info->rank, 2);
        assert_int_equal(info->shape[0], 2);
        assert_int_equal(info->shape[1], 2);
        assert_int_equal(info->sample_elements, 4);
        assert_int_equal(info->sample_dtype, CLQ_U8);
        assert_false(info->float_labels);
        assert_int_equal(info->classes, 5);
        assert_non_null(strstr(info->name, "(train)"));
        clq_batch batch = whole(data);
        assert_memory_equal(batch.samples, twelve, 12);
        assert_memory_equal(batch.labels, ((const int32_t[]){4, 0, 2}), 12);
        clq_dataset_destroy(data);
        OK(clq_dataset_idx(f.path, "test", &data));
        assert_int_equal(clq_dataset_get_info(data)->samples, 1);
        assert_int_equal(clq_dataset_get_info(data)->classes, 10);
        clq_dataset_destroy(data);
        folder_clear(&f);
    }
    folder_remove(&f);
}

static void plain_comes_before_gz(void **state) {
    (void)state;
    folder f = folder_make();
    put_idx(&f, "train-images-idx2-ubyte.gz", 2, DIMS(2, 1), (const unsigned char[]){8, 8});
    put_idx(&f, "train-images-idx2-ubyte", 2, DIMS(2, 1), (const unsigned char[]){3, 4});
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(2), (const unsigned char[]){0, 1});
    put_file(&f, "train-images-idx2-ubyte.part", "x", 1); /* is not one of the dataset's files */
    clq_dataset *data;
    OK(clq_dataset_open(f.path, "train", &data));
    assert_memory_equal(whole(data).samples, ((const unsigned char[]){3, 4}), 2);
    clq_dataset_destroy(data);
    folder_remove(&f);
}

static void samples_of_any_shape(void **state) {
    (void)state;
    static const struct {
        unsigned rank;
        size_t dims[7];
        unsigned sample_rank;
        size_t shape[6];
    } cases[] = {
        {1, {12}, 1, {1}},
        {2, {3, 4}, 1, {4}},
        {4, {2, 1, 2, 3}, 3, {1, 2, 3}},
        {7, {2, 1, 3, 1, 2, 1, 1}, 6, {1, 3, 1, 2, 1, 1}},
    };
    folder f = folder_make();
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        put_npy(&f, "x_train.npy", CLQ_U8, cases[c].rank, cases[c].dims, twelve);
        put_npy(&f, "y_train.npy", CLQ_U8, 1, cases[c].dims, twelve);
        clq_dataset *data;
        OK(clq_dataset_open(f.path, "train", &data));
        const clq_dataset_info *info = clq_dataset_get_info(data);
        assert_int_equal(info->rank, cases[c].sample_rank);
        for (unsigned i = 0; i < info->rank; i++) assert_int_equal(info->shape[i], cases[c].shape[i]);
        assert_int_equal(info->samples, cases[c].dims[0]);
        assert_int_equal(info->samples * info->sample_elements, 12);
        assert_memory_equal(whole(data).samples, twelve, 12);
        clq_dataset_destroy(data);
    }
    folder_remove(&f);
}

static void labels_of_any_integers(void **state) {
    (void)state;
    const int8_t i8[] = {3, 0, 7};
    const int16_t i16[] = {3, 0, 7};
    const int32_t i32[] = {3, 0, 7};
    const int64_t i64[] = {3, 0, 7};
    const uint8_t u8[] = {3, 0, 7};
    const uint16_t u16[] = {3, 0, 7};
    const uint32_t u32[] = {3, 0, 7};
    const uint64_t u64[] = {3, 0, 7};
    const struct {
        clq_dtype dtype;
        const void *values;
    } cases[] = {{CLQ_I8, i8}, {CLQ_I16, i16}, {CLQ_I32, i32}, {CLQ_I64, i64},
                 {CLQ_U8, u8}, {CLQ_U16, u16}, {CLQ_U32, u32}, {CLQ_U64, u64}};
    folder f = folder_make();
    put_npy(&f, "x_test.npy", CLQ_U8, 2, DIMS(3, 4), twelve);
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++)
        for (unsigned rank = 1; rank <= 2; rank++) {
            put_npy(&f, "y_test.npy", cases[c].dtype, rank, DIMS(3, 1), cases[c].values);
            clq_dataset *data;
            OK(clq_dataset_npy(f.path, "test", &data));
            assert_false(clq_dataset_get_info(data)->float_labels);
            assert_int_equal(clq_dataset_get_info(data)->classes, 8);
            assert_memory_equal(whole(data).labels, i32, sizeof i32);
            clq_dataset_destroy(data);
        }
    folder_remove(&f);
}

static void soft_labels_and_doubles(void **state) {
    (void)state;
    const double rows[] = {0.25, 0.75, 0.0, 1.0, 0.0, 0.0};
    const float expected[] = {0.25f, 0.75f, 0.0f, 1.0f, 0.0f, 0.0f}, samples[] = {-1.5f, 3e38f, 0.0f, 1e-40f};
    const double wide[] = {-1.5, (double)3e38f, 0.0, (double)1e-40f};
    folder f = folder_make();
    for (int doubles = 0; doubles < 2; doubles++) {
        put_npy(&f, "x_train.npy", doubles ? CLQ_F64 : CLQ_F32, 2, DIMS(2, 2), doubles ? (const void *)wide : samples);
        put_npy(&f, "y_train.npy", doubles ? CLQ_F64 : CLQ_F32, 2, DIMS(2, 3), doubles ? (const void *)rows : expected);
        clq_dataset *data;
        OK(clq_dataset_open(f.path, "train", &data));
        const clq_dataset_info *info = clq_dataset_get_info(data);
        assert_true(info->float_labels);
        assert_int_equal(info->label_elements, 3);
        assert_int_equal(info->sample_dtype, CLQ_F32);
        clq_batch batch = whole(data);
        assert_memory_equal(batch.samples, samples, sizeof samples);
        assert_memory_equal(batch.labels, expected, sizeof expected);
        clq_dataset_destroy(data);
    }
    folder_remove(&f);
}

/* Labels of any shape and sign. */
static void values(void **state) {
    (void)state;
    const float rows[] = {0.5f, -3.25f, 2, -3.25f, 0, 7}, column[] = {-0.5f, 3};
    const int16_t whole_numbers[] = {1, 2, -7, 0, 5, 6};
    folder f = folder_make();
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(2, 2), twelve);
    const struct {
        clq_dtype dtype;
        unsigned rank;
        size_t dims[3], elements, at;
        const void *values;
        double least;
    } cases[] = {{CLQ_F32, 2, {2, 3}, 3, 0, rows, -3.25},
                 {CLQ_F32, 3, {2, 1, 3}, 3, 0, rows, -3.25},
                 {CLQ_F32, 1, {2}, 1, 0, column, -0.5},
                 {CLQ_I16, 2, {2, 3}, 3, 0, whole_numbers, -7}};
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        clq_dataset *data;
        put_npy(&f, "y_train.npy", cases[c].dtype, cases[c].rank, cases[c].dims, cases[c].values);
        OK(clq_dataset_npy(f.path, "train", &data));
        const clq_dataset_info *info = clq_dataset_get_info(data);
        clq_batch batch = whole(data);
        assert_int_equal(info->float_labels, cases[c].dtype == CLQ_F32);
        assert_int_equal(info->label_elements, cases[c].elements);
        assert_true(info->label_least == cases[c].least && info->label_least_at == cases[c].at);
        assert_true(batch.float_labels == info->float_labels && batch.label_elements == cases[c].elements);
        for (size_t i = 0; i < 2 * cases[c].elements; i++)
            assert_true(info->float_labels
                            ? ((const float *)batch.labels)[i] == ((const float *)cases[c].values)[i]
                            : ((const int32_t *)batch.labels)[i] == ((const int16_t *)cases[c].values)[i]);
        clq_dataset_destroy(data);
    }
    folder_remove(&f);
}

static void cifar(void **state) {
    (void)state;
    enum { RECORD = 3073, FILES = 5 };
    folder f = folder_make();
    for (int i = 0; i < FILES; i++) {
        unsigned char record[RECORD];
        char name[32];
        memset(record, 10 * i, sizeof record);
        record[0] = (unsigned char)(2 * i);
        record[1] = 200;        /* red of the first pixel */
        record[1 + 1024] = 100; /* its green */
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        put_file(&f, name, record, sizeof record);
    }
    clq_dataset *data;
    OK(clq_dataset_open(f.path, "train", &data));
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_int_equal(info->samples, FILES);
    assert_int_equal(info->rank, 3);
    assert_int_equal(info->shape[0] * 10000 + info->shape[1] * 100 + info->shape[2], 323203);
    clq_batch batch = whole(data);
    for (int i = 0; i < FILES; i++) {
        const unsigned char *image = (const unsigned char *)batch.samples + i * 3072;
        assert_int_equal(((const int32_t *)batch.labels)[i], 2 * i);
        assert_int_equal(image[0], 200);
        assert_int_equal(image[1], 100);
        assert_int_equal(image[2], 10 * i);
        assert_int_equal(image[3071], 10 * i);
    }
    clq_dataset_destroy(data);
    expect_failure(clq_dataset_cifar10(f.path, "test", &data), CLQ_ERROR_NOT_FOUND, "test_batch.bin", f.path);
    unlink(in_folder(&f, "data_batch_3.bin"));
    expect_failure(clq_dataset_open(f.path, "train", &data), CLQ_ERROR_NOT_FOUND, "data_batch_3.bin", f.path);
    folder_remove(&f);
}

static void from_memory(void **state) {
    (void)state;
    float samples[] = {1.0f, 2.0f, 3.0f, 4.0f};
    int32_t labels[] = {1, 0};
    clq_dataset *data;
    OK(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), labels, CLQ_I32, 0, &data));
    samples[0] = 9.0f; /* it was copied */
    labels[0] = 9;
    clq_batch batch = whole(data);
    assert_memory_equal(batch.samples, ((const float[]){1.0f, 2.0f, 3.0f, 4.0f}), 16);
    assert_memory_equal(batch.labels, ((const int32_t[]){1, 0}), 8);
    clq_dataset_destroy(data);
    OK(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), samples, CLQ_F32, 2, &data));
    assert_true(clq_dataset_get_info(data)->float_labels);
    clq_dataset_destroy(data);

    labels[1] = -1; /* a value may be negative; the trainer refuses it as a class number */
    OK(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), labels, CLQ_I32, 1, &data));
    assert_true(clq_dataset_get_info(data)->label_least == -1 && clq_dataset_get_info(data)->label_least_at == 1);
    clq_dataset_destroy(data);
    data = NULL;
    labels[1] = INT32_MAX;
    expect_failure(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), labels, CLQ_I32, 0, &data), CLQ_ERROR_ARGUMENT,
                   "label 1", "2147483647");
    labels[1] = 1;
    expect_failure(clq_dataset_arrays(samples, CLQ_F64, 2, 1, DIMS(2), labels, CLQ_I32, 0, &data), CLQ_ERROR_ARGUMENT,
                   "u8", "f32");
    expect_failure(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), labels, CLQ_I64, 0, &data), CLQ_ERROR_ARGUMENT,
                   "i32", "f32");
    expect_failure(clq_dataset_arrays(samples, CLQ_F32, 0, 1, DIMS(2), labels, CLQ_I32, 0, &data), CLQ_ERROR_ARGUMENT,
                   "no samples", "memory");
    expect_failure(clq_dataset_arrays(samples, CLQ_F32, 2, 7, DIMS(1, 1, 1, 1, 1, 1, 2), labels, CLQ_I32, 0, &data),
                   CLQ_ERROR_ARGUMENT, "rank 7", "6");
    samples[3] = NAN;
    expect_failure(clq_dataset_arrays(samples, CLQ_F32, 2, 1, DIMS(2), labels, CLQ_I32, 0, &data), CLQ_ERROR_ARGUMENT,
                   "sample 1", "nan");
    assert_null(data);
}

/* Figures of the published set: 6,000 images a class, mean pixel 0.2860. */
static void fashion_mnist(void **state) {
    (void)state;
    clq_dataset *data = NULL;
    expect_failure(clq_source_fashion_mnist((const char *const[]){"no-such-folder"}, 1, "train", &data),
                   CLQ_ERROR_NOT_FOUND, "apt install dataset-fashion-mnist", "fashion-mnist");
    clq_status status = clq_dataset_open("fashion-mnist", "train", &data);
    if (status == CLQ_ERROR_NOT_FOUND) {
        assert_null(data);
        expect_failure(status, CLQ_ERROR_NOT_FOUND, "apt install dataset-fashion-mnist", "fashion-mnist");
        return;
    }
    assert_int_equal(status, CLQ_OK);
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_string_equal(info->name, "fashion-mnist (train)");
    assert_int_equal(info->samples, 60000);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->shape[0] * 100 + info->shape[1], 2828);
    clq_batch batch = whole(data);
    size_t per_class[10] = {0};
    uint64_t sum = 0;
    for (size_t i = 0; i < batch.count; i++) per_class[((const int32_t *)batch.labels)[i]]++;
    for (size_t c = 0; c < 10; c++) assert_int_equal(per_class[c], 6000);
    for (size_t i = 0; i < batch.count * 784; i++) sum += ((const uint8_t *)batch.samples)[i];
    assert_true(fabs((double)sum / (60000.0 * 784.0 * 255.0) - 0.2860406) < 1e-6);
    clq_dataset_destroy(data);
    OK(clq_dataset_open("fashion-mnist", "test", &data));
    assert_int_equal(clq_dataset_get_info(data)->samples, 10000);
    clq_dataset_destroy(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_pairs),
        cmocka_unit_test(plain_comes_before_gz),
        cmocka_unit_test(samples_of_any_shape),
        cmocka_unit_test(labels_of_any_integers),
        cmocka_unit_test(soft_labels_and_doubles),
        cmocka_unit_test(values),
        cmocka_unit_test(cifar),
        cmocka_unit_test(from_memory),
        cmocka_unit_test(fashion_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
