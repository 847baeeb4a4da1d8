#include "base/base.h"

#include <string.h>

struct clq_channel {
    pthread_mutex_t mutex;
    pthread_cond_t room, filled, idle; /* awaited by clq_channel_put, _take, _wait */
    size_t item_bytes, capacity;
    unsigned char *items; /* (capacity, item_bytes), a ring */
    uint64_t put, taken, done;
    bool closed;
};

static unsigned char *place(const clq_channel *channel, uint64_t item) {
    return channel->items + (size_t)(item % channel->capacity) * channel->item_bytes;
}

/* Returns the error of the pthread function that failed, or 0. */
static int make_locks(clq_channel *channel) {
    pthread_cond_t *const conditions[] = {&channel->room, &channel->filled, &channel->idle};
    size_t made = 0;
    int error = pthread_mutex_init(&channel->mutex, NULL);
    if (error) return error;
    while (made < CLQ_COUNT_OF(conditions) && (error = pthread_cond_init(conditions[made], NULL)) == 0) made++;
    if (made == CLQ_COUNT_OF(conditions)) return 0;
    while (made > 0) pthread_cond_destroy(conditions[--made]);
    pthread_mutex_destroy(&channel->mutex);
    return error;
}

clq_status clq_channel_create(size_t item_bytes, size_t capacity, clq_channel **out) {
    clq_channel *channel = clq_alloc(1, sizeof *channel);
    if (!channel) return CLQ_ERROR_MEMORY;
    channel->item_bytes = item_bytes;
    channel->capacity = capacity;
    channel->items = clq_alloc(capacity, item_bytes);
    clq_status status = channel->items ? CLQ_OK : CLQ_ERROR_MEMORY;
    const int error = status == CLQ_OK ? make_locks(channel) : 0;
    if (error) status = clq_fail_lock("a channel", error);
    if (status != CLQ_OK) {
        clq_free(channel->items);
        clq_free(channel);
        return status;
    }
    *out = channel;
    return CLQ_OK;
}

void clq_channel_destroy(clq_channel *channel) {
    if (!channel) return;
    pthread_cond_destroy(&channel->room);
    pthread_cond_destroy(&channel->filled);
    pthread_cond_destroy(&channel->idle);
    pthread_mutex_destroy(&channel->mutex);
    clq_free(channel->items);
    clq_free(channel);
}

bool clq_channel_put(clq_channel *channel, const void *item) {
    pthread_mutex_lock(&channel->mutex);
    if (channel->put - channel->taken == channel->capacity)
        while (channel->put - channel->taken > channel->capacity / 2 && !channel->closed)
            pthread_cond_wait(&channel->room, &channel->mutex);
    bool open = !channel->closed;
    if (open) {
        memcpy(place(channel, channel->put++), item, channel->item_bytes);
        pthread_cond_signal(&channel->filled);
    }
    pthread_mutex_unlock(&channel->mutex);
    return open;
}

bool clq_channel_take(clq_channel *channel, void *item) {
    pthread_mutex_lock(&channel->mutex);
    while (channel->put == channel->taken && !channel->closed) pthread_cond_wait(&channel->filled, &channel->mutex);
    bool more = channel->put > channel->taken;
    if (more) {
        memcpy(item, place(channel, channel->taken++), channel->item_bytes);
        if (channel->put - channel->taken == channel->capacity / 2) pthread_cond_signal(&channel->room);
    }
    pthread_mutex_unlock(&channel->mutex);
    return more;
}

bool clq_channel_peek(clq_channel *channel, void *item) {
    pthread_mutex_lock(&channel->mutex);
    bool any = channel->put > channel->taken;
    if (any) memcpy(item, place(channel, channel->taken), channel->item_bytes);
    pthread_mutex_unlock(&channel->mutex);
    return any;
}

void clq_channel_done(clq_channel *channel) {
    pthread_mutex_lock(&channel->mutex);
    if (++channel->done == channel->put) pthread_cond_signal(&channel->idle);
    pthread_mutex_unlock(&channel->mutex);
}

void clq_channel_wait(clq_channel *channel) {
    pthread_mutex_lock(&channel->mutex);
    while (channel->done < channel->put) pthread_cond_wait(&channel->idle, &channel->mutex);
    pthread_mutex_unlock(&channel->mutex);
}

void clq_channel_close(clq_channel *channel) {
    pthread_mutex_lock(&channel->mutex);
    channel->closed = true;
    pthread_cond_signal(&channel->filled);
    pthread_cond_signal(&channel->room);
    pthread_mutex_unlock(&channel->mutex);
}
