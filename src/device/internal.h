/* Shared by the files of src/device only. */
#ifndef CLQ_DEVICE_PRIVATE_H
#define CLQ_DEVICE_PRIVATE_H

#include "device/device.h"

enum { CLQ_LABEL_MAX = CLQ_NAME_MAX + 48 };

/* ---- OpenCL's answers in words (opencl.c) ---- */

const char *clq_cl_error_name(cl_int error); /* "CL_OUT_OF_RESOURCES", or "an unknown error" */
/* Fails with "LABEL: what: CL_NAME (-n)"; `what` is the formatted text. */
clq_status clq_cl_fail(const clq_device *device, cl_int error, const char *format, ...) CLQ_PRINTF(3, 4);
/* As clq_cl_fail, for the error of a command that failed while it ran. If the error means that the device is gone, the
 * device is lost from then on. */
clq_status clq_cl_fail_running(clq_device *device, cl_int error, const char *format, ...) CLQ_PRINTF(3, 4);
/* As clq_cl_fail, for a failure after which nobody can know what the device still does. The device is lost, whatever
 * the error. */
clq_status clq_cl_fail_lost(clq_device *device, cl_int error, const char *what);
/* CLQ_OK, or the failure that every call on a lost device returns. */
clq_status clq_device_alive(const clq_device *device);
clq_status clq_fail_stuck(const char *label, const clq_build_limit *limit); /* a driver's compiler did not end */
/* The most bytes that are read of a property. A longer one is cut or reads as "": drivers differ. */
enum { CLQ_PROPERTY_MAX = 16384 };
/* Reads a string property without the blanks at its ends, cut to `bytes`. "" if the driver does not answer. */
void clq_cl_device_text(cl_device_id id, cl_device_info what, char *out, size_t bytes);
void clq_cl_platform_text(cl_platform_id id, cl_platform_info what, char *out, size_t bytes);
/* False if the driver does not answer; *out is then unchanged. */
bool clq_cl_device_value(cl_device_id id, cl_device_info what, void *out, size_t bytes);
cl_uint clq_cl_device_uint(cl_device_id id, cl_device_info what, cl_uint otherwise); /* a number or a cl_bool */
bool clq_cl_has_extension(cl_device_id id, const char *extension);
/* Whether `word` is in a list of words. Any character of `separator` separates words; clq_words_have takes blanks, as
 * in lists of extensions. */
bool clq_list_has(const char *list, const char *separator, const char *word, size_t length);
bool clq_words_have(const char *words, const char *word);

/* ---- the table of devices (system.c, driver.c) ---- */

/* Bits of `stuck`. CLQ_STUCK: a driver's compiler did not end, and all devices are lost. CLQ_STUCK_NOTED: the program
 * is noted, too, so that the next process does not build it. */
enum { CLQ_STUCK = 1, CLQ_STUCK_NOTED = 2 };

typedef struct clq_device_entry {
    clq_device_info info;
    cl_platform_id platform;
    cl_device_id id;
    uint32_t ordinal; /* counts the devices of its driver, from 0: the 1 of pocl:1 */
    bool tested;
    double rate;                         /* the result of clq_system_rate; 0: nobody has asked yet */
    bool needed;                         /* in a recalled system: the SPEC selects this device */
    _Atomic(clq_device *) tested_device; /* open, for the next caller that opens this entry; NULL: none */
} clq_device_entry;

struct clq_system {
    char *cache_dir; /* NULL: no cache on disk */
    uint64_t memory_limit;
    double build_deadline_s;
    atomic_uint stuck; /* CLQ_STUCK and CLQ_STUCK_NOTED; 0: no compiler is stuck */
    size_t count;
    clq_device_entry *entries;
    bool recalled;        /* entries without an id belong to drivers that were not opened (recall.c) */
    clq_hash128 list_key; /* only if recalled: the key of the stored list */
};

/* keep: stores the list of all devices for clq_system_recall. forget: a recalled system's list must not be used again;
 * clq_system_recall finds none from then on, until something changes that the list depends on. */
void clq_system_keep_list(const clq_system *system);
void clq_system_forget_list(const clq_system *system);
/* Checks that every device that the system was recalled for is there, now that its driver is open. Errors: NO_DEVICE,
 * which names the first missing device; the stored list is then removed. */
clq_status clq_system_check_recalled(const clq_system *system);

/* Fills all of `info` except its index. */
void clq_describe_device(cl_platform_id platform, cl_device_id id, clq_device_info *info);
/* Whether two PCI addresses of clq_device_info may be the same. An address without a domain ("02:00.0") matches every
 * domain; "" matches nothing. */
bool clq_pci_same(const char *a, const char *b);
/* Runs the self-test of a device that has not had it. A device that fails is no error. Errors: MEMORY. */
clq_status clq_system_test_device(clq_system *system, size_t index);
/* Takes the entry's open device, which then belongs to the caller. NULL: there is none. */
clq_device *clq_system_take_tested(clq_system *system, uint32_t index);
/* The device's speed in about 1e9 operations a second (clq_measure_peak). The first measurement is stored, so that
 * every run gets the same number. NaN if the speed cannot be known. Opens the device. (rate.c) */
clq_status clq_system_rate(clq_system *system, uint32_t index, double *gflops);
/* "pocl:0 (name)" */
void clq_entry_label(const clq_device_entry *entry, char *out, size_t bytes);
/* The most equal parts that the device can be split into; 1 if it cannot be split. */
uint32_t clq_device_parts_max(const clq_device_entry *entry);
/* The sub-device that `choice` selects. Every call returns the same id, which is never released. Any thread.
 * (part.c) */
clq_status clq_device_part(const clq_device_entry *entry, clq_device_choice choice, cl_device_id *out);

/* A row of the table of quirks (quirks.c). A device has the quirk if it matches driver, on, name and before. */
typedef struct clq_quirk_row {
    clq_quirk quirk;
    const char *driver; /* its tag; "*": any */
    enum { CLQ_QUIRK_ON_ALL, CLQ_QUIRK_ON_CPUS } on;
    const char *name; /* how the device's name begins; "": any */
    unsigned before;  /* only major versions below this one, and unknown versions; 0: all versions */
    const char *reason, *seen;
} clq_quirk_row;
const clq_quirk_row *clq_quirk_rows(size_t *count);
/* The quirks of a device as bits, 1 << quirk. platform_version: CL_PLATFORM_VERSION. */
uint32_t clq_quirks_of(const clq_device_info *info, const char *platform_version);

/* The indices of the devices that "auto" chooses (auto.c). */
clq_status clq_select_auto(clq_system *system, uint32_t out[CLQ_REPLICAS_MAX], uint32_t *count);

/* ---- fine-grained shared memory: calls of OpenCL 2.0, only after a probe (svm.c) ---- */

bool clq_svm_probe(cl_platform_id platform, cl_device_id id);
void *clq_svm_alloc(cl_context context, size_t bytes); /* NULL on failure */
void clq_svm_free(cl_context context, void *block);

/* ---- the options that programs are built with (options.c) ---- */

/* What a driver says about its compiler. */
enum { CLQ_C_VERSIONS_MAX = 16 };
typedef struct clq_compiler_facts {
    const char *extensions; /* CL_DEVICE_EXTENSIONS */
    const char *c_version;  /* CL_DEVICE_OPENCL_C_VERSION: "OpenCL C 2.0 …" */
    size_t c_version_count; /* entries of CL_DEVICE_OPENCL_C_ALL_VERSIONS; 0: the driver does not know this query */
    uint32_t c_versions[CLQ_C_VERSIONS_MAX]; /* major << 22 | minor << 12 | patch */
} clq_compiler_facts;
/* The -cl-std option for kernels that call sub-group functions. NULL: the compiler has no such functions. */
const char *clq_sub_group_standard(const clq_compiler_facts *facts);
const char *clq_sub_group_standard_of(cl_device_id id);
/* All options for building a program: the common ones, and `own`, the program's (see clq_kernel_create). The caller
 * frees them with clq_free. NULL: there is no memory. */
char *clq_build_options(const clq_device *device, const char *own);

/* ---- opened devices ---- */

/* Tells other processes that this one builds or loads a program; see claim.c. */
typedef struct clq_claim {
    int file;              /* holds all claims of a cache; borrowed */
    long long place, mark; /* offsets in the file: of the byte that is locked, and of the byte of data */
    bool held, alone;      /* not held: the calls below do nothing; alone: no other process has the place */
    bool marked;           /* shares the mark; the last process that shares it clears it */
    unsigned attempt;      /* how many processes are known to have died while they made the program */
} clq_claim;
/* Opens the file of a cache's claims. -1: there is no writable folder for it. close takes -1. */
int clq_claims_open(const char *cache_dir);
void clq_claims_close(int claims);
/* Begins a claim. While another process has the program to itself, waits, for a minute at most. True if the last
 * process that had the program died over it: then do not load what the cache holds of the program. Any thread. */
bool clq_claim_begin(int claims, clq_hash128 place, clq_hash128 key, clq_claim *out);
void clq_claim_share(clq_claim *claim); /* lets other processes build or load it, too, from now on */
void clq_claim_end(clq_claim *claim);
/* Ends the claim when the driver does not return from building the program, perhaps as long as the process lives. The
 * effect is that of the process's death: nobody waits, and the next process makes the program anew, with an attempt
 * number of its own. */
void clq_claim_leave(clq_claim *claim);
/* Makes the next process treat the program as one that a process died over, since something is wrong with it. Call this
 * after the claim has ended. Does not wait for a process that has the program to itself: that process's own mark says
 * the same until it is done. */
void clq_claim_distrust(int claims, clq_hash128 place, clq_hash128 key);

/* Whether a binary from PoCL is complete, if its format is known. True for all other binaries. (pocl_binary.c) */
bool clq_pocl_binary_is_whole(const void *binary, size_t bytes);

/* A built program of a device (program.c). */
typedef struct clq_program {
    struct clq_program *next;
    clq_hash128 key;
    clq_hash128 place;    /* a hash of what drivers' own caches know it by: the driver, the options and the source */
    clq_claim claim;      /* held until the program is stored and its kernels have run, or until the device closes */
    bool claim_ended;     /* the claim was held and has ended; it may be held again. False if it was never obtained */
    atomic_uint objects;  /* kernel objects made from the program */
    atomic_uint launched; /* of these, the ones that were launched */
    cl_program program;   /* NULL while a thread makes it */
    bool unsaved;         /* built from source, and not completely in the cache yet */
    bool refused;         /* the cache's binary is complete, but the driver did not take it */
    bool optional;        /* from the wish */
    bool from_source;     /* built here, not loaded */
    bool bad;             /* the compiler refused it */
    bool explained;       /* bad, and the compiler gave a log */
    bool early;           /* its binary was asked for before its kernels ran: the cache may lack what they compiled */
    bool begun;           /* a launch of one of its kernels has begun; under the device's lock */
    char *file;           /* for messages */
    const char *text;     /* its source: an embedded text, or own_text */
    char *own_text;       /* NULL: the source is embedded */
    char *kernels;        /* the kernels that it has, with blanks between; "": all of the source's */
    char *options;        /* from clq_build_options */
    char *built_options;  /* the options that it was built with here; NULL if it was loaded */
} clq_program;

struct clq_device {
    clq_device_info info;
    char label[CLQ_LABEL_MAX];
    char platform_version[CLQ_NAME_MAX];
    uint32_t quirks; /* from clq_quirks_of */
    cl_device_id id;
    cl_context context;
    int twin; /* the device's number in twin.c; -1: it needs none */
    size_t view_align;
    uint32_t sub_group_sizes;      /* the possible sizes of sub-groups, powers of two, added up; 0: none */
    bool sub_group_size_is_wanted; /* whether a kernel must ask for its size */
    clq_matrix_unit matrix_unit;
    const char *sub_group_standard; /* from clq_sub_group_standard_of */
    char *cache_dir;                /* NULL: no cache on disk */
    int claims;                     /* from clq_claims_open */
    atomic_uint claimed;            /* how many programs' claims are held */
    clq_build_limit build;
    atomic_bool ran_new; /* since the last clq_programs_ran, a kernel object was launched for the first time */
    uint64_t memory_budget;
    _Atomic uint64_t memory_used;
    atomic_flag loss_claimed;
    atomic_bool lost;
    char loss[CLQ_REASON_MAX]; /* why it was lost; written once, before `lost` is set */
    pthread_mutex_t lock;      /* guards programs, trial_results, service and the views of buffers */
    pthread_mutex_t building;  /* see clq_building_begin; twins use one lock together instead */
    pthread_cond_t built;      /* signals that a program was made, or failed */
    clq_program *programs;
    struct clq_trial_result *trial_results; /* under `lock` */
    size_t trial_result_count;
    cl_command_queue service; /* fills and maps buffers (buffer.c); made at its first use, under `lock` */
};

/* If the driver needs it, gives the device the lowest twin number that no other open device has (twin.c). */
clq_status clq_twin_take(clq_device *device);
/* Call this when the device is complete: its twins, in other threads, may then ask it for programs. */
void clq_twin_join(clq_device *device);
/* leave: call this before the device's programs are released; no twin asks it for programs from then on. return: call
 * this after their release. */
void clq_twin_leave(clq_device *device);
void clq_twin_return(int twin); /* takes -1 */
/* Writes the twin's number into a program's binary. False if the binary's format is not known and another twin may have
 * built it. */
bool clq_twin_name(int twin, unsigned char *binary, size_t bytes);
/* Call this between clq_building_begin and clq_building_end. A twin that has built the program stores it now, so that
 * this device can load it. Errors: TIMEOUT. */
clq_status clq_twin_ask(const clq_device *device, clq_hash128 key);

/* Lock and unlock around building a program from source, so that one device, or all twins together, build one program
 * at a time. They do nothing if the driver builds several programs in parallel, as GPU drivers do. Take this lock
 * before any device's `lock`. (program_load.c) */
void clq_building_begin(clq_device *device);
void clq_building_end(clq_device *device);

/* The values of clq_device's sub_group_sizes, sub_group_size_is_wanted (*wanted) and matrix_unit. (sub_group.c) */
uint32_t clq_sub_group_sizes(cl_device_id id, bool *wanted);
clq_matrix_unit clq_matrix_unit_of(cl_device_id id, uint32_t sub_group_sizes);

/* A copy of the text with only the named kernels, on the same lines as before. kernels: with blanks between; "": all.
 * NULL: there is no memory. (source_text.c) */
char *clq_wanted_source(const char *text, const char *kernels);
/* Rewrites such a text so that each kernel only calls a function, which does the kernel's work (source_text.c). Some
 * compilers make several functions of a kernel (PoCL makes three, with all that is inlined into them). They then
 * compile the work only once.
 *
 * Put the result behind clq_items_prelude and the prelude. `tile`: kernels declared with KERNEL are of the TILE family,
 * too. Errors: UNSUPPORTED if a kernel is of another family, or if macros make its parameters; the text is then of no
 * use. */
clq_status clq_called_source(const char *wanted, bool tile, clq_text *out);
extern const char clq_items_prelude[];

/* The part of the self-test that a caller's device needs: whether the device shares the host's memory as it says. If
 * the memory is not coherent, the device stops sharing it. (doctor.c) */
clq_status clq_device_test_host_memory(clq_device *device);

/* Releases the table of programs, and stores those that the cache does not hold yet. */
void clq_programs_close(clq_device *device);
/* Stores a program for twins that want it before its kernels are launched here, if it was built here and is not stored
 * yet. Does nothing if the program may be running: its binary must not be asked for then (twin.c). Errors: TIMEOUT, as
 * in clq_program_binary. */
clq_status clq_programs_offer(clq_device *device, clq_hash128 key);
/* Finds the program, or makes it at its first use. The device's table owns it. */
clq_status clq_program_get(clq_device *device, const clq_program_wish *wish, clq_program **out);
/* Leaves the program's claim (clq_claim_leave): the driver did not return from the program. */
void clq_program_leave(clq_device *device, clq_program *entry);
/* Call this before the first launch of a kernel object: clq_programs_offer leaves the program alone from then on. Waits
 * while a twin asks for the program, and fails if the device was lost meanwhile. */
clq_status clq_program_begin(clq_device *device, clq_program *entry);
/* Call this when a kernel object was made from the program. If the program's claim has ended, begins it again: the
 * driver may use its own cache for each kernel. */
void clq_program_claim_again(clq_device *device, clq_program *entry);
/* Ends the claims of stored programs all of whose kernel objects were launched. Call this when a command of the device
 * was waited for and is done. Costs nothing if no kernel object was launched for the first time since the last call. */
void clq_programs_ran(clq_device *device);

/* ---- building with a deadline (deadline.c) ---- */

/* clBuildProgram for the device, within its build deadline. *error is what clBuildProgram returned. Errors: TIMEOUT.
 * Then the driver works on, and all devices of the system are lost. If the program is optional and was not built
 * before, it is also noted as one that does not build. */
clq_status clq_program_build(clq_device *device, clq_program *entry, cl_program program, const char *options,
                             cl_int *error);
/* Gets the program's binary within the build deadline; the caller frees it with clq_free. The driver may compile
 * kernels for it that were not launched yet. Errors: TIMEOUT, as in clq_program_build, but nothing is noted, and the
 * caller must leave the program's claim. */
clq_status clq_program_binary(clq_device *device, const clq_program *entry, unsigned char **out, size_t *bytes);
/* Whether the driver would compile the kernel in a launch now, and the queue's commands before it end by themselves,
 * without waiting for events. */
bool clq_launch_compiles(const clq_queue *queue, const clq_kernel *kernel);
/* Makes such a launch and waits for it. *event belongs to the caller; `event` may be NULL. Errors: TIMEOUT, as in
 * clq_program_build. */
clq_status clq_launch_compiling(clq_queue *queue, const clq_kernel *kernel, cl_uint dims, const size_t *global,
                                const size_t *local, cl_event *event);
/* The device is lost from now on. `why` goes into the message of every later call on it. */
void clq_device_lose(clq_device *device, const char *why);

/* Opens `count` devices in one shared context. clq_device_open uses it for one device. */
clq_status clq_devices_open_shared(clq_system *system, const clq_device_choice *choices, uint32_t count,
                                   clq_device **out);

/* Adds to the text all that the list of devices depends on, except the drivers' libraries. (recall.c) */
void clq_machine_describe(clq_text *text);

/* ---- the cache on disk: program binaries, and other things in folders of their own (cache.c) ---- */

/* The folder of programs and of their claims, in the cache folder. */
extern const char clq_programs_folder[];
/* Reads the payload of entry `key`, if its file is intact and holds this entry. *out: the caller frees it; NULL: there
 * is no such entry. */
clq_status clq_cache_load(const char *cache_dir, const char *folder, clq_hash128 key, void **out, size_t *bytes);
clq_status clq_cache_store(const char *cache_dir, const char *folder, clq_hash128 key, const void *data, size_t bytes);
/* Hashes a text that describes an entry, and frees the text. */
clq_status clq_cache_key(clq_text *text, clq_hash128 *out);
/* Removes the entry, if there is one. */
void clq_cache_drop(const char *cache_dir, const char *folder, clq_hash128 key);
bool clq_cache_has(const char *cache_dir, const char *folder, clq_hash128 key);

/* ---- queues ---- */

typedef struct clq_trace clq_trace; /* trace.c */

struct clq_queue {
    clq_device *device;
    cl_command_queue handle;
    cl_event last_wait; /* the marker of the last clq_queue_wait; NULL: there is none */
    bool waits;         /* commands waited, or may have waited, for events, so the queue may not end by itself */
    clq_trace *trace;   /* NULL unless CLQ_QUEUE_TRACE */
};

clq_status clq_trace_start(clq_queue *queue);                  /* once the queue's handle exists */
void clq_trace_destroy(clq_trace *trace, bool release_events); /* takes NULL */
/* Whether the queue traces its next command, and whether that command has a name: a transfer is traced only if it
 * has. */
bool clq_queue_traces(const clq_queue *queue);
bool clq_queue_traces_named(const clq_queue *queue);

/* How one command is enqueued: what it waits for, as the driver takes it, and where its event goes. Do not copy it:
 * `waits` and `wanted` point into it. */
typedef struct clq_enqueue {
    clq_queue *queue;
    const clq_order *order; /* may be NULL */
    bool recorded;          /* the queue records the command in its trace */
    cl_uint wait_count;
    cl_event after[CLQ_AFTER_MAX];
    const cl_event *waits; /* `after`, or NULL if wait_count is 0, as drivers want it */
    cl_event event;
    cl_event *wanted; /* for the driver: &event, or NULL if nobody wants the event */
} clq_enqueue;
void clq_enqueue_begin(clq_queue *queue, const clq_order *order, bool recorded, clq_enqueue *out);
/* Call this when the command is enqueued: gives its event to the order, and to the queue's trace under this name
 * (clq_queue_record). */
clq_status clq_enqueue_end(clq_enqueue *enqueue, const char *name);

struct clq_event {
    clq_device *device;
    cl_event handle;
    bool wrapped; /* wraps a caller's event: the caller may not have flushed the queue */
};
/* Whether an event that should be complete has failed, as a status. `what` names the command in the message. */
clq_status clq_event_check(clq_device *device, cl_event event, const char *what);

/* ---- buffers ---- */

typedef struct clq_view clq_view;
void clq_views_release(clq_view *newest); /* releases the driver's objects; NULL: none */
void clq_views_free(clq_view *newest);    /* frees the host's list of them */

struct clq_buffer {
    clq_device *device;
    cl_mem handle;
    size_t bytes;
    cl_mem root;       /* the memory object that it is a part of, from byte `begin` on; or its own handle */
    size_t begin;      /* 0 if root is the handle */
    bool host_may_not; /* a wrapped cl_mem that was made without full host access */
    char *host;        /* clq_buffer_host; NULL: the host cannot reach the memory between commands */
    bool mapped;       /* `host` comes from a map that must be undone */
    uint64_t counted;  /* the bytes that count against the budget */
    bool is_view;      /* the handle belongs to the parent buffer */
    bool kept;         /* a lost device may still use the memory, which is never given back */
    clq_buffer *of;    /* in an alias: the buffer that has the memory; otherwise NULL */
    clq_view *views;   /* the views of this buffer, the newest first; see view.c */
};

struct clq_kernel {
    clq_device *device;
    cl_kernel handle;
    clq_program *program;
    bool launched;
    char name[64];
};

#endif
