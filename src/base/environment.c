#include "base/base.h"

#include <stdlib.h>
#include <string.h>
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

static bool starts_so(const char *variable, const char *const *starts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(variable, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

const char *clq_environment_next(const char *const *starts, size_t count, size_t *at) {
    extern char **environ;
    while (environ[*at] && !starts_so(environ[*at], starts, count)) ++*at;
    return environ[*at] ? environ[(*at)++] : NULL;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

bool clq_environment_describe(const char *const *starts, size_t count, clq_text *text) {
    size_t all = 0, kept = 0;
    for (size_t at = 0; clq_environment_next(starts, count, &at);) all++;
    const char **variables = clq_alloc(all, sizeof *variables);
    if (!variables) return false;
    for (size_t at = 0; kept < all; kept++) variables[kept] = clq_environment_next(starts, count, &at);
    if (kept > 1) qsort(variables, kept, sizeof *variables, by_name);
    for (size_t i = 0; i < kept; i++) clq_text_add(text, "%s\n", variables[i]);
    clq_free(variables);
    return !text->failed;
}

bool clq_environment_set(const char *name, const char *value) { return setenv(name, value, 1) == 0; }

/* Chooses the cache's folder by CLIQUE_CACHE_DIR or by the XDG base directory specification, which says to ignore
 * relative paths. */
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
        return clq_fail(CLQ_ERROR_NOT_FOUND,
                        "no folder for caches: neither CLIQUE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    return *out ? CLQ_OK : CLQ_ERROR_MEMORY;
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
