/* Which devices "auto" takes. PoCL's two devices and Intel's runtime look like GPUs at addresses of the test's choice.
 */
#include "device/internal.h"
#include "fixture.h"
#include "support/disguise.h"

#if defined(__x86_64__)
enum { DEVICES = 3 };
#else
enum { DEVICES = 2 };
#endif

static clq_system *sys;
static uint32_t first, intel; /* indices of PoCL's first device, before its second, and of Intel's */
static char folder[256], warning[1024];

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) (void)snprintf(warning, sizeof warning, "%s", line);
}

/* Sets the variable to one word for each device, in the order of the device list. */
static void set_words(const char *variable, const char *pocl_a, const char *pocl_b, const char *of_intel) {
    char words[128];
    if (first == 0)
        (void)snprintf(words, sizeof words, "%s %s %s", pocl_a, pocl_b, of_intel);
    else
        (void)snprintf(words, sizeof words, "%s %s %s", of_intel, pocl_a, pocl_b);
    assert_int_equal(setenv(variable, words, 1), 0);
}

static void open_with(const char *pocl_a, const char *pocl_b, const char *of_intel) {
    set_words("CLQ_TEST_PCI", pocl_a, pocl_b, of_intel);
    warning[0] = '\0';
    CHECK_OK(clq_system_open(NULL, &sys));
    assert_int_equal(clq_system_device_count(sys), DEVICES);
    for (size_t i = 0; i < DEVICES; i++) assert_int_equal(clq_system_device_info(sys, i)->type, CLQ_DEVICE_GPU);
}

/* The devices that auto takes, one bit each: 1 and 2 are PoCL's devices, 4 is Intel's. */
static unsigned taken(void) {
    clq_devices chosen;
    unsigned bits = 0;
    CHECK_OK(clq_devices_select(sys, "auto", &chosen));
    for (uint32_t i = 0; i < chosen.count; i++) {
        uint32_t index = chosen.items[i].index;
        bits += index == first ? 1u : index == first + 1 ? 2u : 4u;
    }
    return bits;
}

static void expect(const char *pocl_a, const char *pocl_b, const char *of_intel, unsigned bits) {
    open_with(pocl_a, pocl_b, of_intel);
    unsigned got = taken();
    if (got != bits) fail_msg("%s, %s and Intel's %s: %u is taken, not %u", pocl_a, pocl_b, of_intel, got, bits);
    clq_system_close(sys);
}

static void test_addresses(void **state) {
    (void)state;
    const unsigned all = DEVICES == 3 ? 7 : 3, without_first = 6;
    /* The devices' speed is unknown, because their compilers do not build the kernel that measures it. */
    assert_int_equal(setenv("CLQ_TEST_FLAW", "peak", 1), 0);
    expect("khr:0000:01:00.0", "khr:0000:02:00.0", "khr:0000:03:00.0", all);
    /* Devices of one platform may share an address: tiles or partitions of a card. */
    expect("khr:0000:01:00.0", "khr:0000:01:00.0", "khr:0000:03:00.0", all);
    expect("nv:0000:01:00.0", "nv:0000:01:00.0", "khr:0000:03:00.0", all);
    /* AMD's driver does not report the domain: 0000:02:00.0 and 0001:02:00.0 look alike. */
    expect("amd:02:00.0", "amd:02:00.0", "khr:0000:03:00.0", all);
    if (DEVICES < 3) return;
    /* The same address on two platforms is one device. Auto takes it by its maker's driver. */
    expect("khr:0000:01:00.0", "khr:0000:02:00.0", "khr:0000:01:00.0", without_first);
    expect("nv:0002:01:00.0", "khr:0000:01:00.0", "khr:0002:01:00.0", without_first);
    expect("nv:0001:01:00.0", "nv:0001:02:00.0", "khr:0000:01:00.0", all);
    /* The first device at an address on one platform is the first one there on the other. The second is another
     * device. */
    expect("khr:0000:01:00.0", "khr:0000:01:00.0", "khr:0000:01:00.0", without_first);
    /* If a domain is unknown, the rest of the address decides. */
    expect("amd:02:00.0", "amd:02:00.0", "khr:0001:02:00.0", without_first);
    expect("amd:02:00.0", "amd:03:00.0", "khr:0001:04:00.0", all);
    /* A device without an address is never the same as a device with an address. */
    expect("-", "khr:0000:01:00.0", "khr:0000:01:00.0", DEVICES == 3 ? 5 : 3);
    /* Without addresses, the names decide. */
    expect("-", "-", "-", all);
    assert_non_null(strstr(warning, "cannot be measured"));
}

static void test_texts(void **state) {
    (void)state;
    open_with("nv:000a:1f:02.3", "amd:02:00.1", "khr:0001:02:1f.0");
    assert_string_equal(clq_system_device_info(sys, first)->pci, "000a:1f:02.3");
    assert_string_equal(clq_system_device_info(sys, first + 1)->pci, "02:00.1");
    if (DEVICES == 3) assert_string_equal(clq_system_device_info(sys, intel)->pci, "0001:02:1f.0");
    clq_system_close(sys);
}

/* Two devices of PoCL's with different names, the second slower by `times`. Intel's device is no GPU here, so auto does
 * not take it. */
static unsigned taken_of_pair(const char *times, bool warns) {
    set_words("CLQ_TEST_TAILS", "-card", "-chip", "-");
    set_words("CLQ_TEST_SLOW", "1", times, "1");
    assert_int_equal(disguise_as_gpus(POCL_BASIC), 0);
    warning[0] = '\0';
    CHECK_OK(clq_system_open(NULL, &sys));
    unsigned bits = taken();
    char left_out[CLQ_NAME_MAX + 32];
    (void)snprintf(left_out, sizeof left_out, "auto leaves out pocl:1 (%s)",
                   clq_system_device_info(sys, first + 1)->name);
    if (warns != (strstr(warning, left_out) != NULL)) fail_msg("it says \"%s\"", warning);
    if (warns && !strstr(warning, "-chip)")) fail_msg("it says \"%s\"", warning);
    /* A selection by name or type still takes the device. */
    clq_devices chosen;
    CHECK_OK(clq_devices_select(sys, "gpu", &chosen));
    assert_int_equal(chosen.count, 2);
    assert_int_equal(taken(), bits); /* asked again */
    clq_device *device;
    CHECK_OK(clq_device_open(sys, (clq_device_choice){first, 0, 1}, &device));
    clq_device_close(device);
    clq_system_close(sys);
    return bits;
}

static int empty_cache(void) {
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void test_slow(void **state) {
    (void)state;
    assert_int_equal(unsetenv("CLQ_TEST_FLAW"), 0);
    set_words("CLQ_TEST_PCI", "khr:0000:01:00.0", "khr:0000:02:00.0", "-");
    assert_int_equal(taken_of_pair("30", true), 1);
    assert_int_equal(taken_of_pair("1", true), 1); /* what was measured first holds */
    assert_int_equal(empty_cache(), 0);
    assert_int_equal(taken_of_pair("1", false), 3);
    assert_int_equal(taken_of_pair("30", false), 3);
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/clique-auto-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder) || setenv("CLIQUE_CACHE_DIR", folder, 1) != 0) return -1;
    if (setenv("POCL_DEVICES", "basic basic", 1) != 0 || disguise_load_gpus() != 0) return -1;
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    if (clq_system_open(NULL, &sys) != CLQ_OK) return -1;
    for (uint32_t i = DEVICES; i-- > 0;) {
        const clq_device_info *info = clq_system_device_info(sys, i);
        if (!info) return -1;
        *(strcmp(info->driver, "pocl") == 0 ? &first : &intel) = i;
    }
    clq_system_close(sys);
    return disguise_as_gpus(""); /* every device */
}

static int end(void **state) {
    (void)state;
    return empty_cache();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses), cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_slow)};
    return cmocka_run_group_tests_name("auto", tests, begin, end);
}
