/* Collectives among GPUs that are as strict as OpenCL allows (support/strict.h), alone and beside CPU devices. Such a
 * GPU starts a command at any time after its flush, but never before. A buffer that several devices share is moved as a
 * whole from the device that wrote it last. Two of PoCL's basic devices look like AMD's GPUs, two like NVIDIA's. */
#include "comm/communicator.h"
#include "support/comm_cases.h"
#include "support/strict.h"

#include <stdio.h>

#define DISGUISE "disguise=aann- hold seed=1 "

static strict layer;

static void configure(const char *words) {
    assert_int_equal(layer.configure(words), 0);
    layer.reset();
}

static void test_the_disguise(void **state) {
    (void)state;
    ranks all;
    configure(DISGUISE);
    ranks_open(&all, "na", false, NULL);
    for (unsigned r = 0; r < all.count; r++) {
        assert_int_equal(clq_device_get_info(all.devices[r])->type, CLQ_DEVICE_GPU);
        assert_false(clq_device_get_info(all.devices[r])->host_unified);
    }
    ranks_close(&all);
}

static uint64_t seed;

/* Runs every collective by the communicator and by the public calls, with few elements and with enough elements that
 * chunks queue up. */
static void run_all(ranks *all, const clq_group_config *config, const char *where, size_t most) {
    clq_group *group = comm_case_group(all, config);
    for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++) {
        seed++;
        const comm_case c = {.collective = (clq_collective)collective,
                             .dtype = seed % 3 ? CLQ_F32 : CLQ_I32,
                             .op = seed % 2 ? CLQ_REDOP_SUM : CLQ_REDOP_AVG,
                             .count = seed % 2 ? most : 61,
                             .root = (unsigned)(seed % all->count),
                             .to = (unsigned)((seed / 2 + 1) % all->count),
                             .placement = (case_placement)(seed % CASE_PLACEMENTS),
                             .shift = seed % 5,
                             .caller = (case_caller)(seed / 2 % CASE_CALLERS),
                             .plain = seed % 4 < 2,
                             .seed = seed};
        (void)comm_case_run(all, group, &c, where);
    }
    clq_group_destroy(group);
}

static void check_calls(const char *where) {
    if (layer.count(-1, STRICT_UNFLUSHED) > 0)
        fail_msg("%s: %lu waits for commands that were not flushed", where, layer.count(-1, STRICT_UNFLUSHED));
    if (layer.count(-1, STRICT_FOREIGN_PINNED) > 0)
        fail_msg("%s: %lu transfers of memory that is pinned elsewhere", where, layer.count(-1, STRICT_FOREIGN_PINNED));
}

/* One queue, or three queues (above 512 KiB). Devices like NVIDIA's and AMD's, beside CPU devices. */
static void test_mixed(void **state) {
    (void)state;
    static const char *const kinds[] = {"na", "nan", "npab", "bnn"};
    static const size_t counts[] = {5000, 300000};
    static const char *const delays[] = {DISGUISE, DISGUISE "delay_us=300 callback_us=500"};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (unsigned algorithm = CLQ_ALGORITHM_RING; algorithm < CLQ_ALGORITHM_COUNT; algorithm++) {
            if (algorithm == CLQ_ALGORITHM_DIRECT) continue;
            const bool large = (k + algorithm) % 2;
            const clq_group_config config = {.algorithm = (clq_algorithm)algorithm,
                                             .chunk_bytes = large ? 1 << 16 : 1 << 12,
                                             .slots = 1 + (unsigned)(k + algorithm) % 3};
            char where[128];
            (void)snprintf(where, sizeof where, "%s, ranks %s", clq_algorithm_name(config.algorithm), kinds[k]);
            ranks all;
            configure(delays[algorithm % 2]);
            ranks_open(&all, kinds[k], false, &config);
            layer.reset(); /* forget the commands of setup and link tests, which belong to no collective */
            run_all(&all, &config, where, counts[large]);
            check_calls(where);
            ranks_close(&all);
        }
}

static clq_status open_comm(const ranks *all, clq_transport transport) {
    clq_comm *comm = NULL;
    clq_status status = clq_comm_create(all->devices, all->count, &(clq_group_config){.transport = transport}, &comm);
    clq_comm_destroy(comm);
    return status;
}

/* A caller's GPUs in one context. The results are right with any transport, chosen or requested, even if the driver
 * moves whole buffers. */
static void test_one_context(void **state) {
    (void)state;
    static const char *const words[] = {DISGUISE, DISGUISE "migrate delay_us=100"};
    static const clq_transport transports[] = {CLQ_TRANSPORT_AUTO, CLQ_TRANSPORT_STAGED, CLQ_TRANSPORT_PEER};
    for (size_t w = 0; w < CLQ_COUNT_OF(words); w++)
        for (size_t t = 0; t < CLQ_COUNT_OF(transports); t++)
            for (unsigned round = 0; round < 2; round++) {
                const clq_group_config config = {.algorithm = round ? CLQ_ALGORITHM_REDUCE_TO_ONE : CLQ_ALGORITHM_RING,
                                                 .transport = transports[t],
                                                 .chunk_bytes = 1 << 12,
                                                 .slots = 3};
                char where[128];
                (void)snprintf(where, sizeof where, "%s, %s", words[w], clq_transport_name(config.transport));
                ranks all;
                configure(words[w]);
                ranks_open(&all, "a1a1", false, &(clq_group_config){.transport = CLQ_TRANSPORT_STAGED});
                /* Peer copies may be refused, but only if the driver moves whole buffers. */
                const bool refused = transports[t] == CLQ_TRANSPORT_PEER && w > 0 &&
                                     open_comm(&all, CLQ_TRANSPORT_PEER) == CLQ_ERROR_UNSUPPORTED;
                clq_comm_destroy(all.comm);
                all.comm = NULL;
                if (!refused && clq_comm_create(all.devices, all.count, &config, &all.comm) == CLQ_OK) {
                    layer.reset();
                    run_all(&all, &config, where, 5000);
                } else {
                    assert_true(w > 0 && transports[t] == CLQ_TRANSPORT_PEER);
                    assert_non_null(strstr(clq_error_detail(), "peer copies failed their test"));
                }
                ranks_close(&all);
            }
}

/* The link test takes a few rounds, and may miss that a driver moves whole buffers. Peer copies are then slow, but the
 * results must be right. This test makes links use peer copies although the link test refused them. */
static void test_moved_buffers(void **state) {
    (void)state;
    static const clq_algorithm algorithms[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_REDUCE_TO_ONE};
    for (size_t a = 0; a < CLQ_COUNT_OF(algorithms); a++)
        for (unsigned collective = CLQ_ALL_REDUCE; collective < CLQ_COLLECTIVE_COUNT; collective++) {
            const clq_group_config config = {
                .algorithm = algorithms[a], .chunk_bytes = 1 << 12, .slots = 1 + collective % 3};
            const comm_case c = {.collective = (clq_collective)collective,
                                 .dtype = CLQ_I32,
                                 .count = collective % 2 ? 5000 : 200000,
                                 .to = 1,
                                 .caller = CALL_COMM,
                                 .seed = ++seed};
            ranks all;
            configure(DISGUISE "migrate delay_us=30");
            ranks_open(&all, "a1a1", false, &config);
            const clq_task task = {.collective = c.collective, .count = c.count, .dtype = c.dtype, .to = 1};
            assert_int_equal(clq_walk_prepare_all(all.comm, &task), CLQ_OK);
            for (unsigned i = 0; i < all.count * all.count; i++)
                if (all.comm->links[i]) all.comm->links[i]->transport = CLQ_TRANSPORT_PEER;
            layer.reset();
            (void)comm_case_run(&all, NULL, &c, clq_collective_name(c.collective));
            assert_true(layer.count(-1, STRICT_MIGRATIONS) > 0);
            check_calls(clq_collective_name(c.collective));
            ranks_close(&all);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_disguise), cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_one_context), cmocka_unit_test(test_moved_buffers)};
    if (strict_load(&layer, DISGUISE) != 0) return 1;
    return cmocka_run_group_tests_name("comm/gpus", tests, NULL, NULL);
}
