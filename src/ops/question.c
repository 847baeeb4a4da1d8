/* Questions of how an operation is made, and where their answers come from. */
#include "ops/list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void clq_question_start(clq_question *question, const char *format, ...) {
    *question = (clq_question){.count = 0};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(question->text, sizeof question->text, format, arguments);
    va_end(arguments);
}

/* The candidate of that name, or count. */
static size_t find(const clq_question *question, const char *name) {
    size_t i = 0;
    while (i < question->count && strcmp(question->candidates[i].name, name) != 0) i++;
    return i;
}

void clq_question_add(clq_question *question, uint32_t value0, uint32_t value1, const char *format, ...) {
    struct clq_candidate candidate = {.values = {value0, value1}};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(candidate.name, sizeof candidate.name, format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t)length < sizeof candidate.name);
    (void)length;
    if (question->count < CLQ_CANDIDATES_MOST && find(question, candidate.name) == question->count)
        question->candidates[question->count++] = candidate;
}

static bool forces(const clq_answer *answer, const clq_question *question) {
    size_t length = strlen(answer->text);
    return length > 0 && answer->text[length - 1] == '*' && strncmp(answer->text, question->text, length - 1) == 0;
}

static bool is_about(const clq_answer *answer, const clq_question *question) {
    return strcmp(answer->text, question->text) == 0 || forces(answer, question);
}

void clq_question_add_named(clq_question *question, const clq_list *list, uint32_t value0, uint32_t value1,
                            const char *name) {
    const clq_answers *own = list->answers;
    for (size_t i = 0; own && i < own->count; i++) {
        if (!is_about(&own->answers[i], question) || strcmp(own->answers[i].candidate, name) != 0) continue;
        if (question->count == CLQ_CANDIDATES_MOST) question->count--;
        clq_question_add(question, value0, value1, "%s", name);
        return;
    }
}

/* ---- keeping ---- */

/* What a measured answer depends on. */
static clq_status make_key(const clq_device *device, const char *question, clq_hash128 *out) {
    const clq_device_info *info = clq_device_get_info(device);
    char *text = clq_strprintf("answer 1 of clique %s\n%s %s %s %u units\n%s", clq_version(), info->driver, info->name,
                               info->driver_version, info->compute_units, question);
    if (!text) return CLQ_MEMORY;
    *out = clq_hash128_of(text, strlen(text), 0);
    clq_free(text);
    return CLQ_OK;
}

bool clq_answers_are_shared(const clq_device *a, const clq_device *b) {
    const clq_device_info *first = clq_device_get_info(a), *second = clq_device_get_info(b);
    return strcmp(first->driver, second->driver) == 0 && strcmp(first->name, second->name) == 0 &&
           strcmp(first->driver_version, second->driver_version) == 0 && first->compute_units == second->compute_units;
}

clq_status clq_answer_recall(const clq_device *device, const char *question, char candidate[CLQ_CANDIDATE_BYTES]) {
    clq_hash128 key;
    void *kept;
    size_t bytes;
    candidate[0] = '\0';
    if (!clq_device_remembers(device)) return CLQ_OK;
    CLQ_TRY(make_key(device, question, &key));
    CLQ_TRY(clq_device_recall(device, key, &kept, &bytes));
    if (kept && bytes < CLQ_CANDIDATE_BYTES) {
        memcpy(candidate, kept, bytes);
        candidate[bytes] = '\0';
    }
    clq_free(kept);
    return CLQ_OK;
}

clq_status clq_answer_keep(clq_device *device, const char *question, const char *candidate) {
    clq_hash128 key;
    CLQ_TRY(make_key(device, question, &key));
    return clq_device_replace(device, key, candidate, strlen(candidate));
}

/* ---- asking ---- */

void clq_list_set_answers(clq_list *list, const clq_answers *answers) { list->answers = answers; }

static size_t answer(clq_list *list, clq_question *question, bool *forced) {
    const clq_answers *own = list->answers;
    for (size_t i = 0; own && i < own->count; i++) {
        size_t found = find(question, own->answers[i].candidate);
        *forced = found < question->count && forces(&own->answers[i], question);
        if (*forced) return found;
        if (strcmp(own->answers[i].text, question->text) == 0) return found < question->count ? found : 0;
    }
    if (own && own->by_rule) return CLQ_MIN(own->nth, question->count - 1);
    char kept[CLQ_CANDIDATE_BYTES];
    clq_list_latch(list, clq_answer_recall(list->device, question->text, kept));
    size_t found = find(question, kept);
    question->kept = found < question->count;
    return question->kept ? found : 0;
}

const struct clq_candidate *clq_list_ask(clq_list *list, clq_question *question) {
    assert(question->count > 0);
    question->index = SIZE_MAX;
    if (question->count == 1) return &question->candidates[0];
    bool forced = false;
    question->answer = list->error.status == CLQ_OK ? answer(list, question, &forced) : 0;
    question->first = list->launch_count;
    if (!forced && CLQ_LIST_GROW(list, questions, question_count, question_capacity)) {
        question->index = list->question_count++;
        list->questions[question->index] = *question;
    }
    return &question->candidates[question->answer];
}

void clq_list_end_question(clq_list *list, const clq_question *question) {
    if (question->index != SIZE_MAX) list->questions[question->index].end = list->launch_count;
}

size_t clq_list_question_count(const clq_list *list) { return list->question_count; }

const clq_question *clq_list_question(const clq_list *list, size_t index) { return &list->questions[index]; }
