/* Shared by the tests of this layer: the devices that the tests run on. */
#ifndef CLQ_TEST_DEVICE_FIXTURE_H
#define CLQ_TEST_DEVICE_FIXTURE_H

#include "device/device.h"
#include "support/check.h"
#include "support/pocl_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK_OK assert_ok
#define CHECK_FAILS(status, call) assert_string_equal(clq_status_text(status), clq_status_text(call))
#define CHECK_DETAIL(part) expect_text(clq_error_detail(), part)

/* One device of each kind in the tests' environment: PoCL's device that runs in its caller's thread, PoCL's thread
 * pool, and Intel's runtime, which an x86-64 machine must have. */
enum { TEST_BASIC, TEST_POOL, TEST_INTEL, TEST_DEVICES };
static inline size_t find_devices(clq_system *system, uint32_t indices[TEST_DEVICES]) {
    const char *const words[TEST_DEVICES] = {POCL_BASIC, POCL_POOL, ""};
    const char *const drivers[TEST_DEVICES] = {"pocl", "pocl", "intel"};
    size_t found = 0;
    for (size_t k = 0; k < TEST_DEVICES; k++)
        for (size_t i = 0; i < clq_system_device_count(system); i++) {
            const clq_device_info *info = clq_system_device_info(system, i);
            if (strcmp(info->driver, drivers[k]) != 0 || !pocl_name_is(info->name, words[k])) continue;
            indices[found++] = (uint32_t)i;
            break;
        }
#if defined(__x86_64__)
    assert_int_equal(found, TEST_DEVICES);
#else
    assert_true(found >= 2);
#endif
    return found;
}

static inline void on_devices(bool pool_too, void (*body)(clq_device *device, clq_queue *queue)) {
    clq_system *system;
    CHECK_OK(clq_system_open(NULL, &system));
    uint32_t indices[TEST_DEVICES];
    size_t count = find_devices(system, indices);
    for (size_t i = 0; i < count; i++) {
        clq_device *device;
        clq_queue *queue;
        if (i == TEST_POOL && count == TEST_DEVICES && !pool_too) continue;
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[i], 0, 1}, &device));
        CHECK_OK(clq_queue_create(device, 0, &queue));
        body(device, queue);
        clq_queue_destroy(queue);
        assert_int_equal(clq_device_memory_used(device), 0); /* the body destroys whatever it made */
        clq_device_close(device);
    }
    clq_system_close(system);
}

/* Runs `body` on each of these devices. The device is open and has an in-order queue. */
static inline void on_each_device(void (*body)(clq_device *device, clq_queue *queue)) { on_devices(true, body); }
/* Runs `body` on PoCL's basic device and Intel's, and on PoCL's thread pool only if there is no Intel driver. */
static inline void on_each_driver(void (*body)(clq_device *device, clq_queue *queue)) { on_devices(false, body); }

/* Whether the driver itself says that it can split the device by counts. PoCL 7.1 splits no device. */
static inline bool driver_splits(clq_system *system, uint32_t index) {
    clq_device *device;
    cl_device_partition_property kinds[16] = {0};
    bool splits = false;
    CHECK_OK(clq_device_open(system, (clq_device_choice){index, 0, 1}, &device));
    assert_int_equal(
        clGetDeviceInfo(clq_device_id(device), CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, NULL), CL_SUCCESS);
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) splits = splits || kinds[i] == CL_DEVICE_PARTITION_BY_COUNTS;
    clq_device_close(device);
    return splits;
}
#endif
