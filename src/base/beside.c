/* Finds files that are built and installed with this code, such as libraries and programs that the code uses if they
 * exist. They lie in Clique's own folder, `clique`, within the folder of libraries. */
#define _GNU_SOURCE /* dladdr; NOLINT(bugprone-reserved-identifier) */
#include "base/base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef CLQ_LIBDIR
#define CLQ_LIBDIR "lib"
#endif
#ifndef CLQ_FULL_LIBDIR
#define CLQ_FULL_LIBDIR "/usr/local/lib"
#endif

enum { FOLDER_BYTES = 4096 };

/* Finds the folder, with a slash at its end, of the library or program that this code is linked into; "" if it is not
 * known. */
static void find_folder(char *out, size_t bytes) {
    Dl_info here;
    const bool known = dladdr((const void *)(uintptr_t)&find_folder, &here) != 0 && here.dli_fname;
    ssize_t length = known ? (ssize_t)snprintf(out, bytes, "%s", here.dli_fname) : 0;
    /* For code within a program, dladdr gives the name by which the program was called. The name may be relative to a
     * folder that is no longer the current one, or have no folder at all. */
    if (!known || here.dli_fname[0] != '/') length = readlink("/proc/self/exe", out, bytes - 1);
    out[length > 0 && (size_t)length < bytes ? length : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash) slash[1] = '\0';
}

bool clq_find_beside(const char *name, char path[CLQ_BESIDE_BYTES]) {
    /* The installed tree may have been moved. The last folder is for programs elsewhere that link Clique statically. */
    static const char *const folders[] = {"clique/", "../lib/clique/", "../" CLQ_LIBDIR "/clique/",
                                          CLQ_FULL_LIBDIR "/clique/"};
    char folder[FOLDER_BYTES];
    find_folder(folder, sizeof folder);
    for (size_t i = 0; i < CLQ_COUNT_OF(folders); i++) {
        const char *start = folders[i][0] == '/' ? "" : folder;
        if (start == folder && folder[0] != '/') continue;
        const int length = snprintf(path, CLQ_BESIDE_BYTES, "%s%s%s", start, folders[i], name);
        if (length < CLQ_BESIDE_BYTES && clq_file_exists(path)) return true;
    }
    return false;
}
