/* Which transport carries the bytes between two ranks, if some devices share the host's memory and others have memory
 * of their own. PoCL's basic devices (b, c) are made to look discrete. PoCL's pool (p) and Intel's runtime (i) are not
 * disguised. */
#include "support/check.h"
#include "support/comm_cases.h"
#include "support/disguise.h"

#include <stdio.h>

static void test_the_disguise(void **state) {
    (void)state;
    ranks all;
    ranks_open(&all, "bpi", false, NULL);
    assert_false(clq_device_get_info(all.devices[0])->host_unified);
    assert_true(clq_device_get_info(all.devices[1])->host_unified);
    assert_true(clq_device_get_info(all.devices[2])->host_unified);
    ranks_close(&all);
}

/* Checks what the explanation says of each link of the ring. */
static void test_transports(void **state) {
    (void)state;
    const struct {
        const char *kinds;
        clq_group_config config;
        const char *says[3];
    } cases[] = {
        {"pib", {0}, {"mapped (both devices share", "staged, 4 slots", "one device shares"}},
        {"pib", {.transport = CLQ_TRANSPORT_STAGED}, {"staged, 4 slots of 262144 bytes (as asked)"}},
        {"bb", {0}, {"staged, 4 slots", "no context in common"}},
        {"b1b1", {0}, {"both were measured", "a chunk staged takes", "a chunk peer takes"}},
        {"b1b1", {.slots = 1, .chunk_bytes = 64}, {", 1 slots of 64 bytes", "a chunk staged", "a chunk peer"}},
        {"b1b1", {.transport = CLQ_TRANSPORT_PEER}, {"peer, 4 slots of 262144 bytes (as asked)"}},
        {"pi", {0}, {"direct over mapped memory"}},
        {"pi", {.algorithm = CLQ_ALGORITHM_RING}, {"mapped (both devices share"}},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        ranks all;
        ranks_open(&all, cases[i].kinds, false, &cases[i].config);
        char *text = clq_comm_explain(all.comm);
        assert_non_null(text);
        for (size_t s = 0; s < CLQ_COUNT_OF(cases[i].says) && cases[i].says[s]; s++)
            expect_text(text, cases[i].says[s]);
        clq_free(text);
        ranks_close(&all);
    }
}

/* What a discrete device cannot do is refused. */
static void test_refused(void **state) {
    (void)state;
    const clq_group_config configs[] = {{.transport = CLQ_TRANSPORT_MAPPED}, {.algorithm = CLQ_ALGORITHM_DIRECT}};
    ranks all;
    ranks_open(&all, "pb", false, NULL);
    for (size_t i = 0; i < CLQ_COUNT_OF(configs); i++) {
        clq_comm *comm = NULL;
        assert_int_equal(clq_comm_create(all.devices, 2, &configs[i], &comm), CLQ_ERROR_UNSUPPORTED);
        assert_null(comm);
        expect_text(clq_error_detail(), "does not share the host's memory");
    }
    ranks_close(&all);
}

/* Every collective over ranks of both kinds, in any order, with every algorithm. */
static void test_mixed(void **state) {
    (void)state;
    static const char *const kinds[] = {"bp", "pb", "pib", "b1b1p", "pbibp", "b1b1ib2b2p", "cpcicpci"};
    uint64_t seed = 0;
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (unsigned algorithm = CLQ_ALGORITHM_AUTO; algorithm < CLQ_ALGORITHM_COUNT; algorithm++) {
            if (algorithm == CLQ_ALGORITHM_DIRECT) continue;
            const clq_group_config config = {
                .algorithm = (clq_algorithm)algorithm, .chunk_bytes = 512, .slots = 1 + (unsigned)k % 3};
            ranks all;
            char where[128];
            ranks_open(&all, kinds[k], false, &config);
            clq_group *group = comm_case_group(&all, &config);
            (void)snprintf(where, sizeof where, "%s, ranks %s", clq_algorithm_name(config.algorithm), kinds[k]);
            for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++) {
                const comm_case c = {.collective = (clq_collective)collective,
                                     .dtype = collective % 2 ? CLQ_F32 : CLQ_I32,
                                     .op = (clq_redop)(seed % 2 ? CLQ_REDOP_AVG : CLQ_REDOP_SUM),
                                     .count = seed % 3 ? 1031 : 61,
                                     .root = (unsigned)(seed % all.count),
                                     .to = (unsigned)((seed / 2 + 1) % all.count),
                                     .placement = (case_placement)(seed % CASE_PLACEMENTS),
                                     .shift = seed % 5,
                                     .caller = (case_caller)(seed / 2 % CASE_CALLERS),
                                     .plain = seed % 4 < 2,
                                     .seed = seed};
                (void)comm_case_run(&all, group, &c, where);
                seed++;
            }
            clq_group_destroy(group);
            ranks_close(&all);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_disguise), cmocka_unit_test(test_transports),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_mixed)};
    if (disguise_load("basic") != 0) return 1;
    return cmocka_run_group_tests_name("comm/links", tests, NULL, NULL);
}
