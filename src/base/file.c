#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

clq_status clq_file_get(const clq_file *file, size_t offset, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got =
            pread(file->fd, (char *)to + done, CLQ_MIN(bytes - done, (size_t)1 << 30), (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return clq_fail(CLQ_ERROR_READ, "%s: cannot read at offset %zu: %s", file->path, offset + done,
                            strerror(errno));
        if (got == 0)
            return clq_fail(CLQ_ERROR_READ, "%s: ends at offset %zu of %zu: it became shorter while it was read",
                            file->path, offset + done, file->bytes);
        done += (size_t)got;
    }
    return CLQ_OK;
}

static clq_status measure(clq_file *file, size_t max_bytes) {
    struct stat info;
    if (fstat(file->fd, &info) != 0) return clq_fail(CLQ_ERROR_READ, "%s: %s", file->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return clq_fail(CLQ_ERROR_READ, "%s: not a regular file", file->path);
    if ((uintmax_t)info.st_size > max_bytes || (uintmax_t)info.st_size >= SIZE_MAX - 64)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %jd bytes; the most that is read here is %zu", file->path,
                        (intmax_t)info.st_size, max_bytes);
    file->bytes = (size_t)info.st_size;
    return CLQ_OK;
}

clq_status clq_file_open(const char *path, size_t max_bytes, clq_file *out) {
    clq_file file = {.path = path};
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait for its writer */
    if (file.fd < 0)
        return clq_fail(errno == ENOENT || errno == ENOTDIR ? CLQ_ERROR_NOT_FOUND : CLQ_ERROR_READ,
                        "%s: cannot open: %s", path, strerror(errno));
    clq_status status = measure(&file, max_bytes);
    if (status == CLQ_OK)
        *out = file;
    else
        clq_file_close(&file);
    return status;
}

void clq_file_close(clq_file *file) { close(file->fd); }

clq_status clq_file_get_all(const clq_file *file, void **out, size_t *bytes) {
    char *data = clq_alloc_aligned(64, file->bytes + 1);
    if (!data) return clq_fail_within(CLQ_ERROR_MEMORY, "%s", file->path);
    clq_status status = clq_file_get(file, 0, data, file->bytes);
    if (status != CLQ_OK) {
        clq_free(data);
        return status;
    }
    *out = data;
    *bytes = file->bytes;
    return CLQ_OK;
}

clq_status clq_file_read(const char *path, size_t max_bytes, void **out, size_t *bytes) {
    clq_file file;
    CLQ_TRY(clq_file_open(path, max_bytes, &file));
    clq_status status = clq_file_get_all(&file, out, bytes);
    clq_file_close(&file);
    return status;
}

bool clq_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static clq_status make_one_folder(const char *path) {
    if (mkdir(path, 0777) == 0) return CLQ_OK;
    int error = errno;
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return CLQ_OK;
        error = ENOTDIR;
    }
    return clq_fail(CLQ_ERROR_WRITE, "%s: cannot make the folder: %s", path, strerror(error));
}

clq_status clq_make_folder(const char *path) {
    char *part = clq_strdup(path);
    if (!part) return CLQ_ERROR_MEMORY;
    clq_status status = CLQ_OK;
    for (char *slash = *part ? strchr(part + 1, '/') : NULL; slash && status == CLQ_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = make_one_folder(part);
        *slash = '/';
    }
    if (status == CLQ_OK) status = make_one_folder(part);
    clq_free(part);
    return status;
}
