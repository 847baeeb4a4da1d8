/* Broadcast and barrier, over every algorithm and transport. */
#include "support/comm_ranks.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

typedef struct trial {
    clq_buffer *buffers[CLQ_REPLICAS_MAX];
    size_t offset, bytes;
    unsigned root;
} trial;

static unsigned char byte_of(unsigned rank, size_t i) { return (unsigned char)(i * 31 + rank * 101 + i / 256); }

static clq_status broadcast(ranks *all, unsigned rank, void *context) {
    trial *t = context;
    return clq_comm_broadcast(all->comm, rank, all->queues[rank], t->buffers[rank], t->offset, t->bytes, t->root);
}

static void check(ranks *all, size_t bytes, size_t offset, unsigned root) {
    size_t total = bytes + offset + 7;
    trial t = {.offset = offset, .bytes = bytes, .root = root};
    unsigned char *values = clq_alloc(total, 1);
    assert_non_null(values);
    for (unsigned r = 0; r < all->count; r++) {
        for (size_t i = 0; i < total; i++) values[i] = byte_of(r, i);
        assert_int_equal(clq_buffer_create(all->devices[r], CLQ_MEMORY_DEVICE, total, "test", &t.buffers[r]), CLQ_OK);
        assert_int_equal(clq_queue_write(all->queues[r], t.buffers[r], 0, values, total, true), CLQ_OK);
    }
    ranks_run(all, broadcast, &t);
    ranks_expect_ok(all);
    for (unsigned r = 0; r < all->count; r++) {
        assert_int_equal(clq_queue_read(all->queues[r], t.buffers[r], 0, values, total, true), CLQ_OK);
        for (size_t i = 0; i < total; i++) {
            bool inside = i >= offset && i < offset + bytes;
            if (values[i] != byte_of(inside ? root : r, i))
                fail_msg("rank %u byte %zu of %zu, root %u", r, i, bytes, root);
        }
        clq_buffer_destroy(t.buffers[r]);
    }
    clq_free(values);
}

static void check_all(const char *kinds, bool island, clq_group_config config) {
    const size_t sizes[] = {0, 1, 255, 256, 257, 20011};
    ranks all;
    ranks_open(&all, kinds, island, &config);
    for (size_t i = 0; i < CLQ_COUNT_OF(sizes); i++)
        for (unsigned root = 0; root < all.count; root++) check(&all, sizes[i], i % 3, root);
    ranks_close(&all);
}

static void test_broadcast(void **state) {
    (void)state;
    const clq_group_config staged = {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 256};
    const clq_group_config peer = {.transport = CLQ_TRANSPORT_PEER, .chunk_bytes = 256, .slots = 3};
    const char *const kinds[] = {"b", "bb", "bbb", "bbbbb"};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) {
        check_all(kinds[i], false, (clq_group_config){0});
        check_all(kinds[i], false, staged);
        check_all(kinds[i], true, peer);
    }
    check_all("pi", false, (clq_group_config){0});
    check_all("ipb", false, staged);
}

typedef struct meeting {
    atomic_uint arrived;
    bool early;
} meeting;

static clq_status meet(ranks *all, unsigned rank, void *context) {
    meeting *m = context;
    for (unsigned round = 1; round <= 200; round++) {
        atomic_fetch_add(&m->arrived, 1);
        CLQ_TRY(ranks_meet(all->comm, rank));
        if (atomic_load(&m->arrived) < round * all->count)
            return clq_fail(CLQ_ERROR_STATE, "past the barrier too early");
    }
    return CLQ_OK;
}

static void test_barrier(void **state) {
    (void)state;
    ranks all;
    meeting m = {0};
    ranks_open(&all, "bbb", false, NULL);
    ranks_run(&all, meet, &m);
    ranks_expect_ok(&all);
    ranks_close(&all);
}

static void test_explain(void **state) {
    (void)state;
    const struct {
        const char *kinds;
        bool island;
        clq_group_config config;
        const char *says;
    } cases[] = {
        {"b", false, {0}, "one rank"},
        {"bb", false, {0}, "direct over mapped memory"},
        {"bb", false, {.transport = CLQ_TRANSPORT_STAGED}, "rank 1 to 0"},
        {"bb", true, {.transport = CLQ_TRANSPORT_PEER}, "peer, 4 slots of 262144 bytes"},
        {"bb", true, {.algorithm = CLQ_ALGORITHM_RING}, "mapped (both devices share the host's memory)"},
        {"bp", false, {.transport = CLQ_TRANSPORT_STAGED, .slots = 3, .chunk_bytes = 1000}, "3 slots of 1024 bytes"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        ranks all;
        ranks_open(&all, cases[i].kinds, cases[i].island, &cases[i].config);
        char *text = clq_comm_explain(all.comm);
        assert_non_null(text);
        if (!strstr(text, cases[i].says)) fail_msg("\"%s\" does not say \"%s\"", text, cases[i].says);
        clq_free(text);
        ranks_close(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broadcast), cmocka_unit_test(test_barrier),
                                       cmocka_unit_test(test_explain)};
    return cmocka_run_group_tests_name("comm/broadcast", tests, NULL, NULL);
}
