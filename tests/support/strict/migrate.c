/* One copy of a memory object per device of its context, as AMD's runtime has them. If a command uses an object that
 * another device wrote last, all of the object is first copied to the command's device; for a view, all of its parent.
 * So if two devices write disjoint ranges of one object at the same time, the writes of one are lost. */
#include "support/strict/layer.h"

/* The lock of `memory` must not be held: strict_memory_copy takes it. */
static cl_int bring(cl_mem memory, cl_command_queue queue, int from) {
    cl_mem source = strict_memory_copy(memory, memory->in->devices[from]);
    cl_mem target = strict_memory_copy(memory, queue->device);
    if (!source || !target) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    strict_below(queue->device);
    cl_int error = strict_driver->clEnqueueCopyBuffer(queue->real, source, target, 0, 0, memory->bytes, 0, NULL, NULL);
    cl_int ended = strict_driver->clFinish(queue->real);
    strict_above(queue->device);
    strict_counted(queue->device, STRICT_MIGRATIONS);
    return error != CL_SUCCESS ? error : ended;
}

/* One migration at a time: a second queue of the device must not find the copy half made. */
static pthread_mutex_t migrating = PTHREAD_MUTEX_INITIALIZER;

cl_int strict_migrate(cl_mem memory, cl_command_queue queue, bool writes) {
    if (memory->parent) memory = memory->parent;
    if (!memory->migrates)
        return strict_memory_copy(memory, queue->device) ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    unsigned slot = strict_slot(memory->in, queue->device);
    cl_int error = CL_SUCCESS;
    pthread_mutex_lock(&migrating);
    if (memory->writer >= 0 && !(memory->valid & 1u << slot)) error = bring(memory, queue, memory->writer);
    if (error == CL_SUCCESS) memory->valid |= 1u << slot;
    if (error == CL_SUCCESS && writes) memory->valid = 1u << slot, memory->writer = (int)slot;
    pthread_mutex_unlock(&migrating);
    return error;
}
