/* The checkpoints in a folder: finding, removing and setting them aside. */
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 12 };
static const char skipped[] = "skipped-";

/* The step in "step-000000000120", a name that clq_checkpoint_folder makes. 0: the name is another, and not ours. */
static uint64_t step_of(const char *name) {
    char own[32];
    uint64_t step;
    if (strncmp(name, "step-", 5) != 0 || !clq_parse_u64(name + 5, 1, INT64_MAX, &step)) return 0;
    snprintf(own, sizeof own, "step-%0*" PRIu64, (int)DIGITS, step);
    return strcmp(name, own) == 0 ? step : 0;
}

bool clq_checkpoint_is_name(const char *name) {
    return strncmp(name, "step-", 5) == 0 || strncmp(name, skipped, sizeof skipped - 1) == 0;
}

char *clq_checkpoint_folder(const char *folder, uint64_t step) {
    return clq_strprintf("%s/step-%0*" PRIu64, folder, (int)DIGITS, step);
}

clq_status clq_checkpoint_look(const char *folder, uint64_t step, bool *whole) {
    char *path = clq_strprintf("%s/step-%0*" PRIu64 "/manifest.json", folder, (int)DIGITS, step);
    struct stat info;
    if (!path) return CLQ_ERROR_MEMORY;
    const int error = stat(path, &info) == 0 ? 0 : errno;
    clq_status status = CLQ_OK;
    if (error != 0 && error != ENOENT && error != ENOTDIR && error != ELOOP)
        status = clq_fail(CLQ_ERROR_READ, "%s: cannot look at it: %s", path, strerror(error));
    else
        *whole = error == 0 && S_ISREG(info.st_mode);
    clq_free(path);
    return status;
}

/* Removes the manifest first, so that a kill leaves no complete checkpoint. Removes only files that a checkpoint has,
 * and none behind a symbolic link, which somebody else has put there. Once the folder is open it allocates nothing, so
 * lack of memory does not end it between manifest and tensors. */
static void remove_folder(const char *folder) {
    const int handle = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = handle < 0 ? NULL : fdopendir(handle);
    if (handle >= 0 && !listing) close(handle);
    if (listing && (unlinkat(dirfd(listing), "manifest.json", 0) == 0 || errno == ENOENT)) {
        (void)unlinkat(dirfd(listing), "tensors.safetensors", 0);
        for (const struct dirent *entry; (entry = readdir(listing));)
            if (strncmp(entry->d_name, ".clique-", 8) == 0) (void)unlinkat(dirfd(listing), entry->d_name, 0);
    }
    if (listing) closedir(listing);
    (void)rmdir(folder);
}

void clq_checkpoint_remove(const char *folder, uint64_t step) {
    char *path = clq_checkpoint_folder(folder, step);
    if (path) remove_folder(path);
    clq_free(path);
}

static int newest_first(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

clq_status clq_checkpoint_list(const char *folder, uint64_t **out, size_t *count) {
    uint64_t *steps = NULL;
    size_t capacity = 0;
    *count = 0;
    DIR *listing = opendir(folder);
    if (!listing) return clq_fail(CLQ_ERROR_READ, "%s: cannot be listed: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(listing));) {
        const uint64_t step = step_of(entry->d_name);
        if (!step) continue;
        uint64_t *grown = clq_grow(steps, *count, &capacity, 16, sizeof *grown);
        if (!grown) {
            closedir(listing);
            clq_free(steps);
            return CLQ_ERROR_MEMORY;
        }
        steps = grown;
        steps[(*count)++] = step;
    }
    closedir(listing);
    if (*count > 0) qsort(steps, *count, sizeof *steps, newest_first);
    *out = steps;
    return CLQ_OK;
}

clq_status clq_checkpoints_newest(const char *folder, uint64_t *step) {
    struct stat info;
    uint64_t *steps;
    size_t count, i = 0;
    bool whole = false;
    *step = 0;
    if (stat(folder, &info) != 0 && errno == ENOENT) return CLQ_OK;
    CLQ_TRY(clq_checkpoint_list(folder, &steps, &count));
    clq_status status = CLQ_OK;
    for (; i < count && status == CLQ_OK && !whole; i++) status = clq_checkpoint_look(folder, steps[i], &whole);
    if (whole) *step = steps[i - 1];
    clq_free(steps);
    return status;
}

/* ---- set aside ---- */

/* Finds a name that no entry of the folder has, not even a symbolic link to nowhere. The caller frees *out. */
static clq_status find_free_name(const char *folder, uint64_t step, char **out) {
    enum { NAMES = 1000 };
    struct stat info;
    for (unsigned i = 0; i < NAMES; i++) {
        char *name = clq_strprintf("%s/%s%0*" PRIu64 "-%u", folder, skipped, (int)DIGITS, step, i);
        if (!name) return CLQ_ERROR_MEMORY;
        const int error = lstat(name, &info) == 0 ? EEXIST : errno;
        if (error == ENOENT) {
            *out = name;
            return CLQ_OK;
        }
        const clq_status status =
            error == EEXIST ? CLQ_OK : clq_fail(CLQ_ERROR_WRITE, "%s: cannot be looked at: %s", name, strerror(error));
        clq_free(name);
        CLQ_TRY(status);
    }
    return clq_fail(CLQ_ERROR_WRITE, "%s: there are %d folders %s%0*" PRIu64 "-… already: remove them", folder,
                    (int)NAMES, skipped, (int)DIGITS, step);
}

clq_status clq_checkpoint_set_aside(const char *folder, uint64_t step) {
    char *from = clq_checkpoint_folder(folder, step), *to = NULL;
    clq_status status = from ? find_free_name(folder, step, &to) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK && rename(from, to) != 0)
        status = clq_fail(CLQ_ERROR_WRITE, "%s: cannot be renamed: %s", from, strerror(errno));
    clq_free(from);
    clq_free(to);
    return status;
}

typedef struct aside {
    char name[64];
    time_t written;
} aside;

static int latest_first(const void *left, const void *right) {
    const aside *a = left, *b = right;
    if (a->written != b->written) return (a->written < b->written) - (a->written > b->written);
    return strcmp(b->name, a->name);
}

void clq_checkpoint_remove_aside(const char *folder, size_t keep) {
    aside *all = NULL, *grown;
    size_t count = 0, capacity = 0;
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        struct stat info;
        if (strncmp(entry->d_name, skipped, sizeof skipped - 1) != 0 || strlen(entry->d_name) >= sizeof all->name ||
            fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode))
            continue;
        if (!(grown = clq_grow(all, count, &capacity, 16, sizeof *all))) break;
        all = grown;
        all[count].written = info.st_mtime;
        memcpy(all[count++].name, entry->d_name, strlen(entry->d_name) + 1);
    }
    if (listing) closedir(listing);
    if (count > 0) qsort(all, count, sizeof *all, latest_first);
    for (size_t i = keep; i < count; i++) {
        char *path = clq_strprintf("%s/%s", folder, all[i].name);
        if (path) remove_folder(path);
        clq_free(path);
    }
    clq_free(all);
}
