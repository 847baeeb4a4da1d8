/* Which candidate a choice selects: by the list's own selections (forced or exact), by rule, and by what is kept. Also
 * which choices the list notes. */
#include "device/fixture.h"
#include "launch/launch.h"
#include "support/check.h"
#include "support/files.h"

static clq_system *sys;
static clq_device *device;

static int open_device(void **state) {
    uint32_t indices[TEST_DEVICES];
    if (files_begin(state) != 0) return -1;
    assert_ok(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &sys));
    (void)find_devices(sys, indices);
    assert_ok(clq_device_open(sys, (clq_device_choice){indices[TEST_BASIC], 0, 1}, &device));
    return 0;
}

static int close_device(void **state) {
    clq_device_close(device);
    clq_system_close(sys);
    return files_end(state);
}

/* Makes the choice "product 3x4" with the candidates "tiles" and "blocks", and also "library" if a selection names it.
 * Returns the candidate that a list with these selections selects. */
static const char *selected(const clq_selections *selections, clq_choice *out, size_t *noted) {
    static char name[CLQ_CANDIDATE_BYTES];
    clq_list *list;
    assert_ok(clq_list_create(device, 1, &list));
    clq_list_set_selections(list, selections);
    clq_choice_start(out, "product %dx%d", 3, 4);
    clq_choice_add(out, 10, 11, "tiles");
    clq_choice_add(out, 20, 21, "%s", "blocks");
    clq_choice_add(out, 30, 31, "tiles"); /* there is one of that name */
    clq_choice_add_named(out, list, 40, 41, "library");
    const struct clq_candidate *candidate = clq_list_select(list, out);
    (void)snprintf(name, sizeof name, "%s", candidate->name);
    assert_int_equal(candidate->values[1], candidate->values[0] + 1);
    *noted = clq_list_choice_count(list);
    assert_int_equal(out->index == SIZE_MAX, *noted == 0);
    assert_ok(clq_list_status(list));
    clq_list_destroy(list);
    return name;
}

static void own_selections_decide(void **state) {
    (void)state;
    static const struct {
        clq_selection own[2];
        const char *want;
        size_t candidates;
        bool noted; /* forced choices are not noted */
    } cases[] = {
        {{{"product 3x4", "blocks"}}, "blocks", 2, true},
        {{{"product 3x4", "library"}}, "library", 3, true},
        {{{"product 3x4", "nothing"}, {"product*", "blocks"}}, "tiles", 2, true}, /* the default */
        {{{"product 3x5", "blocks"}}, "tiles", 2, true},
        {{{"product *", "blocks"}}, "blocks", 2, false},
        {{{"product *", "library"}}, "library", 3, false},
        {{{"product *", "nothing"}, {"product *", "blocks"}}, "blocks", 2, false}, /* the first valid name */
        {{{"prod*", "tiles"}, {"product 3x4", "blocks"}}, "tiles", 2, false},
        {{{"*", "blocks"}}, "blocks", 2, false},
        {{{"sum *", "library"}}, "tiles", 2, true},
        {{{"product", "library"}}, "tiles", 2, true},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_choice choice;
        size_t noted;
        const char *got = selected(&(clq_selections){.entries = cases[i].own, .count = 2}, &choice, &noted);
        if (strcmp(got, cases[i].want) != 0 || choice.count != cases[i].candidates || noted != cases[i].noted)
            fail_msg("case %zu: %s of %zu, %zu noted", i, got, choice.count, noted);
        assert_false(choice.kept);
    }
}

static void what_is_kept_comes_next(void **state) {
    (void)state;
    static const clq_selection other = {"sum*", "blocks"};
    clq_choice choice;
    size_t noted;
    assert_string_equal(selected(NULL, &choice, &noted), "tiles");
    assert_ok(clq_selection_keep(device, "product 3x4", "blocks"));
    assert_string_equal(selected(NULL, &choice, &noted), "blocks");
    assert_true(choice.kept);
    assert_string_equal(selected(&(clq_selections){.entries = &other, .count = 1}, &choice, &noted), "blocks");
    assert_string_equal(selected(&(clq_selections){.by_rule = true}, &choice, &noted), "tiles");
    assert_string_equal(selected(&(clq_selections){.by_rule = true, .nth = 9}, &choice, &noted), "blocks");
    assert_ok(clq_selection_keep(device, "product 3x4", "library")); /* no candidate unless a selection names it */
    assert_string_equal(selected(NULL, &choice, &noted), "tiles");
    assert_false(choice.kept);
}

/* A candidate that a selection names has a place even if the choice is full. */
static void a_full_choice_takes_what_is_named(void **state) {
    (void)state;
    static const clq_selection forced = {"full", "named"};
    clq_list *list;
    clq_choice choice;
    assert_ok(clq_list_create(device, 1, &list));
    clq_list_set_selections(list, &(clq_selections){.entries = &forced, .count = 1});
    clq_choice_start(&choice, "full");
    for (uint32_t i = 0; i < CLQ_CANDIDATES_MOST + 3; i++) clq_choice_add(&choice, i, 0, "candidate %u", (unsigned)i);
    assert_int_equal(choice.count, CLQ_CANDIDATES_MOST);
    clq_choice_add_named(&choice, list, 77, 0, "named");
    assert_int_equal(choice.count, CLQ_CANDIDATES_MOST);
    assert_int_equal(clq_list_select(list, &choice)->values[0], 77);
    clq_list_destroy(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_selections_decide),
                                       cmocka_unit_test(what_is_kept_comes_next),
                                       cmocka_unit_test(a_full_choice_takes_what_is_named)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
