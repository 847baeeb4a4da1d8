/* Parts of split devices. A process splits a device only once for each number of parts, and never releases the parts.
 * The reason is that clReleaseCommandQueue of PoCL 3.1 reads the queue's device after it has released the context, and
 * with the context the last reference to the part. That ends the process if a thread of the driver lets go of a
 * command's event after the host has released the queue, the context and the part. */
#include "device/internal.h"

typedef struct split {
    struct split *next;
    cl_device_id whole;
    uint32_t count;
    cl_device_id parts[];
} split;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static split *splits; /* under `lock`; its entries never change */

uint32_t clq_device_parts_max(const clq_device_entry *entry) {
    cl_device_partition_property kinds[16] = {0};
    size_t bytes = 0;
    if (clGetDeviceInfo(entry->id, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, &bytes) != CL_SUCCESS) return 1;
    const cl_uint most = clq_cl_device_uint(entry->id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, 1);
    for (size_t i = 0; i < bytes / sizeof kinds[0]; i++)
        if (kinds[i] == CL_DEVICE_PARTITION_BY_COUNTS)
            return CLQ_MAX(CLQ_MIN((uint32_t)most, entry->info.compute_units), 1u);
    return 1;
}

static const split *find(cl_device_id whole, uint32_t count) {
    const split *found = splits;
    while (found && (found->whole != whole || found->count != count)) found = found->next;
    return found;
}

/* Parts get the cores evenly: 5 cores in 3 parts are 2, 2, 1. */
static clq_status split_up(const clq_device_entry *entry, uint32_t count, const split **out) {
    enum { BESIDE_COUNTS = 3 };
    uint32_t units = entry->info.compute_units;
    cl_device_partition_property wanted[CLQ_REPLICAS_MAX + BESIDE_COUNTS];
    wanted[0] = CL_DEVICE_PARTITION_BY_COUNTS;
    for (uint32_t i = 0; i < count; i++)
        wanted[1 + i] = (cl_device_partition_property)(units / count + (i < units % count));
    wanted[1 + count] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    wanted[2 + count] = 0;
    split *made = clq_alloc(1, sizeof *made + count * sizeof made->parts[0]);
    if (!made) return CLQ_ERROR_MEMORY;
    cl_int error = clCreateSubDevices(entry->id, wanted, count, made->parts, NULL);
    if (error != CL_SUCCESS) {
        clq_free(made);
        return clq_fail(CLQ_ERROR_DEVICE, "%s:%u: splitting it into %u parts: %s (%d)", entry->info.driver,
                        (unsigned)entry->ordinal, (unsigned)count, clq_cl_error_name(error), (int)error);
    }
    made->whole = entry->id;
    made->count = count;
    made->next = splits;
    splits = made;
    *out = made;
    return CLQ_OK;
}

clq_status clq_device_part(const clq_device_entry *entry, clq_device_choice choice, cl_device_id *out) {
    uint32_t most = clq_device_parts_max(entry);
    if (choice.parts > CLQ_REPLICAS_MAX || choice.parts > most || choice.part >= choice.parts)
        return clq_fail(CLQ_ERROR_NO_DEVICE, "%s:%u cannot be split into %u parts; at most %u", entry->info.driver,
                        (unsigned)entry->ordinal, (unsigned)choice.parts, (unsigned)most);
    pthread_mutex_lock(&lock);
    const split *found = find(entry->id, choice.parts);
    clq_status status = found ? CLQ_OK : split_up(entry, choice.parts, &found);
    if (status == CLQ_OK) *out = found->parts[choice.part];
    pthread_mutex_unlock(&lock);
    return status;
}
