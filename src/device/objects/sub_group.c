/* Sub-groups: items of a work-group that can read each other's registers; and the matrix units that work on these. */
#include "device/internal.h"

/* From cl_intel_required_subgroup_size, cl_amd_device_attribute_query and cl_nv_device_attribute_query, which not all
 * headers have. */
enum { SUB_GROUP_SIZES_INTEL = 0x4108, WAVEFRONT_WIDTH_AMD = 0x4043, COMPUTE_CAPABILITY_MAJOR_NV = 0x4000 };

static uint32_t add(uint32_t sizes, size_t size) {
    return size > 0 && size <= 1u << 15 && (size & (size - 1)) == 0 ? sizes | (uint32_t)size : sizes;
}

/* Intel's compiler takes a size of its own choice unless a kernel asks for one; AMD's compiler has only one size. */
uint32_t clq_sub_group_sizes(cl_device_id id, bool *wanted) {
    bool intel = clq_cl_has_extension(id, "cl_intel_subgroups"), khr = clq_cl_has_extension(id, "cl_khr_subgroups");
    uint32_t sizes = 0;
    *wanted = false;
    if (intel && clq_cl_has_extension(id, "cl_intel_required_subgroup_size")) {
        size_t all[16] = {0}, bytes = 0;
        if (clGetDeviceInfo(id, SUB_GROUP_SIZES_INTEL, sizeof all, all, &bytes) != CL_SUCCESS) return 0;
        for (size_t i = 0; i < bytes / sizeof all[0]; i++) sizes = add(sizes, all[i]);
        *wanted = true;
    } else if (khr && clq_cl_has_extension(id, "cl_amd_device_attribute_query")) {
        sizes = add(sizes, clq_cl_device_uint(id, WAVEFRONT_WIDTH_AMD, 0));
    }
    return sizes;
}

bool clq_device_has_sub_groups(const clq_device *device, size_t items, bool *required) {
    *required = device->sub_group_size_is_wanted;
    return items <= UINT32_MAX && (device->sub_group_sizes & (uint32_t)items) != 0;
}

clq_matrix_unit clq_matrix_unit_of(cl_device_id id, uint32_t sub_group_sizes) {
    if (clq_cl_has_extension(id, "cl_nv_device_attribute_query"))
        return clq_cl_device_uint(id, COMPUTE_CAPABILITY_MAJOR_NV, 0) >= 8 ? CLQ_UNIT_MMA : CLQ_UNIT_NONE;
    if (clq_cl_has_extension(id, "cl_intel_subgroup_matrix_multiply_accumulate"))
        return sub_group_sizes & 8 ? CLQ_UNIT_DPAS8 : sub_group_sizes & 16 ? CLQ_UNIT_DPAS16 : CLQ_UNIT_NONE;
    return CLQ_UNIT_NONE;
}

clq_matrix_unit clq_device_matrix_unit(const clq_device *device) { return device->matrix_unit; }
