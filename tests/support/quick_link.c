/* Makes PoCL link and write each kernel faster. tests/run preloads this.
 *
 * PoCL makes a shared object of each kernel with the command that links a user's C program: the linker reads the
 * symbols of the C library and of the mathematical library, which takes six times as long as the kernel itself. In a
 * shared object, a symbol that the linker does not find stays open, and the loader looks for it when it loads the
 * object. So instead of both libraries, the linker gets clq_no_symbols.so, which lies beside this library. It has no
 * symbols, and it has the name of the mathematical library, so the kernel's object still loads that library. The
 * compiler's static library stays, because its functions become part of the object. The object's code is the same, but
 * the functions that it calls have no versions: of expf, for example, it gets the oldest version, which computes the
 * same.
 *
 * The linker's process does not load the libraries that tests/run preloads.
 *
 * All other commands run unchanged, and so does the link command of a PoCL that links in another way.
 *
 * PoCL waits until each file of its cache is on the disk. Here it does not wait. If the machine loses power during a
 * test, remove PoCL's cache (rm -r ~/.cache/pocl). */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#include <dlfcn.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { ARGUMENTS_MOST = 64, VARIABLES_MOST = 512, PATH_BYTES = 4096 };

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), last = strlen(end);
    return length >= last && strcmp(text + length - last, end) == 0;
}

/* PoCL's temporary objects are called tempfile_XXXXXX.so.o. */
static bool links_kernel(const char *path, char *const arguments[]) {
    bool is_shared = false, has_kernel = false;
    for (size_t i = 0; arguments[i]; i++) {
        is_shared |= strcmp(arguments[i], "-shared") == 0;
        has_kernel |= strstr(arguments[i], "/tempfile_") && ends_with(arguments[i], ".so.o");
    }
    return (ends_with(path, "/ld") || ends_with(path, "-ld")) && is_shared && has_kernel;
}

static bool is_one_of(const char *argument, const char *const words[]) {
    while (*words && strcmp(argument, *words) != 0) words++;
    return *words;
}

/* Makes the same command with fewer libraries. Returns false if the command has too many arguments, or if this
 * library's path is unknown. */
static bool shorten(char *const arguments[], char *library, char *shorter[ARGUMENTS_MOST]) {
    static const char *const dropped[] = {"-lc", "-lgcc_s", "--as-needed", "--no-as-needed", NULL};
    size_t count = 0, i = 0;
    Dl_info own;
    if (!dladdr(__extension__(void *) & shorten, &own) || !own.dli_fname) return false;
    const char *name = strrchr(own.dli_fname, '/');
    const int length = snprintf(library, PATH_BYTES, "%.*s/clq_no_symbols.so", name ? (int)(name - own.dli_fname) : 1,
                                name ? own.dli_fname : ".");
    for (; arguments[i] && count + 1 < ARGUMENTS_MOST; i++)
        if (!is_one_of(arguments[i], dropped))
            shorter[count++] = strcmp(arguments[i], "-lm") == 0 ? library : arguments[i];
    shorter[count] = NULL;
    return !arguments[i] && length < PATH_BYTES;
}

/* The environment without preloaded libraries. Returns false if it has too many variables. */
static bool leave_out_preloads(char *const environment[], char *fewer[VARIABLES_MOST]) {
    static const char name[] = "LD_PRELOAD=";
    size_t count = 0, i = 0;
    for (; environment[i] && count + 1 < VARIABLES_MOST; i++)
        if (strncmp(environment[i], name, sizeof name - 1) != 0) fewer[count++] = environment[i];
    fewer[count] = NULL;
    return !environment[i];
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    char library[PATH_BYTES], *shorter[ARGUMENTS_MOST], *fewer[VARIABLES_MOST];
    const bool links = links_kernel(path, arguments), is_shorter = links && shorten(arguments, library, shorter);
    const bool is_free = links && environment && leave_out_preloads(environment, fewer);
    return REAL(posix_spawn)(pid, path, actions, attributes, is_shorter ? shorter : arguments,
                             is_free ? fewer : environment);
}

EXPORT int fdatasync(int file) {
    Dl_info of;
    const bool is_pocl = dladdr(__builtin_return_address(0), &of) && of.dli_fname && strstr(of.dli_fname, "/libpocl");
    return is_pocl ? 0 : REAL(fdatasync)(file);
}
