/* Contexts, and which devices each has. Devices of different platforms cannot share a context. */
#include "support/strict/layer.h"

enum { CONTEXTS_MAX = 4096 };
static strict_context contexts[CONTEXTS_MAX];
static unsigned context_count;

/* A known handle now belongs to the new context: its old context is gone. */
static void remember(cl_context handle, cl_uint count, const cl_device_id *ids) {
    strict_context made = {.handle = handle};
    for (cl_uint i = 0; i < count; i++) {
        strict_device *device = strict_device_of(ids[i]);
        unsigned k = 0;
        while (k < made.count && made.devices[k] != device) k++;
        if (k == STRICT_CONTEXT_DEVICES_MAX) strict_die("too many devices in a context");
        if (k == made.count) made.devices[made.count++] = device;
        made.disguised = made.disguised || device->kind;
    }
    pthread_mutex_lock(&strict_lock);
    unsigned at = 0;
    while (at < context_count && contexts[at].handle != handle) at++;
    if (at == CONTEXTS_MAX) strict_die("too many contexts");
    if (at == context_count) context_count++;
    contexts[at] = made;
    pthread_mutex_unlock(&strict_lock);
}

const strict_context *strict_context_of(cl_context handle) {
    const strict_context *found = NULL;
    pthread_mutex_lock(&strict_lock);
    for (unsigned i = 0; i < context_count && !found; i++)
        if (contexts[i].handle == handle) found = &contexts[i];
    pthread_mutex_unlock(&strict_lock);
    return found;
}

unsigned strict_slot(const strict_context *context, const strict_device *device) {
    unsigned slot = 0;
    while (slot + 1 < context->count && context->devices[slot] != device) slot++;
    return slot;
}

cl_int strict_context_called(const strict_context *context) {
    for (unsigned i = 0; i < context->count; i++) {
        cl_int error = strict_device_called(context->devices[i]);
        if (error != CL_SUCCESS) return error;
    }
    return CL_SUCCESS;
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *ids,
                                             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                             void *user, cl_int *error) {
    for (cl_uint i = 1; ids && i < count; i++)
        if (strict_platform_of(strict_device_of(ids[i])) != strict_platform_of(strict_device_of(ids[0]))) {
            if (error) *error = CL_INVALID_DEVICE;
            return NULL;
        }
    cl_context_properties real[3] = {CL_CONTEXT_PLATFORM, 0, 0};
    bool names_disguised = properties && properties[0] == CL_CONTEXT_PLATFORM &&
                           strict_kind_of_platform((cl_platform_id)properties[1]); // NOLINT(performance-no-int-to-ptr)
    if (names_disguised && ids && count > 0) real[1] = (cl_context_properties)strict_device_of(ids[0])->platform;
    cl_context made =
        strict_driver->clCreateContext(names_disguised ? real : properties, count, ids, notify, user, error);
    if (made) remember(made, count, ids);
    return made;
}

/* ---- what is newer than OpenCL 1.2 ---- */

static void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t bytes, cl_uint align) {
    const strict_context *in = strict_context_of(context);
    if (!in || !in->disguised) return strict_driver->clSVMAlloc(context, flags, bytes, align);
    strict_counted(in->devices[0], STRICT_LATER);
    return NULL;
}

static void CL_API_CALL svm_free(cl_context context, void *block) { strict_driver->clSVMFree(context, block); }

void strict_contexts_install(struct _cl_icd_dispatch *calls) {
    calls->clCreateContext = create_context;
    calls->clSVMAlloc = svm_alloc;
    calls->clSVMFree = svm_free;
}
