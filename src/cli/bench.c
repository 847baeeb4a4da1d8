/* clique bench NAME …: runs clique-bench, which is in the same folder. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

clq_status clq_command_bench(int argc, char **argv) {
    (void)argc;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return clq_fail(CLQ_ERROR_SYSTEM, "cannot find this program's own folder: %s", strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    static const char name[] = "clique-bench";
    if (!slash || (size_t)(slash - path) + sizeof name + 1 > sizeof path)
        return clq_fail(CLQ_ERROR_SYSTEM, "the path of this program is too long");
    memcpy(slash + 1, name, sizeof name);
    argv[0] = path;
    execv(path, argv);
    return clq_fail(CLQ_ERROR_NOT_FOUND, "cannot run %s: %s", path, strerror(errno));
}
