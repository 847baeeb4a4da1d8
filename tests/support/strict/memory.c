/* Memory objects and mappings. A mapping of a disguised device's memory is a copy in the host's memory: the host sees
 * what the device wrote when it maps the memory, and the device sees what the host wrote when the host unmaps it. */
#include "support/strict/layer.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t magic = 0x535452494354424D; /* "STRICTBM" */
static const uint32_t not_a_number = 0x7FC07FC0;  /* as float, half and bfloat16 */

struct strict_destructor {
    strict_destructor *next;
    void(CL_CALLBACK *call)(cl_mem, void *);
    void *user;
};

/* ---- the list of all ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* also guards the reference counts */
static cl_mem all;

bool strict_is_memory(cl_mem memory) {
    pthread_mutex_lock(&list_lock);
    cl_mem at = all;
    while (at && at != memory) at = at->next;
    pthread_mutex_unlock(&list_lock);
    return at != NULL;
}

static void list(cl_mem memory) {
    pthread_mutex_lock(&list_lock);
    memory->next = all;
    all = memory;
    pthread_mutex_unlock(&list_lock);
}

strict_pinning strict_pinning_of(const void *pointer, cl_context context) {
    strict_pinning found = STRICT_IS_PAGEABLE;
    const char *at = pointer;
    pthread_mutex_lock(&list_lock);
    for (cl_mem memory = all; memory && found != STRICT_IS_PINNED; memory = memory->next)
        if (memory->pinned && at >= memory->pinned && at < memory->pinned + memory->bytes)
            found = memory->in->handle == context ? STRICT_IS_PINNED : STRICT_IS_PINNED_ELSEWHERE;
    pthread_mutex_unlock(&list_lock);
    return found;
}

void strict_memory_retain(cl_mem memory) {
    pthread_mutex_lock(&list_lock);
    memory->references++;
    pthread_mutex_unlock(&list_lock);
}

static void destroy(cl_mem memory) {
    for (unsigned i = 0; i < STRICT_CONTEXT_DEVICES_MAX; i++)
        if (memory->real[i]) (void)strict_driver->clReleaseMemObject(memory->real[i]);
    while (memory->destructors) {
        strict_destructor *first = memory->destructors;
        memory->destructors = first->next;
        first->call(memory, first->user);
        free(first);
    }
    if (memory->parent) strict_memory_release(memory->parent);
    (void)pthread_mutex_destroy(&memory->lock);
    free(memory->pinned);
    free(memory);
}

void strict_memory_release(cl_mem memory) {
    pthread_mutex_lock(&list_lock);
    bool last = --memory->references == 0;
    if (last) {
        cl_mem *at = &all;
        while (*at != memory) at = &(*at)->next;
        *at = memory->next;
    }
    pthread_mutex_unlock(&list_lock);
    if (last) destroy(memory);
}

/* ---- creation ---- */

static cl_mem memory_alloc(const strict_context *in, cl_mem_flags flags, size_t bytes) {
    cl_mem memory = strict_alloc(1, sizeof *memory);
    *memory = (struct _cl_mem){.dispatch = strict_calls,
                               .magic = magic,
                               .references = 1,
                               .held = 1,
                               .in = in,
                               .flags = flags,
                               .bytes = bytes,
                               .writer = -1};
    if (pthread_mutex_init(&memory->lock, NULL) != 0) strict_die("no lock");
    return memory;
}

/* A disguised device's memory begins as NaN. */
static cl_mem create_real(cl_mem memory, cl_int *error) {
    cl_context context = memory->in->handle;
    const cl_mem_flags of_host = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR;
    if (!memory->in->disguised || (memory->flags & of_host))
        return strict_driver->clCreateBuffer(context, memory->flags, memory->bytes, memory->host, error);
    size_t words = memory->bytes / sizeof not_a_number + 1;
    uint32_t *block = malloc(words * sizeof *block);
    if (!block) {
        if (error) *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    for (size_t i = 0; i < words; i++) block[i] = not_a_number;
    cl_mem real =
        strict_driver->clCreateBuffer(context, memory->flags | CL_MEM_COPY_HOST_PTR, memory->bytes, block, error);
    free(block);
    return real;
}

cl_mem strict_memory_copy(cl_mem memory, const strict_device *device) {
    unsigned slot = memory->migrates ? strict_slot(memory->in, device) : 0;
    pthread_mutex_lock(&memory->lock);
    if (!memory->real[slot] && memory->parent) {
        const cl_buffer_region region = {memory->origin, memory->bytes};
        cl_mem parent = strict_memory_copy(memory->parent, device);
        memory->real[slot] =
            parent ? strict_driver->clCreateSubBuffer(parent, memory->flags & ~(cl_mem_flags)CL_MEM_ALLOC_HOST_PTR,
                                                      CL_BUFFER_CREATE_TYPE_REGION, &region, NULL)
                   : NULL;
    } else if (!memory->real[slot]) {
        memory->real[slot] = create_real(memory, NULL);
    }
    cl_mem real = memory->real[slot];
    pthread_mutex_unlock(&memory->lock);
    return real;
}

static cl_mem CL_API_CALL create(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error) {
    const strict_context *in = strict_context_of(context);
    cl_int failed = in ? strict_context_called(in) : CL_INVALID_CONTEXT;
    if (error) *error = failed;
    if (failed != CL_SUCCESS) return NULL;
    cl_mem memory = memory_alloc(in, flags, bytes);
    memory->host = host;
    memory->migrates = strict_options.migrate && in->disguised && in->count > 1 && !(flags & CL_MEM_USE_HOST_PTR);
    memory->real[0] = create_real(memory, &failed);
    if (flags & CL_MEM_COPY_HOST_PTR) memory->valid = 1, memory->writer = 0;
    if (memory->real[0] && in->disguised && (flags & CL_MEM_ALLOC_HOST_PTR)) {
        memory->pinned = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        if (!memory->pinned) strict_die("no memory");
        memset(memory->pinned, 0xA5, bytes);
    }
    if (error) *error = failed;
    if (memory->real[0]) {
        list(memory);
        return memory;
    }
    destroy(memory);
    return NULL;
}

static cl_mem CL_API_CALL create_view(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *how,
                                      cl_int *error) {
    const cl_buffer_region *region = how;
    cl_int failed = CL_SUCCESS;
    if (!strict_is_memory(parent) || parent->parent) failed = CL_INVALID_MEM_OBJECT;
    if (failed == CL_SUCCESS && (type != CL_BUFFER_CREATE_TYPE_REGION || !region)) failed = CL_INVALID_VALUE;
    cl_mem first = NULL;
    if (failed == CL_SUCCESS) first = strict_driver->clCreateSubBuffer(parent->real[0], flags, type, how, &failed);
    if (error) *error = failed;
    if (!first) return NULL;
    cl_mem_flags inherited =
        CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY; /* if the view names none of these */
    cl_mem view =
        memory_alloc(parent->in, (flags & inherited) ? flags : flags | (parent->flags & inherited), region->size);
    strict_memory_retain(parent);
    view->parent = parent;
    view->origin = region->origin;
    view->migrates = parent->migrates;
    view->host = parent->host ? (char *)parent->host + region->origin : NULL;
    view->real[0] = first;
    list(view);
    return view;
}

/* ---- calls ---- */

static cl_int CL_API_CALL retain(cl_mem memory) {
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    pthread_mutex_lock(&list_lock);
    memory->references++;
    memory->held++;
    pthread_mutex_unlock(&list_lock);
    return CL_SUCCESS;
}

static bool overlap(cl_mem a, cl_mem b) {
    return a->parent && a->parent == b->parent && a->origin < b->origin + b->bytes && b->origin < a->origin + a->bytes;
}

/* Drops a reference of the caller. Returns whether it was the last one to a view while a newer view of the same bytes
 * exists: the list begins with the newest. */
static bool is_before_newer(cl_mem memory) {
    pthread_mutex_lock(&list_lock);
    bool found = false;
    const bool last = --memory->held == 0;
    for (cl_mem at = all; last && at != memory && !found; at = at->next) found = at->held > 0 && overlap(at, memory);
    pthread_mutex_unlock(&list_lock);
    return found;
}

static cl_int CL_API_CALL release(cl_mem memory) {
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    if (is_before_newer(memory)) strict_counted(memory->in->devices[0], STRICT_VIEWS);
    strict_memory_release(memory);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL set_destructor(cl_mem memory, void(CL_CALLBACK *call)(cl_mem, void *), void *user) {
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    if (!call) return CL_INVALID_VALUE;
    strict_destructor *destructor = strict_alloc(1, sizeof *destructor);
    pthread_mutex_lock(&memory->lock);
    *destructor = (strict_destructor){memory->destructors, call, user};
    memory->destructors = destructor;
    pthread_mutex_unlock(&memory->lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_info(cl_mem memory, cl_mem_info what, size_t room, void *out, size_t *needed) {
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    switch (what) {
    case CL_MEM_TYPE:
        return strict_put(&(cl_mem_object_type){CL_MEM_OBJECT_BUFFER}, sizeof(cl_mem_object_type), room, out, needed);
    case CL_MEM_FLAGS: return strict_put(&memory->flags, sizeof memory->flags, room, out, needed);
    case CL_MEM_SIZE: return strict_put(&memory->bytes, sizeof memory->bytes, room, out, needed);
    case CL_MEM_HOST_PTR: return strict_put(&memory->host, sizeof memory->host, room, out, needed);
    case CL_MEM_CONTEXT: return strict_put(&memory->in->handle, sizeof memory->in->handle, room, out, needed);
    case CL_MEM_REFERENCE_COUNT: return strict_put(&(cl_uint){memory->references}, sizeof(cl_uint), room, out, needed);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return strict_put((void *)&memory->parent, sizeof memory->parent, room, out, needed);
    case CL_MEM_OFFSET: return strict_put(&memory->origin, sizeof memory->origin, room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

/* ---- mappings ---- */

/* Waits for the driver's queue, and leaves the driver (strict_above). */
static cl_int finish(const strict_command *c, cl_int error) {
    cl_int ended = strict_driver->clFinish(c->queue->real);
    strict_above(c->queue->device);
    return error != CL_SUCCESS ? error : ended;
}

static cl_int run_map(strict_command *c) {
    strict_map *map = c->map;
    cl_int error = strict_migrate(c->from, c->queue, false);
    if (error != CL_SUCCESS || (!map->real && (map->flags & CL_MAP_WRITE_INVALIDATE_REGION))) return error;
    cl_mem real = strict_memory_copy(c->from, c->queue->device);
    strict_dawdle(c);
    strict_below(c->queue->device);
    if (map->real)
        map->pointer = strict_driver->clEnqueueMapBuffer(c->queue->real, real, CL_FALSE, map->flags, map->offset,
                                                         map->bytes, 0, NULL, NULL, &error);
    else
        error = strict_driver->clEnqueueReadBuffer(c->queue->real, real, CL_FALSE, map->offset, map->bytes,
                                                   map->pointer, 0, NULL, NULL);
    return finish(c, error);
}

static cl_int run_unmap(strict_command *c) {
    const strict_map *map = c->map;
    bool written = map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION);
    cl_int error = strict_migrate(c->to, c->queue, written);
    if (error != CL_SUCCESS || (!map->real && !written)) return error;
    cl_mem real = strict_memory_copy(c->to, c->queue->device);
    strict_dawdle(c);
    strict_below(c->queue->device);
    if (map->real)
        error = strict_driver->clEnqueueUnmapMemObject(c->queue->real, real, map->pointer, 0, NULL, NULL);
    else
        error = strict_driver->clEnqueueWriteBuffer(c->queue->real, real, CL_FALSE, map->offset, map->bytes,
                                                    map->pointer, 0, NULL, NULL);
    return finish(c, error);
}

static void drop_map(strict_command *c) {
    free(c->map->block);
    free(c->map);
}

/* Undisguised devices share the host's memory. So the driver makes the real mapping, and only the driver knows its
 * pointer. */
static strict_map *map_create(cl_mem memory, cl_map_flags flags, size_t offset, size_t bytes) {
    strict_map *map = strict_alloc(1, sizeof *map);
    *map = (strict_map){.offset = offset, .bytes = bytes, .flags = flags, .real = !memory->in->disguised};
    if (map->real) return map;
    if (memory->pinned)
        map->pointer = memory->pinned + offset;
    else
        map->pointer = map->block = strict_alloc(bytes, 1);
    return map;
}

static void *CL_API_CALL enqueue_map(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags,
                                     size_t offset, size_t bytes, cl_uint count, const cl_event *waits, cl_event *event,
                                     cl_int *error) {
    cl_int failed = !strict_is_queue(queue)                                                  ? CL_INVALID_COMMAND_QUEUE
                    : !strict_is_memory(memory)                                              ? CL_INVALID_MEM_OBJECT
                    : bytes == 0 || offset > memory->bytes || bytes > memory->bytes - offset ? CL_INVALID_VALUE
                                                                                             : CL_SUCCESS;
    if (error) *error = failed;
    if (failed != CL_SUCCESS) return NULL;
    strict_map *map = map_create(memory, flags, offset, bytes);
    strict_command *command = strict_command_create(queue, CL_COMMAND_MAP_BUFFER, run_map);
    strict_memory_retain(memory);
    command->from = memory;
    command->map = map;
    cl_event mine = NULL;
    failed = strict_enqueue(command, blocking || map->real, count, waits, &mine);
    cl_int status = CL_COMPLETE;
    if (mine) (void)strict_calls->clGetEventInfo(mine, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (failed == CL_SUCCESS && status < 0) failed = CL_MAP_FAILURE;
    if (mine && event)
        *event = mine;
    else if (mine)
        (void)strict_calls->clReleaseEvent(mine);
    if (error) *error = failed;
    void *pointer = map->pointer;
    if (failed != CL_SUCCESS) {
        free(map->block);
        free(map);
        return NULL;
    }
    pthread_mutex_lock(&memory->lock);
    map->next = memory->maps;
    memory->maps = map;
    pthread_mutex_unlock(&memory->lock);
    return pointer;
}

static cl_int CL_API_CALL enqueue_unmap(cl_command_queue queue, cl_mem memory, void *pointer, cl_uint count,
                                        const cl_event *waits, cl_event *event) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    pthread_mutex_lock(&memory->lock);
    strict_map **at = &memory->maps;
    while (*at && (*at)->pointer != pointer) at = &(*at)->next;
    strict_map *map = *at;
    if (map) *at = map->next;
    pthread_mutex_unlock(&memory->lock);
    if (!map) return CL_INVALID_VALUE;
    strict_command *command = strict_command_create(queue, CL_COMMAND_UNMAP_MEM_OBJECT, run_unmap);
    strict_memory_retain(memory);
    command->to = memory;
    command->map = map;
    command->drop = drop_map;
    return strict_enqueue(command, false, count, waits, event);
}

void strict_memory_install(struct _cl_icd_dispatch *calls) {
    calls->clCreateBuffer = create;
    calls->clCreateSubBuffer = create_view;
    calls->clRetainMemObject = retain;
    calls->clReleaseMemObject = release;
    calls->clSetMemObjectDestructorCallback = set_destructor;
    calls->clGetMemObjectInfo = get_info;
    calls->clEnqueueMapBuffer = enqueue_map;
    calls->clEnqueueUnmapMemObject = enqueue_unmap;
}
