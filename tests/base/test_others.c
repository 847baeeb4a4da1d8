/* How much other programs used the cores, by the counters of a made-up machine in files. */
#include "support/files.h"

#include <math.h>
#include <sched.h>
#include <sys/stat.h>

enum { CORES_LISTED = 1024, TICKS = 100 };

static void make_folders(const char *path) {
    char part[512];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        (void)mkdir(part, 0755);
    }
}

static void put(const char *name, const char *text) {
    const char *path = files_path(name);
    make_folders(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The counters of every core, in ticks: user, nice, system, idle, waiting, two kinds of interrupts, steal. */
static void put_stat(const char *counters) {
    clq_text text = {0};
    clq_text_add(&text, "cpu  99 99 99 99 99 99 99 99 99 99\n");
    for (unsigned i = 0; i < CORES_LISTED; i++) clq_text_add(&text, "cpu%u %s 7 7\n", i, counters);
    clq_text_add(&text, "intr 5 5 5\ncpu0 1 1 1 1 1 1 1 1\n");
    assert_false(text.failed);
    put("m/proc/stat", text.data);
    clq_free(text.data);
}

/* The load of others between two states of the counters that are 2 s apart. Meanwhile this process used the part `own`
 * of each core. */
static double others(const char *begin, const char *end, double own) {
    put_stat(begin);
    clq_cores_used begun = clq_cores_used_now();
    put_stat(end);
    clq_cores_used ended = clq_cores_used_now();
    ended.at_s = begun.at_s + 2;
    ended.own_s = begun.own_s + 2 * own * ended.cores;
    return clq_others_between(&begun, &ended);
}

static void use_machine(void) {
    assert_int_equal(sysconf(_SC_CLK_TCK), TICKS);
    assert_int_equal(setenv("CLIQUE_MACHINE_ROOT", files_path("m"), 1), 0);
    (void)files_remove(files_path("m"));
}

static void all_kinds_of_work_count(void **state) {
    (void)state;
    use_machine();
    put_stat("1 2 3 4 5 6 7 8");
    assert_int_equal(clq_cores_used_now().cores, clq_cpu_count());
    /* Each of six kinds of work takes 10 of the 200 ticks: 60 in all. Waiting for disks is no work. */
    assert_float_equal(others("100 100 100 900 900 100 100 100", "110 110 110 970 970 110 110 110", 0), 0.30, 1e-9);
    assert_float_equal(others("100 100 100 900 900 100 100 100", "110 110 110 970 970 110 110 110", 0.2), 0.10, 1e-9);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 200", 0), 1.0, 1e-9); /* all stolen */
}

static void nothing_is_below_none(void **state) {
    (void)state;
    use_machine();
    /* Counters may be a tick behind, so this process may have used more than was counted. */
    assert_float_equal(others("0 0 0 0 0 0 0 0", "99 0 0 101 0 0 0 0", 0.5), 0.0, 1e-9);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "400 0 0 0 0 0 0 0", 0.5), 1.0, 1e-9);
}

static void what_is_not_told_is_not_known(void **state) {
    (void)state;
    use_machine();
    clq_cores_used none = clq_cores_used_now();
    assert_true(none.cores == 0);
    assert_true(isnan(clq_others_between(&none, &none)));
    assert_true(isnan(others("5 5 5 5 5 5 5 5", "5 5 5 5 5 5 5 5", 0))); /* the counters do not move */
    assert_true(isnan(others("5 5 5 5 5", "105 5 5 105 5", 0)));         /* too few, with the two behind them */
    assert_true(isnan(others("a b c", "d e f", 0)));
    put_stat("1 1 1 1 1 1 1 1");
    clq_cores_used begun = clq_cores_used_now();
    assert_true(isnan(clq_others_between(&none, &begun)));
    assert_true(isnan(clq_others_between(&begun, &begun))); /* no time */
    const char *damaged[] = {"",    "\n", "cpu", "cpux 1 1 1 1 1 1 1 1", "cpu99999999999999999999 1 1 1 1 1 1 1 1",
                             "cpu0"};
    for (size_t i = 0; i < CLQ_COUNT_OF(damaged); i++) {
        put("m/proc/stat", damaged[i]);
        assert_true(clq_cores_used_now().cores == 0);
    }
}

/* Other programs may use cores that this process may not use. All cores are half busy, with other programs alone. */
static void limits_of_the_process(void **state) {
    (void)state;
    char text[64];
    use_machine();
    const double half = 0.5 * clq_cpu_count(), quarter = 0.25 * clq_cpu_count();
    (void)snprintf(text, sizeof text, "max 100000\n");
    put("m/sys/fs/cgroup/cpu.max", text);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "100 0 0 100 0 0 0 0", 0), 0.5, 1e-9);
    (void)snprintf(text, sizeof text, "%.0f 100000\n", 100000 * half);
    put("m/sys/fs/cgroup/cpu.max", text);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "100 0 0 100 0 0 0 0", 0), 0.0, 1e-9);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "150 0 0 50 0 0 0 0", 0), 0.5, 1e-9);
    use_machine();
    put("m/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("m/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
    assert_float_equal(others("0 0 0 0 0 0 0 0", "100 0 0 100 0 0 0 0", 0), 0.5, 1e-9);
    (void)snprintf(text, sizeof text, "%.0f\n", 50000 * quarter);
    put("m/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text);
    assert_float_equal(others("0 0 0 0 0 0 0 0", "180 0 0 20 0 0 0 0", 0), 0.6, 1e-9); /* 0.9 less 0.75, of 0.25 */
}

/* On the machine that runs the test: this process, which works, does not count among the others. */
static void this_process_is_no_other(void **state) {
    (void)state;
    assert_int_equal(unsetenv("CLIQUE_MACHINE_ROOT"), 0);
    const clq_cores_used begun = clq_cores_used_now();
    const clock_t until = clock() + CLOCKS_PER_SEC / 2;
    while (clock() < until) {
    }
    const clq_cores_used ended = clq_cores_used_now();
    assert_true(ended.own_s - begun.own_s > 0.4);
    const double share = clq_others_between(&begun, &ended), others_s = share * (ended.at_s - begun.at_s) * ended.cores;
    assert_true(isnan(share) || share <= 1);
    if (!isnan(share)) assert_true(others_s < ended.busy_s - begun.busy_s + 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_of_work_count),       cmocka_unit_test(nothing_is_below_none),
        cmocka_unit_test(what_is_not_told_is_not_known), cmocka_unit_test(limits_of_the_process),
        cmocka_unit_test(this_process_is_no_other),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
