/* Folders of checkpoints as users, disks and strangers leave them. If the newest checkpoint is bad, a line says what is
 * wrong with it, the checkpoint before it is taken, and nothing that is whole is lost. */
#include "support/files.h"
#include "train/checkpoint.h"
#include "train/two_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define OLD "step-000000000002"
#define NEW "step-000000000004"
enum { FILES = 4, VARIABLES_MOST = 1000, TRIALS = 600 };

/* ---- good checkpoints ---- */

/* The files of two checkpoints, and the weights of the first. */
static const char *const names[FILES] = {OLD "/tensors.safetensors", OLD "/manifest.json", NEW "/tensors.safetensors",
                                         NEW "/manifest.json"};
static char *contents[FILES];
static size_t lengths[FILES];
static float weights[VARIABLES_MOST];

static clq_trainer *trainer; /* resumes from the checkpoints */
static char warned[4000];

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", line);
}

static clq_trainer *open_single(const char *optimizer) {
    return open_trainer("pocl:0", optimizer, &(clq_strategy_options){0}, 0);
}

static clq_checkpoints *open_folder(const char *folder, uint32_t keep) {
    clq_checkpoints *checkpoints;
    assert_ok(
        clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .keep = keep, .resume = true}, &checkpoints));
    return checkpoints;
}

static void train_to(clq_trainer *by, uint64_t step) {
    while (by->step < step) {
        const clq_batch batch = batch_of(by->step);
        assert_ok(clq_step(by, &batch));
    }
}

static void read_weights(clq_trainer *from, float *out) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        assert_ok(clq_trainer_get_variable(from, v, out));
        out += info.elements;
    }
}

static void make_good(void) {
    const char *folder = files_path("good");
    clq_checkpoints *checkpoints = open_folder(folder, 0);
    trainer = open_single("adam");
    for (uint64_t step = 2; step <= 4; step += 2) {
        train_to(trainer, step);
        if (step == 2) read_weights(trainer, weights);
        assert_ok(clq_checkpoints_save(checkpoints, trainer, NULL));
    }
    clq_checkpoints_close(checkpoints);
    for (unsigned i = 0; i < FILES; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        contents[i] = files_get(path, &lengths[i]);
    }
}

static void put(const char *path, const void *content, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(bytes ? fwrite(content, 1, bytes, file) : 0, bytes);
    assert_int_equal(fclose(file), 0);
}

/* Makes a new folder with both checkpoints, or with the newer one alone. */
static char *make_folder(bool with_old) {
    static char folder[200];
    static unsigned number;
    char path[300];
    snprintf(folder, sizeof folder, "%s/%u", files_folder, number++);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (unsigned i = with_old ? 0 : 2; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%.17s", folder, names[i]);
        if (i % 2 == 0) assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        put(path, contents[i], lengths[i]);
    }
    return folder;
}

static const char *within(const char *folder, const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool is_same(const char *folder, unsigned file) {
    size_t bytes;
    if (access(within(folder, names[file]), F_OK) != 0) return false;
    char *now = files_get(within(folder, names[file]), &bytes);
    const bool same = bytes == lengths[file] && memcmp(now, contents[file], bytes) == 0;
    free(now);
    return same;
}

/* ---- what goes wrong ---- */

static json_t *parse(const char *text, size_t bytes) {
    json_t *json = NULL;
    assert_ok(clq_json_parse(text, bytes, 8, "manifest", &json));
    return json;
}

/* Writes a manifest with its right hash: that of its compact text with sorted keys and without the hash. */
static void put_sealed(const char *folder, json_t *manifest) {
    char hash[40];
    json_object_del(manifest, "xxh3");
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    const clq_hash128 sum = clq_hash128_of(text, strlen(text), 0);
    free(text);
    snprintf(hash, sizeof hash, "%016llx%016llx", (unsigned long long)sum.high, (unsigned long long)sum.low);
    json_object_set_new(manifest, "xxh3", json_string(hash));
    text = json_dumps(manifest, 0);
    put(within(folder, NEW "/manifest.json"), text, strlen(text));
    free(text);
}

typedef struct spoiled {
    const char *what;
    void (*spoil)(const char *folder, const struct spoiled *how);
    const char *file, *text; /* arguments of spoil; text NULL: removes the key */
    const char *says;        /* NULL: the folder does not count as a checkpoint, and nothing is said */
    clq_status status;       /* of the restore if there is no other checkpoint */
} spoiled;

static void cut(const char *folder, const spoiled *how) {
    size_t bytes;
    char *content = files_get(within(folder, how->file), &bytes);
    put(within(folder, how->file), content, bytes / 2);
    free(content);
}
static void flip(const char *folder, const spoiled *how) {
    size_t bytes;
    char *content = files_get(within(folder, how->file), &bytes);
    content[bytes - 7] ^= 1;
    put(within(folder, how->file), content, bytes);
    free(content);
}
static void write_text(const char *folder, const spoiled *how) {
    put(within(folder, how->file), how->text, strlen(how->text));
}
static void write_nested(const char *folder, const spoiled *how) {
    static char text[200001];
    memset(text, '[', sizeof text - 1);
    put(within(folder, how->file), text, sizeof text - 1);
}
static void grow(const char *folder, const spoiled *how) {
    assert_int_equal(truncate(within(folder, how->file), (off_t)1 << 40), 0); /* a sparse file */
}
static void take_away(const char *folder, const spoiled *how) {
    assert_int_equal(files_remove(within(folder, how->file)), 0);
}
static void make_pipe(const char *folder, const spoiled *how) {
    take_away(folder, how);
    assert_int_equal(mkfifo(within(folder, how->file), 0600), 0);
}
static void make_directory(const char *folder, const spoiled *how) {
    take_away(folder, how);
    assert_int_equal(mkdir(within(folder, how->file), 0700), 0);
}
static void make_loop(const char *folder, const spoiled *how) {
    take_away(folder, how);
    assert_int_equal(
        symlink(strrchr(how->file, '/') ? strrchr(how->file, '/') + 1 : how->file, within(folder, how->file)), 0);
}
static void make_file(const char *folder, const spoiled *how) {
    take_away(folder, how);
    put(within(folder, how->file), "notes", 5);
}
static void exchange_tensors(const char *folder, const spoiled *how) {
    put(within(folder, how->file), contents[0], lengths[0]);
}
/* how->file: the key, such as "step" or "values/optimizer"; how->text: its new value in JSON. */
static void set_key(const char *folder, const spoiled *how) {
    json_t *manifest = parse(contents[3], lengths[3]), *of = manifest;
    const char *key = how->file, *slash = strchr(key, '/');
    if (slash) {
        of = json_object_get(manifest, strncmp(key, "values", 6) == 0 ? "values" : "tensors");
        key = slash + 1;
    }
    assert_non_null(of);
    if (how->text)
        json_object_set_new(of, key, json_loads(how->text, JSON_DECODE_ANY, NULL));
    else
        json_object_del(of, key);
    put_sealed(folder, manifest);
    json_decref(manifest);
}

#define MANIFEST NEW "/manifest.json"
#define TENSORS NEW "/tensors.safetensors"
#define MISSING(member) "member '" member "' is missing or wrong"

static const spoiled cases[] = {
    {"tensors that are cut", cut, TENSORS, NULL, "tensors.safetensors", CLQ_ERROR_FORMAT},
    {"a bit of a tensor", flip, TENSORS, NULL, "is damaged: its hash does not match the manifest", CLQ_ERROR_FORMAT},
    {"no tensors", take_away, TENSORS, NULL, "cannot open", CLQ_ERROR_NOT_FOUND},
    {"empty tensors", write_text, TENSORS, "", "tensors.safetensors", CLQ_ERROR_FORMAT},
    {"tensors that are a pipe", make_pipe, TENSORS, NULL, "not a regular file", CLQ_ERROR_READ},
    {"tensors that are a folder", make_directory, TENSORS, NULL, "not a regular file", CLQ_ERROR_READ},
    {"tensors that are a link to itself", make_loop, TENSORS, NULL, "cannot open", CLQ_ERROR_READ},
    {"tensors of another step", exchange_tensors, TENSORS, NULL, "is damaged: its hash does not match the manifest",
     CLQ_ERROR_FORMAT},
    {"a terabyte of tensors", grow, TENSORS, NULL, "the most that is read here", CLQ_ERROR_FORMAT},
    {"a manifest that is cut", cut, MANIFEST, NULL, "manifest.json: line", CLQ_ERROR_FORMAT},
    {"a manifest with a wrong byte", flip, MANIFEST, NULL, "manifest.json", CLQ_ERROR_FORMAT},
    {"an empty manifest", write_text, MANIFEST, "", "manifest.json: line 1", CLQ_ERROR_FORMAT},
    {"an array", write_text, MANIFEST, "[1, 2]", "no manifest of a checkpoint", CLQ_ERROR_FORMAT},
    {"a number", write_text, MANIFEST, "7", "manifest.json: line 1", CLQ_ERROR_FORMAT},
    {"another JSON file", write_text, MANIFEST, "{\"class_name\": \"Sequential\"}", "no manifest of a checkpoint",
     CLQ_ERROR_FORMAT},
    {"a key twice", write_text, MANIFEST, "{\"step\": 4, \"step\": 5}", "duplicate", CLQ_ERROR_FORMAT},
    {"NaN", write_text, MANIFEST, "{\"step\": NaN}", "manifest.json: line 1", CLQ_ERROR_FORMAT},
    {"an integer that no type has", write_text, MANIFEST, "{\"step\": 99999999999999999999}", "too big",
     CLQ_ERROR_FORMAT},
    {"a manifest that is nested deep", write_nested, MANIFEST, NULL, "more than 3 nested", CLQ_ERROR_FORMAT},
    {"a terabyte of manifest", grow, MANIFEST, NULL, "the most that is read here", CLQ_ERROR_FORMAT},
    {"no manifest", take_away, MANIFEST, NULL, NULL, CLQ_OK},
    {"a manifest that is a folder", make_directory, MANIFEST, NULL, NULL, CLQ_OK},
    {"a manifest that is a pipe", make_pipe, MANIFEST, NULL, NULL, CLQ_OK},
    {"a manifest that is a link to itself", make_loop, MANIFEST, NULL, NULL, CLQ_OK},
    {"a file where the folder was", make_file, NEW, NULL, NULL, CLQ_OK},
    {"a folder that is a link to itself", make_loop, NEW, NULL, NULL, CLQ_OK},
    {"no hash", write_text, MANIFEST, "{\"format\": \"clique-checkpoint\", \"version\": 1}",
     "damaged: its hash does not match its contents", CLQ_ERROR_FORMAT},
    {"a newer version", set_key, "version", "2", "has format version 2; this Clique reads 1", CLQ_ERROR_UNSUPPORTED},
    {"a version that is a text", set_key, "version", "\"1\"", "has format version 0", CLQ_ERROR_UNSUPPORTED},
    {"another format", set_key, "format", "\"clique\"", "no manifest of a checkpoint", CLQ_ERROR_FORMAT},
    {"no format", set_key, "format", NULL, "no manifest of a checkpoint", CLQ_ERROR_FORMAT},
    {"no step", set_key, "step", NULL, MISSING("step"), CLQ_ERROR_FORMAT},
    {"a negative step", set_key, "step", "-4", MISSING("step"), CLQ_ERROR_FORMAT},
    {"a step that is no integer", set_key, "step", "4.5", MISSING("step"), CLQ_ERROR_FORMAT},
    {"another step", set_key, "step", "5", "its manifest is of step 5", CLQ_ERROR_FORMAT},
    {"the largest step", set_key, "step", "9223372036854775807", "is of step 9223372036854775807", CLQ_ERROR_FORMAT},
    {"no replicas", set_key, "replicas", "0", MISSING("replicas"), CLQ_ERROR_FORMAT},
    {"more replicas than there can be", set_key, "replicas", "1000000", MISSING("replicas"), CLQ_ERROR_FORMAT},
    {"no values", set_key, "values", NULL, MISSING("values"), CLQ_ERROR_FORMAT},
    {"values that are an array", set_key, "values", "[]", MISSING("values"), CLQ_ERROR_FORMAT},
    {"no hashes of tensors", set_key, "tensors", NULL, MISSING("tensors"), CLQ_ERROR_FORMAT},
    {"hashes that are null", set_key, "tensors", "null", MISSING("tensors"), CLQ_ERROR_FORMAT},
    {"no hash of a tensor", set_key, "tensors/variables/dense/bias", NULL, "the manifest lists 11", CLQ_ERROR_FORMAT},
    {"a hash that is a number", set_key, "tensors/variables/dense/bias", "3",
     "tensor 'variables/dense/bias' is damaged", CLQ_ERROR_FORMAT},
    {"a tensor too many", set_key, "tensors/variables/dense_9/bias", "\"00\"", "the manifest lists 13",
     CLQ_ERROR_FORMAT},
    {"no optimizer", set_key, "values/optimizer", NULL, "it is of optimizer unknown, and the training has adam",
     CLQ_ERROR_MISMATCH},
    {"another optimizer", set_key, "values/optimizer", "\"lion\"", "it is of optimizer lion", CLQ_ERROR_MISMATCH},
    {"another rule", set_key, "values/optimizer/slots", "\"amsgrad\"", "that of amsgrad, and the training's of adam",
     CLQ_ERROR_MISMATCH},
};

/* The checkpoint before the spoiled one is taken, and the spoiled one is set aside. */
static void expect_old(const char *folder, const spoiled *how) {
    float now[VARIABLES_MOST] = {0};
    uint64_t step = 0;
    train_to(trainer, trainer->step + 1);
    clq_checkpoints *checkpoints = open_folder(folder, 0);
    warned[0] = '\0';
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    clq_checkpoints_close(checkpoints);
    if (step != 2) fail_msg("%s: step %d was taken: %s", how->what, (int)step, warned);
    if (how->says ? !strstr(warned, how->says) || !strstr(warned, "checkpoint left out: ") : *warned)
        fail_msg("%s: \"%s\" does not say \"%s\"", how->what, warned, how->says);
    if (strchr(warned, '\n') && strchr(warned, '\n')[1]) fail_msg("%s: several lines: %s", how->what, warned);
    if (!is_same(folder, 0) || !is_same(folder, 1)) fail_msg("%s: the good one was changed", how->what);
    if (how->says) assert_int_equal(access(within(folder, "skipped-000000000004-0"), F_OK), 0);
    read_weights(trainer, now);
    assert_memory_equal(now, weights, sizeof weights);
}

/* The restore fails with the newest checkpoint's reason, or finds none and training begins anew. Nothing changes. */
static void expect_failure(const char *folder, const spoiled *how) {
    uint64_t step = 77;
    const uint64_t before = trainer->step;
    clq_checkpoints *checkpoints = open_folder(folder, 0);
    const clq_status status = clq_checkpoints_restore(checkpoints, trainer, NULL, &step);
    if (status != how->status || (how->says && !strstr(clq_error_detail(), how->says)))
        fail_msg("%s: %s: %s", how->what, clq_status_text(status), clq_error_detail());
    assert_int_equal(step, how->says ? 77 : 0);
    assert_int_equal(trainer->step, before);
    if (how->says) {
        assert_int_equal(access(within(folder, NEW "/manifest.json"), F_OK), 0);
        assert_fails(CLQ_ERROR_STATE, "clq_checkpoints_restore comes first",
                     clq_fit(trainer, data, &(clq_fit_config){.steps = 1, .checkpoints = checkpoints}));
        assert_fails(CLQ_ERROR_STATE, "has a checkpoint of step 4", clq_checkpoints_save(checkpoints, trainer, NULL));
        assert_int_equal(trainer->step, before);
    }
    clq_checkpoints_close(checkpoints);
}

static void the_one_before_is_taken(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char *folder = make_folder(true);
        cases[i].spoil(folder, &cases[i]);
        expect_old(folder, &cases[i]);
        folder = make_folder(false);
        cases[i].spoil(folder, &cases[i]);
        expect_failure(folder, &cases[i]);
    }
}

/* For a checkpoint of another model, the error names the tensor that differs. */
static void another_model_is_named(void **state) {
    static const struct {
        const char *optimizer, *says;
        unsigned units[3]; /* of the layers; 0: no further layer */
    } others[] = {{"adam", "tensor 'variables/dense/kernel' has shape (6, 40) and the model's is (6, 41)", {41, 3}},
                  {"adam", "no tensor 'variables/dense_2/kernel', which the ", {40, 3, 5}},
                  {"adam", "tensor 'variables/dense_1/kernel' is not part of model other", {40}},
                  {"sgd", "it is of optimizer adam, and the training has sgd", {40, 3}},
                  {"adam:amsgrad=1", "the state of its optimizer is that of adam, and the training's of", {40, 3}}};
    (void)state;
    clq_model *const own = model;
    char *folder = make_folder(true);
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++) {
        uint64_t step = 77;
        assert_ok(clq_model_create("other", &model));
        clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
        for (unsigned k = 0; k < 3 && others[i].units[k]; k++)
            x = clq_dense(model, x,
                          &(clq_dense_config){.units = others[i].units[k], .activation = CLQ_ACTIVATION_SOFTMAX});
        assert_ok(clq_model_finish(model, x));
        clq_trainer *other = open_single(others[i].optimizer);
        clq_checkpoints *checkpoints = open_folder(folder, 0);
        assert_fails(CLQ_ERROR_MISMATCH, others[i].says, clq_checkpoints_restore(checkpoints, other, NULL, &step));
        assert_int_equal(step, 77);
        if (strstr(others[i].says, "variables/"))
            assert_fails(CLQ_ERROR_MISMATCH, others[i].says, clq_trainer_load_checkpoint(other, folder, 4));
        else
            assert_ok(clq_trainer_load_checkpoint(other, folder, 4)); /* loads the weights alone */
        clq_checkpoints_close(checkpoints);
        clq_trainer_destroy(other);
        clq_model_destroy(model);
        for (unsigned file = 0; file < FILES; file++) assert_true(is_same(folder, file));
    }
    model = own;
}

/* ---- what is not ours ---- */

/* Entries whose names merely look like a checkpoint's are not taken for one, not read and not removed. Nor do they take
 * one of our checkpoints' places among the kept ones. */
static void strangers_stay(void **state) {
    static const char *const strangers[] = {"notes.txt",
                                            "step-0000000000005",
                                            "step-x",
                                            "step-00000000000",
                                            "step-000000000004.bak",
                                            "step-99999999999999999999",
                                            "step-000000000000",
                                            "step--00000000004",
                                            "step-+00000000004",
                                            ".hidden",
                                            "skipped-notes",
                                            "manifest",
                                            "Step-000000000009",
                                            "step-0000000000000000000005"};
    (void)state;
    char *folder = make_folder(true), path[400];
    for (size_t i = 0; i < CLQ_COUNT_OF(strangers); i++) {
        assert_int_equal(mkdir(within(folder, strangers[i]), 0700), 0);
        snprintf(path, sizeof path, "%s/manifest.json", strangers[i]);
        put(within(folder, path), contents[3], lengths[3]);
    }
    uint64_t step = 0;
    clq_checkpoints *checkpoints = open_folder(folder, 1);
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    assert_int_equal(step, 4);
    train_to(trainer, 5);
    assert_ok(clq_checkpoints_save(checkpoints, trainer, NULL));
    assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, 5);
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    assert_int_equal(step, 5);
    clq_checkpoints_close(checkpoints);
    assert_int_equal(access(within(folder, NEW), F_OK), -1); /* one of our own checkpoints is kept */
    for (size_t i = 0; i < CLQ_COUNT_OF(strangers); i++) {
        snprintf(path, sizeof path, "%s/manifest.json", strangers[i]);
        if (access(within(folder, path), F_OK) != 0) fail_msg("%s is gone", strangers[i]);
    }
}

static void folders_that_are_none(void **state) {
    (void)state;
    clq_checkpoints *checkpoints = NULL;
    const char *file = files_put("a file", "x", 1);
    assert_int_equal(symlink("loop", files_path("loop")), 0);
    assert_int_equal(symlink("nowhere", files_path("dangling")), 0);
    const struct {
        const char *folder, *says;
    } folders[] = {{file, "a file: cannot make the folder: Not a directory"},
                   {files_path("a file/run"), "cannot make the folder: Not a directory"},
                   {files_path("loop"), "cannot make the folder"},
                   {files_path("dangling"), "cannot make the folder"},
                   {"/proc/self", "cannot create a file in /proc/self"}, /* nobody may write there, not even root */
                   {"/proc/self/run", "cannot make the folder"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(folders); i++)
        assert_fails(
            CLQ_ERROR_WRITE, folders[i].says,
            clq_checkpoints_open(&(clq_checkpoints_config){.folder = folders[i].folder, .resume = true}, &checkpoints));
    assert_null(checkpoints);
}

/* Training begins anew with an empty folder, and with a folder that does not exist yet. */
static void nothing_to_go_on_from(void **state) {
    (void)state;
    const char *folder = files_path("new/er");
    for (int i = 0; i < 2; i++) {
        uint64_t step = 77;
        clq_checkpoints *checkpoints = open_folder(folder, 0);
        assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
        assert_int_equal(step, 0);
        assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, 0);
        clq_checkpoints_close(checkpoints);
    }
}

/* If a step's folder is a link to a folder elsewhere, the files there belong to somebody else and are kept. */
static void links_are_not_followed(void **state) {
    (void)state;
    char *folder = make_folder(true), elsewhere[400];
    uint64_t step = 0;
    snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", folder);
    assert_int_equal(rename(within(folder, OLD), elsewhere), 0);
    assert_int_equal(symlink(elsewhere, within(folder, OLD)), 0);
    clq_checkpoints *checkpoints = open_folder(folder, 1);
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    train_to(trainer, 5);
    assert_ok(clq_checkpoints_save(checkpoints, trainer, NULL));
    assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, 5);
    clq_checkpoints_close(checkpoints);
    assert_int_equal(access(within(folder, NEW), F_OK), -1);
    for (unsigned file = 0; file < 2; file++)
        if (!is_same(folder, file)) fail_msg("%s is gone through the link", names[file]);
}

/* This also holds within one process: nothing tells which of its parts has the folder. */
static void one_writer_a_folder(void **state) {
    (void)state;
    char *folder = make_folder(true);
    clq_checkpoints *first = open_folder(folder, 1), *second = NULL;
    assert_fails(CLQ_ERROR_ARGUMENT, "already, of this process or another",
                 clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &second));
    clq_checkpoints_close(first);
}

/* ---- writes that fail ---- */

static void limit_files(rlim_t bytes) {
    static struct rlimit before;
    struct rlimit limit;
    if (bytes) assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    if (bytes) limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full, something is in the way, or the folder is removed meanwhile. */
static void training_goes_on(void **state) {
    (void)state;
    char *folder = make_folder(true);
    uint64_t step;
    clq_checkpoints *checkpoints = open_folder(folder, 2);
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    assert_int_equal(step, 4);
    const clq_fit_config one = {.steps = 1, .checkpoints = checkpoints};
    warned[0] = '\0';
    limit_files(1000);
    const clq_status status = clq_fit(trainer, data, &one);
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    limit_files(0);
    assert_ok(status);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.last_step, 4);
    expect_text(warned, "the checkpoint of step 5 was not written: ");
    expect_text(warned, "tensors.safetensors: cannot write: File too large; training goes on\n");
    for (unsigned file = 0; file < FILES; file++) assert_true(is_same(folder, file));
    assert_int_equal(files_count(folder), 2);

    put(within(folder, "step-000000000006"), "", 0);
    warned[0] = '\0';
    assert_ok(clq_fit(trainer, data, &one));
    assert_int_equal(clq_checkpoints_counts(checkpoints).failed, 2);
    expect_text(warned, "step-000000000006: cannot make the folder: Not a directory; training goes on\n");
    assert_true(is_same(folder, 3));

    assert_int_equal(files_remove(folder), 0);
    assert_ok(clq_fit(trainer, data, &one));
    assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, 7);
    assert_int_equal(files_count(folder), 1);
    clq_checkpoints_close(checkpoints);
}

/* ---- memory ---- */

static clq_status open_and_restore(void *folder) {
    clq_checkpoints *checkpoints;
    uint64_t step = 0;
    CLQ_TRY(clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &checkpoints));
    const clq_status status = clq_checkpoints_restore(checkpoints, trainer, NULL, &step);
    clq_checkpoints_close(checkpoints);
    if (status == CLQ_OK) assert_int_equal(step, 4);
    return status;
}

/* If memory runs out during the search of a folder, its files stay, and no older checkpoint is taken. */
static void memory_runs_out(void **state) {
    (void)state;
    char *folder = make_folder(true);
    const uint64_t made = walk_allocations(open_and_restore, folder);
    assert_true(made > 30);
    for (unsigned file = 0; file < FILES; file++) assert_true(is_same(folder, file));
    assert_int_equal(files_count(folder), 2);
}

/* If memory runs out after a spoiled checkpoint was left out, the error says so. The error is not the spoiled one's,
 * and training does not begin anew. */
static void memory_runs_out_behind_a_spoiled_one(void **state) {
    enum { LEAST = 60 };
    uint64_t nth = 0, made = UINT64_MAX;
    (void)state;
    while (made >= nth) {
        uint64_t step = 0;
        nth++;
        char *folder = make_folder(true);
        cases[0].spoil(folder, &cases[0]);
        clq_checkpoints *checkpoints = open_folder(folder, 0);
        clq_memory_fail_at(nth, false);
        const clq_status status = clq_checkpoints_restore(checkpoints, trainer, NULL, &step);
        made = clq_memory_fail_at(0, false);
        if (!(status == CLQ_OK && step == 2) && !(status == CLQ_ERROR_MEMORY && made >= nth))
            fail_msg("allocation %d: step %d, %s: %s", (int)nth, (int)step, clq_status_text(status),
                     clq_error_detail());
        clq_checkpoints_close(checkpoints);
    }
    assert_true(nth > LEAST);
}

/* ---- manifests that someone has made up ---- */

static json_t *anything(clq_random *random) {
    static const char *const texts[] = {"",
                                        "0",
                                        "1",
                                        "-1",
                                        "3",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "nan",
                                        "-inf",
                                        "1e308",
                                        "0x1p ",
                                        "single",
                                        "0x1p-1074",
                                        "{\"callback\": 3}",
                                        "\xf0\x9f\x8d\xb0"};
    switch (clq_random_below(random, 8)) {
    case 0: return json_null();
    case 1: return json_integer((json_int_t)clq_random_below(random, UINT64_MAX));
    case 2: return json_real(-1.5);
    case 3: return json_array();
    default: return json_string(texts[clq_random_below(random, CLQ_COUNT_OF(texts))]);
    }
}

/* Made-up manifests with the right hash. Each is refused with an error text, or taken, and then training goes on. */
static void made_up_manifests(const char *spec, const clq_strategy_options *options) {
    clq_random random = clq_random_start(17, 0);
    clq_trainer *own = open_trainer(spec, "adam", options, 0);
    clq_checkpoints *checkpoints = open_folder(files_path(spec), 0);
    char path[400];
    unsigned taken = 0, refused = 0;
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_fit(own, data, &(clq_fit_config){.steps = 4, .checkpoints = checkpoints}));
    assert_int_equal(clq_checkpoints_counts(checkpoints).last_step, 4);
    clq_checkpoints_close(checkpoints);
    const char *folder = files_path(spec);
    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST);
    size_t bytes;
    char *good = files_get(path, &bytes);
    for (unsigned trial = 0; trial < TRIALS / 2; trial++) {
        json_t *manifest = parse(good, bytes), *values = json_object_get(manifest, "values");
        for (uint64_t times = 1 + clq_random_below(&random, 3); times > 0; times--) {
            json_t *of = clq_random_below(&random, 8) ? values : manifest;
            uint64_t at = clq_random_below(&random, json_object_size(of));
            void *key = json_object_iter(of);
            for (; at > 0; at--) key = json_object_iter_next(of, key);
            if (of == manifest && strcmp(json_object_iter_key(key), "values") == 0) continue;
            json_object_iter_set_new(of, key, anything(&random));
        }
        put_sealed(folder, manifest);
        json_decref(manifest);
        uint64_t step = 0;
        checkpoints = open_folder(folder, 0);
        clq_fail(CLQ_OK, "%s", "");
        clq_status status = clq_checkpoints_restore(checkpoints, own, data, &step);
        if (status != CLQ_OK && !*clq_error_detail()) fail_msg("trial %u: refused without a line", trial);
        if (status == CLQ_OK) assert_int_equal(step, 4);
        *(status == CLQ_OK ? &taken : &refused) += 1;
        clq_checkpoints_close(checkpoints);
        if (status == CLQ_OK) assert_ok(clq_fit(own, data, &(clq_fit_config){.steps = 1}));
    }
    free(good);
    clq_trainer_destroy(own);
    assert_true(taken > TRIALS / 10);
    assert_true(refused > TRIALS / 40);
}

static void manifests_that_are_made_up(void **state) {
    (void)state;
    warned[0] = '\0';
    made_up_manifests("pocl:0", &(clq_strategy_options){0});
    made_up_manifests("pocl:0,pocl:1", &(clq_strategy_options){.local_steps = 3});
}

static int begin(void **state) {
    if (start(state) != 0 || files_begin(state) != 0) return -1;
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    make_good();
    return 0;
}

static int end(void **state) {
    clq_trainer_destroy(trainer);
    for (unsigned i = 0; i < FILES; i++) free(contents[i]);
    return finish(state) || files_end(state) ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_before_is_taken),
        cmocka_unit_test(another_model_is_named),
        cmocka_unit_test(strangers_stay),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(one_writer_a_folder),
        cmocka_unit_test(folders_that_are_none),
        cmocka_unit_test(nothing_to_go_on_from),
        cmocka_unit_test(training_goes_on),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(memory_runs_out_behind_a_spoiled_one),
        cmocka_unit_test(manifests_that_are_made_up),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
