/* What the drivers listed last time. The loader opens every driver that is installed, and each CPU driver brings a
 * compiler: a program pays 50 to 90 MB and 0.1 to 0.3 s for devices that it does not use. So a program that knows
 * beforehand which devices it will select looks at the last full list. If one driver has them all, the program tells
 * the loader to open that driver alone. This works with ocl-icd, which takes a single file; other loaders are left
 * alone.
 *
 * The list is kept with the program cache. It is valid as long as nothing has changed that devices depend on: the
 * drivers' files, the environment variables that drivers read, the machine's PCI devices. */
#define _GNU_SOURCE                       /* dladdr; NOLINT(bugprone-reserved-identifier) */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS /* clGetExtensionFunctionAddress, without a platform */
#include "device/internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 512, FILES_MAX = 64, ICD_BYTES_MAX = 4096 };

/* One device as it is kept. The whole entry is an array of these. */
typedef struct kept_device {
    clq_device_info info;
    uint32_t ordinal;
    char vendor_file[PATH_BYTES], library[PATH_BYTES];
    int64_t library_bytes, library_seconds, library_nanoseconds;
} kept_device;

static const char list_folder[] = "devices"; /* of the cache */
static const char default_folder[] = "/etc/OpenCL/vendors";

/* ---- what devices depend on ---- */

static const char *const variables[] = {"OCL_",     "OPENCL_", "CL_",    "POCL_",     "CUDA_", "NVIDIA_", "GPU_",
                                        "AMD_",     "HIP_",    "HSA_",   "ROCR_",     "ZE_",   "SYCL_",   "NEO",
                                        "RUSTICL_", "MESA_",   "LIBGL_", "OCLGRIND_", "LD_"};

/* Adds the entries of a folder in the order of their names; if `files`, with their sizes and times. */
static void add_folder(clq_text *text, const char *folder, bool files) {
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        struct stat info = {0};
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && (!files || stat(path, &info) == 0))
            clq_text_add(text, "%s %jd %jd %ld\n", names[i]->d_name, (intmax_t)info.st_size, (intmax_t)info.st_mtime,
                         info.st_mtim.tv_nsec);
        free(names[i]);
    }
    if (count >= 0) free(names);
}

static const char *vendor_folder(void) {
    const char *own = clq_environment("OCL_ICD_VENDORS");
    return own ? own : default_folder;
}

static void add_loader(clq_text *text) {
    cl_int (*call)(cl_uint, cl_platform_id *, cl_uint *) = clGetPlatformIDs;
    void *address;
    Dl_info found;
    struct stat info;
    memcpy(&address, &call, sizeof address);
    if (!dladdr(address, &found) || !found.dli_fname || stat(found.dli_fname, &info) != 0) return;
    clq_text_add(text, "%s %jd %jd\n", found.dli_fname, (intmax_t)info.st_size, (intmax_t)info.st_mtime);
}

void clq_machine_describe(clq_text *text) {
    clq_text_add(text, "%s\n", vendor_folder());
    add_loader(text);
    add_folder(text, vendor_folder(), true);
    add_folder(text, "/sys/bus/pci/devices", false);
    if (!clq_environment_describe(variables, CLQ_COUNT_OF(variables), text)) text->failed = true;
}

static clq_status list_key(clq_hash128 *out) {
    clq_text text = {0};
    clq_text_add(&text, "devices %s %zu\n", clq_version(), sizeof(kept_device));
    return clq_machine_key(&text, out);
}

/* ---- which file names which driver ---- */

/* The library that implements a platform. By cl_khr_icd, every object begins with a pointer to the table of its
 * driver's calls. */
static bool library_of(cl_platform_id platform, char *out, size_t bytes) {
    void *const *calls;
    void *call;
    Dl_info found;
    memcpy(&calls, platform, sizeof calls);
    memcpy(&call, &calls[1], sizeof call); /* clGetPlatformInfo */
    if (!dladdr(call, &found) || !found.dli_fname) return false;
    char *real = realpath(found.dli_fname, NULL);
    bool fits = real && strlen(real) < bytes;
    if (fits) (void)snprintf(out, bytes, "%s", real);
    free(real);
    return fits;
}

/* Whether the vendor file names the library, which must be loaded. The file may give the library's path, or a name that
 * the linker looks for, such as that of a symbolic link (libnvidia-opencl.so.1). So the linker is asked what it has
 * loaded by that name. */
static bool names_library(const char *vendor_file, const char *library) {
    void *content;
    size_t bytes;
    if (clq_file_read(vendor_file, ICD_BYTES_MAX, &content, &bytes) != CLQ_OK) return false;
    char *name = content;
    name[strcspn(name, "\r\n")] = '\0';
    void *loaded = *name ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    clq_free(content);
    if (!loaded) return false;
    struct link_map *map;
    char *real = dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0 ? realpath(map->l_name, NULL) : NULL;
    bool same = real && strcmp(real, library) == 0;
    free(real);
    (void)dlclose(loaded);
    return same;
}

/* The vendor file that names the library. Returns false unless there is exactly one. */
static bool vendor_file_of(const char *library, char *out, size_t bytes) {
    struct dirent **names;
    int count = scandir(vendor_folder(), &names, NULL, alphasort), matches = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        int length = snprintf(path, sizeof path, "%s/%s", vendor_folder(), names[i]->d_name);
        const char *end = strrchr(names[i]->d_name, '.');
        bool is_vendor_file = end && strcmp(end, ".icd") == 0 && length > 0 && (size_t)length < sizeof path;
        free(names[i]);
        if (!is_vendor_file || !names_library(path, library)) continue;
        matches++;
        (void)snprintf(out, bytes, "%s", path);
    }
    if (count >= 0) free(names);
    return matches == 1;
}

static bool stat_library(kept_device *kept) {
    struct stat info;
    if (stat(kept->library, &info) != 0) return false;
    kept->library_bytes = info.st_size;
    kept->library_seconds = info.st_mtim.tv_sec;
    kept->library_nanoseconds = info.st_mtim.tv_nsec;
    return true;
}

/* ---- keeping ---- */

static bool describe(const clq_device_entry *entry, kept_device *out) {
    out->info = entry->info;
    out->ordinal = entry->ordinal;
    return library_of(entry->platform, out->library, sizeof out->library) && stat_library(out) &&
           vendor_file_of(out->library, out->vendor_file, sizeof out->vendor_file);
}

/* Whether the loader is ocl-icd, whose OCL_ICD_VENDORS may be a single file. The question makes ocl-icd open all
 * drivers, so ask only after they were opened. */
static bool loader_takes_a_file(void) {
    enum { LOADER_VENDOR = 4 }; /* CL_ICDL_VENDOR of cl_loader_info */
    typedef cl_int(CL_API_CALL * tell_loader)(cl_uint what, size_t bytes, void *value, size_t *written);
    char vendor[64] = "";
    void *address = clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    tell_loader tell;
    memcpy(&tell, &address, sizeof tell);
    return address && tell(LOADER_VENDOR, sizeof vendor, vendor, NULL) == CL_SUCCESS &&
           strcmp(vendor, "OCL Icd free software") == 0;
}

/* Whether the cache holds just this list, or an entry that says that no list is to be kept (clq_system_forget_list). */
static bool is_kept(const char *cache_dir, clq_hash128 key, const void *data, size_t bytes) {
    void *kept = NULL;
    size_t kept_bytes = 0;
    if (clq_cache_load(cache_dir, list_folder, key, &kept, &kept_bytes) != CLQ_OK) return false;
    bool same = kept && (kept_bytes < sizeof(kept_device) || (kept_bytes == bytes && memcmp(kept, data, bytes) == 0));
    clq_free(kept);
    return same;
}

static void keep(const char *cache_dir, clq_hash128 key, const void *data, size_t bytes) {
    if (clq_cache_store(cache_dir, list_folder, key, data, bytes) != CLQ_OK)
        clq_log(CLQ_LOG_WARNING, "the list of devices is not kept: %s", clq_error_detail());
}

void clq_system_keep_list(const clq_system *system) {
    clq_hash128 key;
    if (!system->cache_dir || system->count == 0 || !loader_takes_a_file() || list_key(&key) != CLQ_OK) return;
    kept_device *kept = clq_alloc(system->count, sizeof *kept);
    bool known = kept != NULL;
    for (size_t i = 0; i < system->count && known; i++) known = describe(&system->entries[i], &kept[i]);
    size_t bytes = system->count * sizeof *kept;
    if (known && !is_kept(system->cache_dir, key, kept, bytes)) keep(system->cache_dir, key, kept, bytes);
    clq_free(kept);
}

void clq_system_forget_list(const clq_system *system) {
    if (system->recalled && system->cache_dir) keep(system->cache_dir, system->list_key, "-", 1);
}

clq_status clq_system_check_recalled(const clq_system *system) {
    const clq_device_entry *gone = NULL;
    for (size_t i = 0; i < system->count && !gone; i++) {
        const clq_device_entry *entry = &system->entries[i];
        if (entry->needed && !(entry->id && entry->info.usable)) gone = entry;
    }
    if (!gone) return CLQ_OK;
    /* Drops the list, so that the next list of all drivers, which tells what there is now, is kept. */
    if (system->cache_dir) clq_cache_drop(system->cache_dir, list_folder, system->list_key);
    char label[CLQ_LABEL_MAX];
    clq_entry_label(gone, label, sizeof label);
    return clq_fail(CLQ_ERROR_NO_DEVICE, "%s, which the last run found, is gone: its driver (%s) %s", label,
                    vendor_folder(), gone->id ? gone->info.reason : "does not list it any more");
}

/* ---- recalling ---- */

static bool still_true(const kept_device *kept) {
    kept_device now = *kept;
    return stat_library(&now) && memcmp(&now, kept, sizeof now) == 0;
}

/* Makes a system of the kept devices, whose drivers were not asked yet. It is enough to select from. */
static clq_status imagine(const kept_device *kept, size_t count, clq_system **out) {
    clq_system *system = clq_alloc(1, sizeof *system);
    clq_device_entry *entries = clq_alloc(count, sizeof *entries);
    if (!system || !entries) {
        clq_free(system);
        clq_free(entries);
        return CLQ_ERROR_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        entries[i] = (clq_device_entry){.info = kept[i].info, .ordinal = kept[i].ordinal, .tested = true};
    *system = (clq_system){.entries = entries, .count = count};
    *out = system;
    return CLQ_OK;
}

/* The one vendor file that the selection needs. NULL if it needs several, or if there are no others. */
static const char *only_file(const clq_devices *devices, const kept_device *kept, size_t count) {
    const char *file = kept[devices->items[0].index].vendor_file;
    for (uint32_t i = 1; i < devices->count; i++)
        if (strcmp(kept[devices->items[i].index].vendor_file, file) != 0) return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(kept[i].vendor_file, file) != 0) return file;
    return NULL;
}

static clq_status recall(const char *spec, clq_hash128 key, const kept_device *kept, size_t count, clq_system **out) {
    clq_system *system;
    clq_devices devices;
    for (size_t i = 0; i < count; i++)
        if (!still_true(&kept[i])) return CLQ_OK;
    CLQ_TRY(imagine(kept, count, &system));
    const char *file = NULL;
    if (clq_devices_select(system, spec, &devices) == CLQ_OK) {
        file = only_file(&devices, kept, count);
        for (uint32_t i = 0; i < devices.count; i++) system->entries[devices.items[i].index].needed = true;
    }
    if (!file || !clq_environment_set("OCL_ICD_VENDORS", file)) {
        clq_system_close(system);
        return CLQ_OK; /* the full list is made, and tells what is wrong with the spec */
    }
    system->recalled = true;
    system->list_key = key;
    *out = system;
    return CLQ_OK;
}

clq_status clq_system_recall(const char *spec, clq_system **out) {
    *out = NULL;
    char *cache_dir;
    clq_hash128 key;
    if (clq_environment("CLIQUE_ALL_DRIVERS")) return CLQ_OK;
    /* A SPEC with sub-devices is not recalled: only the driver itself knows how many it can make. */
    if ((spec && strchr(spec, '/')) || clq_cache_dir(&cache_dir) != CLQ_OK) return CLQ_OK;
    void *kept = NULL;
    size_t bytes = 0;
    clq_status status = list_key(&key);
    if (status == CLQ_OK) status = clq_cache_load(cache_dir, list_folder, key, &kept, &bytes);
    clq_free(cache_dir);
    if (status == CLQ_OK && bytes >= sizeof(kept_device))
        status = recall(spec, key, kept, bytes / sizeof(kept_device), out);
    clq_free(kept);
    return status;
}
