/* Shared by the files of src/device only. */
#ifndef CLQ_DEVICE_PRIVATE_H
#define CLQ_DEVICE_PRIVATE_H

#include "device/device.h"

enum { CLQ_LABEL_MAX = CLQ_NAME_MAX + 48 };

/* ---- OpenCL's answers in words (opencl.c) ---- */

const char *clq_cl_error_name(cl_int error); /* "CL_OUT_OF_RESOURCES", or "an unknown error" */
/* Fails with "LABEL: what: CL_NAME (-n)". */
clq_status clq_cl_fail(const clq_device *device, cl_int error, const char *format, ...) CLQ_PRINTF(3, 4);
/* The same for errors that a command met while it ran: those that mean that the device is gone quarantine it. */
clq_status clq_cl_fail_running(clq_device *device, cl_int error, const char *format, ...) CLQ_PRINTF(3, 4);
/* The same where nobody can know any more what the device still does: it is quarantined, whatever the error. */
clq_status clq_cl_fail_lost(clq_device *device, cl_int error, const char *what);
/* CLQ_OK, or the failure of every call on a device that is quarantined. */
clq_status clq_device_alive(const clq_device *device);
clq_status clq_fail_stuck(const char *label, const clq_build_limit *limit); /* a driver's compiler did not end */
/* Properties of devices and platforms are shorter than this; one that is not is cut. */
enum { CLQ_PROPERTY_MAX = 16384 };
/* A string property, cut to fit, with blanks at its ends removed; "" where the driver does not answer. */
void clq_cl_device_text(cl_device_id id, cl_device_info what, char *out, size_t bytes);
void clq_cl_platform_text(cl_platform_id id, cl_platform_info what, char *out, size_t bytes);
/* False, and *out is unchanged, where the driver does not answer. */
bool clq_cl_device_value(cl_device_id id, cl_device_info what, void *out, size_t bytes);
cl_uint clq_cl_device_uint(cl_device_id id, cl_device_info what, cl_uint otherwise); /* of a number or a cl_bool */
bool clq_cl_has_extension(cl_device_id id, const char *extension);
/* Whether a word is in a list of words with separators between; _words_: with blanks, as extensions are listed. */
bool clq_list_has(const char *list, const char *separator, const char *word, size_t length);
bool clq_words_have(const char *words, const char *word);

/* ---- the table of devices (system.c, driver.c) ---- */

/* A compiler of a driver did not end, and all devices are lost; and the next run knows of the program. */
enum { CLQ_STUCK = 1, CLQ_STUCK_NOTED = 2 };

typedef struct clq_device_entry {
    clq_device_info info;
    cl_platform_id platform;
    cl_device_id id;
    uint32_t ordinal; /* among the devices of its driver: the 1 of pocl:1 */
    bool tested;
    double rate;                         /* clq_system_rate's, once it was asked; 0: it was not */
    bool needed;                         /* of a recalled system: selected by the SPEC that it was recalled for */
    _Atomic(clq_device *) tested_device; /* has passed, and is for the first who opens it */
} clq_device_entry;

struct clq_system {
    char *cache_dir; /* NULL: no cache on disk */
    uint64_t memory_limit;
    double build_deadline_s;
    atomic_uint stuck; /* CLQ_STUCK… */
    size_t count;
    clq_device_entry *entries;
    bool recalled;        /* the entries without an id are of drivers that were left alone (recall.c) */
    clq_hash128 list_key; /* where recalled */
};

/* Keeps the list of all devices for clq_system_recall; makes that one's next tries give nothing. */
void clq_system_keep_list(const clq_system *system);
void clq_system_forget_list(const clq_system *system);
/* Whether all the devices that a system was recalled for are there, now that its driver is open. Errors: NO_DEVICE,
 * naming the first one that is not; the list of devices is dropped then. */
clq_status clq_system_check_recalled(const clq_system *system);

/* Fills `info` but for its index. */
void clq_describe_device(cl_platform_id platform, cl_device_id id, clq_device_info *info);
/* Whether two addresses of clq_device_info may be the same: "02:00.0" has a domain that is not known; "" is none. */
bool clq_pci_same(const char *a, const char *b);
/* Runs the self-test of one device if it had none. The status is for failures outside the device. */
clq_status clq_system_test_device(clq_system *system, size_t index);
/* The device that was opened for the test, once: the caller's. NULL where there is none. */
clq_device *clq_system_take_tested(clq_system *system, uint32_t index);
/* About how many 1e9 operations a second the device does (clq_measure_peak), as it was measured first and kept, so that
 * every run is told the same; NaN where that cannot be known. Opens the device. (rate.c) */
clq_status clq_system_rate(clq_system *system, uint32_t index, double *gflops);
/* "pocl:0 (name)" */
void clq_entry_label(const clq_device_entry *entry, char *out, size_t bytes);
/* How many equal parts the device can be split into at most; 1 where it cannot be split. */
uint32_t clq_device_parts_max(const clq_device_entry *entry);
/* The part of the device that is chosen: the same id at each call, never released. Any thread. (part.c) */
clq_status clq_device_part(const clq_device_entry *entry, clq_device_choice choice, cl_device_id *out);

/* A row of the table of quirks (quirks.c): devices of the driver, or of any ("*"), whose names begin with `name`. */
typedef struct clq_quirk_row {
    clq_quirk quirk;
    const char *driver; /* its tag */
    enum { CLQ_QUIRK_ON_ALL, CLQ_QUIRK_ON_CPUS } on;
    const char *name;
    unsigned before; /* major versions below this, and such that are not known; 0: all */
    const char *reason, *seen;
} clq_quirk_row;
const clq_quirk_row *clq_quirk_rows(size_t *count);
/* The quirks of a device, a bit for each: 1 << quirk. platform_version: CL_PLATFORM_VERSION. */
uint32_t clq_quirks_of(const clq_device_info *info, const char *platform_version);

/* The indices that "auto" chooses (auto.c). */
clq_status clq_select_auto(clq_system *system, uint32_t out[CLQ_REPLICAS_MAX], uint32_t *count);

/* ---- fine-grained shared memory, an OpenCL 2.0 call behind a probe (svm.c) ---- */

bool clq_svm_probe(cl_platform_id platform, cl_device_id id);
void *clq_svm_alloc(cl_context context, size_t bytes); /* NULL on failure */
void clq_svm_free(cl_context context, void *block);

/* ---- what programs are built with (options.c) ---- */

/* What a driver says of its compiler. */
enum { CLQ_C_VERSIONS_MAX = 16 };
typedef struct clq_compiler_facts {
    const char *extensions; /* CL_DEVICE_EXTENSIONS */
    const char *c_version;  /* CL_DEVICE_OPENCL_C_VERSION: "OpenCL C 2.0 …" */
    size_t c_version_count; /* of CL_DEVICE_OPENCL_C_ALL_VERSIONS; 0 where the driver does not know the question */
    uint32_t c_versions[CLQ_C_VERSIONS_MAX]; /* major << 22 | minor << 12 | patch */
} clq_compiler_facts;
/* The version of OpenCL C, as an option, of kernels that call functions of sub-groups. NULL: the compiler has no such
 * functions. */
const char *clq_sub_group_standard(const clq_compiler_facts *facts);
const char *clq_sub_group_standard_of(cl_device_id id);
/* All options that a program is built with, of which it has its own (see clq_kernel_create). Caller frees with
 * clq_free; NULL: there is no memory. */
char *clq_build_options(const clq_device *device, const char *own);

/* ---- opened devices ---- */

/* That this process builds or loads a program; see claim.c. */
typedef struct clq_claim {
    int file;              /* of all claims */
    long long place, mark; /* where in it: the byte that is locked, and the byte of data */
    bool held, alone;      /* held: has the place, else the calls below do nothing; alone: no other has it */
    bool marked;           /* shares the mark, which the last process that shares it clears */
    unsigned attempt;      /* how many processes died over the program, as far as it is known */
} clq_claim;
/* The file of a cache's claims; -1 where there is none: no folder that can be written. close takes -1. */
int clq_claims_open(const char *cache_dir);
void clq_claims_close(int claims);
/* Waits while another process has the program to itself, a minute at most. True where the one that had it last died
 * over it: what the cache holds of the program is not to be loaded then. Any thread. */
bool clq_claim_begin(int claims, clq_hash128 place, clq_hash128 key, clq_claim *out);
void clq_claim_share(clq_claim *claim); /* others may build or load it beside this process */
void clq_claim_end(clq_claim *claim);
/* The driver does not come back from the program, and may be at it for as long as the process lives: ends the claim as
 * the process's death would, so that nobody waits, and the next one makes the program anew and as another one. */
void clq_claim_leave(clq_claim *claim);
/* Something is wrong with the program: the next process takes one that made it for dead. Does not wait for a process
 * that has the program to itself: its own mark says the same until it is done. Of a claim that was ended. */
void clq_claim_distrust(int claims, clq_hash128 place, clq_hash128 key);

/* Whether a binary of PoCL's has all that was in it, where its form is known; true of what is not PoCL's.
 * (pocl_binary.c) */
bool clq_pocl_binary_is_whole(const void *binary, size_t bytes);

/* A built program of a device (program.c). */
typedef struct clq_program {
    struct clq_program *next;
    clq_hash128 key;
    clq_hash128 place;    /* of its source and options alone: what drivers' caches know it by */
    clq_claim claim;      /* held until it is kept and its kernels ran, or the device closes */
    bool claim_ended;     /* it was held, and may be again; not so if the process failed to get it */
    atomic_uint objects;  /* kernel objects that were made of it */
    atomic_uint launched; /* those of them that were launched */
    cl_program program;   /* NULL while a thread makes it */
    bool unsaved;         /* built from source: the cache does not hold all of it yet */
    bool refused;         /* the cache's binary is whole, and the driver did not take it */
    bool optional;        /* as of the wish */
    bool from_source;     /* built, not loaded */
    bool bad;             /* the compiler refused it, */
    bool explained;       /* and said why */
    bool early;           /* what the cache holds of it was asked for before all its kernels may have run */
    bool begun;           /* a launch of one of its kernels was begun; under the device's lock */
    char *file;           /* named in messages */
    const char *text;     /* its source: the library's, or own_text */
    char *own_text;
    char *kernels;       /* those that it has, with blanks between; "": all of the source */
    char *options;       /* clq_build_options' */
    char *built_options; /* unsaved: what it was built with */
} clq_program;

struct clq_device {
    clq_device_info info;
    char label[CLQ_LABEL_MAX];
    char platform_version[CLQ_NAME_MAX];
    uint32_t quirks; /* clq_quirks_of's */
    cl_device_id id;
    cl_context context;
    int twin; /* see twin.c; -1: none */
    size_t view_align;
    uint32_t sub_group_sizes;      /* the sum of those that sub-groups can have, each a power of two */
    bool sub_group_size_is_wanted; /* whether kernels ask for theirs */
    clq_matrix_unit matrix_unit;
    const char *sub_group_standard; /* clq_sub_group_standard_of's */
    char *cache_dir;                /* NULL: none */
    int claims;                     /* see claim.c */
    atomic_uint claimed;            /* programs whose claim is held */
    clq_build_limit build;
    atomic_bool ran_new; /* a kernel object was launched for the first time since clq_programs_ran looked */
    uint64_t memory_budget;
    _Atomic uint64_t memory_used;
    atomic_flag loss_claimed;
    atomic_bool lost;
    char loss[CLQ_REASON_MAX]; /* why; written once, before `lost` is set */
    pthread_mutex_t lock;      /* programs, results of trials, service */
    pthread_mutex_t building;  /* see clq_building_begin; not of twins */
    pthread_cond_t built;      /* a program was made, or failed */
    clq_program *programs;
    struct clq_trial_result *trial_results; /* under `lock` */
    size_t trial_result_count;
    cl_command_queue service; /* for the fills and maps of buffer.c; made on first use, under `lock` */
};

/* Gives a device the lowest number that no other opened device holds, where the driver needs one (twin.c). */
clq_status clq_twin_take(clq_device *device);
/* Once the device is whole: from then on its twins, in other threads, may ask it for programs. */
void clq_twin_join(clq_device *device);
/* The first before the device's programs go: from then on no twin asks it for one. The other when they are gone. */
void clq_twin_leave(clq_device *device);
void clq_twin_return(int twin); /* takes -1 */
/* Makes a program's binary this twin's own; false where its form is not known, and another twin may have built it. */
bool clq_twin_name(int twin, unsigned char *binary, size_t bytes);
/* While building: a twin that has built the program keeps it now, for this one to find. TIMEOUT. */
clq_status clq_twin_ask(const clq_device *device, clq_hash128 key);

/* Around building a program from source: one at a time, of all twins, or of a device. Does nothing where the driver
 * builds several programs at once, as those of GPUs do. Taken before any device's lock. (program_load.c) */
void clq_building_begin(clq_device *device);
void clq_building_end(clq_device *device);

/* What `sub_group_sizes` and the next say of a device. (sub_group.c) */
uint32_t clq_sub_group_sizes(cl_device_id id, bool *wanted);
clq_matrix_unit clq_matrix_unit_of(cl_device_id id, uint32_t sub_group_sizes);

/* The text with only the named kernels in it, on the lines where they were; "": all. NULL without memory.
 * (source_text.c) */
char *clq_wanted_source(const char *text, const char *kernels);
/* The same text, in which each kernel only calls a function that does its work. A compiler that makes several functions
 * of a kernel (PoCL makes three, with all that is inlined into them) then compiles the work once. Stands behind
 * clq_items_prelude and the prelude. `tile`: KERNEL is of the TILE family, too. UNSUPPORTED, and the text is of no use,
 * if a kernel is of another family, or if macros make its parameters. (source_text.c) */
clq_status clq_called_source(const char *wanted, bool tile, clq_text *out);
extern const char clq_items_prelude[];

/* The part of the self-test that a caller's device needs: whether its memory is the host's as it says. (doctor.c) */
clq_status clq_device_test_host_memory(clq_device *device);

/* Releases the program table, saving what the cache does not hold yet. */
void clq_programs_close(clq_device *device);
/* Keeps the program, if it was built here and not kept yet, for others that want it before its kernels are launched.
 * One that may be running is not asked for its binary: see twin.c. TIMEOUT: as of clq_program_binary. */
clq_status clq_programs_offer(clq_device *device, clq_hash128 key);
/* Built on first use. The device's table owns it. */
clq_status clq_program_get(clq_device *device, const clq_program_wish *wish, clq_program **out);
/* The driver did not come back from the program: what becomes of its claim. */
void clq_program_leave(clq_device *device, clq_program *entry);
/* Before the first launch of a kernel object: from then on the program is not offered. Fails if the device was lost
 * while this waited for a twin that asks for the program. */
clq_status clq_program_begin(clq_device *device, clq_program *entry);
/* A kernel object was made of the program. If the program's claim has ended, it is held again: the driver may look into
 * its cache for each kernel. */
void clq_program_claim_again(clq_device *device, clq_program *entry);
/* Ends the claims of kept programs all of whose kernel objects were launched: a command of the device was waited for,
 * and is done. Costs nothing where no kernel object was launched for the first time since the last call. */
void clq_programs_ran(clq_device *device);

/* ---- building with a deadline (deadline.c) ---- */

/* clBuildProgram for the device, within its build deadline; *error is what the call gave. TIMEOUT: the driver works on,
 * all devices of the system are lost, and if the program is optional and was not built before, it is noted as one that
 * does not build. */
clq_status clq_program_build(clq_device *device, clq_program *entry, cl_program program, const char *options,
                             cl_int *error);
/* The program's binary, which the caller frees with clq_free, within the build deadline: what was not launched yet may be
 * compiled for it. TIMEOUT: likewise, but nothing is noted, and the program's claim is the caller's to leave. */
clq_status clq_program_binary(clq_device *device, const clq_program *entry, unsigned char **out, size_t *bytes);
/* Whether the driver compiles the kernel when it is launched now, and the queue comes to its end by itself. */
bool clq_launch_compiles(const clq_queue *queue, const clq_kernel *kernel);
/* Such a launch, which is waited for. *event (may be NULL) is the caller's. TIMEOUT likewise. */
clq_status clq_launch_compiling(clq_queue *queue, const clq_kernel *kernel, cl_uint dims, const size_t *global,
                                const size_t *local, cl_event *event);
/* It is lost from now on; why: what calls of it say from then on. */
void clq_device_lose(clq_device *device, const char *why);

/* Opens `count` choices in one shared context; clq_device_open is the case of one. */
clq_status clq_devices_open_shared(clq_system *system, const clq_device_choice *choices, uint32_t count,
                                   clq_device **out);

/* Adds all that the list of devices depends on, but for the drivers' libraries. (recall.c) */
void clq_machine_describe(clq_text *text);

/* ---- the cache of program binaries on disk, and of other things in folders of their own (cache.c) ---- */

/* The folder of programs and of claims on them, below a cache folder. */
extern const char clq_programs_folder[];
/* The payload of the entry `key`, if the file is whole and is that entry. *out NULL where there is none. */
clq_status clq_cache_load(const char *cache_dir, const char *folder, clq_hash128 key, void **out, size_t *bytes);
clq_status clq_cache_store(const char *cache_dir, const char *folder, clq_hash128 key, const void *data, size_t bytes);
/* The key of what a text describes, which is freed. */
clq_status clq_cache_key(clq_text *text, clq_hash128 *out);
/* Removes the entry, where there is one. */
void clq_cache_drop(const char *cache_dir, const char *folder, clq_hash128 key);
bool clq_cache_has(const char *cache_dir, const char *folder, clq_hash128 key);

/* ---- queues ---- */

typedef struct clq_trace clq_trace; /* trace.c */

struct clq_queue {
    clq_device *device;
    cl_command_queue handle;
    cl_event last_wait; /* of clq_queue_wait; may be NULL */
    bool waits;         /* commands of it waited for events, or may have: it need not come to an end by itself */
    clq_trace *trace;   /* NULL unless CLQ_QUEUE_TRACE */
};

clq_status clq_trace_start(clq_queue *queue);                  /* once the queue's handle exists */
void clq_trace_destroy(clq_trace *trace, bool release_events); /* takes NULL */
/* Whether the queue traces its next command, and whether that has a name: transfers are traced only where they have. */
bool clq_queue_traces(const clq_queue *queue);
bool clq_queue_traces_named(const clq_queue *queue);

/* How one command is enqueued: what it waits for as the driver takes it, and the events that come of it. Points into
 * itself: not to be copied. */
typedef struct clq_enqueue {
    clq_queue *queue;
    const clq_order *order; /* may be NULL */
    bool recorded;          /* by the queue, for its trace */
    cl_uint wait_count;
    cl_event after[CLQ_AFTER_MAX];
    const cl_event *waits; /* `after`; NULL where there are none, as drivers want it */
    cl_event event;
    cl_event *wanted; /* where the driver is to put the event; NULL where nobody wants it */
} clq_enqueue;
void clq_enqueue_begin(clq_queue *queue, const clq_order *order, bool recorded, clq_enqueue *out);
/* Once it is enqueued: gives the event to the order, and to the queue under this name (clq_queue_record's). */
clq_status clq_enqueue_end(clq_enqueue *enqueue, const char *name);

struct clq_event {
    clq_device *device;
    cl_event handle;
    bool wrapped; /* whoever made it may not have flushed its queue */
};
/* The execution status of an event that should be complete, as a status. */
clq_status clq_event_check(clq_device *device, cl_event event, const char *what);

/* ---- buffers ---- */

typedef struct clq_view clq_view;
void clq_views_release(clq_view *newest); /* the driver's objects; NULL: none */
void clq_views_free(clq_view *newest);    /* what the host knows of them */

struct clq_buffer {
    clq_device *device;
    cl_mem handle;
    size_t bytes;
    cl_mem root; /* what it is a part of, from `begin` on; or itself */
    size_t begin;
    bool host_may_not; /* a caller's, made so */
    char *host;        /* NULL where the host cannot reach it between commands */
    bool mapped;       /* host came from a map that is to be undone */
    uint64_t counted;  /* bytes that count against the budget */
    bool is_view;      /* its handle belongs to the buffer that it is a view of */
    bool kept;         /* a lost device may still use its memory, which is never given back */
    clq_buffer *of;    /* of an alias: whose memory it is */
    clq_view *views;   /* see view.c; the newest first */
};

struct clq_kernel {
    clq_device *device;
    cl_kernel handle;
    clq_program *program;
    bool launched;
    char name[64];
};

#endif
