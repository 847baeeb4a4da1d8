/* Makes cheaper what drivers do with memory, which is expensive under the address sanitizer. tests/run preloads this;
 * without it the same tests are slower.
 *
 * The sanitizer's realloc copies a block even if the new size is the old one, and takes fresh pages. PoCL calls it in
 * this way with 2 MiB whenever it reads a file (pocl_read_file, from 1.8 to 6.0 at least), several times per program
 * that it loads.
 *
 * Each of PoCL's devices, and each thread of a pool, has 16 MiB for what kernels print. These are mapped here. The
 * sanitizer would mark all of them when they are allocated, and search them for pointers when the process ends: a fifth
 * of the time of a short process (`clique devices`).
 *
 * A compiler makes thousands of small objects for each program that it loads, and the sanitizer would note each with
 * its stack. LLVM and Intel's compilers are built without the sanitizer, and their leaks are suppressed (lsan.supp), so
 * they get their blocks from the C library instead. All other blocks still come from the sanitizer: those of the
 * library, the tests and PoCL itself, and all aligned blocks, among them drivers' buffers. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dl_iterate_phdr; NOLINT(bugprone-reserved-identifier) */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER ((uintptr_t)__builtin_return_address(0))

size_t __sanitizer_get_allocated_size(const volatile void *block) __attribute__((weak));
void __lsan_register_root_region(const void *region, size_t bytes) __attribute__((weak));

/* The C library's own functions, below the sanitizer's. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

/* ---- the sanitizer's functions ---- */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    size_t (*malloc_usable_size)(void *);
    void *(*new_one)(size_t);
    void *(*new_array)(size_t);
    void (*delete_one)(void *);
    void (*delete_array)(void *);
    void (*delete_one_of)(void *, size_t);
    void (*delete_array_of)(void *, size_t);
} next;

static _Atomic bool ready; /* all of `next` is set */

/* Memory for what is allocated while the functions above are looked up, in the process's only thread. It is never given
 * back. */
static _Alignas(16) char early[1 << 16];
static size_t early_bytes;

static void *take_early(size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if (bytes > sizeof early - early_bytes) abort();
    early_bytes += bytes;
    return early + early_bytes - bytes;
}
static bool is_early(const void *block) { return (uintptr_t)block - (uintptr_t)early < sizeof early; }

/* Moves an early block to a new place. Its size is no longer known, so what lies behind the block is copied along. */
static void *move_early(void *block, size_t bytes) {
    const size_t behind = (size_t)(early + early_bytes - (char *)block);
    return memcpy(take_early(bytes), block, behind < bytes ? behind : bytes);
}

static void free_of(void *block, size_t bytes) {
    (void)bytes;
    next.free(block);
}

static void look_up(void) {
    static bool looking;
    if (looking) return;
    looking = true;
    *(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next.free = dlsym(RTLD_NEXT, "free");
    *(void **)&next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    *(void **)&next.malloc_usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
    *(void **)&next.new_one = dlsym(RTLD_NEXT, "_Znwm");
    *(void **)&next.new_array = dlsym(RTLD_NEXT, "_Znam");
    *(void **)&next.delete_one = dlsym(RTLD_NEXT, "_ZdlPv");
    *(void **)&next.delete_array = dlsym(RTLD_NEXT, "_ZdaPv");
    *(void **)&next.delete_one_of = dlsym(RTLD_NEXT, "_ZdlPvm");
    *(void **)&next.delete_array_of = dlsym(RTLD_NEXT, "_ZdaPvm");
    if (!next.new_one) { /* a program without a C++ library at its start has one allocator for all */
        next.new_one = next.new_array = next.malloc;
        next.delete_one = next.delete_array = next.free;
        next.delete_one_of = next.delete_array_of = free_of;
    }
    atomic_store(&ready, true);
}

static inline bool is_ready(void) {
    if (atomic_load_explicit(&ready, memory_order_acquire)) return true;
    look_up();
    return atomic_load(&ready);
}

/* ---- compilers' blocks ---- */

/* The C library takes its blocks from one heap, which grows upwards from here. 0: no compiler has asked for a block
 * yet, or the C library cannot be held to this one heap. */
static const size_t heap_most = (size_t)16 << 30;
static _Atomic uintptr_t heap;
static size_t (*usable_size_of_libc)(void *);

static void begin_heap(void) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    int (*option)(int, int) = NULL;
    if (!libc || !__sanitizer_get_allocated_size) return;
    *(void **)&option = dlsym(libc, "mallopt");
    *(void **)&usable_size_of_libc = dlsym(libc, "malloc_usable_size");
    if (!option || !usable_size_of_libc || !option(M_ARENA_MAX, 1) || !option(M_MMAP_MAX, 0) ||
        !option(M_TRIM_THRESHOLD, 1 << 30) || !option(M_TOP_PAD, 16 << 20))
        return;
    void *first = __libc_malloc(1); /* the heap may have begun */
    const uintptr_t from = first && first < sbrk(0) ? (uintptr_t)first : (uintptr_t)sbrk(0);
    __libc_free(first);
    /* Some of what others allocate for a compiler is known to the compiler alone. What blocks in this heap point at,
     * even freed blocks, is therefore no leak. */
    if (__lsan_register_root_region) __lsan_register_root_region((const void *)from, heap_most);
    atomic_store(&heap, from);
}

static bool is_ours(const void *block) {
    const uintptr_t from = atomic_load_explicit(&heap, memory_order_relaxed);
    return from && (uintptr_t)block - from < heap_most;
}

typedef struct place {
    uintptr_t address;
    bool is_compiler;
} place;

static int look_at(struct dl_phdr_info *object, size_t bytes, void *context) {
    (void)bytes;
    place *of = context;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || of->address - (object->dlpi_addr + part->p_vaddr) >= part->p_memsz) continue;
        of->is_compiler = strstr(object->dlpi_name, "/libLLVM") || strstr(object->dlpi_name, "/libintelocl") ||
                          strstr(object->dlpi_name, "/libcommon_clang");
        return 1;
    }
    return 0;
}

/* Remembers the answer for each page of code: (page << 1 | is a compiler's). Tests unload no driver. If a page belonged
 * to another library by now, that library's blocks would only come from another allocator. */
static bool is_compiler(uintptr_t caller) {
    enum { PAGES = 1 << 14 };
    static _Atomic uintptr_t known[PAGES];
    const uintptr_t page = caller >> 12;
    _Atomic uintptr_t *at = &known[page % PAGES];
    const uintptr_t found = atomic_load_explicit(at, memory_order_relaxed);
    if (found >> 1 == page) return found & 1;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    place of = {.address = caller};
    (void)dl_iterate_phdr(look_at, &of);
    if (of.is_compiler) (void)pthread_once(&once, begin_heap);
    atomic_store_explicit(at, page << 1 | of.is_compiler, memory_order_relaxed);
    return of.is_compiler;
}

/* NULL: take the sanitizer's block. This is also the case if the C library gives a block outside its heap. */
static void *ours_or_none(void *block) {
    if (!block || is_ours(block)) return block;
    __libc_free(block);
    return NULL;
}

#define IF_COMPILER(block, call)                                                                                       \
    if (is_compiler(CALLER)) {                                                                                         \
        void *block = ours_or_none(call);                                                                              \
        if (block) return block;                                                                                       \
    }

/* A caller that is no compiler reaches the sanitizer by a jump, so the stack that the sanitizer notes is the
 * caller's. */
EXPORT void *malloc(size_t bytes) {
    if (!is_ready()) return take_early(bytes);
    IF_COMPILER(block, __libc_malloc(bytes))
    return next.malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes) {
    if (!is_ready()) return take_early(count * bytes);
    IF_COMPILER(block, __libc_calloc(count, bytes))
    return next.calloc(count, bytes);
}

EXPORT void *_Znwm(size_t bytes) {
    if (!is_ready()) return take_early(bytes);
    IF_COMPILER(block, __libc_malloc(bytes))
    return next.new_one(bytes);
}

EXPORT void *_Znam(size_t bytes) {
    if (!is_ready()) return take_early(bytes);
    IF_COMPILER(block, __libc_malloc(bytes))
    return next.new_array(bytes);
}

enum { LARGE = 1 << 20 };

EXPORT void *realloc(void *block, size_t bytes) {
    if (!is_ready()) return block ? move_early(block, bytes) : take_early(bytes);
    if (is_early(block)) return move_early(block, bytes);
    if (!block) {
        IF_COMPILER(made, __libc_malloc(bytes))
    } else if (is_ours(block)) {
        void *grown = __libc_realloc(block, bytes);
        if (!grown || is_ours(grown)) return grown;
        void *moved = next.malloc(bytes);
        if (moved) memcpy(moved, grown, bytes);
        __libc_free(grown);
        return moved;
    }
    const bool has_it =
        block && bytes >= LARGE && __sanitizer_get_allocated_size && __sanitizer_get_allocated_size(block) == bytes;
    return has_it ? block : next.realloc(block, bytes);
}

EXPORT size_t malloc_usable_size(void *block) {
    if (!is_ready() || is_early(block)) return 0;
    return is_ours(block) ? usable_size_of_libc(block) : next.malloc_usable_size(block);
}

/* ---- what PoCL's kernels print ---- */

enum { PRINTED = 16 << 20, MAPPED_MAX = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *_Atomic mapped[MAPPED_MAX]; /* NULL: free */

static bool is_pocl(const void *address) {
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
    if (!is_ready()) abort();
    if (bytes == PRINTED && alignment <= 4096 && is_pocl(__builtin_return_address(0))) {
        void *block = map(bytes);
        if (block) {
            *out = block;
            return 0;
        }
    }
    return next.posix_memalign(out, alignment, bytes);
}

/* Maps begin at the beginning of a page; few other blocks do. */
static bool unmap(void *block) {
    for (size_t i = 0; block && (uintptr_t)block % 4096 == 0 && i < MAPPED_MAX; i++)
        if (mapped[i] == block) {
            mapped[i] = NULL;
            (void)munmap(block, PRINTED);
            return true;
        }
    return false;
}

/* ---- giving back ---- */

/* Whether the block is not the sanitizer's. If so, it is given back; an early block stays. */
static bool give_back(void *block) {
    if (!is_ready() || is_early(block)) return true;
    if (!is_ours(block)) return unmap(block);
    __libc_free(block);
    return true;
}

EXPORT void free(void *block) {
    if (!give_back(block)) next.free(block);
}
EXPORT void _ZdlPv(void *block) {
    if (!give_back(block)) next.delete_one(block);
}
EXPORT void _ZdaPv(void *block) {
    if (!give_back(block)) next.delete_array(block);
}
EXPORT void _ZdlPvm(void *block, size_t bytes) {
    if (!give_back(block)) next.delete_one_of(block, bytes);
}
EXPORT void _ZdaPvm(void *block, size_t bytes) {
    if (!give_back(block)) next.delete_array_of(block, bytes);
}
