/* The table of settings: that its rows are whole, that keys have what the rows say, and that configs are checked. */
#include "support/check.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

static bool is_one_of_two(const clq_setting *a, const clq_setting *b) { return !(a->commands & b->commands); }

static void rows_are_whole(void **state) {
    (void)state;
    const clq_setting *row, *other;
    size_t count = 0;
    for (size_t i = 0; (row = clq_setting_at(i)) != NULL; i++, count++) {
        assert_true((row->value != NULL) == (row->commands != 0 && row->type != CLQ_SETTING_FLAG));
        assert_true((row->help != NULL) == (row->commands != 0)); /* of programs alone: no option */
        assert_true(row->field < sizeof(clq_settings) && row->commands <= CLQ_COMMANDS_ALL);
        if (row->type == CLQ_SETTING_COUNT) assert_true(row->min < row->max);
        if (row->member.type == CLQ_MEMBER_KIND) assert_true(row->member.count > 1 && row->member.name_of(0) != NULL);
        if (row->member.type == CLQ_MEMBER_OWN) assert_non_null(row->member.write);
        if (row->keys || row->strategies) assert_true(row->member.type != CLQ_MEMBER_NONE);
        for (size_t k = 0; k < i; k++) {
            other = clq_setting_at(k);
            if (strcmp(other->name, row->name) == 0) assert_true(is_one_of_two(other, row));
        }
    }
    assert_true(count > 60);
}

static clq_hash128 key_of(const clq_trainer_config *config, unsigned key, clq_strategy_kind strategy) {
    clq_text text = {0};
    clq_settings_add_key(config, key, strategy, &text);
    assert_false(text.failed);
    const clq_hash128 hash = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return hash;
}

/* What is changed, and the keys that have to change with it. */
typedef struct change {
    clq_trainer_config config;
    unsigned keys;
} change;

static void keys_have_what_matters(void **state) {
    (void)state;
    enum { P = CLQ_KEY_PREDICTION, S = CLQ_KEY_STAGES, C = CLQ_KEY_CHOICE, CASES = 14 };
    static const unsigned all[] = {P, S, C};
    const clq_trainer_config config = clq_trainer_config_default();
    change cases[CASES];
    for (size_t i = 0; i < CASES; i++) cases[i] = (change){.config = config};
#define CHANGE(i, member, value, changed) (cases[i].config.member = (value), cases[i].keys = (changed))
    CHANGE(0, precision, CLQ_PRECISION_MIXED, P | S | C);
    CHANGE(1, recompute, CLQ_RECOMPUTE_ALL, P | S | C);
    CHANGE(2, matmul_precision, CLQ_MATMUL_HIGH, P | S | C);
    CHANGE(3, clip, ((clq_clip){CLQ_CLIP_NORM, 1}), P);
    CHANGE(4, global_batch, 65, P | C);
    CHANGE(5, loss, clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR), P | S);
    CHANGE(6, sample_dtype, CLQ_F32, P | S);
    CHANGE(7, check_numerics, true, P | S);
    CHANGE(8, strategy_options.local_steps, 5, C);
    CHANGE(9, strategy_options.micro_batches, 5, 0); /* of pipelines, and the key is of mirrored */
    CHANGE(10, seed, 5, 0);
    CHANGE(11, optimizer.values[0], 5, 0);
    CHANGE(12, optimizer, clq_optimizer_default(CLQ_OPTIMIZER_SGD), P | C);
    CHANGE(13, average, 0.5, P);
#undef CHANGE
    for (size_t i = 0; i < CASES; i++)
        for (size_t k = 0; k < CLQ_COUNT_OF(all); k++) {
            const clq_hash128 before = key_of(&config, all[k], CLQ_STRATEGY_MIRRORED),
                              after = key_of(&cases[i].config, all[k], CLQ_STRATEGY_MIRRORED);
            if ((memcmp(&before, &after, sizeof before) != 0) != ((cases[i].keys & all[k]) != 0))
                fail_msg("case %zu, key %u", i, all[k]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole), cmocka_unit_test(keys_have_what_matters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
