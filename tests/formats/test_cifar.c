#include "formats/formats.h"
#include "support/files.h"

enum { RECORD = 3073, PLANE = 1024 };

static unsigned char value(size_t record, size_t channel, size_t row, size_t column) {
    return (unsigned char)(record * 101 + channel * 67 + row * 7 + column * 3);
}

static const char *put_records(const char *name, size_t first, size_t count, unsigned char label) {
    static unsigned char data[3 * RECORD + 10];
    for (size_t n = 0; n < count; n++) {
        data[n * RECORD] = (unsigned char)(label + n);
        for (size_t i = 0; i < 3 * PLANE; i++)
            data[n * RECORD + 1 + i] = value(first + n, i / PLANE, i % PLANE / 32, i % 32);
    }
    return files_put(name, data, count * RECORD);
}

static void several_files(void **state) {
    (void)state;
    const char *paths[] = {put_records("a", 0, 2, 3), put_records("b", 2, 1, 9), put_records("c", 3, 3, 0)};
    static const unsigned char expected[] = {3, 4, 9, 0, 1, 2};
    clq_array images, labels;
    assert_ok(clq_cifar10_read(paths, 3, &images, &labels));
    assert_int_equal(images.dtype, CLQ_U8);
    assert_int_equal(images.rank, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(images.dims[i], ((size_t[]){6, 32, 32, 3})[i]);
    assert_int_equal(labels.rank, 1);
    assert_int_equal(labels.count, 6);
    assert_memory_equal(labels.data, expected, 6);
    const unsigned char *pixel = images.data;
    for (size_t n = 0; n < 6; n++)
        for (size_t row = 0; row < 32; row++)
            for (size_t column = 0; column < 32; column++)
                for (size_t channel = 0; channel < 3; channel++)
                    assert_int_equal(*pixel++, value(n, channel, row, column));
    clq_array_release(&images);
    clq_array_release(&labels);
}

static void refusals(void **state) {
    (void)state;
    clq_array images = {.rank = 77}, labels = {.rank = 77};
    const char *good = put_records("good", 0, 1, 1);
    const char *late = put_records("late", 0, 3, 8);
    const char *odd = files_put("odd", "odd", 3), *empty = files_put("empty", "", 0);
    assert_fails(CLQ_ERROR_FORMAT, "label 10 in record 2 (offset 6146)",
                 clq_cifar10_read((const char *[]){good, late}, 2, &images, &labels));
    assert_fails(CLQ_ERROR_FORMAT, "odd", clq_cifar10_read((const char *[]){good, odd}, 2, &images, &labels));
    assert_fails(CLQ_ERROR_FORMAT, "empty", clq_cifar10_read((const char *[]){empty}, 1, &images, &labels));
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing",
                 clq_cifar10_read((const char *[]){good, files_path("missing")}, 2, &images, &labels));
    assert_fails(CLQ_ERROR_READ, "not a regular",
                 clq_cifar10_read((const char *[]){files_folder}, 1, &images, &labels));
    assert_int_equal(images.rank, 77);
    assert_int_equal(labels.rank, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(several_files), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
