/* Chooses a run's engine, and finds and loads its library. */
#define _GNU_SOURCE /* RTLD_DEFAULT; NOLINT(bugprone-reserved-identifier) */
#include "world/inside.h"

#include <dlfcn.h>
#include <string.h>

/* The engine of the MPI that the program itself is linked with, to which its communicator belongs. NULL: there is no
 * MPI, or it has no engine. */
static const char *engine_of_program(void) {
    int (*version)(char *, int *);
    char text[8192] = ""; /* the largest MPI_MAX_LIBRARY_VERSION_STRING that there is */
    int length = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (!symbol) return NULL;
    memcpy(&version, &symbol, sizeof version); /* ISO C has no cast from an object's to a function's address */
    if (version(text, &length) != 0) return NULL;
    if (strncmp(text, "Open MPI", 8) == 0) return "openmpi";
    return strstr(text, "MPICH") ? "mpich" : NULL;
}

/* path: the library of an engine that was built or installed with this code. False: there is none. */
static bool find_library(const char *name, char path[CLQ_BESIDE_BYTES]) {
    char file[256];
    snprintf(file, sizeof file, "libclique-%s.so", name);
    return clq_find_beside(file, path);
}

bool clq_engine_exists(const char *name) {
    char path[CLQ_BESIDE_BYTES];
    return find_library(name, path);
}

/* Opens the library beside this code, otherwise where the system looks for libraries. A name with a slash is a path. */
static void *open_library(const char *name) {
    char path[CLQ_BESIDE_BYTES];
    if (strchr(name, '/')) return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!find_library(name, path)) snprintf(path, sizeof path, "libclique-%s.so", name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The library stays open: an MPI that has been used cannot be unloaded. */
static clq_status load(const char *name, const clq_engine **out) {
    void *library = open_library(name);
    if (!library)
        return clq_fail(CLQ_ERROR_NOT_FOUND,
                        "the engine %s cannot be loaded (%s); build Clique with that MPI's development "
                        "package installed (libopenmpi-dev, libmpich-dev)",
                        name, dlerror());
    const clq_engine *engine = dlsym(library, CLQ_ENGINE_SYMBOL);
    if (!engine) return clq_fail(CLQ_ERROR_FORMAT, "the engine %s: the library has no %s", name, CLQ_ENGINE_SYMBOL);
    if (engine->version != CLQ_ENGINE_VERSION)
        return clq_fail(CLQ_ERROR_FORMAT, "the engine %s is of version %u, not %d: build it together with Clique", name,
                        engine->version, CLQ_ENGINE_VERSION);
    *out = engine;
    return CLQ_OK;
}

clq_status clq_engine_choose(const clq_world_config *config, const clq_launcher *launcher, const clq_engine **out) {
    const char *name = config->engine ? config->engine : clq_environment("CLIQUE_ENGINE");
    if (!name && config->communicator) {
        name = engine_of_program();
        if (!name)
            return clq_fail(CLQ_ERROR_NOT_FOUND,
                            "the program's communicator is of an MPI that is not known: name its engine");
    }
    if (!name && launcher->size != 1) name = launcher->engine; /* one process needs no engine */
    *out = NULL;
    if (!name) return CLQ_OK;
    /* An engine that is given by its path is not checked. */
    const bool is_other = (strcmp(name, "openmpi") == 0 || strcmp(name, "mpich") == 0) && launcher->is_of_engine &&
                          strcmp(name, launcher->engine) != 0;
    if (is_other && launcher->size > 1) return clq_launcher_refuse(launcher, name);
    const clq_status status = load(name, out);
    if (status == CLQ_OK || !launcher->name || launcher->size == 0) return status;
    return clq_fail_within(status, "%s started %u processes, and they cannot reach one another", launcher->name,
                           launcher->size);
}
