#include "formats/formats.h"
#include "support/files.h"

#include <zlib.h>

/* Appends one gzip member with the data to the file, by zlib's own file functions. */
static const char *append_gz(const char *name, const void *data, size_t bytes) {
    const char *path = files_path(name);
    gzFile file = gzopen(path, "ab9");
    assert_non_null(file);
    assert_int_equal(bytes ? gzwrite(file, data, (unsigned)bytes) : 0, bytes);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

/* Repeats itself, so it shrinks a lot, but not as much as a single repeated byte. */
static unsigned char *pattern(size_t bytes) {
    unsigned char *data = clq_alloc(bytes, 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(i % 251 + i / 4099);
    return data;
}

static void expect(const char *path, size_t max_bytes, const void *data, size_t bytes) {
    void *got;
    size_t got_bytes;
    assert_ok(clq_gz_read(path, max_bytes, &got, &got_bytes));
    assert_int_equal(got_bytes, bytes);
    assert_int_equal((uintptr_t)got % 64, 0);
    assert_memory_equal(got, data, bytes);
    clq_free(got);
}

static void expect_refusal(const char *path, size_t max_bytes, const char *word) {
    void *got = NULL;
    size_t got_bytes = 99;
    assert_fails(CLQ_ERROR_FORMAT, word, clq_gz_read(path, max_bytes, &got, &got_bytes));
    assert_null(got);
    assert_int_equal(got_bytes, 99);
}

static void plain_files(void **state) {
    (void)state;
    expect(files_put("plain", "some text", 9), 9, "some text", 9);
    expect(files_put("empty", "", 0), 0, "", 0);
    expect(files_put("half a magic", "\x1f", 1), 9, "\x1f", 1);
    expect_refusal(files_put("plain", "some text", 9), 8, "the most that is read here is 8");
    void *got;
    size_t bytes;
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing.gz", clq_gz_read(files_path("missing.gz"), 9, &got, &bytes));
}

static void members(void **state) {
    (void)state;
    unsigned char *data = pattern(3000000);
    expect(append_gz("one", "hello", 5), 5, "hello", 5);
    expect(append_gz("nothing", "", 0), 5, "", 0);
    size_t shortest;
    free(files_get(files_path("nothing"), &shortest));
    assert_int_equal(shortest, 20); /* no gzip is shorter */
    /* The last member states a length of 0, which says nothing about the whole. */
    append_gz("three", data, 1000000);
    append_gz("three", data + 1000000, 2000000);
    expect(append_gz("three", "", 0), 3000000, data, 3000000);
    expect_refusal(files_path("three"), 2999999, "more than the 2999999 bytes");
    clq_free(data);
}

static void what_cannot_be_compressed(void **state) {
    (void)state;
    clq_random random = clq_random_start(5, 0);
    uint32_t data[5000];
    for (size_t i = 0; i < CLQ_COUNT_OF(data); i++) data[i] = clq_random_u32(&random);
    expect(append_gz("noise", data, sizeof(data)), sizeof(data), data, sizeof(data)); /* the file is larger */
    expect_refusal(files_path("noise"), sizeof(data) - 1, "more than");
}

/* A second member that begins at each position near the end of a piece (what is read at once). */
static void members_across_pieces(void **state) {
    (void)state;
    enum { PIECE = 1 << 18, LONGEST = PIECE + 100 };
    clq_random random = clq_random_start(6, 0);
    unsigned char *data = clq_alloc(LONGEST + 5, 1);
    assert_non_null(data);
    for (size_t i = 0; i < LONGEST; i++) data[i] = (unsigned char)clq_random_u32(&random);
    for (size_t end = PIECE - 3; end <= PIECE + 1; end++) {
        size_t bytes = end, size = 0;
        for (int i = 0; i < 9 && size != end; i++) { /* zlib decides by how much noise grows */
            bytes -= size ? size - end : 0;
            (void)remove(files_path("noise"));
            free(files_get(append_gz("noise", data, bytes), &size));
        }
        assert_int_equal(size, end);
        memcpy(data + bytes, "after", 5);
        expect(append_gz("noise", data + bytes, 5), bytes + 5, data, bytes + 5);
    }
    clq_free(data);
}

static void bombs(void **state) {
    (void)state;
    char *zeros = clq_alloc(1 << 20, 1);
    for (int i = 0; i < 40; i++) append_gz("bomb", zeros, 1 << 20);
    clq_free(zeros);
    expect_refusal(files_path("bomb"), 1000000, "inflates to more than the 1000000 bytes");
}

static void damage(void **state) {
    (void)state;
    unsigned char *data = pattern(5000);
    size_t bytes;
    char *good = files_get(append_gz("good", data, 5000), &bytes);
    expect_refusal(files_put("bad", good, bytes - 1), 9999, "truncated gzip");
    expect_refusal(files_put("bad", good, 19), 9999, "truncated gzip: only 19 bytes");
    expect_refusal(files_put("bad", good, 20), 9999, "inside a compressed stream");
    expect_refusal(files_put("bad", good, bytes / 2), 9999, "inside a compressed stream");
    for (size_t at = bytes - 8; at < bytes; at++) { /* checksum and length */
        good[at] ^= 1;
        expect_refusal(files_put("bad", good, bytes), 9999,
                       at < bytes - 4 ? "incorrect data check" : "incorrect length");
        good[at] ^= 1;
    }
    good[bytes / 2] ^= 0x55;
    expect_refusal(files_put("bad", good, bytes), 9999, "damaged gzip at offset");
    good[bytes / 2] ^= 0x55;
    good[2] = 7; /* a method that does not exist */
    expect_refusal(files_put("bad", good, bytes), 9999, "unknown compression method");
    good[2] = 8;
    char word[64], longer[4096];
    memcpy(longer, good, bytes);
    memset(longer + bytes, 0, 40);
    snprintf(word, sizeof(word), "trailing bytes after the gzip stream, at offset %zu", bytes);
    expect_refusal(files_put("bad", longer, bytes + 1), 9999, word);
    expect_refusal(files_put("bad", longer, bytes + 40), 9999, word);
    memcpy(longer + bytes, "\x1f\x8b", 2); /* the start of another member */
    expect_refusal(files_put("bad", longer, bytes + 2), 9999, "truncated");
    expect(files_put("bad", good, bytes), 5000, data, 5000); /* apart from the damage, the file is good */
    free(good);
    clq_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_files),           cmocka_unit_test(members), cmocka_unit_test(what_cannot_be_compressed),
        cmocka_unit_test(members_across_pieces), cmocka_unit_test(bombs),   cmocka_unit_test(damage),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
