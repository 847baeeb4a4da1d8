/* device: everything that calls OpenCL. Platforms, devices and their quirks; queues, buffers, programs with
 * their cache on disk, kernels, launches, traces. The layers above see the types below and never a cl* call
 * (the one file of ops that hands queues to CLBlast, and comm's callers' cl_mem, come through the accessors).
 *
 * OpenCL 1.2 is the baseline; whatever is newer is probed per device. In every call a failure names the device
 * and the OpenCL error by name ("CL_OUT_OF_RESOURCES"). */
#ifndef CLQ_DEVICE_INTERNAL_H
#define CLQ_DEVICE_INTERNAL_H

#include "base/base.h"
#include <clique/device.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

/* ---- words of a SPEC (select/select.c) ---- */

/* What WHAT may be besides an index and a driver's tag. */
#define CLQ_SPEC_GPU "gpu"
#define CLQ_SPEC_CPU "cpu"
#define CLQ_SPEC_ACCELERATOR "accelerator"
#define CLQ_SPEC_ALL "all"
#define CLQ_SPEC_AUTO "auto"
/* All of these; NULL behind the last. */
extern const char *const clq_spec_words[];

/* ---- opened devices (device.c, island.c) ---- */

/* A device with its context, its budget and its built programs. Safe to use from several threads, each with its
 * own queues and kernels. */
typedef struct clq_device clq_device;

/* Sets what drivers look for in the environment and works better one way, where it is not set (driver.c). Of a
 * program's own, first of all. */
void clq_drivers_prefer(void);

/* A system as it was listed last, where what SPEC selects is known from that to need one driver alone, which the loader
 * is then told to open alone, for the whole process: call it before any other use of OpenCL and before there are
 * threads. Else NULL; also where CLIQUE_ALL_DRIVERS is set. */
clq_status clq_system_recall(const char *spec, clq_system **out);
/* As clq_system_open. Takes `recalled` over, which may be NULL; its devices keep their indices, and those of other
 * drivers are listed as not usable. Errors: NO_DEVICE where a device that the SPEC selected is gone; the other drivers'
 * devices are then found by a new process only, since the loader reads its environment once in a process. */
clq_status clq_system_open_recalled(clq_system *recalled, const clq_system_config *config, clq_system **out);

/* A GPU that the machine has and no OpenCL driver lists. (unlisted.c) */
typedef struct clq_unlisted {
    char vendor[8]; /* nvidia, amd or intel */
    char pci[16];   /* "" where only its device files are seen */
    char reason[CLQ_REASON_MAX], remedy[CLQ_REASON_MAX];
} clq_unlisted;
/* Up to `capacity` of them; returns how many. Looks at PCI devices, device files, vendor files and libraries below
 * `root` ("": the machine's own), in some milliseconds, and opens no driver. */
size_t clq_system_unlisted(const clq_system *system, const char *root, clq_unlisted *out, size_t capacity);

/* Gives back memory pages of code that has been read and can be read again (trim.c): after drivers were loaded, after
 * programs were built. Of a process that loads no library meanwhile. */
void clq_trim_code(void);

/* What was found out about the machine as a whole is kept by a key: of a text that says what it is about, which is
 * freed, and of all that the list of devices depends on (drivers' files, the environment that speaks to drivers, PCI
 * devices). Ask for the key before clq_system_recall, which changes that environment. recall: a copy for the caller to
 * free, NULL where nothing (whole) is kept. Errors: MEMORY; keep also WRITE and where there is no folder for it.
 * (machine.c) */
clq_status clq_machine_key(clq_text *about, clq_hash128 *out);
clq_status clq_machine_recall(clq_hash128 key, void **out, size_t *bytes);
clq_status clq_machine_keep(clq_hash128 key, const void *data, size_t bytes);
void clq_machine_forget(clq_hash128 key);

/* Whether a driver's compiler did not end within the build deadline: every device of the system is lost, and the driver
 * may hang in what the process asks of it, its exit included. noted: the next process does without the program. */
bool clq_system_is_stuck(const clq_system *system, bool *noted);
/* Devices that the system opened to test them, and that nobody opened since. Takes NULL. clq_system_close does so, too:
 * this one is for who asks clq_system_is_stuck behind it. */
void clq_system_close_tested(clq_system *system);

/* Opens one entry of a selection in a context of its own. */
clq_status clq_device_open(clq_system *system, clq_device_choice choice, clq_device **out);
/* How long a driver may compile for a device, and the mark of all devices that are lost together if its compiler does
 * not end: a system's, or a group's. The mark outlives the devices. */
enum { CLQ_BUILD_DEADLINE_S = 120 }; /* if nobody asks for another */
typedef struct clq_build_limit {
    double deadline_s;
    const char *set_by; /* in messages: " (--build-deadline)", or "" */
    atomic_uint *stuck;
} clq_build_limit;
clq_build_limit clq_device_build_limit(const clq_device *device);
/* Wraps what a caller of the library owns; the context is retained. Used by comm's public calls. */
clq_status clq_device_wrap(cl_context context, cl_device_id device, const clq_build_limit *limit, clq_device **out);
/* Opens several devices of ONE platform in one shared context (an island) and tests copies between each pair;
 * fails with UNSUPPORTED where the driver or the test says no. */
clq_status clq_island_open(clq_system *system, const clq_device_choice *choices, uint32_t count, clq_device **out);
/* Whether a selection, which a caller may have filled in, is one. Errors: ARGUMENT (a count or part out of range),
 * NO_DEVICE (no device, or one that the machine does not have). */
clq_status clq_devices_check(const clq_devices *devices);
/* Opens every chosen device, which were checked: `together`, those of one platform in one context where clq_island_open
 * grants it (a device stands in a context once), else each in its own. reasons: why a device got a context of its own
 * nevertheless; "" where nothing was refused; may be NULL. All or none are opened. */
clq_status clq_devices_open(const clq_devices *devices, bool together, clq_device **out,
                            char (*reasons)[CLQ_REASON_MAX]);
/* After its queues, buffers and kernels. Takes NULL. The calling thread's message stays: what fails here is logged. */
void clq_device_close(clq_device *device);

const clq_device_info *clq_device_get_info(const clq_device *device);
/* As clq_fail_within, and names the device, unless what failed names it already. */
clq_status clq_fail_on(clq_status status, const clq_device *device, const char *format, ...) CLQ_PRINTF(3, 4);
const char *clq_device_label(const clq_device *device); /* "pocl:0 (pthread-…)", for messages and tables */
cl_context clq_device_context(const clq_device *device);
cl_device_id clq_device_id(const clq_device *device);
/* Whether the device failed in a way that means it is gone: every further call on it fails with DEVICE at once and
 * nothing of it is released, since a driver may hang on that. */
bool clq_device_lost(const clq_device *device);
/* From now on the device is used as one with memory of its own, which the host does not see, for this reason: what it
 * says of itself was found wrong. Before anything is made on it. */
void clq_device_distrust_host_memory(clq_device *device, const char *reason);
bool clq_device_same_context(const clq_device *a, const clq_device *b);
/* How kernels are to be written for it: register tiles with explicit vectors, or work-groups with local memory. */
typedef enum clq_kernel_family { CLQ_FAMILY_TILE, CLQ_FAMILY_LOCAL } clq_kernel_family;
clq_kernel_family clq_device_family(const clq_device *device);
/* Floats in the prelude's `floatv`: 16, 8 or 4. */
uint32_t clq_device_vector(const clq_device *device);
/* Work-groups that a kernel should have at least so that every core of the device has work (PoCL's pthread
 * device hands groups out in runs of 32: 64 or more for two cores; 1 for a device that runs in its caller). */
uint32_t clq_device_min_groups(const clq_device *device);
/* Whether its work-groups may consist of sub-groups of so many items (by cl_khr_subgroups), and whether a kernel must
 * then ask for that size (cl_intel_required_subgroup_size). */
bool clq_device_has_sub_groups(const clq_device *device, size_t items, bool *required);
/* What multiplies small matrices that lie in a sub-group's registers: NVIDIA's, by PTX, from compute capability 8.0 on;
 * Intel's, whose sub-groups have 8 items or 16. */
typedef enum clq_matrix_unit { CLQ_UNIT_NONE, CLQ_UNIT_MMA, CLQ_UNIT_DPAS8, CLQ_UNIT_DPAS16 } clq_matrix_unit;
clq_matrix_unit clq_device_matrix_unit(const clq_device *device);
/* What a driver does otherwise than others do, and code has to know: the table in quirks.c says which drivers, why and
 * where it was seen. */
typedef enum clq_quirk {
    CLQ_QUIRK_RUNS_IN_CALLER,        /* commands run in the thread that flushes them */
    CLQ_QUIRK_GROUPS_IN_RUNS,        /* a thread takes 32 work-groups at a time */
    CLQ_QUIRK_MIXES_UP_KERNELS,      /* of two devices that run the same program at the same time */
    CLQ_QUIRK_COMPILES_AT_LAUNCH,    /* kernels are compiled when they are launched first */
    CLQ_QUIRK_BUILDS_ONE_AT_A_TIME,  /* programs, whatever the threads */
    CLQ_QUIRK_FORGETS_CALLBACKS,     /* of events of the host that are set to a failure */
    CLQ_QUIRK_UNSAFE_SHARED_CONTEXT, /* for several devices in one context */
    CLQ_QUIRK_COMPILES_PREFETCH,     /* the compiler makes the processor's instruction of a prefetch */
    CLQ_QUIRK_COMPILES_HALF_DOTS,    /* the compiler knows AMD's dot products of halves */
    CLQ_QUIRK_NO_SUB_GROUPS,         /* are used, although the driver offers them */
    CLQ_QUIRK_COUNT_OF
} clq_quirk;
bool clq_device_has_quirk(const clq_device *device, clq_quirk quirk);
/* Whether it has CLQ_QUIRK_RUNS_IN_CALLER (PoCL's basic device). */
bool clq_device_runs_in_caller(const clq_device *device);

/* What was measured with a device may be kept beside its built kernels, checksummed as they are. recall: a copy for the
 * caller to free, NULL where nothing (whole) is kept under the key. remember: a failure is only logged. */
bool clq_device_remembers(const clq_device *device); /* whether there is a place to keep things */
clq_status clq_device_recall(const clq_device *device, clq_hash128 key, void **out, size_t *bytes);
void clq_device_remember(const clq_device *device, clq_hash128 key, const void *data, size_t bytes);
/* The same, in place of what was there. Errors: STATE where nothing can be kept, WRITE, MEMORY. */
clq_status clq_device_replace(const clq_device *device, clq_hash128 key, const void *data, size_t bytes);

/* What a trial found out about the device: whether the trial that the key names was made, by this process or, where
 * there is a cache folder, by an earlier one on a device of the same name and driver version, with the same kernels;
 * and its result. note: for as long as the device is open. keep: for later processes, too. What there is no memory or
 * no disk for is not kept. Any thread. (trial.c) */
bool clq_device_trial_result(clq_device *device, clq_hash128 key, bool *result);
void clq_device_note_trial_result(clq_device *device, clq_hash128 key, bool result);
bool clq_device_keep_trial_result(clq_device *device, clq_hash128 key, bool result); /* whether it is kept */

/* ---- queues (queue.c) ---- */

/* An in-order command queue. One thread at a time. */
typedef struct clq_queue clq_queue;
enum { CLQ_QUEUE_TRACE = 1 }; /* or 0 */
clq_status clq_queue_create(clq_device *device, unsigned flags, clq_queue **out);
clq_status clq_queue_wrap(clq_device *device, cl_command_queue queue, clq_queue **out); /* retained */
void clq_queue_destroy(clq_queue *queue);                                               /* takes NULL */
cl_command_queue clq_queue_handle(const clq_queue *queue);
clq_device *clq_queue_device(const clq_queue *queue);
clq_status clq_queue_flush(clq_queue *queue);
/* Waits until everything enqueued is done and reports a command that failed on the way (event status, not only
 * return codes). */
clq_status clq_queue_finish(clq_queue *queue);
/* Waits the same way, but at most until then (clq_now_running's time), and has nothing to report: for what follows a
 * failure. A device that does not get there is lost: nothing that its commands use is given back. */
void clq_queue_settle(clq_queue *queue, double until);

/* A point in a queue that another thread or queue of the same context can wait for. */
typedef struct clq_event clq_event;
clq_status clq_queue_mark(clq_queue *queue, clq_event **out); /* flushes */
/* The same in the place of *event, which nobody waits for any more, or NULL: then nothing is allocated. */
clq_status clq_queue_mark_again(clq_queue *queue, clq_event **event);
clq_status clq_event_wait(clq_event *event); /* blocks; a negative status is an error */
/* The queue waits, not the host; but on a device that runs in its caller the host does. Whether a failure of the event
 * fails the queue's commands too is the driver's choice (PoCL: yes, Intel: no): who needs to know asks the event. */
clq_status clq_queue_wait(clq_queue *queue, const clq_event *event);
void clq_event_destroy(clq_event *event); /* takes NULL */
/* Whether the event is complete, without waiting for it; a negative status is an error. */
clq_status clq_event_look(const clq_event *event, bool *complete);

/* What a single command waits for besides the commands before it in its queue, and the event that tells when it is
 * done: no marker is enqueued for either. A NULL order stands for an empty one. */
enum { CLQ_AFTER_MAX = 2 };
typedef struct clq_order {
    /* Events of the queue's context, NULL where there is none. Their queues were flushed before. Not on a device that
     * runs in its caller: there the host waits (clq_device_runs_in_caller). */
    const clq_event *after[CLQ_AFTER_MAX];
    /* The command's event takes the place of *done, which is NULL or an event that nobody waits for any more. NULL: no
     * event is wanted. The queue is not flushed: flush it before another thread or queue waits for the event. */
    clq_event **done;
} clq_order;

/* ---- for comm and its callers (queue.c, foreign.c) ---- */

cl_event clq_event_handle(const clq_event *event);
/* The same, with a hold that the caller releases. */
cl_event clq_event_give(const clq_event *event);
/* An event that exists (retained), of any kind: two of these may stand for one. */
clq_status clq_event_wrap(clq_device *device, cl_event handle, clq_event **out);
/* Another one for the same command, of the same device, which may live longer. If `event` was wrapped, so is *out. */
clq_status clq_event_share(const clq_event *event, clq_event **out);
/* An event that the host completes, with success or CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST. PoCL 3.1's devices
 * that run in their caller hang when commands of their queues wait for one (not by clq_queue_wait): give their users
 * an event of a queue instead. */
clq_status clq_event_create(clq_device *device, clq_event **out);
clq_status clq_event_complete(clq_event *event, bool ok);
bool clq_event_is_hosts(const clq_event *event); /* completed by the host, not by a command */
bool clq_event_is_over(const clq_event *event);  /* complete or failed, as far as the driver tells at this moment */
/* As clq_event_wait, but gives up: CLQ_ERROR_TIMEOUT at `until` (clq_now_running's time), CLQ_ERROR_ABORTED once
 * *cancel (may be NULL). Of an event that was wrapped the queue is flushed first: the commands of a device that runs in
 * its caller run here. Any other event's queue was flushed by whoever enqueued the command. */
clq_status clq_event_wait_until(clq_event *event, double until, const atomic_bool *cancel);

/* ---- buffers (buffer.c) ---- */

typedef enum clq_memory_kind {
    CLQ_MEMORY_DEVICE, /* the device's own. On a device that shares host memory and has fine-grained SVM the
                          host sees it through clq_buffer_host between commands, with no mapping */
    CLQ_MEMORY_PINNED  /* host-resident staging memory, mapped once for its life: clq_buffer_host */
} clq_memory_kind;

typedef struct clq_buffer clq_buffer;
/* Zero-filled and touched, so that lazy allocation fails here; counted against the device's budget.
 * `what` names it in messages ("activations"). bytes >= 1; start aligned to CLQ_BUFFER_ALIGN: any
 * vector's. */
enum { CLQ_BUFFER_ALIGN = 128 };
clq_status clq_buffer_create(clq_device *device, clq_memory_kind kind, size_t bytes, const char *what,
                             clq_buffer **out);
clq_status clq_buffer_wrap(clq_device *device, cl_mem memory, clq_buffer **out); /* retained */
void clq_buffer_destroy(clq_buffer *buffer);                                     /* takes NULL */
size_t clq_buffer_bytes(const clq_buffer *buffer);
cl_mem clq_buffer_handle(const clq_buffer *buffer);
/* Whether two ranges have bytes in common: also of different memory objects, one of which is a part of the other. */
bool clq_buffers_overlap(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_buffer *b, size_t b_begin,
                         size_t b_bytes);
/* Whether the host may map, read and write it; what a caller made need not be so. */
bool clq_buffer_host_may_use(const clq_buffer *buffer);
clq_device *clq_buffer_device(const clq_buffer *buffer);
/* A pointer that stays valid and coherent between commands, or NULL where the device has no such memory. */
void *clq_buffer_host(const clq_buffer *buffer);
/* Fills the first `bytes` of the device's buffer, which no command uses yet. By the host itself where the memory is its
 * own: what a blocking write left there through another queue than that of a later launch, Intel's runtime (2026.2) on
 * a busy machine at times had not written when the launch read it. */
clq_status clq_buffer_set(clq_device *device, clq_buffer *buffer, const void *from, size_t bytes);
/* A view of a range as a buffer of its own (offset aligned to clq_device_view_align). Destroy before the parent. */
clq_status clq_buffer_view(clq_buffer *parent, size_t offset, size_t bytes, clq_buffer **out);
size_t clq_device_view_align(const clq_device *device); /* bytes; a power of two, at least 64 */
/* A buffer of this device over memory of another one's that the host reaches (clq_buffer_host), where this one shares
 * the host's memory, too. Destroy before the other, which then keeps its memory if this device was lost. Errors:
 * UNSUPPORTED. */
clq_status clq_buffer_alias(clq_device *device, clq_buffer *of, clq_buffer **out);
/* For memory that commands of another device use through clq_buffer_host, if that device was lost: nobody knows whether
 * they are over. clq_buffer_destroy will not give the memory back, and the budget goes on counting it. */
void clq_buffer_keep(clq_buffer *buffer);

uint64_t clq_device_memory_used(const clq_device *device); /* bytes */
uint64_t clq_device_memory_budget(const clq_device *device);

/* Where a transfer does not block, the host's memory (a buffer's clq_buffer_host too) must live until the queue has got
 * past it: after a failure as well, so finish the queue before giving such memory back. Where it blocks, it is done for
 * every queue when the call returns. */
clq_status clq_queue_write(clq_queue *q, clq_buffer *to, size_t offset, const void *from, size_t bytes, bool blocking);
clq_status clq_queue_read(clq_queue *q, const clq_buffer *from, size_t offset, void *to, size_t bytes, bool blocking);
/* Both buffers in the queue's context; ranges must not overlap within one buffer. */
clq_status clq_queue_copy(clq_queue *q, const clq_buffer *from, size_t from_offset, clq_buffer *to, size_t to_offset,
                          size_t bytes);
/* The same three, not blocking, with an order. At least 1 byte. */
clq_status clq_queue_write_after(clq_queue *q, clq_buffer *to, size_t offset, const void *from, size_t bytes,
                                 const clq_order *order);
clq_status clq_queue_read_after(clq_queue *q, const clq_buffer *from, size_t offset, void *to, size_t bytes,
                                const clq_order *order);
clq_status clq_queue_copy_after(clq_queue *q, const clq_buffer *from, size_t from_offset, clq_buffer *to,
                                size_t to_offset, size_t bytes, const clq_order *order);
clq_status clq_queue_fill_zero(clq_queue *q, clq_buffer *to, size_t offset, size_t bytes);
/* Blocking map of a range for the host, for devices whose memory the host can reach. */
clq_status clq_queue_map(clq_queue *q, clq_buffer *buffer, size_t offset, size_t bytes, bool write, void **out);
/* As clq_queue_map for writing all of the range: what it held is lost, and nothing is brought to the host. */
clq_status clq_queue_map_new(clq_queue *q, clq_buffer *buffer, size_t offset, size_t bytes, void **out);
clq_status clq_queue_unmap(clq_queue *q, clq_buffer *buffer, void *pointer);

/* ---- programs and kernels (program.c, cache.c) ---- */

/* A kernel object of its own (arguments are not shared). `file`: base name of a source in cl/ ("gemm_tile"; the
 * prelude is put in front by itself). `options`: -D… and so on, "" for none; with -DUSES_SUB_GROUPS among them the
 * kernels may call functions of sub-groups, and are built for a version of OpenCL C that has these. The program is
 * built once per (device, file, options), from the checksummed binary cache where it holds a good entry. Thread-safe.
 * Errors: BUILD with file, device, driver and the first lines of the log. */
typedef struct clq_kernel clq_kernel;
clq_status clq_kernel_create(clq_device *device, const char *file, const char *options, const char *function,
                             clq_kernel **out);
/* A program to be made. */
typedef struct clq_program_wish {
    const char *file, *options; /* as above */
    const char *kernels;        /* those that it has, with blanks between ("": all): less is compiled */
    const char *text;           /* a source of the caller's own, copied, which `file` then only names; or NULL */
    bool optional; /* the caller can do without. That its compiler refuses it, or does not end, is kept for such devices
                      and their driver, and later wishes for it are UNSUPPORTED at once */
} clq_program_wish;
clq_status clq_kernel_create_among(clq_device *device, const clq_program_wish *program, const char *function,
                                   clq_kernel **out);
void clq_kernel_destroy(clq_kernel *kernel); /* takes NULL */
/* Whether its first launch compiles it: the program was built here, and the driver has COMPILES_AT_LAUNCH. */
bool clq_kernel_is_new(const clq_kernel *kernel);
clq_status clq_kernel_set_buffer(clq_kernel *kernel, uint32_t index, const clq_buffer *buffer);
clq_status clq_kernel_set_bytes(clq_kernel *kernel, uint32_t index, const void *value, size_t bytes); /* scalars */
clq_status clq_kernel_set_local(clq_kernel *kernel, uint32_t index, size_t bytes);
clq_status clq_kernel_max_group(const clq_kernel *kernel, size_t *out);

/* Makes programs ahead of their kernels, on as many threads as there are cores and programs: drivers load binaries side
 * by side. The failure is that of the first program in order that failed, whose index is in *failed then. */
clq_status clq_device_load_programs(clq_device *device, const clq_program_wish *wishes, size_t count, size_t *failed);
/* The text of a program in which kernels of embedded sources are functions that its own kernel, put behind it by the
 * caller, calls (source_text.c): part i's name is `function`_i, and its first six parameters, of type size_t, are its
 * item's ids and the numbers of items in each dimension. For kernels of the TILE family alone. Caller frees with
 * clq_free. UNSUPPORTED where a part's options are more than definitions. */
typedef struct clq_program_part {
    const char *file, *options, *function;
} clq_program_part;
clq_status clq_fused_source(const clq_program_part *parts, size_t count, clq_text *out);
/* Programs that were built from source are kept when the device closes; or now, for other devices to find. PoCL also
 * compiles each kernel when it is launched first (COMPILES_AT_LAUNCH), and keeps what was compiled when it is asked
 * first: so ask when all kernels ran. What cannot be kept is compiled again by who needs it. Errors: TIMEOUT, and the
 * device is lost: its driver compiled for longer than the build deadline. */
bool clq_device_has_unkept(clq_device *device);
clq_status clq_device_keep_programs(clq_device *device);

/* Enqueues. local may be NULL. A global size of 0 in any dimension enqueues nothing. */
clq_status clq_queue_launch(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                            const size_t *local);
/* The same with an order; no global size is 0. */
clq_status clq_queue_launch_after(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                                  const size_t *local, const clq_order *order);

/* What ran from when to when, in clq_now's time. */
typedef struct clq_span {
    const char *scope, *name; /* scope may be NULL */
    const char *key;          /* of `value`; NULL: there is none */
    uint64_t value;
    double begin, end;
} clq_span;
/* A queue with CLQ_QUEUE_TRACE records its launches, and those transfers that are named. On any other queue the next
 * three do nothing.
 * Names the next command; the texts must outlive the queue. A launch without a name has its kernel's. */
void clq_queue_name(clq_queue *queue, const char *scope, const char *name);
void clq_queue_stop_trace(clq_queue *queue); /* what comes is not recorded */
/* For commands that others enqueue: gives `event` where its event is wanted, else NULL; then takes it over. */
cl_event *clq_queue_wants_event(const clq_queue *queue, cl_event *event);
clq_status clq_queue_record(clq_queue *queue, const char *kernel, cl_event event); /* NULL: does nothing */
/* What was recorded so far, at most the first 2^18, in order, in time with the host's clock up to *error_s. Waits for
 * the queue first. Caller frees with clq_free. INTERNAL on a queue without CLQ_QUEUE_TRACE. */
clq_status clq_queue_spans(clq_queue *queue, clq_span **out, size_t *count, double *error_s);

/* The embedded sources (made at build time from cl/): for tests and messages. NULL where there is none. */
const char *clq_source_text(const char *file);

/* For trials: programs that were built since the mark, whose kernels are destroyed, are forgotten, and not kept on disk
 * when the device closes, which may take as long as building them. One thread alone uses the device meanwhile. */
const void *clq_device_mark_programs(const clq_device *device);
void clq_device_drop_programs(clq_device *device, const void *mark);

/* ---- how fast a device is (peak.c) ---- */

/* The rate of a kernel that multiplies and adds in registers alone, in 1e9 operations/s (a fused one counts two): the
 * best of some launches. NaN where it computes wrong. */
clq_status clq_measure_peak(clq_queue *queue, double *gflops);

/* ---- made-up work (load.c) ---- */

/* Kernels for probes: arithmetic in registers alone, or memory that is read, changed and written in place. */
typedef enum clq_load_kind { CLQ_LOAD_ARITHMETIC, CLQ_LOAD_MEMORY } clq_load_kind;
enum { CLQ_LOAD_ROUNDS_MAX = 32768 }; /* some drivers end longer loops */
typedef struct clq_load clq_load;
/* bytes: of the memory that is changed. The queue outlives it. Errors: BUILD, DEVICE_MEMORY, MEMORY, … */
clq_status clq_load_create(clq_queue *queue, clq_load_kind kind, size_t bytes, clq_load **out);
void clq_load_destroy(clq_load *load); /* takes NULL; waits for the queue */
/* Of a round: operations (a fused one counts two), or bytes read and written. */
double clq_load_work(const clq_load *load);
/* 1 to CLQ_LOAD_ROUNDS_MAX rounds of arithmetic are one launch; of memory each is one. Flushes nothing. */
clq_status clq_load_enqueue(clq_load *load, int rounds);
/* Of arithmetic, after some hundred rounds: whether it computes right. Waits. */
clq_status clq_load_check(clq_load *load, bool *ok);

/* ---- known-answer tests (doctor.c) ---- */

/* The quick ones that a device must pass before it is used: arithmetic, a loop beyond 65,535 iterations, a
 * barrier with local memory, copies, memory that is the host's too. *ok and reason tell; the status is for failures of
 * the test itself. */
clq_status clq_device_self_test(clq_device *device, bool *ok, char *reason, size_t reason_bytes);
/* All of the device layer's checks, for `clique doctor`; up to capacity rows. The layers above add theirs. */
clq_status clq_device_checks(clq_device *device, clq_check *rows, size_t capacity, size_t *count);

#endif
