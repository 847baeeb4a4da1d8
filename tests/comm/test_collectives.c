/* Every collective x algorithm and transport x element type x operation x number of ranks x devices and contexts x
 * placement x size x offset x caller x memory x slots. The test does not run the whole product. It covers each pair of
 * values of two dimensions at least once, and checks that. tests/soak runs the long form, with the whole product of the
 * dimensions that matter. */
#include "support/comm_cases.h"
#include "support/comm_values.h"

#include <stdio.h>

/* ---- the dimensions and their values ---- */

typedef enum dimension {
    SETTING,
    RANKS,
    LAYOUT,
    SLOTS,
    COLLECTIVE,
    DTYPE,
    OP,
    COUNT,
    PLACEMENT,
    SHIFT,
    CALLER,
    MEMORY,
    DIMENSIONS
} dimension;
static const dimension first_of_a_call = COLLECTIVE; /* all calls of a communicator share the dimensions before it */

static const struct {
    clq_algorithm algorithm;
    clq_transport transport;
} settings[] = {
    {CLQ_ALGORITHM_AUTO, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_AUTO, CLQ_TRANSPORT_STAGED},
    {CLQ_ALGORITHM_AUTO, CLQ_TRANSPORT_PEER},
    {CLQ_ALGORITHM_AUTO, CLQ_TRANSPORT_MAPPED},
    {CLQ_ALGORITHM_DIRECT, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_DIRECT, CLQ_TRANSPORT_MAPPED},
    {CLQ_ALGORITHM_RING, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_RING, CLQ_TRANSPORT_STAGED},
    {CLQ_ALGORITHM_RING, CLQ_TRANSPORT_PEER},
    {CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_TRANSPORT_STAGED},
    {CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_TRANSPORT_PEER},
    {CLQ_ALGORITHM_DOUBLING, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_DOUBLING, CLQ_TRANSPORT_STAGED},
    {CLQ_ALGORITHM_DOUBLING, CLQ_TRANSPORT_PEER},
    {CLQ_ALGORITHM_HIERARCHICAL, CLQ_TRANSPORT_AUTO},
    {CLQ_ALGORITHM_HIERARCHICAL, CLQ_TRANSPORT_STAGED},
    {CLQ_ALGORITHM_HIERARCHICAL, CLQ_TRANSPORT_PEER},
};

/* ONE_DEVICE: one device, with a context for each rank. VENDORS: devices of two vendors, also with a context for each
 * rank. TOGETHER: one context. ISLANDS: two or three contexts. */
enum { ONE_DEVICE, VENDORS, TOGETHER, ISLANDS, LAYOUTS, RANKS_MOST = 8 };
static const char *const layouts[LAYOUTS][RANKS_MOST] = {
    {"c", "cc", "ccc", "cccc", "ccccc", "cccccc", "ccccccc", "cccccccc"},
    {"i", "pi", "bip", "ibbp", "bbpib", "pbbbbi", "bbibbbp", "cbbibbbp"},
    {"b1", "b1b1", "b1b1p1", "p1b1b1b1", "b1b1b1b1b1", "c1c1c1c1c1c1", "b1b1b1c1c1p1c1", "b1b1b1b1b1c1c1p1"},
    {"p1", "b1b2", "b1b1b2", "b1b2b1b2", "b1b2b1p1b2", "b1b1b1b2b2c2", "b1b1ib2b2b2c1", "c1b2c3b1b2c3b1p1"},
};

static const struct {
    size_t chunk_bytes;
    unsigned slots;
} slots[] = {{0, 0}, {192, 1}, {512, 2}, {4096, 3}};

static const size_t counts[] = {0, 1, 2, 3, 5, 7, 13, 31, 61, 64, 127, 257, 521, 1031, 2053, 4099, 8209};
static const size_t shifts[] = {0, 1, 5};

static const unsigned values_of[DIMENSIONS] = {[SETTING] = CLQ_COUNT_OF(settings),
                                               [RANKS] = RANKS_MOST,
                                               [LAYOUT] = LAYOUTS,
                                               [SLOTS] = CLQ_COUNT_OF(slots),
                                               [COLLECTIVE] = CLQ_COLLECTIVE_COUNT,
                                               [DTYPE] = VALUES_DTYPES,
                                               [OP] = CLQ_REDOP_COUNT,
                                               [COUNT] = CLQ_COUNT_OF(counts),
                                               [PLACEMENT] = CASE_PLACEMENTS,
                                               [SHIFT] = CLQ_COUNT_OF(shifts),
                                               [CALLER] = CASE_CALLERS,
                                               [MEMORY] = 2};

/* ---- which pairs of values have been covered ---- */

enum { VALUES_MOST = 18 };
static bool met[DIMENSIONS][VALUES_MOST][DIMENSIONS][VALUES_MOST];

static bool fits_layout(unsigned setting, unsigned layout) {
    return settings[setting].transport != CLQ_TRANSPORT_PEER || layout == TOGETHER;
}

/* Whether a dimension means anything for a collective. */
static bool matters(dimension d, unsigned collective) {
    if (d == OP) return clq_collective_reduces((clq_collective)collective);
    if (d == PLACEMENT && collective == CLQ_SEND_RECV) return false; /* the two ends are memory of two ranks */
    bool of_data = d == DTYPE || d == COUNT || d == PLACEMENT || d == SHIFT || d == MEMORY;
    return !of_data || collective != CLQ_BARRIER;
}

/* Whether a case can have both values. */
static bool can_meet(dimension a, unsigned x, dimension b, unsigned y) {
    if (a == SETTING && b == LAYOUT) return fits_layout(x, y);
    return a != COLLECTIVE || matters(b, x);
}

/* How many pairs of a case are not covered yet. If `mark`, marks them as covered. */
static unsigned fresh_pairs(const unsigned *at, bool mark) {
    unsigned fresh = 0;
    for (dimension a = 0; a < DIMENSIONS; a++)
        for (dimension b = a + 1; b < DIMENSIONS; b++) {
            if (!matters(a, at[COLLECTIVE]) || !matters(b, at[COLLECTIVE])) continue;
            bool *pair = &met[a][at[a]][b][at[b]];
            fresh += !*pair;
            if (mark) *pair = true;
        }
    return fresh;
}

static bool may_be(const unsigned *at, dimension a, dimension b) {
    return fits_layout(at[SETTING], at[LAYOUT]) && matters(a, at[COLLECTIVE]) && matters(b, at[COLLECTIVE]);
}

/* Puts two values into `at` that can be in one case but are not covered yet. Returns false if there are none. */
static bool find_missing(unsigned *at, dimension *first, dimension *second) {
    for (dimension a = 0; a < DIMENSIONS; a++)
        for (dimension b = a + 1; b < DIMENSIONS; b++)
            for (unsigned x = 0; x < values_of[a]; x++)
                for (unsigned y = 0; y < values_of[b]; y++) {
                    if (!can_meet(a, x, b, y) || met[a][x][b][y]) continue;
                    at[ *first = a] = x;
                    at[ *second = b] = y;
                    return true;
                }
    return false;
}

/* ---- choosing: of many random cases, takes the case that covers the most new pairs ---- */

static unsigned draw(clq_random *random, unsigned values) { return (unsigned)clq_random_below(random, values); }

/* The dimensions before `first` are given. */
static void choose(clq_random *random, dimension first, unsigned *at) {
    enum { TRIES = 60 };
    unsigned best[DIMENSIONS], trial[DIMENSIONS], most = 0;
    memcpy(trial, at, sizeof trial);
    for (int i = 0; i < TRIES; i++) {
        for (dimension d = first; d < DIMENSIONS; d++) trial[d] = draw(random, values_of[d]);
        if (!fits_layout(trial[SETTING], trial[LAYOUT])) trial[LAYOUT] = TOGETHER;
        unsigned fresh = fresh_pairs(trial, false);
        if (i > 0 && fresh <= most) continue;
        most = fresh;
        memcpy(best, trial, sizeof best);
    }
    memcpy(at, best, sizeof best);
}

/* ---- running ---- */

/* Rusticl's devices do not compute in double. */
static bool has_doubles(const ranks *all) {
    bool doubles = true;
    for (unsigned r = 0; r < all->count; r++) doubles = doubles && clq_device_get_info(all->devices[r])->fp64;
    return doubles;
}

static void run_case(ranks *all, clq_group *group, const unsigned *at, uint64_t seed, const char *where) {
    const clq_dtype dtype = values_dtypes[at[DTYPE]];
    const comm_case c = {.collective = (clq_collective)at[COLLECTIVE],
                         .dtype = dtype == CLQ_F64 && !has_doubles(all) ? CLQ_F32 : dtype,
                         .op = (clq_redop)at[OP],
                         .count = counts[at[COUNT]],
                         .root = (unsigned)(seed % all->count),
                         .to = (unsigned)(seed / 3 % all->count),
                         .placement = (case_placement)at[PLACEMENT],
                         .shift = shifts[at[SHIFT]],
                         .caller = (case_caller)at[CALLER],
                         .plain = at[MEMORY] == 1,
                         .seed = seed};
    (void)comm_case_run(all, group, &c, where);
}

/* Makes a communicator and a group, and runs the given call. Then runs the calls on them that cover the most new
 * pairs. */
static void check_comm(clq_random *random, unsigned *at, const char *kinds, uint64_t seed) {
    enum { CALLS = 5 };
    char where[256];
    ranks all;
    const clq_group_config config = {.algorithm = settings[at[SETTING]].algorithm,
                                     .transport = settings[at[SETTING]].transport,
                                     .chunk_bytes = slots[at[SLOTS]].chunk_bytes,
                                     .slots = slots[at[SLOTS]].slots};
    (void)snprintf(where, sizeof where, "%s over %s, ranks %s, chunks of %zu, %u slots",
                   clq_algorithm_name(config.algorithm), clq_transport_name(config.transport), kinds,
                   config.chunk_bytes, config.slots);
    ranks_open(&all, kinds, false, &config);
    assert_int_equal(all.count, at[RANKS] + 1);
    clq_group *group = comm_case_group(&all, &config);
    for (unsigned i = 0; i < CALLS; i++) {
        (void)fresh_pairs(at, true);
        run_case(&all, group, at, seed * CALLS + i, where);
        choose(random, first_of_a_call, at);
    }
    clq_group_destroy(group);
    ranks_close(&all);
}

static void test_every_pair(void **state) {
    (void)state;
    clq_random random = clq_random_start(4, 0);
    uint64_t seed = 0;
    for (unsigned setting = 0; setting < values_of[SETTING]; setting++)
        for (unsigned n = 0; n < values_of[RANKS]; n++) {
            unsigned at[DIMENSIONS] = {[SETTING] = setting, [RANKS] = n};
            choose(&random, LAYOUT, at);
            check_comm(&random, at, layouts[at[LAYOUT]][n], ++seed);
        }
    /* The few pairs that the random choice has left over. */
    for (unsigned at[DIMENSIONS];;) {
        dimension a, b;
        do {
            for (dimension d = 0; d < DIMENSIONS; d++) at[d] = draw(&random, values_of[d]);
            if (!find_missing(at, &a, &b)) return;
        } while (!may_be(at, a, b));
        check_comm(&random, at, layouts[at[LAYOUT]][at[RANKS]], ++seed);
        assert_true(seed < 1000);
    }
}

static const char *given; /* kinds; see main */

static bool needs_host_memory(unsigned setting) {
    return settings[setting].algorithm == CLQ_ALGORITHM_DIRECT || settings[setting].transport == CLQ_TRANSPORT_MAPPED;
}

/* Every algorithm between devices with a context each. GPUs do not share the host's memory. */
static void test_given_ranks(void **state) {
    const bool gpus = strpbrk(given, "na");
    (void)state;
    clq_random random = clq_random_start(5, 0);
    for (unsigned setting = 0; setting < values_of[SETTING]; setting++) {
        unsigned at[DIMENSIONS] = {[SETTING] = setting, [RANKS] = (unsigned)strlen(given) - 1, [LAYOUT] = VENDORS};
        if (!fits_layout(setting, VENDORS)) continue;
        if (gpus && needs_host_memory(setting)) continue;
        choose(&random, LAYOUT + 1, at);
        check_comm(&random, at, given, setting + 1);
    }
}

/* Arguments: runs the test once for each, on ranks of these kinds (comm_ranks.h), one letter per rank. */
int main(int argc, char **argv) {
    const struct CMUnitTest on_given[] = {cmocka_unit_test(test_given_ranks)};
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        given = argv[i];
        failed += cmocka_run_group_tests_name(given, on_given, NULL, NULL);
    }
    if (argc > 1) return failed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pair)};
    return cmocka_run_group_tests_name("comm/collectives", tests, NULL, NULL);
}
