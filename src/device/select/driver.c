/* What is known about drivers: their tags, and what they say about a device. */
#include "device/internal.h"

#include <CL/cl_ext.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *platform; /* a part of the platform's name */
    const char *tag;
} driver_tags[] = {
    {"Portable Computing Language", "pocl"},
    {"Intel", "intel"},
    {"NVIDIA", "nvidia"},
    {"AMD Accelerated Parallel Processing", "amd"},
    {"rusticl", "rusticl"},
    {"Clover", "clover"},
    {"Oclgrind", "oclgrind"},
    {"Apple", "apple"},
};

/* Drivers that are not listed get the first word of their platform's name. */
static void tag_of(const char *platform, char *out, size_t bytes) {
    for (size_t i = 0; i < CLQ_COUNT_OF(driver_tags); i++) {
        if (!strstr(platform, driver_tags[i].platform)) continue;
        (void)snprintf(out, bytes, "%s", driver_tags[i].tag);
        return;
    }
    size_t length = 0;
    for (const char *at = platform; *at && length + 1 < bytes; at++) {
        bool letter = clq_is_letter(*at) || (length > 0 && clq_is_digit(*at));
        if (letter)
            out[length++] = clq_lower(*at);
        else if (length > 0)
            break;
    }
    out[length] = '\0';
    if (length == 0) (void)snprintf(out, bytes, "unknown");
}

static clq_device_type type_of(cl_device_id id) {
    cl_device_type type = 0;
    (void)clq_cl_device_value(id, CL_DEVICE_TYPE, &type, sizeof type);
    if (type & CL_DEVICE_TYPE_CPU) return CLQ_DEVICE_CPU;
    if (type & CL_DEVICE_TYPE_GPU) return CLQ_DEVICE_GPU;
    if (type & CL_DEVICE_TYPE_ACCELERATOR) return CLQ_DEVICE_ACCELERATOR;
    return CLQ_DEVICE_OTHER;
}

/* From cl_nv_device_attribute_query and cl_amd_device_attribute_query, which not all headers have. */
enum {
    PCI_BUS_NV = 0x4008,
    PCI_SLOT_NV = 0x4009,
    PCI_DOMAIN_NV = 0x400A,
    TOPOLOGY_AMD = 0x4037,
    TOPOLOGY_PCIE_AMD = 1
};
typedef struct topology_amd {
    cl_uint type;
    unsigned char unused[17], bus, device, function;
} topology_amd;

static bool pci_of_khr(cl_device_id id, char *out, size_t bytes) {
    cl_uint at[4]; /* domain, bus, device, function */
    if (!clq_cl_has_extension(id, "cl_khr_pci_bus_info")) return false;
    if (!clq_cl_device_value(id, CL_DEVICE_PCI_BUS_INFO_KHR, at, sizeof at)) return false;
    (void)snprintf(out, bytes, "%04x:%02x:%02x.%x", at[0] & 0xffffu, at[1] & 0xffu, at[2] & 0xffu, at[3] & 0xfu);
    return true;
}

static bool pci_of_nvidia(cl_device_id id, char *out, size_t bytes) {
    cl_uint domain = 0, bus = 0, slot = 0; /* slot: device * 8 + function */
    if (!clq_cl_has_extension(id, "cl_nv_device_attribute_query")) return false;
    if (!clq_cl_device_value(id, PCI_BUS_NV, &bus, sizeof bus)) return false;
    if (!clq_cl_device_value(id, PCI_SLOT_NV, &slot, sizeof slot)) return false;
    bool known = clq_cl_device_value(id, PCI_DOMAIN_NV, &domain, sizeof domain);
    char prefix[8] = "";
    if (known) (void)snprintf(prefix, sizeof prefix, "%04x:", domain & 0xffffu);
    (void)snprintf(out, bytes, "%s%02x:%02x.%x", prefix, bus & 0xffu, (slot >> 3) & 0xffu, slot & 7u);
    return true;
}

/* AMD's address has no domain, even if there are several domains with the same rest of the address in each (MI300A). */
static bool pci_of_amd(cl_device_id id, char *out, size_t bytes) {
    topology_amd at;
    memset(&at, 0, sizeof at);
    if (!clq_cl_has_extension(id, "cl_amd_device_attribute_query")) return false;
    if (!clq_cl_device_value(id, TOPOLOGY_AMD, &at, sizeof at) || at.type != TOPOLOGY_PCIE_AMD) return false;
    (void)snprintf(out, bytes, "%02x:%02x.%x", at.bus, at.device, at.function & 0xfu);
    return true;
}

static void pci_of(cl_device_id id, char *out, size_t bytes) {
    out[0] = '\0';
    (void)(pci_of_khr(id, out, bytes) || pci_of_nvidia(id, out, bytes) || pci_of_amd(id, out, bytes));
}

bool clq_pci_same(const char *a, const char *b) {
    size_t a_length = strlen(a), b_length = strlen(b), length = CLQ_MIN(a_length, b_length);
    return length > 0 && strcmp(a + a_length - length, b + b_length - length) == 0;
}

static void describe_limits(cl_device_id id, clq_device_info *info) {
    const cl_uint units = clq_cl_device_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
    const cl_uint width = clq_cl_device_uint(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1);
    size_t group = 1;
    (void)clq_cl_device_value(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group);
    (void)clq_cl_device_value(id, CL_DEVICE_GLOBAL_MEM_SIZE, &info->global_mem_bytes, sizeof(cl_ulong));
    (void)clq_cl_device_value(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &info->max_alloc_bytes, sizeof(cl_ulong));
    (void)clq_cl_device_value(id, CL_DEVICE_LOCAL_MEM_SIZE, &info->local_mem_bytes, sizeof(cl_ulong));
    info->compute_units = CLQ_MAX(units, 1u);
    info->vector_width = CLQ_MAX(width, 1u);
    info->max_work_group = CLQ_MAX(group, (size_t)1);
}

static void describe_availability(cl_device_id id, clq_device_info *info) {
    const cl_bool available = clq_cl_device_uint(id, CL_DEVICE_AVAILABLE, CL_FALSE);
    const cl_bool compiler = clq_cl_device_uint(id, CL_DEVICE_COMPILER_AVAILABLE, CL_FALSE);
    info->usable = available && compiler;
    if (!available)
        (void)snprintf(info->reason, sizeof info->reason, "the driver says that it is not available");
    else if (!compiler)
        (void)snprintf(info->reason, sizeof info->reason, "the driver has no compiler for it");
}

void clq_describe_device(cl_platform_id platform, cl_device_id id, clq_device_info *info) {
    memset(info, 0, sizeof *info);
    clq_cl_platform_text(platform, CL_PLATFORM_NAME, info->platform, sizeof info->platform);
    tag_of(info->platform, info->driver, sizeof info->driver);
    clq_cl_device_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    clq_cl_device_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    clq_cl_device_text(id, CL_DRIVER_VERSION, info->driver_version, sizeof info->driver_version);
    clq_cl_device_text(id, CL_DEVICE_VERSION, info->opencl_version, sizeof info->opencl_version);
    info->type = type_of(id);
    describe_limits(id, info);
    info->host_unified = clq_cl_device_uint(id, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) != CL_FALSE;
    info->fine_grain_svm = info->host_unified && clq_svm_probe(platform, id);
    cl_device_fp_config doubles = 0;
    (void)clq_cl_device_value(id, CL_DEVICE_DOUBLE_FP_CONFIG, &doubles, sizeof doubles);
    info->fp64 = doubles != 0;
    pci_of(id, info->pci, sizeof info->pci);
    describe_availability(id, info);
}

/* PoCL compiles a kernel for the sizes of its launch, and again for any sizes when it is asked for a program's binary.
 * If this variable is 0, the kernel for any sizes serves both. Then a first run is over in two thirds of the time. Our
 * kernels are no slower, since most of them compute a tile per item. */
void clq_drivers_prefer(void) {
    static const char name[] = "POCL_WORK_GROUP_SPECIALIZATION";
    if (!clq_environment(name)) (void)clq_environment_set(name, "0");
}
