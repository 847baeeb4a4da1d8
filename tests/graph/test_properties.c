/* Queries about variables' properties: whether a constraint follows an update, and which properties are in keys. */
#include "graph/graph.h"
#include "support/check.h"

enum { INPUTS = 4, UNITS = 3 };

/* A model with a Dense layer whose kernel has these properties. */
static clq_model *model_with(double l1, double l2, const clq_constraint *constraint, bool frozen) {
    clq_model *m;
    assert_ok(clq_model_create("key", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    x = clq_regularise(m, x, "kernel", l1, l2);
    x = clq_constrain(m, x, "kernel", constraint);
    if (frozen) x = clq_freeze(m, x);
    assert_ok(clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = UNITS})));
    return m;
}

static const clq_constraint none = {.kind = CLQ_CONSTRAINT_NONE}, positive = {.kind = CLQ_CONSTRAINT_NON_NEGATIVE},
                            unit = {.kind = CLQ_CONSTRAINT_UNIT_NORM},
                            rows = {.kind = CLQ_CONSTRAINT_UNIT_NORM, .axes = {.count = 1, .axes = {1}}},
                            short_one = {.kind = CLQ_CONSTRAINT_MAX_NORM, .most = 1},
                            long_one = {.kind = CLQ_CONSTRAINT_MAX_NORM, .most = 2},
                            slow = {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .most = 1, .rate = 0.5},
                            fast = {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .most = 1, .rate = 1};

/* Keys differ, so measurements of one model are not used for another. */
static void they_are_of_the_key(void **state) {
    const struct {
        double l1, l2;
        const clq_constraint *constraint;
    } models[] = {{0, 0, &none}, {0.5, 0, &none}, {0, 0.5, &none},    {0, 0, &positive},
                  {0, 0, &unit}, {0, 0, &rows},   {0, 0, &short_one}, {0, 0, &long_one},
                  {0, 0, &slow}, {0, 0, &fast},   {0.5, 0, &unit}};
    clq_text keys[CLQ_COUNT_OF(models)][2] = {{{0}}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++)
        for (size_t k = 0; k < 2; k++) {
            clq_model *m = model_with(models[i].l1, models[i].l2, models[i].constraint, false);
            clq_model_add_key(m, &keys[i][k]);
            assert_false(keys[i][k].failed);
            clq_model_destroy(m);
        }
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) {
        assert_string_equal(keys[i][0].data, keys[i][1].data);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(keys[i][0].data, keys[k][0].data);
    }
    assert_null(strstr(keys[0][0].data, "penalty"));
    assert_null(strstr(keys[0][0].data, "constraint"));
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++)
        for (size_t k = 0; k < 2; k++) clq_free(keys[i][k].data);
}

/* A penalty belongs to the loss and does not follow the update. A frozen layer has no updates. */
static void constraints_follow_what_is_trained(void **state) {
    const struct {
        double l2;
        const clq_constraint *constraint;
        bool frozen, follows;
    } models[] = {{0, &none, false, false},
                  {0.5, &none, false, false},
                  {0, &positive, false, true},
                  {0.5, &unit, false, true},
                  {0.5, &unit, true, false}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) {
        clq_model *m = model_with(0, models[i].l2, models[i].constraint, models[i].frozen);
        const clq_property *found = clq_model_follows(m);
        assert_true(found == (models[i].follows ? &clq_property_constraint : NULL));
        for (uint32_t v = 0; v < m->variable_count; v++)
            assert_true(clq_variable_follows(&m->variables[v]) == (v == 0 ? found : NULL));
        clq_model_destroy(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_of_the_key),
                                       cmocka_unit_test(constraints_follow_what_is_trained)};
    return cmocka_run_group_tests_name("graph/properties", tests, NULL, NULL);
}
