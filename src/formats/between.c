/* Temporary folders in TMPDIR, each for a file that this process and another process exchange. A process that is killed
 * leaves its folder behind. A later process that opens a folder removes it, once it is a minute old. A folder in use
 * has a lock, which ends with its process. */
#define _GNU_SOURCE /* flock; NOLINT(bugprone-reserved-identifier) */
#include "formats/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "clique-keras-";
enum { RANDOM = 6, YOUNG_S = 60 }; /* a younger folder may be about to be locked */

/* Removes the files in a folder: a program that was ended early leaves a part of a file there. */
static void empty(int folder) {
    const int copy = dup(folder);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) close(copy);
    for (const struct dirent *entry; entries && (entry = readdir(entries));)
        (void)unlinkat(dirfd(entries), entry->d_name, 0); /* fails for "." and "..", which is fine */
    if (entries) closedir(entries);
}

static bool has_form(const char *name) {
    return strncmp(name, prefix, sizeof prefix - 1) == 0 && strlen(name) == sizeof prefix - 1 + RANDOM;
}

/* Whether a folder was left behind: this user owns it, it is not young, and nobody has its lock. */
static bool is_left(int folder) {
    struct stat info;
    return fstat(folder, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           info.st_mtime + YOUNG_S < time(NULL) && flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static void clean(const char *place) {
    DIR *entries = opendir(place);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!has_form(entry->d_name)) continue;
        const int folder = openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0) continue;
        if (is_left(folder)) {
            empty(folder);
            (void)unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
        }
        close(folder);
    }
    if (entries) closedir(entries);
}

clq_status clq_between_open(clq_between *out) {
    const char *place = clq_environment("TMPDIR");
    if (!place) place = "/tmp";
    clean(place);
    out->folder = clq_strprintf("%s/%sXXXXXX", place, prefix);
    if (!out->folder) return CLQ_ERROR_MEMORY;
    if (!mkdtemp(out->folder)) {
        const clq_status status =
            clq_fail(CLQ_ERROR_WRITE, "%s: no folder for a file between (TMPDIR chooses another): %s", out->folder,
                     strerror(errno));
        clq_free(out->folder);
        out->folder = NULL;
        return status;
    }
    out->lock = open(out->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->lock >= 0) (void)flock(out->lock, LOCK_EX | LOCK_NB); /* if this fails, other processes' locks fail, too */
    out->file = clq_strprintf("%s/weights", out->folder);
    return out->file ? CLQ_OK : CLQ_ERROR_MEMORY;
}

void clq_between_close(clq_between *b) {
    if (b->lock >= 0) empty(b->lock);
    if (b->folder) (void)rmdir(b->folder);
    if (b->lock >= 0) close(b->lock);
    clq_free(b->file);
    clq_free(b->folder);
}
