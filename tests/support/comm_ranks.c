#include "support/check.h"
#include "support/comm_ranks.h"
#include "support/pocl_names.h"

#include <limits.h>

uint32_t ranks_device_index(const clq_system *system, char kind, unsigned nth) {
    for (size_t i = 0; i < clq_system_device_count(system); i++) {
        const clq_device_info *info = clq_system_device_info(system, i);
        bool pocl = strcmp(info->driver, "pocl") == 0, basic = pocl_name_is(info->name, POCL_BASIC);
        bool matches = pocl && basic == (kind == 'b' || kind == 'c');
        if (kind == 'i') matches = strcmp(info->driver, "intel") == 0 && info->type == CLQ_DEVICE_CPU;
        if (kind == 'n') matches = strcmp(info->driver, "nvidia") == 0;
        if (kind == 'r') matches = strcmp(info->driver, "rusticl") == 0;
        if (kind == 'a') matches = strcmp(info->driver, "amd") == 0;
        if (matches && nth-- == 0) return (uint32_t)i;
    }
    fail_msg("there is no device of the kind '%c'", kind);
    return 0;
}

/* Finds the devices of `kinds`, and for each the name of its context: '\0' for a context of its own. */
static void read_kinds(ranks *all, const char *kinds, bool island, clq_device_choice *choices, char *contexts) {
    unsigned next[UCHAR_MAX + 1] = {0};
    for (const char *at = kinds; *at; at++) {
        assert_true(all->count < CLQ_REPLICAS_MAX);
        unsigned r = all->count++;
        choices[r] = (clq_device_choice){
            ranks_device_index(all->system, *at, strchr("bna", *at) ? next[(unsigned char)*at]++ : 0), 0, 1};
        contexts[r] = island ? '*' : '\0';
        if (at[1] >= '0' && at[1] <= '9') contexts[r] = *++at;
    }
}

/* Opens all devices that are in the context of rank `first`. */
static void open_context(ranks *all, unsigned first, const clq_device_choice *choices, const char *contexts) {
    clq_device_choice members[CLQ_REPLICAS_MAX];
    clq_device *devices[CLQ_REPLICAS_MAX];
    uint32_t count = 0;
    for (unsigned r = first; r < all->count; r++)
        if (contexts[r] == contexts[first]) members[count++] = choices[r];
    assert_ok(clq_island_open(all->system, members, count, devices));
    for (unsigned r = first, m = 0; r < all->count; r++)
        if (contexts[r] == contexts[first]) all->devices[r] = devices[m++];
}

void ranks_open(ranks *all, const char *kinds, bool island, const clq_group_config *config) {
    clq_device_choice choices[CLQ_REPLICAS_MAX];
    char contexts[CLQ_REPLICAS_MAX];
    memset(all, 0, sizeof *all);
    assert_ok(clq_system_open(NULL, &all->system));
    read_kinds(all, kinds, island, choices, contexts);
    for (unsigned r = 0; r < all->count; r++) {
        if (contexts[r] == '\0')
            assert_ok(clq_device_open(all->system, choices[r], &all->devices[r]));
        else if (!all->devices[r])
            open_context(all, r, choices, contexts);
    }
    for (unsigned r = 0; r < all->count; r++) assert_ok(clq_queue_create(all->devices[r], 0, &all->queues[r]));
    assert_ok(clq_comm_create(all->devices, all->count, config, &all->comm));
}

void ranks_close(ranks *all) {
    clq_comm_destroy(all->comm);
    for (unsigned r = 0; r < all->count; r++) clq_queue_destroy(all->queues[r]);
    for (unsigned r = 0; r < all->count; r++) clq_device_close(all->devices[r]);
    clq_system_close(all->system);
}

void ranks_split(const ranks *all, const unsigned *who, unsigned count, ranks *part) {
    memset(part, 0, sizeof *part);
    part->count = count;
    for (unsigned i = 0; i < count; i++) {
        part->devices[i] = all->devices[who[i]];
        assert_ok(clq_queue_create(part->devices[i], 0, &part->queues[i]));
    }
    assert_ok(clq_comm_split(all->comm, who, count, &part->comm));
}

void ranks_close_part(ranks *part) {
    clq_comm_destroy(part->comm);
    for (unsigned i = 0; i < part->count; i++) clq_queue_destroy(part->queues[i]);
}

typedef struct job {
    ranks *all;
    unsigned rank;
    ranks_body *body;
    void *context;
} job;

static void run_job(void *context) {
    job *mine = context;
    clq_status status = mine->body(mine->all, mine->rank, mine->context);
    clq_error_take(status, &mine->all->results[mine->rank]);
    if (status == CLQ_OK) mine->all->results[mine->rank].status = CLQ_OK;
}

void ranks_run(ranks *all, ranks_body *body, void *context) {
    job jobs[CLQ_REPLICAS_MAX];
    clq_thread *threads[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < all->count; r++) {
        jobs[r] = (job){all, r, body, context};
        assert_ok(clq_thread_start("rank", run_job, &jobs[r], &threads[r]));
    }
    for (unsigned r = 0; r < all->count; r++) clq_thread_join(threads[r]);
}

void ranks_expect_ok(const ranks *all) {
    for (unsigned r = 0; r < all->count; r++)
        if (all->results[r].status != CLQ_OK) fail_msg("rank %u: %s", r, all->results[r].detail);
}

clq_status ranks_meet(clq_comm *comm, unsigned rank) {
    return clq_comm_run(comm, rank, &(clq_task){.collective = CLQ_BARRIER});
}

void cl_ok(cl_int error) { assert_int_equal(error, CL_SUCCESS); }

cl_int state_of(cl_event event) {
    cl_int state = CL_QUEUED;
    cl_ok(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state;
}

cl_event user_event(const ranks *all, unsigned rank) {
    cl_int error;
    cl_event event = clCreateUserEvent(clq_device_context(all->devices[rank]), &error);
    cl_ok(error);
    return event;
}
