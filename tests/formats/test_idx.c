#include "formats/formats.h"
#include "support/files.h"

#include <zlib.h>

static clq_status read_bytes(const void *data, size_t bytes, clq_array *out) {
    return clq_idx_read(files_put("f", data, bytes), out);
}

static void every_type(void **state) {
    (void)state;
    clq_array array;
    static const unsigned char bytes[] = {0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 253, 254, 255};
    assert_ok(read_bytes(bytes, sizeof(bytes), &array));
    assert_int_equal(array.dtype, CLQ_U8);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.dims[0], 2);
    assert_int_equal(array.dims[1], 3);
    assert_int_equal((uintptr_t)array.data % 64, 0);
    assert_memory_equal(array.data, bytes + 12, 6);
    clq_array_release(&array);
    static const unsigned char signs[] = {0, 0, 0x09, 1, 0, 0, 0, 2, 0x80, 0x7f};
    assert_ok(read_bytes(signs, sizeof(signs), &array));
    assert_int_equal(array.dtype, CLQ_I8);
    assert_int_equal(((int8_t *)array.data)[0], -128);
    clq_array_release(&array);
    static const unsigned char shorts[] = {0, 0, 0x0B, 1, 0, 0, 0, 2, 0xff, 0xfe, 0x01, 0x02};
    assert_ok(read_bytes(shorts, sizeof(shorts), &array));
    assert_int_equal(array.dtype, CLQ_I16);
    assert_int_equal(((int16_t *)array.data)[0], -2);
    assert_int_equal(((int16_t *)array.data)[1], 258);
    clq_array_release(&array);
    static const unsigned char longs[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0x01, 0x02, 0x03, 0x04};
    assert_ok(read_bytes(longs, sizeof(longs), &array));
    assert_int_equal(array.dtype, CLQ_I32);
    assert_int_equal(((int32_t *)array.data)[0], 0x01020304);
    clq_array_release(&array);
    static const unsigned char floats[] = {0, 0, 0x0D, 1, 0, 0, 0, 2, 0x3f, 0xc0, 0, 0, 0xbf, 0x80, 0, 0};
    assert_ok(read_bytes(floats, sizeof(floats), &array));
    assert_int_equal(array.dtype, CLQ_F32);
    assert_true(((float *)array.data)[0] == 1.5f);
    assert_true(((float *)array.data)[1] == -1);
    clq_array_release(&array);
    static const unsigned char doubles[] = {0, 0, 0x0E, 1, 0, 0, 0, 1, 0xc0, 0x04, 0, 0, 0, 0, 0, 0};
    assert_ok(read_bytes(doubles, sizeof(doubles), &array));
    assert_int_equal(array.dtype, CLQ_F64);
    assert_true(((double *)array.data)[0] == -2.5);
    clq_array_release(&array);
}

static void compressed(void **state) {
    (void)state;
    unsigned char bytes[16 + 100 * 28 * 28] = {0, 0, 8, 3, 0, 0, 0, 100, 0, 0, 0, 28, 0, 0, 0, 28};
    for (size_t i = 16; i < sizeof(bytes); i++) bytes[i] = (unsigned char)(i * i >> 5);
    gzFile file = gzopen(files_path("images.gz"), "wb");
    assert_int_equal(gzwrite(file, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(gzclose(file), Z_OK);
    clq_array array;
    assert_ok(clq_idx_read(files_path("images.gz"), &array));
    assert_int_equal(array.rank, 3);
    assert_int_equal(array.dims[0], 100);
    assert_int_equal(array.count, 78400);
    assert_memory_equal(array.data, bytes + 16, 78400);
    clq_array_release(&array);
}

static void empty_dimension(void **state) {
    (void)state;
    clq_array array;
    static const unsigned char none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9};
    assert_ok(read_bytes(none, sizeof(none), &array));
    assert_int_equal(array.count, 0);
    clq_array_release(&array);
}

static void lies(void **state) {
    (void)state;
    static const struct {
        unsigned char data[44];
        size_t bytes;
        const char *says;
    } cases[] = {
        {{0}, 0, "only 0 bytes"},
        {{0, 0, 8}, 3, "only 3 bytes"},
        {{1, 0, 8, 1, 0, 0, 0, 0}, 8, "starts with 01 00 08 01"},
        {{0, 1, 8, 1, 0, 0, 0, 0}, 8, "no IDX file"},
        {{0, 0, 0x0A, 1, 0, 0, 0, 0}, 8, "no IDX file"},
        {{0, 0, 8, 0, 7}, 5, "0 dimensions"},
        {{0, 0, 8, 9}, 40, "9 dimensions"},
        {{0, 0, 8, 255}, 40, "255 dimensions"},
        {{0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0}, 11, "its header alone is 12"},
        {{0, 0, 8, 1, 0, 0, 0, 5, 1, 2, 3, 4},
         12,
         "truncated IDX: (5,) u8 needs 5 bytes after the header, the file has 4"},
        {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}, 12, "oversized IDX: (3,) u8 needs 3 bytes"},
        {{0, 0, 0x0D, 1, 0, 0, 0, 1, 1, 2, 3}, 11, "truncated IDX: (1,) f32 needs 4 bytes"},
        /* 2^32-1 cubed overflows; 2^24 x 2^24 x 2^16 is 0 modulo 2^64. */
        {{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 16, "more than fits in memory"},
        {{0, 0, 8, 3, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0}, 16, "more than fits in memory"},
        {{0, 0, 0x0E, 2, 0x80, 0, 0, 0, 0x40, 0, 0, 0}, 12, "more than fits in memory"},
        {{0, 0, 8, 1, 255, 255, 255, 255}, 8, "truncated IDX: (4294967295,) u8"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_array array = {.rank = 77};
        assert_fails(CLQ_ERROR_FORMAT, cases[i].says, read_bytes(cases[i].data, cases[i].bytes, &array));
        assert_int_equal(array.rank, 77);
    }
    clq_array array;
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing", clq_idx_read(files_path("missing"), &array));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type), cmocka_unit_test(compressed),
                                       cmocka_unit_test(empty_dimension), cmocka_unit_test(lies)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
