/* Each call in which a driver compiles runs in a thread of its own, so that a compiler that does not end holds up
 * nobody for longer than the device's build deadline. After the deadline the thread is left behind. It uses only its
 * job and objects of the driver, and frees the job itself. All devices of the system are then lost, since a driver's
 * compiler has one lock: another call that needs the lock would not return either. And since the devices are lost, the
 * driver's objects are never released. */
#include "device/internal.h"

#include <string.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

typedef struct job {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun, done, left; /* begun: its time runs; left: nobody waits for the job any more */
    void (*call)(struct job *);
    cl_int error; /* of the call */
    cl_int state; /* of the launched command, once it ran */
    cl_program program;
    cl_device_id device;
    char *options;
    unsigned char *binary;
    size_t bytes; /* of the binary: 0 if the driver gives none */
    cl_command_queue queue;
    cl_kernel kernel;
    cl_uint dims;
    size_t global[3], local[3];
    bool has_local;
    cl_event event;
} job;

static void job_free(job *j) {
    (void)pthread_mutex_destroy(&j->lock);
    (void)pthread_cond_destroy(&j->changed);
    clq_free(j->options);
    clq_free(j->binary);
    clq_free(j);
}

static void build(job *j) { j->error = clBuildProgram(j->program, 1, &j->device, j->options, NULL, NULL); }

/* Launches a kernel and waits for it. Some drivers compile when a launch is enqueued, others when commands are flushed
 * or waited for, others in threads of their own. The command's own event tells whether it failed; a marker behind it
 * would not tell. */
static void launch(job *j) {
    (void)clFinish(j->queue); /* the time of earlier commands is not counted */
    (void)pthread_mutex_lock(&j->lock);
    j->begun = true;
    const bool left = j->left;
    (void)pthread_mutex_unlock(&j->lock);
    if (left) return;
    j->error = clEnqueueNDRangeKernel(j->queue, j->kernel, j->dims, NULL, j->global, j->has_local ? j->local : NULL, 0,
                                      NULL, &j->event);
    if (j->error != CL_SUCCESS) return;
    (void)clFinish(j->queue);
    (void)clGetEventInfo(j->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof j->state, &j->state, NULL);
}

/* Asks for a program's binary. PoCL compiles kernels that were not launched yet when it is asked for the size, and when
 * it is asked for the binary. In an island, a program is built for one device of the context. The binaries of the other
 * devices are then empty; PoCL leaves them out and gives just the one binary. */
static void ask(job *j) {
    enum { MOST = CLQ_REPLICAS_MAX };
    cl_uint count = 0, mine = 0;
    cl_device_id ids[MOST];
    size_t sizes[MOST] = {0}, given = 0;
    unsigned char *binaries[MOST] = {NULL};
    j->error = clGetProgramInfo(j->program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL);
    if (j->error == CL_SUCCESS && count > MOST) j->error = CL_INVALID_VALUE;
    if (j->error == CL_SUCCESS) j->error = clGetProgramInfo(j->program, CL_PROGRAM_DEVICES, sizeof ids, ids, NULL);
    if (j->error == CL_SUCCESS)
        j->error = clGetProgramInfo(j->program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &given);
    if (j->error != CL_SUCCESS) return;
    while (mine < count && ids[mine] != j->device) mine++;
    if (given == sizeof sizes[0]) mine = 0, count = 1;
    if (mine == count || sizes[mine] == 0) return;
    j->bytes = sizes[mine];
    j->binary = binaries[mine] = clq_alloc(j->bytes, 1);
    if (j->binary)
        j->error = clGetProgramInfo(j->program, CL_PROGRAM_BINARIES, count * sizeof binaries[0], binaries, NULL);
}

static void work(void *context) {
    job *j = context;
    j->call(j);
    (void)pthread_mutex_lock(&j->lock);
    const bool left = j->left;
    j->done = true;
    (void)pthread_cond_signal(&j->changed);
    (void)pthread_mutex_unlock(&j->lock);
    if (left) job_free(j);
}

static clq_status job_create(void (*call)(job *), job **out) {
    job *j = clq_alloc(1, sizeof *j);
    if (!j) return CLQ_ERROR_MEMORY;
    j->call = call;
    j->begun = call != launch;
    clq_status status = clq_lock_create("a build", &j->lock, &j->changed);
    if (status == CLQ_OK)
        *out = j;
    else
        clq_free(j);
    return status;
}

/* The name of the calling thread. The new thread gets the same name, since it works in its place. */
static void own_name(char name[16]) {
    (void)strcpy(name, "build");
#if defined(__linux__)
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
#endif
}

/* How a job ended. A job is left to its thread if it is late, or if its device was lost before the job began. */
typedef enum outcome { ENDED, LATE, NEVER_BEGAN } outcome;

/* If no thread can be had, the call is made here, and waited for without a limit. */
static outcome run(const clq_device *device, job *j) {
    double until = clq_now_running() + device->build.deadline_s;
    char name[16];
    clq_thread *thread;
    own_name(name);
    if (clq_thread_start(name, work, j, &thread) != CLQ_OK) {
        work(j);
        return ENDED;
    }
    (void)pthread_mutex_lock(&j->lock);
    while (!j->done && (j->begun ? clq_now_running() < until : !clq_device_lost(device))) {
        clq_lock_wait(&j->lock, &j->changed, CLQ_RUNNING_LOOK_S);
        if (!j->begun) until = clq_now_running() + device->build.deadline_s;
    }
    const outcome ending = j->done ? ENDED : j->begun ? LATE : NEVER_BEGAN;
    j->left = ending != ENDED;
    (void)pthread_mutex_unlock(&j->lock);
    if (ending == ENDED)
        clq_thread_join(thread);
    else
        clq_thread_leave(thread);
    return ending;
}

/* noted: whether later processes are told that the program does not build. */
static clq_status lose_late(clq_device *device, const clq_program *entry, bool noted, const char *what) {
    char why[CLQ_REASON_MAX];
    (void)clq_format(why, sizeof why, "%s.cl: %s did not end within the build deadline of %g s", entry->file, what,
                     device->build.deadline_s);
    clq_device_lose(device, why);
    atomic_fetch_or(device->build.stuck, CLQ_STUCK | (noted ? CLQ_STUCK_NOTED : 0u));
    return clq_fail(CLQ_ERROR_TIMEOUT, "%s.cl: %s on %s, driver %s, did not end within the build deadline of %g s%s",
                    entry->file, what, device->label, device->info.driver_version, device->build.deadline_s,
                    noted ? "" : device->build.set_by);
}

/* Keeps what is known of the program before the device is lost, since a lost device keeps nothing. again: the program
 * was built before. */
static clq_status fail_late(clq_device *device, clq_program *entry, bool again, const char *what) {
    clq_program_leave(device, entry);
    const bool noted = entry->optional && !again && clq_device_keep_trial_result(device, entry->key, false);
    return lose_late(device, entry, noted, what);
}

clq_status clq_program_build(clq_device *device, clq_program *entry, cl_program program, const char *options,
                             cl_int *error) {
    CLQ_TRY(clq_device_alive(device));
    job *j;
    CLQ_TRY(job_create(build, &j));
    j->program = program;
    j->device = device->id;
    j->options = clq_strdup(options);
    if (!j->options) {
        job_free(j);
        return CLQ_ERROR_MEMORY;
    }
    if (run(device, j) != ENDED) return fail_late(device, entry, entry->program != NULL, "compiling");
    *error = j->error;
    job_free(j);
    return CLQ_OK;
}

clq_status clq_program_binary(clq_device *device, const clq_program *entry, unsigned char **out, size_t *bytes) {
    job *j;
    CLQ_TRY(clq_device_alive(device));
    CLQ_TRY(job_create(ask, &j));
    j->program = entry->program;
    j->device = device->id;
    if (run(device, j) != ENDED) return lose_late(device, entry, false, "giving its binary");
    clq_status status = CLQ_OK;
    if (j->error != CL_SUCCESS)
        status = clq_cl_fail(device, j->error, "asking for a program's binary");
    else if (j->bytes == 0)
        status = clq_fail(CLQ_ERROR_DEVICE, "%s gives no binary of a program that it has built", device->label);
    else if (!j->binary)
        status = clq_fail(CLQ_ERROR_MEMORY, "there is no memory for a program's binary of %zu bytes", j->bytes);
    if (status == CLQ_OK) {
        *out = j->binary;
        *bytes = j->bytes;
        j->binary = NULL;
    }
    job_free(j);
    return status;
}

bool clq_launch_compiles(const clq_queue *queue, const clq_kernel *kernel) {
    return !kernel->launched && kernel->program->from_source && !queue->waits &&
           clq_device_has_quirk(queue->device, CLQ_QUIRK_COMPILES_AT_LAUNCH);
}

clq_status clq_launch_compiling(clq_queue *queue, const clq_kernel *kernel, cl_uint dims, const size_t *global,
                                const size_t *local, cl_event *event) {
    clq_device *device = queue->device;
    job *j;
    CLQ_TRY(job_create(launch, &j));
    j->queue = queue->handle;
    j->kernel = kernel->handle;
    j->dims = dims;
    j->has_local = local != NULL;
    memcpy(j->global, global, dims * sizeof *global);
    if (local) memcpy(j->local, local, dims * sizeof *local);
    const outcome ending = run(device, j);
    if (ending == NEVER_BEGAN) {
        CLQ_TRY(clq_device_alive(device));
        return clq_fail(CLQ_ERROR_INTERNAL, "a launch of %s was given up on a device that works", kernel->name);
    }
    if (ending == LATE)
        return fail_late(device, kernel->program, false, "the first launch, in which the driver compiles,");
    const cl_int error = j->error, state = j->state;
    if (error == CL_SUCCESS && event)
        *event = j->event;
    else if (error == CL_SUCCESS)
        (void)clReleaseEvent(j->event);
    job_free(j);
    if (error != CL_SUCCESS) return clq_cl_fail(device, error, "launching %s", kernel->name);
    if (state >= 0) return CLQ_OK;
    if (event) (void)clReleaseEvent(*event);
    return clq_cl_fail_running(device, state, "%s", kernel->name);
}
