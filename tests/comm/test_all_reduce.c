/* All-reduce with every algorithm and transport. Checks sums that are exact in float, other sums against double, that
 * nothing outside the range is written, that inputs stay unchanged, and that all ranks and all runs give the same
 * bits. */
#include "support/comm_ranks.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 16 }; /* elements before and behind a range, which no collective may write */
static const float guard_value = -77.25f;

typedef struct layout {
    size_t count, in_shift, out_shift; /* elements beyond the guard */
    bool in_place, wrapped;            /* wrapped: a buffer made from a caller's cl_mem, which has no host pointer */
    bool random;
} layout;

typedef struct memory {
    clq_buffer *in, *out, *in_owner, *out_owner;
} memory;

typedef struct trial {
    const layout *layout;
    memory memory[CLQ_REPLICAS_MAX];
} trial;

/* Small whole numbers, whose float sum is the same in any order. If l->random, any fractions. */
static float input_value(const layout *l, unsigned rank, size_t i) {
    if (!l->random) return (float)((int)((i * 7 + rank * 13 + i / 64) % 61) - 30);
    clq_philox block = clq_philox4x32(99 + rank, i, 0);
    return (float)((double)block.word[0] / 4294967296.0 - 0.5) * (block.word[1] % 64 == 0 ? 1000.0f : 1.0f);
}

static size_t elements_of(const layout *l, size_t shift) { return l->count + shift + 2 * GUARD; }

static float *filled(const layout *l, unsigned rank, size_t shift, bool with_input) {
    size_t elements = elements_of(l, shift);
    float *values = clq_alloc(elements, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < elements; i++) values[i] = guard_value;
    for (size_t i = 0; with_input && i < l->count; i++) values[GUARD + shift + i] = input_value(l, rank, i);
    return values;
}

static clq_buffer *make_buffer(ranks *all, unsigned rank, const layout *l, size_t shift, bool with_input,
                               clq_buffer **owner) {
    size_t bytes = elements_of(l, shift) * sizeof(float);
    float *values = filled(l, rank, shift, with_input);
    assert_int_equal(clq_buffer_create(all->devices[rank], CLQ_MEMORY_DEVICE, bytes, "test", owner), CLQ_OK);
    assert_int_equal(clq_queue_write(all->queues[rank], *owner, 0, values, bytes, true), CLQ_OK);
    clq_free(values);
    if (!l->wrapped) return *owner;
    clq_buffer *wrapped;
    assert_int_equal(clq_buffer_wrap(all->devices[rank], clq_buffer_handle(*owner), &wrapped), CLQ_OK);
    return wrapped;
}

static void make_memory(ranks *all, const layout *l, trial *t) {
    t->layout = l;
    for (unsigned r = 0; r < all->count; r++) {
        memory *m = &t->memory[r];
        *m = (memory){0};
        m->in = make_buffer(all, r, l, l->in_shift, true, &m->in_owner);
        m->out = l->in_place ? m->in : make_buffer(all, r, l, l->out_shift, false, &m->out_owner);
    }
}

static void free_memory(const ranks *all, trial *t) {
    for (unsigned r = 0; r < all->count; r++) {
        memory *m = &t->memory[r];
        if (m->out != m->in && m->out != m->out_owner) clq_buffer_destroy(m->out);
        if (m->in != m->in_owner) clq_buffer_destroy(m->in);
        clq_buffer_destroy(m->out_owner);
        clq_buffer_destroy(m->in_owner);
    }
}

static clq_status reduce(ranks *all, unsigned rank, void *context) {
    trial *t = context;
    const layout *l = t->layout;
    memory *m = &t->memory[rank];
    size_t in_at = (GUARD + l->in_shift) * sizeof(float);
    size_t out_at = l->in_place ? in_at : (GUARD + l->out_shift) * sizeof(float);
    return clq_comm_all_reduce(all->comm, rank, all->queues[rank], m->in, in_at, m->out, out_at, l->count, CLQ_F32);
}

static float *read_back(ranks *all, unsigned rank, const clq_buffer *buffer) {
    size_t bytes = clq_buffer_bytes(buffer);
    float *values = clq_alloc(bytes, 1);
    assert_non_null(values);
    assert_int_equal(clq_queue_read(all->queues[rank], buffer, 0, values, bytes, true), CLQ_OK);
    return values;
}

static void check_sum(const ranks *all, const layout *l, const float *values) {
    for (size_t i = 0; i < l->count; i++) {
        double sum = 0, size = 0;
        for (unsigned r = 0; r < all->count; r++) {
            sum += (double)input_value(l, r, i);
            size += fabs((double)input_value(l, r, i));
        }
        double allowed = l->random ? size * all->count * 6e-8 : 0;
        if (!(fabs((double)values[i] - sum) <= allowed))
            fail_msg("element %zu of %zu is %.9g, not %.9g (n = %u)", i, l->count, (double)values[i], sum, all->count);
    }
}

static void check_guards(const layout *l, size_t shift, const float *values) {
    for (size_t i = 0; i < elements_of(l, shift); i++)
        if ((i < GUARD + shift || i >= GUARD + shift + l->count) && values[i] != guard_value)
            fail_msg("element %zu outside of the range was written", i);
}

static void check_input_kept(ranks *all, unsigned rank, const layout *l, const clq_buffer *in) {
    float *now = read_back(all, rank, in), *before = filled(l, rank, l->in_shift, true);
    assert_memory_equal(now, before, clq_buffer_bytes(in));
    clq_free(before);
    clq_free(now);
}

/* Runs and checks one all-reduce. Returns rank 0's result, without the guards. */
static float *run_checked(ranks *all, const layout *l) {
    trial t;
    float *first = NULL;
    size_t shift = l->in_place ? l->in_shift : l->out_shift;
    make_memory(all, l, &t);
    ranks_run(all, reduce, &t);
    ranks_expect_ok(all);
    for (unsigned r = 0; r < all->count; r++) {
        float *values = read_back(all, r, t.memory[r].out);
        check_guards(l, shift, values);
        memmove(values, values + GUARD + shift, l->count * sizeof(float));
        if (!l->in_place) check_input_kept(all, r, l, t.memory[r].in);
        if (r == 0) {
            first = values;
            check_sum(all, l, values);
            continue;
        }
        if (l->count > 0) assert_memory_equal(values, first, l->count * sizeof(float));
        clq_free(values);
    }
    free_memory(all, &t);
    return first;
}

static void check_layout(ranks *all, const layout *l) {
    float *one = run_checked(all, l), *two = run_checked(all, l);
    if (l->count > 0) assert_memory_equal(one, two, l->count * sizeof(float));
    clq_free(one);
    clq_free(two);
}

static void check_counts(ranks *all, bool wrapped) {
    const size_t counts[] = {0, 1, all->count - 1, all->count, 3, 17, 64, 1009, 4099};
    for (size_t i = 0; i < CLQ_COUNT_OF(counts); i++) {
        bool in_place = i % 2 == 0;
        check_layout(
            all,
            &(layout){
                .count = counts[i], .in_shift = i % 3, .out_shift = i % 5, .in_place = in_place, .wrapped = wrapped});
        check_layout(all, &(layout){.count = counts[i],
                                    .in_shift = 5 - i % 3,
                                    .out_shift = i % 2,
                                    .in_place = !in_place,
                                    .wrapped = wrapped,
                                    .random = true});
    }
}

static void check_kinds(const char *kinds, bool island, bool wrapped, clq_group_config config) {
    ranks all;
    ranks_open(&all, kinds, island, &config);
    check_counts(&all, wrapped);
    ranks_close(&all);
}

static const clq_group_config direct = {.algorithm = CLQ_ALGORITHM_DIRECT};
static const clq_group_config staged = {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED};
static const clq_group_config staged_tiny = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 256};
static const clq_group_config staged_one = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 512, .slots = 1};
static const clq_group_config staged_many = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 128, .slots = 5};
static const clq_group_config peer = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_PEER, .chunk_bytes = 4096};
static const clq_group_config peer_tiny = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_PEER, .chunk_bytes = 192, .slots = 3};

static void test_direct(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "bb", "bbb", "bbbbb", "cccccccc"};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) {
        check_kinds(kinds[i], false, false, direct);
        check_kinds(kinds[i], false, true, direct);
    }
}

static void test_staged(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "bb", "bbb", "bbbbb", "cccccccc"};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) check_kinds(kinds[i], false, i % 2 == 0, staged);
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) check_kinds(kinds[i], false, i % 2 != 0, staged_tiny);
    check_kinds("bbb", false, false, staged_one);
    check_kinds("bbbbb", false, false, staged_many);
    check_kinds("bb", false, false, staged_many);
}

static void test_peer(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "bb", "bbb", "bbbbb", "cccccccc"};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) check_kinds(kinds[i], true, i % 2 == 0, peer);
    check_kinds("bbb", true, false, peer_tiny);
    check_kinds("bbbbb", true, true, peer_tiny);
}

/* Every algorithm with every kind of link. Over mapped links, the host itself carries out the schedule. */
static void test_algorithms(void **state) {
    (void)state;
    const char *const kinds[] = {"b", "bb", "bbb", "pib", "cccccccc"};
    for (unsigned algorithm = CLQ_ALGORITHM_RING; algorithm < CLQ_ALGORITHM_COUNT; algorithm++)
        for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) {
            clq_group_config config = {
                .algorithm = (clq_algorithm)algorithm, .transport = CLQ_TRANSPORT_MAPPED, .chunk_bytes = 1024};
            check_kinds(kinds[i], false, i % 2 == 0, config);
            if (algorithm == CLQ_ALGORITHM_DIRECT) continue;
            config.transport = CLQ_TRANSPORT_STAGED;
            check_kinds(kinds[i], false, i % 2 != 0, config);
        }
}

static void test_mixed_vendors(void **state) {
    (void)state;
    check_kinds("pi", false, false, direct);
    check_kinds("pib", false, true, direct);
    check_kinds("pi", false, false, staged_tiny);
    check_kinds("bip", false, true, staged_many);
}

/* The algorithm that is chosen by default, with lengths above a megabyte that do not divide evenly into parts. */
static void test_long(void **state) {
    (void)state;
    const size_t count = ((size_t)1 << 20) + 1;
    const struct {
        const char *kinds;
        bool island;
        clq_group_config config;
    } cases[] = {{"bb", false, {0}},
                 {"bbb", false, staged},
                 {"pi", false, staged},
                 {"bbb", true, {.transport = CLQ_TRANSPORT_PEER}}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        ranks all;
        ranks_open(&all, cases[i].kinds, cases[i].island, &cases[i].config);
        clq_free(run_checked(&all, &(layout){.count = count, .in_shift = 1, .in_place = true}));
        clq_free(run_checked(&all, &(layout){.count = 1200007, .in_shift = 3, .out_shift = 2, .random = true}));
        ranks_close(&all);
    }
}

/* The ring adds in an order of its own. But its result has the same bits for all chunk sizes and slot counts. */
static void test_bits_do_not_depend_on_chunks(void **state) {
    (void)state;
    const layout l = {.count = 4099, .random = true};
    const clq_group_config *configs[] = {&staged, &staged_tiny, &staged_one, &staged_many};
    float *first = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(configs); i++) {
        ranks all;
        ranks_open(&all, "bbb", false, configs[i]);
        float *values = run_checked(&all, &l);
        ranks_close(&all);
        if (i == 0) {
            first = values;
            continue;
        }
        assert_memory_equal(values, first, l.count * sizeof *values);
        clq_free(values);
    }
    clq_free(first);
}

/* The direct algorithm adds in rank order, so the result is the exact float sum of that order. */
static void test_direct_order(void **state) {
    (void)state;
    const layout l = {.count = 777, .random = true};
    ranks all;
    ranks_open(&all, "bbb", false, &direct);
    float *values = run_checked(&all, &l);
    for (size_t i = 0; i < l.count; i++) {
        float sum = (input_value(&l, 0, i) + input_value(&l, 1, i)) + input_value(&l, 2, i);
        assert_memory_equal(&sum, &values[i], sizeof sum);
    }
    clq_free(values);
    ranks_close(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_staged),
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_mixed_vendors),
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_bits_do_not_depend_on_chunks),
        cmocka_unit_test(test_direct_order),
    };
    return cmocka_run_group_tests_name("comm/all_reduce", tests, NULL, NULL);
}
