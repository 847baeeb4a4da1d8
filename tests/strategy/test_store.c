/* The store by itself: its parts, its updates compared with updates of plain arrays, and what readers see during an
 * update. */
#include "strategy/exchange/store.h"
#include "support/check.h"

#include <stdatomic.h>
#include <string.h>

enum { LINES = 37, FLOATS = LINES * CLQ_VARIABLE_ALIGN / 4, BYTES = FLOATS * 4, RANKS = 3, UPDATES = 20 };

static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.999, 1e-7}};

static clq_store *open_store(unsigned parts) {
    clq_store *store;
    assert_ok(clq_store_create(&(clq_store_config){.optimizer = adam, .bytes = BYTES, .parts = parts}, &store));
    return store;
}

/* Parts consist of whole lines, cover all lines, and differ in size by at most one line. */
static void parts_are_alike(void **state) {
    (void)state;
    for (unsigned wanted = 0; wanted < 8; wanted++) {
        clq_store *store = open_store(wanted);
        size_t begin, end, last = 0;
        if (wanted) assert_int_equal(clq_store_parts(store), wanted);
        for (unsigned i = 0; i < clq_store_parts(store); i++) {
            clq_store_part(store, i, &begin, &end);
            assert_int_equal(begin, last);
            assert_int_equal(begin % CLQ_VARIABLE_ALIGN, 0);
            assert_within((end - begin) / CLQ_VARIABLE_ALIGN, LINES / clq_store_parts(store),
                          LINES / clq_store_parts(store) + 1);
            last = end;
        }
        assert_int_equal(last, BYTES);
        assert_int_equal(clq_store_bytes(store), 4 * BYTES);
        clq_store_destroy(store);
    }
    clq_store_destroy(NULL);
    clq_store *store = open_store(1000); /* more than the most */
    assert_int_equal(clq_store_parts(store), CLQ_STORE_PARTS_MAX);
    clq_store_destroy(store);
}

/* However the store is cut into parts, the bits equal those of one update of whole arrays. */
static void updates_are_those_of_arrays(void **state) {
    (void)state;
    static float gradients[RANKS][FLOATS], w[FLOATS], m[FLOATS], v[FLOATS], sum[FLOATS], copies[2][FLOATS];
    const float *from[RANKS];
    float *const to[2] = {copies[0], copies[1]};
    for (unsigned parts = 1; parts < 6; parts += 2) {
        clq_random random = clq_random_start(3, parts);
        clq_store *store = open_store(parts);
        for (size_t i = 0; i < FLOATS; i++) w[i] = (float)clq_random_unit(&random);
        clq_store_begin_write(store);
        memcpy(clq_store_parameters(store), w, BYTES);
        clq_store_end_write(store);
        memset(m, 0, sizeof m);
        memset(v, 0, sizeof v);
        for (unsigned update = 1; update <= 4; update++) {
            for (unsigned r = 0; r < RANKS; r++) {
                for (size_t i = 0; i < FLOATS; i++) gradients[r][i] = (float)clq_random_unit(&random) - 0.5f;
                from[r] = gradients[r];
            }
            const clq_store_change change = {.gradients = from,
                                             .count = RANKS,
                                             .factor = 0.5f,
                                             .rates = {.of = {{.rate = 0.01f}}},
                                             .copies = to,
                                             .copy_count = 2};
            clq_host_update whole = {.w = w,
                                     .states = {m, v},
                                     .gradients = from,
                                     .gradient_count = RANKS,
                                     .factor = 0.5f,
                                     .sum = sum,
                                     .floats = FLOATS};
            assert_int_equal(clq_store_update(store, &change), update);
            clq_update_on_host(&adam, &whole, &change.rates.of[0], 0);
            assert_memory_equal(clq_store_parameters(store), w, BYTES);
            assert_memory_equal(clq_store_gradient(store), sum, BYTES);
            assert_memory_equal(copies[0], w, BYTES);
            assert_memory_equal(copies[1], w, BYTES);
            clq_store_sum(store, &(clq_store_change){.gradients = from + 1, .count = 1, .factor = 1.0f});
            assert_memory_equal(clq_store_gradient(store), gradients[1], BYTES);
            assert_memory_equal(clq_store_parameters(store), w, BYTES);
        }
        for (unsigned i = 0; i < parts; i++) assert_int_equal(clq_store_part_updates(store, i), 4);
        clq_store_destroy(store);
    }
}

/* ---- several threads ---- */

typedef struct crowd {
    clq_store *store;
    atomic_bool done;
    atomic_uint torn;
} crowd;

static float ones[FLOATS];

/* Every update adds 1 to all parameters, by SGD with a rate of -1. So each parameter equals the version's number. */
static void push(void *context) {
    crowd *c = context;
    const float *const from[1] = {ones};
    for (unsigned i = 0; i < UPDATES; i++)
        (void)clq_store_update(
            c->store,
            &(clq_store_change){.gradients = from, .count = 1, .factor = 1.0f, .rates = {.of = {{.rate = -1.0f}}}});
}

static void look(void *context) {
    crowd *c = context;
    while (!atomic_load(&c->done)) {
        const float version = (float)clq_store_begin_read(c->store);
        const float *w = clq_store_parameters(c->store);
        for (size_t i = 0; i < FLOATS; i++)
            if (w[i] != version) atomic_fetch_add(&c->torn, 1);
        clq_store_end_read(c->store);
    }
}

static void readers_see_one_version(void **state) {
    (void)state;
    enum { PUSHERS = 3, READERS = 2 };
    static const clq_optimizer sgd = {.kind = CLQ_OPTIMIZER_SGD};
    crowd c = {0};
    for (size_t i = 0; i < FLOATS; i++) ones[i] = 1.0f;
    clq_thread *pushers[PUSHERS], *readers[READERS];
    assert_ok(clq_store_create(&(clq_store_config){.optimizer = sgd, .bytes = BYTES, .parts = 3}, &c.store));
    for (unsigned i = 0; i < READERS; i++) assert_ok(clq_thread_start("reader", look, &c, &readers[i]));
    for (unsigned i = 0; i < PUSHERS; i++) assert_ok(clq_thread_start("pusher", push, &c, &pushers[i]));
    for (unsigned i = 0; i < PUSHERS; i++) clq_thread_join(pushers[i]);
    atomic_store(&c.done, true);
    for (unsigned i = 0; i < READERS; i++) clq_thread_join(readers[i]);
    assert_int_equal(atomic_load(&c.torn), 0);
    assert_int_equal(clq_store_begin_read(c.store), PUSHERS * UPDATES);
    clq_store_end_read(c.store);
    assert_true(clq_store_parameters(c.store)[FLOATS - 1] == (float)(PUSHERS * UPDATES));
    for (unsigned i = 0; i < 3; i++) assert_int_equal(clq_store_part_updates(c.store, i), PUSHERS * UPDATES);
    clq_store_destroy(c.store);
}

static void bears_failing_allocations(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        clq_store *store;
        clq_memory_fail_at(nth, false);
        const clq_status status =
            clq_store_create(&(clq_store_config){.optimizer = adam, .bytes = BYTES, .parts = 3}, &store);
        const uint64_t made = clq_memory_fail_at(0, false);
        if (status == CLQ_OK) {
            clq_store_destroy(store);
            assert_true(nth > 8 && made < nth);
            return;
        }
        assert_int_equal(status, CLQ_ERROR_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_alike), cmocka_unit_test(updates_are_those_of_arrays),
                                       cmocka_unit_test(readers_see_one_version),
                                       cmocka_unit_test(bears_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
