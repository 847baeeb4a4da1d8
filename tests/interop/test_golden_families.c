/* Trainings of small models of the kinds that people train, against Keras in float64 (tests/golden/families), each by
 * the way whose turn it is: a way's kernels are programs of its own for each trace. With CLQ_TEST_WHOLE=1 each is also
 * followed on one device, those whose weights are split by a way of their turn, too, and masked ones by all ways of
 * replicas. `test_interop_golden long` follows each by every way. */
#include "support/apart.h"
#include "support/check.h"
#include "support/interop_golden.h"

#include <stdlib.h>

enum { FAMILIES = 40 };

static bool is_long(void) { return getenv("CLQ_TEST_WHOLE") != NULL; }

static const char *name_of(const golden *g) {
    const char *slash = strrchr(g->name, '/');
    return slash ? slash + 1 : g->name;
}

/* Attention by heads, of layers and of keras_hub's blocks, and tables. */
static bool is_split(const golden *g) {
    static const char *const split[] = {"bert_masked", "decoders", "gpt", "llama", "translation", "vit"};
    for (size_t i = 0; i < CLQ_COUNT_OF(split); i++)
        if (strcmp(name_of(g), split[i]) == 0) return true;
    return false;
}
enum { SPLIT = 6, MASKED = 6 };

static void run_alone(golden *g, void *context) {
    (void)context;
    (void)golden_run(g, "pocl:0", NULL);
}

static void families_on_one(void **state) {
    (void)state;
    golden_by = (golden_way){.disabled_paths = APART};
    assert_true(golden_each("families", run_alone, NULL) >= FAMILIES);
}

static void shard(clq_trainer_config *config, unsigned replicas) {
    (void)replicas;
    config->strategy_options.shard_optimizer = 1;
}

/* Each way has a turn in each round of them; a trace that a way does not have is the next way's. */
static const struct turn_row {
    const char *spec, *strategy;
    void (*set)(clq_trainer_config *config, unsigned replicas);
    size_t pieces;
} turns[] = {
    {"pocl:0", NULL, NULL, 0},
    {"pocl:0,pocl:1", NULL, NULL, 0},
    {"pocl:0,pocl:1,pocl:2", "mirrored", NULL, 0},
    {"pocl:0,pocl:1", "pipeline", NULL, 0},
    {"pocl:0,pocl:1", "central", NULL, 0},
    {"pocl:0,pocl:1", "tensor", NULL, 0},
    {"pocl:0,pocl:1,pocl:2", "ps", NULL, 0},
    {"pocl:0,pocl:1", "mirrored", shard, 0},
    {"pocl:0,pocl:1", "mirrored", NULL, 2},
};

typedef struct rotation {
    size_t next, followed[CLQ_COUNT_OF(turns)];
} rotation;

static void run_turn(golden *g, void *context) {
    rotation *r = context;
    bool more;
    if (!is_long() && (is_split(g) || golden_leaves_steps_out(g))) return; /* the tests below follow it */
    for (size_t tried = 0; tried < CLQ_COUNT_OF(turns); tried++) {
        const size_t way = r->next++ % CLQ_COUNT_OF(turns);
        const struct turn_row *turn = &turns[way];
        golden_by = (golden_way){.strategy = turn->strategy,
                                 .set = turn->set,
                                 .synchronized = golden_has_statistics(g),
                                 .disabled_paths = APART};
        g->pieces = turn->pieces;
        if (turn->pieces && (golden_has_statistics(g) || golden_leaves_steps_out(g)))
            continue; /* they are of each batch that is accumulated */
        if (golden_try(g, turn->spec, NULL, &more) == CLQ_OK) {
            r->followed[way]++;
            return;
        }
        if (!golden_refusal_is_documented()) fail_msg("%s, way %zu: %s", g->name, way, clq_error_detail());
    }
    fail_msg("no way has %s", g->name);
}

static void families_by_turns(void **state) {
    (void)state;
    rotation r = {0};
    assert_true(golden_each("families", run_turn, &r) >= FAMILIES);
    for (size_t i = 0; i < CLQ_COUNT_OF(turns); i++) assert_true(r.followed[i] >= 2);
}

static void run_split(golden *g, void *context) {
    size_t *followed = context;
    if (!is_split(g)) return;
    golden_by = (golden_way){.strategy = "tensor", .disabled_paths = APART};
    (void)golden_run(g, "pocl:0,pocl:1", NULL);
    (*followed)++;
}

static void families_of_slices(void **state) {
    (void)state;
    size_t followed = 0;
    assert_true(golden_each("families", run_split, &followed) >= FAMILIES);
    assert_int_equal(followed, SPLIT);
}

/* The steps that count are those of all replicas, also where one has none, or is without samples. Ways of as many
 * replicas share kernels: traces go by those of three and of two in turn. */
typedef struct masked_turns {
    size_t traces, followed;
} masked_turns;

static void run_masked(golden *g, void *context) {
    masked_turns *m = context;
    static const struct turn_row ways[] = {{"pocl:0,pocl:1,pocl:2", "mirrored", NULL, 0},
                                           {"pocl:0,pocl:1", "central", NULL, 0},
                                           {"pocl:0,pocl:1,pocl:2", "ps", NULL, 0},
                                           {"pocl:0,pocl:1", "mirrored", shard, 0}};
    if (!golden_leaves_steps_out(g)) return;
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) {
        if (!is_long() && w % 2 != m->traces % 2) continue;
        golden_by = (golden_way){.strategy = ways[w].strategy, .set = ways[w].set, .disabled_paths = APART};
        (void)golden_run(g, ways[w].spec, NULL);
        m->followed++;
    }
    m->traces++;
}

static void families_of_masks(void **state) {
    (void)state;
    masked_turns m = {0};
    assert_true(golden_each("families", run_masked, &m) >= FAMILIES);
    assert_int_equal(m.traces, MASKED);
    assert_int_equal(m.followed, MASKED * (is_long() ? 4 : 2));
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* a test's name: that one alone */
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_by_turns), cmocka_unit_test(families_of_slices),
                                       cmocka_unit_test(families_of_masks)};
    const struct CMUnitTest all[] = {tests[0], tests[1], tests[2], cmocka_unit_test(families_on_one)};
    return is_long() || argc > 1 ? cmocka_run_group_tests(all, golden_open, golden_close)
                                 : cmocka_run_group_tests(tests, golden_open, golden_close);
}
