/* Checks that the files that a command reads and writes are different files, before the command opens any of them. */
#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What identifies a file: device and inode. For a file that does not exist yet: its folder's device and inode, and the
 * file's name. */
typedef struct place {
    bool known; /* it is a regular file, or may become one: otherwise nothing can be overwritten */
    bool exists;
    dev_t device; /* of the file, or of the folder of a new file */
    ino_t inode;
    char name[NAME_MAX + 1]; /* of a file that does not exist yet */
} place;

static place place_of_stat(const struct stat *info) {
    return (place){.known = S_ISREG(info->st_mode), .exists = true, .device = info->st_dev, .inode = info->st_ino};
}

/* folder: descriptor of the folder in which a relative path begins. */
static place place_of(int folder, const char *path) {
    enum { LINKS_MAX = 40 };
    char at[2 * PATH_MAX], link[PATH_MAX];
    struct stat info;
    place none = {.known = false};
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return none;
    if (fstatat(folder, at, &info, 0) == 0) return place_of_stat(&info);
    ssize_t length;
    for (int links = 0; (length = readlinkat(folder, at, link, sizeof link - 1)) >= 0; links++) {
        link[length] = '\0';
        char *slash = strrchr(at, '/');
        const size_t kept = slash && link[0] != '/' ? (size_t)(slash + 1 - at) : 0;
        if (links == LINKS_MAX || kept + (size_t)length >= sizeof at) return none;
        memcpy(at + kept, link, (size_t)length + 1);
    }
    char *slash = strrchr(at, '/');
    const char *name = slash ? slash + 1 : at;
    place new = {.known = true};
    if (!*name || snprintf(new.name, sizeof new.name, "%s", name) >= (int)sizeof new.name) return none;
    if (slash) slash[slash == at] = '\0';
    if (fstatat(folder, slash ? at : ".", &info, 0) != 0) return none;
    new.device = info.st_dev;
    new.inode = info.st_ino;
    return new;
}

static bool is_same(const place *a, const place *b) {
    return a->known && b->known && a->exists == b->exists && a->device == b->device && a->inode == b->inode &&
           (a->exists || strcmp(a->name, b->name) == 0);
}

static place place_of_file(const clq_named_file *file) {
    struct stat info;
    if (file->path) return place_of(AT_FDCWD, file->path);
    return fstat(file->stream, &info) == 0 ? place_of_stat(&info) : (place){.known = false};
}

static clq_status refuse(const clq_named_file *output, const clq_named_file *other, const char *within) {
    const char *path = output->path ? output->path : other->path;
    if (other->writes)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s and %s write to the same file, %s: give each a file of its own",
                        other->option, output->option, path ? path : "their stream's");
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s%s%s would overwrite what %s reads, %s%s%s: write to another file",
                    output->option, output->path ? " " : "", output->path ? output->path : "", other->option,
                    other->path, within ? "/" : "", within ? within : "");
}

/* Whether a file does not exist yet and would be in the folder that is open. */
static bool would_be_in(const place *of, int folder) {
    struct stat info;
    return !of->exists && fstat(folder, &info) == 0 && info.st_dev == of->device && info.st_ino == of->inode;
}

/* Whether the file is, or would be, in the folder `name` within the folder that is open. The file's own name does not
 * matter. */
static bool is_within(const place *of, int folder, const char *name) {
    const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool within = would_be_in(of, fd);
    DIR *listing = fdopendir(fd);
    if (!listing) close(fd);
    for (const struct dirent *entry; listing && !within && (entry = readdir(listing));) {
        const place inner = place_of(dirfd(listing), entry->d_name);
        within = is_same(of, &inner);
    }
    if (listing) closedir(listing);
    return within;
}

/* Refuses an output that is, or would be, among the files that are read from a folder. A file that does not exist yet
 * is judged by its name. */
static clq_status check_folder(const clq_named_file *output, const place *of, const clq_named_file *folder) {
    const int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return CLQ_OK; /* the reader reports this failure */
    clq_status status = CLQ_OK;
    if (would_be_in(of, fd) && folder->holds(of->name)) status = refuse(output, folder, of->name);
    DIR *listing = fdopendir(fd);
    if (!listing) close(fd);
    for (const struct dirent *entry; listing && status == CLQ_OK && (entry = readdir(listing));) {
        if (!folder->holds(entry->d_name)) continue;
        const place inner = place_of(dirfd(listing), entry->d_name);
        if (is_same(of, &inner) || is_within(of, dirfd(listing), entry->d_name))
            status = refuse(output, folder, entry->d_name);
    }
    if (listing) closedir(listing);
    return status;
}

clq_status clq_files_check(const clq_named_file *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const place of = files[i].writes ? place_of_file(&files[i]) : (place){.known = false};
        for (size_t k = 0; k < count && of.known; k++) {
            const clq_named_file *other = &files[k];
            if (k == i || (other->writes && k > i) || (!files[i].path && !other->path)) continue;
            if (other->holds) CLQ_TRY(check_folder(&files[i], &of, other));
            if (other->holds) continue;
            const place its = place_of_file(other);
            if (is_same(&of, &its) && (its.exists || other->writes)) /* nobody can read a file that does not exist */
                return refuse(&files[i], other, NULL);
        }
    }
    return CLQ_OK;
}
