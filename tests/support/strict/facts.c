/* Platforms and devices. Disguised devices are in platforms of their own. Each kind of disguised device looks like a
 * discrete GPU of one vendor. They have no sub-groups, because PoCL's compiler lacks sub-groups. */
#include "support/strict/layer.h"

#include <CL/cl_ext.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct strict_kind {
    const struct _cl_icd_dispatch *dispatch; /* a pointer to the kind is its platform's handle */
    char letter;
    const char *platform, *vendor, *name, *version, *driver_version, *extensions;
    cl_uint units;
    size_t group;
    cl_ulong local;
};

/* The driver's version is part of the key of cached programs: raise it when what the layer adds to programs changes. */
#define DRIVER_VERSION "strict 1"
#define EXTENSIONS                                                                                                     \
    "cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics "           \
    "cl_khr_local_int32_extended_atomics cl_khr_byte_addressable_store cl_khr_fp64 cl_khr_icd "

static strict_kind kinds[] = {
    {NULL, 'n', "NVIDIA CUDA", "NVIDIA Corporation", "NVIDIA H100 80GB HBM3", "OpenCL 3.0 CUDA", DRIVER_VERSION,
     EXTENSIONS "cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll", 132, 1024, 49152},
    {NULL, 'a', "AMD Accelerated Parallel Processing", "Advanced Micro Devices, Inc.", "gfx90a",
     "OpenCL 2.1 AMD-APP (3590.0)", DRIVER_VERSION, EXTENSIONS "cl_amd_device_attribute_query cl_amd_media_ops", 104,
     256, 65536},
    {NULL, 'i', "Intel(R) OpenCL Graphics", "Intel(R) Corporation", "Intel(R) Arc(TM) A770 Graphics", "OpenCL 3.0 ",
     DRIVER_VERSION, EXTENSIONS "cl_khr_pci_bus_info cl_intel_unified_shared_memory", 512, 512, 65536},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], REAL_PLATFORMS_MAX = 8 };

static strict_device devices[STRICT_DEVICES_MAX];
static unsigned device_count;

/* ---- the table of devices ---- */

static bool is_pocl(cl_platform_id platform) {
    char name[128] = "";
    return strict_driver->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
           strstr(name, "Portable Computing Language");
}

static const strict_kind *kind_of_letter(char letter) {
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].letter == letter) return &kinds[i];
    return NULL;
}

static strict_device *add(cl_device_id id, cl_platform_id platform) {
    if (device_count == STRICT_DEVICES_MAX) strict_die("too many devices");
    strict_device *device = &devices[device_count];
    device->id = id;
    device->platform = platform;
    device->index = device_count++;
    if (pthread_mutex_init(&device->below, NULL) != 0) strict_die("no lock");
    return device;
}

/* Lists all real devices, PoCL's first, and gives them the disguises of the present configuration. */
static void look_around(void) {
    cl_platform_id platforms[REAL_PLATFORMS_MAX];
    cl_uint count = 0;
    if (strict_driver->clGetPlatformIDs(REAL_PLATFORMS_MAX, platforms, &count) != CL_SUCCESS) return;
    if (count > REAL_PLATFORMS_MAX) count = REAL_PLATFORMS_MAX;
    if (device_count == 0)
        for (int pocl = 1; pocl >= 0; pocl--)
            for (cl_uint p = 0; p < count; p++) {
                cl_device_id ids[STRICT_DEVICES_MAX];
                cl_uint found = 0;
                if (is_pocl(platforms[p]) != (pocl == 1)) continue;
                if (strict_driver->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, STRICT_DEVICES_MAX, ids, &found) !=
                    CL_SUCCESS)
                    continue;
                for (cl_uint i = 0; i < found; i++) (void)add(ids[i], platforms[p]);
            }
    unsigned nth[256] = {0};
    size_t letters = strlen(strict_options.disguise);
    for (unsigned i = 0; i < device_count; i++) {
        strict_device *device = &devices[i];
        bool pocl = is_pocl(device->platform) && i < letters;
        device->kind = pocl ? kind_of_letter(strict_options.disguise[i]) : NULL;
        if (device->kind) device->nth = nth[(unsigned char)device->kind->letter]++;
    }
}

strict_device *strict_device_of(cl_device_id id) {
    pthread_mutex_lock(&strict_lock);
    strict_device *found = NULL;
    for (unsigned i = 0; i < device_count && !found; i++)
        if (devices[i].id == id) found = &devices[i];
    if (!found) { /* most likely a sub-device, or asked for before the platforms */
        cl_platform_id platform = NULL;
        (void)strict_driver->clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
        found = add(id, platform);
    }
    pthread_mutex_unlock(&strict_lock);
    return found;
}

void strict_below(strict_device *device) { pthread_mutex_lock(&device->below); }
void strict_above(strict_device *device) { pthread_mutex_unlock(&device->below); }

size_t strict_group_limit(const strict_device *device) { return device->kind ? device->kind->group : SIZE_MAX; }
cl_ulong strict_local_limit(const strict_device *device) { return device->kind ? device->kind->local : UINT64_MAX; }

EXPORT void strict_lose(unsigned device, unsigned long calls);
/* The device's calls fail with -9999 after `calls` more. ULONG_MAX: the device is repaired. */
void strict_lose(unsigned device, unsigned long calls) {
    pthread_mutex_lock(&strict_lock);
    devices[device].breaks = calls != (unsigned long)-1;
    devices[device].calls_left = calls;
    devices[device].broken = false;
    pthread_mutex_unlock(&strict_lock);
}

cl_int strict_device_called(strict_device *device) {
    pthread_mutex_lock(&strict_lock);
    if (device->breaks && device->calls_left-- == 0) {
        device->broken = true;
        device->breaks = false;
    }
    cl_int error = device->broken ? STRICT_ILLEGAL_ACCESS : CL_SUCCESS;
    pthread_mutex_unlock(&strict_lock);
    return error;
}

/* ---- platforms ---- */

const strict_kind *strict_kind_of_platform(cl_platform_id platform) {
    for (size_t i = 0; i < KINDS; i++)
        if ((const void *)platform == &kinds[i]) return &kinds[i];
    return NULL;
}

cl_platform_id strict_platform_of(const strict_device *device) {
    return device->kind ? (cl_platform_id)(uintptr_t)device->kind : device->platform;
}

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *out, cl_uint *count) {
    cl_platform_id found[KINDS + REAL_PLATFORMS_MAX];
    cl_uint n = 0;
    pthread_mutex_lock(&strict_lock);
    look_around();
    for (unsigned i = 0; i < device_count; i++) {
        cl_platform_id platform = strict_platform_of(&devices[i]);
        cl_uint k = 0;
        while (k < n && found[k] != platform) k++;
        if (k == n && n < KINDS + REAL_PLATFORMS_MAX) found[n++] = platform;
    }
    pthread_mutex_unlock(&strict_lock);
    if (n == 0) return strict_driver->clGetPlatformIDs(room, out, count);
    if ((out && room == 0) || (!out && !count)) return CL_INVALID_VALUE;
    if (out) memcpy(out, found, (n < room ? n : room) * sizeof *out);
    if (count) *count = n;
    return CL_SUCCESS;
}

static cl_int put_text(const char *text, size_t room, void *out, size_t *needed) {
    return strict_put(text, strlen(text) + 1, room, out, needed);
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room, void *out,
                                        size_t *needed) {
    const strict_kind *kind = strict_kind_of_platform(platform);
    if (!kind) return strict_driver->clGetPlatformInfo(platform, what, room, out, needed);
    switch (what) {
    case CL_PLATFORM_NAME: return put_text(kind->platform, room, out, needed);
    case CL_PLATFORM_VENDOR: return put_text(kind->vendor, room, out, needed);
    case CL_PLATFORM_VERSION: return put_text(kind->version, room, out, needed);
    case CL_PLATFORM_PROFILE: return put_text("FULL_PROFILE", room, out, needed);
    case CL_PLATFORM_EXTENSIONS: return put_text("cl_khr_icd", room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *out,
                                      cl_uint *count) {
    cl_device_id found[STRICT_DEVICES_MAX];
    cl_uint n = 0;
    bool gpu = type == CL_DEVICE_TYPE_ALL || (type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT));
    bool cpu = type == CL_DEVICE_TYPE_ALL || (type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT));
    pthread_mutex_lock(&strict_lock);
    for (unsigned i = 0; i < device_count; i++)
        if (strict_platform_of(&devices[i]) == platform && (devices[i].kind ? gpu : cpu)) found[n++] = devices[i].id;
    pthread_mutex_unlock(&strict_lock);
    if (n == 0) return CL_DEVICE_NOT_FOUND;
    if ((out && room == 0) || (!out && !count)) return CL_INVALID_VALUE;
    if (out) memcpy(out, found, (n < room ? n : room) * sizeof *out);
    if (count) *count = n;
    return CL_SUCCESS;
}

/* ---- devices ---- */

/* The device's bus: 1, 2, ... among its vendor's devices, to which vendor_info adds the vendor's offset. */
static cl_uint bus_of(const strict_device *device) { return strict_options.same_pci ? 1 : device->nth + 1; }

static cl_int vendor_info(const strict_device *device, cl_device_info what, size_t room, void *out, size_t *needed) {
    enum { MAJOR_NV = 0x4000, MINOR_NV, BUS_NV = 0x4008, SLOT_NV, DOMAIN_NV, TOPOLOGY_AMD = 0x4037 };
    const char letter = device->kind->letter;
    if (letter == 'n' &&
        (what == MAJOR_NV || what == MINOR_NV || what == BUS_NV || what == SLOT_NV || what == DOMAIN_NV)) {
        const cl_uint value = what == MAJOR_NV ? 9 : what == BUS_NV ? bus_of(device) : 0;
        return strict_put(&value, sizeof value, room, out, needed);
    }
    if (letter == 'a' && what == TOPOLOGY_AMD) {
        const struct {
            cl_uint type;
            cl_uchar unused[17], bus, device, function;
        } at = {.type = 1, .bus = (cl_uchar)(bus_of(device) + 0x40)};
        return strict_put(&at, sizeof at, room, out, needed);
    }
    if (letter == 'i' && what == CL_DEVICE_PCI_BUS_INFO_KHR) {
        const cl_uint at[4] = {0, bus_of(device) + 0x80, 0, 0};
        return strict_put(at, sizeof at, room, out, needed);
    }
    return CL_INVALID_VALUE;
}

#define VALUE(type, ...) return strict_put(&(const type){__VA_ARGS__}, sizeof(type), room, out, needed)

static cl_int gpu_info(const strict_device *device, cl_device_info what, size_t room, void *out, size_t *needed) {
    const strict_kind *kind = device->kind;
    const size_t items[3] = {kind->group, kind->group, kind->letter == 'n' ? 64 : kind->group};
    switch (what) {
    case CL_DEVICE_TYPE: VALUE(cl_device_type, CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_PLATFORM: VALUE(cl_platform_id, (cl_platform_id)(uintptr_t)kind);
    case CL_DEVICE_NAME: return put_text(kind->name, room, out, needed);
    case CL_DEVICE_VENDOR: return put_text(kind->vendor, room, out, needed);
    case CL_DEVICE_VERSION: return put_text(kind->version, room, out, needed);
    case CL_DEVICE_EXTENSIONS: return put_text(kind->extensions, room, out, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS: VALUE(cl_uint, kind->units);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: VALUE(size_t, kind->group);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: return strict_put(items, sizeof items, room, out, needed);
    case CL_DEVICE_LOCAL_MEM_TYPE: VALUE(cl_device_local_mem_type, CL_LOCAL);
    case CL_DEVICE_LOCAL_MEM_SIZE: VALUE(cl_ulong, kind->local);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: VALUE(cl_uint, 4096);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: VALUE(cl_bool, CL_FALSE);
    case CL_DEVICE_SVM_CAPABILITIES: VALUE(cl_device_svm_capabilities, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: VALUE(cl_uint, 0);
    case CL_DEVICE_PARTITION_PROPERTIES: VALUE(cl_device_partition_property, 0);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT: VALUE(cl_uint, 1);
    default: return strict_driver->clGetDeviceInfo(device->id, what, room, out, needed);
    }
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info what, size_t room, void *out, size_t *needed) {
    const strict_device *device = id ? strict_device_of(id) : NULL;
    if (!device || !device->kind) return strict_driver->clGetDeviceInfo(id, what, room, out, needed);
    if (what == CL_DRIVER_VERSION) { /* with the real device's name: PoCL's devices cannot take each other's programs */
        char name[128] = "", text[256];
        (void)strict_driver->clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, NULL);
        (void)snprintf(text, sizeof text, "%s %s", device->kind->driver_version, name);
        return put_text(text, room, out, needed);
    }
    if (vendor_info(device, what, room, out, needed) == CL_SUCCESS) return CL_SUCCESS;
    return gpu_info(device, what, room, out, needed);
}

static cl_int CL_API_CALL create_parts(cl_device_id id, const cl_device_partition_property *how, cl_uint room,
                                       cl_device_id *out, cl_uint *count) {
    if (strict_device_of(id)->kind) return CL_INVALID_VALUE;
    return strict_driver->clCreateSubDevices(id, how, room, out, count);
}

void strict_facts_install(struct _cl_icd_dispatch *calls) {
    for (size_t i = 0; i < KINDS; i++) kinds[i].dispatch = strict_calls;
    calls->clGetPlatformIDs = get_platforms;
    calls->clGetPlatformInfo = platform_info;
    calls->clGetDeviceIDs = get_devices;
    calls->clGetDeviceInfo = device_info;
    calls->clCreateSubDevices = create_parts;
}
