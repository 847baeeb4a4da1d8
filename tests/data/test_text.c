/* Texts: a sample is a window of a file's bytes, and the label of each byte is the next byte. Also what
 * clq_dataset_look reports of datasets. Byte n of the test's texts follows from n, so that a window tells where it
 * begins. */
#include "data/dataset.h"
#include "data/folder.h"

enum { BYTES = 1000, HELD = BYTES / 10, TRAINED = BYTES - HELD };

/* Each pair of neighbouring bytes occurs at one place only. */
static unsigned char byte_at(size_t n) { return (unsigned char)(n % 2 ? n / 2 % 125 : 128 + n / 250); }

static void put_text(folder *f, const char *name, size_t bytes) {
    unsigned char text[BYTES];
    for (size_t n = 0; n < bytes; n++) text[n] = byte_at(n);
    put_file(f, name, text, bytes);
}

static clq_dataset *opened(folder *f, const char *part) {
    char name[1100];
    clq_dataset *data = NULL;
    snprintf(name, sizeof name, "text:%s/book.txt", f->path);
    OK(clq_dataset_open(name, part, &data));
    return data;
}

/* Returns where a window of the batch begins in the file. Checks its bytes and labels. */
static size_t place_of(const clq_batch *batch, size_t row, size_t window, size_t first, size_t end) {
    const unsigned char *tokens = (const unsigned char *)batch->samples + row * window;
    const int32_t *labels = (const int32_t *)batch->labels + row * window;
    size_t at = first;
    while (at < end && !(byte_at(at) == tokens[0] && byte_at(at + 1) == tokens[1])) at++;
    assert_true(at + window < end);
    for (size_t i = 0; i < window; i++) {
        assert_int_equal(tokens[i], byte_at(at + i));
        assert_int_equal(labels[i], byte_at(at + i + 1));
    }
    return at;
}

static void windows_lie_side_by_side(void **state) {
    (void)state;
    folder f = folder_make();
    put_text(&f, "book.txt", BYTES);
    for (int test = 0; test < 2; test++) {
        clq_dataset *data = opened(&f, test ? "test" : "train");
        const clq_dataset_info *info = clq_dataset_get_info(data);
        const size_t first = test ? TRAINED : 0, end = test ? BYTES : TRAINED;
        OK(clq_dataset_window(data, 16));
        assert_int_equal(info->samples, (end - first - 1) / 16);
        assert_int_equal(info->rank, 1);
        assert_int_equal(info->shape[0], 16);
        assert_int_equal(info->sample_elements, 16);
        assert_int_equal(info->label_elements, 16);
        assert_int_equal(info->labels[0].elements, 16);
        assert_int_equal(info->sample_dtype, CLQ_U8);
        OK(clq_dataset_batch(data, 4, false));
        for (size_t seen = 0;;) {
            clq_batch batch;
            bool more = true;
            OK(clq_dataset_next(data, &batch, &more));
            if (!more) {
                assert_int_equal(seen, info->samples);
                break;
            }
            for (size_t row = 0; row < batch.count; row++, seen++)
                assert_int_equal(place_of(&batch, row, 16, first, end), first + 16 * seen);
        }
        clq_dataset_destroy(data);
    }
    folder_remove(&f);
}

/* Each epoch begins at some place within the first window, and has each window from there on once. All ways to walk
 * give the same windows. */
static void shuffled_windows_begin_elsewhere(void **state) {
    (void)state;
    enum { WINDOW = 16, WINDOWS = (TRAINED - 1) / WINDOW - 1, EPOCHS = 6 };
    folder f = folder_make();
    put_text(&f, "book.txt", BYTES);
    clq_dataset *data = opened(&f, "train"), *again = opened(&f, "train");
    bool begins[WINDOW] = {false};
    OK(clq_dataset_window(data, WINDOW));
    OK(clq_dataset_shuffle(data, SIZE_MAX, 5));
    OK(clq_dataset_batch(data, WINDOWS, false));
    OK(clq_dataset_shuffle(again, SIZE_MAX, 5)); /* in another order */
    OK(clq_dataset_batch(again, WINDOWS, false));
    OK(clq_dataset_window(again, WINDOW));
    OK(clq_dataset_prefetch(again, 2));
    assert_int_equal(clq_dataset_get_info(data)->samples, WINDOWS);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        clq_batch batch, other;
        bool more = true, seen[WINDOWS] = {false};
        OK(clq_dataset_seek(data, epoch, 0));
        OK(clq_dataset_next(data, &batch, &more));
        OK(clq_dataset_next(again, &other, &more));
        assert_int_equal(batch.count, WINDOWS);
        assert_memory_equal(batch.samples, other.samples, WINDOWS * WINDOW);
        assert_memory_equal(batch.labels, other.labels, WINDOWS * WINDOW * sizeof(int32_t));
        OK(clq_dataset_next(again, &other, &more));
        assert_false(more);
        const size_t phase = place_of(&batch, 0, WINDOW, 0, TRAINED) % WINDOW;
        begins[phase] = true;
        for (size_t row = 0; row < WINDOWS; row++) {
            const size_t at = place_of(&batch, row, WINDOW, 0, TRAINED);
            assert_int_equal(at % WINDOW, phase);
            assert_true(at / WINDOW < WINDOWS && !seen[at / WINDOW]);
            seen[at / WINDOW] = true;
        }
        /* rows that are not copied into batches are the same */
        clq_rows rows;
        unsigned char tokens[WINDOWS * WINDOW];
        OK(clq_dataset_seek(data, epoch, 0));
        OK(clq_dataset_next_rows(data, &rows, &more));
        clq_rows_copy(&rows, 0, tokens);
        OK(clq_dataset_seek(data, epoch, 0));
        OK(clq_dataset_next(data, &batch, &more));
        assert_memory_equal(tokens, batch.samples, sizeof tokens);
    }
    size_t places = 0;
    for (size_t i = 0; i < WINDOW; i++) places += begins[i];
    assert_true(places > 2);
    clq_dataset_destroy(data);
    clq_dataset_destroy(again);
    folder_remove(&f);
}

static void windows_are_taken_and_set_anew(void **state) {
    (void)state;
    folder f = folder_make();
    put_text(&f, "book.txt", BYTES);
    clq_dataset *data = opened(&f, "train");
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_int_equal(info->shape[0], 128); /* the default window */
    OK(clq_dataset_take(data, 3));
    assert_int_equal(info->samples, 3);
    OK(clq_dataset_window(data, 400));
    assert_int_equal(info->samples, 2);
    OK(clq_dataset_shuffle(data, 10, 1));
    assert_int_equal(info->samples, 1);
    OK(clq_dataset_shuffle(data, 0, 1));
    OK(clq_dataset_window(data, 1));
    assert_int_equal(info->samples, 3);
    assert_int_equal(info->classes, 132);
    clq_dataset_destroy(data);
    folder_remove(&f);
}

/* The index of the smallest label is right for any window length, however often the length was set. */
static void the_smallest_label_has_its_window(void **state) {
    enum { AT = 300, LENGTHS = 4 };
    static const size_t lengths[LENGTHS] = {16, 400, 1, 7};
    (void)state;
    folder f = folder_make();
    unsigned char text[BYTES];
    memset(text, 'b', sizeof text);
    text[AT + 1] = 'a'; /* the label of byte AT */
    put_file(&f, "book.txt", text, sizeof text);
    clq_dataset *data = opened(&f, "train");
    const clq_dataset_info *info = clq_dataset_get_info(data);
    assert_int_equal(info->label_least_at, AT / 128);
    for (size_t i = 0; i < LENGTHS; i++) {
        OK(clq_dataset_window(data, lengths[i]));
        assert_true(info->label_least == 'a');
        assert_int_equal(info->label_least_at, AT / lengths[i]);
        assert_int_equal(info->labels[0].least_at, AT / lengths[i]);
    }
    clq_dataset_destroy(data);
    folder_remove(&f);
}

static void bad_texts(void **state) {
    (void)state;
    folder f = folder_make();
    char name[1100];
    clq_dataset *data = NULL;
    snprintf(name, sizeof name, "text:%s", in_folder(&f, "book.txt"));
    expect_failure(clq_dataset_open(name, "train", &data), CLQ_ERROR_NOT_FOUND, "book.txt", "No such file");
    expect_failure(clq_dataset_open("text:", "train", &data), CLQ_ERROR_ARGUMENT, "'text:'", "text:FILE");
    put_text(&f, "book.txt", 39);
    expect_failure(clq_dataset_open(name, "train", &data), CLQ_ERROR_FORMAT, "book.txt",
                   "39 bytes: at least 40 are needed");
    expect_failure(clq_dataset_open(name, "both", &data), CLQ_ERROR_ARGUMENT, "'both'", "train or test");
    assert_null(data);
    put_text(&f, "book.txt", BYTES);
    data = opened(&f, "train");
    expect_failure(clq_dataset_window(data, 0), CLQ_ERROR_ARGUMENT, "1 to 449", "0 were asked for");
    expect_failure(clq_dataset_window(data, 450), CLQ_ERROR_ARGUMENT, "has 899 bytes", "450 were asked for");
    static const float weights[BYTES];
    expect_failure(clq_dataset_set_weights(data, weights), CLQ_ERROR_ARGUMENT, "is a text", "no further weights");
    expect_failure(clq_dataset_add_labels(data, weights, CLQ_F32, 1), CLQ_ERROR_ARGUMENT, "is a text",
                   "no further labels");
    expect_failure(clq_dataset_add_samples(data, weights, CLQ_U8, 1), CLQ_ERROR_ARGUMENT, "is a text",
                   "no further samples");
    assert_int_equal(clq_dataset_get_info(data)->shape[0], 128);
    clq_dataset_destroy(data);
    OK(clq_dataset_arrays(weights, CLQ_F32, 2, 0, NULL, weights, CLQ_F32, 1, &data));
    expect_failure(clq_dataset_window(data, 3), CLQ_ERROR_ARGUMENT, "arrays is no text", "windows");
    clq_dataset_destroy(data);
    folder_remove(&f);
}

/* ---- looking ---- */

static void expect_sight(const char *name, const char *part, unsigned rank, const size_t *shape, size_t classes) {
    clq_dataset_sight sight = {.rank = 99};
    OK(clq_dataset_look(name, part, &sight));
    assert_int_equal(sight.rank, rank);
    for (unsigned i = 0; i < rank; i++) assert_int_equal(sight.shape[i], shape[i]);
    assert_int_equal(sight.classes, classes);
}

static void looks_tell_shapes_and_classes(void **state) {
    (void)state;
    static const unsigned char bytes[3073] = {4, 0, 2};
    static const double floats[12] = {0};
    folder f = folder_make();
    expect_sight("synthetic", "train", 2, DIMS(28, 28), 10);
    expect_sight("synthetic:8x6x3/5/20", "test", 3, DIMS(8, 6, 3), 5);
    expect_sight("text:anything", "train", 0, NULL, 256);
    for (int gz = 0; gz < 2; gz++) {
        put_idx(&f, gz ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", 3, DIMS(3, 5, 2), bytes);
        put_idx(&f, gz ? "train-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte", 1, DIMS(3), bytes);
        expect_sight(f.path, "train", 2, DIMS(5, 2), 5);
        folder_clear(&f);
    }
    put_npy(&f, "x_test.npy", CLQ_F64, 2, DIMS(3, 4), floats);
    put_npy(&f, "y_test.npy", CLQ_F64, 2, DIMS(3, 2), floats);
    expect_sight(f.path, "test", 1, DIMS(4), 2);
    put_npy(&f, "y_test.npy", CLQ_U8, 1, DIMS(3), bytes);
    expect_sight(f.path, "test", 1, DIMS(4), 5);
    put_npy(&f, "x_test.npy", CLQ_F64, 1, DIMS(3), floats);
    put_npy(&f, "y_test.npy", CLQ_U8, 1, DIMS(3), floats); /* all zeros say nothing */
    expect_sight(f.path, "test", 1, DIMS(1), 0);
    folder_clear(&f);
    put_file(&f, "test_batch.bin", bytes, sizeof bytes);
    expect_sight(f.path, "test", 3, DIMS(32, 32, 3), 10);
    folder_remove(&f);
}

static void bad_sights(void **state) {
    (void)state;
    static const unsigned char bytes[64] = {0};
    folder f = folder_make();
    clq_dataset_sight sight = {.rank = 99};
    expect_failure(clq_dataset_look("synthetic:x", "train", &sight), CLQ_ERROR_ARGUMENT, "synthetic:x", "SHAPE");
    expect_failure(clq_dataset_look("/no/such/folder", "train", &sight), CLQ_ERROR_NOT_FOUND, "/no/such/folder",
                   "no data set");
    expect_failure(clq_dataset_look(f.path, "train", &sight), CLQ_ERROR_NOT_FOUND, f.path, "no train set");
    put_npy(&f, "x_train.npy", CLQ_U8, 2, DIMS(3, 4), bytes);
    expect_failure(clq_dataset_look(f.path, "train", &sight), CLQ_ERROR_NOT_FOUND, "y_train.npy", "needed");
    put_npy(&f, "y_train.npy", CLQ_U8, 1, DIMS(0), bytes);
    expect_failure(clq_dataset_look(f.path, "train", &sight), CLQ_ERROR_FORMAT, "y_train.npy", "no labels");
    put_file(&f, "x_train.npy", bytes, 20);
    expect_failure(clq_dataset_look(f.path, "train", &sight), CLQ_ERROR_FORMAT, "x_train.npy", "no NPY file");
    folder_clear(&f);
    put_file(&f, "train-images-idx3-ubyte.gz", "\x1f\x8b not gzip, though it begins as such", 30);
    put_idx(&f, "train-labels-idx1-ubyte", 1, DIMS(3), bytes);
    expect_failure(clq_dataset_look(f.path, "train", &sight), CLQ_ERROR_FORMAT, "train-images-idx3-ubyte.gz", "gzip");
    assert_int_equal(sight.rank, 99);
    folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_lie_side_by_side),
        cmocka_unit_test(shuffled_windows_begin_elsewhere),
        cmocka_unit_test(windows_are_taken_and_set_anew),
        cmocka_unit_test(the_smallest_label_has_its_window),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(looks_tell_shapes_and_classes),
        cmocka_unit_test(bad_sights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
