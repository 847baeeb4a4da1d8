/* What was found out about the machine as a whole. It is kept beside the list of the machine's devices, and valid as
 * long as that list. */
#include "device/internal.h"

static const char folder[] = "choices"; /* of the cache */

clq_status clq_machine_key(clq_text *about, clq_hash128 *out) {
    clq_machine_describe(about);
    return clq_cache_key(about, out);
}

clq_status clq_machine_recall(clq_hash128 key, void **out, size_t *bytes) {
    char *cache_dir;
    *out = NULL;
    clq_status status = clq_cache_dir(&cache_dir);
    if (status != CLQ_OK) return status == CLQ_ERROR_MEMORY ? status : CLQ_OK; /* without a folder nothing is kept */
    status = clq_cache_load(cache_dir, folder, key, out, bytes);
    clq_free(cache_dir);
    return status;
}

clq_status clq_machine_keep(clq_hash128 key, const void *data, size_t bytes) {
    char *cache_dir;
    CLQ_TRY(clq_cache_dir(&cache_dir));
    clq_status status = clq_cache_store(cache_dir, folder, key, data, bytes);
    clq_free(cache_dir);
    return status;
}

void clq_machine_forget(clq_hash128 key) {
    char *cache_dir;
    if (clq_cache_dir(&cache_dir) != CLQ_OK) return;
    clq_cache_drop(cache_dir, folder, key);
    clq_free(cache_dir);
}
