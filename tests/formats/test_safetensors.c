#include "formats/formats.h"
#include "formats/fixtures.h"
#include "support/files.h"

static void what_the_library_writes(void **state) {
    (void)state;
    clq_safetensors *file;
    assert_ok(clq_safetensors_open(files_put("f", safetensors_file, sizeof(safetensors_file)), &file));
    static const char *const names[] = {"step", "dense/bias", "dense/kernel", "none", "mask"}; /* in data order */
    assert_int_equal(clq_safetensors_count(file), 5);
    for (size_t i = 0; i < 5; i++) assert_string_equal(clq_safetensors_at(file, i)->name, names[i]);
    assert_null(clq_safetensors_at(file, 5));
    assert_null(clq_safetensors_find(file, "absent"));
    assert_null(clq_safetensors_find(file, "__metadata__"));
    assert_string_equal(clq_safetensors_metadata(file, "made by"), "a test");
    assert_null(clq_safetensors_metadata(file, "absent"));
    const clq_safetensors_entry *kernel = clq_safetensors_find(file, "dense/kernel");
    assert_int_equal(kernel->dtype, CLQ_F32);
    assert_int_equal(kernel->rank, 2);
    assert_int_equal(kernel->dims[0], 2);
    assert_int_equal(kernel->dims[1], 3);
    assert_int_equal(kernel->count, 6);
    assert_int_equal(kernel->bytes, 24);
    assert_memory_equal(kernel->data, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    const clq_safetensors_entry *step = clq_safetensors_find(file, "step"), *mask = clq_safetensors_find(file, "mask");
    assert_int_equal(step->rank, 0);
    assert_int_equal(step->dtype, CLQ_I64);
    assert_int_equal(*(const unsigned char *)step->data, 7);
    assert_int_equal(mask->dtype, CLQ_BOOL);
    assert_memory_equal(mask->data, "\1\0\1", 3);
    assert_int_equal(clq_safetensors_find(file, "none")->count, 0);
    clq_safetensors_close(file);
    clq_safetensors_close(NULL);
}

static clq_status open_text(const char *header, size_t data_bytes, clq_safetensors **out) {
    char data[2048] = {0};
    uint64_t length = strlen(header);
    memcpy(data, &length, 8);
    memcpy(data + 8, header, length);
    return clq_safetensors_open(files_put("f", data, 8 + length + data_bytes), out);
}

static void good_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t bytes, count;
    } good[] = {
        {"{}", 0, 0},
        {"{\"__metadata__\":{}}   ", 0, 0},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         6, 2},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2,0],\"data_offsets\":[1,1]},"
         "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
         1, 3},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(good); i++) {
        clq_safetensors *file;
        assert_ok(open_text(good[i].header, good[i].bytes, &file));
        assert_int_equal(clq_safetensors_count(file), good[i].count);
        assert_null(clq_safetensors_metadata(file, "x"));
        clq_safetensors_close(file);
    }
}

#define U8(begin, end, shape) "{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        const char *says;
    } bad[] = {
        {"", 9, "does not start with '{'"},
        {" {}", 0, "does not start with '{'"},
        {"[]", 0, "does not start with '{'"},
        {"{", 0, "line 1"},
        {"{}x", 0, "line 1"},
        {"{}", 1, "1 byte of data behind the last tensor"},
        {"{\"a\":" U8(0, 2, "[2]") "}", 1, "offsets 0 to 2 in 1 byte"},
        {"{\"a\":" U8(0, 2, "[2]") "}", 3, "1 byte of data behind"},
        {"{\"a\":" U8(1, 3, "[2]") "}", 3, "'a': a hole before"},
        {"{\"a\":" U8(0, 2, "[2]") ",\"b\":" U8(3, 5, "[2]") "}", 5, "'b': a hole before"},
        {"{\"a\":" U8(0, 2, "[2]") ",\"b\":" U8(1, 3, "[2]") "}", 3, "'b': overlaps"},
        {"{\"a\":" U8(0, 4, "[4]") ",\"b\":" U8(2, 2, "[0]") "}", 4, "'b': overlaps"},
        {"{\"a\":" U8(0, 2, "[2]") ",\"b\":" U8(0, 2, "[2]") "}", 2, "overlaps"},
        {"{\"a\":" U8(0, 2, "[2]") ",\"a\":" U8(0, 2, "[2]") "}", 2, "duplicate object key"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "duplicate object key"},
        {"{\"a\":" U8(0, 2, "[3]") "}", 2, "2 bytes of data for a shape of 3"},
        {"{\"a\":" U8(2, 0, "[2]") "}", 2, "offsets 2 to 0"},
        {"{\"a\":" U8(-1, 1, "[2]") "}", 2, "no 'data_offsets'"},
        {"{\"a\":" U8(0, 2.0, "[2]") "}", 2, "no 'data_offsets'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1,2]}}", 2, "no 'data_offsets'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, "no 'data_offsets'"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,2]}}", 2, "no 'shape'"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "no 'dtype'"},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "no 'dtype'"},
        {"{\"a\":7}", 0, "is no object"},
        {"{\"a\":" U8(0, 2, "[-2]") "}", 2, "a dimension that is no size"},
        {"{\"a\":" U8(0, 2, "[\"2\"]") "}", 2, "a dimension that is no size"},
        {"{\"a\":" U8(0, 2, "[2.0]") "}", 2, "a dimension that is no size"},
        {"{\"a\":" U8(0, 0, "[4294967296,4294967296]") "}", 0, "does not fit in memory"},
        {"{\"a\":" U8(0, 0, "[9223372036854775807,2]") "}", 0, "does not fit in memory"},
        {"{\"a\":" U8(0, 0, "[9223372036854775808]") "}", 0, "too big integer"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
         "does not fit in memory"},
        {"{\"a\":" U8(0, 9223372036854775807, "[9223372036854775807]") "}", 2, "offsets"},
        {"{\"__metadata__\":7}", 0, "__metadata__ is no object"},
        {"{\"__metadata__\":{\"k\":7}}", 0, "metadata 'k' is no string"},
        {"{\"a\":[[[[]]]]}", 0, "nested"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        clq_safetensors *file = NULL;
        assert_fails(CLQ_ERROR_FORMAT, bad[i].says, open_text(bad[i].header, bad[i].bytes, &file));
        assert_null(file);
    }
    clq_safetensors *file = NULL;
    assert_fails(CLQ_ERROR_UNSUPPORTED, "'F8_E4M3'",
                 open_text("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, &file));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "9 dimensions",
                 open_text("{\"a\":" U8(0, 1, "[1,1,1,1,1,1,1,1,1]") "}", 1, &file));
}

static void bad_lengths(void **state) {
    (void)state;
    clq_safetensors *file = NULL;
    static const uint64_t lengths[] = {3, 100000001, UINT64_C(1) << 32, UINT64_MAX, UINT64_MAX - 7, INT64_MAX};
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++) {
        char data[] = "________{}";
        memcpy(data, &lengths[i], 8);
        assert_fails(CLQ_ERROR_FORMAT, "a header of", clq_safetensors_open(files_put("f", data, 10), &file));
    }
    assert_fails(CLQ_ERROR_FORMAT, "only 7 bytes", clq_safetensors_open(files_put("f", "1234567", 7), &file));
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing", clq_safetensors_open(files_path("missing"), &file));
    assert_null(file);
}

/* If a file of weights has another program's format, the error names this format. */
static void other_formats_are_named(void **state) {
    static const struct {
        const char *begin, *says;
    } others[] = {{"\x89HDF\r\n\x1a\nxxxxxxxx", "no safetensors file, but HDF5"},
                  {"PK\3\4\x14xxxxxxxxxxx", "no safetensors file, but a zip archive"},
                  {"\x93NUMPY\1xxxxxxxxx", "no safetensors file, but an array of NumPy"},
                  {"\x80\2}qxxxxxxxxxxxx", "no safetensors file, but a Python pickle"},
                  {"\x80\4}qxxxxxxxxxxxx", "no safetensors file, but a Python pickle"},
                  {"GGUF\3xxxxxxxxxxx", "no safetensors file, but GGUF"}};
    (void)state;
    clq_safetensors *file = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++)
        assert_fails(CLQ_ERROR_FORMAT, others[i].says,
                     clq_safetensors_open(files_put("f", others[i].begin, 16), &file));
    /* a header of 640 bytes that is cut off begins as a pickle does */
    assert_fails(CLQ_ERROR_FORMAT, "a header of 640 bytes",
                 clq_safetensors_open(files_put("f", "\x80\2\0\0\0\0\0\0{}", 10), &file));
    assert_null(file);
}

/* A header that is one byte longer than allowed, in a file that is as long as the header says. */
static void too_long_a_header(void **state) {
    (void)state;
    clq_safetensors *file = NULL;
    uint64_t length = 100000001;
    const char *path = files_put("long", &length, 8);
    assert_int_equal(truncate(path, (off_t)length + 8), 0);
    assert_fails(CLQ_ERROR_FORMAT, "a header of 100000001", clq_safetensors_open(path, &file));
    assert_null(file);
}

/* ---- writing ---- */

static void exact_bytes(void **state) {
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\\\"\"},"
                                 "\"dense/kernel\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"n\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}";
    const clq_safetensors_source tensors[] = {
        {.name = "dense/kernel", .dtype = CLQ_F32, .rank = 2, .dims = {1, 2}, .data = (float[]){1.5f, -2}},
        {.name = "n", .dtype = CLQ_U8, .data = "\x2a"},
    };
    const char *path = files_path("exact");
    assert_ok(clq_safetensors_write(path, tensors, 2, (const char *[]){"k", "v\""}, 1));
    size_t bytes, length = clq_round_up(sizeof(header) - 1, 8);
    char *file = files_get(path, &bytes);
    assert_int_equal(bytes, 8 + length + 9);
    assert_int_equal((unsigned char)file[0], length);
    assert_memory_equal(file + 1, "\0\0\0\0\0\0", 7);
    assert_memory_equal(file + 8, header, sizeof(header) - 1);
    for (size_t i = sizeof(header) - 1; i < length; i++) assert_int_equal(file[8 + i], ' ');
    assert_memory_equal(file + 8 + length, ((float[]){1.5f, -2}), 8);
    assert_int_equal(file[8 + length + 8], 0x2a);
    free(file);
}

static void there_and_back(void **state) {
    (void)state;
    static const double values[6] = {1, 2, 3, 4, 5, 6};
    clq_safetensors_source tensors[CLQ_DTYPE_COUNT + 1];
    for (clq_dtype dtype = 0; dtype < CLQ_DTYPE_COUNT; dtype++)
        tensors[dtype] = (clq_safetensors_source){
            .name = clq_dtype_name(dtype), .dtype = dtype, .rank = 2, .dims = {2, 3}, .data = values};
    tensors[CLQ_DTYPE_COUNT] = (clq_safetensors_source){
        .name = "\xc3\xa9 \"quoted\" \xf0\x9f\x98\x80", .dtype = CLQ_F32, .rank = 1, .dims = {0}};
    assert_ok(clq_safetensors_write(files_path("all"), tensors, CLQ_COUNT_OF(tensors), NULL, 0));
    clq_safetensors *file;
    assert_ok(clq_safetensors_open(files_path("all"), &file));
    assert_int_equal(clq_safetensors_count(file), CLQ_COUNT_OF(tensors));
    for (size_t i = 0; i < CLQ_COUNT_OF(tensors); i++) {
        const clq_safetensors_entry *entry = clq_safetensors_find(file, tensors[i].name);
        assert_non_null(entry);
        assert_int_equal(entry->dtype, tensors[i].dtype);
        assert_int_equal(entry->rank, tensors[i].rank);
        assert_memory_equal(entry->data, values, entry->bytes);
    }
    clq_safetensors_close(file);
    assert_ok(clq_safetensors_write(files_path("none"), NULL, 0, NULL, 0));
    assert_ok(clq_safetensors_open(files_path("none"), &file));
    assert_int_equal(clq_safetensors_count(file), 0);
    clq_safetensors_close(file);
}

static void will_not_write(void **state) {
    (void)state;
    const char *path = files_path("refused");
    const clq_safetensors_source good = {.name = "a", .dtype = CLQ_U8, .data = "x"};
    clq_safetensors_source bad = good;
#define REFUSES(word)                                                                                                  \
    assert_fails(CLQ_ERROR_ARGUMENT, word,                                                                             \
                 clq_safetensors_write(path, (clq_safetensors_source[]){good, bad}, 2, NULL, 0))
    REFUSES("'a': the name is taken");
    bad.name = "__metadata__";
    REFUSES("the name is taken");
    static const char *const no_text[] = {"\xff",         "a\x80",        "\xc0\x80",         "\xc3",
                                          "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                          "\xe2\x82"};
    for (size_t i = 0; i < CLQ_COUNT_OF(no_text); i++) {
        bad.name = no_text[i];
        REFUSES("no UTF-8");
    }
    bad.name = NULL;
    REFUSES("without a name");
    bad.name = "b";
    bad.dtype = CLQ_DTYPE_COUNT;
    REFUSES("unknown type");
    bad.dtype = CLQ_F64;
    bad.rank = CLQ_ARRAY_DIMS_MAX + 1;
    REFUSES("too many dimensions");
    bad.rank = 2;
    bad.dims[0] = bad.dims[1] = (size_t)1 << 32;
    REFUSES("'b': its shape does not fit");
    assert_fails(CLQ_ERROR_ARGUMENT, "no UTF-8",
                 clq_safetensors_write(path, &good, 1, (const char *[]){"k", "\xff"}, 1));
    assert_false(clq_file_exists(path));
    assert_fails(CLQ_ERROR_WRITE, "no-such", clq_safetensors_write(files_path("no-such/f"), &good, 1, NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_library_writes),
        cmocka_unit_test(good_headers),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(too_long_a_header),
        cmocka_unit_test(bad_lengths),
        cmocka_unit_test(exact_bytes),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(will_not_write),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
