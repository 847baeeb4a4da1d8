/* The cache of program binaries: a good entry is used, and a damaged or foreign entry never reaches a driver. */
#include "fixture.h"
#include "support/files.h"

#include <sys/stat.h>

enum { HEADER = 48 }; /* magic, key, length, checksum */

static char logged[4096];
static void keep_log(void *context, clq_log_level level, const char *line) {
    (void)context;
    (void)level;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

/* Returns the number of entries. *path becomes the path of the entry, if there is only one. */
static size_t entries(char *path, size_t bytes) {
    char programs[512];
    (void)snprintf(programs, sizeof programs, "%s/programs", files_folder);
    size_t count = 0;
    DIR *dir = opendir(programs);
    if (!dir) return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        count++;
        (void)snprintf(path, bytes, "%s/%s", programs, entry->d_name);
    }
    (void)closedir(dir);
    return count;
}

static unsigned char *read_all(const char *path, size_t *bytes) {
    void *data;
    CHECK_OK(clq_file_read(path, 1 << 26, &data, bytes));
    return data;
}

static void write_all(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Opens device `index` with the cache, runs one kernel, checks its answer. */
static void use_device(uint32_t index, const char *options) {
    clq_system *system;
    clq_device *device;
    clq_queue *queue;
    clq_buffer *buffer;
    clq_kernel *kernel;
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){index, 0, 1}, &device));
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "words", &buffer));
    CHECK_OK(clq_kernel_create(device, "selftest", options, "add_words", &kernel));
    uint32_t add = 41, words[16];
    size_t count = 16;
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &count, NULL));
    CHECK_OK(clq_queue_read(queue, buffer, 0, words, sizeof words, true));
    for (size_t i = 0; i < count; i++) assert_int_equal(words[i], 41);
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
}

/* With a damaged entry the answer is right, a warning names the damage, and the file is written again. Drivers do not
 * always give the same bytes for one source. So the new file counts as good if its next use logs nothing. */
static void expect_rebuilt(uint32_t index, const char *path, const unsigned char *damaged, size_t bytes,
                           const char *what) {
    write_all(path, damaged, bytes);
    logged[0] = '\0';
    use_device(index, "");
    if (!strstr(logged, "damaged")) fail_msg("%s went unnoticed (\"%s\")", what, logged);
    logged[0] = '\0';
    use_device(index, "");
    if (logged[0]) fail_msg("after %s: %s", what, logged);
}

static void damage_all(uint32_t index) {
    char path[1024] = "";
    (void)files_remove(files_folder);
    use_device(index, "");
    assert_int_equal(entries(path, sizeof path), 1);
    size_t bytes;
    unsigned char *good = read_all(path, &bytes);
    assert_true(bytes > HEADER);
    logged[0] = '\0';
    use_device(index, "");
    assert_string_equal(logged, ""); /* a good entry is used, and stays */

    /* One bit of each field of the header and of the payload's start, middle and end. */
    const size_t spots[] = {0, 7, 8, 23, 24, 31, 32, 47, HEADER, HEADER + (bytes - HEADER) / 2, bytes - 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(spots); i++) {
        unsigned char *bad = read_all(path, &bytes);
        bad[spots[i]] ^= 4;
        char what[64];
        (void)snprintf(what, sizeof what, "a flipped bit in byte %zu", spots[i]);
        expect_rebuilt(index, path, bad, bytes, what);
        clq_free(bad);
    }
    clq_free(good);
    good = read_all(path, &bytes);
    const size_t lengths[] = {0, 1, HEADER - 1, HEADER, HEADER + 1, bytes / 2, bytes - 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "a file cut to %zu bytes", lengths[i]);
        expect_rebuilt(index, path, good, lengths[i], what);
    }
    unsigned char *longer = clq_alloc(bytes + 1, 1);
    memcpy(longer, good, bytes);
    expect_rebuilt(index, path, longer, bytes + 1, "a byte too much");
    clq_free(longer);
    clq_free(good);
}

static void each_index(void (*body)(uint32_t index)) {
    clq_system *system;
    CHECK_OK(clq_system_open(NULL, &system));
    uint32_t indices[TEST_DEVICES];
    size_t count = find_devices(system, indices);
    clq_system_close(system);
    for (size_t i = 0; i < count; i++)
        if (i != 1) body(indices[i]); /* PoCL's two kinds of device share their cache code */
}

static void test_damage(void **state) {
    (void)state;
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_WARNING);
    each_index(damage_all);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_ERROR);
}

/* A driver accepts a binary that it gave, and nothing is logged. */
static void taken(uint32_t index) {
    (void)files_remove(files_folder);
    use_device(index, "");
    logged[0] = '\0';
    use_device(index, "");
    assert_string_equal(logged, "");
}

static void test_taken(void **state) {
    (void)state;
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_INFO);
    each_index(taken);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_ERROR);
}

/* A whole, undamaged entry of another program is foreign if it lies in this program's place. */
static void foreign(uint32_t index) {
    char path[1024] = "", other[1024] = "";
    size_t bytes, other_bytes;
    (void)files_remove(files_folder);
    use_device(index, "-DOTHER");
    assert_int_equal(entries(other, sizeof other), 1);
    unsigned char *data = read_all(other, &other_bytes);
    (void)files_remove(files_folder);
    use_device(index, "");
    assert_int_equal(entries(path, sizeof path), 1);
    assert_string_not_equal(path, other); /* options are part of the key */
    unsigned char *own = read_all(path, &bytes);
    clq_free(own);
    expect_rebuilt(index, path, data, other_bytes, "a foreign entry");
    clq_free(data);
}

static void test_foreign(void **state) {
    (void)state;
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_WARNING);
    each_index(foreign);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_ERROR);
}

/* If a driver refuses the payload of a well-formed entry, the program is built from source. */
static void refused(uint32_t index) {
    char path[1024] = "";
    (void)files_remove(files_folder);
    use_device(index, "");
    assert_int_equal(entries(path, sizeof path), 1);
    size_t bytes;
    unsigned char *entry = read_all(path, &bytes);
    const char junk[] = "this is no program binary of any driver at all";
    uint64_t length = sizeof junk;
    clq_hash128 check = clq_hash128_of(junk, sizeof junk, 0);
    memcpy(entry + 24, &length, 8);
    memcpy(entry + 32, &check.low, 8);
    memcpy(entry + 40, &check.high, 8);
    memcpy(entry + HEADER, junk, sizeof junk);
    write_all(path, entry, HEADER + sizeof junk);
    clq_free(entry);
    use_device(index, "");
}

static void test_refused(void **state) {
    (void)state;
    each_index(refused);
}

static void test_no_cache(void **state) {
    (void)state;
    char path[1024];
    (void)files_remove(files_folder);
    clq_system *system;
    clq_device *device;
    clq_kernel *kernel;
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = ""}, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &kernel));
    clq_kernel_destroy(kernel);
    clq_device_close(device);
    clq_system_close(system);
    assert_int_equal(entries(path, sizeof path), 0);
}

/* A cache that cannot be written costs time, nothing else. */
static void test_unwritable(void **state) {
    (void)state;
    (void)files_remove(files_folder);
    write_all(files_folder, "a file where the folder should be", 10);
    logged[0] = '\0';
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_WARNING);
    use_device(0, "");
    clq_log_set_sink(NULL, NULL, CLQ_LOG_ERROR);
    assert_non_null(strstr(logged, "not kept"));
    assert_int_equal(unlink(files_folder), 0);
}

/* Each device of a shared context builds its own programs, and the cache keeps them. */
static void test_island(void **state) {
    (void)state;
    enum { COUNT = 3 };
    clq_system *system;
    clq_device *devices[COUNT];
    clq_device_choice choices[COUNT];
    char path[1024];
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
    for (uint32_t i = 0; i < COUNT; i++) choices[i] = (clq_device_choice){i, 0, 1};
    CHECK_OK(clq_island_open(system, choices, COUNT, devices));
    logged[0] = '\0';
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_WARNING);
    size_t before = entries(path, sizeof path);
    for (int i = 0; i < COUNT; i++) {
        const char *options[COUNT] = {"-DISLAND=0", "-DISLAND=1", "-DISLAND=2"};
        clq_kernel *kernel;
        CHECK_OK(clq_kernel_create(devices[i], "selftest", options[i], "add_words", &kernel));
        clq_kernel_destroy(kernel);
    }
    for (int i = 0; i < COUNT; i++) clq_device_close(devices[i]);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_WARNING);
    assert_string_equal(logged, "");
    assert_int_equal(entries(path, sizeof path), before + COUNT);
    clq_system_close(system);
}

static void add_on(clq_device *device, uint32_t wanted) {
    clq_queue *queue;
    clq_buffer *buffer;
    clq_kernel *kernel;
    uint32_t words[16], add = wanted;
    size_t count = 16;
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "words", &buffer));
    CHECK_OK(clq_kernel_create(device, "selftest", "-DTWINS", "add_words", &kernel));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &count, NULL));
    CHECK_OK(clq_queue_read(queue, buffer, 0, words, sizeof words, true));
    for (size_t i = 0; i < count; i++) assert_int_equal(words[i], wanted);
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
}

/* PoCL's devices that are open together have programs of different hashes, and still find what another one built. A
 * later device reads the first one's entry: the test sees this when the entry is damaged and the device notices the
 * damage. */
static void test_twins(void **state) {
    (void)state;
    enum { COUNT = 3 };
    clq_system *system;
    clq_device *devices[COUNT];
    uint32_t indices[TEST_DEVICES];
    char path[1024];
    (void)files_remove(files_folder);
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
    find_devices(system, indices);
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[0], 0, 1}, &devices[i]));
    logged[0] = '\0';
    clq_log_set_sink(keep_log, NULL, CLQ_LOG_INFO);
    add_on(devices[0], 41);
    assert_int_equal(entries(path, sizeof path), 0);
    assert_true(clq_device_has_unkept(devices[0]));
    CHECK_OK(clq_device_keep_programs(devices[0])); /* a twin does not ask for a program that ran: see twin.c */
    add_on(devices[1], 42);
    assert_int_equal(entries(path, sizeof path), 1);
    assert_false(clq_device_has_unkept(devices[1]));
    assert_string_equal(logged, ""); /* the entry was taken as it is */
    size_t bytes;
    unsigned char *entry = read_all(path, &bytes);
    entry[bytes - 1] ^= 1;
    write_all(path, entry, bytes);
    clq_free(entry);
    add_on(devices[2], 43);
    assert_non_null(strstr(logged, "damaged"));
    clq_log_set_sink(NULL, NULL, CLQ_LOG_ERROR);
    for (int i = 0; i < COUNT; i++) clq_device_close(devices[i]);
    assert_int_equal(entries(path, sizeof path), 1);
    clq_system_close(system);
}

/* Whether the kept program holds the kernel that PoCL compiled for the launch. PoCL's name for such a file shows
 * this. */
static bool holds_launched_kernel(const char *path) {
    size_t bytes;
    unsigned char *entry = read_all(path, &bytes);
    const char name[] = "goffs0";
    bool found = false;
    for (size_t i = 0; i + sizeof name <= bytes && !found; i++) found = memcmp(entry + i, name, sizeof name - 1) == 0;
    clq_free(entry);
    return found;
}

/* The next run has the kernels that one run compiled. A program is kept when its device closes, when
 * clq_device_keep_programs is called, or early, before it ran, for another device that is a twin. */
static void test_launched_kernels_are_kept(void **state) {
    (void)state;
    enum { AT_THE_END, FOR_ANOTHER, WHEN_TOLD, WAYS };
    for (int way = 0; way < WAYS; way++) {
        clq_system *system;
        clq_device *device, *other;
        clq_kernel *kernel;
        uint32_t indices[TEST_DEVICES];
        char path[1024];
        (void)files_remove(files_folder);
        CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
        find_devices(system, indices);
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[0], 0, 1}, &device));
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[0], 0, 1}, &other));
        const bool twins = clq_device_has_quirk(device, CLQ_QUIRK_MIXES_UP_KERNELS);
        CHECK_OK(clq_kernel_create(device, "selftest", "-DTWINS", "add_words", &kernel));
        clq_kernel_destroy(kernel);
        if (way == FOR_ANOTHER) {
            CHECK_OK(clq_kernel_create(other, "selftest", "-DTWINS", "add_words", &kernel));
            clq_kernel_destroy(kernel);
        }
        add_on(device, 41);
        if (way == WHEN_TOLD) CHECK_OK(clq_device_keep_programs(device));
        assert_int_equal(entries(path, sizeof path), way == WHEN_TOLD || (way == FOR_ANOTHER && twins) ? 1 : 0);
        assert_int_equal(clq_device_has_unkept(device), way != WHEN_TOLD);
        clq_device_close(device);
        clq_device_close(other);
        assert_int_equal(entries(path, sizeof path), 1);
        assert_true(holds_launched_kernel(path));
        clq_system_close(system);
    }
}

int main(void) {
    /* PoCL's default: it compiles a kernel for a launch's sizes, and once more for any sizes. */
    if (setenv("POCL_WORK_GROUP_SPECIALIZATION", "1", 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_island),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_launched_kernels_are_kept),
    };
    return cmocka_run_group_tests_name("cache", tests, files_begin, files_end);
}
