/* PoCL's own cache is removed or damaged while a process uses it, and what other processes find then. Each use is a
 * process of its own. */
#include "device/internal.h"
#include "fixture.h"

#include "support/again.h"
#include "support/files.h"

#include <signal.h>
#include <sys/resource.h>

static const char *pocl_cache(void) { return getenv("POCL_CACHE_DIR"); }

/* Calls body (NULL: nothing) for each file below the folder whose name ends in `end`. Returns the number of such
 * files. */
static size_t each_file(const char *path, const char *end, void (*body)(const char *path)) {
    DIR *dir = opendir(path);
    if (!dir) return 0;
    size_t found = 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char inner[1024];
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        found += each_file(inner, end, body);
        if (length < strlen(end) || strcmp(entry->d_name + length - strlen(end), end) != 0) continue;
        found++;
        if (body) body(inner);
    }
    (void)closedir(dir);
    return found;
}

/* Puts a new file in the place of the old one: a process that has the old file open goes on with it. */
static void cut_to_half(const char *path) {
    char half[1200];
    void *content;
    size_t bytes;
    (void)snprintf(half, sizeof half, "%s~", path);
    FILE *file = fopen(half, "w");
    assert_non_null(file);
    CHECK_OK(clq_file_read(path, 1 << 26, &content, &bytes));
    assert_int_equal(fwrite(content, 1, bytes / 2, file), bytes / 2);
    assert_int_equal(fclose(file), 0);
    clq_free(content);
    assert_int_equal(rename(half, path), 0);
}

/* Runs a kernel on PoCL, checks its answer and closes the device. `what` names what happens meanwhile. */
static int child(const char *what) {
    clq_system *system;
    clq_device *device;
    clq_queue *queue;
    clq_buffer *buffer;
    clq_kernel *kernel;
    uint32_t indices[TEST_DEVICES], add = 41, words[16];
    size_t count = 16;
    EXPECT(clq_system_open(NULL, &system) == CLQ_OK);
    (void)find_devices(system, indices);
    EXPECT(clq_device_open(system, (clq_device_choice){indices[0], 0, 1}, &device) == CLQ_OK);
    EXPECT(clq_queue_create(device, 0, &queue) == CLQ_OK);
    EXPECT(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof words, "words", &buffer) == CLQ_OK);
    const bool later = strcmp(what, "later") == 0, both = later || strcmp(what, "both") == 0;
    const clq_program_wish wish = {.file = "selftest", .options = "", .kernels = both ? "" : "add_words"};
    if (strcmp(what, "write nothing") == 0) {
        EXPECT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) == 0);
        (void)clq_kernel_create_among(device, &wish, "add_words", &kernel); /* PoCL may need to write for it */
        _exit(0);
    }
    EXPECT(clq_kernel_create_among(device, &wish, "add_words", &kernel) == CLQ_OK);
    if (strcmp(what, "die") == 0) _exit(0);
    if (strcmp(what, "lose") == 0) {
        (void)clq_cl_fail_lost(device, CL_DEVICE_NOT_AVAILABLE, "as if");
        goto close;
    }
    EXPECT(clq_kernel_set_buffer(kernel, 0, buffer) == CLQ_OK);
    EXPECT(clq_kernel_set_bytes(kernel, 1, &add, sizeof add) == CLQ_OK);
    EXPECT(clq_queue_launch(queue, kernel, 1, &count, NULL) == CLQ_OK);
    EXPECT(clq_queue_read(queue, buffer, 0, words, sizeof words, true) == CLQ_OK);
    EXPECT(clq_queue_finish(queue) == CLQ_OK);
    for (size_t i = 0; i < count; i++) EXPECT(words[i] == 41);
    if (strcmp(what, "exit") == 0) _exit(0);
    if (later) {
        EXPECT(clq_kernel_create_among(device, &wish, "group_sum", &kernel) == CLQ_OK);
        _exit(0);
    }
    if (strcmp(what, "remove") == 0) (void)files_remove(pocl_cache());
    if (strcmp(what, "cut") == 0) (void)each_file(pocl_cache(), ".so", cut_to_half);
close:
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
    /* Leaves without the search for leaks. If PoCL has opened half of a library, the search would read the data that is
     * missing. And the memory of a lost device is not given back. */
    if (strcmp(what, "cut") == 0 || strcmp(what, "lose") == 0) _exit(0);
    return 0;
}

static char programs[256]; /* the cache's folder of programs */

static size_t kept(void) { return each_file(programs, ".bin", NULL); }

/* What is left of a program after PoCL's files were removed or cut is not kept. */
static void test_removed(void **state) {
    (void)state;
    static const char *const ways[] = {"remove", "cut"};
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        (void)files_remove(programs);
        (void)files_remove(pocl_cache());
        assert_int_equal(run(ways[i]), 0);
        assert_int_equal(kept(), 0);
        assert_int_equal(run("use"), 0); /* without PoCL's cut files */
        assert_int_equal(kept(), 1);
        assert_int_equal(run("use"), 0);
    }
}

/* A process that ended before its program was kept, or before the kernels of a kept program ran, may have died of the
 * program. The next process does not trust the files that PoCL kept. Here it would die of them, too. */
static void test_damaged(void **state) {
    static const char *const kinds[] = {".so", ".bc"};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) {
        (void)files_remove(pocl_cache());
        assert_int_equal(run("exit"), 0); /* nothing is kept */
        assert_int_equal(kept(), 0);
        assert_true(each_file(pocl_cache(), kinds[i], cut_to_half) > 0);
        assert_int_equal(run("use"), 0);
        assert_int_equal(kept(), 1);
        assert_int_equal(run("use"), 0); /* the binary, which PoCL unpacks into its cache */
        assert_true(each_file(pocl_cache(), kinds[i], cut_to_half) > 0);
        assert_int_equal(run("use"), -1); /* dies by an assertion of PoCL's */
        assert_int_equal(run("use"), 0);
        assert_int_equal(run("use"), 0);
        (void)files_remove(programs);
    }
}

/* If a process dies after it built a program, the next process builds the program apart. */
static void test_death(void **state) {
    (void)state;
    assert_int_equal(run("die"), 0);
    size_t before = each_file(pocl_cache(), "program.bc", NULL);
    assert_int_equal(run("use"), 0);
    assert_int_equal(each_file(pocl_cache(), "program.bc", NULL), before + 1);
    assert_int_equal(kept(), 1);
}

/* A process dies over a kernel of a kept program after another kernel of the program ran. */
static void test_death_over_a_later_kernel(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(run("both"), 0); /* built, and as a binary */
    size_t before = each_file(pocl_cache(), "program.bc", NULL);
    assert_int_equal(run("later"), 0);
    assert_int_equal(run("both"), 0);
    assert_int_equal(each_file(pocl_cache(), "program.bc", NULL), before + 1); /* built apart */
    assert_int_equal(run("both"), 0); /* as a binary, for which PoCL 3.1 has a file of its own */
    before = each_file(pocl_cache(), "program.bc", NULL);
    assert_int_equal(run("both"), 0);
    assert_int_equal(each_file(pocl_cache(), "program.bc", NULL), before); /* it is trusted */
}

/* A process that can write nothing (ulimit -f) does not use the program of a process that died, and does not take the
 * program from processes that can write. */
static void test_death_before_one_that_cannot_write(void **state) {
    (void)state;
    assert_int_equal(run("use"), 0);
    assert_int_equal(run("die"), 0);
    (void)run("write nothing");
    assert_int_equal(kept(), 1);
    assert_int_equal(run("use"), 0);
    assert_int_equal(kept(), 1);
}

/* The loss of a device is no death: the process went on, and the next process takes the kept programs. */
static void test_lost_device(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(run("use"), 0); /* built, and as a binary */
    size_t before = each_file(pocl_cache(), "program.bc", NULL);
    assert_int_equal(run("lose"), 0);
    assert_int_equal(run("use"), 0);
    assert_int_equal(each_file(pocl_cache(), "program.bc", NULL), before);
    assert_int_equal(kept(), 1);
}

static void *read_kept_path;
static size_t read_kept_bytes;
static void read_kept(const char *path) { CHECK_OK(clq_file_read(path, 1 << 26, &read_kept_path, &read_kept_bytes)); }

/* A binary is not whole if it is cut anywhere, or if a file in it is empty or of another kind. */
static void test_whole(void **state) {
    enum { HEADER = 48 /* of the cache's entry */, FILES_AT = 8 + 8 + 4 + 4 + 8 + 4 + 41 };
    (void)state;
    assert_int_equal(run("use"), 0);
    assert_int_equal(each_file(programs, ".bin", read_kept), 1);
    unsigned char *binary = (unsigned char *)read_kept_path + HEADER;
    size_t bytes = read_kept_bytes - HEADER;
    assert_memory_equal(binary, "poclbin", 8);
    assert_true(clq_pocl_binary_is_whole(binary, bytes));
    for (size_t length = 8; length < bytes; length += length < 400 ? 1 : 97)
        assert_false(clq_pocl_binary_is_whole(binary, length));
    for (size_t at = 0; at + 4 < bytes; at++) {
        bool code = memcmp(binary + at, "BC\xc0\xde", 4) == 0, library = memcmp(binary + at,
                                                                                "\x7f"
                                                                                "ELF",
                                                                                4) == 0;
        if (!code && !library) continue;
        binary[at] ^= 1;
        assert_false(clq_pocl_binary_is_whole(binary, bytes));
        binary[at] ^= 1;
    }
    /* The binary that PoCL gives if its files are gone: it has no intermediate code, only the kernels' metadata. */
    uint32_t version;
    memcpy(&version, binary + 16, sizeof version);
    if (version == 9) {
        uint64_t code_bytes;
        memcpy(&code_bytes, binary + FILES_AT, sizeof code_bytes);
        memset(binary + FILES_AT, 0, sizeof code_bytes);
        memmove(binary + FILES_AT + 8, binary + FILES_AT + 8 + code_bytes, bytes - FILES_AT - 8 - code_bytes);
        assert_false(clq_pocl_binary_is_whole(binary, bytes - code_bytes));
    }
    assert_true(clq_pocl_binary_is_whole("another driver's", 16));
    clq_free(read_kept_path);
}

static int begin(void **state) {
    char path[512];
    if (files_begin(state) != 0 || setenv("CLIQUE_CACHE_DIR", files_folder, 1) != 0) return -1;
    (void)snprintf(path, sizeof path, "%s/pocl", files_folder);
    if (setenv("POCL_CACHE_DIR", path, 1) != 0) return -1;
    (void)snprintf(programs, sizeof programs, "%s/programs", files_folder);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2) return child(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_removed, begin, files_end),
        cmocka_unit_test_setup_teardown(test_damaged, begin, files_end),
        cmocka_unit_test_setup_teardown(test_death, begin, files_end),
        cmocka_unit_test_setup_teardown(test_death_over_a_later_kernel, begin, files_end),
        cmocka_unit_test_setup_teardown(test_death_before_one_that_cannot_write, begin, files_end),
        cmocka_unit_test_setup_teardown(test_lost_device, begin, files_end),
        cmocka_unit_test_setup_teardown(test_whole, begin, files_end)};
    return cmocka_run_group_tests_name("lost_cache", tests, NULL, NULL);
}
