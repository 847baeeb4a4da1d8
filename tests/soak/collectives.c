/* The long test of the collectives: with every algorithm and transport, 1 to 8 ranks, every collective, element type,
 * operation and placement; sizes to 1 MiB, and 64 MiB; and the same bits in 1,000 repeats. Its short form is a sample
 * of the same. See the script beside it. */
#include "support/comm_cases.h"
#include "support/comm_values.h"

#include <stdio.h>

static bool whole; /* the long form */
static unsigned long cases;

enum { RANKS_MOST = 8 };
/* Islands that are not alike, of two vendors; or, for peer copies, one context. */
static const char *const apart[RANKS_MOST] = {"b",         "bi",          "b1b1i",        "b1b2b1b2",
                                              "b1b1b2b2i", "b1b1b1b2b2p", "b1b1b1ib2b2p", "c1b1b2c1b2ib1p"};
static const char *const together[RANKS_MOST] = {"b1",         "b1b1",         "b1b1p1",         "b1b1b1b1",
                                                 "b1b1b1b1b1", "b1b1b1b1b1p1", "c1c1c1c1c1c1c1", "b1b1b1b1b1c1c1p1"};

typedef struct rig {
    ranks all;
    clq_group *group;
    char where[128];
    uint64_t seed;
} rig;

static void rig_open(rig *g, const clq_group_config *config, unsigned n) {
    const char *kinds = (config->transport == CLQ_TRANSPORT_PEER ? together : apart)[n - 1];
    (void)snprintf(g->where, sizeof g->where, "%s over %s, ranks %s", clq_algorithm_name(config->algorithm),
                   clq_transport_name(config->transport), kinds);
    g->seed = n;
    if (whole) (void)fprintf(stderr, "%lu done; %s\n", cases, g->where);
    ranks_open(&g->all, kinds, false, config);
    g->group = comm_case_group(&g->all, config);
}

static void rig_close(rig *g) {
    clq_group_destroy(g->group);
    ranks_close(&g->all);
}

/* root, caller, memory and offset go on from case to case. */
static void run(rig *g, comm_case c) {
    c.seed = ++g->seed;
    c.root = (unsigned)(c.seed % g->all.count);
    c.to = (unsigned)(c.seed / 3 % g->all.count);
    c.caller = (case_caller)(c.seed % CASE_CALLERS);
    c.plain = c.seed / 2 % 2;
    c.shift = c.seed % 4;
    (void)comm_case_run(&g->all, g->group, &c, g->where);
    cases++;
}

/* Every collective, type, operation and placement, with sizes that go on from one to the next. */
static void product(rig *g) {
    const size_t counts[] = {0, 1, 7, 61, 257, 1031, 4099, 16411};
    unsigned turn = (unsigned)g->seed;
    for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++)
        for (unsigned dtype = 0; dtype < VALUES_DTYPES; dtype++)
            for (unsigned op = 0; op < CLQ_REDOP_COUNT; op++)
                for (unsigned placement = 0; placement < CASE_PLACEMENTS; placement++, turn++) {
                    if (op > 0 && !clq_collective_reduces((clq_collective)collective)) continue;
                    if (!whole && turn % 61 != 0) continue;
                    run(g, (comm_case){.collective = (clq_collective)collective,
                                       .dtype = values_dtypes[dtype],
                                       .op = (clq_redop)op,
                                       .placement = (case_placement)placement,
                                       .count = counts[turn % CLQ_COUNT_OF(counts)]});
                }
}

/* Floats from none to 1 MiB; by a prime each time in the long form. */
static void sizes(rig *g) {
    const size_t most = ((size_t)1 << 20) / sizeof(float), step = whole ? 1499 : most - 3;
    for (size_t count = 0; count <= most; count += step)
        run(g, (comm_case){.collective = CLQ_ALL_REDUCE, .count = count, .placement = (case_placement)(count % 3)});
    run(g, (comm_case){.collective = CLQ_ALL_REDUCE, .count = most});
}

static void test_product(void **state) {
    (void)state;
    for (size_t s = 0; s < COMM_SETTINGS; s++)
        for (unsigned n = 1; n <= RANKS_MOST; n++) {
            rig g;
            if (!whole && (n + s) % 4 != 0) continue;
            rig_open(&g, &comm_settings[s], n);
            product(&g);
            if (whole || n == 4) sizes(&g);
            rig_close(&g);
        }
}

static void test_large(void **state) {
    (void)state;
    const size_t count = ((size_t)64 << 20) / sizeof(float);
    for (size_t s = 0; whole && s < COMM_SETTINGS; s++)
        for (unsigned n = 2; n <= 4; n++) {
            rig g;
            rig_open(&g, &comm_settings[s], n);
            for (unsigned collective = CLQ_ALL_REDUCE; collective < CLQ_COLLECTIVE_COUNT; collective++) {
                bool grows = collective == CLQ_REDUCE_SCATTER || collective == CLQ_ALL_GATHER; /* by n */
                run(&g, (comm_case){.collective = (clq_collective)collective, .count = grows ? count / n : count});
            }
            rig_close(&g);
        }
}

/* Sums that depend on their order: the same bits each time, whatever else the machine does. */
static void test_repeats(void **state) {
    (void)state;
    const unsigned repeats = whole ? 1000 : 5;
    for (size_t s = 0; s < COMM_SETTINGS; s++)
        for (unsigned n = 3; n <= (whole ? 5 : 3); n += 2) {
            rig g;
            uint64_t first = 0;
            rig_open(&g, &comm_settings[s], n);
            for (unsigned i = 0; i < repeats; i++, cases++) {
                const comm_case c = {.collective = CLQ_ALL_REDUCE,
                                     .count = 20011,
                                     .random = true,
                                     .seed = 77,
                                     .placement = APART,
                                     .caller = CALL_BLOCKING,
                                     .plain = true};
                uint64_t bits = comm_case_run(&g.all, g.group, &c, g.where);
                if (i == 0) first = bits;
                if (bits != first) fail_msg("%s: repeat %u has other bits", g.where, i);
            }
            rig_close(&g);
        }
}

int main(int count, char **words) {
    whole = count == 2 && strcmp(words[1], "--whole") == 0;
    if (count > 2 || (count == 2 && !whole)) {
        (void)fprintf(stderr, "usage: %s [--whole]\n", words[0]);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_product), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_repeats)};
    int failed = cmocka_run_group_tests_name("soak/collectives", tests, NULL, NULL);
    (void)printf("%lu collectives\n", cases);
    return failed;
}
