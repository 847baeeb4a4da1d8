/* A checkpoint from the one process that read it to all others of a training. */
#include "train/checkpoint.h"

#include <stdlib.h>
#include <string.h>

typedef struct head {
    uint64_t step, text_bytes, entries, kept;
    uint32_t has, replicas, slots;
} head;

/* Where the texts and the numbers go, or come from. */
typedef struct share {
    clq_world *world;
    clq_checkpoint *checkpoint;
    bool gives;
    head head;
} share;

/* Of rank 0: the values as text. Of the others: room for it. */
static clq_status open_text(share *s, char **text) {
    char *dumped = s->gives ? clq_json_dumps(s->checkpoint->values, JSON_COMPACT) : NULL;
    if (s->gives) *text = dumped ? clq_strdup(dumped) : NULL;
    free(dumped);
    s->head.text_bytes = *text ? strlen(*text) + 1 : 0;
    CLQ_TRY(clq_world_check(s->world, s->gives && !*text ? clq_fail_memory("sending a checkpoint") : CLQ_OK));
    CLQ_TRY(clq_world_broadcast(s->world, &s->head.text_bytes, sizeof s->head.text_bytes));
    if (!s->gives) *text = clq_alloc(s->head.text_bytes, 1);
    return clq_world_check(s->world, *text ? CLQ_OK : CLQ_MEMORY);
}

static clq_status share_values(share *s) {
    enum { DEPTH_MOST = 3 };
    char *text = NULL;
    clq_status status = open_text(s, &text);
    if (status == CLQ_OK) status = clq_world_broadcast(s->world, text, s->head.text_bytes);
    if (status == CLQ_OK && !s->gives)
        status = clq_json_parse(text, s->head.text_bytes - 1, DEPTH_MOST, "a checkpoint", &s->checkpoint->values);
    clq_free(text);
    return status;
}

static clq_status share_entries(const share *s) {
    clq_checkpoint *c = s->checkpoint;
    for (uint64_t i = 0; i < s->head.entries; i++) {
        clq_snapshot_entry e = s->gives ? c->snapshot.entries[i] : (clq_snapshot_entry){0};
        float *values = (float *)(uintptr_t)e.values;
        e.values = NULL;
        CLQ_TRY(clq_world_broadcast(s->world, &e, sizeof e));
        if (!s->gives) CLQ_TRY(clq_checkpoint_add_entry(c, e, &values));
        CLQ_TRY(clq_world_broadcast(s->world, values, clq_variable_bytes(&c->model->variables[e.variable])));
    }
    return CLQ_OK;
}

static clq_status share_kept(const share *s) {
    clq_checkpoint *c = s->checkpoint;
    size_t bytes = 0;
    for (uint32_t v = 0; v < c->model->variable_count; v++) bytes += clq_variable_bytes(&c->model->variables[v]);
    for (uint64_t i = 0; i < s->head.kept; i++) {
        char name[256] = "";
        float *values = s->gives ? c->kept[i].values : NULL;
        if (s->gives) (void)snprintf(name, sizeof name, "%s", c->kept[i].name);
        CLQ_TRY(clq_world_broadcast(s->world, name, sizeof name));
        if (!s->gives) CLQ_TRY(clq_checkpoint_add_kept(c, name, &values));
        CLQ_TRY(clq_world_broadcast(s->world, values, bytes));
    }
    return CLQ_OK;
}

static clq_status share_all(share *s) {
    clq_checkpoint *c = s->checkpoint;
    CLQ_TRY(clq_world_broadcast(s->world, &s->head, sizeof s->head));
    if (!s->head.has) return CLQ_OK;
    if (!s->gives) c->step = s->head.step;
    if (!s->gives) c->snapshot.replicas = s->head.replicas;
    if (!s->gives) c->snapshot.slots = s->head.slots;
    CLQ_TRY(share_values(s));
    CLQ_TRY(share_entries(s));
    return share_kept(s);
}

clq_status clq_checkpoint_share(clq_world *world, const clq_model *model, clq_checkpoint *checkpoint, bool *has) {
    share s = {.world = world, .checkpoint = checkpoint, .gives = clq_world_rank(world) == 0};
    if (clq_world_size(world) == 1) return CLQ_OK;
    checkpoint->model = model;
    if (s.gives)
        s.head = (head){.has = *has,
                        .step = checkpoint->step,
                        .entries = checkpoint->snapshot.count,
                        .kept = checkpoint->kept_count,
                        .replicas = checkpoint->snapshot.replicas,
                        .slots = checkpoint->snapshot.slots};
    const clq_status status = share_all(&s);
    *has = s.head.has;
    return status == CLQ_OK ? CLQ_OK : clq_world_fail_with(world, status);
}
