/* Every allocation of every call fails once. The call then returns MEMORY with a detail and leaks nothing (the leak
 * checker checks this), and the same call succeeds afterwards. */
#include "data/folder.h"

typedef clq_status (*attempt)(void *context, clq_dataset **data);

/* Fails the call's 1st, 2nd, … allocation until it gets through; returns how many it makes. */
static uint64_t fail_each(attempt call, void *context, bool sticky) {
    for (uint64_t nth = 1;; nth++) {
        clq_dataset *data = NULL;
        clq_memory_fail_at(nth, sticky);
        clq_status status = call(context, &data);
        uint64_t made = clq_memory_fail_at(0, false);
        if (made < nth) {
            OK(status);
            clq_dataset_destroy(data);
            return made;
        }
        assert_fails(CLQ_ERROR_MEMORY, "memory", status);
        assert_null(data);
        assert_true(nth < 1000);
    }
}

static clq_status open_train(void *context, clq_dataset **data) { return clq_dataset_open(context, "train", data); }

static clq_status open_arrays(void *context, clq_dataset **data) {
    (void)context;
    const uint8_t samples[] = {1, 2, 3, 4};
    const int32_t labels[] = {0, 1};
    return clq_dataset_arrays(samples, CLQ_U8, 2, 1, DIMS(2), labels, CLQ_I32, 0, data);
}

static void check(attempt call, void *context, uint64_t least) {
    assert_true(fail_each(call, context, false) >= least);
    assert_true(fail_each(call, context, true) >= least);
}

static void sources(void **state) {
    (void)state;
    static const unsigned char bytes[3073 * 2] = {0};
    folder f = folder_make();
    check(open_arrays, NULL, 3);
    check(open_train, (char[]){"synthetic:4x4/3/20"}, 4);
    put_file(&f, "book.txt", bytes, 200);
    char text[1100];
    snprintf(text, sizeof text, "text:%s", in_folder(&f, "book.txt"));
    check(open_train, text, 5);
    folder_clear(&f);

    put_idx(&f, "train-images-idx3-ubyte.gz", 3, DIMS(3, 2, 2), bytes);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(3), bytes);
    check(open_train, f.path, 7);
    folder_clear(&f);
    put_npy(&f, "x_train.npy", CLQ_F64, 2, DIMS(3, 4), bytes);
    put_npy(&f, "y_train.npy", CLQ_F64, 2, DIMS(3, 2), bytes);
    check(open_train, f.path, 7);
    folder_clear(&f);
    for (int i = 1; i <= 5; i++) {
        char name[] = "data_batch_0.bin";
        name[11] = (char)('0' + i);
        put_file(&f, name, bytes, sizeof bytes);
    }
    check(open_train, f.path, 9);
    folder_remove(&f);
}

/* A failed start is reported by clq_dataset_next, which may be called again; a running pipeline
 * allocates nothing. */
static void pipeline(void **state) {
    (void)state;
    for (int ahead = 0; ahead <= 2; ahead += 2) {
        clq_dataset *data;
        OK(open_arrays(NULL, &data));
        OK(clq_dataset_shuffle(data, 2, 1));
        OK(clq_dataset_prefetch(data, ahead));
        for (uint64_t nth = 1;; nth++) {
            clq_batch batch = {.count = 77};
            bool more = false;
            OK(clq_dataset_seek(data, 0, 1));
            clq_memory_fail_at(nth, false);
            clq_status status = clq_dataset_next(data, &batch, &more);
            bool through = clq_memory_fail_at(0, false) < nth;
            if (through) {
                OK(status);
                assert_true(nth > 3);
                break;
            }
            expect_failure(status, CLQ_ERROR_MEMORY, "arrays", "memory");
            assert_int_equal(batch.count, 77);
            OK(clq_dataset_next(data, &batch, &more));
            assert_true(more);
            assert_int_equal(batch.index, 1);
        }
        clq_memory_fail_at(1, true);
        for (int i = 0; i < 20; i++) {
            clq_batch batch;
            bool more;
            assert_int_equal(clq_dataset_next(data, &batch, &more), CLQ_OK);
        }
        clq_memory_fail_at(0, false);
        clq_dataset_destroy(data);
    }
}

/* Rows, which are not copied into batches, need memory for the order of samples only, and nothing after that. */
static void rows(void **state) {
    (void)state;
    clq_dataset *data;
    clq_rows r = {.count = 77};
    bool more;
    OK(open_arrays(NULL, &data));
    OK(clq_dataset_shuffle(data, 2, 1));
    clq_memory_fail_at(1, false);
    expect_failure(clq_dataset_next_rows(data, &r, &more), CLQ_ERROR_MEMORY, "arrays", "memory");
    clq_memory_fail_at(0, false);
    assert_int_equal(r.count, 77);
    for (size_t epoch = 0; epoch < 4; epoch++) {
        if (epoch == 2) clq_memory_fail_at(1, true); /* the orders of two epochs are allocated */
        for (size_t i = 0; i <= clq_dataset_batches(data); i++) {
            assert_int_equal(clq_dataset_next_rows(data, &r, &more), CLQ_OK);
            assert_int_equal(more, i < clq_dataset_batches(data));
        }
    }
    clq_memory_fail_at(0, false);
    clq_dataset_destroy(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sources), cmocka_unit_test(pipeline), cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
