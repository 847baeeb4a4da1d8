/* Replicas' helpers: see clq_helper in ops.h. */
#include "ops/sequence.h"

enum { ALIASES_MAX = 64 };

struct clq_helper {
    clq_list *own;      /* of the device that helps */
    const clq_list *of; /* whose launches these are */
    clq_caller caller;
    clq_buffer *words, *progress;
    clq_buffer *seen[CLQ_SEQUENCE_BUFFERS_MAX]; /* the other's, which the arguments stand for */
    struct {
        const clq_buffer *of;
        clq_buffer *alias;
    } aliases[ALIASES_MAX];
    size_t alias_count;
};

static bool can_help(const clq_list *own, const clq_list *of) {
    if (!own->sequence || !of->sequence || own->sequence->groups != 1 || of->sequence->groups != 1) return false;
    return own->sequence->text.low == of->sequence->text.low && own->sequence->text.high == of->sequence->text.high;
}

static clq_status alias_of(clq_helper *helper, const clq_buffer *of, clq_buffer **out) {
    for (size_t i = 0; i < helper->alias_count; i++) {
        *out = helper->aliases[i].alias;
        if (helper->aliases[i].of == of) return CLQ_OK;
    }
    if (helper->alias_count == ALIASES_MAX)
        return clq_fail(CLQ_UNSUPPORTED, "a helper for memory in more than %d buffers", ALIASES_MAX);
    CLQ_TRY(clq_buffer_alias(helper->own->device, of, out));
    helper->aliases[helper->alias_count].of = of;
    helper->aliases[helper->alias_count++].alias = *out;
    return CLQ_OK;
}

clq_status clq_helper_expect(clq_helper *helper, const clq_buffer *buffer) {
    clq_buffer *alias;
    return alias_of(helper, buffer, &alias);
}

static clq_status follow_buffers(clq_helper *helper) {
    const clq_caller *other = &helper->of->sequence->caller;
    for (size_t k = 0; k < other->buffer_count; k++) {
        clq_buffer *alias;
        if (helper->seen[k] == other->buffers[k]) continue;
        CLQ_TRY(alias_of(helper, other->buffers[k], &alias));
        CLQ_TRY(clq_caller_set_buffer(&helper->caller, k, alias));
        helper->seen[k] = other->buffers[k];
    }
    return CLQ_OK;
}

static clq_status make(clq_helper *helper) {
    const clq_sequence *other = helper->of->sequence;
    CLQ_TRY(clq_kernel_create_again(helper->own->sequence->caller.kernel, &helper->caller.kernel));
    CLQ_TRY(clq_buffer_alias(helper->own->device, other->words, &helper->words));
    CLQ_TRY(clq_buffer_alias(helper->own->device, other->progress, &helper->progress));
    CLQ_TRY(clq_kernel_set_buffer(helper->caller.kernel, CLQ_SEQUENCE_WORDS, helper->words));
    CLQ_TRY(clq_kernel_set_buffer(helper->caller.kernel, CLQ_SEQUENCE_PROGRESS, helper->progress));
    return follow_buffers(helper);
}

clq_status clq_helper_create(clq_list *own, const clq_list *of, clq_helper **out) {
    if (!can_help(own, of)) return CLQ_OK;
    clq_helper *helper = clq_alloc(1, sizeof *helper);
    if (!helper) return CLQ_MEMORY;
    helper->own = own;
    helper->of = of;
    clq_status status = make(helper);
    if (status == CLQ_OK)
        *out = helper;
    else
        clq_helper_destroy(helper);
    return status;
}

void clq_helper_destroy(clq_helper *helper) {
    if (!helper) return;
    clq_kernel_destroy(helper->caller.kernel);
    clq_buffer_destroy(helper->words);
    clq_buffer_destroy(helper->progress);
    for (size_t i = 0; i < helper->alias_count; i++) clq_buffer_destroy(helper->aliases[i].alias);
    clq_free(helper);
}

uint64_t clq_list_helps(const clq_list *list) {
    if (!list->sequence) return 0;
    const int32_t *progress = clq_buffer_host(list->sequence->progress);
    return progress ? (uint64_t)progress[CLQ_SEQUENCE_HELPS(list)] : 0;
}

clq_status clq_helper_run(clq_helper *helper, clq_queue *queue, size_t helpers, size_t first, size_t end) {
    CLQ_TRY(follow_buffers(helper));
    return clq_caller_run(&helper->caller, queue, helper->of, first, end, 1 + helpers, CLQ_ROLE_HELPER, 1);
}
