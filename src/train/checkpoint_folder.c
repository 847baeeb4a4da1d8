/* A folder of checkpoints: which are there, and what is removed from it. */
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

/* The step of a checkpoint's folder; 0: it is none. */
static uint64_t step_of(const char *name) {
    uint64_t step;
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 5 + DIGITS || name[5 + strspn(name + 5, "0123456789")])
        return 0;
    return clq_parse_u64(name + 5, 1, INT64_MAX, &step) ? step : 0;
}

char *clq_checkpoint_folder(const char *folder, uint64_t step) {
    return clq_strprintf("%s/step-%0*" PRIu64, folder, (int)DIGITS, step);
}

bool clq_checkpoint_is_whole(const char *folder, uint64_t step) {
    char *path = clq_strprintf("%s/step-%0*" PRIu64 "/manifest.json", folder, (int)DIGITS, step);
    const bool exists = path && clq_file_exists(path);
    clq_free(path);
    return exists;
}

/* The manifest first: what a kill leaves is no checkpoint. Only files that a checkpoint has are removed. Frees the
 * name. */
static void remove_folder(char *folder) {
    static const char *const files[] = {"manifest.json", "tensors.safetensors"};
    for (size_t i = 0; folder && i < CLQ_COUNT_OF(files); i++) {
        char *path = clq_strprintf("%s/%s", folder, files[i]);
        if (path) (void)unlink(path);
        clq_free(path);
    }
    DIR *listing = folder ? opendir(folder) : NULL;
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        if (strncmp(entry->d_name, ".clique-", 8) == 0) (void)unlinkat(dirfd(listing), entry->d_name, 0);
    if (listing) closedir(listing);
    if (folder) (void)rmdir(folder);
    clq_free(folder);
}

void clq_checkpoint_remove(const char *folder, uint64_t step) { remove_folder(clq_checkpoint_folder(folder, step)); }

static int newest_first(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

clq_status clq_checkpoint_list(const char *folder, uint64_t **out, size_t *count) {
    uint64_t *steps = NULL;
    size_t capacity = 0;
    *count = 0;
    DIR *listing = opendir(folder);
    if (!listing) return clq_fail(CLQ_READ, "%s: cannot be listed: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(listing));) {
        const uint64_t step = step_of(entry->d_name);
        if (!step) continue;
        uint64_t *grown = clq_grow(steps, *count, &capacity, 16, sizeof *grown);
        if (!grown) {
            closedir(listing);
            clq_free(steps);
            return CLQ_MEMORY;
        }
        steps = grown;
        steps[(*count)++] = step;
    }
    closedir(listing);
    if (*count > 0) qsort(steps, *count, sizeof *steps, newest_first);
    *out = steps;
    return CLQ_OK;
}

/* ---- set aside ---- */

clq_status clq_checkpoint_set_aside(const char *folder, uint64_t step) {
    char *from = clq_checkpoint_folder(folder, step);
    clq_status status = from ? CLQ_FORMAT : CLQ_MEMORY;
    for (unsigned i = 0; i < 1000 && status == CLQ_FORMAT; i++) {
        char *to = clq_strprintf("%s/%s%0*" PRIu64 "-%u", folder, skipped, (int)DIGITS, step, i);
        if (!to) status = CLQ_MEMORY;
        if (to && access(to, F_OK) != 0)
            status = rename(from, to) == 0 ? CLQ_OK
                                           : clq_fail(CLQ_WRITE, "%s: cannot be renamed: %s", from, strerror(errno));
        clq_free(to);
    }
    clq_free(from);
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
    for (size_t i = keep; i < count; i++) remove_folder(clq_strprintf("%s/%s", folder, all[i].name));
    clq_free(all);
}
