#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static clq_status read_whole(int fd, const char *path, char *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(fd, data + done, CLQ_MIN(bytes - done, (size_t)1 << 30));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return clq_fail(CLQ_READ, "%s: cannot read at offset %zu: %s", path, done, strerror(errno));
        if (got == 0)
            return clq_fail(CLQ_READ, "%s: ends at offset %zu of %zu: it became shorter while it was read", path, done,
                            bytes);
        done += (size_t)got;
    }
    return CLQ_OK;
}

static clq_status read_open(int fd, const char *path, size_t max_bytes, void **out, size_t *bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0) return clq_fail(CLQ_READ, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return clq_fail(CLQ_READ, "%s: not a regular file", path);
    if ((uintmax_t)info.st_size > max_bytes || (uintmax_t)info.st_size >= SIZE_MAX - 64)
        return clq_fail(CLQ_FORMAT, "%s: %jd bytes; the most that is read here is %zu", path, (intmax_t)info.st_size,
                        max_bytes);
    size_t size = (size_t)info.st_size;
    char *data = clq_alloc_aligned(64, size + 1);
    if (!data) return clq_fail_within(CLQ_MEMORY, "%s", path);
    clq_status status = read_whole(fd, path, data, size);
    if (status != CLQ_OK) {
        clq_free(data);
        return status;
    }
    *out = data;
    *bytes = size;
    return CLQ_OK;
}

clq_status clq_file_read(const char *path, size_t max_bytes, void **out, size_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait for its writer */
    if (fd < 0)
        return clq_fail(errno == ENOENT || errno == ENOTDIR ? CLQ_NOT_FOUND : CLQ_READ, "%s: cannot open: %s", path,
                        strerror(errno));
    clq_status status = read_open(fd, path, max_bytes, out, bytes);
    close(fd);
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
    return clq_fail(CLQ_WRITE, "%s: cannot make the folder: %s", path, strerror(error));
}

clq_status clq_make_folder(const char *path) {
    char *part = clq_strdup(path);
    if (!part) return CLQ_MEMORY;
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
