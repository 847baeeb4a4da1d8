/* Damaged .keras and .weights.h5 files are refused, each in one line; and folders that a killed process left are
 * removed.
 */
#include "interop/keras_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- folders that were left ---- */

/* A folder with a file in it, which is as old as that. */
static void make_folder(const char *place, const char *name, time_t seconds) {
    const struct timespec old[] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    char *path = clq_strprintf("%s/%s", place, name), *file = clq_strprintf("%s/%s/weights", place, name);
    assert_int_equal(mkdir(path, 0700), 0);
    FILE *to = fopen(file, "w");
    assert_non_null(to);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    clq_free(path);
    clq_free(file);
}

static bool is_there(const char *place, const char *name) {
    char *path = clq_strprintf("%s/%s/weights", place, name);
    const bool there = clq_file_exists(path);
    clq_free(path);
    return there;
}

/* Of a process that was killed; not of one that is at it, or about to be, nor what only begins alike. */
static void folders_that_were_left_are_removed(void **state) {
    (void)state;
    const char *place = files_path("between");
    char *before = getenv("TMPDIR") ? clq_strdup(getenv("TMPDIR")) : NULL, *golden = golden_path("images", ".keras");
    clq_safetensors *file;
    assert_int_equal(mkdir(place, 0700), 0);
    make_folder(place, "clique-keras-killed", 3600);
    make_folder(place, "clique-keras-inuse0", 3600);
    make_folder(place, "clique-keras-young0", 0);
    make_folder(place, "clique-keras-somebody", 3600);
    char *used = clq_strprintf("%s/clique-keras-inuse0", place);
    const int lock = open(used, O_RDONLY | O_DIRECTORY);
    assert_true(lock >= 0 && flock(lock, LOCK_EX) == 0);
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    assert_ok(clq_keras_file_open(golden, &file));
    clq_safetensors_close(file);
    assert_false(is_there(place, "clique-keras-killed"));
    assert_true(is_there(place, "clique-keras-inuse0") && is_there(place, "clique-keras-young0"));
    assert_true(is_there(place, "clique-keras-somebody"));
    close(lock);
    assert_ok(clq_keras_file_open(golden, &file)); /* the lock ended with its process, so to speak */
    clq_safetensors_close(file);
    assert_false(is_there(place, "clique-keras-inuse0"));
    assert_int_equal(before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR"), 0);
    clq_free(before);
    clq_free(golden);
    clq_free(used);
}

/* ---- damaged files ---- */

static void check_one_line(clq_status status, const char *path) {
    const char *detail = clq_error_detail();
    if (status == CLQ_OK) return;
    if (!*detail || strchr(detail, '\n')) fail_msg("\"%s\" is no line", detail);
    if (!strstr(detail, path)) fail_msg("\"%s\" does not name the file", detail);
}

/* Bytes anywhere, and ends too early. Most of a file of weights is values, of which each is a weight. */
static void damage(const char *name, const char *as, size_t trials) {
    char *path = golden_path(name, ".keras");
    clq_model *model = read_model(name);
    clq_trainer *trainer = open_trainer(model);
    clq_random random = clq_random_start(11, 0);
    size_t bytes, refused = 0;
    load_golden(trainer, name);
    const char *whole = files_path(as);
    assert_ok(clq_trainer_save(trainer, whole));
    char *good = files_get(whole, &bytes), *bad = malloc(bytes);
    assert_non_null(bad);
    for (size_t i = 0; i < trials; i++) {
        memcpy(bad, good, bytes);
        const size_t length = i % 4 ? bytes : (size_t)clq_random_below(&random, bytes);
        for (size_t k = 0; i % 4 && k < i % 4; k++)
            bad[clq_random_below(&random, i % 8 < 4 ? bytes : 2048)] = (char)clq_random_u32(&random);
        const char *damaged = files_put(as, bad, length);
        const clq_status status = clq_trainer_load(trainer, damaged);
        check_one_line(status, damaged);
        refused += status != CLQ_OK;
        if (i % 4 == 0 && status == CLQ_OK) fail_msg("%zu of %zu bytes were read", length, bytes);
    }
    assert_true(refused >= trials / 4);
    free(good);
    free(bad);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_free(path);
}

static bool is_long; /* the argument `long` */

static void damaged_files_are_refused(void **state) {
    (void)state;
    damage("sequences", "damaged.weights.h5", is_long ? 20000 : 60);
    damage("images", "damaged.keras", is_long ? 2000 : 20);
}

static void what_is_no_such_file_is_refused(void **state) {
    clq_model *model;
    (void)state;
    assert_fails(CLQ_ERROR_NOT_FOUND, "none.keras", clq_model_read_keras(files_path("none.keras"), NULL, &model));
    assert_fails(CLQ_ERROR_FORMAT, "no HDF5 file",
                 clq_model_read_keras(files_put("text.keras", "text", 4), NULL, &model));
    assert_fails(CLQ_ERROR_FORMAT, "no HDF5 file", clq_model_read_keras(files_put("empty.keras", "", 0), NULL, &model));
    assert_fails(CLQ_ERROR_FORMAT, "zip", clq_model_read_keras(files_put("cut.keras", "PK\3\4", 4), NULL, &model));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_that_were_left_are_removed),
                                       cmocka_unit_test(damaged_files_are_refused),
                                       cmocka_unit_test(what_is_no_such_file_is_refused)};
    is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    return cmocka_run_group_tests_name("interop/keras_file_damage", tests, begin, end);
}
