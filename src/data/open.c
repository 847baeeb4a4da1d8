/* Opens data sets by name: folders of data files, Fashion-MNIST, synthetic data (synthetic.c), and texts (text.c). */
#include "data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FILE_NAME = 256, FILES_MAX = 5, PATH_BYTES = 4096 /* no system opens longer paths */ };

/* The kinds of files that a folder may hold, in the order in which they are looked for. */
typedef enum kind { IDX, NPY, CIFAR10, KINDS } kind;

/* The files of the training part and of the test part: a pair of samples and labels, or all of CIFAR-10's files. For
 * IDX, the beginnings of the files' names. */
static const char *const files_of[KINDS][2][FILES_MAX] = {
    [IDX] = {{"train-images", "train-labels"}, {"t10k-images", "t10k-labels"}},
    [NPY] = {{"x_train.npy", "y_train.npy"}, {"x_test.npy", "y_test.npy"}},
    [CIFAR10] = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
                 {"test_batch.bin"}},
};

clq_status clq_part_parse(const char *part, bool *test) {
    bool is_test = strcmp(part, "test") == 0;
    if (!is_test && strcmp(part, "train") != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "part '%s' of a data set: expected train or test", part);
    *test = is_test;
    return CLQ_OK;
}

static const char *part_name(bool test) { return test ? "test" : "train"; }

/* ---- finding files ---- */

#define FASHION_MNIST "fashion-mnist"
#define SYNTHETIC "synthetic"
enum { SYNTHETIC_LENGTH = sizeof SYNTHETIC - 1 };
const char *const clq_dataset_names[] = {FASHION_MNIST, SYNTHETIC, NULL};

/* Checks that the folder exists and can be read. Errors: NOT_FOUND, READ. */
static clq_status check_folder(const char *folder) {
    DIR *entries = opendir(folder);
    if (entries) {
        closedir(entries);
        return CLQ_OK;
    }
    if (errno == ENOTDIR && clq_file_exists(folder))
        return clq_fail(CLQ_ERROR_READ, "data set '%s' is a file: give the folder that it lies in, or text:%s", folder,
                        folder);
    const int error = errno;
    clq_nearest nearest = clq_nearest_of(folder);
    for (size_t i = 0; clq_dataset_names[i]; i++) clq_nearest_try(&nearest, clq_dataset_names[i]);
    return clq_fail(error == ENOENT || error == ENOTDIR ? CLQ_ERROR_NOT_FOUND : CLQ_ERROR_READ,
                    "no data set '%s': %s; give " FASHION_MNIST ", " SYNTHETIC
                    ", text:FILE, or a folder of data files%s%s%s",
                    folder, strerror(error), nearest.found ? "; did you mean '" : "",
                    nearest.found ? nearest.found : "", nearest.found ? "'?" : "");
}

static bool holds(const char *folder, const char *file) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path && clq_file_exists(path);
}

/* train-images-idx3-ubyte, train-images-idx3-ubyte.gz; some copies have a dot before "idx". */
static bool is_idx_name(const char *name, const char *stem) {
    size_t length = strlen(stem);
    if (strncmp(name, stem, length) != 0) return false;
    name += length;
    if ((*name != '-' && *name != '.') || strncmp(name + 1, "idx", 3) != 0) return false;
    name += 4;
    name += strspn(name, "0123456789");
    return strcmp(name, "-ubyte") == 0 || strcmp(name, "-ubyte.gz") == 0;
}

/* Finds the name that a file of files_of has in the folder; "" if the file is not there. Of several IDX files, takes
 * the first in the order of names: so a plain file is preferred to a .gz. */
static void find_file(kind k, const char *folder, const char *file, char name[FILE_NAME]) {
    name[0] = '\0';
    if (k != IDX) {
        if (holds(folder, file)) snprintf(name, FILE_NAME, "%s", file);
        return;
    }
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (is_idx_name(entry->d_name, file) && (!name[0] || strcmp(entry->d_name, name) < 0))
            snprintf(name, FILE_NAME, "%s", entry->d_name);
    closedir(entries);
}

bool clq_dataset_reads(const char *name) {
    for (kind k = 0; k < KINDS; k++)
        for (int test = 0; test < 2; test++)
            for (size_t i = 0; i < FILES_MAX && files_of[k][test][i]; i++)
                if (k == IDX ? is_idx_name(name, files_of[k][test][i]) : strcmp(name, files_of[k][test][i]) == 0)
                    return true;
    /* samples for further inputs, and labels for further outputs */
    if (*name != 'x' && *name != 'y') return false;
    const size_t stem = strncmp(name + 1, "_train_", 7) == 0 ? 8 : strncmp(name + 1, "_test_", 6) == 0 ? 7 : 0;
    const size_t digits = stem ? strspn(name + stem, "0123456789") : 0;
    return digits > 0 && strcmp(name + stem + digits, ".npy") == 0;
}

static clq_status fail_missing(kind k, const char *folder, bool test, const char *file) {
    const char *const *files = files_of[k][test];
    if (k == IDX)
        return clq_fail(CLQ_ERROR_NOT_FOUND, "%s has no %s-idx*-ubyte or .gz: a pair of images and labels is needed",
                        folder, file);
    if (k == NPY)
        return clq_fail(CLQ_ERROR_NOT_FOUND, "%s has no %s: %s and %s are needed", folder, file, files[0], files[1]);
    return clq_fail(CLQ_ERROR_NOT_FOUND,
                    "%s has no %s: CIFAR-10 binary has data_batch_1.bin to data_batch_5.bin, and test_batch.bin",
                    folder, file);
}

/* ---- reading them ---- */

static clq_status read_files(kind k, const clq_data_origin *origin, const char *const *paths, size_t count,
                             clq_dataset **out) {
    clq_array samples = {0}, labels = {0};
    clq_status status;
    if (k == CIFAR10) {
        status = clq_cifar10_read(paths, count, &samples, &labels);
    } else {
        clq_status (*const read)(const char *, clq_array *) = k == IDX ? clq_idx_read : clq_npy_read;
        status = read(origin->samples, &samples);
        if (status == CLQ_OK) status = read(origin->labels, &labels);
    }
    if (status == CLQ_OK) return clq_dataset_adopt(origin, &samples, &labels, out);
    clq_array_release(&samples);
    return status;
}

static clq_status add_npy(const char *folder, const char *file, bool labels, clq_dataset *data) {
    char *path = clq_strprintf("%s/%s", folder, file);
    clq_array array = {0};
    clq_status status = path ? clq_npy_read(path, &array) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        status = labels ? clq_dataset_adopt_labels(data, path, &array) : clq_dataset_adopt_samples(data, path, &array);
    clq_free(path);
    return status;
}

/* Adds x_train_1.npy and so on for the inputs after the first, or y_train_1.npy and so on for the outputs after the
 * first. */
static clq_status add_more_npy(const char *folder, bool test, bool labels, clq_dataset *data) {
    const unsigned most = labels ? CLQ_MODEL_OUTPUTS_MAX : CLQ_MODEL_INPUTS_MAX;
    for (unsigned i = 1, next = 1; i <= most; i++) { /* looks for one file too many, to refuse it */
        char file[FILE_NAME];
        snprintf(file, sizeof file, "%c_%s_%u.npy", labels ? 'y' : 'x', part_name(test), i);
        if (!holds(folder, file)) continue;
        if (i > next)
            return clq_fail(CLQ_ERROR_NOT_FOUND, "%s has %s and no %c_%s_%u.npy: %s are numbered without gaps", folder,
                            file, labels ? 'y' : 'x', part_name(test), next, labels ? "outputs" : "inputs");
        if (!labels && i == most)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: a model has at most %u inputs, so %s is too much", folder, most,
                            file);
        CLQ_TRY(add_npy(folder, file, labels, data));
        next++;
    }
    return CLQ_OK;
}

/* Finds the paths of the part's files. paths (FILES_MAX): NULL at first; the caller frees them, also on failure. */
static clq_status find_paths(kind k, const char *folder, bool test, char **paths, size_t *count) {
    const char *const *files = files_of[k][test];
    for (*count = 0; *count < FILES_MAX && files[*count]; ++*count) {
        char file[FILE_NAME];
        find_file(k, folder, files[*count], file);
        if (file[0]) paths[*count] = clq_strprintf("%s/%s", folder, file);
        if (!paths[*count]) return file[0] ? CLQ_ERROR_MEMORY : fail_missing(k, folder, test, files[*count]);
    }
    return CLQ_OK;
}

static void free_paths(char **paths) {
    for (size_t i = 0; i < FILES_MAX; i++) clq_free(paths[i]);
}

static clq_status open_kind(kind k, const char *folder, bool test, clq_dataset **out) {
    char *name = clq_strprintf("%s (%s)", folder, part_name(test)), *paths[FILES_MAX] = {NULL};
    size_t count = 0;
    clq_dataset *data = NULL;
    clq_status status = name ? find_paths(k, folder, test, paths, &count) : CLQ_ERROR_MEMORY;
    const clq_data_origin origin = {
        .name = name, .samples = k == CIFAR10 ? folder : paths[0], .labels = k == CIFAR10 ? folder : paths[1]};
    if (status == CLQ_OK) status = read_files(k, &origin, (const char *const *)paths, count, &data);
    if (status == CLQ_OK && k == NPY) status = add_more_npy(folder, test, false, data);
    if (status == CLQ_OK && k == NPY) status = add_more_npy(folder, test, true, data);
    free_paths(paths);
    clq_free(name);
    if (status == CLQ_OK)
        *out = data;
    else
        clq_dataset_destroy(data);
    return status;
}

static clq_status open_part(kind k, const char *folder, const char *part, clq_dataset **out) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(check_folder(folder));
    return open_kind(k, folder, test, out);
}

clq_status clq_dataset_idx(const char *folder, const char *part, clq_dataset **out) {
    return open_part(IDX, folder, part, out);
}

clq_status clq_dataset_npy(const char *folder, const char *part, clq_dataset **out) {
    return open_part(NPY, folder, part, out);
}

clq_status clq_dataset_cifar10(const char *folder, const char *part, clq_dataset **out) {
    return open_part(CIFAR10, folder, part, out);
}

/* ---- by name ---- */

/* The folders into which packages install Fashion-MNIST. */
static const char *const fashion_mnist_folders[] = {
    "/usr/share/datasets/fashion-mnist",
    "/usr/local/share/datasets/fashion-mnist",
};

/* Finds the first of the folders that exists. */
static clq_status find_fashion_mnist(const char *const *folders, size_t count, const char **out) {
    for (size_t i = 0; i < count; i++)
        if (check_folder(folders[i]) == CLQ_OK) return *out = folders[i], CLQ_OK;
    return clq_fail(CLQ_ERROR_NOT_FOUND, FASHION_MNIST " is not installed: apt install dataset-fashion-mnist, "
                                                       "or give the folder of its four IDX files");
}

clq_status clq_source_fashion_mnist(const char *const *folders, size_t count, const char *part, clq_dataset **out) {
    const char *folder;
    CLQ_TRY(find_fashion_mnist(folders, count, &folder));
    CLQ_TRY(clq_dataset_idx(folder, part, out));
    snprintf((*out)->info.name, sizeof(*out)->info.name, FASHION_MNIST " (%s)", part);
    return CLQ_OK;
}

/* Finds which kind of files the folder has for the part. One file is enough to choose its kind, so that opening it
 * reports a missing partner. */
static clq_status find_kind(const char *folder, const char *part, kind *out, bool *is_test) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(check_folder(folder));
    *is_test = test;
    for (kind k = 0; k < KINDS; k++)
        for (size_t i = 0; i < FILES_MAX && files_of[k][test][i]; i++) {
            char file[FILE_NAME];
            find_file(k, folder, files_of[k][test][i], file);
            if (file[0]) return *out = k, CLQ_OK;
        }
    return clq_fail(CLQ_ERROR_NOT_FOUND, "%s has no %s set: expected %s-idx*-ubyte[.gz], %s or %s", folder, part,
                    files_of[IDX][test][0], files_of[NPY][test][0], files_of[CIFAR10][test][0]);
}

static clq_status open_folder(const char *folder, const char *part, clq_dataset **out) {
    kind k;
    bool test;
    CLQ_TRY(find_kind(folder, part, &k, &test));
    return open_kind(k, folder, test, out);
}

/* ---- looking at them ---- */

static clq_status look_at_labels(kind k, const char *path, clq_dataset_sight *out) {
    clq_array labels = {0};
    clq_dataset_sight sight = *out;
    CLQ_TRY(k == IDX ? clq_idx_read(path, &labels) : clq_npy_read(path, &labels));
    const clq_status status = clq_labels_look(&labels, &sight.classes);
    clq_array_release(&labels);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", path);
    *out = sight;
    return CLQ_OK;
}

static clq_status look_into_folder(const char *folder, const char *part, clq_dataset_sight *out) {
    kind k;
    bool test;
    size_t count;
    char *paths[FILES_MAX] = {NULL};
    clq_array samples = {0};
    CLQ_TRY(find_kind(folder, part, &k, &test));
    if (k == CIFAR10) return *out = (clq_dataset_sight){.rank = 3, .shape = {32, 32, 3}, .classes = 10}, CLQ_OK;
    clq_status status = find_paths(k, folder, test, paths, &count);
    if (status == CLQ_OK) status = k == IDX ? clq_idx_look(paths[0], &samples) : clq_npy_look(paths[0], &samples);
    if (status == CLQ_OK && (samples.rank == 0 || samples.rank > CLQ_SHAPE_MAX + 1))
        status = clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: samples are (n, ...) with 1 to %d dimensions in all", paths[0],
                          CLQ_SHAPE_MAX + 1);
    if (status == CLQ_OK) {
        clq_dataset_sight sight = {.rank = CLQ_MAX(samples.rank - 1, 1u), .shape = {1}}; /* (n) is (n, 1) */
        for (unsigned i = 1; i < samples.rank; i++) sight.shape[i - 1] = samples.dims[i];
        status = look_at_labels(k, paths[1], &sight);
        if (status == CLQ_OK) *out = sight;
    }
    free_paths(paths);
    return status;
}

/* The name is "synthetic", or "synthetic:" followed by a description of the samples. */
static bool is_synthetic(const char *name) {
    const char end = strncmp(name, SYNTHETIC, SYNTHETIC_LENGTH) == 0 ? name[SYNTHETIC_LENGTH] : '?';
    return end == '\0' || end == ':';
}

static bool is_fashion_mnist(const char *name) { return strcmp(name, FASHION_MNIST) == 0; }

bool clq_dataset_is_folder(const char *name) {
    return !is_fashion_mnist(name) && !is_synthetic(name) && !clq_dataset_is_text(name);
}

const char *clq_dataset_path(const char *name) {
    return clq_dataset_is_folder(name) ? name : clq_dataset_is_text(name) ? clq_dataset_text_file(name) : NULL;
}

/* The description of the samples after "synthetic:"; "" if there is none. */
static const char *description_of(const char *name) {
    return name[SYNTHETIC_LENGTH] ? name + SYNTHETIC_LENGTH + 1 : "";
}

clq_status clq_dataset_open(const char *name_or_folder, const char *part, clq_dataset **out) {
    const char *name = name_or_folder;
    if (is_fashion_mnist(name))
        return clq_source_fashion_mnist(fashion_mnist_folders, CLQ_COUNT_OF(fashion_mnist_folders), part, out);
    if (is_synthetic(name)) return clq_source_synthetic(description_of(name), part, out);
    if (clq_dataset_is_text(name)) return clq_source_of_text(clq_dataset_text_file(name), part, out);
    return open_folder(name, part, out);
}

clq_status clq_dataset_look(const char *name, const char *part, clq_dataset_sight *out) {
    if (is_synthetic(name)) return clq_source_synthetic_look(description_of(name), out);
    if (clq_dataset_is_text(name)) return clq_source_of_text_look(out);
    if (!is_fashion_mnist(name)) return look_into_folder(name, part, out);
    const char *folder;
    CLQ_TRY(find_fashion_mnist(fashion_mnist_folders, CLQ_COUNT_OF(fashion_mnist_folders), &folder));
    return look_into_folder(folder, part, out);
}
