/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices whose names begin with CLQ_TEST_GPU
 * (pocl_names.h) look like GPUs. These variables change what the GPUs tell:
 *
 * CLQ_TEST_GPU_GROUP       work-items of a work-group; not set: 64
 * CLQ_TEST_GPU_UNITS       compute units; not set: the device's own
 * CLQ_TEST_GPU_LOCAL       bytes of local memory; not set: the device's own
 * CLQ_TEST_EXTENSIONS      extensions besides the device's own
 * CLQ_TEST_GPU_PLATFORM    the name of every platform
 * CLQ_TEST_DRIVER_VERSION  the driver's version
 * CLQ_TEST_FLAW            a text that compilers leave out of every program; looked up for each program
 *
 * The next three have a word for each device, in the order in which devices were listed. "-", or no word, leaves a
 * device as it is:
 * CLQ_TEST_PCI    the PCI address, behind the way to tell it: khr:0001:02:00.0, nv:0001:02:00.0, amd:02:00.0
 * CLQ_TEST_TAILS  what the name ends in
 * CLQ_TEST_SLOW   how many times slower the kernel `peak` is: it is run so many times */
#include "support/opencl_layer.h"
#include "support/pocl_names.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 8, GROUP_MOST = 64 };

static bool is_disguised(cl_device_id device) {
    const char *begin = getenv("CLQ_TEST_GPU");
    char name[256] = "";
    if (!begin || driver.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL) != CL_SUCCESS) return false;
    return pocl_name_is(name, begin);
}

/* ---- words for single devices ---- */

enum { DEVICES_MOST = 64, WORD_BYTES = 32 };

/* The device's place among all devices. Devices are first asked about in the order in which they are listed. */
static unsigned place_of(cl_device_id device) {
    static cl_device_id known[DEVICES_MOST];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    unsigned i = 0;
    (void)pthread_mutex_lock(&lock);
    while (i + 1 < DEVICES_MOST && known[i] && known[i] != device) i++;
    known[i] = device;
    (void)pthread_mutex_unlock(&lock);
    return i;
}

/* Gives the device's word in the variable. Returns false if it has none. */
static bool word_of(const char *variable, cl_device_id device, char out[WORD_BYTES]) {
    const char *at = getenv(variable);
    for (unsigned i = place_of(device); at && i > 0; i--) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    return at && sscanf(at, "%31s", out) == 1 && strcmp(out, "-") != 0;
}

static cl_int tell(const void *value, size_t size, size_t bytes, void *out, size_t *needed) {
    if (needed) *needed = size;
    if (out && bytes < size) return CL_INVALID_VALUE;
    if (out) memcpy(out, value, size);
    return CL_SUCCESS;
}

/* ---- where they are ---- */

enum { PCI_KHR = 0x410F, PCI_BUS_NV = 0x4008, PCI_SLOT_NV = 0x4009, PCI_DOMAIN_NV = 0x400A, TOPOLOGY_AMD = 0x4037 };

/* The address that the device seems to have: domain, bus, device, function. */
static bool address_of(cl_device_id device, const char *way, cl_uint at[4]) {
    char word[WORD_BYTES];
    size_t length = strlen(way);
    at[0] = 0;
    if (!word_of("CLQ_TEST_PCI", device, word) || strncmp(word, way, length) != 0 || word[length] != ':') return false;
    const char *address = word + length + 1;
    return sscanf(address, "%x:%x:%x.%x", &at[0], &at[1], &at[2], &at[3]) == 4 ||
           sscanf(address, "%x:%x.%x", &at[1], &at[2], &at[3]) == 3;
}

static const char *pci_extension(cl_device_id device) {
    cl_uint at[4];
    return address_of(device, "khr", at)   ? "cl_khr_pci_bus_info"
           : address_of(device, "nv", at)  ? "cl_nv_device_attribute_query"
           : address_of(device, "amd", at) ? "cl_amd_device_attribute_query"
                                           : NULL;
}

static bool tell_address(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed,
                         cl_int *error) {
    cl_uint at[4];
    if (what == PCI_KHR && address_of(device, "khr", at)) {
        *error = tell(at, sizeof at, bytes, out, needed);
    } else if (what >= PCI_BUS_NV && what <= PCI_DOMAIN_NV && address_of(device, "nv", at)) {
        cl_uint value = what == PCI_BUS_NV ? at[1] : what == PCI_SLOT_NV ? at[2] * 8 + at[3] : at[0];
        *error = tell(&value, sizeof value, bytes, out, needed);
    } else if (what == TOPOLOGY_AMD && address_of(device, "amd", at)) {
        struct {
            cl_uint type;
            unsigned char unused[17], bus, device, function;
        } topology = {
            .type = 1, .bus = (unsigned char)at[1], .device = (unsigned char)at[2], .function = (unsigned char)at[3]};
        *error = tell(&topology, sizeof topology, bytes, out, needed);
    } else {
        return false;
    }
    return true;
}

/* ---- what they are ---- */

/* The variable's number; 0 if the variable is not set. */
static size_t number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : 0;
}

/* Tells a text of the driver, with `more` behind it. */
static cl_int tell_text(cl_device_id device, cl_device_info what, const char *more, size_t bytes, char *out,
                        size_t *needed) {
    char text[16384];
    cl_int error = driver.clGetDeviceInfo(device, what, sizeof text / 2, text, NULL);
    if (error != CL_SUCCESS || strlen(more) >= sizeof text / 2) return error;
    strcat(text, more);
    return tell(text, strlen(text) + 1, bytes, out, needed);
}

static cl_int tell_extensions(cl_device_id device, size_t bytes, void *out, size_t *needed) {
    const char *more = getenv("CLQ_TEST_EXTENSIONS"), *pci = pci_extension(device);
    char both[1024];
    (void)snprintf(both, sizeof both, " %s %s", more ? more : "", pci ? pci : "");
    return tell_text(device, CL_DEVICE_EXTENSIONS, both, bytes, out, needed);
}

static cl_int CL_API_CALL disguised_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                                    size_t *needed) {
    const char *version = getenv("CLQ_TEST_DRIVER_VERSION");
    char tail[WORD_BYTES];
    cl_int error;
    (void)place_of(device);
    if (is_disguised(device)) {
        if (what == CL_DEVICE_EXTENSIONS) return tell_extensions(device, bytes, out, needed);
        if (what == CL_DEVICE_NAME && word_of("CLQ_TEST_TAILS", device, tail))
            return tell_text(device, what, tail, bytes, out, needed);
        if (what == CL_DRIVER_VERSION && version) return tell(version, strlen(version) + 1, bytes, out, needed);
        if (tell_address(device, what, bytes, out, needed, &error)) return error;
    }
    error = driver.clGetDeviceInfo(device, what, bytes, out, needed);
    if (error != CL_SUCCESS || !out || !is_disguised(device)) return error;
    if (what == CL_DEVICE_TYPE) memcpy(out, &(cl_device_type){CL_DEVICE_TYPE_GPU}, sizeof(cl_device_type));
    size_t group = number_of("CLQ_TEST_GPU_GROUP"), units = number_of("CLQ_TEST_GPU_UNITS"),
           local = number_of("CLQ_TEST_GPU_LOCAL");
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE) memcpy(out, &(size_t){group ? group : GROUP_MOST}, sizeof(size_t));
    if (what == CL_DEVICE_MAX_COMPUTE_UNITS && units) memcpy(out, &(cl_uint){(cl_uint)units}, sizeof(cl_uint));
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && local) memcpy(out, &(cl_ulong){local}, sizeof(cl_ulong));
    return error;
}

static cl_int CL_API_CALL disguised_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t bytes,
                                                      void *out, size_t *needed) {
    const char *name = getenv("CLQ_TEST_GPU_PLATFORM");
    if (what != CL_PLATFORM_NAME || !name) return driver.clGetPlatformInfo(platform, what, bytes, out, needed);
    return tell(name, strlen(name) + 1, bytes, out, needed);
}

/* Replaces the text by blanks. */
static void leave_out(char *program, const char *text) {
    for (char *at; (at = strstr(program, text));) memset(at, ' ', strlen(text));
}

static cl_program CL_API_CALL flawed_clCreateProgramWithSource(cl_context context, cl_uint count, const char **parts,
                                                               const size_t *lengths, cl_int *error) {
    const char *flaw = getenv("CLQ_TEST_FLAW"), *copies[PARTS_MOST] = {0};
    if (!flaw || lengths || count > PARTS_MOST)
        return driver.clCreateProgramWithSource(context, count, parts, lengths, error);
    cl_program program = NULL;
    bool all = true;
    for (cl_uint i = 0; i < count; i++) {
        char *copy = strdup(parts[i]);
        if (copy) leave_out(copy, flaw);
        all = all && copy;
        copies[i] = copy;
    }
    if (all)
        program = driver.clCreateProgramWithSource(context, count, copies, NULL, error);
    else if (error)
        *error = CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < count; i++) free((void *)copies[i]);
    return program;
}

static cl_int CL_API_CALL slow_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                      const size_t *offset, const size_t *global, const size_t *local,
                                                      cl_uint count, const cl_event *wait, cl_event *event) {
    cl_device_id device = NULL;
    char name[64] = "", word[WORD_BYTES];
    (void)driver.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    (void)driver.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    long times = strcmp(name, "peak") == 0 && word_of("CLQ_TEST_SLOW", device, word) ? atol(word) : 1;
    for (; times > 1; times--) {
        cl_int error = driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, wait, NULL);
        if (error != CL_SUCCESS) return error;
    }
    return driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, wait, event);
}

static void override_calls(void) {
    layer.clEnqueueNDRangeKernel = slow_clEnqueueNDRangeKernel;
    layer.clGetDeviceInfo = disguised_clGetDeviceInfo;
    layer.clGetPlatformInfo = disguised_clGetPlatformInfo;
    layer.clCreateProgramWithSource = flawed_clCreateProgramWithSource;
}
