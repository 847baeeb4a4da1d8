/* Programs that have only some of a file's kernels, made several at once and by several threads. */
#include "fixture.h"

static void has(clq_device *device, const char *kernels, const char *function, bool wanted) {
    const clq_program_wish program = {.file = "selftest", .options = "", .kernels = kernels};
    clq_kernel *kernel = NULL;
    if (wanted)
        CHECK_OK(clq_kernel_create_among(device, &program, function, &kernel));
    else
        CHECK_FAILS(CLQ_ERROR_BUILD, clq_kernel_create_among(device, &program, function, &kernel));
    clq_kernel_destroy(kernel);
}

/* The wanted kernels: the first and the last of the file, one in the middle, one that is written in one line. Some
 * names are part of another kernel's name. */
static void only_the_wanted(clq_device *device, clq_queue *queue) {
    (void)queue;
    has(device, "arithmetic add_words", "arithmetic", true);
    has(device, "arithmetic add_words", "add_words", true);
    has(device, "arithmetic add_words", "group_sum", false);
    has(device, "arithmetic add_words", "random_words", false);
    has(device, "vectors words", "vectors", true);
    has(device, "vectors words", "add_words", false);
    has(device, "vectors words", "vector", false);
    has(device, "", "group_sum", true);
}

static void test_only_the_wanted(void **state) {
    (void)state;
    on_each_device(only_the_wanted);
}

/* The error is always that of the first wrong program. The compiler's line numbers are those of the file, because a
 * definition that is left out leaves its lines. */
static void first_failure(clq_device *device, clq_queue *queue) {
    (void)queue;
    const clq_program_wish wishes[] = {{"selftest", "", "add_words", NULL, false},
                                       {"selftest", "-Drandom_words=1", "random_words", NULL, false},
                                       {"no_such_file", "", "f", NULL, false},
                                       {"selftest", "-Dvectors=2", "vectors", NULL, false}};
    for (int round = 0; round < 5; round++) {
        size_t failed = 99;
        CHECK_FAILS(CLQ_ERROR_BUILD, clq_device_load_programs(device, wishes, CLQ_COUNT_OF(wishes), &failed));
        assert_int_equal(failed, 1);
        CHECK_DETAIL("selftest.cl does not build");
        CHECK_DETAIL(":62:");
        CHECK_DETAIL(clq_device_label(device));
        CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_device_load_programs(device, wishes + 2, 1, &failed));
        assert_int_equal(failed, 0);
        CHECK_DETAIL("no_such_file.cl");
    }
    size_t failed;
    CHECK_OK(clq_device_load_programs(device, wishes, 1, &failed));
    assert_int_equal(failed, 1);
    CHECK_OK(clq_device_load_programs(device, NULL, 0, &failed));
}

static void test_first_failure(void **state) {
    (void)state;
    on_each_device(first_failure);
}

enum { THREADS = 4 };

typedef struct loader {
    clq_device *device;
    clq_kernel *kernel;
    clq_status status;
} loader;

static void load(void *context) {
    loader *l = context;
    const clq_program_wish wishes[] = {
        {"selftest", "-DA", "arithmetic", NULL, false}, {"selftest", "-DB", "add_words", NULL, false},
        {"selftest", "-DA", "arithmetic", NULL, false}, {"selftest", "-DC", "group_sum", NULL, false},
        {"selftest", "-DD", "vectors", NULL, false},    {"selftest", "-DB", "add_words", NULL, false}};
    size_t failed;
    l->status = clq_device_load_programs(l->device, wishes, CLQ_COUNT_OF(wishes), &failed);
    if (l->status == CLQ_OK) l->status = clq_kernel_create_among(l->device, &wishes[1], "add_words", &l->kernel);
}

/* Two threads for each of two devices: with the default cache, which is cold at first, and without a cache. */
static void test_from_many_threads(void **state) {
    (void)state;
    const char *const caches[] = {NULL, NULL, ""};
    for (size_t c = 0; c < CLQ_COUNT_OF(caches); c++) {
        clq_system *system;
        uint32_t indices[TEST_DEVICES];
        CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = caches[c]}, &system));
        size_t count = find_devices(system, indices);
        for (size_t i = 0; i < (caches[c] ? 1 : count); i++) {
            clq_device *devices[2];
            loader loaders[THREADS];
            clq_thread *threads[THREADS];
            for (int d = 0; d < 2; d++)
                CHECK_OK(clq_device_open(system, (clq_device_choice){indices[i], 0, 1}, &devices[d]));
            for (int t = 0; t < THREADS; t++) {
                loaders[t] = (loader){.device = devices[t % 2]};
                CHECK_OK(clq_thread_start("loader", load, &loaders[t], &threads[t]));
            }
            for (int t = 0; t < THREADS; t++) clq_thread_join(threads[t]);
            for (int t = 0; t < THREADS; t++) {
                CHECK_OK(loaders[t].status);
                clq_kernel_destroy(loaders[t].kernel);
            }
            for (int d = 0; d < 2; d++) clq_device_close(devices[d]);
        }
        clq_system_close(system);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_the_wanted), cmocka_unit_test(test_first_failure),
                                       cmocka_unit_test(test_from_many_threads)};
    return cmocka_run_group_tests_name("program_load", tests, NULL, NULL);
}
