#include "device/internal.h"

#include <stdio.h>
#include <string.h>

enum { PLATFORMS_MAX = 32, DEVICES_MAX = 64 /* of one platform */, NO_PLATFORM = -1001 /* cl_khr_icd */ };

static clq_status list_platforms(cl_platform_id *platforms, cl_uint *count) {
    cl_uint found = 0;
    cl_int error = clGetPlatformIDs(PLATFORMS_MAX, platforms, &found);
    if (error != CL_SUCCESS && error != NO_PLATFORM)
        return clq_fail(CLQ_ERROR_DEVICE, "listing the OpenCL platforms: %s (%d)", clq_cl_error_name(error),
                        (int)error);
    *count = error == CL_SUCCESS ? CLQ_MIN(found, (cl_uint)PLATFORMS_MAX) : 0;
    return CLQ_OK;
}

/* Devices are chosen by these properties, and the quirks of a driver are known by its platform's name. A device without
 * them is not used. */
static void check_description(clq_device_info *info) {
    const char *missing = !info->platform[0]       ? "its platform's name"
                          : !info->name[0]         ? "its name"
                          : !info->max_alloc_bytes ? "the size of its memory"
                                                   : NULL;
    if (!missing || !info->usable) return;
    info->usable = false;
    (void)snprintf(info->reason, sizeof info->reason, "the driver does not tell %s", missing);
    clq_log(CLQ_LOG_WARNING, "device %u is not used: %s", (unsigned)info->index, info->reason);
}

/* The entry for a device. A recalled system may have one for the device already. Otherwise makes one at the end. */
static clq_device_entry *place_of(clq_system *system, const clq_device_info *info, uint32_t ordinal) {
    for (size_t i = 0; i < system->count; i++) {
        clq_device_entry *entry = &system->entries[i];
        if (!entry->id && entry->ordinal == ordinal && strcmp(entry->info.driver, info->driver) == 0 &&
            strcmp(entry->info.name, info->name) == 0)
            return entry;
    }
    if (system->recalled) clq_system_forget_list(system); /* the machine is not what it was when it was listed */
    return &system->entries[system->count++];
}

static void add_device(clq_system *system, cl_platform_id platform, cl_device_id id) {
    clq_device_info info;
    uint32_t ordinal = 0;
    clq_describe_device(platform, id, &info);
    for (size_t i = 0; i < system->count; i++)
        ordinal += system->entries[i].id && strcmp(system->entries[i].info.driver, info.driver) == 0;
    clq_device_entry *entry = place_of(system, &info, ordinal);
    entry->platform = platform;
    entry->id = id;
    entry->ordinal = ordinal;
    entry->info = info;
    entry->info.index = (uint32_t)(entry - system->entries);
    check_description(&entry->info);
    entry->tested = !entry->info.usable;
}

static void leave_out_others(clq_system *system) {
    for (size_t i = 0; i < system->count; i++) {
        clq_device_entry *entry = &system->entries[i];
        if (entry->id) continue;
        entry->info.usable = false;
        (void)snprintf(entry->info.reason, sizeof entry->info.reason,
                       "its driver was left alone: it was not asked for");
    }
}

static clq_status add_platform(clq_system *system, cl_platform_id platform) {
    cl_device_id ids[DEVICES_MAX];
    cl_uint count = 0;
    cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count);
    /* A driver without hardware answers CL_DEVICE_NOT_FOUND, and a broken driver anything. The other drivers still
     * serve. */
    if (error == CL_DEVICE_NOT_FOUND) return CLQ_OK;
    if (error != CL_SUCCESS || count == 0) {
        char name[CLQ_NAME_MAX];
        clq_cl_platform_text(platform, CL_PLATFORM_NAME, name, sizeof name);
        clq_log(CLQ_LOG_WARNING, "OpenCL platform %s lists no device: %s (%d)", name, clq_cl_error_name(error),
                (int)error);
        return CLQ_OK;
    }
    count = CLQ_MIN(count, (cl_uint)DEVICES_MAX);
    clq_device_entry *entries = clq_realloc(system->entries, system->count, system->count + count, sizeof *entries);
    if (!entries) return CLQ_ERROR_MEMORY;
    system->entries = entries;
    for (cl_uint i = 0; i < count; i++) add_device(system, platform, ids[i]);
    return CLQ_OK;
}

static clq_status choose_cache(const clq_system_config *config, char **out) {
    *out = NULL;
    if (config && config->cache_dir) {
        if (config->cache_dir[0] == '\0') return CLQ_OK;
        *out = clq_strdup(config->cache_dir);
        return *out ? CLQ_OK : CLQ_ERROR_MEMORY;
    }
    clq_status status = clq_cache_dir(out);
    if (status == CLQ_OK || status == CLQ_ERROR_MEMORY) return status;
    clq_log(CLQ_LOG_WARNING, "programs are compiled anew each time, there is no cache: %s", clq_error_detail());
    return CLQ_OK;
}

clq_status clq_system_open(const clq_system_config *config, clq_system **out) {
    return clq_system_open_recalled(NULL, config, out);
}

clq_status clq_system_open_recalled(clq_system *recalled, const clq_system_config *config, clq_system **out) {
    const clq_status known = config ? CLQ_RESERVE_CHECK(clq_system_config, config) : CLQ_OK;
    if (known != CLQ_OK) clq_system_close(recalled);
    CLQ_TRY(known);
    clq_system *system = recalled ? recalled : clq_alloc(1, sizeof *system);
    if (!system) return CLQ_ERROR_MEMORY;
    system->memory_limit = config ? config->memory_limit_bytes : 0;
    system->build_deadline_s =
        config && config->build_deadline_s > 0.0 ? config->build_deadline_s : CLQ_BUILD_DEADLINE_S;
    clq_status status;
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint count;
    CLQ_TRY_OR(fail, status, choose_cache(config, &system->cache_dir));
    CLQ_TRY_OR(fail, status, list_platforms(platforms, &count));
    for (cl_uint i = 0; i < count; i++) CLQ_TRY_OR(fail, status, add_platform(system, platforms[i]));
    if (recalled) {
        CLQ_TRY_OR(fail, status, clq_system_check_recalled(system));
        leave_out_others(system);
    } else {
        clq_system_keep_list(system);
    }
    *out = system;
    return CLQ_OK;
fail:
    clq_system_close(system);
    return status;
}

void clq_system_close_tested(clq_system *system) {
    for (size_t i = 0; system && i < system->count; i++) clq_device_close(clq_system_take_tested(system, (uint32_t)i));
}

void clq_system_close(clq_system *system) {
    if (!system) return;
    clq_system_close_tested(system);
    clq_free(system->entries);
    clq_free(system->cache_dir);
    clq_free(system);
}

bool clq_system_is_stuck(const clq_system *system, bool *noted) {
    const unsigned stuck = atomic_load(&system->stuck);
    *noted = (stuck & CLQ_STUCK_NOTED) != 0;
    return stuck != 0;
}

size_t clq_system_device_count(const clq_system *system) { return system->count; }

const clq_device_info *clq_system_device_info(const clq_system *system, size_t index) {
    return index < system->count ? &system->entries[index].info : NULL;
}

void clq_entry_label(const clq_device_entry *entry, char *out, size_t bytes) {
    (void)snprintf(out, bytes, "%s:%u (%.160s)", entry->info.driver, (unsigned)entry->ordinal, entry->info.name);
}

/* Tests the device without the caller's memory limit: the limit is for later use, and says nothing of the device. */
static clq_status test_without_limit(clq_device *device, clq_device_info *info) {
    const uint64_t budget = device->memory_budget;
    device->memory_budget = CLQ_MAX(budget, info->global_mem_bytes);
    clq_status status = clq_device_self_test(device, &info->usable, info->reason, sizeof info->reason);
    device->memory_budget = budget;
    return status;
}

clq_status clq_system_test_device(clq_system *system, size_t index) {
    clq_device_entry *entry = &system->entries[index];
    clq_device_info *info = &entry->info;
    if (entry->tested) return CLQ_OK;
    clq_device *device = NULL;
    clq_status status = clq_device_open(system, (clq_device_choice){(uint32_t)index, 0, 1}, &device);
    if (status == CLQ_OK) status = test_without_limit(device, info);
    if (status == CLQ_OK) { /* the test may have found that the device's memory is not to be used as the host's */
        info->host_unified = device->info.host_unified;
        info->fine_grain_svm = device->info.fine_grain_svm;
    }
    if (status == CLQ_OK && info->usable)
        atomic_store(&entry->tested_device, device); /* it is most likely opened next, with a warm compiler */
    else
        clq_device_close(device);
    if (status == CLQ_ERROR_MEMORY) return status;
    /* Any other failure is the device's, which is then not used. */
    if (status != CLQ_OK) {
        info->usable = false;
        (void)snprintf(info->reason, sizeof info->reason, "%s", clq_error_detail());
    }
    entry->tested = true;
    if (info->usable) return CLQ_OK;
    clq_system_forget_list(system); /* another driver's device may work */
    clq_log(CLQ_LOG_WARNING, "%s:%u is not used: %s", info->driver, (unsigned)entry->ordinal, info->reason);
    return CLQ_OK;
}

clq_device *clq_system_take_tested(clq_system *system, uint32_t index) {
    if (index >= system->count) return NULL;
    return atomic_exchange(&system->entries[index].tested_device, NULL);
}

clq_status clq_system_test_devices(clq_system *system) {
    for (size_t i = 0; i < system->count; i++) {
        CLQ_TRY(clq_system_test_device(system, i));
        clq_device_close(clq_system_take_tested(system, (uint32_t)i)); /* the caller wants results, not devices */
    }
    return CLQ_OK;
}
