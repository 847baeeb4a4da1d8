/* The options that kernels are built with, on devices that are described as their drivers describe them. */
#include "device/internal.h"
#include "fixture.h"

#define VERSION(major, minor) ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12)
#define WITH(...)                                                                                                      \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), { __VA_ARGS__ }

static const clq_compiler_facts nvidia = {"cl_khr_icd cl_nv_compiler_options", "OpenCL C 1.2",
                                          WITH(VERSION(1, 0), VERSION(1, 1), VERSION(1, 2), VERSION(3, 0))};
static const clq_compiler_facts intel = {"cl_khr_subgroups cl_intel_subgroups", "OpenCL C 1.2",
                                         WITH(VERSION(1, 0), VERSION(1, 1), VERSION(1, 2), VERSION(3, 0))};
static const clq_compiler_facts amd = {.extensions = "cl_khr_fp64 cl_khr_subgroups", .c_version = "OpenCL C 2.0"};
static const clq_compiler_facts amd_told = {"cl_khr_fp64 cl_khr_subgroups cl_khr_fp16", "OpenCL C 1.2",
                                            WITH(VERSION(1, 2), VERSION(2, 0))};
static const clq_compiler_facts rusticl = {"cl_khr_subgroups", "OpenCL C 1.2",
                                           WITH(VERSION(1, 0), VERSION(1, 1), VERSION(1, 2), VERSION(3, 0))};
/* PoCL 3.1: an OpenCL 3.0 platform whose compiler had no version above 1.2. */
static const clq_compiler_facts pocl = {"cl_khr_fp64", "OpenCL C 1.2",
                                        WITH(VERSION(1, 0), VERSION(1, 1), VERSION(1, 2))};
static const clq_compiler_facts old = {.extensions = "cl_khr_subgroups", .c_version = "OpenCL C 1.2"};
static const clq_compiler_facts silent = {.extensions = "", .c_version = ""};
static const clq_compiler_facts similar = {.extensions = "cl_khr_subgroups_x xcl_khr_subgroups",
                                           .c_version = "OpenCL C 2.0"};

static void check(const clq_device *device, const char *own, const char *standard) {
    char *options = clq_build_options(device, own), wanted[64] = "";
    assert_non_null(options);
    (void)snprintf(wanted, sizeof wanted, " %s ", standard);
    const char *first = strstr(options, "-cl-std");
    if (!strstr(options, wanted) || strstr(first + 1, "-cl-std"))
        fail_msg("\"%s\" becomes \"%s\", which should have %s, once", own, options, standard);
    assert_non_null(strstr(options, "-cl-denorms-are-zero"));
    assert_non_null(strstr(options, " -DCLQ_VECTOR=8 "));
    assert_string_equal(options + strlen(options) - strlen(own), own);
    clq_free(options);
}

/* standard: the version that kernels with sub-groups are built for, or NULL if the device cannot have such kernels. All
 * other kernels are built for 1.2. */
static void expect(const clq_compiler_facts *facts, const char *standard) {
    const clq_device device = {.info = {.type = CLQ_DEVICE_CPU, .vector_width = 8},
                               .sub_group_standard = clq_sub_group_standard(facts)};
    assert_int_equal(device.sub_group_standard != NULL, standard != NULL);
    check(&device, "-DUSES_SUB_GROUPS", standard ? standard : "-cl-std=CL1.2");
    check(&device, "-DBM=32 -DUSES_SUB_GROUPS -DGN=8", standard ? standard : "-cl-std=CL1.2");
    check(&device, "", "-cl-std=CL1.2");
    check(&device, "-DBM=32 -DUSES_SUB_GROUPS_NOT -DXUSES_SUB_GROUPS", "-cl-std=CL1.2");
}

static void test_standard(void **state) {
    (void)state;
    expect(&amd, "-cl-std=CL2.0");
    expect(&amd_told, "-cl-std=CL2.0");
    expect(&rusticl, "-cl-std=CL3.0");
    expect(&intel, "-cl-std=CL1.2"); /* with an extension */
    expect(&nvidia, NULL);
    expect(&pocl, NULL);
    expect(&old, NULL);
    expect(&silent, NULL);
    expect(&similar, NULL);
}

static void tells_as_its_driver(clq_device *device, clq_queue *queue) {
    (void)queue;
    const clq_device_info *info = clq_device_get_info(device);
    const char *standard = device->sub_group_standard; /* PoCL from 6.0 on offers sub-groups, which are not used */
    assert_int_equal(standard != NULL, strcmp(info->driver, "intel") == 0);
    if (standard) assert_string_equal(standard, "-cl-std=CL1.2"); /* no device here may be told another version */
}

static void test_devices(void **state) {
    (void)state;
    on_each_device(tells_as_its_driver);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_standard), cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
