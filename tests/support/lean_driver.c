/* Under the address sanitizer a block that is asked for the size that it has already is copied, fresh pages and all.
 * PoCL asks for that with 2 MiB whenever it reads a file (pocl_read_file, from 1.8 to 6.0 at least), some for each
 * program that is loaded: a third of what tests took. tests/run preloads this; without it the same tests are slower. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>

enum { LARGE = 1 << 20 };

size_t __sanitizer_get_allocated_size(const volatile void *block) __attribute__((weak));

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes) {
    static void *(*next)(void *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    const int has_it =
        block && bytes >= LARGE && __sanitizer_get_allocated_size && __sanitizer_get_allocated_size(block) == bytes;
    return has_it ? block : next(block, bytes);
}
