/* The options that programs are built with: those of all programs, and the version of OpenCL C. */
#include "device/internal.h"

#include <stdio.h>

/* Denormals become zero: each costs a CPU a hundred cycles, and Adam's moments decay into them. NaN and infinity must
 * survive, so there is no option of the "fast math" kind. */
static const char constant_options[] = "-cl-denorms-are-zero -cl-mad-enable -cl-no-signed-zeros";

/* Kernels are written for OpenCL C 1.2, and this option says so. Without -cl-std a compiler should take the highest
 * OpenCL C 1.x that it knows. But PoCL from 4.0 on and NVIDIA's driver 580 take 3.0, in which a pointer to a pointer's
 * target is of another address space. In 1.2, functions of sub-groups are declared by cl_intel_subgroups, but not by
 * cl_khr_subgroups, which is an extension of OpenCL C 2.0. Some compilers, such as AMD's, have only
 * cl_khr_subgroups. */
static const char common_standard[] = "-cl-std=CL1.2";

const char *clq_sub_group_standard(const clq_compiler_facts *facts) {
    unsigned major = 0, minor = 0;
    bool intel = clq_words_have(facts->extensions, "cl_intel_subgroups");
    bool khr = clq_words_have(facts->extensions, "cl_khr_subgroups"), two = false, three = false;
    (void)sscanf(facts->c_version, "OpenCL C %u.%u", &major, &minor);
    for (size_t i = 0; i <= facts->c_version_count; i++) {
        if (i > 0) major = facts->c_versions[i - 1] >> 22;
        two = two || major == 2;
        three = three || major == 3;
    }
    return intel ? common_standard : !khr ? NULL : two ? "-cl-std=CL2.0" : three ? "-cl-std=CL3.0" : NULL;
}

/* From OpenCL 3.0, which not all headers have. */
enum { OPENCL_C_ALL_VERSIONS = 0x1066, VERSION_NAME_BYTES = 64 };
typedef struct named_version {
    cl_uint version; /* major << 22 | minor << 12 | patch */
    char name[VERSION_NAME_BYTES];
} named_version;

const char *clq_sub_group_standard_of(cl_device_id id) {
    char extensions[CLQ_PROPERTY_MAX], version[CLQ_NAME_MAX];
    named_version all[CLQ_C_VERSIONS_MAX];
    clq_compiler_facts facts = {.extensions = extensions, .c_version = version};
    size_t bytes = 0;
    clq_cl_device_text(id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    clq_cl_device_text(id, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version);
    if (clGetDeviceInfo(id, OPENCL_C_ALL_VERSIONS, sizeof all, all, &bytes) == CL_SUCCESS)
        facts.c_version_count = CLQ_MIN(bytes / sizeof all[0], (size_t)CLQ_C_VERSIONS_MAX);
    for (size_t i = 0; i < facts.c_version_count; i++) facts.c_versions[i] = all[i].version;
    return clq_sub_group_standard(&facts);
}

char *clq_build_options(const clq_device *device, const char *own) {
    const bool used = device->sub_group_standard && clq_words_have(own, "-DUSES_SUB_GROUPS");
    return clq_strprintf("%s %s -DCLQ_VECTOR=%u %s", constant_options,
                         used ? device->sub_group_standard : common_standard, (unsigned)clq_device_vector(device), own);
}
