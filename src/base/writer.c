#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct clq_file_writer {
    char *path;         /* as the caller gave it, for messages */
    char *target;       /* where the file will be: `path` after its symbolic links, which stay */
    char *folder;       /* the target's folder */
    struct stat before; /* the target's, if replaces is true */
    bool replaces;      /* a file exists at the target */
    char *temporary;
    int fd;
    clq_error error; /* the first put that failed */
};

/* ---- the target -------------------------------------------------------------------------------------------------- */

/* The path that a symbolic link at `path` leads to; a relative link begins in its own folder. NULL: no memory. */
static char *path_behind(const char *path, const char *link) {
    const char *slash = strrchr(path, '/');
    if (link[0] == '/' || !slash) return clq_strdup(link);
    return clq_strprintf("%.*s%s", (int)(slash + 1 - path), path, link);
}

/* Follows symbolic links one by one. realpath does not serve here: it fails if the last link leads to a file that does
 * not exist yet. */
static clq_status follow_links(clq_file_writer *writer) {
    enum { LINKS_MAX = 40 }; /* Linux's limit */
    char link[PATH_MAX];
    ssize_t length;
    writer->target = clq_strdup(writer->path);
    for (int links = 0; writer->target && (length = readlink(writer->target, link, sizeof link - 1)) >= 0; links++) {
        if (links == LINKS_MAX) return clq_fail(CLQ_ERROR_WRITE, "%s: cannot write: %s", writer->path, strerror(ELOOP));
        link[length] = '\0';
        char *behind = path_behind(writer->target, link);
        clq_free(writer->target);
        writer->target = behind;
    }
    return writer->target ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Only regular files may be replaced: a rename would turn a device or pipe into a file, and cannot replace a folder. */
static clq_status check_target(clq_file_writer *writer) {
    struct stat named;
    if (stat(writer->path, &named) != 0) return CLQ_OK;
    if (!S_ISREG(named.st_mode))
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot write: exists and is not a regular file", writer->path);
    /* A link in /proc/self/fd may give a name that its file no longer has. */
    if (stat(writer->target, &writer->before) != 0 || writer->before.st_ino != named.st_ino ||
        writer->before.st_dev != named.st_dev)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot write: it is not at %s, where the link leads", writer->path,
                        writer->target);
    writer->replaces = true;
    return CLQ_OK;
}

static clq_status find_target(clq_file_writer *writer) {
    CLQ_TRY(follow_links(writer));
    CLQ_TRY(check_target(writer));
    const char *slash = strrchr(writer->target, '/');
    if (!(slash ? slash[1] : writer->target[0]))
        return clq_fail(CLQ_ERROR_WRITE, "'%s': cannot write: names no file", writer->path);
    if (!slash)
        writer->folder = clq_strdup(".");
    else if (slash == writer->target)
        writer->folder = clq_strdup("/");
    else
        writer->folder = clq_strprintf("%.*s", (int)(slash - writer->target), writer->target);
    return writer->folder ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Gives the new file the permissions of the file that it replaces, and its owner and group if this process may set
 * them. If the process may not set the group, the group's permissions become those of others: this process's own group
 * must not get the old group's rights. */
static clq_status keep_permissions(const clq_file_writer *writer) {
    const struct stat *before = &writer->before;
    mode_t mode = before->st_mode & 0777;
    struct stat now;
    if (fstat(writer->fd, &now) != 0)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot examine: %s", writer->path, strerror(errno));
    bool same = now.st_uid == before->st_uid && now.st_gid == before->st_gid;
    if (!same && fchown(writer->fd, before->st_uid, before->st_gid) != 0 &&
        fchown(writer->fd, (uid_t)-1, before->st_gid) != 0)
        mode = (mode & ~(mode_t)070) | (mode & 07) << 3;
    if ((now.st_mode & 0777) != mode && fchmod(writer->fd, mode) != 0)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot set its permissions: %s", writer->path, strerror(errno));
    return CLQ_OK;
}

/* ---- the temporary file ------------------------------------------------------------------------------------------ */

/* A writer locks its temporary file as long as it lives, and the kernel releases the lock when the process ends. So if
 * another process can lock a temporary file, its writer was killed. But a network file system may keep locks within one
 * machine. So a file that was written a short time ago may still belong to a writer on another machine, and is left
 * alone. */
enum { LEFT_FOR_S = 10 * 60 };

static bool is_temporary(const char *name) {
    long process;
    unsigned number;
    int end = 0;
    return sscanf(name, ".clique-%ld-%u.part%n", &process, &number, &end) == 2 && end > 0 && name[end] == '\0';
}

static void remove_if_left(int folder, const char *name) {
    int fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    struct stat opened, named;
    /* Between the open and the lock, another process may have removed the file, and a new writer may have taken its
     * name. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 && time(NULL) - opened.st_mtime >= LEFT_FOR_S &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino &&
        named.st_dev == opened.st_dev)
        unlinkat(folder, name, 0);
    close(fd);
}

/* Files that cannot be listed, locked or removed stay: they disturb nobody's work. */
static void remove_left_temporaries(const char *folder) {
    DIR *listing = opendir(folder);
    if (!listing) return;
    for (const struct dirent *entry; (entry = readdir(listing));)
        if (is_temporary(entry->d_name)) remove_if_left(dirfd(listing), entry->d_name);
    closedir(listing);
}

/* Locks a new temporary file. False if another process took the file for one that was left behind, and has removed it
 * or is about to. On a file system without locks, nobody removes files. */
static bool claim(int fd) {
    struct stat info;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &info) != 0 || info.st_nlink > 0;
}

/* The temporary name does not depend on the length of the target's name, which may be as long as the file system
 * allows. A file that replaces another is readable by its owner alone until it gets the old file's permissions. */
static clq_status open_temporary(clq_file_writer *writer) {
    static atomic_uint number;
    for (int attempt = 0;; attempt++) {
        clq_free(writer->temporary);
        writer->temporary =
            clq_strprintf("%s/.clique-%ld-%u.part", writer->folder, (long)getpid(), atomic_fetch_add(&number, 1));
        if (!writer->temporary) return CLQ_ERROR_MEMORY;
        int fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, writer->replaces ? 0600 : 0666);
        if (fd >= 0 && claim(fd)) {
            writer->fd = fd;
            return CLQ_OK;
        }
        if (fd >= 0)
            close(fd);
        else if (errno != EINTR && (errno != EEXIST || attempt == 100)) /* left by a killed process of this number */
            return clq_fail(CLQ_ERROR_WRITE, "%s: cannot create a file in %s: %s", writer->path, writer->folder,
                            strerror(errno));
    }
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

void clq_file_writer_cancel(clq_file_writer *writer) {
    if (!writer) return;
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temporary);
    }
    clq_free(writer->path);
    clq_free(writer->target);
    clq_free(writer->folder);
    clq_free(writer->temporary);
    clq_free(writer);
}

clq_status clq_file_writer_open(const char *path, clq_file_writer **out) {
    clq_file_writer *writer = clq_alloc(1, sizeof(*writer));
    if (!writer) return CLQ_ERROR_MEMORY;
    writer->fd = -1;
    clq_status status = CLQ_ERROR_MEMORY;
    writer->path = clq_strdup(path);
    if (!writer->path) goto fail;
    CLQ_TRY_OR(fail, status, find_target(writer));
    remove_left_temporaries(writer->folder);
    CLQ_TRY_OR(fail, status, open_temporary(writer));
    *out = writer;
    return CLQ_OK;
fail:
    clq_file_writer_cancel(writer);
    return status;
}

clq_status clq_file_writer_try(const char *option, const char *path) {
    clq_file_writer *writer;
    if (!path) return CLQ_OK;
    clq_status status = clq_file_writer_open(path, &writer);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", option);
    clq_file_writer_cancel(writer);
    return CLQ_OK;
}

clq_status clq_file_writer_put(clq_file_writer *writer, const void *data, size_t bytes) {
    if (writer->error.status != CLQ_OK) return clq_error_raise(&writer->error);
    const char *next = data;
    while (bytes > 0) {
        ssize_t put = write(writer->fd, next, CLQ_MIN(bytes, (size_t)1 << 30));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            clq_fail(CLQ_ERROR_WRITE, "%s: cannot write: %s", writer->path, strerror(errno));
            clq_error_take(CLQ_ERROR_WRITE, &writer->error);
            return CLQ_ERROR_WRITE;
        }
        next += put;
        bytes -= (size_t)put;
    }
    return CLQ_OK;
}

static int sync_file(int fd) {
    int result;
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Syncs the folder: otherwise a crash of the machine may undo the rename. Some file systems refuse to sync a folder,
 * with EINVAL. */
static clq_status sync_folder(const clq_file_writer *writer) {
    int fd = open(writer->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES
                   ? CLQ_OK /* the folder may be written but not read */
                   : clq_fail(CLQ_ERROR_WRITE, "%s: cannot open %s: %s", writer->path, writer->folder, strerror(errno));
    clq_status status = CLQ_OK;
    if (sync_file(fd) != 0 && errno != EINVAL)
        status = clq_fail(CLQ_ERROR_WRITE, "%s: cannot sync %s: %s", writer->path, writer->folder, strerror(errno));
    close(fd);
    return status;
}

static clq_status commit(clq_file_writer *writer) {
    CLQ_TRY(clq_error_raise(&writer->error));
    if (writer->replaces) CLQ_TRY(keep_permissions(writer));
    if (sync_file(writer->fd) != 0)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot sync: %s", writer->path, strerror(errno));
    if (rename(writer->temporary, writer->target) != 0)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot put it in place: %s", writer->path, strerror(errno));
    int fd = writer->fd;
    writer->fd = -1; /* from here on, the writer has no temporary file to remove */
    if (close(fd) != 0 && errno != EINTR)
        return clq_fail(CLQ_ERROR_WRITE, "%s: cannot close: %s", writer->path, strerror(errno));
    return sync_folder(writer);
}

clq_status clq_file_writer_commit(clq_file_writer *writer) {
    clq_status status = commit(writer);
    clq_file_writer_cancel(writer);
    return status;
}
