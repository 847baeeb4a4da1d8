/* Finds where the samples of a batch lie: the order of an epoch, the walk over the order, and the copying of rows. */
#include "data/dataset.h"

#include <string.h>

/* A shuffled batch's samples lie all over the set, so the processor cannot predict their addresses. Software prefetches
 * FETCH_SAMPLES samples ahead, and FETCH_PLACES places from which samples are drawn. */
enum { FETCH_SAMPLES = 8, FETCH_PLACES = 32, FETCH_BYTES = 8 << 10, LINE_BYTES = 64 };

/* ---- the order of an epoch ---- */

clq_status clq_order_allocate(clq_order *order, const clq_dataset *d) {
    if (d->buffer == 0 || order->places) return CLQ_OK;
    order->places = clq_alloc(d->info.samples, sizeof *order->places);
    return order->places ? CLQ_OK : CLQ_ERROR_MEMORY;
}

void clq_orders_free(clq_dataset *dataset) {
    for (size_t i = 0; i < CLQ_COUNT_OF(dataset->orders); i++) {
        clq_free(dataset->orders[i].places);
        dataset->orders[i] = (clq_order){0};
    }
}

/* Begins the order of an epoch. A text's windows lie side by side, and the first begins at a random byte among the
 * first `window` bytes. */
static void begin(clq_order *order, const clq_dataset *d, uint64_t epoch) {
    *order =
        (clq_order){.places = order->places,
                    .epoch = epoch,
                    .random = clq_random_start(d->seed + d->part.seed, clq_random_stream(CLQ_RANDOM_SHUFFLE, epoch)),
                    .begun = true};
    for (size_t i = 0; i < d->info.samples; i++) order->places[i] = i;
    const size_t first = d->window ? (size_t)clq_random_below(&order->random, d->window) : 0;
    for (unsigned i = 0; i < d->feed.count; i++)
        order->values[i] = d->values[i] + (d->window ? first * (d->feed.arrays[i].bytes / d->window) : 0);
}

/* Draws the order up to `end`, by a shuffle buffer that lies in `places` itself. Before step i, the buffer is the range
 * [i, i + buffer). Step i draws a random sample of the buffer and swaps it with the sample at i. The buffer then begins
 * at i + 1, and the source's next sample enters at its end. If the buffer has all samples, this is Fisher and Yates's
 * shuffle. Places that are drawn never change: later steps change only the places after them. */
static void draw(clq_order *order, const clq_dataset *d, uint64_t epoch, size_t end) {
    size_t *places = order->places, samples = d->info.samples;
    if (!order->begun || order->epoch != epoch) begin(order, d, epoch);
    while (order->drawn < end) {
        size_t drawn[FETCH_PLACES], count = CLQ_MIN((size_t)FETCH_PLACES, end - order->drawn);
        for (size_t k = 0; k < count; k++) {
            size_t i = order->drawn + k;
            drawn[k] = i + (size_t)clq_random_below(&order->random, CLQ_MIN(d->buffer, samples - i));
            __builtin_prefetch(&places[drawn[k]], 1);
        }
        for (size_t k = 0; k < count; k++) {
            size_t i = order->drawn++, sample = places[drawn[k]];
            places[drawn[k]] = places[i];
            places[i] = sample;
        }
    }
}

/* ---- rows ---- */

clq_rows clq_rows_at(const clq_dataset *d, clq_order *order, clq_place place) {
    const size_t most = clq_dataset_rows(d);
    clq_rows rows = {.feed = &d->feed, .arrays = d->values, .first = (size_t)place.index * most, .stay = true};
    rows.count = CLQ_MIN(most, d->info.samples - rows.first);
    if (d->buffer == 0) return rows;
    draw(order, d, place.epoch, rows.first + rows.count);
    rows.places = order->places + rows.first;
    rows.arrays = order->values;
    return rows;
}

clq_rows clq_rows_part(const clq_rows *rows, size_t begin, size_t count) {
    clq_rows part = *rows;
    part.first += begin;
    part.count = count;
    if (part.places) part.places += begin;
    return part;
}

static void fetch(const char *sample, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE_BYTES) __builtin_prefetch(sample + at);
}

/* Copies rows with prefetching: three times as fast as without (784 bytes each, from a set that no cache holds). */
static void gather(const char *from, const size_t *places, size_t count, size_t bytes, char *to) {
    size_t fetched = CLQ_MIN(bytes, (size_t)FETCH_BYTES);
    size_t ahead = CLQ_MAX(CLQ_MIN((size_t)FETCH_SAMPLES, FETCH_BYTES / bytes), (size_t)1);
    for (size_t i = 0; i < CLQ_MIN(ahead, count); i++) fetch(from + places[i] * bytes, fetched);
    for (size_t i = 0; i < count; i++) {
        if (i + ahead < count) fetch(from + places[i + ahead] * bytes, fetched);
        memcpy(to + i * bytes, from + places[i] * bytes, bytes);
    }
}

void clq_rows_copy(const clq_rows *rows, unsigned array, void *to) {
    const char *from = rows->arrays[array];
    const size_t bytes = rows->feed->arrays[array].bytes;
    if (rows->places)
        gather(from, rows->places, rows->count, bytes, to);
    else
        memcpy(to, from + rows->first * bytes, rows->count * bytes);
}

/* ---- the walk ---- */

clq_status clq_dataset_next_rows(clq_dataset *dataset, clq_rows *rows, bool *more) {
    if (dataset->ring) clq_pipeline_stop(dataset);
    if (dataset->next.index == clq_dataset_batches(dataset)) {
        dataset->next = (clq_place){dataset->next.epoch + 1, 0};
        *more = false;
        return CLQ_OK;
    }
    clq_order *order = &dataset->orders[dataset->next.epoch % CLQ_COUNT_OF(dataset->orders)];
    clq_status status = clq_order_allocate(order, dataset);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", dataset->info.name);
    *rows = clq_rows_at(dataset, order, dataset->next);
    *more = true;
    dataset->next.index++;
    return CLQ_OK;
}
