/* Collectives on devices that behave like strict discrete GPUs (tests/support/strict), alone and beside CPUs, with each
 * algorithm and transport. usage: test_comm_strict [SEEDS] */
#include "comm/communicator.h"
#include "support/comm_cases.h"
#include "support/strict_case.h"

static strict layer;
static unsigned seeds = STRICT_SEEDS;

/* Makes all links that any collective needs. Normally a link is made, and its transport tested, when first needed. */
static clq_status make_links(const ranks *all, clq_comm *comm) {
    clq_task task = {.count = 1031};
    for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++)
        for (task.root = 0; task.root < all->count; task.root++)
            for (task.to = 0; task.to < all->count; task.to++) {
                task.collective = (clq_collective)collective;
                CLQ_TRY(clq_walk_prepare_all(comm, &task));
            }
    return CLQ_OK;
}

/* Whether the transport can be used. Any error but a refusal fails the test. */
static bool can_use(const char *kinds, const clq_group_config *config) {
    ranks all;
    ranks_open(&all, kinds, false, NULL);
    clq_comm *comm = NULL;
    clq_status status = clq_comm_create(all.devices, all.count, config, &comm);
    if (status == CLQ_OK) status = make_links(&all, comm);
    if (status != CLQ_OK && status != CLQ_ERROR_UNSUPPORTED)
        fail_msg("%s: %s: %s", kinds, clq_status_text(status), clq_error_detail());
    clq_comm_destroy(comm);
    ranks_close(&all);
    return status == CLQ_OK;
}

/* Runs every collective. Other choices rotate from one collective to the next. */
static void run_all(const char *kinds, clq_group_config config, unsigned seed) {
    ranks all;
    char where[128];
    uint64_t turn = seed;
    config.chunk_bytes = 512;
    config.deadline_s = 300; /* a first run compiles */
    config.slots = 1 + seed % 3;
    (void)snprintf(where, sizeof where, "seed %u, %s over %s, ranks %s", seed, clq_algorithm_name(config.algorithm),
                   clq_transport_name(config.transport), kinds);
    ranks_open(&all, kinds, false, &config);
    clq_group *group = comm_case_group(&all, &config);
    for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++, turn++) {
        const comm_case c = {.collective = (clq_collective)collective,
                             .dtype = turn % 2 ? CLQ_F32 : CLQ_I32,
                             .op = (clq_redop)(turn % 3 ? CLQ_REDOP_SUM : CLQ_REDOP_AVG),
                             .count = turn % 3 ? 1031 : 61,
                             .root = (unsigned)(turn % all.count),
                             .to = (unsigned)((turn / 2 + 1) % all.count),
                             .placement = (case_placement)(turn % CASE_PLACEMENTS),
                             .shift = turn % 5,
                             .caller = (case_caller)(turn / 2 % CASE_CALLERS),
                             .plain = turn % 4 < 2,
                             .seed = turn};
        (void)comm_case_run(&all, group, &c, where);
    }
    clq_group_destroy(group);
    ranks_close(&all);
    strict_expect_no_violation(&layer, where);
}

static const char strictly[] = "hold order nan migrate delay_us=200 callback_us=500";

static void the_layer_is_on(void **state) {
    (void)state;
    ranks all;
    strict_disguise(&layer, 0, strictly);
    ranks_open(&all, "nabi", false, NULL);
    for (unsigned r = 0; r < all.count; r++)
        assert_int_equal(clq_device_get_info(all.devices[r])->host_unified, r >= 2);
    ranks_close(&all);
}

/* GPUs of one vendor, of two vendors, and beside CPUs; with a context each and with shared contexts. */
static void every_algorithm(void **state) {
    (void)state;
    static const char *const kinds[] = {"nn", "a1a1a1", "na", "nab", "a1a1i", "bann"};
    for (unsigned seed = 1; seed <= seeds; seed++)
        for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
            for (unsigned algorithm = CLQ_ALGORITHM_AUTO; algorithm < CLQ_ALGORITHM_COUNT; algorithm++) {
                if (algorithm == CLQ_ALGORITHM_DIRECT || (algorithm + k + seed) % 2 == 0) continue;
                strict_disguise(&layer, seed, strictly);
                run_all(kinds[k], (clq_group_config){.algorithm = (clq_algorithm)algorithm}, seed);
            }
}

/* Two kinds of drivers. One keeps a copy of each memory object per device, and loses writes if two devices write to one
 * object at a time. The other does not. Peer copies are either refused or right. */
static void peer_copies(void **state) {
    (void)state;
    static const clq_algorithm algorithms[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_HIERARCHICAL, CLQ_ALGORITHM_DOUBLING};
    const char *const drivers[] = {"hold delay_us=200", strictly};
    for (unsigned seed = 1; seed <= seeds; seed++)
        for (size_t i = 0; i < CLQ_COUNT_OF(algorithms); i++)
            for (unsigned migrates = 0; migrates < 2; migrates++) {
                const clq_group_config config = {.algorithm = algorithms[i], .transport = CLQ_TRANSPORT_PEER};
                strict_disguise(&layer, seed, drivers[migrates]);
                bool peers = can_use("a1a1a1", &config);
                if (!peers && !migrates) fail_msg("peer copies are refused where nothing speaks against them");
                if (peers) run_all("a1a1a1", config, seed);
            }
}

/* A device that takes 20 times as long as the others. */
static void one_slow_device(void **state) {
    (void)state;
    strict_disguise(&layer, 1, "hold migrate slow=0:20");
    run_all("nab", (clq_group_config){.algorithm = CLQ_ALGORITHM_RING}, 1);
    run_all("aan", (clq_group_config){.algorithm = CLQ_ALGORITHM_HIERARCHICAL}, 2);
}

/* The results have the same bits whatever the drivers do. */
static void same_bits(void **state) {
    (void)state;
    static const char *const kinds[] = {"nna", "nab", "a1a1a1"};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        uint64_t calm = 0;
        for (unsigned seed = 0; seed <= seeds; seed++) {
            const clq_group_config config = {.algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 4096, .deadline_s = 300};
            const comm_case c = {.collective = CLQ_ALL_REDUCE,
                                 .count = 20011,
                                 .random = true,
                                 .seed = 77,
                                 .placement = APART,
                                 .caller = CALL_BLOCKING};
            ranks all;
            strict_disguise(&layer, seed, seed > 0 ? strictly : "");
            ranks_open(&all, kinds[k], false, &config);
            clq_group *group = comm_case_group(&all, &config);
            uint64_t bits = comm_case_run(&all, group, &c, kinds[k]);
            if (seed == 0) calm = bits;
            if (bits != calm) fail_msg("ranks %s, seed %u: other bits", kinds[k], seed);
            clq_group_destroy(group);
            ranks_close(&all);
        }
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_layer_is_on), cmocka_unit_test(every_algorithm),
                                       cmocka_unit_test(peer_copies), cmocka_unit_test(one_slow_device),
                                       cmocka_unit_test(same_bits)};
    if (count > 1) seeds = (unsigned)strtoul(words[1], NULL, 10);
    if (strict_load(&layer, STRICT_DISGUISE) != 0) return 1;
    return cmocka_run_group_tests_name("comm/strict", tests, NULL, NULL);
}
