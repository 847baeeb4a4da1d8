/* device: all code that calls OpenCL. Platforms, devices and their quirks; queues, buffers, programs with their cache
 * on disk, kernels, launches, traces. The layers above use the types below and make no cl* call. Two parts of them need
 * OpenCL's own handles, through the accessors: the one file of ops that hands queues to CLBlast, and comm, whose
 * callers pass cl_mem.
 *
 * OpenCL 1.2 is the baseline. Whatever is newer is probed on each device. When a call fails, its message names the
 * device and the OpenCL error ("CL_OUT_OF_RESOURCES"). */
#ifndef CLQ_DEVICE_INTERNAL_H
#define CLQ_DEVICE_INTERNAL_H

#include "base/base.h"
#include <clique/device.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

/* ---- words of a SPEC (select/select.c) ---- */

/* The words that a SPEC takes for WHAT. WHAT may also be an index or a driver's tag. */
#define CLQ_SPEC_GPU "gpu"
#define CLQ_SPEC_CPU "cpu"
#define CLQ_SPEC_ACCELERATOR "accelerator"
#define CLQ_SPEC_ALL "all"
#define CLQ_SPEC_AUTO "auto"
/* All of these words, with NULL behind the last. */
extern const char *const clq_spec_words[];

/* ---- opened devices (device.c, island.c) ---- */

/* An open device with its context, its memory budget and its built programs. Several threads may use one device, each
 * with its own queues and kernels. */
typedef struct clq_device clq_device;

/* Sets environment variables with which drivers work better, unless the user has set them (driver.c). Only a program
 * may call it, not the library, and before anything else. */
void clq_drivers_prefer(void);

/* Returns in *out the system as it was last listed, if that list shows that only one of the drivers is needed for the
 * devices that SPEC selects. It then tells the OpenCL loader to open only that driver, for the whole process. So call
 * this before any other use of OpenCL and before there are threads. Otherwise *out is NULL; also if CLIQUE_ALL_DRIVERS
 * is set. */
clq_status clq_system_recall(const char *spec, clq_system **out);
/* As clq_system_open, but completes `recalled`, which this call takes over, also when it fails; NULL: there is none.
 * The devices keep their indices; the other drivers' devices are listed as not usable. Errors: NO_DEVICE if a device
 * that the SPEC selected is gone. Only a new process can then find the other drivers' devices, since the loader reads
 * its environment once in a process. */
clq_status clq_system_open_recalled(clq_system *recalled, const clq_system_config *config, clq_system **out);

/* A GPU that is in the machine and that no OpenCL driver lists (unlisted.c). */
typedef struct clq_unlisted {
    char vendor[8]; /* nvidia, amd or intel */
    char pci[16];   /* its PCI address; "" if only its device file is seen */
    char reason[CLQ_REASON_MAX], remedy[CLQ_REASON_MAX];
} clq_unlisted;
/* Writes up to `capacity` of these GPUs to `out` and returns how many. Reads PCI devices, device files, vendor files
 * and libraries below `root` ("": the machine's own), takes some milliseconds, and opens no driver. */
size_t clq_system_unlisted(const clq_system *system, const char *root, clq_unlisted *out, size_t capacity);

/* Gives back memory pages of libraries' code, above all the drivers'; the system reads a page from its file again when
 * the page is used (trim.c). Call this after drivers were loaded and after programs were built, while no thread loads a
 * library. */
void clq_trim_code(void);

/* A store for results about the machine as a whole (machine.c).
 *
 * - key: hashes `about`, a text that says what the result is about, with everything that the list of devices depends
 *   on: drivers' files, the environment variables that drivers read, PCI devices. Frees `about`. Call this before
 *   clq_system_recall, which changes that environment.
 * - recall: *out is a copy, which the caller frees, or NULL if no intact entry is stored.
 * - keep: stores a result, in place of the key's earlier one. forget: removes it.
 *
 * Errors: MEMORY. keep also: WRITE, and the failure of clq_cache_dir if there is no folder for the store. */
clq_status clq_machine_key(clq_text *about, clq_hash128 *out);
clq_status clq_machine_recall(clq_hash128 key, void **out, size_t *bytes);
clq_status clq_machine_keep(clq_hash128 key, const void *data, size_t bytes);
void clq_machine_forget(clq_hash128 key);

/* Whether a driver's compiler missed the build deadline. Every device of the system is lost then, and the driver may
 * hang in any call that the process makes, even at exit. *noted: the next process will not try to build the program
 * again. */
bool clq_system_is_stuck(const clq_system *system, bool *noted);
/* Closes the devices that the system opened to test and that nobody has taken since. Takes NULL. clq_system_close does
 * this, too. This function is for a caller that asks clq_system_is_stuck afterwards, since closing may compile. */
void clq_system_close_tested(clq_system *system);

/* Opens one device of a selection in a context of its own. */
clq_status clq_device_open(clq_system *system, clq_device_choice choice, clq_device **out);
enum { CLQ_BUILD_DEADLINE_S = 120 }; /* the default */
/* How long a driver may compile for a device. Devices with the same `stuck` are lost together if the compiler does not
 * end: those of a system, or of a group. */
typedef struct clq_build_limit {
    double deadline_s;
    const char *set_by; /* which option set the deadline, for messages: " (--build-deadline)", or "" */
    atomic_uint *stuck; /* not 0: the devices are lost; outlives the devices */
} clq_build_limit;
clq_build_limit clq_device_build_limit(const clq_device *device);
/* Wraps a context and a device that a caller of the library owns, and retains the context. For comm's public calls. */
clq_status clq_device_wrap(cl_context context, cl_device_id device, const clq_build_limit *limit, clq_device **out);
/* Opens several devices of ONE platform in one shared context (an island) and tests copies between each pair. Fails
 * with UNSUPPORTED if the driver has no safe shared contexts, or if the test fails. */
clq_status clq_island_open(clq_system *system, const clq_device_choice *choices, uint32_t count, clq_device **out);
/* Whether a selection is valid: a caller may have filled it in. Errors: ARGUMENT (a reserve that is not 0, no system, a
 * count or part out of range), NO_DEVICE (no device, or one that the machine does not have). */
clq_status clq_devices_check(const clq_devices *devices);
/* Opens all chosen devices, or none if one fails; clq_devices_check has accepted them. If `together`, the devices of
 * one platform share a context if clq_island_open allows it; a second replica on one device is in another context.
 * Otherwise every device has its own context. reasons[i]: why the shared context was refused to device i; "" if it was
 * not; `reasons` may be NULL. */
clq_status clq_devices_open(const clq_devices *devices, bool together, clq_device **out,
                            char (*reasons)[CLQ_REASON_MAX]);
/* Call this after destroying the device's queues, buffers and kernels. Takes NULL. The calling thread's error message
 * stays as it is; failures in here are logged. */
void clq_device_close(clq_device *device);

const clq_device_info *clq_device_get_info(const clq_device *device);
/* As clq_fail_within, and adds the device's label, unless the message in place names it already. */
clq_status clq_fail_on(clq_status status, const clq_device *device, const char *format, ...) CLQ_PRINTF(3, 4);
const char *clq_device_label(const clq_device *device); /* "pocl:0 (pthread-…)", for messages and tables */
cl_context clq_device_context(const clq_device *device);
cl_device_id clq_device_id(const clq_device *device);
/* Whether the device is lost: a failure has shown that it is gone, or a compiler of its system or group is stuck. Every
 * further call on it fails at once with DEVICE. None of its OpenCL objects is released, since the driver may hang on
 * the release. */
bool clq_device_lost(const clq_device *device);
/* Stops sharing memory between the host and the device: a test found that the memory is not coherent, although the
 * device says that it is. `reason` is for the log. Call this before the first lasting buffer is made on the device. */
void clq_device_distrust_host_memory(clq_device *device, const char *reason);
bool clq_device_same_context(const clq_device *a, const clq_device *b);
/* How kernels for a device are written: register tiles with explicit vectors (TILE: CPUs), or work-groups with local
 * memory (LOCAL: all other devices). */
typedef enum clq_kernel_family { CLQ_FAMILY_TILE, CLQ_FAMILY_LOCAL } clq_kernel_family;
clq_kernel_family clq_device_family(const clq_device *device);
/* The number of floats in the prelude's `floatv`: 16, 8 or 4. */
uint32_t clq_device_vector(const clq_device *device);
/* How many work-groups a kernel should have at least, so that every core of the device has work. PoCL's pthread device
 * hands out work-groups in runs of 32, so two cores need 64. A device that runs in its caller needs 1. */
uint32_t clq_device_min_groups(const clq_device *device);
/* Whether work-groups can be made of sub-groups of `items` work-items. *required: a kernel must ask for that size
 * (cl_intel_required_subgroup_size). */
bool clq_device_has_sub_groups(const clq_device *device, size_t items, bool *required);
/* The unit that multiplies small matrices held in a sub-group's registers. MMA: NVIDIA's, through PTX, from compute
 * capability 8.0 on. DPAS8 and DPAS16: Intel's, with sub-groups of 8 or 16 work-items. */
typedef enum clq_matrix_unit { CLQ_UNIT_NONE, CLQ_UNIT_MMA, CLQ_UNIT_DPAS8, CLQ_UNIT_DPAS16 } clq_matrix_unit;
clq_matrix_unit clq_device_matrix_unit(const clq_device *device);
/* How a driver differs from others in a way that code must know. The table in quirks.c says which drivers have a quirk,
 * why, and where it was seen. */
typedef enum clq_quirk {
    CLQ_QUIRK_RUNS_IN_CALLER,        /* commands run in the thread that flushes them */
    CLQ_QUIRK_GROUPS_IN_RUNS,        /* a thread takes 32 work-groups at a time */
    CLQ_QUIRK_MIXES_UP_KERNELS,      /* two devices that run the same program at the same time end the process */
    CLQ_QUIRK_COMPILES_AT_LAUNCH,    /* a kernel is compiled at its first launch */
    CLQ_QUIRK_BUILDS_ONE_AT_A_TIME,  /* several threads build programs no faster than one */
    CLQ_QUIRK_FORGETS_CALLBACKS,     /* a user event that is set to a failure does not run its callbacks */
    CLQ_QUIRK_UNSAFE_SHARED_CONTEXT, /* a context of several devices crashes */
    CLQ_QUIRK_COMPILES_PREFETCH,     /* a prefetch compiles to the processor's instruction */
    CLQ_QUIRK_COMPILES_HALF_DOTS,    /* the compiler knows AMD's dot products of halves */
    CLQ_QUIRK_NO_SUB_GROUPS,         /* sub-groups are not used, although the driver offers them */
    CLQ_QUIRK_COUNT_OF
} clq_quirk;
bool clq_device_has_quirk(const clq_device *device, clq_quirk quirk);
/* Whether the device has CLQ_QUIRK_RUNS_IN_CALLER (PoCL's basic device). */
bool clq_device_runs_in_caller(const clq_device *device);

/* A store for measurements of a device, beside its built programs and checksummed like them. recall: *out is a copy,
 * which the caller frees, or NULL if no intact entry is stored. remember: keeps an entry that is there already; a
 * failure is only logged. */
bool clq_device_remembers(const clq_device *device); /* whether there is a folder for the store */
clq_status clq_device_recall(const clq_device *device, clq_hash128 key, void **out, size_t *bytes);
void clq_device_remember(const clq_device *device, clq_hash128 key, const void *data, size_t bytes);
/* As clq_device_remember, but replaces an entry that is there. Errors: STATE if there is no folder, WRITE, MEMORY. */
clq_status clq_device_replace(const clq_device *device, clq_hash128 key, const void *data, size_t bytes);

/* Results of trials: `key` names what was tried on the device (trial.c). Any thread.
 *
 * - trial_result: whether the trial was made, and *result if so. This process made it, or an earlier one with the same
 *   cache folder, device name, driver version and kernels.
 * - note: stores a result for as long as the device is open. A result that is there stays.
 * - keep: stores it on disk, too, for later processes.
 *
 * If there is no memory or disk space, the result is not stored. */
bool clq_device_trial_result(clq_device *device, clq_hash128 key, bool *result);
void clq_device_note_trial_result(clq_device *device, clq_hash128 key, bool result);
bool clq_device_keep_trial_result(clq_device *device, clq_hash128 key, bool result); /* whether it is on disk */

/* ---- queues (queue.c) ---- */

/* An in-order command queue. One thread at a time may use it. */
typedef struct clq_queue clq_queue;
enum { CLQ_QUEUE_TRACE = 1 }; /* or 0 */
clq_status clq_queue_create(clq_device *device, unsigned flags, clq_queue **out);
clq_status clq_queue_wrap(clq_device *device, cl_command_queue queue, clq_queue **out); /* retained */
void clq_queue_destroy(clq_queue *queue);                                               /* takes NULL */
cl_command_queue clq_queue_handle(const clq_queue *queue);
clq_device *clq_queue_device(const clq_queue *queue);
clq_status clq_queue_flush(clq_queue *queue);
/* Waits until everything enqueued is done, and reports a command that failed on the way: it checks event statuses, not
 * only return codes. */
clq_status clq_queue_finish(clq_queue *queue);
/* Waits as clq_queue_finish does, but at most until the time `until` of clq_now_running, and reports nothing: for use
 * after a failure. If the queue's commands do not end by then, the device is lost, and nothing that they use is given
 * back. */
void clq_queue_settle(clq_queue *queue, double until);

/* A point in a queue. Another thread, or another queue of the same context, can wait for it. */
typedef struct clq_event clq_event;
clq_status clq_queue_mark(clq_queue *queue, clq_event **out); /* flushes */
/* As clq_queue_mark, but reuses *event, which nobody may be waiting for. If *event is NULL, allocates it. */
clq_status clq_queue_mark_again(clq_queue *queue, clq_event **event);
clq_status clq_event_wait(clq_event *event); /* blocks; a failed event is an error */
/* Makes the queue wait for the event; the host does not wait, unless the device runs in its caller. If the event fails,
 * the driver decides whether the queue's later commands fail, too (PoCL: yes, Intel: no): a caller that must know
 * checks the event. */
clq_status clq_queue_wait(clq_queue *queue, const clq_event *event);
void clq_event_destroy(clq_event *event); /* takes NULL */
/* Whether the event is complete; does not wait. A failed event is an error. */
clq_status clq_event_look(const clq_event *event, bool *complete);

/* What one command waits for besides the commands before it in its queue, and the event that tells when the command is
 * done. Neither enqueues a marker. A NULL order is an empty one. */
enum { CLQ_AFTER_MAX = 2 };
typedef struct clq_order {
    /* Events of the queue's context; NULL: none. Their queues were flushed before. Not allowed on a device that runs in
     * its caller: there the host must wait (clq_device_runs_in_caller). */
    const clq_event *after[CLQ_AFTER_MAX];
    /* Where the command's event goes; NULL: no event is wanted. *done is NULL or an event that nobody is waiting for,
     * which the new event replaces. The queue is not flushed: flush it before another thread or queue waits for the
     * event. */
    clq_event **done;
} clq_order;

/* ---- for comm and its callers (queue.c, foreign.c) ---- */

cl_event clq_event_handle(const clq_event *event);
/* As clq_event_handle, but retained: the caller releases it. */
cl_event clq_event_give(const clq_event *event);
/* Wraps an existing event of any kind and retains it. Two clq_events may wrap the same cl_event. */
clq_status clq_event_wrap(clq_device *device, cl_event handle, clq_event **out);
/* Makes another clq_event for the same cl_event, which may outlive the first. If `event` was wrapped, so is *out. */
clq_status clq_event_share(const clq_event *event, clq_event **out);
/* Makes a user event. The host completes it, with success or with CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST. With
 * PoCL 3.1, a queue of a device that runs in its caller hangs if its commands wait for a user event (clq_queue_wait is
 * safe): give users of such a device an event of a queue instead. */
clq_status clq_event_create(clq_device *device, clq_event **out);
clq_status clq_event_complete(clq_event *event, bool ok);
bool clq_event_is_hosts(const clq_event *event); /* a user event: the host completes it, not a command */
bool clq_event_is_over(const clq_event *event);  /* complete or failed, as far as the driver knows at this moment */
/* As clq_event_wait, but gives up: with CLQ_ERROR_TIMEOUT at `until` (clq_now_running's time), and with
 * CLQ_ERROR_ABORTED once *cancel is true (`cancel` may be NULL). Flushes the queue of a wrapped event first; if its
 * device runs in its caller, the queue's commands run in this call. The queues of other events were flushed by whoever
 * enqueued the command. */
clq_status clq_event_wait_until(clq_event *event, double until, const atomic_bool *cancel);

/* ---- buffers (buffer.c) ---- */

typedef enum clq_memory_kind {
    CLQ_MEMORY_DEVICE, /* the device's own memory. If the device shares host memory and has fine-grained SVM, the
                          host accesses it through clq_buffer_host between commands, without mapping */
    CLQ_MEMORY_PINNED  /* staging memory in the host, mapped for the buffer's whole life: clq_buffer_host */
} clq_memory_kind;

typedef struct clq_buffer clq_buffer;
/* Makes a zero-filled buffer. Writing the zeros makes a lazy allocation fail here. The buffer counts against the
 * device's budget, except PINNED memory of a device that does not share the host's memory. `what` names the buffer in
 * messages ("activations"). bytes >= 1. The buffer begins at a multiple of CLQ_BUFFER_ALIGN, which suits vectors of any
 * type. */
enum { CLQ_BUFFER_ALIGN = 128 };
clq_status clq_buffer_create(clq_device *device, clq_memory_kind kind, size_t bytes, const char *what,
                             clq_buffer **out);
clq_status clq_buffer_wrap(clq_device *device, cl_mem memory, clq_buffer **out); /* retained */
void clq_buffer_destroy(clq_buffer *buffer);                                     /* takes NULL */
size_t clq_buffer_bytes(const clq_buffer *buffer);
cl_mem clq_buffer_handle(const clq_buffer *buffer);
/* Whether two ranges have bytes in common. The buffers may be different sub-buffers of one memory object, or a memory
 * object and its sub-buffer. */
bool clq_buffers_overlap(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_buffer *b, size_t b_begin,
                         size_t b_bytes);
/* Whether the host may map, read and write the buffer. A caller may have made a wrapped cl_mem without host access. */
bool clq_buffer_host_may_use(const clq_buffer *buffer);
clq_device *clq_buffer_device(const clq_buffer *buffer);
/* A host pointer to the buffer's memory, valid and coherent between commands; NULL: the buffer has none. */
void *clq_buffer_host(const clq_buffer *buffer);
/* Copies `bytes` bytes to the beginning of the buffer, which no command may use yet. If the host has a pointer to
 * it, the host itself copies. The reason is Intel's runtime (2026.2): on a busy machine, a launch in another queue at
 * times read a buffer before the data of a blocking write were there. */
clq_status clq_buffer_set(clq_device *device, clq_buffer *buffer, const void *from, size_t bytes);
/* Makes a view: a range of `parent` as a buffer. `offset` is a multiple of clq_device_view_align. Destroy the view
 * before the parent. */
clq_status clq_buffer_view(clq_buffer *parent, size_t offset, size_t bytes, clq_buffer **out);
size_t clq_device_view_align(const clq_device *device); /* bytes; a power of two, at least 64 */
/* Makes a buffer of this device over the memory of another device's buffer `of`. The host must reach `of`
 * (clq_buffer_host), and this device must share the host's memory. Destroy the alias before `of`. If this device is
 * lost by then, the memory of `of` is never given back (clq_buffer_keep). Errors: UNSUPPORTED. */
clq_status clq_buffer_alias(clq_device *device, clq_buffer *of, clq_buffer **out);
/* Marks a buffer whose memory commands of another, lost device use through clq_buffer_host: nobody knows whether those
 * commands have ended. clq_buffer_destroy then does not give the memory back, and the budget continues to count it. */
void clq_buffer_keep(clq_buffer *buffer);

uint64_t clq_device_memory_used(const clq_device *device); /* bytes */
uint64_t clq_device_memory_budget(const clq_device *device);

/* If a transfer does not block, the host's memory (also a clq_buffer_host) must live until the queue has finished the
 * transfer. That holds after a failure, too: finish the queue before freeing the memory. When a blocking transfer
 * returns, it is done for every queue. */
clq_status clq_queue_write(clq_queue *q, clq_buffer *to, size_t offset, const void *from, size_t bytes, bool blocking);
clq_status clq_queue_read(clq_queue *q, const clq_buffer *from, size_t offset, void *to, size_t bytes, bool blocking);
/* Both buffers are in the queue's context. Ranges in one buffer must not overlap. */
clq_status clq_queue_copy(clq_queue *q, const clq_buffer *from, size_t from_offset, clq_buffer *to, size_t to_offset,
                          size_t bytes);
/* The same three transfers, not blocking and with an order. bytes >= 1. */
clq_status clq_queue_write_after(clq_queue *q, clq_buffer *to, size_t offset, const void *from, size_t bytes,
                                 const clq_order *order);
clq_status clq_queue_read_after(clq_queue *q, const clq_buffer *from, size_t offset, void *to, size_t bytes,
                                const clq_order *order);
clq_status clq_queue_copy_after(clq_queue *q, const clq_buffer *from, size_t from_offset, clq_buffer *to,
                                size_t to_offset, size_t bytes, const clq_order *order);
clq_status clq_queue_fill_zero(clq_queue *q, clq_buffer *to, size_t offset, size_t bytes);
/* Maps a range for the host, and blocks until it is mapped. For devices whose memory the host can reach. */
clq_status clq_queue_map(clq_queue *q, clq_buffer *buffer, size_t offset, size_t bytes, bool write, void **out);
/* As clq_queue_map, to overwrite the whole range: its old content is lost and is not copied to the host. */
clq_status clq_queue_map_new(clq_queue *q, clq_buffer *buffer, size_t offset, size_t bytes, void **out);
clq_status clq_queue_unmap(clq_queue *q, clq_buffer *buffer, void *pointer);

/* ---- programs and kernels (program.c, cache.c) ---- */

/* Makes a kernel object of its own: its arguments are not shared. `file`: the base name of a source in cl/
 * ("gemm_tile"); the prelude is put in front of it. `options`: -D… and so on; "": none. With -DUSES_SUB_GROUPS, the
 * kernels may call sub-group functions, and are built for a version of OpenCL C that has them. The program is made once
 * for each (device, file, options): loaded from the cache of binaries if that has an intact entry, otherwise built.
 * Thread-safe. Errors: BUILD with file, device, driver and the first lines of the log. */
typedef struct clq_kernel clq_kernel;
clq_status clq_kernel_create(clq_device *device, const char *file, const char *options, const char *function,
                             clq_kernel **out);
/* Which program to make. */
typedef struct clq_program_wish {
    const char *file, *options; /* as above */
    const char *kernels;        /* the kernels to compile, with blanks between; "": all of the source's */
    const char *text;           /* the caller's own source, which is copied; `file` is only its name. NULL: `file` */
    bool optional; /* the caller can do without the program. If the compiler refuses it or does not end, that is kept
                      for this device model and driver, and later wishes for it fail at once with UNSUPPORTED */
} clq_program_wish;
clq_status clq_kernel_create_among(clq_device *device, const clq_program_wish *program, const char *function,
                                   clq_kernel **out);
void clq_kernel_destroy(clq_kernel *kernel); /* takes NULL */
/* Whether the kernel's first launch compiles it: this process built the program from source, and the driver has
 * COMPILES_AT_LAUNCH. */
bool clq_kernel_is_new(const clq_kernel *kernel);
clq_status clq_kernel_set_buffer(clq_kernel *kernel, uint32_t index, const clq_buffer *buffer);
clq_status clq_kernel_set_bytes(clq_kernel *kernel, uint32_t index, const void *value, size_t bytes); /* scalars */
clq_status clq_kernel_set_local(clq_kernel *kernel, uint32_t index, size_t bytes);
clq_status clq_kernel_max_group(const clq_kernel *kernel, size_t *out);

/* Makes programs before their kernels are created, on several threads: at most one for each core and each program.
 * Drivers load binaries in parallel. On failure, *failed is the index of the first program that failed, and the error
 * is that program's. */
clq_status clq_device_load_programs(clq_device *device, const clq_program_wish *wishes, size_t count, size_t *failed);
/* Makes the text of one program from kernels of several embedded sources (source_text.c). Each kernel becomes a
 * function; the caller puts its own kernel behind the text and calls these functions. Part i becomes `function`_i. Its
 * first six parameters, of type size_t, are its work-item's ids and the numbers of work-items, in each dimension. Only
 * kernels of the TILE family are allowed. The caller frees the text with clq_free. Errors: UNSUPPORTED if a part has
 * options other than definitions. */
typedef struct clq_program_part {
    const char *file, *options, *function;
} clq_program_part;
clq_status clq_fused_source(const clq_program_part *parts, size_t count, clq_text *out);
/* Stores programs that were built from source on disk now, so that other devices find them; otherwise that happens when
 * the device closes. PoCL compiles each kernel at its first launch (COMPILES_AT_LAUNCH), and a program's binary holds
 * what was compiled when the binary was first asked for: so call this after all kernels have run. A program that cannot
 * be stored is compiled again by whoever needs it. Errors: TIMEOUT if the driver compiles for longer than the build
 * deadline; the device is then lost. */
bool clq_device_has_unkept(clq_device *device);
clq_status clq_device_keep_programs(clq_device *device);

/* Enqueues a launch. local may be NULL. If a global size is 0, nothing is enqueued. */
clq_status clq_queue_launch(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                            const size_t *local);
/* The same with an order. No global size may be 0. */
clq_status clq_queue_launch_after(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                                  const size_t *local, const clq_order *order);

/* What ran, and when. */
typedef struct clq_span {
    const char *scope, *name; /* scope may be NULL */
    const char *key;          /* names `value`; NULL: there is no value */
    uint64_t value;
    double begin, end; /* in clq_now's time */
} clq_span;
/* A queue with CLQ_QUEUE_TRACE records its launches, and those transfers that have a name. On any other queue the next
 * three functions do nothing.
 *
 * clq_queue_name names the next command. The texts must outlive the queue. A launch without a name has its kernel's. */
void clq_queue_name(clq_queue *queue, const char *scope, const char *name);
void clq_queue_stop_trace(clq_queue *queue); /* later commands are not recorded */
/* For commands that another library enqueues. clq_queue_wants_event returns `event` if the queue records the command,
 * otherwise NULL. clq_queue_record takes the command's event over; NULL: it does nothing. */
cl_event *clq_queue_wants_event(const clq_queue *queue, cl_event *event);
clq_status clq_queue_record(clq_queue *queue, const char *kernel, cl_event event);
/* Waits for the queue and returns what it recorded, in order, at most the first 2^18 commands. The times are the
 * host's, right within *error_s. The caller frees *out with clq_free. Errors: INTERNAL on a queue without
 * CLQ_QUEUE_TRACE. */
clq_status clq_queue_spans(clq_queue *queue, clq_span **out, size_t *count, double *error_s);

/* An embedded source (made from cl/ at build time), for tests and messages. NULL: there is no such file. */
const char *clq_source_text(const char *file);

/* For trials: drop forgets the programs that were made since the mark; their kernels must be destroyed. Otherwise the
 * device would store them on disk when it closes, which may take as long as building them. Only one thread may use the
 * device between mark and drop. */
const void *clq_device_mark_programs(const clq_device *device);
void clq_device_drop_programs(clq_device *device, const void *mark);

/* ---- how fast a device is (peak.c) ---- */

/* Measures a kernel that only multiplies and adds in registers: the best of some launches, in 1e9 operations/s (a fused
 * multiply-add counts two). NaN if its results are wrong. */
clq_status clq_measure_peak(clq_queue *queue, double *gflops);

/* ---- made-up work (load.c) ---- */

/* Kernels for probes: ARITHMETIC computes in registers only; MEMORY reads, changes and writes a buffer in place. */
typedef enum clq_load_kind { CLQ_LOAD_ARITHMETIC, CLQ_LOAD_MEMORY } clq_load_kind;
enum { CLQ_LOAD_ROUNDS_MAX = 32768 }; /* some drivers end longer loops too early */
typedef struct clq_load clq_load;
/* bytes: the size of MEMORY's buffer; ARITHMETIC ignores it. The queue must outlive the load. Errors: BUILD,
 * DEVICE_MEMORY, MEMORY, … */
clq_status clq_load_create(clq_queue *queue, clq_load_kind kind, size_t bytes, clq_load **out);
void clq_load_destroy(clq_load *load); /* takes NULL; waits for the queue */
/* The work of one round. ARITHMETIC: operations (a fused multiply-add counts two). MEMORY: bytes read and written. */
double clq_load_work(const clq_load *load);
/* Enqueues 1 to CLQ_LOAD_ROUNDS_MAX rounds: of ARITHMETIC in one launch, of MEMORY in one launch each. Does not flush
 * the queue. */
clq_status clq_load_enqueue(clq_load *load, int rounds);
/* Whether ARITHMETIC computes right. Call this after some hundred rounds. Waits for the queue. */
clq_status clq_load_check(clq_load *load, bool *ok);

/* ---- known-answer tests (doctor.c) ---- */

/* Runs the quick tests that a device must pass before it is used: arithmetic, a loop of more than 65,535 iterations, a
 * barrier with local memory, copies, memory shared with the host. The result is in *ok and `reason`; the status only
 * reports a failure of the test itself. */
clq_status clq_device_self_test(clq_device *device, bool *ok, char *reason, size_t reason_bytes);
/* Runs all of the device layer's checks, for `clique doctor`, and fills up to `capacity` rows. The layers above add
 * their own. */
clq_status clq_device_checks(clq_device *device, clq_check *rows, size_t capacity, size_t *count);

#endif
