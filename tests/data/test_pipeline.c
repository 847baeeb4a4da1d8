/* The stages of a dataset: the order of samples, how samples are cut into batches, and that neither prefetching nor
 * seeking changes this. Sample number n is {n, n >> 8, n + 1} and its label is n, so that a batch tells which samples
 * it holds. */
#include "data/folder.h"

enum { ELEMENTS = 3, SAMPLES_MAX = 1000 };

static clq_dataset *numbered(size_t samples) {
    static uint8_t values[SAMPLES_MAX][ELEMENTS];
    static int32_t labels[SAMPLES_MAX];
    for (size_t n = 0; n < samples; n++) {
        values[n][0] = (uint8_t)n;
        values[n][1] = (uint8_t)(n >> 8);
        values[n][2] = (uint8_t)(n + 1);
        labels[n] = (int32_t)n;
    }
    clq_dataset *data;
    OK(clq_dataset_arrays(values, CLQ_U8, samples, 1, DIMS(ELEMENTS), labels, CLQ_I32, 0, &data));
    return data;
}

/* Reads the next batch's sample numbers into `out`; 0 at the end of the epoch. */
static size_t next_numbers(clq_dataset *data, size_t *out, clq_batch *batch) {
    bool more = true;
    OK(clq_dataset_next(data, batch, &more));
    if (!more) return 0;
    assert_true(batch->count > 0);
    assert_int_equal((uintptr_t)batch->samples % 64, 0);
    assert_int_equal((uintptr_t)batch->labels % 64, 0);
    for (size_t i = 0; i < batch->count; i++) {
        const uint8_t *sample = (const uint8_t *)batch->samples + i * ELEMENTS;
        out[i] = sample[0] | (size_t)sample[1] << 8;
        assert_int_equal(sample[2], (uint8_t)(out[i] + 1));
        assert_int_equal(((const int32_t *)batch->labels)[i], out[i]);
    }
    return batch->count;
}

/* One epoch's numbers; checks epoch and index of its batches and that all but the last are full. */
static size_t read_epoch(clq_dataset *data, uint64_t epoch, size_t *out) {
    clq_batch batch;
    size_t total = 0, index = 0, full = clq_dataset_batch_size(data), last = full;
    for (size_t count; (count = next_numbers(data, out + total, &batch)) > 0; total += count, index++) {
        assert_int_equal(batch.epoch, epoch);
        assert_int_equal(batch.index, index);
        assert_int_equal(last, full);
        last = count;
    }
    assert_int_equal(index, clq_dataset_batches(data));
    return total;
}

static void expect_permutation(const size_t *numbers, size_t count) {
    bool seen[SAMPLES_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        assert_true(numbers[i] < count && !seen[numbers[i]]);
        seen[numbers[i]] = true;
    }
}

/* ---- batches ---- */

static void ragged_last_batch(void **state) {
    (void)state;
    clq_dataset *data = numbered(10);
    size_t numbers[10];
    clq_batch batch = {.count = 77};
    OK(clq_dataset_batch(data, 4, false));
    assert_int_equal(clq_dataset_batches(data), 3);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(next_numbers(data, numbers, &batch), i < 2 ? 4 : 2);
            assert_int_equal(numbers[0], 4 * i);
            assert_int_equal(batch.epoch, epoch);
            assert_int_equal(batch.index, i);
        }
        bool more = true;
        clq_batch untouched = {.count = 77};
        OK(clq_dataset_next(data, &untouched, &more));
        assert_false(more);
        assert_int_equal(untouched.count, 77);
    }
    clq_dataset_destroy(data);
}

static void remainder_is_dropped(void **state) {
    (void)state;
    size_t numbers[12];
    for (size_t samples = 8; samples <= 12; samples++)
        for (int ahead = 0; ahead <= 2; ahead += 2) {
            clq_dataset *data = numbered(samples);
            OK(clq_dataset_batch(data, 4, true));
            OK(clq_dataset_prefetch(data, ahead));
            assert_int_equal(clq_dataset_batches(data), samples / 4);
            assert_int_equal(read_epoch(data, 0, numbers), samples / 4 * 4);
            assert_int_equal(read_epoch(data, 1, numbers), samples / 4 * 4);
            clq_dataset_destroy(data);
        }
    clq_dataset *data = numbered(3);
    OK(clq_dataset_batch(data, 4, true));
    OK(clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));
    for (uint64_t epoch = 0; epoch < 3; epoch++) assert_int_equal(read_epoch(data, epoch, numbers), 0);
    clq_dataset_destroy(data);
}

static void batch_larger_than_the_set(void **state) {
    (void)state;
    size_t numbers[5];
    clq_dataset *data = numbered(5);
    OK(clq_dataset_batch(data, SIZE_MAX, false));
    OK(clq_dataset_prefetch(data, INT32_MAX));
    assert_int_equal(clq_dataset_batches(data), 1);
    assert_int_equal(read_epoch(data, 0, numbers), 5);
    assert_int_equal(clq_dataset_batch_size(data), SIZE_MAX);
    clq_dataset_destroy(data);
}

static void take(void **state) {
    (void)state;
    size_t numbers[20];
    clq_dataset *data = numbered(20);
    OK(clq_dataset_shuffle(data, 20, 1));
    OK(clq_dataset_take(data, 7));
    OK(clq_dataset_batch(data, 3, false));
    assert_int_equal(clq_dataset_get_info(data)->samples, 7);
    assert_int_equal(clq_dataset_get_info(data)->classes, 20);
    assert_int_equal(clq_dataset_batches(data), 3);
    assert_int_equal(read_epoch(data, 0, numbers), 7);
    expect_permutation(numbers, 7);
    OK(clq_dataset_take(data, 21));
    assert_int_equal(read_epoch(data, 0, numbers), 20);
    expect_permutation(numbers, 20);
    clq_dataset_destroy(data);
}

static void refused_stages(void **state) {
    (void)state;
    clq_dataset *data = numbered(5);
    expect_failure(clq_dataset_batch(data, 0, false), CLQ_ERROR_ARGUMENT, "arrays", "at least 1");
    expect_failure(clq_dataset_take(data, 0), CLQ_ERROR_ARGUMENT, "arrays", "at least 1");
    expect_failure(clq_dataset_prefetch(data, -2), CLQ_ERROR_ARGUMENT, "arrays", "-2");
    expect_failure(clq_dataset_seek(data, 0, 6), CLQ_ERROR_ARGUMENT, "arrays", "has 5");
    clq_dataset_destroy(data);
}

/* ---- shuffling ---- */

static void shuffle_is_a_permutation(void **state) {
    (void)state;
    size_t first[SAMPLES_MAX], second[SAMPLES_MAX], again[SAMPLES_MAX], other[SAMPLES_MAX];
    clq_dataset *data = numbered(1000), *twin = numbered(1000);
    OK(clq_dataset_shuffle(data, 5000, 42));
    OK(clq_dataset_shuffle(twin, 1000, 42));
    OK(clq_dataset_batch(data, 64, false));
    OK(clq_dataset_batch(twin, 7, false)); /* the order has nothing to do with the batch */
    assert_int_equal(read_epoch(data, 0, first), 1000);
    assert_int_equal(read_epoch(data, 1, second), 1000);
    expect_permutation(first, 1000);
    expect_permutation(second, 1000);
    assert_memory_not_equal(first, second, sizeof first);
    read_epoch(twin, 0, again);
    assert_memory_equal(first, again, sizeof first);
    read_epoch(twin, 1, again);
    assert_memory_equal(second, again, sizeof second);
    OK(clq_dataset_shuffle(twin, 1000, 43));
    read_epoch(twin, 0, other);
    assert_memory_not_equal(first, other, sizeof first);
    OK(clq_dataset_shuffle(twin, 0, 43));
    read_epoch(twin, 0, other);
    for (size_t i = 0; i < 1000; i++) assert_int_equal(other[i], i);
    clq_dataset_destroy(data);
    clq_dataset_destroy(twin);
}

/* Over many epochs, each of the 24 orders of 4 samples occurs equally often (here: within 5 standard deviations). */
static void shuffle_is_uniform(void **state) {
    (void)state;
    enum { EPOCHS = 24000 };
    size_t seen[256] = {0}, numbers[4], orders = 0;
    clq_dataset *data = numbered(4);
    OK(clq_dataset_shuffle(data, 4, 3));
    OK(clq_dataset_batch(data, 4, false));
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        read_epoch(data, epoch, numbers);
        seen[numbers[0] | numbers[1] << 2 | numbers[2] << 4 | numbers[3] << 6]++;
    }
    for (size_t i = 0; i < 256; i++)
        if (seen[i] > 0) {
            orders++;
            assert_within(seen[i], 1000 - 155, 1000 + 155);
        }
    assert_int_equal(orders, 24);
    clq_dataset_destroy(data);
}

/* tf.data's shuffle buffer, spelled out as a queue of `buffer` samples. The drawn sample leaves, the oldest sample
 * takes its place, and the next sample of the source joins at the end. */
static void model_of_a_buffer(size_t samples, size_t buffer, uint64_t seed, uint64_t epoch, size_t *out) {
    size_t queue[SAMPLES_MAX * 2], begin = 0, end = 0, source = 0;
    clq_random random = clq_random_start(seed, (uint64_t)2 << 56 | epoch);
    for (size_t i = 0; i < samples; i++) {
        while (source < samples && end - begin < buffer) queue[end++] = source++;
        size_t drawn = begin + (size_t)clq_random_below(&random, end - begin);
        out[i] = queue[drawn];
        queue[drawn] = queue[begin++];
    }
}

static void shuffle_with_a_buffer(void **state) {
    (void)state;
    static const size_t buffers[] = {1, 2, 3, 10, 99, 100, 101, 1000};
    size_t numbers[100], expected[100];
    for (size_t b = 0; b < CLQ_COUNT_OF(buffers); b++) {
        clq_dataset *data = numbered(100);
        OK(clq_dataset_shuffle(data, buffers[b], 11));
        OK(clq_dataset_batch(data, 9, false));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            read_epoch(data, epoch, numbers);
            expect_permutation(numbers, 100);
            model_of_a_buffer(100, buffers[b], 11, epoch, expected);
            assert_memory_equal(numbers, expected, sizeof numbers);
            /* no sample can leave before it has come in */
            for (size_t i = 0; i < 100; i++) assert_true(numbers[i] < i + buffers[b]);
        }
        clq_dataset_destroy(data);
    }
}

/* ---- seeking and prefetching ---- */

static void seek_is_running_there(void **state) {
    (void)state;
    enum { EPOCHS = 3 };
    for (int ahead = 0; ahead <= 3; ahead += 3) {
        size_t run[EPOCHS][23], numbers[23];
        clq_dataset *data = numbered(23);
        OK(clq_dataset_shuffle(data, 23, 5));
        OK(clq_dataset_batch(data, 5, false));
        OK(clq_dataset_prefetch(data, ahead));
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) read_epoch(data, epoch, run[epoch]);
        for (uint64_t epoch = EPOCHS; epoch-- > 0;)
            for (uint64_t index = 0; index <= 5; index++) {
                clq_batch batch;
                OK(clq_dataset_seek(data, epoch, index));
                size_t count = next_numbers(data, numbers, &batch);
                assert_int_equal(count, index == 5 ? 0 : index == 4 ? 3 : 5);
                assert_memory_equal(numbers, run[epoch] + index * 5, count * sizeof numbers[0]);
                if (count > 0) {
                    assert_int_equal(batch.epoch, epoch);
                    assert_int_equal(batch.index, index);
                }
                /* and from there on */
                if (epoch + 1 < EPOCHS) {
                    while (count > 0) count = next_numbers(data, numbers, &batch);
                    read_epoch(data, epoch + 1, numbers);
                    assert_memory_equal(numbers, run[epoch + 1], sizeof numbers);
                }
            }
        OK(clq_dataset_seek(data, UINT64_MAX - 1, 2)); /* any epoch */
        clq_batch batch;
        assert_int_equal(next_numbers(data, numbers, &batch), 5);
        clq_dataset_destroy(data);
    }
}

static void prefetch_changes_nothing(void **state) {
    (void)state;
    static const int ahead[] = {1, 2, 7, 100, CLQ_PREFETCH_AUTO};
    size_t plain[200], fetched[200];
    for (size_t a = 0; a < CLQ_COUNT_OF(ahead); a++)
        for (size_t batch = 1; batch <= 200; batch = batch * 3 + 1) {
            clq_dataset *one = numbered(200), *two = numbered(200);
            OK(clq_dataset_prefetch(two, ahead[a]));
            OK(clq_dataset_shuffle(one, 50, 9));
            OK(clq_dataset_shuffle(two, 50, 9));
            OK(clq_dataset_batch(one, batch, false));
            OK(clq_dataset_batch(two, batch, false));
            for (uint64_t epoch = 0; epoch < 4; epoch++) {
                assert_int_equal(read_epoch(one, epoch, plain), 200);
                assert_int_equal(read_epoch(two, epoch, fetched), 200);
                assert_memory_equal(plain, fetched, sizeof plain);
            }
            clq_dataset_destroy(one);
            clq_dataset_destroy(two);
        }
}

static void copy_array(const clq_rows *rows, clq_feed_role role, unsigned index, void *to) {
    const unsigned array = clq_feed_find(rows->feed, role, index);
    assert_true(array < rows->feed->count);
    clq_rows_copy(rows, array, to);
}

/* Rows, which are not copied, hold the same samples as batches, whole and in parts. A walk may take a batch after rows,
 * or rows after a batch, and goes on from the same place. */
static void rows_are_those_of_batches(void **state) {
    (void)state;
    enum { COUNT = 37, BATCH = 8 };
    static const size_t buffers[] = {0, 1, 5, COUNT, SIZE_MAX};
    for (size_t b = 0; b < CLQ_COUNT_OF(buffers); b++)
        for (int drop = 0; drop < 2; drop++) {
            clq_dataset *one = numbered(COUNT), *two = numbered(COUNT);
            clq_dataset *both[] = {one, two};
            for (size_t i = 0; i < 2; i++) {
                OK(clq_dataset_shuffle(both[i], buffers[b], 4));
                OK(clq_dataset_batch(both[i], BATCH, drop));
                OK(clq_dataset_prefetch(both[i], 2));
            }
            for (size_t n = 0; n < 3 * (COUNT / BATCH + 2); n++) {
                clq_batch batch;
                clq_rows rows;
                bool more, more_rows;
                uint8_t samples[BATCH][ELEMENTS];
                int32_t labels[BATCH];
                OK(clq_dataset_next(one, &batch, &more));
                if (n % 7 == 6) { /* the other walk */
                    clq_batch same;
                    OK(clq_dataset_next(two, &same, &more_rows));
                    assert_int_equal(more, more_rows);
                    if (more) assert_memory_equal(batch.samples, same.samples, batch.count * ELEMENTS);
                    continue;
                }
                OK(clq_dataset_next_rows(two, &rows, &more_rows));
                assert_int_equal(more, more_rows);
                if (!more) continue;
                assert_int_equal(rows.count, batch.count);
                copy_array(&rows, CLQ_FEED_SAMPLES, 0, samples);
                copy_array(&rows, CLQ_FEED_LABELS, 0, labels);
                assert_memory_equal(samples, batch.samples, batch.count * ELEMENTS);
                assert_memory_equal(labels, batch.labels, batch.count * sizeof labels[0]);
                clq_rows part = clq_rows_part(&rows, 2, batch.count - 3);
                memset(samples, 0, sizeof samples);
                copy_array(&part, CLQ_FEED_SAMPLES, 0, samples);
                copy_array(&part, CLQ_FEED_LABELS, 0, labels);
                assert_memory_equal(samples, (const uint8_t *)batch.samples + 2 * ELEMENTS, part.count * ELEMENTS);
                assert_memory_equal(labels, (const int32_t *)batch.labels + 2, part.count * sizeof labels[0]);
            }
            clq_dataset_destroy(one);
            clq_dataset_destroy(two);
        }
}

/* A lent batch stays unchanged however long the caller keeps it, while the prefetching thread works on. */
static void a_lent_batch_is_left_alone(void **state) {
    (void)state;
    clq_dataset *data = numbered(60);
    size_t numbers[4];
    clq_batch batch;
    OK(clq_dataset_batch(data, 4, false));
    OK(clq_dataset_prefetch(data, 2));
    for (size_t i = 0; i < 15; i++) {
        assert_int_equal(next_numbers(data, numbers, &batch), 4);
        usleep(300); /* lets the thread run into a full ring */
        const uint8_t *samples = batch.samples;
        for (size_t n = 0; n < 4; n++) assert_int_equal(samples[n * ELEMENTS], i * 4 + n);
    }
    clq_dataset_destroy(data);
}

static void stopped_anywhere(void **state) {
    (void)state;
    size_t numbers[40];
    clq_batch batch;
    for (int stop = 0; stop < 5; stop++)
        for (size_t taken = 0; taken < 12; taken++) {
            clq_dataset *data = numbered(40);
            OK(clq_dataset_shuffle(data, 40, 2));
            OK(clq_dataset_batch(data, 8, false));
            OK(clq_dataset_prefetch(data, 3));
            for (size_t i = 0; i < taken; i++) next_numbers(data, numbers, &batch);
            if (stop == 1) OK(clq_dataset_seek(data, 9, 1));
            if (stop == 2) OK(clq_dataset_batch(data, 6, true));
            if (stop == 3) OK(clq_dataset_prefetch(data, 0));
            if (stop == 4) OK(clq_dataset_take(data, 13));
            if (stop > 0) {
                assert_true(next_numbers(data, numbers, &batch) > 0);
                assert_int_equal(batch.epoch, stop == 1 ? 9 : 0);
                assert_int_equal(batch.index, stop == 1 ? 1 : 0);
            }
            clq_dataset_destroy(data);
        }
    clq_dataset_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ragged_last_batch),
        cmocka_unit_test(remainder_is_dropped),
        cmocka_unit_test(batch_larger_than_the_set),
        cmocka_unit_test(take),
        cmocka_unit_test(refused_stages),
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(shuffle_is_uniform),
        cmocka_unit_test(shuffle_with_a_buffer),
        cmocka_unit_test(seek_is_running_there),
        cmocka_unit_test(prefetch_changes_nothing),
        cmocka_unit_test(rows_are_those_of_batches),
        cmocka_unit_test(a_lent_batch_is_left_alone),
        cmocka_unit_test(stopped_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
