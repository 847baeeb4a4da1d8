/* clique/status.h: what every call that can fail returns, and its detail in words.
 *
 * A function that can fail returns clq_status. If it is not CLQ_OK, clq_error_detail() gives one sentence that says
 * what failed, where, and what to do. The sentence is kept for the calling thread until that thread's next failure.
 * Outputs come last in an argument list and are written only on success. Nothing here prints or exits.
 *
 * The library has no global state that a caller must set up. Different threads may use different objects; each header
 * says what one object allows. */
#ifndef CLIQUE_STATUS_H
#define CLIQUE_STATUS_H

#include <clique/version.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(CLQ_STATIC)
#define CLQ_API
#elif defined(__GNUC__)
#define CLQ_API __attribute__((visibility("default")))
#else
#define CLQ_API
#endif

/* X(name, text). The order is part of the binary interface: add at the end. */
#define CLQ_STATUS_MAP(X)                                                                                              \
    X(CLQ_OK, "success")                                                                                               \
    X(CLQ_ERROR_ARGUMENT, "invalid argument") /* a value that the caller chose is wrong */                             \
    X(CLQ_ERROR_MEMORY, "out of host memory")                                                                          \
    X(CLQ_ERROR_SYSTEM, "the operating system refused") /* a thread, a lock, a clock */                                \
    X(CLQ_ERROR_NOT_FOUND, "not found")                 /* a file, a tensor, a name inside a file */                   \
    X(CLQ_ERROR_READ, "cannot read")                                                                                   \
    X(CLQ_ERROR_WRITE, "cannot write")                                                                                 \
    X(CLQ_ERROR_FORMAT, "malformed file")                                                                              \
    X(CLQ_ERROR_MISMATCH, "data do not fit the model")                                                                 \
    X(CLQ_ERROR_UNSUPPORTED, "not supported")                                                                          \
    X(CLQ_ERROR_NO_DEVICE, "no usable device")                                                                         \
    X(CLQ_ERROR_DEVICE, "a device failed")                                                                             \
    X(CLQ_ERROR_BUILD, "a kernel did not build")                                                                       \
    X(CLQ_ERROR_DEVICE_MEMORY, "out of device memory")                                                                 \
    X(CLQ_ERROR_ABORTED, "aborted because another rank failed")                                                        \
    X(CLQ_ERROR_TIMEOUT, "deadline passed")                                                                            \
    X(CLQ_ERROR_INTERRUPTED, "interrupted")                                                                            \
    X(CLQ_ERROR_STATE, "called in the wrong state")                                                                    \
    X(CLQ_ERROR_INTERNAL, "internal error") /* an invariant of Clique's own is violated: a defect, please report it */ \
    X(CLQ_ERROR_REPLICAS_DIFFER, "replicas have different weights")                                                    \
    X(CLQ_ERROR_NOT_FINITE, "a number is not finite")

/* clang-format off */
/* How a call ended. CLQ_OK is 0; what each other value means stands in CLQ_STATUS_MAP. */
typedef enum clq_status {
#define CLQ_STATUS_ENUM(name, text) name,
    CLQ_STATUS_MAP(CLQ_STATUS_ENUM)
#undef CLQ_STATUS_ENUM
    CLQ_STATUS_COUNT
} clq_status;
/* clang-format on */

/* The status in words ("malformed file"). Never NULL, also for values that are no status. */
CLQ_API const char *clq_status_text(clq_status status);

/* The calling thread's last failure in one line, without a newline: what, where, what to do. "": no failure yet. Valid
 * until the same thread's next failure. */
CLQ_API const char *clq_error_detail(void);

/* What a line tells of, the gravest first. */
typedef enum clq_log_level { CLQ_LOG_ERROR, CLQ_LOG_WARNING, CLQ_LOG_INFO, CLQ_LOG_DEBUG } clq_log_level;

/* Receives what the library reports. The line has no newline, and belongs to the library until the sink returns. Any
 * thread of the program or the library may call the sink, one call at a time in the entire process: threads that log
 * wait meanwhile, so a sink returns soon. It may call the library, except clq_log_set_sink; lines from such calls are
 * dropped. */
typedef void (*clq_log_sink)(void *context, clq_log_level level, const char *line);

/* Sets the process-wide sink; NULL, which is the default, drops everything. Lines above `level` are not formatted. Any
 * thread may call it. When it returns, the earlier sink is not running and will not be called again, so its context may
 * be freed. */
CLQ_API void clq_log_set_sink(clq_log_sink sink, void *context, clq_log_level level);

/* The loaded library's release as MAJOR.MINOR.PATCH; CLQ_VERSION is the headers' release. */
CLQ_API const char *clq_version(void);
/* The loaded library's release as a number, like CLQ_VERSION. */
CLQ_API unsigned clq_version_number(void);

/* Where the library's memory on the host comes from. Any thread may call each function, several at once. Not included:
 * memory that drivers, zlib, Jansson and the C library take for themselves, and texts that the program frees by free()
 * (clq_group_explain). */
typedef struct clq_allocator {
    /* alignment: a power of two; 0: suitable for any type. bytes: above 0. Returns NULL if there is no memory. */
    void *(*allocate)(void *context, size_t alignment, size_t bytes);
    /* As realloc. block: allocated with alignment 0, or NULL. */
    void *(*reallocate)(void *context, void *block, size_t bytes);
    void (*release)(void *context, void *block); /* of any alignment; block may be NULL */
    void *context;
    void *reserved[4]; /* NULL */
} clq_allocator;
/* Sets the allocator, which is copied. Call it once, before the process's first other call into the library. Functions
 * and context are needed until the process ends. Errors: ARGUMENT (allocator or a function is NULL; a reserve is
 * not), STATE (memory was allocated already). */
CLQ_API clq_status clq_set_allocator(const clq_allocator *allocator);

#ifdef __cplusplus
}
#endif
#endif
