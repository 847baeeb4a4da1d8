/* Folders with faults. Each is refused with one clear line, and gives no dataset. */
#include "data/folder.h"

#include <math.h>
#include <sys/stat.h>

static const unsigned char bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static void no_folder(void **state) {
    (void)state;
    folder f = folder_make();
    clq_dataset *data = NULL;
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, f.path, "x_train.npy");
    expect_failure(clq_dataset_open(f.path, "test", &data), CLQ_ERROR_NOT_FOUND, "t10k-images", "test_batch.bin");
    expect_failure(clq_dataset_open(f.path, "validation", &data), CLQ_ERROR_ARGUMENT, "validation", "test");
    expect_failure(clq_dataset_open(in_folder(&f, "none"), "train", &data), CLQ_ERROR_NOT_FOUND, "none",
                   "fashion-mnist");
    put_file(&f, "file", "x", 1);
    expect_failure(clq_dataset_open(in_folder(&f, "file"), "train", &data), CLQ_ERROR_READ, "is a file", "folder");
    clq_status (*const openers[])(const char *, const char *, clq_dataset **) = {clq_dataset_idx, clq_dataset_npy,
                                                                                 clq_dataset_cifar10};
    for (size_t i = 0; i < CLQ_COUNT_OF(openers); i++) {
        expect_failure(openers[i](in_folder(&f, "none"), "train", &data), CLQ_ERROR_NOT_FOUND, "none", "folder");
        expect_failure(openers[i](f.path, "train", &data), CLQ_ERROR_NOT_FOUND, f.path, "has no");
        expect_failure(openers[i](f.path, "Train", &data), CLQ_ERROR_ARGUMENT, "Train", "train");
    }
    assert_null(data);
    folder_remove(&f);
}

static void missing_partner(void **state) {
    (void)state;
    folder f = folder_make();
    put_idx(&f, "train-images-idx2-ubyte", 2, DIMS(3, 4), bytes);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "train-labels", f.path);
    folder_clear(&f);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(3), bytes);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "train-images", f.path);
    folder_clear(&f);
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(3, 4), bytes);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "y_train.npy", f.path);
    folder_clear(&f);
    put_npy(&f, "y_train.npy", CLQ_U8, 1, DIMS(3), bytes);
    expect_bad(&f, CLQ_ERROR_NOT_FOUND, "x_train.npy", f.path);
    folder_remove(&f);
}

static void malformed_files(void **state) {
    (void)state;
    folder f = folder_make();
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(3, 4), bytes);
    put_file(&f, "y_train.npy", "rubbish", 7);
    expect_bad(&f, CLQ_ERROR_FORMAT, "y_train.npy", "NPY");
    folder_clear(&f);
    put_file(&f, "train-images-idx3-ubyte.gz", "\x1f\x8b rubbish that is longer", 26);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(3), bytes);
    expect_bad(&f, CLQ_ERROR_FORMAT, "train-images-idx3-ubyte.gz", "gzip");
    folder_clear(&f);
    put_file(&f, "data_batch_1.bin", bytes, sizeof bytes);
    for (int i = 2; i <= 5; i++) {
        char name[] = "data_batch_0.bin";
        name[11] = (char)('0' + i);
        put_file(&f, name, bytes, sizeof bytes);
    }
    expect_bad(&f, CLQ_ERROR_FORMAT, "data_batch_1.bin", "CIFAR");
    folder_remove(&f);
}

static void counts_differ(void **state) {
    (void)state;
    folder f = folder_make();
    put_idx(&f, "train-images-idx2-ubyte", 2, DIMS(3, 4), bytes);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(4), bytes);
    expect_bad(&f, CLQ_ERROR_MISMATCH, "4 labels", "3 samples");
    folder_clear(&f);
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(3, 4), bytes);
    put_npy(&f, "y_train.npy", CLQ_F32, 2, DIMS(2, 1), (const float[]){1.0f, 0.0f});
    expect_bad(&f, CLQ_ERROR_MISMATCH, "2 labels", "3 samples");
    put_npy(&f, "y_train.npy", CLQ_I32, 0, DIMS(0), (const int32_t[]){1});
    expect_bad(&f, CLQ_ERROR_MISMATCH, "y_train.npy", "3 samples");
    folder_remove(&f);
}

static void bad_labels(void **state) {
    (void)state;
    const struct {
        clq_dtype dtype;
        unsigned rank;
        size_t dims[3];
        const void *values;
        clq_status expected;
        const char *word;
    } cases[] = {
        {CLQ_I64, 1, {3}, (const int64_t[]){0, 5000000000, 1}, CLQ_ERROR_FORMAT, "label 1 is 5000000000"},
        {CLQ_I64, 2, {3, 1}, (const int64_t[]){0, 1, -5000000000}, CLQ_ERROR_FORMAT, "label 2 is -5000000000"},
        {CLQ_I32, 1, {3}, (const int32_t[]){INT32_MAX, 0, 0}, CLQ_ERROR_FORMAT, "label 0 is 2147483647"},
        {CLQ_U64, 1, {3}, (const uint64_t[]){0, UINT64_MAX, 1}, CLQ_ERROR_FORMAT, "label 1 is beyond"},
        {CLQ_F16, 2, {3, 2}, bytes, CLQ_ERROR_UNSUPPORTED, "f16"},
        {CLQ_F32, 2, {3, 0}, bytes, CLQ_ERROR_FORMAT, "(3, 0)"},
        {CLQ_F32, 2, {3, 2}, (const float[]){0, 1, 0, 1, INFINITY, 0}, CLQ_ERROR_FORMAT, "value 0 of label 2 is inf"},
        {CLQ_F64, 2, {3, 2}, (const double[]){0, NAN, 0, 1, 0, 0}, CLQ_ERROR_FORMAT, "value 1 of label 0 is nan"},
        {CLQ_F64, 2, {3, 2}, (const double[]){0, 1e300, 0, 1, 0, 0}, CLQ_ERROR_FORMAT, "value 1 of label 0 is inf"},
    };
    folder f = folder_make();
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(3, 4), bytes);
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        put_npy(&f, "y_train.npy", cases[c].dtype, cases[c].rank, cases[c].dims, cases[c].values);
        expect_bad(&f, cases[c].expected, cases[c].word, "y_train.npy");
    }
    folder_remove(&f);
}

static void bad_samples(void **state) {
    (void)state;
    const struct {
        clq_dtype dtype;
        unsigned rank;
        size_t dims[8];
        const void *values;
        clq_status expected;
        const char *word;
    } cases[] = {
        {CLQ_U8, 3, {0, 2, 2}, bytes, CLQ_ERROR_FORMAT, "there are no samples"},
        {CLQ_U8, 3, {2, 0, 2}, bytes, CLQ_ERROR_FORMAT, "has no values"},
        {CLQ_U8, 0, {0}, bytes, CLQ_ERROR_UNSUPPORTED, "()"},
        {CLQ_U8, 8, {2, 1, 1, 1, 1, 1, 1, 2}, bytes, CLQ_ERROR_UNSUPPORTED, "1 to 7 dimensions"},
        {CLQ_I32,
         2,
         {2, 2},
         (const int32_t[]){0, 1, 2, 1 << 30},
         CLQ_ERROR_FORMAT,
         "value 1 of sample 1 is beyond 16777216"},
        {CLQ_F32, 2, {2, 2}, (const float[]){0, 1, 2, NAN}, CLQ_ERROR_FORMAT, "value 1 of sample 1 is nan"},
        {CLQ_F32, 2, {2, 2}, (const float[]){0, 1, -INFINITY, 0}, CLQ_ERROR_FORMAT, "value 0 of sample 1 is -inf"},
        {CLQ_F64, 2, {2, 2}, (const double[]){0, 1e39, 0, 0}, CLQ_ERROR_FORMAT, "value 1 of sample 0 is inf"},
    };
    folder f = folder_make();
    put_npy(&f, "y_train.npy", CLQ_U8, 1, DIMS(2), bytes);
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        put_npy(&f, "x_train.npy", cases[c].dtype, cases[c].rank, cases[c].dims, cases[c].values);
        expect_bad(&f, cases[c].expected, cases[c].word, "x_train.npy");
    }
    folder_remove(&f);
}

static void empty_idx(void **state) {
    (void)state;
    folder f = folder_make();
    put_idx(&f, "train-images-idx3-ubyte", 3, DIMS(0, 28, 28), bytes);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(0), bytes);
    expect_bad(&f, CLQ_ERROR_FORMAT, "train-images-idx3-ubyte", "no samples");
    folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_folder),     cmocka_unit_test(missing_partner), cmocka_unit_test(malformed_files),
        cmocka_unit_test(counts_differ), cmocka_unit_test(bad_labels),      cmocka_unit_test(bad_samples),
        cmocka_unit_test(empty_idx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
