#include "formats/formats.h"
#include "formats/fixtures.h"
#include "support/files.h"

static void read_fixture(const void *data, size_t bytes, clq_dtype dtype, unsigned rank, const size_t *dims,
                         clq_array *out) {
    assert_ok(clq_npy_read(files_put("f.npy", data, bytes), out));
    assert_int_equal(out->dtype, dtype);
    assert_int_equal(out->rank, rank);
    for (unsigned i = 0; i < rank; i++) assert_int_equal(out->dims[i], dims[i]);
    assert_int_equal((uintptr_t)out->data % 64, 0);
}

static void what_numpy_writes(void **state) {
    (void)state;
    clq_array array;
    read_fixture(npy_f4, sizeof(npy_f4), CLQ_F32, 2, (size_t[]){2, 3}, &array);
    for (int i = 0; i < 6; i++) assert_true(((float *)array.data)[i] == 1.5f * (float)i);
    clq_array_release(&array);
    read_fixture(npy_fortran_big, sizeof(npy_fortran_big), CLQ_I16, 3, (size_t[]){2, 3, 2}, &array);
    for (int i = 0; i < 12; i++) assert_int_equal(((int16_t *)array.data)[i], i * 1000 - 5000);
    clq_array_release(&array);
    read_fixture(npy_v2_u1, sizeof(npy_v2_u1), CLQ_U8, 1, (size_t[]){4}, &array);
    assert_memory_equal(array.data, "\x01\x02\xfa\xff", 4);
    clq_array_release(&array);
    read_fixture(npy_v3_bool, sizeof(npy_v3_bool), CLQ_BOOL, 2, (size_t[]){3, 1}, &array);
    assert_memory_equal(array.data, "\1\0\1", 3);
    clq_array_release(&array);
    read_fixture(npy_scalar, sizeof(npy_scalar), CLQ_F64, 0, NULL, &array);
    assert_int_equal(array.count, 1);
    assert_true(*(double *)array.data == -2.5);
    clq_array_release(&array);
    read_fixture(npy_empty, sizeof(npy_empty), CLQ_I64, 2, (size_t[]){0, 4}, &array);
    assert_int_equal(array.count, 0);
    clq_array_release(&array);
    read_fixture(npy_big_f8, sizeof(npy_big_f8), CLQ_F64, 1, (size_t[]){2}, &array);
    assert_true(((double *)array.data)[0] == 1 && ((double *)array.data)[1] == -0.1);
    clq_array_release(&array);
    assert_fails(CLQ_ERROR_UNSUPPORTED, "'<c8'",
                 clq_npy_read(files_put("c", npy_complex, sizeof(npy_complex)), &array));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "structured",
                 clq_npy_read(files_put("r", npy_record, sizeof(npy_record)), &array));
}

/* Reads a version 1.0 file with this header and with this many bytes after it. */
static clq_status read_header(const char *header, size_t data_bytes, clq_array *out) {
    char file[1024] = "\x93NUMPY\1\0";
    size_t length = strlen(header);
    file[8] = (char)length;
    file[9] = (char)(length >> 8);
    memcpy(file + 10, header, length);
    memset(file + 10 + length, 2, data_bytes);
    return clq_npy_read(files_put("h.npy", file, 10 + length + data_bytes), out);
}

static void unusual_but_good(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t bytes, count;
    } good[] = {
        {"{'shape': (2, 3), 'fortran_order': False, 'descr': '|u1'}", 6, 6}, /* another order, no comma at the end */
        {"{\"descr\":\"<u2\",\"fortran_order\":True,\"shape\":(2,3,),}\n", 12, 6},
        {" { 'descr' : '=i4' , 'fortran_order' : False , 'shape' : ( 5 , ) , } \n", 20, 5},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }", 24, 6}, /* Python 2 */
        {"{'descr': '<f2', 'fortran_order': True, 'shape': (1,1,1,1,1,1,1,2)}", 4, 2},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", 3, 3},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(good); i++) {
        clq_array array;
        assert_ok(read_header(good[i].header, good[i].bytes, &array));
        assert_int_equal(array.count, good[i].count);
        assert_int_equal(*(unsigned char *)array.data, array.dtype == CLQ_BOOL ? 1 : 2);
        clq_array_release(&array);
    }
}

static void bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        clq_status status;
        const char *says;
    } bad[] = {
        {"", CLQ_ERROR_FORMAT, "expected '{'"},
        {"{}", CLQ_ERROR_FORMAT, "without 'descr'"},
        {"{'descr': '<f4', 'fortran_order': False}", CLQ_ERROR_FORMAT, "without 'shape'"},
        {"{'descr': '<f4', 'shape': (1,)}", CLQ_ERROR_FORMAT, "without 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", CLQ_ERROR_FORMAT, "expected ',' or '}'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", CLQ_ERROR_FORMAT, "nothing more"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", CLQ_ERROR_FORMAT, "unknown key 'more'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_FORMAT, "twice the key"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", CLQ_ERROR_FORMAT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", CLQ_ERROR_FORMAT, "',' after the only dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", CLQ_ERROR_FORMAT, "a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", CLQ_ERROR_FORMAT, "a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", CLQ_ERROR_FORMAT, "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", CLQ_ERROR_FORMAT, "'(' of the shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", CLQ_ERROR_FORMAT,
         "fits in memory"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", CLQ_ERROR_FORMAT,
         "fits in memory"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}", CLQ_ERROR_FORMAT,
         "fits in memory"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", CLQ_ERROR_UNSUPPORTED,
         "more than 8"},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_FORMAT, "no byte order"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_FORMAT, "no byte order"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_UNSUPPORTED, "'<U3'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_UNSUPPORTED, "'|O'"},
        {"{'descr': '<f4\\x', 'fortran_order': False, 'shape': (1,)}", CLQ_ERROR_FORMAT, "short string"},
        {"{'a key that is much too long': 1}", CLQ_ERROR_FORMAT, "short string"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", CLQ_ERROR_FORMAT,
         "truncated NPY: (2,) f32 needs 8 bytes"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", CLQ_ERROR_FORMAT,
         "oversized NPY: (3,) u8 needs 3 bytes"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        clq_array array = {.rank = 77};
        assert_fails(bad[i].status, bad[i].says, read_header(bad[i].header, 4, &array));
        assert_int_equal(array.rank, 77);
    }
}

static void bad_frames(void **state) {
    (void)state;
    clq_array array;
    unsigned char file[sizeof(npy_v2_u1)];
    memcpy(file, npy_v2_u1, sizeof(file));
    file[6] = 4;
    assert_fails(CLQ_ERROR_UNSUPPORTED, "version 4.0", clq_npy_read(files_put("f", file, sizeof(file)), &array));
    file[6] = 2;
    file[7] = 1;
    assert_fails(CLQ_ERROR_UNSUPPORTED, "version 2.1", clq_npy_read(files_put("f", file, sizeof(file)), &array));
    file[7] = 0;
    file[11] = 0xff;
    assert_fails(CLQ_ERROR_FORMAT, "a header of 42781", clq_npy_read(files_put("f", file, sizeof(file)), &array));
    file[0] = 'N';
    assert_fails(CLQ_ERROR_FORMAT, "no such magic", clq_npy_read(files_put("f", file, sizeof(file)), &array));
    assert_fails(CLQ_ERROR_FORMAT, "too short", clq_npy_read(files_put("f", file, 9), &array));
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing", clq_npy_read(files_path("missing"), &array));
}

static void expect_file(const char *path, const void *data, size_t bytes) {
    size_t got_bytes;
    char *got = files_get(path, &got_bytes);
    assert_int_equal(got_bytes, bytes);
    assert_memory_equal(got, data, bytes);
    free(got);
}

/* Writes the same bytes as numpy itself. */
static void writes_as_numpy_does(void **state) {
    (void)state;
    static const struct {
        const unsigned char *data;
        size_t bytes;
    } files[] = {{npy_f4, sizeof(npy_f4)}, {npy_scalar, sizeof(npy_scalar)}, {npy_empty, sizeof(npy_empty)}};
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        clq_array array;
        assert_ok(clq_npy_read(files_put("in.npy", files[i].data, files[i].bytes), &array));
        assert_ok(clq_npy_write(files_path("out.npy"), &array));
        expect_file(files_path("out.npy"), files[i].data, files[i].bytes);
        clq_array_release(&array);
    }
}

static void every_type_there_and_back(void **state) {
    (void)state;
    for (clq_dtype dtype = 0; dtype < CLQ_DTYPE_COUNT; dtype++) {
        clq_array array, back;
        assert_ok(clq_array_create(dtype, 1, (size_t[]){5}, &array));
        for (size_t i = 0; i < 5 * clq_dtype_bytes(dtype); i++) ((unsigned char *)array.data)[i] = i % 2;
        if (dtype == CLQ_BF16) {
            assert_fails(CLQ_ERROR_UNSUPPORTED, "bf16", clq_npy_write(files_path("none.npy"), &array));
            assert_false(clq_file_exists(files_path("none.npy")));
        } else {
            assert_ok(clq_npy_write(files_path("t.npy"), &array));
            assert_ok(clq_npy_read(files_path("t.npy"), &back));
            assert_int_equal(back.dtype, dtype);
            assert_int_equal(back.rank, 1);
            assert_int_equal(back.dims[0], 5);
            assert_memory_equal(back.data, array.data, 5 * clq_dtype_bytes(dtype));
            clq_array_release(&back);
        }
        clq_array_release(&array);
    }
    clq_array array = {.dtype = CLQ_U8};
    assert_fails(CLQ_ERROR_WRITE, "no-such", clq_npy_write(files_path("no-such/f.npy"), &array));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_numpy_writes),    cmocka_unit_test(unusual_but_good),
        cmocka_unit_test(bad_headers),          cmocka_unit_test(bad_frames),
        cmocka_unit_test(writes_as_numpy_does), cmocka_unit_test(every_type_there_and_back),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
