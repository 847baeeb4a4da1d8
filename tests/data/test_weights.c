/* Weights of samples. They follow their samples through every kind of walk over the data. Also what is refused. */
#include "data/folder.h"

#include <math.h>

enum { N = 11, BATCH = 4 };

static const float weights[N] = {0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4.5f, 5};

/* Sample n is n, and its weight n / 2. */
static clq_dataset *numbers(void) {
    static const uint8_t samples[N] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const int32_t labels[N] = {0};
    clq_dataset *data;
    OK(clq_dataset_arrays(samples, CLQ_U8, N, 1, DIMS(1), labels, CLQ_I32, 0, &data));
    OK(clq_dataset_batch(data, BATCH, false));
    return data;
}

static void walk_part(clq_dataset *data, bool weighted, size_t samples) {
    clq_batch batch;
    bool more = true;
    size_t seen = 0;
    OK(clq_dataset_seek(data, 1, 0));
    while (more) {
        OK(clq_dataset_next(data, &batch, &more));
        for (size_t i = 0; more && i < batch.count; i++, seen++) {
            const size_t n = ((const uint8_t *)batch.samples)[i];
            if (weighted)
                assert_true(batch.weights[i] == weights[n]);
            else
                assert_null(batch.weights);
        }
    }
    assert_int_equal(seen, samples);
}
static void walk(clq_dataset *data, bool weighted) { walk_part(data, weighted, N); }

static void follow_their_samples(void **state) {
    (void)state;
    clq_dataset *data = numbers();
    float given[N];
    assert_false(clq_dataset_get_info(data)->weighted);
    memcpy(given, weights, sizeof given);
    OK(clq_dataset_set_weights(data, given));
    memset(given, 0, sizeof given); /* they were copied */
    assert_true(clq_dataset_get_info(data)->weighted);
    walk(data, true);
    OK(clq_dataset_shuffle(data, N, 3));
    walk(data, true);
    OK(clq_dataset_prefetch(data, 2));
    walk(data, true);
    OK(clq_dataset_set_weights(data, NULL));
    assert_false(clq_dataset_get_info(data)->weighted);
    walk(data, false);
    clq_dataset_destroy(data);
}

/* Weights are given for the whole dataset, whatever part of it was taken before, and in whatever order. */
static void follow_a_part(void **state) {
    (void)state;
    static const size_t parts[] = {1, 5, N - 1, N + 7};
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++)
        for (unsigned how = 0; how < 8; how++) {
            clq_dataset *data = numbers();
            if (how & 1) OK(clq_dataset_set_weights(data, weights));
            OK(clq_dataset_take(data, parts[i]));
            if (how & 2) OK(clq_dataset_prefetch(data, 3));
            OK(clq_dataset_shuffle(data, how & 4 ? 3 : N, 7));
            if (!(how & 1)) OK(clq_dataset_set_weights(data, weights));
            walk_part(data, true, CLQ_MIN(parts[i], (size_t)N));
            OK(clq_dataset_take(data, N));
            walk(data, true);
            clq_dataset_destroy(data);
        }
}

static void from_files(void **state) {
    (void)state;
    folder f = folder_make();
    clq_dataset *data = numbers();
    double wide[N];
    static const float twice[2 * N] = {0};
    for (size_t n = 0; n < N; n++) wide[n] = (double)weights[n];
    put_npy(&f, "w.npy", CLQ_F32, 1, DIMS(N), weights);
    put_npy(&f, "wide.npy", CLQ_F64, 2, DIMS(N, 1), wide);
    put_npy(&f, "short.npy", CLQ_F32, 1, DIMS(N - 1), weights);
    put_npy(&f, "two.npy", CLQ_F32, 2, DIMS(N, 2), twice);
    put_npy(&f, "empty.npy", CLQ_F32, 1, DIMS(0), weights);
    put_npy(&f, "scalar.npy", CLQ_F32, 0, DIMS(1), weights);
    wide[5] = -0.5;
    put_npy(&f, "negative.npy", CLQ_F64, 1, DIMS(N), wide);
    wide[5] = 1e39; /* f32 has no such number */
    put_npy(&f, "large.npy", CLQ_F64, 1, DIMS(N), wide);
    wide[5] = (double)NAN;
    put_npy(&f, "nan.npy", CLQ_F64, 1, DIMS(N), wide);
    put_file(&f, "text.npy", "1\n2\n", 4);
    put_npy(&f, "whole.npy", CLQ_I32, 1, DIMS(N), weights);
    static const struct {
        const char *file;
        clq_status status;
        const char *words;
    } cases[] = {{"w.npy", CLQ_OK, ""},
                 {"wide.npy", CLQ_OK, ""},
                 {"short.npy", CLQ_ERROR_MISMATCH, "one weight for each of the 11 samples"},
                 {"whole.npy", CLQ_ERROR_UNSUPPORTED, "f32 or f64"},
                 {"two.npy", CLQ_ERROR_MISMATCH, "(11, 2) f32: expected one weight for each of the 11 samples"},
                 {"empty.npy", CLQ_ERROR_MISMATCH, "(0,) f32: expected one weight for each"},
                 {"scalar.npy", CLQ_ERROR_MISMATCH, "() f32: expected one weight for each"},
                 {"negative.npy", CLQ_ERROR_FORMAT, "the weight of sample 5 is -0.5"},
                 {"large.npy", CLQ_ERROR_FORMAT, "the weight of sample 5 is inf as float32"},
                 {"nan.npy", CLQ_ERROR_FORMAT, "the weight of sample 5 is nan"},
                 {"text.npy", CLQ_ERROR_FORMAT, "text.npy: no NPY file"},
                 {"none.npy", CLQ_ERROR_NOT_FOUND, "none.npy"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const clq_status status = clq_dataset_read_weights(data, in_folder(&f, cases[i].file));
        if (cases[i].status != CLQ_OK) expect_failure(status, cases[i].status, cases[i].words, cases[i].file);
        if (cases[i].status == CLQ_OK) OK(status);
        walk(data, true); /* a refused call left the old weights */
    }
    clq_dataset_destroy(data);
    folder_remove(&f);
}

static void wrong_weights(void **state) {
    (void)state;
    static const float wrong[] = {-1, NAN, INFINITY};
    clq_dataset *data = numbers();
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        float given[N];
        memcpy(given, weights, sizeof given);
        given[3] = wrong[i];
        expect_failure(clq_dataset_set_weights(data, given), CLQ_ERROR_ARGUMENT, "weight of sample 3", "at least 0");
        walk(data, false);
    }
    clq_dataset_destroy(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(follow_their_samples), cmocka_unit_test(follow_a_part),
                                       cmocka_unit_test(from_files), cmocka_unit_test(wrong_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
