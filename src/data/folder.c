/* Folders of IDX pairs, of .npy pairs, and of CIFAR-10 binary files. */
#include "data/sources.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FILE_NAME = 256, PATH_BYTES = 4096 /* no system opens longer ones */ };

/* ---- parts ---- */

clq_status clq_part_parse(const char *part, bool *test) {
    bool is_test = strcmp(part, "test") == 0;
    if (!is_test && strcmp(part, "train") != 0)
        return clq_fail(CLQ_ARGUMENT, "part '%s' of a data set: expected train or test", part);
    *test = is_test;
    return CLQ_OK;
}

/* ---- folders ---- */

clq_status clq_folder_check(const char *folder) {
    DIR *entries = opendir(folder);
    if (entries) {
        closedir(entries);
        return CLQ_OK;
    }
    if (errno == ENOTDIR && clq_file_exists(folder))
        return clq_fail(CLQ_READ, "data set '%s' is a file: give the folder that it lies in", folder);
    return clq_fail(errno == ENOENT || errno == ENOTDIR ? CLQ_NOT_FOUND : CLQ_READ,
                    "no data set '%s': %s; give fashion-mnist, synthetic, or a folder of data files", folder,
                    strerror(errno));
}

static bool holds(const char *folder, const char *file) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path && clq_file_exists(path);
}

/* ---- pairs of files ---- */

typedef clq_status (*array_reader)(const char *path, clq_array *out);

/* The files of one part, by name within the folder. */
typedef struct pair {
    char samples[FILE_NAME], labels[FILE_NAME];
} pair;

static clq_status read_pair(array_reader read, const clq_data_origin *origin, clq_dataset **out) {
    clq_array samples = {0}, labels = {0};
    CLQ_TRY(read(origin->samples, &samples));
    clq_status status = read(origin->labels, &labels);
    if (status != CLQ_OK) {
        clq_array_release(&samples);
        return status;
    }
    return clq_dataset_adopt(origin, &samples, &labels, out);
}

static clq_status open_pair(const char *folder, const char *part, const pair *files, array_reader read,
                            clq_dataset **out) {
    char *name = clq_strprintf("%s (%s)", folder, part);
    char *samples = clq_strprintf("%s/%s", folder, files->samples);
    char *labels = clq_strprintf("%s/%s", folder, files->labels);
    clq_status status = CLQ_MEMORY;
    if (name && samples && labels)
        status = read_pair(read, &(clq_data_origin){.name = name, .samples = samples, .labels = labels}, out);
    clq_free(name);
    clq_free(samples);
    clq_free(labels);
    return status;
}

/* ---- IDX ---- */

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

/* The folder's first such file in the order of names, so plain before gz; "" where there is none. */
static void find_idx(const char *folder, bool test, const char *what, char name[FILE_NAME]) {
    char stem[32];
    snprintf(stem, sizeof stem, "%s-%s", test ? "t10k" : "train", what);
    name[0] = '\0';
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (is_idx_name(entry->d_name, stem) && (!name[0] || strcmp(entry->d_name, name) < 0))
            snprintf(name, FILE_NAME, "%s", entry->d_name);
    closedir(entries);
}

static pair find_idx_pair(const char *folder, bool test) {
    pair files;
    find_idx(folder, test, "images", files.samples);
    find_idx(folder, test, "labels", files.labels);
    return files;
}

bool clq_folder_has_idx(const char *folder, bool test) {
    pair files = find_idx_pair(folder, test);
    return files.samples[0] || files.labels[0];
}

clq_status clq_dataset_idx(const char *folder, const char *part, clq_dataset **out) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(clq_folder_check(folder));
    pair files = find_idx_pair(folder, test);
    const char *missing = !files.samples[0] ? "images" : !files.labels[0] ? "labels" : NULL;
    if (missing)
        return clq_fail(CLQ_NOT_FOUND, "%s has no %s-%s-idx*-ubyte or .gz: a pair of images and labels is needed",
                        folder, test ? "t10k" : "train", missing);
    return open_pair(folder, part, &files, clq_idx_read, out);
}

/* ---- NPY ---- */

static pair npy_pair(bool test) {
    pair files;
    snprintf(files.samples, sizeof files.samples, "x_%s.npy", test ? "test" : "train");
    snprintf(files.labels, sizeof files.labels, "y_%s.npy", test ? "test" : "train");
    return files;
}

bool clq_folder_has_npy(const char *folder, bool test) {
    pair files = npy_pair(test);
    return holds(folder, files.samples) || holds(folder, files.labels);
}

static clq_status read_labels(const char *path, clq_dataset *data) {
    clq_array labels = {0};
    CLQ_TRY(clq_npy_read(path, &labels));
    return clq_dataset_adopt_labels(data, path, &labels);
}

/* y_train_1.npy and so on, for the outputs behind the first. */
static clq_status add_npy_labels(const char *folder, bool test, clq_dataset *data) {
    const char *part = test ? "test" : "train";
    for (unsigned i = 1; i <= CLQ_MODEL_OUTPUTS_MAX; i++) { /* one more than there may be, to refuse it */
        char file[FILE_NAME];
        snprintf(file, sizeof file, "y_%s_%u.npy", part, i);
        if (!holds(folder, file)) continue;
        size_t next = clq_dataset_get_info(data)->labels_count;
        if (i > next)
            return clq_fail(CLQ_NOT_FOUND, "%s has %s and no y_%s_%zu.npy: outputs are numbered without gaps", folder,
                            file, part, next);
        char *path = clq_strprintf("%s/%s", folder, file);
        clq_status status = path ? read_labels(path, data) : CLQ_MEMORY;
        clq_free(path);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

clq_status clq_dataset_npy(const char *folder, const char *part, clq_dataset **out) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(clq_folder_check(folder));
    pair files = npy_pair(test);
    const char *missing = !holds(folder, files.samples)  ? files.samples
                          : !holds(folder, files.labels) ? files.labels
                                                         : NULL;
    if (missing)
        return clq_fail(CLQ_NOT_FOUND, "%s has no %s: %s and %s are needed", folder, missing, files.samples,
                        files.labels);
    clq_dataset *data;
    CLQ_TRY(open_pair(folder, part, &files, clq_npy_read, &data));
    clq_status status = add_npy_labels(folder, test, data);
    if (status == CLQ_OK)
        *out = data;
    else
        clq_dataset_destroy(data);
    return status;
}

/* ---- CIFAR-10 ---- */

enum { CIFAR_TRAIN_FILES = 5 };

static size_t cifar_files(bool test, char names[CIFAR_TRAIN_FILES][FILE_NAME]) {
    if (test) {
        snprintf(names[0], FILE_NAME, "test_batch.bin");
        return 1;
    }
    for (int i = 0; i < CIFAR_TRAIN_FILES; i++) snprintf(names[i], FILE_NAME, "data_batch_%d.bin", i + 1);
    return CIFAR_TRAIN_FILES;
}

bool clq_folder_has_cifar10(const char *folder, bool test) {
    char names[CIFAR_TRAIN_FILES][FILE_NAME];
    size_t count = cifar_files(test, names);
    for (size_t i = 0; i < count; i++)
        if (holds(folder, names[i])) return true;
    return false;
}

static clq_status read_cifar(const char *const *paths, size_t count, const clq_data_origin *origin, clq_dataset **out) {
    clq_array images = {0}, labels = {0};
    CLQ_TRY(clq_cifar10_read(paths, count, &images, &labels));
    return clq_dataset_adopt(origin, &images, &labels, out);
}

clq_status clq_dataset_cifar10(const char *folder, const char *part, clq_dataset **out) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(clq_folder_check(folder));
    char names[CIFAR_TRAIN_FILES][FILE_NAME];
    size_t count = cifar_files(test, names);
    for (size_t i = 0; i < count; i++)
        if (!holds(folder, names[i]))
            return clq_fail(CLQ_NOT_FOUND,
                            "%s has no %s: CIFAR-10 binary has data_batch_1.bin to data_batch_5.bin, "
                            "and test_batch.bin",
                            folder, names[i]);
    char *name = clq_strprintf("%s (%s)", folder, part), *paths[CIFAR_TRAIN_FILES] = {NULL};
    bool allocated = name;
    for (size_t i = 0; i < count; i++) {
        paths[i] = clq_strprintf("%s/%s", folder, names[i]);
        allocated = allocated && paths[i];
    }
    clq_status status = CLQ_MEMORY;
    if (allocated)
        status = read_cifar((const char *const *)paths, count,
                            &(clq_data_origin){.name = name, .samples = folder, .labels = folder}, out);
    for (size_t i = 0; i < count; i++) clq_free(paths[i]);
    clq_free(name);
    return status;
}
