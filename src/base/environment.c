#include "base/base.h"

#include <stdlib.h>
#include <time.h>

double clq_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *clq_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Where the cache belongs, by CLIQUE_CACHE_DIR or the XDG base directory specification, which has
 * relative paths ignored. */
static clq_status choose_cache_dir(char **out) {
    const char *own = clq_environment("CLIQUE_CACHE_DIR");
    const char *xdg = clq_environment("XDG_CACHE_HOME");
    const char *home = clq_environment("HOME");
    if (own)
        *out = clq_strdup(own);
    else if (xdg && *xdg == '/')
        *out = clq_strprintf("%s/clique", xdg);
    else if (home)
        *out = clq_strprintf("%s/.cache/clique", home);
    else
        return clq_fail(CLQ_NOT_FOUND,
                        "no folder for caches: neither CLIQUE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    return *out ? CLQ_OK : CLQ_MEMORY;
}

clq_status clq_cache_dir(char **out) {
    char *folder = NULL;
    CLQ_TRY(choose_cache_dir(&folder));
    clq_status status = clq_make_folder(folder);
    if (status != CLQ_OK) {
        clq_free(folder);
        return clq_fail_within(status, "the folder for caches (CLIQUE_CACHE_DIR chooses another)");
    }
    *out = folder;
    return CLQ_OK;
}
