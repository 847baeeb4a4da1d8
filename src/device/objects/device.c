#include "device/internal.h"

#include <stdio.h>
#include <string.h>

uint32_t clq_device_vector(const clq_device *device) {
    if (clq_device_family(device) != CLQ_FAMILY_TILE) return 4;
    return device->info.vector_width >= 16 ? 16 : device->info.vector_width >= 8 ? 8 : 4;
}

static clq_status create_locks(clq_device *device) {
    int error = pthread_mutex_init(&device->lock, NULL);
    if (error) return clq_fail_lock("a device", error);
    error = pthread_mutex_init(&device->building, NULL);
    if (!error) {
        error = pthread_cond_init(&device->built, NULL);
        if (!error) return CLQ_OK;
        (void)pthread_mutex_destroy(&device->building);
    }
    (void)pthread_mutex_destroy(&device->lock);
    return clq_fail_lock("a device", error);
}

/* Makes a device without its context, which the caller sets. */
static clq_status device_create(cl_platform_id platform, cl_device_id id, const clq_device_info *info,
                                const char *cache_dir, uint64_t memory_limit, const clq_build_limit *limit,
                                clq_device **out) {
    clq_device *device = clq_alloc(1, sizeof *device);
    if (!device) return CLQ_ERROR_MEMORY;
    clq_status status = create_locks(device);
    if (status != CLQ_OK) {
        clq_free(device);
        return status;
    }
    atomic_flag_clear(&device->loss_claimed);
    device->twin = device->claims = -1;
    device->build = *limit;
    device->info = *info;
    device->id = id;
    const cl_uint align_bits = clq_cl_device_uint(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 0);
    device->view_align = 64;
    while (device->view_align < align_bits / 8) device->view_align *= 2;
    clq_cl_platform_text(platform, CL_PLATFORM_VERSION, device->platform_version, sizeof device->platform_version);
    device->quirks = clq_quirks_of(info, device->platform_version);
    if (!clq_device_has_quirk(device, CLQ_QUIRK_NO_SUB_GROUPS))
        device->sub_group_standard = clq_sub_group_standard_of(id);
    if (device->sub_group_standard)
        device->sub_group_sizes = clq_sub_group_sizes(id, &device->sub_group_size_is_wanted);
    device->matrix_unit = clq_matrix_unit_of(id, device->sub_group_sizes);
    device->memory_budget = memory_limit ? memory_limit : info->global_mem_bytes;
    status = clq_twin_take(device);
    if (status == CLQ_OK && cache_dir) {
        device->cache_dir = clq_strdup(cache_dir);
        if (device->cache_dir)
            device->claims = clq_claims_open(cache_dir);
        else
            status = CLQ_ERROR_MEMORY;
    }
    if (status != CLQ_OK) {
        clq_device_close(device);
        return status;
    }
    *out = device;
    return CLQ_OK;
}

/* Opens the chosen device, without a context. */
static clq_status open_choice(clq_system *system, clq_device_choice choice, clq_device **out) {
    if (choice.index >= system->count)
        return clq_fail(CLQ_ERROR_NO_DEVICE, "device %u is out of range: the machine has %zu", (unsigned)choice.index,
                        system->count);
    const clq_device_entry *entry = &system->entries[choice.index];
    const clq_build_limit limit = {system->build_deadline_s, " (--build-deadline, build_deadline_s)", &system->stuck};
    if (atomic_load(limit.stuck)) { /* the device's driver may not answer */
        char label[CLQ_LABEL_MAX];
        clq_entry_label(entry, label, sizeof label);
        return clq_fail_stuck(label, &limit);
    }
    cl_device_id id = entry->id;
    clq_device_info info = entry->info;
    if (choice.parts > 1) {
        CLQ_TRY(clq_device_part(entry, choice, &id));
        const cl_uint units = clq_cl_device_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
        info.compute_units = CLQ_MAX(units, 1u);
    }
    clq_device *device;
    CLQ_TRY(device_create(entry->platform, id, &info, system->cache_dir, system->memory_limit, &limit, &device));
    clq_entry_label(entry, device->label, sizeof device->label);
    if (choice.parts > 1)
        (void)snprintf(device->label, sizeof device->label, "%s:%u part %u of %u (%.120s)", info.driver,
                       (unsigned)entry->ordinal, (unsigned)choice.part + 1, (unsigned)choice.parts, info.name);
    *out = device;
    return CLQ_OK;
}

clq_status clq_devices_open_shared(clq_system *system, const clq_device_choice *choices, uint32_t count,
                                   clq_device **out) {
    clq_device *opened[CLQ_REPLICAS_MAX] = {NULL};
    cl_device_id ids[CLQ_REPLICAS_MAX] = {NULL};
    cl_uint distinct = 0;
    clq_status status;
    for (uint32_t i = 0; i < count; i++) {
        clq_device_close(clq_system_take_tested(system, choices[i].index)); /* it is in a context of its own */
        CLQ_TRY_OR(fail, status, open_choice(system, choices[i], &opened[i]));
        cl_uint k = 0;
        while (k < distinct && ids[k] != opened[i]->id) k++;
        if (k == distinct) ids[distinct++] = opened[i]->id;
    }
    cl_int error;
    cl_context context = clCreateContext(NULL, distinct, ids, NULL, NULL, &error);
    if (!context) {
        status = clq_cl_fail(opened[0], error, "making a context of %u devices", (unsigned)distinct);
        goto fail;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) (void)clRetainContext(context);
        opened[i]->context = context;
        clq_twin_join(opened[i]);
        out[i] = opened[i];
    }
    return CLQ_OK;
fail:
    for (uint32_t i = 0; i < count; i++) clq_device_close(opened[i]);
    return status;
}

clq_status clq_device_open(clq_system *system, clq_device_choice choice, clq_device **out) {
    clq_device *tested = choice.parts == 1 ? clq_system_take_tested(system, choice.index) : NULL;
    if (tested) {
        *out = tested;
        return CLQ_OK;
    }
    return clq_devices_open_shared(system, &choice, 1, out);
}

clq_build_limit clq_device_build_limit(const clq_device *device) { return device->build; }

clq_status clq_device_wrap(cl_context context, cl_device_id id, const clq_build_limit *limit, clq_device **out) {
    cl_platform_id platform = NULL;
    cl_int error =
        context && id ? clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) : CL_INVALID_DEVICE;
    if (error != CL_SUCCESS && error != CL_INVALID_DEVICE)
        return clq_fail(CLQ_ERROR_DEVICE, "asking for a device's platform: %s (%d)", clq_cl_error_name(error),
                        (int)error);
    if (error != CL_SUCCESS)
        return clq_fail(CLQ_ERROR_ARGUMENT, "invalid cl_context or cl_device_id: %s (%d)", clq_cl_error_name(error),
                        (int)error);
    clq_device_info info;
    clq_describe_device(platform, id, &info);
    char *cache_dir = NULL;
    clq_status status = clq_cache_dir(&cache_dir);
    if (status == CLQ_ERROR_MEMORY) return status; /* after another failure it works without */
    clq_device *device;
    status = device_create(platform, id, &info, cache_dir, 0, limit, &device);
    clq_free(cache_dir);
    CLQ_TRY(status);
    (void)snprintf(device->label, sizeof device->label, "%s (%.160s)", info.driver, info.name);
    error = clRetainContext(context);
    if (error == CL_SUCCESS)
        device->context = context;
    else
        status = clq_cl_fail(device, error, "retaining the context");
    /* A CPU device's memory is the host's and need not be tested: collectives on the device would have to wait for a
     * compiler. */
    if (status == CLQ_OK && info.fine_grain_svm && info.type != CLQ_DEVICE_CPU)
        status = clq_device_test_host_memory(device);
    if (status != CLQ_OK) {
        clq_device_close(device);
        return status;
    }
    clq_twin_join(device);
    *out = device;
    return CLQ_OK;
}

void clq_device_close(clq_device *device) {
    if (!device) return;
    clq_error callers; /* the calling thread's message, which stays */
    clq_error_take(CLQ_ERROR_DEVICE, &callers);
    clq_twin_leave(device);
    clq_programs_close(device);
    clq_claims_close(device->claims);
    clq_free(device->trial_results);
    if (!clq_device_lost(device)) {
        if (device->service) (void)clReleaseCommandQueue(device->service);
        if (device->context) (void)clReleaseContext(device->context);
    }
    clq_twin_return(device->twin);
    (void)pthread_cond_destroy(&device->built);
    (void)pthread_mutex_destroy(&device->building);
    (void)pthread_mutex_destroy(&device->lock);
    clq_free(device->cache_dir);
    clq_free(device);
    (void)clq_error_raise(&callers);
}

const clq_device_info *clq_device_get_info(const clq_device *device) { return &device->info; }

const char *clq_device_label(const clq_device *device) { return device->label; }

cl_context clq_device_context(const clq_device *device) { return device->context; }

cl_device_id clq_device_id(const clq_device *device) { return device->id; }

void clq_device_distrust_host_memory(clq_device *device, const char *reason) {
    clq_log(CLQ_LOG_WARNING,
            "%s: the memory that it shares with the host is not coherent (%s); data are copied instead", device->label,
            reason);
    device->info.host_unified = device->info.fine_grain_svm = false;
}

bool clq_device_same_context(const clq_device *a, const clq_device *b) { return a->context == b->context; }

clq_kernel_family clq_device_family(const clq_device *device) {
    return device->info.type == CLQ_DEVICE_CPU ? CLQ_FAMILY_TILE : CLQ_FAMILY_LOCAL;
}

bool clq_device_runs_in_caller(const clq_device *device) {
    return clq_device_has_quirk(device, CLQ_QUIRK_RUNS_IN_CALLER);
}

uint32_t clq_device_min_groups(const clq_device *device) {
    if (clq_device_runs_in_caller(device)) return 1;
    return device->info.compute_units * (clq_device_has_quirk(device, CLQ_QUIRK_GROUPS_IN_RUNS) ? 32 : 4);
}

size_t clq_device_view_align(const clq_device *device) { return device->view_align; }

uint64_t clq_device_memory_budget(const clq_device *device) { return device->memory_budget; }
uint64_t clq_device_memory_used(const clq_device *device) { return atomic_load(&device->memory_used); }
