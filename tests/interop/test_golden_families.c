/* Trainings of small models of the kinds that people train, against Keras in float64 (tests/golden/families): all on
 * one device, and each by the way whose turn it is. `test_interop_golden long` follows each by every way. */
#include "support/apart.h"
#include "support/check.h"
#include "support/interop_golden.h"

enum { FAMILIES = 40 };

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
    {"pocl:0,pocl:1", NULL, NULL, 0},        {"pocl:0,pocl:1,pocl:2", "mirrored", NULL, 0},
    {"pocl:0,pocl:1", "pipeline", NULL, 0},  {"pocl:0,pocl:1", "central", NULL, 0},
    {"pocl:0,pocl:1", "tensor", NULL, 0},    {"pocl:0,pocl:1,pocl:2", "ps", NULL, 0},
    {"pocl:0,pocl:1", "mirrored", shard, 0}, {"pocl:0,pocl:1", "mirrored", NULL, 2},
};

typedef struct rotation {
    size_t next, followed[CLQ_COUNT_OF(turns)];
} rotation;

static void run_turn(golden *g, void *context) {
    rotation *r = context;
    bool more;
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

/* Attention by heads, of layers and of keras_hub's blocks, and tables. */
static const char *const split[] = {"bert_masked", "decoders", "gpt", "llama", "translation", "vit"};

static void run_split(golden *g, void *context) {
    size_t *followed = context;
    const char *name = strrchr(g->name, '/');
    for (size_t i = 0; i < CLQ_COUNT_OF(split); i++) {
        if (strcmp(name ? name + 1 : g->name, split[i]) != 0) continue;
        golden_by = (golden_way){.strategy = "tensor", .disabled_paths = APART};
        (void)golden_run(g, "pocl:0,pocl:1", NULL);
        (*followed)++;
    }
}

static void families_of_slices(void **state) {
    (void)state;
    size_t followed = 0;
    assert_true(golden_each("families", run_split, &followed) >= FAMILIES);
    assert_int_equal(followed, CLQ_COUNT_OF(split));
}

/* The steps that count are those of all replicas, also where one has none, or is without samples. */
static void run_masked(golden *g, void *context) {
    size_t *followed = context;
    static const struct turn_row ways[] = {{"pocl:0,pocl:1,pocl:2", "mirrored", NULL, 0},
                                           {"pocl:0,pocl:1", "central", NULL, 0},
                                           {"pocl:0,pocl:1,pocl:2", "ps", NULL, 0},
                                           {"pocl:0,pocl:1", "mirrored", shard, 0}};
    for (size_t w = 0; w < CLQ_COUNT_OF(ways) && golden_leaves_steps_out(g); w++) {
        golden_by = (golden_way){.strategy = ways[w].strategy, .set = ways[w].set, .disabled_paths = APART};
        (void)golden_run(g, ways[w].spec, NULL);
        (*followed)++;
    }
}

static void families_of_masks(void **state) {
    (void)state;
    size_t followed = 0;
    assert_true(golden_each("families", run_masked, &followed) >= FAMILIES);
    assert_int_equal(followed, 6 * 4);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* a test's name: that one alone */
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_on_one), cmocka_unit_test(families_by_turns),
                                       cmocka_unit_test(families_of_slices), cmocka_unit_test(families_of_masks)};
    return cmocka_run_group_tests(tests, golden_open, golden_close);
}
