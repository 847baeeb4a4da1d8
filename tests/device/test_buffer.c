#include "device/internal.h"
#include "fixture.h"

#include <sched.h>

static void zeroed_and_aligned(clq_device *device, clq_queue *queue) {
    const clq_memory_kind kinds[] = {CLQ_MEMORY_DEVICE, CLQ_MEMORY_PINNED};
    for (size_t k = 0; k < 2; k++) {
        clq_buffer *buffer;
        enum { BYTES = 70001 };
        unsigned char bytes[BYTES];
        memset(bytes, 1, sizeof bytes);
        CHECK_OK(clq_buffer_create(device, kinds[k], BYTES, "a test", &buffer));
        assert_int_equal(clq_buffer_bytes(buffer), BYTES);
        assert_ptr_equal(clq_buffer_device(buffer), device);
        CHECK_OK(clq_queue_read(queue, buffer, 0, bytes, BYTES, true));
        for (size_t i = 0; i < BYTES; i++) assert_int_equal(bytes[i], 0);
        void *host = clq_buffer_host(buffer);
        if (kinds[k] == CLQ_MEMORY_PINNED || clq_device_get_info(device)->fine_grain_svm) assert_non_null(host);
        if (host) assert_int_equal((uintptr_t)host % 64, 0);
        if (host && clq_device_get_info(device)->fine_grain_svm)
            assert_int_equal((uintptr_t)host % CLQ_BUFFER_ALIGN, 0);
        clq_buffer_destroy(buffer);
    }
}

/* A view, its buffer and the host's pointer show the same bytes, whatever the buffer's size. */
static void views_lie_where_they_say(clq_device *device, clq_queue *queue) {
    enum { MOST = 20000 };
    static unsigned char bytes[MOST];
    const size_t align = clq_device_view_align(device), sizes[] = {2 * align, 3 * align + 24, 1000, 4096, 5000, MOST};
    for (size_t i = 0; i < CLQ_COUNT_OF(sizes); i++) {
        clq_buffer *buffer, *view;
        size_t size = sizes[i], rest = size - align;
        CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, size, "a test", &buffer));
        CHECK_OK(clq_buffer_view(buffer, align, rest, &view));
        for (size_t k = 0; k < size; k++) bytes[k] = (unsigned char)(k % 251);
        CHECK_OK(clq_queue_write(queue, buffer, 0, bytes, size, true));
        memset(bytes, 0, sizeof bytes);
        CHECK_OK(clq_queue_read(queue, view, 0, bytes, rest, true));
        for (size_t k = 0; k < rest; k++) assert_int_equal(bytes[k], (k + align) % 251);
        for (size_t k = 0; k < rest; k++) bytes[k] = (unsigned char)(k % 199);
        CHECK_OK(clq_queue_write(queue, view, 0, bytes, rest, true));
        CHECK_OK(clq_queue_finish(queue));
        const unsigned char *host = clq_buffer_host(buffer);
        for (size_t k = 0; host && k < size; k++) assert_int_equal(host[k], k < align ? k % 251 : (k - align) % 199);
        CHECK_OK(clq_queue_read(queue, buffer, 0, bytes, size, true));
        for (size_t k = 0; k < size; k++) assert_int_equal(bytes[k], k < align ? k % 251 : (k - align) % 199);
        clq_buffer_destroy(view);
        clq_buffer_destroy(buffer);
    }
}

static void budget_counts(clq_device *device, clq_queue *queue) {
    (void)queue;
    assert_true(device->memory_budget > 0);
    assert_int_equal(clq_device_memory_used(device), 0);
    clq_buffer *a, *b, *unset = NULL;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 1000, "a", &a));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 24, "b", &b));
    assert_int_equal(clq_device_memory_used(device), 1024);
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_buffer_create(device, CLQ_MEMORY_DEVICE, 0, "nothing", &unset));
    CHECK_FAILS(CLQ_ERROR_DEVICE_MEMORY, clq_buffer_create(device, CLQ_MEMORY_DEVICE, SIZE_MAX, "all", &unset));
    CHECK_DETAIL("all needs");
    CHECK_DETAIL("would fit");
    size_t largest = (size_t)clq_device_get_info(device)->max_alloc_bytes;
    CHECK_FAILS(CLQ_ERROR_DEVICE_MEMORY,
                clq_buffer_create(device, CLQ_MEMORY_DEVICE, largest + 1, "one block", &unset));
    assert_null(unset);
    assert_int_equal(clq_device_memory_used(device), 1024);
    clq_buffer_destroy(a);
    assert_int_equal(clq_device_memory_used(device), 24);
    clq_buffer_destroy(b);
    clq_buffer_destroy(NULL);
}

static void test_limit(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device;
    clq_buffer *a, *b = NULL;
    CHECK_OK(clq_system_open(&(clq_system_config){.memory_limit_bytes = 1 << 20}, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    assert_int_equal(device->memory_budget, 1 << 20);
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 768 << 10, "a", &a));
    CHECK_FAILS(CLQ_ERROR_DEVICE_MEMORY,
                clq_buffer_create(device, CLQ_MEMORY_DEVICE, (256 << 10) + 1, "gradients", &b));
    CHECK_DETAIL("gradients");
    CHECK_DETAIL("gradients needs 262145 bytes: more than what is left of the budget; 262144 bytes would fit (768 KiB "
                 "of 1.00 MiB in use");
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 256 << 10, "b", &b));
    clq_buffer_destroy(b);
    clq_buffer_destroy(a);
    clq_device_close(device);
    clq_system_close(system);
}

typedef struct making {
    clq_device *device;
    clq_buffer *made;
    clq_status status;
    clq_error error;
} making;

static void *make(void *context) {
    making *m = context;
    m->status = clq_buffer_create(m->device, CLQ_MEMORY_PINNED, 64, "staging", &m->made);
    clq_error_take(m->status, &m->error);
    return NULL;
}

/* A thread that waited for the device's own queue while the device was lost does not use the queue any more, because
 * calls may hang. */
static void lost_meanwhile(clq_device *device, clq_queue *queue) {
    (void)queue;
    making m = {.device = device, .status = CLQ_OK};
    pthread_t thread;
    device->info.fine_grain_svm = false; /* with fine-grained memory no queue is needed */
    assert_int_equal(pthread_mutex_lock(&device->lock), 0);
    assert_int_equal(pthread_create(&thread, NULL, make, &m), 0);
    while (clq_device_memory_used(device) == 0) (void)sched_yield(); /* then the thread has seen a live device */
    (void)clq_cl_fail_lost(device, CL_DEVICE_NOT_AVAILABLE, "as if");
    assert_int_equal(pthread_mutex_unlock(&device->lock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_FAILS(CLQ_ERROR_DEVICE, m.status);
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_error_raise(&m.error));
    CHECK_DETAIL("is not used any more");
    assert_null(m.made);
    assert_null(device->service);
}

static void add_words(clq_queue *queue, clq_buffer *buffer, uint32_t add, size_t words) {
    clq_kernel *kernel;
    CHECK_OK(clq_kernel_create(clq_queue_device(queue), "selftest", "", "add_words", &kernel));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &words, NULL));
    CHECK_OK(clq_queue_finish(queue));
    clq_kernel_destroy(kernel);
}

/* All devices of the tests have fine-grained shared memory: host and kernels see each other's writes, unmapped. */
static void host_is_coherent(clq_device *device, clq_queue *queue) {
    enum { WORDS = 5000 };
    assert_true(clq_device_get_info(device)->fine_grain_svm);
    size_t align = clq_device_view_align(device);
    assert_true(align >= 64 && (align & (align - 1)) == 0);
    clq_buffer *whole, *view, *inner = NULL;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, align + WORDS * 4, "words", &whole));
    CHECK_OK(clq_buffer_view(whole, align, WORDS * 4, &view));
    assert_int_equal(clq_buffer_bytes(view), WORDS * 4);
    assert_ptr_equal(clq_buffer_host(view), (char *)clq_buffer_host(whole) + align);
    volatile uint32_t *words = clq_buffer_host(view);
    for (uint32_t round = 1; round < 20; round++) {
        for (uint32_t i = 0; i < WORDS; i++) words[i] = i * round;
        add_words(queue, view, round, WORDS);
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], i * round + round);
        add_words(queue, whole, 1, align / 4 + WORDS);
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], i * round + round + 1);
    }
    assert_int_equal(((uint32_t *)clq_buffer_host(whole))[align / 4 - 1], 19); /* the view touched nothing in front */
    assert_int_equal(clq_device_memory_used(device), align + WORDS * 4);       /* views cost nothing */
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_buffer_view(whole, align, WORDS * 4 + 1, &inner));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_buffer_view(whole, align / 2, 4, &inner));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_buffer_view(whole, 0, 0, &inner));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_buffer_view(whole, SIZE_MAX - align + 1, 4, &inner));
    assert_null(inner);
    clq_buffer_destroy(view);
    clq_buffer_destroy(whole);
}

static void maps(clq_device *device, clq_queue *queue) {
    enum { WORDS = 1024 };
    clq_buffer *buffer;
    void *pointer = NULL;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, WORDS * 4, "words", &buffer));
    CHECK_OK(clq_queue_map(queue, buffer, 64, 128, true, &pointer));
    for (uint32_t i = 0; i < 32; i++) ((uint32_t *)pointer)[i] = 100 + i;
    CHECK_OK(clq_queue_unmap(queue, buffer, pointer));
    add_words(queue, buffer, 1, WORDS);
    CHECK_OK(clq_queue_map(queue, buffer, 0, WORDS * 4, false, &pointer));
    for (uint32_t i = 0; i < WORDS; i++)
        assert_int_equal(((uint32_t *)pointer)[i], i >= 16 && i < 48 ? 101 + i - 16 : 1);
    CHECK_OK(clq_queue_unmap(queue, buffer, pointer));
    CHECK_OK(clq_queue_finish(queue));
    CHECK_OK(clq_queue_map_new(queue, buffer, 128, 64, &pointer));
    for (uint32_t i = 0; i < 16; i++) ((uint32_t *)pointer)[i] = 7 * i;
    CHECK_OK(clq_queue_unmap(queue, buffer, pointer));
    CHECK_OK(clq_queue_map(queue, buffer, 0, WORDS * 4, false, &pointer));
    for (uint32_t i = 0; i < WORDS; i++)
        assert_int_equal(((uint32_t *)pointer)[i], i >= 32 && i < 48   ? 7 * (i - 32)
                                                   : i >= 16 && i < 32 ? 101 + i - 16
                                                                       : 1);
    CHECK_OK(clq_queue_unmap(queue, buffer, pointer));
    CHECK_OK(clq_queue_finish(queue));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_map_new(queue, buffer, 4, WORDS * 4, &pointer));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_map_new(queue, buffer, 0, 0, &pointer));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_map(queue, buffer, 0, WORDS * 4 + 1, true, &pointer));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_map(queue, buffer, 0, 0, true, &pointer));
    clq_buffer_destroy(buffer);
}

static void wraps(clq_device *device, clq_queue *queue) {
    cl_int error;
    cl_mem memory = clCreateBuffer(clq_device_context(device), CL_MEM_READ_WRITE, 256, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    clq_buffer *buffer;
    CHECK_OK(clq_buffer_wrap(device, memory, &buffer));
    assert_int_equal(clReleaseMemObject(memory), CL_SUCCESS); /* the wrapper holds it */
    assert_int_equal(clq_buffer_bytes(buffer), 256);
    assert_ptr_equal(clq_buffer_handle(buffer), memory);
    assert_null(clq_buffer_host(buffer));
    assert_int_equal(clq_device_memory_used(device), 0);
    uint32_t in[64], out[64];
    for (uint32_t i = 0; i < 64; i++) in[i] = i * i;
    CHECK_OK(clq_queue_write(queue, buffer, 0, in, sizeof in, true));
    add_words(queue, buffer, 3, 64);
    CHECK_OK(clq_queue_read(queue, buffer, 0, out, sizeof out, true));
    for (uint32_t i = 0; i < 64; i++) assert_int_equal(out[i], i * i + 3);
    clq_buffer_destroy(buffer);
    clq_buffer *unset = NULL;
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_buffer_wrap(device, NULL, &unset));
    assert_null(unset);
}

/* Kernels of every device, each in a context of its own, work on the same memory. */
static void test_alias(void **state) {
    (void)state;
    enum { WORDS = 1000 };
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    clq_device *devices[TEST_DEVICES];
    clq_queue *queues[TEST_DEVICES];
    CHECK_OK(clq_system_open(NULL, &system));
    size_t count = find_devices(system, indices);
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[i], 0, 1}, &devices[i]));
        CHECK_OK(clq_queue_create(devices[i], 0, &queues[i]));
    }
    for (size_t owner = 0; owner < count; owner++) {
        clq_buffer *buffer, *alias;
        uint64_t used = clq_device_memory_used(devices[owner]);
        CHECK_OK(clq_buffer_create(devices[owner], CLQ_MEMORY_DEVICE, WORDS * 4, "words", &buffer));
        const uint32_t *host = clq_buffer_host(buffer);
        assert_non_null(host);
        for (size_t i = 0; i < count; i++) {
            CHECK_OK(clq_buffer_alias(devices[i], buffer, &alias));
            assert_ptr_equal(clq_buffer_host(alias), host);
            assert_int_equal(clq_buffer_bytes(alias), WORDS * 4);
            add_words(queues[i], alias, 1u << (8 * i), WORDS);
            clq_buffer_destroy(alias);
        }
        add_words(queues[owner], buffer, 1, WORDS);
        for (size_t w = 0; w < WORDS; w++) assert_int_equal(host[w], 1 + (count == 3 ? 0x10101 : 0x101));
        clq_buffer_destroy(buffer);
        assert_int_equal(clq_device_memory_used(devices[owner]), used);
    }
    clq_buffer *callers, *alias;
    cl_int error;
    cl_mem memory = clCreateBuffer(clq_device_context(devices[0]), CL_MEM_READ_WRITE, 64, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    CHECK_OK(clq_buffer_wrap(devices[0], memory, &callers));
    CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, clq_buffer_alias(devices[1], callers, &alias)); /* the host cannot reach it */
    clq_buffer_destroy(callers);
    (void)clReleaseMemObject(memory);
    for (size_t i = 0; i < count; i++) {
        clq_queue_destroy(queues[i]);
        clq_device_close(devices[i]);
    }
    clq_system_close(system);
}

/* A lost device may still write the memory of another device. So this memory is not given back. */
static void test_lost_alias(void **state) {
    (void)state;
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    clq_device *owner, *other;
    clq_buffer *lent, *own, *alias;
    CHECK_OK(clq_system_open(NULL, &system));
    find_devices(system, indices);
    CHECK_OK(clq_device_open(system, (clq_device_choice){indices[TEST_BASIC], 0, 1}, &owner));
    CHECK_OK(clq_device_open(system, (clq_device_choice){indices[TEST_POOL], 0, 1}, &other));
    CHECK_OK(clq_buffer_create(owner, CLQ_MEMORY_DEVICE, 1000, "lent", &lent));
    CHECK_OK(clq_buffer_create(owner, CLQ_MEMORY_DEVICE, 24, "own", &own));
    CHECK_OK(clq_buffer_alias(other, lent, &alias));
    unsigned char *host = clq_buffer_host(lent);
    clq_device_lose(other, "a kernel");
    clq_buffer_destroy(alias);
    clq_buffer_destroy(lent);
    clq_buffer_destroy(own);
    host[999] = 1; /* the address sanitizer watches it */
    assert_int_equal(clq_device_memory_used(owner), 1000);
    clq_device_close(other);
    clq_device_close(owner);
    clq_system_close(system);
}

static void test_zeroed(void **state) {
    (void)state;
    on_each_device(zeroed_and_aligned);
}
static void test_views(void **state) {
    (void)state;
    on_each_device(views_lie_where_they_say);
}
static void test_budget(void **state) {
    (void)state;
    on_each_device(budget_counts);
}
static void test_lost(void **state) {
    (void)state;
    on_each_device(lost_meanwhile);
}
static void test_coherent(void **state) {
    (void)state;
    on_each_device(host_is_coherent);
}
static void test_maps(void **state) {
    (void)state;
    on_each_device(maps);
}
static void test_wraps(void **state) {
    (void)state;
    on_each_device(wraps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed),     cmocka_unit_test(test_views),    cmocka_unit_test(test_budget),
        cmocka_unit_test(test_limit),      cmocka_unit_test(test_coherent), cmocka_unit_test(test_maps),
        cmocka_unit_test(test_wraps),      cmocka_unit_test(test_alias),    cmocka_unit_test(test_lost),
        cmocka_unit_test(test_lost_alias),
    };
    return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
