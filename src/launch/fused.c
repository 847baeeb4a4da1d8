#include "launch/fused.h"

#include <assert.h>
#include <string.h>

enum {
    LAUNCHES_MAX = 128, /* of a kernel: twice as many launches take a compiler more than twice as long */
    RUNS_PER_GROUP = 8, /* runs of a launch's items per group: a group that comes late finds some left */
    SIZES = 3,          /* words for the sizes of a launch */
    COUNTER = 16        /* ints of a progress counter, as in cl/sequence.cl */
};

/* What a fused kernel is made from. */
typedef struct making {
    clq_list *list;
    const clq_launch *launches; /* of the run: launch i is the list's launch first + i */
    size_t launch_count;
    clq_program_part *functions; /* the functions of the launches, each once */
    size_t function_count;
    size_t *function_of; /* of each launch: index in `functions` */
    clq_buffer *buffers[CLQ_FUSED_BUFFERS_MAX];
    size_t buffer_count;
    uint64_t *words; /* the sizes of all launches, then their arguments: offsets in buffers, numbers */
    size_t word_count;
    clq_text text;
} making;

static bool is_fusible(const clq_launch *launch) {
    if (!launch->file || launch->text) return false;
    for (uint32_t d = 0; d < launch->dims; d++)
        if (launch->has_local ? launch->local[d] != 1 : true) return false;
    return true;
}

/* The buffers of a run. The list's own address stands for the placeholder's buffer. */
typedef struct buffer_set {
    const void *buffers[CLQ_FUSED_BUFFERS_MAX];
    size_t count;
} buffer_set;

/* Adds the buffers of a launch. Returns false and leaves the set as it is if there would be too many. */
static bool add_buffers(const clq_list *list, const clq_launch *launch, buffer_set *set) {
    buffer_set more = *set;
    for (size_t i = 0; i < launch->argument_count; i++) {
        const clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind != CLQ_ARGUMENT_VALUE) continue;
        const void *buffer = list;
        if (argument->value != CLQ_NO_VALUE) buffer = list->values[argument->value - 1].buffer;
        size_t k = 0;
        while (k < more.count && more.buffers[k] != buffer) k++;
        if (k == CLQ_FUSED_BUFFERS_MAX) return false;
        if (k == more.count) more.buffers[more.count++] = buffer;
    }
    *set = more;
    return true;
}

size_t clq_fused_end(const clq_list *list, size_t first) {
    buffer_set set = {.count = 0};
    size_t end = first;
    if (list->family != CLQ_FAMILY_TILE) return first;
    while (end < list->launch_count && end - first < LAUNCHES_MAX && is_fusible(&list->launches[end]) &&
           add_buffers(list, &list->launches[end], &set))
        end++;
    return end;
}

/* ---- what depends on what ---- */

static bool overlap(const clq_list *list, const clq_argument *a, const clq_argument *b) {
    const clq_value_slot *x = &list->values[a->value - 1], *y = &list->values[b->value - 1];
    size_t at = x->offset + a->offset, other = y->offset + b->offset;
    return x->buffer == y->buffer && at < other + b->bytes && other < at + a->bytes;
}

static bool depends(const clq_list *list, const clq_launch *later, const clq_launch *earlier) {
    for (size_t i = 0; i < later->argument_count; i++) {
        const clq_argument *a = &list->arguments[later->first_argument + i];
        if (a->kind != CLQ_ARGUMENT_VALUE || a->value == CLQ_NO_VALUE) continue;
        for (size_t k = 0; k < earlier->argument_count; k++) {
            const clq_argument *b = &list->arguments[earlier->first_argument + k];
            if (b->kind != CLQ_ARGUMENT_VALUE || b->value == CLQ_NO_VALUE) continue;
            if (((a->access | b->access) & CLQ_WRITES) && overlap(list, a, b)) return true;
        }
    }
    return false;
}

/* ---- its text ---- */

static clq_status find_functions(making *m) {
    for (size_t i = 0; i < m->launch_count; i++) {
        const clq_launch *launch = &m->launches[i];
        size_t k = 0;
        while (k < m->function_count &&
               (strcmp(m->functions[k].file, launch->file) || strcmp(m->functions[k].options, launch->options) ||
                strcmp(m->functions[k].function, launch->function)))
            k++;
        if (k == m->function_count)
            m->functions[m->function_count++] =
                (clq_program_part){.file = launch->file, .options = launch->options, .function = launch->function};
        m->function_of[i] = k;
    }
    return clq_fused_source(m->functions, m->function_count, &m->text);
}

/* The index of the buffer among the kernel's. There is always room: clq_fused_end has counted them. */
static size_t buffer_index(making *m, clq_buffer *buffer) {
    size_t k = 0;
    while (k < m->buffer_count && m->buffers[k] != buffer) k++;
    assert(k < CLQ_FUSED_BUFFERS_MAX);
    if (k == m->buffer_count) m->buffers[m->buffer_count++] = buffer;
    return k;
}

static size_t add_word(making *m, uint64_t word) {
    m->words[m->word_count] = word;
    return m->word_count++;
}

static clq_status add_argument(making *m, const clq_argument *argument) {
    clq_list *list = m->list;
    switch (argument->kind) {
    case CLQ_ARGUMENT_VALUE: {
        clq_buffer *buffer;
        size_t offset = 0;
        if (argument->value == CLQ_NO_VALUE) {
            CLQ_TRY(clq_list_placeholder(list, &buffer));
        } else {
            const clq_value_slot *slot = &list->values[argument->value - 1];
            if (!slot->buffer) return clq_fail(CLQ_ERROR_INTERNAL, "%s has no place", slot->name);
            buffer = slot->buffer;
            offset = slot->offset + argument->offset;
        }
        clq_text_add(&m->text, ", (global void *)(b%zu + words[%zu])", buffer_index(m, buffer), add_word(m, offset));
        break;
    }
    case CLQ_ARGUMENT_INT: clq_text_add(&m->text, ", (int)words[%zu]", add_word(m, argument->word.bits)); break;
    case CLQ_ARGUMENT_FLOAT:
        clq_text_add(&m->text, ", as_float((uint)words[%zu])", add_word(m, argument->word.bits));
        break;
    case CLQ_ARGUMENT_PARAM: clq_text_add(&m->text, ", p%d", (int)argument->param); break;
    case CLQ_ARGUMENT_LOCAL: clq_text_add(&m->text, ", none"); break;
    }
    return CLQ_OK;
}

/* Declares the sizes of a launch and the number of its items: "const int n3 = …". */
static void add_sizes(making *m, size_t index) {
    const clq_launch *launch = &m->launches[index];
    clq_text_add(&m->text, "    const size_t");
    for (uint32_t d = 0; d < SIZES; d++) {
        uint64_t size = d < launch->dims ? launch->global[d] : 1;
        clq_text_add(&m->text, d ? ", s%zu_%u = " : " s%zu_%u = ", index, d);
        if ((int)d == launch->batch_dim) {
            clq_text_add(&m->text, "((size_t)p%d * words[%zu] + %zu) / %zu", (int)CLQ_PARAM_COUNT,
                         add_word(m, launch->rows_per_example), launch->rows_per_group - 1, launch->rows_per_group);
        } else {
            clq_text_add(&m->text, "words[%zu]", add_word(m, size));
        }
    }
    clq_text_add(&m->text, ";\n    const int n%zu = (int)(s%zu_0 * s%zu_1 * s%zu_2);\n", index, index, index, index);
}

/* Waits for the earlier launches that this one depends on, unless a launch before it has already waited for them. */
static void add_waits(making *m, size_t index, bool *waited) {
    for (size_t k = index; k-- > 0;) {
        if (waited[k] || !depends(m->list, &m->launches[index], &m->launches[k])) continue;
        waited[k] = true;
        clq_text_add(&m->text, "        if (groups > 1 && first <= %zu) wait_for(progress, %zu, n%zu);\n", k, k, k);
    }
}

static clq_status add_launch(making *m, size_t index, bool *waited) {
    const clq_launch *launch = &m->launches[index];
    clq_text_add(&m->text, "    if (first <= %zu && %zu < end) {\n", index, index);
    add_waits(m, index, waited);
    clq_text_add(
        &m->text,
        "        for (int begin = 0, stop = 0; take(progress, %zu, groups, n%zu, stop - begin, &begin, &stop);)\n"
        "            for (int i = begin; i < stop; i++)\n"
        "                %s_%zu(i %% s%zu_0, i / s%zu_0 %% s%zu_1, i / s%zu_0 / s%zu_1, s%zu_0, s%zu_1, s%zu_2",
        index, index, launch->function, m->function_of[index], index, index, index, index, index, index, index, index);
    for (size_t i = 0; i < launch->argument_count; i++)
        CLQ_TRY(add_argument(m, &m->list->arguments[launch->first_argument + i]));
    clq_text_add(&m->text, ");\n    }\n");
    return CLQ_OK;
}

/* The kernel's parameters with their types, or just their names, as arguments for the function `run`. */
static void add_parameters(making *m, bool typed) {
    clq_text_add(&m->text, typed
                               ? "global const ulong *restrict words, counters progress, int first, int end, int groups"
                               : "words, progress, first, end, groups");
    for (int p = 0; p < CLQ_PARAM_COUNT_OF; p++)
        clq_text_add(&m->text, ", %s%sp%d", typed ? clq_param_table[p].kernel_type : "", typed ? " " : "", p);
    for (size_t k = 0; k < m->buffer_count; k++) clq_text_add(&m->text, typed ? ", global char *b%zu" : ", b%zu", k);
}

/* Writes the body first: only the body tells which buffers the parameters must name. The body is a function that the
 * kernel calls. PoCL 7 looks in each kernel for what differs between work-items, which takes twice as long for each
 * further loop and branch in the kernel. */
static clq_status add_kernel(making *m) {
    size_t launches = m->launch_count;
    bool waited[LAUNCHES_MAX] = {false};
    clq_text front = m->text;
    m->text = (clq_text){0};
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < launches; i++) add_sizes(m, i);
    for (size_t i = 0; i < launches && status == CLQ_OK; i++) status = add_launch(m, i, waited);
    clq_text body = m->text;
    m->text = front;
    clq_text_add(&m->text, "#define RUNS %d\n", RUNS_PER_GROUP);
    clq_text_add_text(&m->text, clq_source_text("sequence"));
    clq_text_add(&m->text, "\nSEQUENCE_BODY static void run(local float *none, ");
    add_parameters(m, true);
    clq_text_add(&m->text, ") {\n");
    if (body.data) clq_text_add_bytes(&m->text, body.data, body.length);
    clq_text_add(&m->text, "    leave(progress, %zu, groups);\n}\n\nkernel CLQ_GROUP_OF_ONE void sequence(", launches);
    add_parameters(m, true);
    clq_text_add(&m->text, ") {\n    local float none[1];\n    run(none, ");
    add_parameters(m, false);
    clq_text_add(&m->text, ");\n}\n");
    bool whole = !body.failed && !m->text.failed;
    clq_free(body.data);
    return status != CLQ_OK ? status : whole ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void making_free(making *m) {
    clq_free(m->functions);
    clq_free(m->function_of);
    clq_free(m->words);
    clq_free(m->text.data);
}

static clq_status make(const clq_fused *fused, making *m) {
    *m = (making){.list = fused->list,
                  .launches = &fused->list->launches[fused->first],
                  .launch_count = fused->end - fused->first};
    size_t words = SIZES * m->launch_count;
    for (size_t i = 0; i < m->launch_count; i++) words += m->launches[i].argument_count;
    m->functions = clq_alloc(m->launch_count, sizeof *m->functions);
    m->function_of = clq_alloc(m->launch_count, sizeof *m->function_of);
    m->words = clq_alloc(words, sizeof *m->words);
    if (!m->functions || !m->function_of || !m->words) return CLQ_ERROR_MEMORY;
    CLQ_TRY(find_functions(m));
    return add_kernel(m);
}

/* ---- its life ---- */

static clq_status set_numbers(clq_fused *fused, const uint32_t numbers[CLQ_FUSED_NUMBERS]) {
    for (uint32_t i = 0; i < CLQ_FUSED_NUMBERS; i++) {
        if (fused->called && fused->numbers[i] == numbers[i]) continue;
        CLQ_TRY(clq_kernel_set_bytes(fused->kernel, CLQ_FUSED_FIRST_NUMBER + i, &numbers[i], sizeof numbers[i]));
        fused->numbers[i] = numbers[i];
    }
    fused->called = true;
    return CLQ_OK;
}

static clq_status set_buffer(clq_fused *fused, size_t k, clq_buffer *buffer) {
    CLQ_TRY(clq_kernel_set_buffer(fused->kernel, (uint32_t)(CLQ_FUSED_FIRST_BUFFER + k), buffer));
    fused->buffers[k] = buffer;
    return CLQ_OK;
}

static clq_status write_words(clq_fused *fused, const making *m) {
    clq_device *device = fused->list->device;
    size_t bytes = m->word_count * sizeof *m->words;
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "fused launches' numbers", &fused->words));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, (2 * m->launch_count + 1) * COUNTER * sizeof(int32_t),
                              "fused launches' progress", &fused->progress));
    return clq_buffer_set(device, fused->words, m->words, bytes);
}

/* Runs none of the launches, so that the time is the compiler's alone. */
static clq_status launch_empty(clq_fused *fused) {
    static const uint32_t none[CLQ_FUSED_NUMBERS] = {0, 0, 1};
    static const size_t one = 1;
    clq_queue *queue;
    CLQ_TRY(clq_queue_create(fused->list->device, 0, &queue));
    clq_status status = set_numbers(fused, none);
    if (status == CLQ_OK) status = clq_queue_launch(queue, fused->kernel, 1, &one, &one);
    if (status == CLQ_OK) status = clq_queue_finish(queue);
    clq_queue_destroy(queue);
    return status;
}

static clq_status bind(clq_fused *fused, const making *m) {
    const clq_program_wish program = {
        .file = "sequence", .options = "", .kernels = "", .text = m->text.data, .optional = true};
    CLQ_TRY(clq_kernel_create_among(fused->list->device, &program, "sequence", &fused->kernel));
    CLQ_TRY(write_words(fused, m));
    CLQ_TRY(clq_kernel_set_buffer(fused->kernel, CLQ_FUSED_WORDS, fused->words));
    CLQ_TRY(clq_kernel_set_buffer(fused->kernel, CLQ_FUSED_PROGRESS, fused->progress));
    for (; fused->buffer_count < m->buffer_count; fused->buffer_count++)
        CLQ_TRY(set_buffer(fused, fused->buffer_count, m->buffers[fused->buffer_count]));
    return clq_kernel_is_new(fused->kernel) ? launch_empty(fused) : CLQ_OK;
}

clq_status clq_fused_create(clq_list *list, size_t first, size_t end, clq_fused **out) {
    clq_fused *fused = clq_alloc(1, sizeof *fused);
    if (!fused) return CLQ_ERROR_MEMORY;
    fused->list = list;
    fused->first = first;
    fused->end = end;
    fused->groups = CLQ_MAX(clq_device_get_info(list->device)->compute_units, 1u);
    making m;
    clq_status status = make(fused, &m);
    if (status == CLQ_OK) status = bind(fused, &m);
    making_free(&m);
    *out = status == CLQ_OK ? fused : NULL;
    if (status != CLQ_OK) clq_fused_destroy(fused);
    return status == CLQ_ERROR_UNSUPPORTED ? CLQ_OK : status;
}

void clq_fused_destroy(clq_fused *fused) {
    if (!fused) return;
    clq_kernel_destroy(fused->kernel);
    clq_buffer_destroy(fused->words);
    clq_buffer_destroy(fused->progress);
    clq_free(fused);
}

clq_status clq_fused_replace(clq_fused *fused, const clq_buffer *before, clq_buffer *buffer) {
    for (size_t k = 0; k < fused->buffer_count; k++)
        if (fused->buffers[k] == before) CLQ_TRY(set_buffer(fused, k, buffer));
    return CLQ_OK;
}

clq_status clq_fused_swap(clq_fused *fused, clq_buffer *a, clq_buffer *b) {
    for (size_t k = 0; k < fused->buffer_count; k++) {
        clq_buffer *buffer = fused->buffers[k];
        if (buffer == a || buffer == b) CLQ_TRY(set_buffer(fused, k, buffer == a ? b : a));
    }
    return CLQ_OK;
}

clq_status clq_fused_run(clq_fused *fused, clq_queue *queue, size_t first, size_t end, const clq_order *order) {
    static const size_t one = 1;
    const clq_list *list = fused->list;
    uint32_t numbers[CLQ_FUSED_NUMBERS] = {(uint32_t)(first - fused->first), (uint32_t)(end - fused->first),
                                           (uint32_t)fused->groups};
    for (size_t p = 0; p < CLQ_PARAM_COUNT_OF; p++)
        numbers[CLQ_FUSED_NUMBERS - CLQ_PARAM_COUNT_OF + p] = clq_param_word(&list->params, (clq_param)p).bits;
    CLQ_TRY(set_numbers(fused, numbers));
    return clq_queue_launch_after(queue, fused->kernel, 1, &fused->groups, &one, order);
}
