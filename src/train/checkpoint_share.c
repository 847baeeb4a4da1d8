/* Sends a checkpoint from rank 0, which read it, to all other processes of a training. */
#include "train/checkpoint.h"

#include <string.h>

typedef struct head {
    uint64_t step, text_bytes, entries, kept;
    uint32_t has, replicas, slots;
} head;

/* A checkpoint on its way from rank 0 to the others. */
typedef struct transfer {
    clq_world *world;
    clq_checkpoint *checkpoint;
    bool is_sender;
    head head;
} transfer;

/* *text: on rank 0 the values as text, on the others room for it. The caller frees it, also after a failure. */
static clq_status open_text(transfer *t, char **text) {
    if (t->is_sender) *text = clq_json_dumps(t->checkpoint->values, JSON_COMPACT);
    t->head.text_bytes = *text ? strlen(*text) + 1 : 0;
    CLQ_TRY(clq_world_check(t->world, t->is_sender && !*text ? clq_fail_memory("sending a checkpoint") : CLQ_OK));
    CLQ_TRY(clq_world_broadcast(t->world, &t->head.text_bytes, sizeof t->head.text_bytes));
    if (!t->is_sender) *text = clq_alloc(t->head.text_bytes, 1);
    return clq_world_check(t->world, *text ? CLQ_OK : CLQ_ERROR_MEMORY);
}

static clq_status share_values(transfer *t) {
    enum { DEPTH_MOST = 3 };
    char *text = NULL;
    clq_status status = open_text(t, &text);
    if (status == CLQ_OK) status = clq_world_broadcast(t->world, text, t->head.text_bytes);
    if (status == CLQ_OK && !t->is_sender)
        status = clq_json_parse(text, t->head.text_bytes - 1, DEPTH_MOST, "a checkpoint", &t->checkpoint->values);
    clq_free(text);
    return status;
}

static clq_status share_entries(const transfer *t) {
    clq_checkpoint *c = t->checkpoint;
    for (uint64_t i = 0; i < t->head.entries; i++) {
        clq_snapshot_entry e = t->is_sender ? c->snapshot.entries[i] : (clq_snapshot_entry){0};
        float *values = (float *)(uintptr_t)e.values;
        e.values = NULL;
        CLQ_TRY(clq_world_broadcast(t->world, &e, sizeof e));
        if (!t->is_sender) CLQ_TRY(clq_checkpoint_add_entry(c, e, &values));
        CLQ_TRY(clq_world_broadcast(t->world, values, clq_variable_bytes(&c->model->variables[e.variable])));
    }
    return CLQ_OK;
}

static clq_status share_kept(const transfer *t) {
    clq_checkpoint *c = t->checkpoint;
    size_t bytes = 0;
    for (uint32_t v = 0; v < c->model->variable_count; v++) bytes += clq_variable_bytes(&c->model->variables[v]);
    for (uint64_t i = 0; i < t->head.kept; i++) {
        float *values = t->is_sender ? c->kept[i].values : NULL;
        uint64_t length = t->is_sender ? strlen(c->kept[i].name) + 1 : 0;
        CLQ_TRY(clq_world_broadcast(t->world, &length, sizeof length));
        char *name = t->is_sender ? clq_strdup(c->kept[i].name) : clq_alloc(length, 1);
        clq_status status = name ? clq_world_broadcast(t->world, name, length) : CLQ_ERROR_MEMORY;
        if (status == CLQ_OK && !t->is_sender) status = clq_checkpoint_add_kept(c, name, &values);
        clq_free(name);
        CLQ_TRY(status);
        CLQ_TRY(clq_world_broadcast(t->world, values, bytes));
    }
    return CLQ_OK;
}

static clq_status share_all(transfer *t) {
    clq_checkpoint *c = t->checkpoint;
    CLQ_TRY(clq_world_broadcast(t->world, &t->head, sizeof t->head));
    if (!t->head.has) return CLQ_OK;
    if (!t->is_sender) c->step = t->head.step;
    if (!t->is_sender) c->snapshot.replicas = t->head.replicas;
    if (!t->is_sender) c->snapshot.slots = t->head.slots;
    CLQ_TRY(share_values(t));
    CLQ_TRY(share_entries(t));
    return share_kept(t);
}

clq_status clq_checkpoint_share(clq_world *world, const clq_model *model, clq_checkpoint *checkpoint, bool *has) {
    transfer t = {.world = world, .checkpoint = checkpoint, .is_sender = clq_world_rank(world) == 0};
    if (clq_world_size(world) == 1) return CLQ_OK;
    checkpoint->model = model;
    if (t.is_sender)
        t.head = (head){.has = *has,
                        .step = checkpoint->step,
                        .entries = checkpoint->snapshot.count,
                        .kept = checkpoint->kept_count,
                        .replicas = checkpoint->snapshot.replicas,
                        .slots = checkpoint->snapshot.slots};
    const clq_status status = share_all(&t);
    *has = t.head.has;
    return status == CLQ_OK ? CLQ_OK : clq_world_fail_with(world, status);
}
