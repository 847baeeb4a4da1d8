/* Results of trials: what was found out about a device by trying it. They are kept for as long as the device is open,
 * and on disk for devices that are alike. */
#include "device/internal.h"
#include "device/program/sources.h"

#include <string.h>

struct clq_trial_result {
    clq_hash128 key;
    bool result;
};

static const char folder[] = "trials"; /* of the cache */

/* The key of a result on disk. The result holds for the same device, driver, options and kernels. All kernels count,
 * since a trial does not say which ones it uses. */
static clq_status kept_key(const clq_device *device, clq_hash128 key, clq_hash128 *out) {
    const clq_device_info *info = &device->info;
    char *options = clq_build_options(device, "");
    if (!options) return CLQ_ERROR_MEMORY;
    clq_text text = {0};
    clq_text_add(&text, "%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%u\n%s\n", clq_version(), info->driver, info->platform,
                 device->platform_version, info->vendor, info->name, info->driver_version, info->opencl_version,
                 info->compute_units, options);
    clq_free(options);
    clq_text_add_bytes(&text, (const char *)&key, sizeof key);
    for (const clq_kernel_source *source = clq_kernel_sources; source->name; source++)
        clq_text_add_text(&text, source->text);
    return clq_cache_key(&text, out);
}

static struct clq_trial_result *find(const clq_device *device, clq_hash128 key) {
    for (size_t i = 0; i < device->trial_result_count; i++)
        if (memcmp(&device->trial_results[i].key, &key, sizeof key) == 0) return &device->trial_results[i];
    return NULL;
}

void clq_device_note_trial_result(clq_device *device, clq_hash128 key, bool result) {
    (void)pthread_mutex_lock(&device->lock);
    const size_t count = device->trial_result_count;
    struct clq_trial_result *grown = NULL;
    if (!find(device, key)) grown = clq_realloc(device->trial_results, count, count + 1, sizeof *grown);
    if (grown) {
        grown[count] = (struct clq_trial_result){key, result};
        device->trial_results = grown;
        device->trial_result_count++;
    }
    (void)pthread_mutex_unlock(&device->lock);
}

/* A result that cannot be read from disk counts as not known: the trial is made again. */
bool clq_device_trial_result(clq_device *device, clq_hash128 key, bool *result) {
    (void)pthread_mutex_lock(&device->lock);
    const struct clq_trial_result *found = find(device, key);
    if (found) *result = found->result;
    (void)pthread_mutex_unlock(&device->lock);
    if (found) return true;
    clq_hash128 kept;
    void *data = NULL;
    size_t bytes = 0;
    if (!device->cache_dir || kept_key(device, key, &kept) != CLQ_OK ||
        clq_cache_load(device->cache_dir, folder, kept, &data, &bytes) != CLQ_OK || !data)
        return false;
    const bool good = bytes == 1;
    if (good) *result = *(const unsigned char *)data != 0;
    clq_free(data);
    if (good) clq_device_note_trial_result(device, key, *result);
    return good;
}

/* The result of a lost device is not kept on disk: the trial may have failed for a reason that ends with the device. */
bool clq_device_keep_trial_result(clq_device *device, clq_hash128 key, bool result) {
    clq_hash128 kept;
    const unsigned char byte = result;
    clq_device_note_trial_result(device, key, result);
    if (!device->cache_dir || clq_device_lost(device)) return false;
    clq_status status = kept_key(device, key, &kept);
    if (status == CLQ_OK) status = clq_cache_store(device->cache_dir, folder, kept, &byte, sizeof byte);
    if (status != CLQ_OK) clq_log(CLQ_LOG_INFO, "a trial's result is not kept: %s", clq_error_detail());
    return status == CLQ_OK;
}
