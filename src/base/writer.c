#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct clq_file_writer {
    char *path;   /* what the caller named, for messages */
    char *target; /* where it will be: behind symbolic links, which stay */
    char *folder; /* of the target */
    char *temporary;
    int fd;
    clq_error error; /* of the first put that failed */
};

static void release(clq_file_writer *writer) {
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

/* A rename would replace a device or pipe by a file, and a folder cannot be replaced: only files
 * are. */
static clq_status find_target(clq_file_writer *writer) {
    struct stat info;
    char *resolved = NULL;
    if (stat(writer->path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return clq_fail(CLQ_WRITE, "%s: cannot write: exists and is not a regular file", writer->path);
        resolved = realpath(writer->path, NULL);
    }
    writer->target = clq_strdup(resolved ? resolved : writer->path);
    free(resolved);
    if (!writer->target) return CLQ_MEMORY;
    const char *slash = strrchr(writer->target, '/');
    if (!(slash ? slash[1] : writer->target[0]))
        return clq_fail(CLQ_WRITE, "\"%s\": cannot write: names no file", writer->path);
    if (!slash)
        writer->folder = clq_strdup(".");
    else if (slash == writer->target)
        writer->folder = clq_strdup("/");
    else
        writer->folder = clq_strprintf("%.*s", (int)(slash - writer->target), writer->target);
    return writer->folder ? CLQ_OK : CLQ_MEMORY;
}

/* The temporary file's name does not grow with the target's, which may be as long as names can be. */
static clq_status open_temporary(clq_file_writer *writer) {
    static atomic_uint number;
    for (int attempt = 0;; attempt++) {
        clq_free(writer->temporary);
        writer->temporary =
            clq_strprintf("%s/.clique-%ld-%u.tmp", writer->folder, (long)getpid(), atomic_fetch_add(&number, 1));
        if (!writer->temporary) return CLQ_MEMORY;
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0) return CLQ_OK;
        if (errno == EINTR) continue;
        if (errno != EEXIST || attempt == 100) /* left by a killed process with the same number */
            return clq_fail(CLQ_WRITE, "%s: cannot create a file in %s: %s", writer->path, writer->folder,
                            strerror(errno));
    }
}

clq_status clq_file_writer_open(const char *path, clq_file_writer **out) {
    clq_file_writer *writer = clq_alloc(1, sizeof(*writer));
    if (!writer) return CLQ_MEMORY;
    writer->fd = -1;
    clq_status status = CLQ_MEMORY;
    writer->path = clq_strdup(path);
    if (!writer->path) goto fail;
    CLQ_TRY_OR(fail, status, find_target(writer));
    CLQ_TRY_OR(fail, status, open_temporary(writer));
    *out = writer;
    return CLQ_OK;
fail:
    release(writer);
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
            clq_fail(CLQ_WRITE, "%s: cannot write: %s", writer->path, strerror(errno));
            clq_error_take(CLQ_WRITE, &writer->error);
            return CLQ_WRITE;
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

/* Without this a crash of the machine may undo the rename. Some file systems refuse to sync a
 * folder: EINVAL. */
static clq_status sync_folder(const clq_file_writer *writer) {
    int fd = open(writer->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES
                   ? CLQ_OK /* may be written but not listed */
                   : clq_fail(CLQ_WRITE, "%s: cannot open %s: %s", writer->path, writer->folder, strerror(errno));
    clq_status status = CLQ_OK;
    if (sync_file(fd) != 0 && errno != EINVAL)
        status = clq_fail(CLQ_WRITE, "%s: cannot sync %s: %s", writer->path, writer->folder, strerror(errno));
    close(fd);
    return status;
}

static clq_status commit(clq_file_writer *writer) {
    CLQ_TRY(clq_error_raise(&writer->error));
    if (sync_file(writer->fd) != 0) return clq_fail(CLQ_WRITE, "%s: cannot sync: %s", writer->path, strerror(errno));
    if (rename(writer->temporary, writer->target) != 0)
        return clq_fail(CLQ_WRITE, "%s: cannot put it in place: %s", writer->path, strerror(errno));
    int fd = writer->fd;
    writer->fd = -1; /* from here on there is nothing to take back */
    if (close(fd) != 0 && errno != EINTR)
        return clq_fail(CLQ_WRITE, "%s: cannot close: %s", writer->path, strerror(errno));
    return sync_folder(writer);
}

clq_status clq_file_writer_commit(clq_file_writer *writer) {
    clq_status status = commit(writer);
    release(writer);
    return status;
}

void clq_file_writer_cancel(clq_file_writer *writer) { release(writer); }
