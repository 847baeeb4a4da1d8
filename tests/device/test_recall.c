/* The kept list of devices, which lets a program open one driver alone. The loader reads its environment once in a
 * process. So each use is a process of its own: this program, with the name of its task as argument. */
#include "device/internal.h"
#include "fixture.h"

#include "support/again.h"
#include "support/files.h"

#include <sys/stat.h>

/* A child's exit status if the list serves. If the tests have only one driver, the list never serves, because there is
 * no driver to leave alone. */
#if defined(__x86_64__)
enum { KNOWN = 0 };
#else
enum { KNOWN = 10 };
#endif

static char folder[256];

static bool is_loaded(const char *library) {
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found = found || strstr(line, library);
    if (maps) (void)fclose(maps);
    return found;
}

static int list(void) {
    clq_system *system;
    EXPECT(clq_system_open(NULL, &system) == CLQ_OK);
    clq_system_close(system);
    return 0;
}

/* Returns 0 if the list serves for the selection, and 10 if not. */
static int recall(const char *spec) {
    clq_system *recalled;
    EXPECT(clq_system_recall(spec, &recalled) == CLQ_OK);
    EXPECT(!is_loaded("libpocl"));
    bool known = recalled != NULL;
    clq_system_close(recalled);
    return known ? 0 : 10;
}

/* Selects a device with one driver alone. Its index, name and label are as in the whole list. */
static int use(const char *spec, const char *loaded, const char *left_alone) {
    clq_system *system;
    clq_devices devices;
    clq_device *device;
    EXPECT(clq_system_recall(spec, &system) == CLQ_OK && system);
    size_t count = clq_system_device_count(system);
    EXPECT(clq_devices_select(system, spec, &devices) == CLQ_OK);
    uint32_t index = devices.items[0].index;
    clq_device_info before = *clq_system_device_info(system, index);
    EXPECT(clq_system_open_recalled(system, NULL, &system) == CLQ_OK);
    EXPECT(is_loaded(loaded) && !is_loaded(left_alone));
    EXPECT(clq_system_device_count(system) == count);
    EXPECT(clq_devices_select(system, spec, &devices) == CLQ_OK);
    EXPECT(devices.items[0].index == index && clq_system_device_info(system, index)->index == index);
    EXPECT(strcmp(clq_system_device_info(system, index)->name, before.name) == 0);
    for (uint32_t i = 0; i < count; i++) {
        const clq_device_info *info = clq_system_device_info(system, i);
        EXPECT(info->usable == (strcmp(info->driver, before.driver) == 0));
        EXPECT(info->usable || strstr(info->reason, "left alone"));
    }
    EXPECT(clq_device_open(system, devices.items[0], &device) == CLQ_OK);
    EXPECT(strncmp(clq_device_label(device), before.driver, strlen(before.driver)) == 0);
    clq_trim_code(); /* must change nothing */
    bool ok = false;
    char reason[CLQ_REASON_MAX];
    EXPECT(clq_device_self_test(device, &ok, reason, sizeof reason) == CLQ_OK && ok);
    clq_device_close(device);
    clq_system_close(system);
    return 0;
}

/* Does what the library does after a device of the list failed its test. */
static int forget(void) {
    clq_system *system;
    EXPECT(clq_system_recall("pocl:0", &system) == CLQ_OK && system);
    EXPECT(clq_system_open_recalled(system, NULL, &system) == CLQ_OK);
    clq_system_forget_list(system);
    clq_system_close(system);
    return 0;
}

/* The driver lists fewer devices than before, and a selected device is gone. */
static int lose(void) {
    clq_system *system;
    EXPECT(clq_system_recall("pocl:0,pocl:1", &system) == CLQ_OK && system);
    EXPECT(setenv("POCL_DEVICES", "basic", 1) == 0);
    EXPECT(clq_system_open_recalled(system, NULL, &system) == CLQ_ERROR_NO_DEVICE);
    EXPECT(strstr(clq_error_detail(), "pocl:1") && strstr(clq_error_detail(), "is gone"));
    return 0;
}

/* A device that was not asked for is gone, which is no error. */
static int lose_another(void) {
    clq_system *system;
    EXPECT(clq_system_recall("pocl:0", &system) == CLQ_OK && system);
    EXPECT(setenv("POCL_DEVICES", "basic", 1) == 0);
    EXPECT(clq_system_open_recalled(system, NULL, &system) == CLQ_OK);
    clq_system_close(system);
    return 0;
}

/* Adds PoCL's vendor file to the folder of vendor files. It names a symbolic link to PoCL's library, which the linker
 * finds by LD_LIBRARY_PATH. */
static int link_library(void) {
    char line[1024], path[1200];
    char *library = NULL;
    clq_system *system;
    EXPECT(clq_system_open(NULL, &system) == CLQ_OK);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !library && fgets(line, sizeof line, maps))
        if (strstr(line, "/libpocl.so")) library = strchr(line, '/');
    EXPECT(library);
    (void)fclose(maps);
    line[strcspn(line, "\n")] = '\0';
    (void)snprintf(path, sizeof path, "%s/libthe-link.so.1", folder);
    EXPECT(symlink(library, path) == 0);
    (void)snprintf(path, sizeof path, "%s/pocl", folder); /* PoCL looks for its devices beside its library */
    *strrchr(line, '/') = '\0';
    (void)snprintf(line + strlen(line), sizeof line - strlen(line), "/pocl");
    EXPECT(symlink(library, path) == 0);
    (void)snprintf(path, sizeof path, "%s/v/pocl.icd", folder);
    FILE *vendor = fopen(path, "w");
    EXPECT(vendor && fputs("libthe-link.so.1\n", vendor) > 0 && fclose(vendor) == 0);
    clq_system_close(system);
    return 0;
}

/* The child finds the folder by its environment. */
static int child(const char *what) {
    (void)snprintf(folder, sizeof folder, "%s", getenv("CLIQUE_CACHE_DIR"));
    if (strcmp(what, "lose") == 0) return lose();
    if (strcmp(what, "lose another") == 0) return lose_another();
    if (strcmp(what, "link") == 0) return link_library();
    if (strcmp(what, "forget") == 0) return forget();
    if (strcmp(what, "list") == 0) return list();
    if (strcmp(what, "use pocl") == 0) return use("pocl:1", "libpocl", "libintelocl");
    if (strcmp(what, "use intel") == 0) return use("intel", "libintelocl", "libpocl");
    return recall(what);
}

static void needs_a_list(void **state) {
    (void)state;
    assert_int_equal(run("pocl:0"), 10);
    assert_int_equal(run("list"), 0);
    assert_int_equal(run("pocl:0"), KNOWN);
}

static void opens_one_driver_alone(void **state) {
    (void)state;
    assert_int_equal(run("list"), 0);
#if defined(__x86_64__)
    assert_int_equal(run("use pocl"), 0);
    assert_int_equal(run("use intel"), 0);
#endif
    assert_int_equal(run("auto"), KNOWN); /* a device of one driver, whichever it is */
    assert_int_equal(run("pocl:0,pocl:1"), KNOWN);
}

static void asks_all_where_one_is_not_enough(void **state) {
    (void)state;
    assert_int_equal(run("list"), 0);
    assert_int_equal(run("pocl:0,intel"), 10);
    assert_int_equal(run("all"), 10);
    assert_int_equal(run("pocl:5/2"), 10);  /* only the driver knows */
    assert_int_equal(run("pocl:99"), 10);   /* the error message names the whole list */
    assert_int_equal(run("nonsense:"), 10); /* and so does this one */
}

/* If a variable that devices depend on changes, the list does not serve: another environment has another list. */
static void holds_only_where_it_was_made(void **state) {
    (void)state;
    assert_int_equal(run("list"), 0);
    char *devices = clq_strdup(getenv("POCL_DEVICES"));
    assert_non_null(devices);
    setenv("POCL_DEVICES", "basic", 1);
    assert_int_equal(run("pocl:0"), 10);
    setenv("POCL_DEVICES", devices, 1);
    clq_free(devices);
    assert_int_equal(run("pocl:0"), KNOWN);
    setenv("CLQ_OF_NO_DRIVER", "1", 1);
    assert_int_equal(run("pocl:0"), KNOWN);
}

static void is_forgotten_for_good(void **state) {
    (void)state;
    assert_int_equal(run("list"), 0);
#if defined(__x86_64__)
    assert_int_equal(run("forget"), 0);
#endif
    assert_int_equal(run("pocl:0"), 10);
    assert_int_equal(run("list"), 0);
    assert_int_equal(run("pocl:0"), 10);
}

static void notices_what_is_gone(void **state) {
    (void)state;
    assert_int_equal(run("list"), 0);
#if defined(__x86_64__)
    assert_int_equal(run("lose another"), 0);
    assert_int_equal(run("pocl:0"), 0);
    assert_int_equal(run("lose"), 0);
    assert_int_equal(run("pocl:0"), 10); /* until devices are listed again */
    assert_int_equal(run("list"), 0);
    assert_int_equal(run("pocl:0"), 0);
#endif
    setenv("CLIQUE_ALL_DRIVERS", "1", 1);
    assert_int_equal(run("pocl:0"), 10);
    unsetenv("CLIQUE_ALL_DRIVERS");
}

/* Makes links to the vendor files in use, in the test's own folder `v`. */
static void link_vendors(void) {
    char from[1024], to[1024];
    const char *vendors = getenv("OCL_ICD_VENDORS");
    assert_non_null(vendors);
    (void)snprintf(to, sizeof to, "%s/v", folder);
    assert_int_equal(mkdir(to, 0777), 0);
    DIR *dir = opendir(vendors);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(from, sizeof from, "%s/%s", vendors, entry->d_name);
        (void)snprintf(to, sizeof to, "%s/v/%s", folder, entry->d_name);
        assert_int_equal(symlink(from, to), 0);
    }
    (void)closedir(dir);
}

/* Sets the variable, or unsets it if value is NULL. Returns a copy of the value before (NULL: none) for put_back. */
static char *exchange(const char *name, const char *value) {
    char *before = getenv(name) ? clq_strdup(getenv(name)) : NULL;
    if (value)
        (void)setenv(name, value, 1);
    else
        (void)unsetenv(name);
    return before;
}

static void put_back(const char *name, char *before) {
    clq_free(exchange(name, before));
    clq_free(before);
}

/* Vendor files with the shortest possible paths. */
static void knows_vendors_by_short_paths(void **state) {
    (void)state;
    char was[1024];
    link_vendors();
    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(folder), 0);
    char *vendors = exchange("OCL_ICD_VENDORS", "v");
    int listed = run("list"), known = run("pocl:0");
    put_back("OCL_ICD_VENDORS", vendors);
    assert_int_equal(chdir(was), 0);
    assert_int_equal(listed, 0);
    assert_int_equal(known, KNOWN);
}

/* Like NVIDIA's libnvidia-opencl.so.1, which is a link to the file with the version in its name. */
static void knows_a_library_by_a_link(void **state) {
    (void)state;
    char own[512], path[512];
    link_vendors();
    (void)snprintf(own, sizeof own, "%s/v", folder);
    (void)snprintf(path, sizeof path, "%s/v/pocl.icd", folder);
    (void)unlink(path);
    assert_int_equal(run("link"), 0);
    char *vendors = exchange("OCL_ICD_VENDORS", own), *libraries = exchange("LD_LIBRARY_PATH", folder);
    int listed = run("list"), known = run("pocl:0");
    put_back("LD_LIBRARY_PATH", libraries);
    put_back("OCL_ICD_VENDORS", vendors);
    assert_int_equal(listed, 0);
    assert_int_equal(known, KNOWN);
}

static int begin(void **state) {
    if (files_begin(state) != 0 || setenv("CLIQUE_CACHE_DIR", files_folder, 1) != 0) return -1;
    (void)snprintf(folder, sizeof folder, "%s", files_folder);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2) return child(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(needs_a_list, begin, files_end),
        cmocka_unit_test_setup_teardown(opens_one_driver_alone, begin, files_end),
        cmocka_unit_test_setup_teardown(asks_all_where_one_is_not_enough, begin, files_end),
        cmocka_unit_test_setup_teardown(holds_only_where_it_was_made, begin, files_end),
        cmocka_unit_test_setup_teardown(is_forgotten_for_good, begin, files_end),
        cmocka_unit_test_setup_teardown(notices_what_is_gone, begin, files_end),
        cmocka_unit_test_setup_teardown(knows_vendors_by_short_paths, begin, files_end),
        cmocka_unit_test_setup_teardown(knows_a_library_by_a_link, begin, files_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
