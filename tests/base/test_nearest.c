/* Which known word was meant by an unknown word. */
#include "support/check.h"

static const char *const keys[] = {"decay_steps", "decay_rate", "staircase", "lr", "beta1", "beta2", "momentum"};

static const char *nearest_to(const char *word) {
    clq_nearest nearest = clq_nearest_of(word);
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++) clq_nearest_try(&nearest, keys[i]);
    return nearest.found ? nearest.found : "";
}

static void finds_slips(void **state) {
    (void)state;
    assert_string_equal(nearest_to("decay_step"), "decay_steps");
    assert_string_equal(nearest_to("decay_rat"), "decay_rate");
    assert_string_equal(nearest_to("dceay_rate"), "decay_rate"); /* neighbours swapped */
    assert_string_equal(nearest_to("decayrate"), "decay_rate");
    assert_string_equal(nearest_to("stiarcsae"), "staircase"); /* two swaps */
    assert_string_equal(nearest_to("l"), "lr");
    assert_string_equal(nearest_to("rl"), "lr");
    assert_string_equal(nearest_to("mom"), "momentum"); /* the beginning of a known word */
    assert_string_equal(nearest_to("beta"), "beta1");   /* the first of two equally near words */
    assert_string_equal(nearest_to("beta3"), "beta1");
}

static void names_nothing_that_is_far(void **state) {
    (void)state;
    char longest[200];
    memset(longest, 'd', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_string_equal(nearest_to("temperature"), "");
    assert_string_equal(nearest_to("xy"), "");
    assert_string_equal(nearest_to(""), "");
    assert_string_equal(nearest_to(longest), "");
    clq_nearest none = clq_nearest_of("a"), nearest = clq_nearest_of(longest + 190);
    clq_nearest_try(&none, "b"); /* all of it would be another word */
    assert_null(none.found);
    clq_nearest_try(&nearest, longest);
    assert_null(nearest.found);
}

static void reads_a_part_of_a_text(void **state) {
    (void)state;
    clq_nearest first = {.word = "mometum=1,lr", .length = 7}, all = clq_nearest_of("mometum=1,lr"),
                none = {.word = "momentum"};
    clq_nearest_try(&first, "momentum");
    assert_string_equal(first.found, "momentum");
    clq_nearest_try(&all, "momentum");
    assert_null(all.found);
    clq_nearest_try(&none, "momentum");
    assert_null(none.found);
}

static void is_said_in_a_message(void **state) {
    (void)state;
    clq_text text = {0};
    clq_nearest nearest = clq_nearest_of("momentun");
    clq_text_add(&text, "unknown");
    clq_nearest_add(&nearest, &text);
    assert_string_equal(text.data, "unknown");
    clq_nearest_try(&nearest, "momentum");
    clq_nearest_add(&nearest, &text);
    assert_string_equal(text.data, "unknown; did you mean 'momentum'?");
    clq_free(text.data);
}

static void is_said_in_a_failure(void **state) {
    (void)state;
    clq_nearest nearest = clq_nearest_of("momentun");
    assert_int_equal(clq_nearest_fail(&nearest, "key '%s'", nearest.word), CLQ_ERROR_ARGUMENT);
    assert_string_equal(clq_error_detail(), "key 'momentun'");
    clq_nearest_try(&nearest, "momentum");
    assert_int_equal(clq_nearest_fail(&nearest, "key '%s'", nearest.word), CLQ_ERROR_ARGUMENT);
    assert_string_equal(clq_error_detail(), "key 'momentun'; did you mean 'momentum'?");
}

static void words_are_found(void **state) {
    (void)state;
    static const char *const words[] = {"ring", "direct", "torus", NULL};
    size_t found = 7;
    assert_int_equal(clq_find_word("--algo", "direct", words, &found), CLQ_OK);
    assert_int_equal(found, 1);
    assert_int_equal(clq_find_word("--algo", "tours", words, &found), CLQ_ERROR_ARGUMENT);
    assert_int_equal(found, 1);
    assert_string_equal(clq_error_detail(), "--algo 'tours': expected ring, direct or torus; did you mean 'torus'?");
    assert_int_equal(clq_find_word("--algo", "", words, &found), CLQ_ERROR_ARGUMENT);
    assert_string_equal(clq_error_detail(), "--algo '': expected ring, direct or torus");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_said_in_a_failure),
                                       cmocka_unit_test(words_are_found),
                                       cmocka_unit_test(finds_slips),
                                       cmocka_unit_test(names_nothing_that_is_far),
                                       cmocka_unit_test(reads_a_part_of_a_text),
                                       cmocka_unit_test(is_said_in_a_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
