#include "device/internal.h"

#include <stdio.h>
#include <string.h>

/* Not in OpenCL's headers: an error of cl_khr_terminate_context, and NVIDIA's error without a name for a kernel that
 * failed while it ran (KhronosGroup/OpenCL-Docs#927). */
enum { CONTEXT_TERMINATED = -1121, FAILED_KERNEL_NV = -9999 };

static const struct {
    cl_int code;
    const char *name;
} error_names[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-8, "CL_MEM_COPY_OVERLAP"},
    {-9, "CL_IMAGE_FORMAT_MISMATCH"},
    {-10, "CL_IMAGE_FORMAT_NOT_SUPPORTED"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-12, "CL_MAP_FAILURE"},
    {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-15, "CL_COMPILE_PROGRAM_FAILURE"},
    {-16, "CL_LINKER_NOT_AVAILABLE"},
    {-17, "CL_LINK_PROGRAM_FAILURE"},
    {-18, "CL_DEVICE_PARTITION_FAILED"},
    {-19, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"},
    {-30, "CL_INVALID_VALUE"},
    {-31, "CL_INVALID_DEVICE_TYPE"},
    {-32, "CL_INVALID_PLATFORM"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-35, "CL_INVALID_QUEUE_PROPERTIES"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-37, "CL_INVALID_HOST_PTR"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-42, "CL_INVALID_BINARY"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-44, "CL_INVALID_PROGRAM"},
    {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-47, "CL_INVALID_KERNEL_DEFINITION"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-53, "CL_INVALID_WORK_DIMENSION"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-56, "CL_INVALID_GLOBAL_OFFSET"},
    {-57, "CL_INVALID_EVENT_WAIT_LIST"},
    {-58, "CL_INVALID_EVENT"},
    {-59, "CL_INVALID_OPERATION"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-64, "CL_INVALID_PROPERTY"},
    {-66, "CL_INVALID_COMPILER_OPTIONS"},
    {-67, "CL_INVALID_LINKER_OPTIONS"},
    {-68, "CL_INVALID_DEVICE_PARTITION_COUNT"},
    {-69, "CL_INVALID_PIPE_SIZE"},
    {-70, "CL_INVALID_DEVICE_QUEUE"},
    {-71, "CL_INVALID_SPEC_ID"},
    {-72, "CL_MAX_SIZE_RESTRICTION_EXCEEDED"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    {-1108, "CL_COMMAND_TERMINATED_ITSELF_WITH_FAILURE_ARM"},
    {CONTEXT_TERMINATED, "CL_CONTEXT_TERMINATED_KHR"},
    {FAILED_KERNEL_NV, "NVIDIA's error for a kernel that failed, mostly by an illegal access to memory"},
};

const char *clq_cl_error_name(cl_int error) {
    for (size_t i = 0; i < CLQ_COUNT_OF(error_names); i++)
        if (error_names[i].code == error) return error_names[i].name;
    return "an unknown error";
}

static clq_status status_of(cl_int error) {
    if (error == CL_OUT_OF_HOST_MEMORY) return CLQ_ERROR_MEMORY;
    if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE) return CLQ_ERROR_DEVICE_MEMORY;
    return CLQ_ERROR_DEVICE;
}

clq_status clq_cl_fail(const clq_device *device, cl_int error, const char *format, ...) {
    char what[CLQ_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(what, sizeof what, format, arguments);
    va_end(arguments);
    return clq_fail(status_of(error), "%s: %s: %s (%d)", device->label, what, clq_cl_error_name(error), (int)error);
}

clq_status clq_fail_on(clq_status status, const clq_device *device, const char *format, ...) {
    char who[CLQ_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(who, sizeof who, format, arguments);
    va_end(arguments);
    if (strstr(clq_error_detail(), device->label)) return clq_fail_within(status, "%s", who);
    return clq_fail_within(status, "%s, on %s", who, device->label);
}

/* Errors of running commands by which a lost device shows itself. Later calls on the device may hang. */
static bool means_lost(cl_int error) {
    return error == CL_OUT_OF_RESOURCES || error == CL_DEVICE_NOT_AVAILABLE || error == CL_INVALID_COMMAND_QUEUE ||
           error == CONTEXT_TERMINATED || error == FAILED_KERNEL_NV;
}

clq_status clq_cl_fail_lost(clq_device *device, cl_int error, const char *what) {
    if (!atomic_flag_test_and_set(&device->loss_claimed)) {
        (void)snprintf(device->loss, sizeof device->loss, "%.200s: %s (%d)", what, clq_cl_error_name(error),
                       (int)error);
        atomic_store(&device->lost, true);
    }
    return clq_cl_fail(device, error, "%s", what);
}

clq_status clq_cl_fail_running(clq_device *device, cl_int error, const char *format, ...) {
    char what[CLQ_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(what, sizeof what, format, arguments);
    va_end(arguments);
    return means_lost(error) ? clq_cl_fail_lost(device, error, what) : clq_cl_fail(device, error, "%s", what);
}

void clq_device_lose(clq_device *device, const char *why) {
    if (atomic_flag_test_and_set(&device->loss_claimed)) return;
    (void)snprintf(device->loss, sizeof device->loss, "%s", why);
    atomic_store(&device->lost, true);
}

clq_status clq_fail_stuck(const char *label, const clq_build_limit *limit) {
    return clq_fail(CLQ_ERROR_DEVICE,
                    "%s is not used any more: a driver's compiler missed the build deadline of %g s%s; start a new "
                    "process",
                    label, limit->deadline_s, limit->set_by);
}

clq_status clq_device_alive(const clq_device *device) {
    if (!clq_device_lost(device)) return CLQ_OK;
    if (!atomic_load(&device->lost)) return clq_fail_stuck(device->label, &device->build);
    return clq_fail(CLQ_ERROR_DEVICE, "%s is not used any more since it failed (%s)", device->label, device->loss);
}

bool clq_device_lost(const clq_device *device) {
    return atomic_load(&device->lost) || atomic_load(device->build.stuck);
}

static void keep_text(const char *value, size_t length, char *out, size_t bytes) {
    static const char blanks[] = " \t\r\n";
    (void)snprintf(out, bytes, "%.*s", (int)CLQ_MIN(length, (size_t)CLQ_PROPERTY_MAX - 1), value);
    const size_t start = strspn(out, blanks);
    size_t end = strlen(out + start);
    memmove(out, out + start, end + 1);
    while (end > 0 && strchr(blanks, out[end - 1])) out[--end] = '\0';
    clq_clean(out); /* names go to terminals and into JSON */
}

void clq_cl_device_text(cl_device_id id, cl_device_info what, char *out, size_t bytes) {
    char value[CLQ_PROPERTY_MAX];
    size_t length = 0;
    out[0] = '\0';
    if (clGetDeviceInfo(id, what, sizeof value, value, &length) == CL_SUCCESS) keep_text(value, length, out, bytes);
}

void clq_cl_platform_text(cl_platform_id id, cl_platform_info what, char *out, size_t bytes) {
    char value[CLQ_PROPERTY_MAX];
    size_t length = 0;
    out[0] = '\0';
    if (clGetPlatformInfo(id, what, sizeof value, value, &length) == CL_SUCCESS) keep_text(value, length, out, bytes);
}

cl_uint clq_cl_device_uint(cl_device_id id, cl_device_info what, cl_uint otherwise) {
    cl_uint value = otherwise;
    (void)clq_cl_device_value(id, what, &value, sizeof value);
    return value;
}

bool clq_cl_device_value(cl_device_id id, cl_device_info what, void *out, size_t bytes) {
    return clGetDeviceInfo(id, what, bytes, out, NULL) == CL_SUCCESS;
}

bool clq_list_has(const char *list, const char *separator, const char *word, size_t length) {
    for (const char *at = list; *at;) {
        const size_t next = strcspn(at, separator);
        if (next == length && memcmp(at, word, length) == 0) return true;
        at += next + strspn(at + next, separator);
    }
    return false;
}

bool clq_words_have(const char *words, const char *word) { return clq_list_has(words, " ", word, strlen(word)); }

bool clq_cl_has_extension(cl_device_id id, const char *extension) {
    char list[CLQ_PROPERTY_MAX];
    clq_cl_device_text(id, CL_DEVICE_EXTENSIONS, list, sizeof list);
    return clq_words_have(list, extension);
}
