/* Channels: order, capacity, closing, and waiting until items are done. */
#include "support/check.h"

#include <unistd.h>

enum { CAPACITY = 4, ITEMS = 20000, SECONDS_MOST = 60 };

typedef struct consumer {
    clq_channel *channel;
    atomic_uint taken, slow_at; /* slow_at: how many items it takes before it waits for `go` */
    atomic_bool go;
    bool in_order;
    uint64_t sum;
} consumer;

static void consume(void *context) {
    consumer *c = context;
    uint64_t item, expected = 0;
    c->in_order = true;
    while (clq_channel_take(c->channel, &item)) {
        c->in_order = c->in_order && item == expected++;
        c->sum += item;
        atomic_fetch_add(&c->taken, 1);
        while (atomic_load(&c->taken) == atomic_load(&c->slow_at) && !atomic_load(&c->go)) (void)usleep(100);
        clq_channel_done(c->channel);
    }
}

static clq_thread *start(consumer *c, size_t capacity) {
    clq_thread *thread;
    assert_ok(clq_channel_create(sizeof(uint64_t), capacity, &c->channel));
    assert_ok(clq_thread_start("consumer", consume, c, &thread));
    return thread;
}

static void end(consumer *c, clq_thread *thread) {
    clq_channel_close(c->channel);
    clq_thread_join(thread);
    clq_channel_destroy(c->channel);
}

static void items_come_once_and_in_order(void **state) {
    (void)state;
    const size_t capacities[] = {1, 2, 3, CAPACITY, 64};
    for (size_t k = 0; k < CLQ_COUNT_OF(capacities); k++) {
        consumer c = {0};
        clq_thread *thread = start(&c, capacities[k]);
        for (uint64_t i = 0; i < ITEMS; i++) clq_channel_put(c.channel, &i);
        end(&c, thread); /* all items that were put are taken */
        assert_true(c.in_order);
        assert_int_equal(c.taken, ITEMS);
        assert_true(c.sum == (uint64_t)ITEMS * (ITEMS - 1) / 2);
    }
}

typedef struct producer {
    clq_channel *channel;
    atomic_uint put;
} producer;

static void produce(void *context) {
    producer *p = context;
    for (uint64_t i = 0; i < 2 * CAPACITY; i++) {
        clq_channel_put(p->channel, &i);
        atomic_fetch_add(&p->put, 1);
    }
}

/* Nobody takes items. There is room for CAPACITY of them. A producer that waits for room goes on when half of the room
 * is free. */
static void who_finds_no_room_waits_for_half(void **state) {
    (void)state;
    producer p = {0};
    clq_thread *thread;
    uint64_t item;
    assert_ok(clq_channel_create(sizeof item, CAPACITY, &p.channel));
    assert_ok(clq_thread_start("producer", produce, &p, &thread));
    while (atomic_load(&p.put) < CAPACITY) (void)usleep(100);
    assert_true(clq_channel_take(p.channel, &item));
    (void)usleep(20000);
    assert_int_equal(atomic_load(&p.put), CAPACITY);
    for (uint64_t i = 1; i < 2 * CAPACITY; i++) {
        assert_true(clq_channel_take(p.channel, &item));
        assert_true(item == i);
    }
    clq_thread_join(thread);
    clq_channel_close(p.channel);
    assert_false(clq_channel_take(p.channel, &item));
    clq_channel_destroy(p.channel);
    clq_channel_destroy(NULL);
}

/* Peeking takes no item, and does not wait. */
static void looking_leaves_the_item(void **state) {
    (void)state;
    clq_channel *channel;
    uint64_t item = 77;
    assert_ok(clq_channel_create(sizeof item, CAPACITY, &channel));
    assert_false(clq_channel_peek(channel, &item));
    assert_true(item == 77);
    for (uint64_t round = 0; round < 3 * CAPACITY; round += 2) {
        clq_channel_put(channel, &(uint64_t){round});
        clq_channel_put(channel, &(uint64_t){round + 1});
        for (uint64_t expected = round; expected < round + 2; expected++) {
            for (int twice = 0; twice < 2; twice++) {
                assert_true(clq_channel_peek(channel, &item));
                assert_true(item == expected);
            }
            assert_true(clq_channel_take(channel, &item));
            assert_true(item == expected);
        }
        assert_false(clq_channel_peek(channel, &item));
    }
    clq_channel_destroy(channel);
}

static void produce_until_closed(void *context) {
    producer *p = context;
    for (uint64_t i = 0; clq_channel_put(p->channel, &i); i++) atomic_fetch_add(&p->put, 1);
}

/* The taking side may close the channel. A producer that waits for room is told, and earlier items can still be
 * taken. */
static void closing_ends_the_wait_for_room(void **state) {
    (void)state;
    producer p = {0};
    clq_thread *thread;
    uint64_t item;
    assert_ok(clq_channel_create(sizeof item, CAPACITY, &p.channel));
    assert_ok(clq_thread_start("producer", produce_until_closed, &p, &thread));
    while (atomic_load(&p.put) < CAPACITY) (void)usleep(100);
    (void)usleep(20000); /* it waits by then */
    clq_channel_close(p.channel);
    clq_thread_join(thread);
    assert_int_equal(atomic_load(&p.put), CAPACITY);
    for (uint64_t i = 0; i < CAPACITY; i++) {
        assert_true(clq_channel_take(p.channel, &item));
        assert_true(item == i);
        assert_false(clq_channel_put(p.channel, &item)); /* closed, and there is room */
    }
    assert_false(clq_channel_take(p.channel, &item));
    clq_channel_destroy(p.channel);
}

typedef struct waiter {
    clq_channel *channel;
    atomic_bool returned;
} waiter;

static void wait_for_all(void *context) {
    waiter *w = context;
    clq_channel_wait(w->channel);
    atomic_store(&w->returned, true);
}

/* While an item was taken but is not done, a thread that waits for the channel keeps waiting. */
static void waiting_is_for_what_was_done(void **state) {
    (void)state;
    consumer c = {0};
    waiter w = {0};
    clq_thread *waiting;
    atomic_store(&c.slow_at, 2);
    clq_thread *thread = start(&c, CAPACITY);
    for (uint64_t i = 0; i < 2; i++) clq_channel_put(c.channel, &i);
    while (atomic_load(&c.taken) < 2) (void)usleep(100);
    w.channel = c.channel;
    assert_ok(clq_thread_start("waiter", wait_for_all, &w, &waiting));
    (void)usleep(20000);
    assert_false(atomic_load(&w.returned));
    atomic_store(&c.go, true);
    clq_thread_join(waiting);
    clq_channel_wait(c.channel); /* nothing is left to wait for */
    end(&c, thread);
}

static clq_status create_one(void *context) {
    clq_channel *channel;
    (void)context;
    CLQ_TRY(clq_channel_create(8, CAPACITY, &channel));
    clq_channel_destroy(channel);
    return CLQ_OK;
}

static void without_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(create_one, NULL) == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_once_and_in_order),   cmocka_unit_test(who_finds_no_room_waits_for_half),
        cmocka_unit_test(closing_ends_the_wait_for_room), cmocka_unit_test(waiting_is_for_what_was_done),
        cmocka_unit_test(looking_leaves_the_item),        cmocka_unit_test(without_memory)};
    (void)alarm(SECONDS_MOST);
    return cmocka_run_group_tests_name("base/channel", tests, NULL, NULL);
}
