/* RelativeRows, which looks up rows of a table by the distance of two tokens: which tables, places and tokens it takes.
 * test_single_layers.c compares its numbers with Keras. */
#include "graph/layers/layer.h"
#include "support/check.h"

#include <string.h>

enum { LOGARITHMIC, BOTH_WAYS, BEHIND };

/* Sets an attribute of a config by its key. */
static void set(char *config, const clq_layer_kind *kind, const char *key, const void *value, size_t bytes) {
    for (size_t i = 0; i < kind->attribute_count; i++)
        if (strcmp(kind->attributes[i].key, key) == 0) memcpy(config + kind->attributes[i].at, value, bytes);
}

static bool has_rows(size_t rows, size_t places, int buckets, size_t tokens) {
    const clq_layer_kind *kind = clq_layer_kind_named("RelativeRows", "clique");
    const clq_shape shapes[] = {CLQ_SHAPE(rows, 2), CLQ_SHAPE(tokens, 1)};
    clq_tensor x[2];
    clq_model *model;
    assert_non_null(kind);
    char *config = clq_alloc(1, kind->config_bytes);
    assert_non_null(config);
    set(config, kind, "places", &places, sizeof places);
    set(config, kind, "buckets", &buckets, sizeof buckets);
    assert_ok(clq_model_create("rows", &model));
    clq_inputs(model, shapes, NULL, 2, x);
    const bool added = clq_model_add_layer(model, kind, NULL, config, x, 2).id != 0;
    if (!added) expect_text(model->error.detail, "are supported for at most");
    clq_free(config);
    clq_model_destroy(model);
    return added;
}

/* Distances without rows of their own share rows by their logarithm, divided by the logarithm of a ratio that grows
 * with the places. The ratio must be more than 1: otherwise the divisor is negative or 0. */
static void places_are_more_than_rows_of_one_distance(void **state) {
    static const struct {
        size_t rows, places;
        int buckets;
        size_t near; /* the most tokens for these places */
    } cases[] = {{32, 10, BEHIND, 16},  {32, 16, BEHIND, 16},    {32, 8, BOTH_WAYS, 8},
                 {32, 3, BOTH_WAYS, 8}, {32, 9, LOGARITHMIC, 9}, {4, 2, LOGARITHMIC, 2}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        assert_true(has_rows(cases[i].rows, cases[i].places, cases[i].buckets, cases[i].near));
        assert_false(has_rows(cases[i].rows, cases[i].places, cases[i].buckets, cases[i].near + 1));
        assert_false(has_rows(cases[i].rows, cases[i].places, cases[i].buckets, 64));
        assert_true(has_rows(cases[i].rows, cases[i].near + 1, cases[i].buckets, 64));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_are_more_than_rows_of_one_distance)};
    return cmocka_run_group_tests_name("graph/relative", tests, NULL, NULL);
}
