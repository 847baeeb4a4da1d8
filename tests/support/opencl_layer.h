/* What every OpenCL layer of the tests has: the table of the calls below it (`driver`), its own table (`layer`), and
 * the entry points that the loader looks for. Each layer includes this file once. */
#ifndef CLQ_TEST_OPENCL_LAYER_H
#define CLQ_TEST_OPENCL_LAYER_H

#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct _cl_icd_dispatch driver, layer;
static void override_calls(void); /* defined by each layer: puts the layer's own calls into `layer` */

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *out, size_t *needed) {
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what != CL_LAYER_API_VERSION || (out && bytes < sizeof version)) return CL_INVALID_VALUE;
    if (out) memcpy(out, &version, sizeof version);
    if (needed) *needed = sizeof version;
    return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target, cl_uint *count_out,
                                      const struct _cl_icd_dispatch **out) {
    const size_t most = sizeof driver / sizeof(void *);
    if (!target || !count_out || !out) return CL_INVALID_VALUE;
    memcpy(&driver, target, (count < most ? count : most) * sizeof(void *));
    layer = driver;
    override_calls();
    *count_out = (cl_uint)most;
    *out = &layer;
    return CL_SUCCESS;
}

#endif
