/* GPUs that no driver lists. The machines of the tests are folders. */
#include "device/internal.h"
#include "fixture.h"

#include <sys/stat.h>

static char root[256];
static clq_unlisted rows[8];

/* ---- machines ---- */

static void put(const char *path, const char *text) {
    char whole[512];
    (void)snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(whole, 0755);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void put_link(const char *path, const char *target) {
    char whole[512];
    (void)snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_int_equal(symlink(target, whole), 0);
}

static void put_pci(const char *address, const char *class, const char *vendor, const char *driver) {
    char path[128];
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
    put(path, class);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    put(path, vendor);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/driver", address);
    if (driver) put_link(path, driver);
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(root, sizeof root, "%s/clique-unlisted-XXXXXX", P_tmpdir);
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* ---- what is found ---- */

static size_t find(const clq_system *listed) {
    static const clq_system none;
    memset(rows, 0, sizeof rows);
    return clq_system_unlisted(listed ? listed : &none, root, rows, CLQ_COUNT_OF(rows));
}

static void expect_one(const char *vendor, const char *pci, const char *reason, const char *remedy) {
    assert_int_equal(find(NULL), 1);
    assert_string_equal(rows[0].vendor, vendor);
    assert_string_equal(rows[0].pci, pci);
    if (!strstr(rows[0].reason, reason)) fail_msg("\"%s\" does not say \"%s\"", rows[0].reason, reason);
    if (!strstr(rows[0].remedy, remedy)) fail_msg("\"%s\" does not say \"%s\"", rows[0].remedy, remedy);
}

/* Not found: the displays of virtual machines, bridges and network cards, AMD's and Intel's neural processors. */
static void test_none(void **state) {
    (void)state;
    assert_int_equal(find(NULL), 0);
    put_pci("0000:00:00.0", "0x060000\n", "0x8086\n", NULL);
    put_pci("0000:00:01.0", "0x030000\n", "0x1234\n", "../drivers/bochs-drm");
    put_pci("0000:00:02.0", "0x030000\n", "0x1af4\n", "../drivers/virtio-pci");
    put_pci("0000:00:03.0", "0x030000\n", "0x15ad\n", "../drivers/vmwgfx");
    put_pci("0000:00:04.0", "0x020000\n", "0x10de\n", NULL);
    put_pci("0000:00:05.0", "0x120000\n", "0x8086\n", "../drivers/intel_vpu");
    put_pci("0000:00:06.0", "0x118000\n", "0x1022\n", "../drivers/amdxdna");
    put("/dev/dri/renderD128", "");
    assert_int_equal(find(NULL), 0);
}

/* Not found: a GPU that is given to a virtual machine, a part that may be given to one, and a card that the kernel's
 * driver of old cards serves. */
static void test_taken(void **state) {
    (void)state;
    put_pci("0000:01:00.0", "0x030000\n", "0x10de\n", "../../../bus/pci/drivers/vfio-pci");
    put_pci("0000:02:00.0", "0x030000\n", "0x1002\n", "../../../bus/pci/drivers/radeon");
    put_pci("0000:03:00.1", "0x038000\n", "0x8086\n", NULL);
    put("/sys/bus/pci/devices/0000:03:00.1/physfn", "");
    assert_int_equal(find(NULL), 0);
}

static void test_nvidia(void **state) {
    (void)state;
    put_pci("0000:01:00.0", "0x030200\n", "0x10de\n", NULL);
    expect_one("nvidia", "0000:01:00.0", "no OpenCL driver", "install nvidia-opencl-icd");
    put("/usr/lib64/libnvidia-opencl.so.1", "");
    expect_one("nvidia", "0000:01:00.0", "there is no /dev/nvidia0", "--gpus all");
    put("/dev/nvidia0", "");
    expect_one("nvidia", "0000:01:00.0", "/usr/lib64/libnvidia-opencl.so.1 is there", "/etc/OpenCL/vendors/nvidia.icd");
    put("/etc/OpenCL/vendors/pocl.icd", "libpocl.so.2\n");
    put("/etc/OpenCL/vendors/nvidia.icd.bak", "libnvidia-opencl.so.1\n");
    expect_one("nvidia", "0000:01:00.0", "no file in /etc/OpenCL/vendors", "libnvidia-opencl.so.1");
    put("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n");
    char *chosen = clq_strdup(getenv("OCL_ICD_VENDORS"));
    assert_non_null(chosen);
    expect_one("nvidia", "0000:01:00.0", "OCL_ICD_VENDORS", "unset");
    assert_int_equal(unsetenv("OCL_ICD_VENDORS"), 0);
    expect_one("nvidia", "0000:01:00.0", "does not list it", "nvidia-smi shows it");
    assert_int_equal(setenv("OCL_ICD_VENDORS", chosen, 1), 0);
    clq_free(chosen);
}

/* If the PCI bus is hidden, the device file shows the GPU. */
static void test_device_file(void **state) {
    (void)state;
    put("/dev/nvidia0", "");
    expect_one("nvidia", "", "no OpenCL driver", "nvidia-opencl-icd");
}

static void test_amd(void **state) {
    (void)state;
    put_pci("0001:02:00.0", "0x120000\n", "0x1002\n", "../../../bus/pci/drivers/amdgpu");
    expect_one("amd", "0001:02:00.0", "no /dev/dri/renderD*", "amdgpu");
    put("/sys/bus/pci/devices/0001:02:00.0/drm/card1/dev", "");
    put("/sys/bus/pci/devices/0001:02:00.0/drm/renderD129/dev", "");
    put("/dev/dri/renderD128", "");
    expect_one("amd", "0001:02:00.0", "there is no /dev/dri/renderD129", "--device /dev/dri --device /dev/kfd");
    put("/dev/dri/renderD129", "");
    expect_one("amd", "0001:02:00.0", "no OpenCL driver", "rocm-opencl-icd");
    put("/etc/OpenCL/vendors/rusticl.icd", "libRusticlOpenCL.so.1\n");
    assert_int_equal(setenv("RUSTICL_ENABLE", "iris", 1), 0);
    expect_one("amd", "0001:02:00.0", "not enabled for it", "RUSTICL_ENABLE=radeonsi");
    assert_int_equal(setenv("RUSTICL_ENABLE", "iris,radeonsi", 1), 0);
    expect_one("amd", "0001:02:00.0", "no OpenCL driver", "rocm-opencl-icd");
    assert_int_equal(unsetenv("RUSTICL_ENABLE"), 0);
    put("/etc/OpenCL/vendors/amdocl64.icd", "/opt/rocm/lib/libamdocl64.so\n");
    expect_one("amd", "0001:02:00.0", "there is no /dev/kfd", "--device /dev/kfd");
}

static void test_permission(void **state) {
    (void)state;
    bool superuser = geteuid() == 0;
    put_pci("0000:00:02.0", "0x030000\n", "0x8086\n", "../../../bus/pci/drivers/i915");
    put("/sys/bus/pci/devices/0000:00:02.0/drm/renderD128/dev", "");
    expect_one("intel", "0000:00:02.0", "there is no /dev/dri/renderD128", "(docker run --device /dev/dri)");
    put("/dev/dri/renderD128", "");
    expect_one("intel", "0000:00:02.0", "no OpenCL driver", "intel-opencl-icd");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/dev/dri/renderD128", root);
    assert_int_equal(chmod(root, 0755) | chmod(path, 0600), 0);
    if (!superuser) assert_int_equal(chmod(path, 0), 0);
    if (superuser) assert_int_equal(seteuid(65534), 0);
    expect_one("intel", "0000:00:02.0", "may not open /dev/dri/renderD128", "render and video");
    if (superuser) assert_int_equal(seteuid(0), 0);
}

/* ---- what is listed ---- */

static clq_device_entry entry_of(clq_device_type type, const char *driver, const char *vendor, const char *pci) {
    clq_device_entry entry = {.info = {.type = type, .usable = true}};
    (void)snprintf(entry.info.driver, sizeof entry.info.driver, "%s", driver);
    (void)snprintf(entry.info.vendor, sizeof entry.info.vendor, "%s", vendor);
    (void)snprintf(entry.info.pci, sizeof entry.info.pci, "%s", pci);
    return entry;
}

static void test_listed(void **state) {
    (void)state;
    put_pci("0000:01:00.0", "0x030000\n", "0x10de\n", NULL);
    put_pci("0000:02:00.0", "0x030000\n", "0x1002\n", NULL);
    put_pci("0000:03:00.0", "0x030000\n", "0x8086\n", NULL);
    put_pci("0001:02:00.0", "0x030000\n", "0x1002\n", NULL);
    clq_device_entry entries[] = {
        entry_of(CLQ_DEVICE_CPU, "intel", "Intel(R) Corporation", ""),
        entry_of(CLQ_DEVICE_GPU, "nvidia", "NVIDIA Corporation", "0000:01:00.0"),
        entry_of(CLQ_DEVICE_GPU, "amd", "Advanced Micro Devices, Inc.", "02:00.0"),
        entry_of(CLQ_DEVICE_GPU, "rusticl", "Intel", ""),
        entry_of(CLQ_DEVICE_GPU, "amd", "Advanced Micro Devices, Inc.", "02:00.0"),
    };
    clq_system listed = {.entries = entries, .recalled = true}; /* whether or not its driver is open */
    static const char *const left[][4] = {{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0001:02:00.0"},
                                          {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0001:02:00.0"},
                                          {"0000:02:00.0", "0000:03:00.0", "0001:02:00.0"},
                                          {"0000:03:00.0", "0001:02:00.0"},
                                          {"0001:02:00.0"}};
    for (listed.count = 0; listed.count <= CLQ_COUNT_OF(entries); listed.count++) {
        size_t wanted = listed.count == 0 ? 4 : 5 - listed.count, found = find(&listed);
        assert_int_equal(found, wanted);
        for (size_t i = 0; i < found; i++) assert_string_equal(rows[i].pci, left[listed.count][i]);
    }
    /* A listed device that failed its test is reported as that, not as unlisted. A listed device of another vendor, or
     * at another address, is not the unlisted one. */
    listed.count = CLQ_COUNT_OF(entries);
    entries[1].info.usable = false;
    assert_int_equal(find(&listed), 0);
    entries[1] = entry_of(CLQ_DEVICE_GPU, "nvidia", "NVIDIA Corporation", "0000:07:00.0");
    entries[3] = entry_of(CLQ_DEVICE_GPU, "rusticl", "ARM", "");
    assert_int_equal(find(&listed), 2);
    assert_int_equal(clq_system_unlisted(&listed, root, rows, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_none, begin, end),
        cmocka_unit_test_setup_teardown(test_taken, begin, end),
        cmocka_unit_test_setup_teardown(test_nvidia, begin, end),
        cmocka_unit_test_setup_teardown(test_device_file, begin, end),
        cmocka_unit_test_setup_teardown(test_amd, begin, end),
        cmocka_unit_test_setup_teardown(test_permission, begin, end),
        cmocka_unit_test_setup_teardown(test_listed, begin, end),
    };
    return cmocka_run_group_tests_name("unlisted", tests, NULL, NULL);
}
