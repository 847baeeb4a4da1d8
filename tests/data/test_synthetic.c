/* Made-up data: its name gives its shape, a model can learn it, and it never changes. */
#include "data/folder.h"

static const uint8_t *samples_of(clq_dataset *data, const int32_t **labels) {
    clq_batch batch;
    bool more = false;
    OK(clq_dataset_batch(data, clq_dataset_get_info(data)->samples, false));
    OK(clq_dataset_next(data, &batch, &more));
    assert_true(more);
    *labels = batch.labels;
    return batch.samples;
}

static void names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t train, test, rank, shape[3];
    } cases[] = {
        {"synthetic:5/2/60", 60, 10, 1, {5}},
        {"synthetic:4x6/3/7", 7, 2, 2, {4, 6}},
        {"synthetic:32x32x3/10/12", 12, 2, 3, {32, 32, 3}},
        {"synthetic:1/1/1", 1, 1, 1, {1}},
        {"synthetic:2x3", 60000, 10000, 2, {2, 3}},
    };
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++)
        for (int test = 0; test < 2; test++) {
            clq_dataset *data;
            OK(clq_dataset_open(cases[c].name, test ? "test" : "train", &data));
            const clq_dataset_info *info = clq_dataset_get_info(data);
            assert_int_equal(info->samples, test ? cases[c].test : cases[c].train);
            assert_int_equal(info->rank, cases[c].rank);
            assert_int_equal(info->sample_dtype, CLQ_U8);
            for (size_t i = 0; i < info->rank; i++) assert_int_equal(info->shape[i], cases[c].shape[i]);
            clq_dataset_destroy(data);
        }
}

static void default_shape(void **state) {
    (void)state;
    clq_dataset *data;
    OK(clq_dataset_open("synthetic", "test", &data));
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_int_equal(info->samples, 10000);
    assert_int_equal(info->shape[0] * 100 + info->shape[1], 2828);
    assert_int_equal(info->classes, 10);
    clq_dataset_destroy(data);
}

static void bad_names(void **state) {
    (void)state;
    static const char *const bad[] = {
        "synthetic:0",
        "synthetic:28x",
        "synthetic:x28",
        "synthetic:28x-1",
        "synthetic:a",
        "synthetic:28/0",
        "synthetic:28/10/0",
        "synthetic:28//5",
        "synthetic:28/10/5/0",
        "synthetic:1x1x1x1x1x1x1",
        "synthetic:99999999999",
        "synthetic:65536x65536x65536",
        "synthetic:28/10/",
        "synthetic:28/10/5/1/1",
        "synthetic:28/10/9999999999999999999999",
    };
    clq_dataset *data = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++)
        expect_failure(clq_dataset_open(bad[i], "train", &data), CLQ_ERROR_ARGUMENT, bad[i], "SHAPE/CLASSES/COUNT");
    expect_failure(clq_dataset_open("synthetic", "valid", &data), CLQ_ERROR_ARGUMENT, "valid", "train");
    expect_failure(clq_dataset_open("synthetics", "train", &data), CLQ_ERROR_NOT_FOUND, "synthetics", "folder");
    assert_null(data);
}

/* The nearest class mean of the training part classifies the test part. */
static void can_be_learned(void **state) {
    (void)state;
    enum { ELEMENTS = 64, CLASSES = 5 };
    clq_dataset *train, *test;
    OK(clq_dataset_open("synthetic:8x8/5/600", "train", &train));
    OK(clq_dataset_open("synthetic:8x8/5/600", "test", &test));
    const int32_t *labels;
    const uint8_t *samples = samples_of(train, &labels);
    double mean[CLASSES][ELEMENTS] = {{0}};
    size_t count[CLASSES] = {0}, right = 0;
    for (size_t n = 0; n < 600; n++) {
        count[labels[n]]++;
        for (size_t i = 0; i < ELEMENTS; i++) mean[labels[n]][i] += samples[n * ELEMENTS + i];
    }
    for (size_t c = 0; c < CLASSES; c++) {
        assert_within(count[c], 80, 160);
        for (size_t i = 0; i < ELEMENTS; i++) mean[c][i] /= (double)count[c];
    }
    samples = samples_of(test, &labels);
    for (size_t n = 0; n < 100; n++) {
        size_t best = 0;
        double least = 1e300;
        for (size_t c = 0; c < CLASSES; c++) {
            double distance = 0.0;
            for (size_t i = 0; i < ELEMENTS; i++) {
                double difference = samples[n * ELEMENTS + i] - mean[c][i];
                distance += difference * difference;
            }
            if (distance < least) least = distance, best = c;
        }
        right += best == (size_t)labels[n];
    }
    assert_true(right >= 95);
    clq_dataset_destroy(train);
    clq_dataset_destroy(test);
}

/* People compare results on this data, so it must not change. The sums come from an independent program in another
 * language, which follows the paper on Philox. */
static void never_changes(void **state) {
    (void)state;
    static const struct {
        const char *part;
        uint64_t samples, labels;
    } noted[] = {{"train", 1845091364, 5612}, {"test", 51143044, 97}};
    for (size_t i = 0; i < CLQ_COUNT_OF(noted); i++) {
        clq_dataset *data;
        OK(clq_dataset_open("synthetic:9x5x2/7/60", noted[i].part, &data));
        const int32_t *labels;
        const uint8_t *samples = samples_of(data, &labels);
        size_t count = clq_dataset_get_info(data)->samples;
        uint64_t sample_sum = 0, label_sum = 0;
        for (size_t n = 0; n < count * 90; n++) sample_sum += (n + 1) * samples[n];
        for (size_t n = 0; n < count; n++) label_sum += (n + 1) * (uint64_t)labels[n];
        assert_int_equal(sample_sum, noted[i].samples);
        assert_int_equal(label_sum, noted[i].labels);
        clq_dataset_destroy(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),          cmocka_unit_test(default_shape), cmocka_unit_test(bad_names),
        cmocka_unit_test(can_be_learned), cmocka_unit_test(never_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
