/* Groups that were split from a group. Each group runs its own calls in order. The groups share devices and memory, and
 * a failure of one ends all. Also messages between two ranks, which delay no other rank. */
#include "support/check.h"
#include "support/comm_cases.h"

#include <stdio.h>
#include <unistd.h>

enum { RANKS_MOST = 5, COUNT = 1031 };

static const clq_group_config automatic, staged = {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 512};

static void wait_and_release(cl_event *events, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        while (state_of(events[i]) > CL_COMPLETE) (void)usleep(200);
        assert_int_equal(state_of(events[i]), CL_COMPLETE);
        cl_ok(clReleaseEvent(events[i]));
    }
}

/* put writes `value` + i to element i of a rank's memory. expect checks for `value` + `each` * i. */
static void put(const ranks *all, unsigned rank, cl_mem memory, int32_t value) {
    int32_t values[COUNT];
    for (size_t i = 0; i < COUNT; i++) values[i] = value + (int32_t)i;
    cl_ok(clEnqueueWriteBuffer(clq_queue_handle(all->queues[rank]), memory, CL_TRUE, 0, sizeof values, values, 0, NULL,
                               NULL));
}

static void expect(const ranks *all, unsigned rank, cl_mem memory, int32_t value, int32_t each) {
    int32_t values[COUNT];
    cl_ok(clEnqueueReadBuffer(clq_queue_handle(all->queues[rank]), memory, CL_TRUE, 0, sizeof values, values, 0, NULL,
                              NULL));
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(values[i], value + each * (int32_t)i);
}

static void make_memory(clq_group *group, unsigned count, cl_mem *memory) {
    for (unsigned r = 0; r < count; r++) assert_ok(clq_group_alloc(group, r, COUNT * sizeof(int32_t), &memory[r]));
}

static clq_status add(clq_group *group, const cl_mem *memory, unsigned count, const cl_event *waits, cl_event *done) {
    clq_slice slices[RANKS_MOST];
    for (unsigned r = 0; r < count; r++) slices[r] = (clq_slice){memory[r], 0};
    return clq_all_reduce(group, slices, slices, COUNT, CLQ_I32, CLQ_REDOP_SUM, waits, done);
}

/* Splits off one group of these ranks, in this order. */
static clq_group *split_off(clq_group *group, const unsigned *who, unsigned count) {
    int colors[RANKS_MOST] = {CLQ_NO_COLOR, CLQ_NO_COLOR, CLQ_NO_COLOR, CLQ_NO_COLOR, CLQ_NO_COLOR},
        keys[RANKS_MOST] = {0};
    clq_group *part;
    for (unsigned i = 0; i < count; i++) {
        colors[who[i]] = 0;
        keys[who[i]] = (int)i - 2;
    }
    assert_ok(clq_group_split(group, colors, keys, 1, &part));
    return part;
}

/* ---- which ranks are in which group ---- */

/* Checks the ranks of `part`, in order. Each rank gathers its number in `group` from all ranks. */
static void expect_ranks(const ranks *all, clq_group *part, const unsigned *who, unsigned count) {
    cl_mem in[RANKS_MOST], out[RANKS_MOST];
    clq_slice ins[RANKS_MOST], outs[RANKS_MOST];
    uint32_t told[RANKS_MOST];
    for (unsigned i = 0; i < count; i++) {
        assert_ok(clq_group_alloc(part, i, sizeof *told, &in[i]));
        assert_ok(clq_group_alloc(part, i, count * sizeof *told, &out[i]));
        ins[i] = (clq_slice){in[i], 0};
        outs[i] = (clq_slice){out[i], 0};
        cl_ok(clEnqueueWriteBuffer(clq_queue_handle(all->queues[who[i]]), in[i], CL_TRUE, 0, sizeof *told, &who[i], 0,
                                   NULL, NULL)); /* fails if rank i is on another rank's device */
    }
    assert_ok(clq_all_gather(part, ins, outs, 1, CLQ_U32, NULL, NULL));
    for (unsigned i = 0; i < count; i++) {
        cl_ok(clEnqueueReadBuffer(clq_queue_handle(all->queues[who[i]]), out[i], CL_TRUE, 0, count * sizeof *told, told,
                                  0, NULL, NULL));
        for (unsigned k = 0; k < count; k++) assert_int_equal(told[k], who[k]);
    }
    assert_fails(CLQ_ERROR_ARGUMENT, "is out of range", clq_group_alloc(part, count, 4, &in[0])); /* no more ranks */
}

static void colors_and_keys(void **state) {
    (void)state;
    static const struct {
        int colors[5];
        bool keyed;
        int keys[5];
        unsigned groups, sizes[3], who[3][5];
    } cases[] = {{{1, 0, 1, CLQ_NO_COLOR, 1}, true, {5, 0, -3, -9, 5}, 2, {1, 3}, {{1}, {2, 0, 4}}},
                 {{0, 1, 0, 1, 0}, false, {0}, 2, {3, 2}, {{0, 2, 4}, {1, 3}}},
                 {{0, 0, 0, 0, 0}, true, {4, 3, 2, 1, 0}, 1, {5}, {{4, 3, 2, 1, 0}}},
                 {{2, 1, 0, 2, 0}, true, {1, 7, 2, 0, 2}, 3, {2, 1, 2}, {{2, 4}, {1}, {3, 0}}}};
    ranks all;
    ranks_open(&all, "bpbib", false, NULL);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_group *parts[3], *group = comm_case_group(&all, i % 2 ? &automatic : &staged);
        const int *keys = cases[i].keyed ? cases[i].keys : NULL;
        assert_ok(clq_group_split(group, cases[i].colors, keys, cases[i].groups, parts));
        for (unsigned c = 0; c < cases[i].groups; c++) expect_ranks(&all, parts[c], cases[i].who[c], cases[i].sizes[c]);
        if (i == 0) { /* a part of a part: ranks 0 and 2 of the part */
            clq_group *inner = split_off(parts[1], (unsigned[]){2, 0}, 2);
            expect_ranks(&all, inner, (unsigned[]){4, 2}, 2);
            clq_group_destroy(inner);
        }
        for (unsigned c = 0; c < cases[i].groups; c++) clq_group_destroy(parts[c]);
        clq_group_destroy(group);
    }
    ranks_close(&all);
}

/* ---- collectives of groups ---- */

/* Every collective of a group of ranks 3, 0 and 2, with every setting and by each way of calling. */
static void every_collective(void **state) {
    (void)state;
    static const unsigned who[] = {3, 0, 2};
    for (size_t i = 0; i < COMM_SETTINGS; i++) {
        ranks all, part;
        clq_group *group;
        clq_group_config config = comm_settings[i];
        config.chunk_bytes = 512;
        ranks_open(&all, config.transport == CLQ_TRANSPORT_PEER ? "b1b1b1p1" : "bbip", false, NULL);
        clq_group *whole = comm_case_group(&all, &config);
        group = split_off(whole, who, CLQ_COUNT_OF(who));
        ranks_split(&all, who, CLQ_COUNT_OF(who), &part); /* the case's devices, and the queues of the group's ranks */
        for (unsigned r = 0; r < CLQ_COUNT_OF(who); r++) {
            clq_queue_destroy(part.queues[r]);
            part.queues[r] = all.queues[who[r]];
        }
        for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++) {
            const comm_case c = {.collective = (clq_collective)collective,
                                 .dtype = collective % 2 ? CLQ_F32 : CLQ_U32,
                                 .count = COUNT,
                                 .root = 2,
                                 .placement = APART,
                                 .caller = i % 2 ? CALL_EVENTS : CALL_BLOCKING,
                                 .plain = i % 3 == 0,
                                 .seed = i};
            (void)comm_case_run(&part, group, &c, "a group of ranks 3, 0, 2 of four");
        }
        for (unsigned r = 0; r < CLQ_COUNT_OF(who); r++) part.queues[r] = NULL;
        ranks_close_part(&part);
        clq_group_destroy(group);
        clq_group_destroy(whole);
        ranks_close(&all);
    }
}

/* A call of one group is held back. Two other groups go on: a group of the same ranks, and a group of two of them. */
static void a_group_is_a_stream_of_its_own(void **state) {
    (void)state;
    static const clq_group_config configs[] = {{0}, {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 512}};
    static const char *const kinds[] = {"bbbb", "bpip"};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (size_t c = 0; c < CLQ_COUNT_OF(configs); c++) {
            ranks all;
            clq_group *second, *pair;
            cl_mem held[4], memory[4];
            cl_event waits[4] = {NULL}, done[4];
            ranks_open(&all, kinds[k], false, NULL);
            clq_group *group = comm_case_group(&all, &configs[c]);
            second = split_off(group, (unsigned[]){0, 1, 2, 3}, 4);
            pair = split_off(group, (unsigned[]){2, 1}, 2);
            make_memory(group, 4, held);
            make_memory(second, 4, memory);
            for (unsigned r = 0; r < 4; r++) put(&all, r, held[r], (int32_t)r), put(&all, r, memory[r], 10);
            waits[1] = user_event(&all, 1);
            assert_ok(add(group, held, 4, waits, done));
            for (int round = 0; round < 3; round++) assert_ok(add(second, memory, 4, NULL, NULL));
            assert_ok(add(pair, (cl_mem[]){memory[2], memory[1]}, 2, NULL, NULL));
            for (unsigned r = 0; r < 4; r++) {
                const bool twice = r == 1 || r == 2;
                expect(&all, r, memory[r], twice ? 1280 : 640, twice ? 128 : 64);
                assert_true(state_of(done[r]) > CL_COMPLETE);
            }
            cl_ok(clSetUserEventStatus(waits[1], CL_COMPLETE));
            wait_and_release(done, 4);
            cl_ok(clReleaseEvent(waits[1]));
            for (unsigned r = 0; r < 4; r++) expect(&all, r, held[r], 6, 4);
            clq_group_destroy(pair);
            clq_group_destroy(second);
            clq_group_destroy(group);
            ranks_close(&all);
        }
}

typedef struct caller {
    clq_group *group;
    unsigned count;
    cl_mem memory[RANKS_MOST];
    clq_thread *thread;
    clq_status status;
} caller;

enum { ROUNDS = 20 };

/* Sums, messages from the last rank to rank 0, and allocations that are freed again. */
static clq_status call_often(caller *c) {
    for (int round = 0; round < ROUNDS; round++) {
        cl_mem extra;
        const clq_slice from = {c->memory[c->count - 1], 0};
        CLQ_TRY(clq_group_alloc(c->group, 0, COUNT * sizeof(int32_t), &extra));
        const clq_slice to = {extra, 0};
        clq_status status = clq_send_recv(c->group, c->count - 1, &from, 0, &to, COUNT, CLQ_I32, NULL, NULL);
        if (status == CLQ_OK && round < 4) status = add(c->group, c->memory, c->count, NULL, NULL);
        clq_group_free(c->group, extra);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

static void call_on_thread(void *context) {
    caller *c = context;
    c->status = call_often(c);
}

/* Groups that have ranks in common. A thread of its own calls each group. */
static void a_thread_for_each_group(void **state) {
    (void)state;
    static const clq_group_config *const configs[] = {&automatic, &staged};
    for (size_t i = 0; i < CLQ_COUNT_OF(configs); i++) {
        ranks all;
        caller callers[3] = {{.count = 4}, {.count = 3}, {.count = 4}};
        static const unsigned who[3][4] = {{0, 1, 2, 3}, {3, 1, 0}, {2, 3, 0, 1}};
        ranks_open(&all, "bpbi", false, NULL);
        clq_group *group = comm_case_group(&all, configs[i]);
        for (size_t k = 0; k < CLQ_COUNT_OF(callers); k++) {
            caller *c = &callers[k];
            c->group = k == 0 ? group : split_off(group, who[k], c->count);
            make_memory(c->group, c->count, c->memory);
            for (unsigned r = 0; r < c->count; r++) put(&all, who[k][r], c->memory[r], (int32_t)r);
        }
        for (size_t k = 0; k < CLQ_COUNT_OF(callers); k++)
            assert_ok(clq_thread_start("caller", call_on_thread, &callers[k], &callers[k].thread));
        for (size_t k = 0; k < CLQ_COUNT_OF(callers); k++) clq_thread_join(callers[k].thread);
        for (size_t k = 0; k < CLQ_COUNT_OF(callers); k++) {
            const caller *c = &callers[k];
            assert_int_equal(c->status, CLQ_OK);
            for (unsigned r = 0; r < c->count; r++) /* 4 sums of n ranks; the first sum is 0 + 1 + … */
                expect(&all, who[k][r], c->memory[r], c->count == 4 ? 6 * 64 : 3 * 27, c->count == 4 ? 256 : 81);
        }
        for (size_t k = CLQ_COUNT_OF(callers); k-- > 0;) clq_group_destroy(callers[k].group);
        ranks_close(&all);
    }
}

/* Messages from 0 to 1 and from 2 to 3 at once. Neither the other pair nor a held rank outside the pair delays a
 * message. */
static void messages_hold_up_no_other_rank(void **state) {
    (void)state;
    static const clq_group_config *const configs[] = {&automatic, &staged};
    static const char *const kinds[] = {"bbbb", "pipb"};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (size_t c = 0; c < CLQ_COUNT_OF(configs); c++) {
            ranks all;
            cl_mem memory[4];
            cl_event waits[4] = {NULL}, done[2][4];
            ranks_open(&all, kinds[k], false, NULL);
            clq_group *group = comm_case_group(&all, configs[c]);
            make_memory(group, 4, memory);
            for (unsigned r = 0; r < 4; r++) put(&all, r, memory[r], 1000 * (int32_t)r);
            waits[2] = user_event(&all, 2);
            for (unsigned pair = 0; pair < 2; pair++) {
                const clq_slice in = {memory[2 * pair], 0}, out = {memory[2 * pair + 1], 0};
                /* Rank 2 is held in the first call, in which it has no part. */
                assert_ok(clq_send_recv(group, 2 * pair, &in, 2 * pair + 1, &out, COUNT, CLQ_I32,
                                        pair == 0 ? waits : NULL, done[pair]));
            }
            wait_and_release(done[0], 2);
            expect(&all, 1, memory[1], 0, 1);
            wait_and_release(&done[1][0], 2); /* these ranks have no part in the call, and nothing to wait for */
            assert_true(state_of(done[0][2]) > CL_COMPLETE);
            assert_true(state_of(done[1][2]) > CL_COMPLETE && state_of(done[1][3]) > CL_COMPLETE);
            cl_ok(clSetUserEventStatus(waits[2], CL_COMPLETE));
            wait_and_release(&done[0][2], 2);
            wait_and_release(&done[1][2], 2);
            cl_ok(clReleaseEvent(waits[2]));
            expect(&all, 3, memory[3], 2000, 1);
            assert_ok(clq_group_wait(group));
            clq_group_destroy(group);
            ranks_close(&all);
        }
}

/* ---- what groups share ---- */

static cl_uint references(cl_mem memory) {
    cl_uint count = 0;
    cl_ok(clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
    return count;
}

/* A call of one group may use memory of another group, even after the memory was freed. Groups may be destroyed in any
 * order. */
static void memory_and_ends(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        ranks all;
        cl_mem memory[2];
        cl_event waits[2] = {NULL}, done[2];
        cl_uint held;
        ranks_open(&all, "bb", false, NULL);
        clq_group *group = comm_case_group(&all, &automatic), *part = split_off(group, (unsigned[]){0, 1}, 2);
        make_memory(group, 2, memory);
        held = references(memory[1]);
        for (unsigned r = 0; r < 2; r++) {
            put(&all, r, memory[r], 5);
            cl_ok(clRetainMemObject(memory[r])); /* kept for the checks below */
        }
        waits[0] = user_event(&all, 0);
        assert_ok(add(part, memory, 2, waits, done));
        clq_group_free(part, memory[1]); /* no effect: the memory belongs to `group` */
        if (first) {
            clq_group_free(group, memory[0]);
            clq_group_free(group, memory[0]); /* no effect: the group has already freed it */
        } else {
            clq_group_destroy(group);
            group = NULL;
        }
        cl_ok(clSetUserEventStatus(waits[0], CL_COMPLETE));
        wait_and_release(done, 2);
        cl_ok(clReleaseEvent(waits[0]));
        assert_ok(clq_group_wait(part));
        for (unsigned r = 0; r < 2; r++) expect(&all, r, memory[r], 10, 2);
        assert_int_equal(references(memory[0]), 1);
        assert_int_equal(references(memory[1]), first ? held + 1 : 1);
        for (unsigned r = 0; r < 2; r++) cl_ok(clReleaseMemObject(memory[r]));
        clq_group_destroy(part);
        clq_group_destroy(group);
        ranks_close(&all);
    }
}

/* ---- failures ---- */

/* A call of a part is late. A call that waits in the whole group ends with it, soon, and reports the cause. */
static void a_failure_ends_all_groups(void **state) {
    (void)state;
    ranks all;
    clq_group *part, *late = NULL;
    char rank_1[CLQ_NAME_MAX + 32];
    cl_mem memory[3];
    cl_event part_waits[2] = {NULL}, waits[3] = {NULL}, part_done[2], done[3];
    ranks_open(&all, "bbp", false, NULL);
    clq_group *group = comm_case_group(&all, &(clq_group_config){.deadline_s = 0.5});
    part = split_off(group, (unsigned[]){2, 1}, 2);
    make_memory(group, 3, memory);
    for (unsigned r = 0; r < 3; r++) waits[r] = user_event(&all, r); /* no deadline applies until the calls can start */
    part_waits[1] = user_event(&all, 1);
    assert_ok(add(group, memory, 3, waits, done));
    const double start = clq_now();
    assert_ok(add(part, (cl_mem[]){memory[2], memory[1]}, 2, part_waits, part_done));
    assert_int_equal(clq_group_wait(group), CLQ_ERROR_TIMEOUT);
    assert_true(clq_now() - start < 0.5 + 1);
    (void)snprintf(rank_1, sizeof rank_1, "rank 1 on pocl (%s)", clq_device_get_info(all.devices[1])->name);
    expect_text(clq_error_detail(), rank_1);
    assert_int_equal(clq_group_wait(part), CLQ_ERROR_TIMEOUT);
    assert_fails(CLQ_ERROR_ABORTED, rank_1, clq_group_split(group, (int[]){0, 0, 0}, NULL, 1, &late));
    assert_null(late);
    for (unsigned r = 0; r < 3; r++) {
        assert_true(state_of(done[r]) < 0);
        cl_ok(clReleaseEvent(done[r]));
        cl_ok(clSetUserEventStatus(waits[r], CL_COMPLETE));
        cl_ok(clReleaseEvent(waits[r]));
    }
    for (unsigned r = 0; r < 2; r++) {
        assert_true(state_of(part_done[r]) < 0);
        cl_ok(clReleaseEvent(part_done[r]));
    }
    cl_ok(clSetUserEventStatus(part_waits[1], CL_COMPLETE));
    cl_ok(clReleaseEvent(part_waits[1]));
    clq_group_destroy(group);
    clq_group_destroy(part);
    ranks_close(&all);
}

static cl_uint context_references(const ranks *all) {
    cl_uint count = 0;
    cl_ok(
        clGetContextInfo(clq_device_context(all->devices[0]), CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL));
    return count;
}

static void bad_colors(void **state) {
    (void)state;
    ranks all;
    clq_group *parts[3] = {NULL};
    ranks_open(&all, "bbb", false, NULL);
    const cl_uint before = context_references(&all);
    clq_group *group = comm_case_group(&all, &automatic);
    assert_fails(CLQ_ERROR_ARGUMENT, "a group of 3 ranks is split into 1 to 3, with a color for each rank, not 0",
                 clq_group_split(group, (int[]){0, 0, 0}, NULL, 0, parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "not 4", clq_group_split(group, (int[]){0, 1, 2}, NULL, 4, parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "not 0", clq_group_split(group, NULL, NULL, 1, parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "rank 2: its color 2 is out of range",
                 clq_group_split(group, (int[]){0, 1, 2}, NULL, 2, parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "rank 0: its color -2 is out of range",
                 clq_group_split(group, (int[]){-2, 1, 0}, NULL, 2, parts));
    assert_fails(CLQ_ERROR_ARGUMENT, "no rank has color 1", clq_group_split(group, (int[]){0, 2, 2}, NULL, 3, parts));
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) assert_null(parts[i]);
    assert_ok(clq_group_wait(group));
    clq_group_destroy(group);
    assert_int_equal(context_references(&all), before); /* no group from before the failure is left */
    ranks_close(&all);
}

static clq_status split_and_end(void *context) {
    clq_group *parts[2] = {NULL};
    clq_status status = clq_group_split(context, (int[]){1, 0, 1}, NULL, 2, parts);
    if (status != CLQ_OK) assert_true(!parts[0] && !parts[1]);
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) clq_group_destroy(parts[i]);
    return status;
}

static void without_memory(void **state) {
    (void)state;
    ranks all;
    cl_mem memory[3];
    ranks_open(&all, "bbb", false, NULL);
    clq_group *group = comm_case_group(&all, &staged);
    assert_ok(split_and_end(group));
    assert_true(walk_allocations(split_and_end, group) > 5);
    make_memory(group, 3, memory);
    for (unsigned r = 0; r < 3; r++) put(&all, r, memory[r], 7);
    assert_ok(add(group, memory, 3, NULL, NULL));
    for (unsigned r = 0; r < 3; r++) expect(&all, r, memory[r], 21, 3);
    clq_group_destroy(group);
    ranks_close(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(colors_and_keys),
                                       cmocka_unit_test(every_collective),
                                       cmocka_unit_test(a_group_is_a_stream_of_its_own),
                                       cmocka_unit_test(a_thread_for_each_group),
                                       cmocka_unit_test(messages_hold_up_no_other_rank),
                                       cmocka_unit_test(memory_and_ends),
                                       cmocka_unit_test(a_failure_ends_all_groups),
                                       cmocka_unit_test(bad_colors),
                                       cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests_name("comm/group_split", tests, NULL, NULL);
}
