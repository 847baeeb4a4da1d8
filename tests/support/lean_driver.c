/* What PoCL does with memory is dear under the address sanitizer; tests/run preloads this, and without it the same
 * tests are slower.
 *
 * A block that is asked for the size that it has already is copied, fresh pages and all. PoCL asks for that with 2 MiB
 * whenever it reads a file (pocl_read_file, from 1.8 to 6.0 at least), some for each program that is loaded.
 *
 * Each of its devices, and each thread of a pool, has 16 MiB for what kernels print. That is mapped here: the sanitizer
 * would mark all of it when it is allocated, and search it for pointers when the process ends: a fifth of the time of a
 * short process (`clique devices`). */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

enum { LARGE = 1 << 20, PRINTED = 16 << 20, MAPPED_MAX = 64 };

size_t __sanitizer_get_allocated_size(const volatile void *block) __attribute__((weak));

EXPORT void *realloc(void *block, size_t bytes) {
    static void *(*next)(void *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    const int has_it =
        block && bytes >= LARGE && __sanitizer_get_allocated_size && __sanitizer_get_allocated_size(block) == bytes;
    return has_it ? block : next(block, bytes);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *_Atomic mapped[MAPPED_MAX]; /* NULL: free */

static int is_pocl(const void *address) {
    Dl_info of;
    return dladdr(address, &of) && of.dli_fname && strstr(of.dli_fname, "/libpocl");
}

/* NULL: no place or no memory. */
static void *map(size_t bytes) {
    void *block = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAPPED_MAX && !block; i++) {
        if (mapped[i]) continue;
        block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) break;
        mapped[i] = block;
    }
    pthread_mutex_unlock(&lock);
    return block == MAP_FAILED ? NULL : block;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes) {
    static int (*next)(void **, size_t, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "posix_memalign");
    if (bytes == PRINTED && alignment <= 4096 && is_pocl(__builtin_return_address(0))) {
        void *block = map(bytes);
        if (block) {
            *out = block;
            return 0;
        }
    }
    return next(out, alignment, bytes);
}

EXPORT void free(void *block) {
    static void (*next)(void *);
    static int looking; /* in the process's only thread: its start frees */
    if (!next) {
        if (looking++) return; /* what dlsym frees */
        *(void **)&next = dlsym(RTLD_NEXT, "free");
    }
    /* Maps begin where pages do, and few other blocks. */
    for (size_t i = 0; block && (uintptr_t)block % 4096 == 0 && i < MAPPED_MAX; i++)
        if (mapped[i] == block) {
            mapped[i] = NULL;
            (void)munmap(block, PRINTED);
            return;
        }
    next(block);
}
