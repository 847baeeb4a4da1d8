/* clique/device.h: the machine's OpenCL devices, and choosing among them.
 *
 * Thread rules: any thread may call the getters of an open clq_system. One thread at a time opens, tests, selects and
 * closes, while nobody reads. */
#ifndef CLIQUE_DEVICE_H
#define CLIQUE_DEVICE_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a name and of a reason, with their NUL; replicas of a trainer, and ranks of a group in one process. */
enum { CLQ_NAME_MAX = 192, CLQ_REASON_MAX = 512, CLQ_REPLICAS_MAX = 64 };

/* What a driver says that a device is. */
typedef enum clq_device_type {
    CLQ_DEVICE_CPU,
    CLQ_DEVICE_GPU,
    CLQ_DEVICE_ACCELERATOR,
    CLQ_DEVICE_OTHER
} clq_device_type;

/* A device as its driver describes it. */
typedef struct clq_device_info {
    uint32_t index;  /* as `clique devices` lists it, from 0 */
    char driver[16]; /* the platform's tag: nvidia amd intel pocl rusticl clover oclgrind apple … */
    char name[CLQ_NAME_MAX], vendor[CLQ_NAME_MAX], platform[CLQ_NAME_MAX];
    char driver_version[CLQ_NAME_MAX], opencl_version[CLQ_NAME_MAX]; /* all texts: UTF-8, no control characters */
    clq_device_type type;
    uint32_t compute_units;
    uint32_t vector_width; /* native float width; at least 1 */
    uint64_t global_mem_bytes, max_alloc_bytes, local_mem_bytes;
    size_t max_work_group;
    bool host_unified;           /* shares the host's memory */
    bool fine_grain_svm;         /* fine-grained buffer SVM: host and device may both touch it between commands */
    bool fp64;                   /* computes in double */
    char pci[16];                /* "0000:01:00.0"; "01:00.0" without the domain; "": the driver does not say */
    bool usable;                 /* passed its start-up known-answer test, or is not tested yet */
    char reason[CLQ_REASON_MAX]; /* why it is not usable; "" if it is */
    uint64_t reserved[8]; /* 0 */
} clq_device_info;

/* All zero is the default. */
typedef struct clq_system_config {
    const char *cache_dir;       /* NULL: $CLIQUE_CACHE_DIR, else $XDG_CACHE_HOME/clique, else ~/.cache/clique.
                                    "": no cache on disk */
    uint64_t memory_limit_bytes; /* on each device; 0: what the device reports */
    /* The most seconds that a driver may take to compile a program, to compile a kernel at its first launch, or to
     * complete a stored program. 0 or less: 120. After that:
     *
     * - The call that waited fails with TIMEOUT, and every later call on this system's devices with DEVICE.
     * - The driver's compiling thread is abandoned. It ends when the driver does, or with the process, which does not
     *   wait for it; it uses nothing that the library frees.
     * - The driver may keep other calls in the process waiting: open its other users, and another system, in a new
     *   process.
     * - A kernel for a complete training step that does not compile in this time is noted with the built programs, and
     *   later trainers with that driver launch its parts one by one. A kernel that the compiler refuses is replaced in
     *   this way at once. */
    double build_deadline_s;
    double reserved[4]; /* 0 */
} clq_system_config;

/* The machine's platforms and devices, and the cache of built programs. From clq_system_open to clq_system_close. */
typedef struct clq_system clq_system;

/* Finds every platform and device; runs nothing on them yet. config may be NULL: the default. A machine without a
 * platform gives a system without devices. The caller closes *out. PoCL compiles kernels in a third less time with
 * POCL_WORK_GROUP_SPECIALIZATION=0 in the environment; the commands set it, the library does not. Errors: ARGUMENT
 * (a reserve that is not 0), MEMORY, DEVICE. */
CLQ_API clq_status clq_system_open(const clq_system_config *config, clq_system **out);
CLQ_API void clq_system_close(clq_system *system); /* takes NULL; first destroy everything made from it */
/* How many devices all drivers list. */
CLQ_API size_t clq_system_device_count(const clq_system *system);
/* Valid until the system is closed. NULL: index is not below the count. */
CLQ_API const clq_device_info *clq_system_device_info(const clq_system *system, size_t index);
/* Runs the start-up known-answer test on every device that has not had it, and sets `usable` and `reason`. A device
 * that fails is no error. Errors: MEMORY. */
CLQ_API clq_status clq_system_test_devices(clq_system *system);

/* The device for one replica: sub-device `part`, from 0, among `parts`. 0 among 1 is the entire device, and so is
 * {index}. clq_trainer_create refuses what is out of range. */
typedef struct clq_device_choice {
    uint32_t index, part, parts;
} clq_device_choice;
/* Which devices a trainer uses: an entry for each replica. From clq_devices_select, or filled in by the caller. */
typedef struct clq_devices {
    clq_system *system; /* borrowed: must stay open as long as this, and trainers made from it, are used */
    uint32_t count;     /* 1 to CLQ_REPLICAS_MAX */
    clq_device_choice items[CLQ_REPLICAS_MAX];
    uint64_t reserved[4]; /* 0 */
} clq_devices;

/* Selects devices by a SPEC; NULL: "auto".
 *
 * - SPEC is a comma-separated list: indices, types (gpu cpu accelerator all) or driver tags (pocl, pocl:1), each with
 *   *K (K replicas), /K (K sub-devices) or /K:p (one sub-device, p from 0).
 * - "auto": every distinct usable GPU that is at least a third as fast as the fastest; without one, the fastest CPU
 *   device. If GPU models differ, their speed is measured, some 50 ms each, and stored with the built programs.
 *
 * Runs the start-up known-answer test on each matching device that has not had it (this compiles kernels: seconds, the
 * first time), and takes only devices that pass; a device that was named alone must pass. Errors: ARGUMENT (syntax,
 * more than CLQ_REPLICAS_MAX replicas), NO_DEVICE (matches nothing usable), MEMORY. */
CLQ_API clq_status clq_devices_select(clq_system *system, const char *spec, clq_devices *out);

/* One known-answer check from `clique doctor`. */
typedef struct clq_check {
    char name[32];
    bool ok;
    char detail[CLQ_REASON_MAX];
    double ms;
} clq_check;

#ifdef __cplusplus
}
#endif
#endif
