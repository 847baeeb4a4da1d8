/* Drawing tokens by their logits: the shares of many draws are compared with the probabilities, and some draws have
 * only one answer. */
#include "support/check.h"
#include "train/sampling.h"

#include <math.h>

enum { COUNT = 5, DRAWS = 20000 };

static const double shares[COUNT] = {0.15, 0.4, 0, 0.25, 0.2};
static float logits[COUNT];

static void make_logits(void) {
    for (size_t i = 0; i < COUNT; i++) logits[i] = (float)log(shares[i]) + 3; /* a share of 0 gives -infinity */
}

static uint32_t draw(const clq_sampling *how, const float *from, uint64_t place) {
    clq_sampled room[COUNT];
    uint32_t token = COUNT;
    assert_ok(clq_sampling_check(how));
    assert_ok(clq_sample(how, from, COUNT, place, room, &token));
    assert_true(token < COUNT);
    return token;
}

/* want: the expected shares, up to a common factor. */
static void check_shares(const clq_sampling *how, const double want[COUNT]) {
    double all = 0;
    size_t seen[COUNT] = {0};
    for (size_t i = 0; i < COUNT; i++) all += want[i];
    for (uint64_t place = 0; place < DRAWS; place++) seen[draw(how, logits, place)]++;
    for (size_t i = 0; i < COUNT; i++) {
        const double share = want[i] / all, bound = 5 * sqrt(share * (1 - share) / DRAWS);
        if (!(fabs((double)seen[i] / DRAWS - share) <= bound))
            fail_msg("temperature %g, top_k %u, top_p %g: token %zu was drawn %zu times of %d, not a share of %g",
                     how->temperature, how->top_k, how->top_p, i, seen[i], DRAWS, share);
    }
}

static void draws_have_the_probabilities(void **state) {
    (void)state;
    check_shares(&(clq_sampling){.temperature = 1, .seed = 7}, shares);
    double halved[COUNT], doubled[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        halved[i] = shares[i] * shares[i];
        doubled[i] = sqrt(shares[i]);
    }
    check_shares(&(clq_sampling){.temperature = 0.5}, halved);
    check_shares(&(clq_sampling){.temperature = 2, .top_p = 1}, doubled);
}

static void draws_are_among_the_most_probable(void **state) {
    (void)state;
    check_shares(&(clq_sampling){.temperature = 1, .top_k = 2}, (const double[]){0, 0.4, 0, 0.25, 0});
    check_shares(&(clq_sampling){.temperature = 1, .top_k = 9}, shares);
    check_shares(&(clq_sampling){.temperature = 1, .top_p = 0.7}, (const double[]){0, 0.4, 0, 0.25, 0.2});
    check_shares(&(clq_sampling){.temperature = 1, .top_p = 0.1}, (const double[]){0, 1, 0, 0, 0});
    /* Among the two most probable tokens, the first alone reaches 0.6. */
    check_shares(&(clq_sampling){.temperature = 1, .top_k = 2, .top_p = 0.6}, (const double[]){0, 1, 0, 0, 0});
}

static void a_draw_depends_on_seed_and_place_alone(void **state) {
    (void)state;
    const clq_sampling how = {.temperature = 1, .seed = 3}, other = {.temperature = 1, .seed = 4};
    unsigned apart = 0, moved = 0;
    for (uint64_t place = 0; place < 100; place++) {
        assert_int_equal(draw(&how, logits, place), draw(&how, logits, place));
        apart += draw(&how, logits, place) != draw(&other, logits, place);
        moved += draw(&how, logits, place) != draw(&how, logits, place + 1);
    }
    assert_true(apart > 40 && moved > 40); /* 72 of 100 differ on average */
}

static void the_most_probable_token(void **state) {
    (void)state;
    const clq_sampling how = {.seed = 1};
    const float equals[COUNT] = {1, 2, -INFINITY, 2, 0};
    for (uint64_t place = 0; place < 20; place++) {
        assert_int_equal(draw(&how, logits, place), 1);
        assert_int_equal(draw(&how, equals, place), 1);
    }
}

static void what_is_refused(void **state) {
    (void)state;
    const clq_sampling wrong[] = {{.temperature = -1}, {.temperature = NAN}, {.temperature = INFINITY},
                                  {.top_p = -0.1},     {.top_p = 1.5},       {.top_p = NAN}};
    assert_fails(CLQ_ERROR_ARGUMENT, "reserved", clq_sampling_check(&(clq_sampling){.reserved = {0, 0, 1}}));
    const float nothing[COUNT] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                broken[COUNT] = {1, 2, 3, NAN, 4}, large[COUNT] = {1, INFINITY, 3, 2, 4};
    const clq_sampling how = {.temperature = 1};
    clq_sampled room[COUNT];
    uint32_t token = 77;
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, i < 3 ? "temperature" : "top_p", clq_sampling_check(&wrong[i]));
    assert_fails(CLQ_ERROR_NOT_FINITE, "no finite logit", clq_sample(&how, nothing, COUNT, 0, room, &token));
    assert_fails(CLQ_ERROR_NOT_FINITE, "for token 3", clq_sample(&how, broken, COUNT, 0, room, &token));
    assert_fails(CLQ_ERROR_NOT_FINITE, "the largest is inf", clq_sample(&how, large, COUNT, 0, room, &token));
    assert_int_equal(token, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_have_the_probabilities),
                                       cmocka_unit_test(draws_are_among_the_most_probable),
                                       cmocka_unit_test(a_draw_depends_on_seed_and_place_alone),
                                       cmocka_unit_test(the_most_probable_token), cmocka_unit_test(what_is_refused)};
    make_logits();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
