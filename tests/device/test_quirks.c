/* Compares the table of quirks with the drivers that are here, and with devices that look like other drivers'
 * devices. */
#include "device/fixture.h"
#include "device/internal.h"
#include "support/disguise.h"

#define HAS(name) (1u << CLQ_QUIRK_##name)

static const char *const names[] = {
    [CLQ_QUIRK_RUNS_IN_CALLER] = "runs in caller",          [CLQ_QUIRK_GROUPS_IN_RUNS] = "groups in runs",
    [CLQ_QUIRK_MIXES_UP_KERNELS] = "mixes up kernels",      [CLQ_QUIRK_COMPILES_AT_LAUNCH] = "compiles at launch",
    [CLQ_QUIRK_BUILDS_ONE_AT_A_TIME] = "builds one by one", [CLQ_QUIRK_FORGETS_CALLBACKS] = "forgets callbacks",
    [CLQ_QUIRK_UNSAFE_SHARED_CONTEXT] = "unsafe to share",  [CLQ_QUIRK_COMPILES_PREFETCH] = "compiles prefetch",
    [CLQ_QUIRK_COMPILES_HALF_DOTS] = "compiles half dots",  [CLQ_QUIRK_NO_SUB_GROUPS] = "no sub-groups",
};
_Static_assert(CLQ_COUNT_OF(names) == CLQ_QUIRK_COUNT_OF, "a name for each quirk");

static void check(const char *what, uint32_t got, uint32_t want) {
    for (unsigned q = 0; q < CLQ_QUIRK_COUNT_OF; q++)
        if ((got ^ want) >> q & 1) fail_msg("%s: %s: %s", what, names[q], got >> q & 1 ? "yes" : "no");
}

static uint32_t quirks_of(const clq_device *device) {
    uint32_t quirks = 0;
    for (unsigned q = 0; q < CLQ_QUIRK_COUNT_OF; q++)
        if (clq_device_has_quirk(device, (clq_quirk)q)) quirks |= 1u << q;
    return quirks;
}

enum {
    POCL_CPU = HAS(GROUPS_IN_RUNS) | HAS(COMPILES_AT_LAUNCH) | HAS(BUILDS_ONE_AT_A_TIME) | HAS(FORGETS_CALLBACKS) |
               HAS(COMPILES_PREFETCH) | HAS(NO_SUB_GROUPS)
};

static void drivers_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    const clq_device_info *info = clq_device_get_info(device);
    uint32_t want = HAS(BUILDS_ONE_AT_A_TIME) | HAS(COMPILES_PREFETCH); /* Intel's */
    bool old = !strstr(device->platform_version, "PoCL 7");
    if (strcmp(info->driver, "pocl") == 0) want = POCL_CPU | (old ? HAS(MIXES_UP_KERNELS) : 0);
    if (pocl_name_is(info->name, POCL_BASIC)) want |= HAS(RUNS_IN_CALLER);
    check(clq_device_label(device), quirks_of(device), want);
}

static void drivers_here(void **state) {
    (void)state;
    assert_int_equal(disguise_as_gpus(NULL), 0);
    on_each_device(drivers_on);
}

/* Checks PoCL's basic device, whose type and platform name are disguised. */
static void disguised(const char *platform, uint32_t want) {
    clq_system *sys;
    clq_device *device;
    assert_int_equal(disguise_platform(platform), 0);
    assert_int_equal(disguise_as_gpus("basic"), 0);
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = ""}, &sys));
    CHECK_OK(clq_device_open(sys, (clq_device_choice){.index = 0, .parts = 1}, &device));
    assert_int_equal(clq_device_get_info(device)->type, CLQ_DEVICE_GPU);
    check(platform, quirks_of(device), want);
    clq_device_close(device);
    clq_system_close(sys);
}

static void others(void **state) {
    (void)state;
    disguised("NVIDIA CUDA", HAS(UNSAFE_SHARED_CONTEXT));
    disguised("AMD Accelerated Parallel Processing", HAS(COMPILES_HALF_DOTS));
    disguised("Intel(R) OpenCL Graphics", HAS(COMPILES_PREFETCH));
    disguised("rusticl", 0);
    disguised("Somebody's OpenCL", 0);
    assert_int_equal(disguise_as_gpus(NULL), 0);
}

/* Versions, and devices of PoCL that are no CPUs. */
static void facts_decide(void **state) {
    (void)state;
    clq_device_info info = {.driver = "pocl", .name = "pthread-x", .type = CLQ_DEVICE_CPU};
    check("3.1", clq_quirks_of(&info, "OpenCL 3.0 PoCL 3.1  Linux"), POCL_CPU | HAS(MIXES_UP_KERNELS));
    check("6.9", clq_quirks_of(&info, "OpenCL 3.0 PoCL 6.9"), POCL_CPU | HAS(MIXES_UP_KERNELS));
    check("7.0", clq_quirks_of(&info, "OpenCL 3.0 PoCL 7.0"), POCL_CPU);
    check("10.0", clq_quirks_of(&info, "OpenCL 3.0 PoCL 10.0"), POCL_CPU);
    check("unknown", clq_quirks_of(&info, ""), POCL_CPU | HAS(MIXES_UP_KERNELS));
    info.type = CLQ_DEVICE_GPU;
    check("a GPU", clq_quirks_of(&info, "OpenCL 3.0 PoCL 3.1"),
          HAS(BUILDS_ONE_AT_A_TIME) | HAS(FORGETS_CALLBACKS) | HAS(COMPILES_PREFETCH));
    clq_device_info minimal = {.driver = "pocl", .name = "cpu-minimal-x", .type = CLQ_DEVICE_CPU};
    check("minimal", clq_quirks_of(&minimal, "OpenCL 3.0 PoCL 7.1"), POCL_CPU | HAS(RUNS_IN_CALLER));
    clq_device_info other = {.driver = "somebody", .name = "basic", .type = CLQ_DEVICE_CPU};
    check("another CPU", clq_quirks_of(&other, "OpenCL 1.2"), HAS(BUILDS_ONE_AT_A_TIME));
}

/* Each row names its driver, its reason and where the quirk was seen. Each quirk has a row. */
static void rows_are_whole(void **state) {
    (void)state;
    size_t count;
    uint32_t all = 0;
    const clq_quirk_row *rows = clq_quirk_rows(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].driver[0] && rows[i].reason[0] && rows[i].seen[0]);
        all |= 1u << rows[i].quirk;
    }
    assert_int_equal(all, (1u << CLQ_QUIRK_COUNT_OF) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drivers_here), cmocka_unit_test(others),
                                       cmocka_unit_test(facts_decide), cmocka_unit_test(rows_are_whole)};
    if (disguise_load_gpus() != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
