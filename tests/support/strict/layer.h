/* The strict layer: an OpenCL layer that makes PoCL's CPU devices behave like discrete GPUs whose drivers use all the
 * freedom that OpenCL gives them. The layer has queues, events, memory objects and kernels of its own. The driver below
 * it sees one command at a time, from the thread of the command's queue.
 *
 * counts.h, counters.c   what is counted
 * config.c   how the layer is told what to do
 * facts.c    platforms and devices, and what they say of themselves
 * contexts.c contexts
 * events.c   events and callbacks
 * queues.c   queues and their threads
 * commands.c the calls that enqueue
 * memory.c   memory objects and mappings
 * migrate.c  one copy of a memory object per device
 * kernels.c  kernels, their arguments and launches
 * programs.c what the layer adds to programs
 * layer.c    the table of calls */
#ifndef CLQ_TEST_STRICT_LAYER_H
#define CLQ_TEST_STRICT_LAYER_H

#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include "support/strict/counts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STRICT_DEVICES_MAX = 256,
    STRICT_DISGUISES_MAX = 32,
    STRICT_CONTEXT_DEVICES_MAX = 16,
    STRICT_ILLEGAL_ACCESS = -9999
};

extern const struct _cl_icd_dispatch *const strict_driver; /* the calls of the driver below */
extern const struct _cl_icd_dispatch *const strict_calls;  /* the layer's calls; its objects begin with this pointer */

/* Guards events, queues, and the tables of devices and contexts. */
extern pthread_mutex_t strict_lock;

/* Ends the process with a message, if it asks for what the layer cannot do. */
_Noreturn void strict_die(const char *what);
void *strict_alloc(size_t count, size_t bytes); /* zeroed; ends the process if there is no memory */
cl_ulong strict_now_ns(void);
void strict_sleep_ns(cl_ulong ns);
/* Writes an answer of clGet...Info. */
cl_int strict_put(const void *value, size_t bytes, size_t room, void *out, size_t *needed);

/* ---- config.c ---- */

typedef struct strict_config {
    char disguise[STRICT_DISGUISES_MAX]; /* a letter per device of PoCL: n, a, i (see facts.c); another letter: none */
    uint64_t seed;
    bool hold;    /* commands start only once they were flushed */
    bool order;   /* work-groups run in another order, which the seed chooses */
    bool nan;     /* local memory begins as NaN */
    bool migrate; /* memory objects have a copy on each device of their context */
    bool same_pci;
    bool report;          /* the counts on stderr when the process ends */
    unsigned delay_us;    /* the longest delay before a command; the seed chooses the delay */
    unsigned callback_us; /* the longest delay before a callback; likewise */
    unsigned slow_device, slow_times;
} strict_config;

extern strict_config strict_options;
void strict_config_start(void);                                     /* from the environment */
uint64_t strict_random(uint64_t stream, uint64_t n, uint64_t most); /* 0 .. most, by the seed */

/* ---- facts.c ---- */

typedef struct strict_kind strict_kind;

typedef struct strict_device {
    cl_device_id id;
    cl_platform_id platform;
    unsigned index;          /* in counts; for PoCL's devices their number */
    unsigned nth;            /* among the devices of its kind */
    const strict_kind *kind; /* NULL: not disguised */
    bool breaks;             /* the device breaks once calls_left is 0 */
    unsigned long calls_left;
    atomic_bool broken;
    pthread_mutex_t below; /* see strict_below */
} strict_device;

void strict_facts_install(struct _cl_icd_dispatch *calls);
strict_device *strict_device_of(cl_device_id id); /* never NULL */
size_t strict_group_limit(const strict_device *device);
cl_ulong strict_local_limit(const strict_device *device);
cl_platform_id strict_platform_of(const strict_device *device);      /* the disguise's, if the device has one */
const strict_kind *strict_kind_of_platform(cl_platform_id platform); /* NULL: a real one */
/* Enclose what the driver executes for the device with these two. PoCL's basic device runs the commands of all its
 * queues in any thread that waits for one of them. Without the lock, a thread whose commands another thread has just
 * taken would not wait for their end. */
void strict_below(strict_device *device);
void strict_above(strict_device *device);
/* Counts a call on the device. Returns CL_SUCCESS, or STRICT_ILLEGAL_ACCESS if the device is broken. */
cl_int strict_device_called(strict_device *device);

/* ---- counters.c ---- */

void strict_counters_start(void);
void strict_counted(const strict_device *device, strict_count what);

/* ---- contexts.c ---- */

void strict_contexts_install(struct _cl_icd_dispatch *calls);

typedef struct strict_context {
    cl_context handle;
    unsigned count;
    strict_device *devices[STRICT_CONTEXT_DEVICES_MAX]; /* distinct */
    bool disguised;                                     /* one of its devices is */
} strict_context;

const strict_context *strict_context_of(cl_context handle);
unsigned strict_slot(const strict_context *context, const strict_device *device);
cl_int strict_context_called(const strict_context *context);

/* ---- events.c ---- */

enum { STRICT_QUEUED, STRICT_SUBMITTED, STRICT_STARTED, STRICT_ENDED, STRICT_TIMES };
typedef struct strict_callback strict_callback;

struct _cl_event {
    const struct _cl_icd_dispatch *dispatch;
    uint64_t magic;
    unsigned references;
    cl_context context;
    cl_command_queue queue; /* NULL: a user event */
    cl_command_type type;
    cl_int status;
    bool flushed;
    pthread_cond_t changed;
    cl_ulong times[STRICT_TIMES];
    strict_callback *callbacks;
};

void strict_events_install(struct _cl_icd_dispatch *calls);
cl_event strict_event_create(cl_context context, cl_command_queue queue, cl_command_type type);
bool strict_is_event(cl_event event);
void strict_event_retain(cl_event event);                /* lock held */
void strict_event_release(cl_event event);               /* lock held */
void strict_event_become(cl_event event, cl_int status); /* lock held */
void strict_event_await(cl_event event);                 /* lock held */

/* ---- queues.c ---- */

typedef struct strict_command strict_command;
struct strict_command {
    strict_command *next;
    cl_command_queue queue;
    cl_event event;
    cl_uint wait_count;
    cl_event *waits;
    cl_int doomed; /* if not CL_SUCCESS, the command ends with this status without running */
    cl_int (*run)(strict_command *command);
    void (*drop)(strict_command *command); /* releases what only this kind of command holds; may be NULL */
    /* for commands that use memory: */
    cl_mem from, to;
    size_t from_offset, to_offset, bytes;
    const void *source;
    void *target;
    unsigned char pattern[128];
    size_t pattern_bytes;
    struct strict_map *map;
    struct strict_launch *launch;
};

struct _cl_command_queue {
    const struct _cl_icd_dispatch *dispatch;
    uint64_t magic;
    unsigned references, holders; /* holders: the caller's references together, each event, the thread */
    cl_context context;
    strict_device *device;
    cl_command_queue_properties properties;
    cl_command_queue real;
    unsigned number;
    uint64_t commands;     /* executed so far */
    atomic_ulong launches; /* enqueued so far */
    bool has_thread, closing;
    strict_command *first, *last;
    pthread_cond_t work;
};

void strict_queues_install(struct _cl_icd_dispatch *calls);
bool strict_is_queue(cl_command_queue queue);
void strict_queue_hold(cl_command_queue queue);  /* lock held */
void strict_queue_drop(cl_command_queue queue);  /* lock held */
void strict_queue_flush(cl_command_queue queue); /* lock held */
strict_command *strict_command_create(cl_command_queue queue, cl_command_type type,
                                      cl_int (*run)(strict_command *command));
/* Takes the command over, whatever it returns. If blocking, it returns once the command has ended. */
cl_int strict_enqueue(strict_command *command, bool blocking, cl_uint count, const cl_event *waits, cl_event *out);
/* Comes between a command's submission and its execution: waits for strict_meet, then for the random delay. */
void strict_dawdle(const strict_command *command);

/* ---- commands.c ---- */

void strict_commands_install(struct _cl_icd_dispatch *calls);

/* ---- memory.c, migrate.c ---- */

typedef struct strict_map {
    struct strict_map *next;
    void *pointer; /* what the caller got */
    void *block;   /* to be freed with the mapping; or NULL */
    size_t offset, bytes;
    cl_map_flags flags;
    bool real; /* the driver has the mapping, too */
} strict_map;

typedef struct strict_destructor strict_destructor;

struct _cl_mem {
    const struct _cl_icd_dispatch *dispatch;
    uint64_t magic;
    unsigned references;
    unsigned held; /* how many of the references callers have */
    const strict_context *in;
    cl_mem_flags flags;
    size_t bytes, origin;
    void *host;
    cl_mem parent;                           /* of a view; NULL: the object is no view */
    char *pinned;                            /* of CL_MEM_ALLOC_HOST_PTR: the host's pinned memory; or NULL */
    bool migrates;                           /* has a copy on each device */
    cl_mem real[STRICT_CONTEXT_DEVICES_MAX]; /* one per device if it migrates; otherwise the first only */
    uint32_t valid;                          /* a bit per device whose copy holds what was written last */
    int writer;                              /* the device that wrote last; -1: none */
    pthread_mutex_t lock;                    /* guards real, maps, destructors; migrate.c guards valid, writer */
    strict_map *maps;
    strict_destructor *destructors;
    cl_mem next; /* in the list of all */
};

void strict_memory_install(struct _cl_icd_dispatch *calls);
bool strict_is_memory(cl_mem memory); /* `memory` may be any pointer */
void strict_memory_retain(cl_mem memory);
void strict_memory_release(cl_mem memory);
typedef enum strict_pinning { STRICT_IS_PAGEABLE, STRICT_IS_PINNED, STRICT_IS_PINNED_ELSEWHERE } strict_pinning;
strict_pinning strict_pinning_of(const void *pointer, cl_context context);
cl_mem strict_memory_copy(cl_mem memory, const strict_device *device); /* the driver's object; NULL on failure */
/* Does what a driver does when a command that uses the object is submitted: brings the object to the queue's device. */
cl_int strict_migrate(cl_mem memory, cl_command_queue queue, bool writes);

/* ---- kernels.c, programs.c ---- */

void strict_kernels_install(struct _cl_icd_dispatch *calls);
void strict_programs_install(struct _cl_icd_dispatch *calls);

#endif
