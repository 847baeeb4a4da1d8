/* Which engine a run has, and where its library is. */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT; NOLINT(bugprone-reserved-identifier) */
#include "world/inside.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#ifndef CLQ_LIBDIR
#define CLQ_LIBDIR "lib"
#endif

/* The MPI that the program itself is linked with: it has a communicator of it. NULL: none, or one without an engine. */
static const char *engine_of_program(void) {
    int (*version)(char *, int *);
    char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of those that there are */
    int length = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (!symbol) return NULL;
    memcpy(&version, &symbol, sizeof version); /* ISO C has no cast from an object's to a function's address */
    if (version(text, &length) != 0) return NULL;
    if (strncmp(text, "Open MPI", 8) == 0) return "openmpi";
    return strstr(text, "MPICH") ? "mpich" : NULL;
}

/* The folder of the library or program that this code is in, with its slash; "" if it is not known. */
static void find_folder(char *out, size_t bytes) {
    Dl_info here;
    const bool known = dladdr((const void *)(uintptr_t)&find_folder, &here) != 0 && here.dli_fname;
    ssize_t length = known ? (ssize_t)snprintf(out, bytes, "%s", here.dli_fname) : 0;
    /* Of a program its name as it was called: another folder by now, or none. */
    if (!known || here.dli_fname[0] != '/') length = readlink("/proc/self/exe", out, bytes - 1);
    out[length > 0 && (size_t)length < bytes ? length : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash) slash[1] = '\0';
}

enum { PATH_BYTES = 4096 + 256 };

/* Beside this code, where it was built or installed. False: there is none. */
static bool find_library(const char *name, char path[PATH_BYTES]) {
    static const char *const folders[] = {"", "../lib/", "../" CLQ_LIBDIR "/"};
    char folder[4096];
    find_folder(folder, sizeof folder);
    for (size_t i = 0; folder[0] == '/' && i < CLQ_COUNT_OF(folders); i++) {
        snprintf(path, PATH_BYTES, "%s%slibclique-%s.so", folder, folders[i], name);
        if (clq_file_exists(path)) return true;
    }
    return false;
}

bool clq_engine_exists(const char *name) {
    char path[PATH_BYTES];
    return find_library(name, path);
}

/* Beside this code; else where the system looks for libraries. */
static void *open_library(const char *name) {
    char path[PATH_BYTES];
    if (strchr(name, '/')) return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!find_library(name, path)) snprintf(path, sizeof path, "libclique-%s.so", name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The library stays: an MPI that has been used cannot be unloaded. */
static clq_status load(const char *name, const clq_engine **out) {
    void *library = open_library(name);
    if (!library)
        return clq_fail(CLQ_NOT_FOUND,
                        "the engine %s cannot be loaded (%s); build Clique with that MPI's development "
                        "package installed (libopenmpi-dev, libmpich-dev)",
                        name, dlerror());
    const clq_engine *engine = dlsym(library, CLQ_ENGINE_SYMBOL);
    if (!engine) return clq_fail(CLQ_FORMAT, "the engine %s: the library has no %s", name, CLQ_ENGINE_SYMBOL);
    if (engine->version != CLQ_ENGINE_VERSION)
        return clq_fail(CLQ_FORMAT, "the engine %s is of version %u, not %d: build it together with Clique", name,
                        engine->version, CLQ_ENGINE_VERSION);
    *out = engine;
    return CLQ_OK;
}

clq_status clq_engine_choose(const clq_world_config *config, const clq_launcher *launcher, const clq_engine **out) {
    const char *name = config->engine ? config->engine : clq_environment("CLIQUE_ENGINE");
    if (!name && config->communicator) {
        name = engine_of_program();
        if (!name)
            return clq_fail(CLQ_NOT_FOUND,
                            "the program's communicator is of an MPI that is not known: name its engine");
    }
    if (!name && launcher->size != 1) name = launcher->engine; /* one process needs none */
    *out = NULL;
    if (!name) return CLQ_OK;
    /* A path is taken as it is. */
    const bool is_other = (strcmp(name, "openmpi") == 0 || strcmp(name, "mpich") == 0) && launcher->is_of_engine &&
                          strcmp(name, launcher->engine) != 0;
    if (is_other && launcher->size > 1) return clq_launcher_refuse(launcher, name);
    const clq_status status = load(name, out);
    if (status == CLQ_OK || !launcher->name || launcher->size == 0) return status;
    return clq_fail_within(status, "%s started %u processes, and they cannot reach one another", launcher->name,
                           launcher->size);
}
