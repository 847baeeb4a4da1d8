/* clique/device.h: the machine's OpenCL devices, and choosing among them.
 *
 * Thread rules: the getters of an open clq_system may be called from any thread. Opening, testing, selecting and
 * closing are one thread's at a time, while nobody reads. */
#ifndef CLIQUE_DEVICE_H
#define CLIQUE_DEVICE_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CLQ_NAME_MAX = 192, CLQ_REASON_MAX = 512, CLQ_REPLICAS_MAX = 64 };

typedef enum clq_device_type {
    CLQ_DEVICE_CPU,
    CLQ_DEVICE_GPU,
    CLQ_DEVICE_ACCELERATOR,
    CLQ_DEVICE_OTHER
} clq_device_type;

typedef struct clq_device_info {
    uint32_t index;  /* as `clique devices` lists it */
    char driver[16]; /* tag of the platform: nvidia amd intel pocl rusticl clover oclgrind apple … */
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
    bool usable;                 /* passed its start-up known-answer test, or was not tested yet */
    char reason[CLQ_REASON_MAX]; /* why it is not usable; "" where it is */
    uint64_t reserved[8]; /* 0 */
} clq_device_info;

typedef struct clq_system_config {
    const char *cache_dir;       /* NULL: $CLIQUE_CACHE_DIR, else $XDG_CACHE_HOME/clique, else ~/.cache/clique.
                                    "": no cache on disk */
    uint64_t memory_limit_bytes; /* per device; 0: what the device reports */
    double build_deadline_s;     /* the longest that a driver may take to compile a program, a kernel at its first
                                    launch, or what a program that is kept still lacks; 0 or less: 120 s. The call that
                                    waited then fails with TIMEOUT, and every later call on devices of this system with
                                    DEVICE. The thread in which the driver compiles is left behind: it ends when the
                                    driver does, or with the process, which does not wait for it, and uses nothing that
                                    the library frees. The driver itself may keep other calls of the process waiting:
                                    its other users, and another system, are best opened in a new process. A kernel of
                                    a whole training step that does not compile is noted beside the built programs, and
                                    later trainers with that driver launch its parts one by one; there too, a kernel
                                    that the compiler refuses is replaced at once */
    double reserved[4]; /* 0 */
} clq_system_config;

typedef struct clq_system clq_system;

/* Finds every platform and device; runs nothing on them yet. config may be NULL. A machine without a platform
 * gives a system with no devices. Errors: MEMORY, DEVICE. PoCL takes a third less time to compile kernels where the
 * environment says POCL_WORK_GROUP_SPECIALIZATION=0, which the commands set and a library does not. */
CLQ_API clq_status clq_system_open(const clq_system_config *config, clq_system **out);
CLQ_API void clq_system_close(clq_system *system); /* takes NULL; after everything made from it */
CLQ_API size_t clq_system_device_count(const clq_system *system);
/* Valid until the system is closed; NULL where index is not below the count. */
CLQ_API const clq_device_info *clq_system_device_info(const clq_system *system, size_t index);
/* Runs the start-up known-answer test of every device that has not had it, which fills `usable` and `reason`. A device
 * that fails is no error. Errors: MEMORY. */
CLQ_API clq_status clq_system_test_devices(clq_system *system);

/* One entry per replica. part of parts: which sub-device, from 0; 0 of 1 is the whole device, and so is {index}. What
 * is out of range is refused by who gets it (clq_trainer_create). */
typedef struct clq_device_choice {
    uint32_t index, part, parts;
} clq_device_choice;
typedef struct clq_devices {
    clq_system *system; /* borrowed: must stay open as long as this, and trainers made from it, are used */
    uint32_t count;     /* 1 to CLQ_REPLICAS_MAX */
    clq_device_choice items[CLQ_REPLICAS_MAX];
    uint64_t reserved[4]; /* 0 */
} clq_devices;

/* SPEC: comma-separated indices, types (gpu cpu accelerator all) or driver tags (pocl, pocl:1), each with *K (K
 * replicas), /K (K sub-devices) or /K:p (one of them, p from 0); "auto": every distinct usable GPU that is at least a
 * third as fast as the fastest, else the fastest CPU device. How fast GPUs of different models are takes some 50 ms
 * each to measure, and is kept with the built programs. NULL: "auto". Runs the start-up known-answer test of each
 * matching device that has not had it (kernels are compiled: seconds, the first time), and takes only devices that
 * pass; a device that was named alone must pass. Errors: ARGUMENT (syntax, more than CLQ_REPLICAS_MAX replicas),
 * NO_DEVICE (matches nothing usable), MEMORY. */
CLQ_API clq_status clq_devices_select(clq_system *system, const char *spec, clq_devices *out);

/* One known-answer check of `clique doctor`. */
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
