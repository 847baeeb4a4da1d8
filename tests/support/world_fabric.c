#include "world_fabric.h"

#include "stop.h"

#include <stdlib.h>

typedef struct request {
    struct request *next; /* the list of all that are not done */
    bool is_send, is_lost;
    unsigned from, to, tag;
    uint64_t place; /* number among the messages from `from` to `to` with this tag */
    size_t bytes;
    char *data;                 /* receive: where the message goes. send: a copy, or NULL once it arrived */
    double done_at, arrives_at; /* send */
} request;

/* How many messages of a tag each side has begun. */
typedef struct stream {
    unsigned from, to, tag;
    uint64_t sent, received;
} stream;

enum { STREAMS_MAX = 4096 };
typedef enum fault { OK, WRONG_SIZE, GONE, ASKED_FOR } fault;

struct fabric {
    pthread_mutex_t lock;
    unsigned size;
    double latency_s, bytes_per_s;
    request *requests;
    stream streams[STREAMS_MAX];
    size_t stream_count;
    double free_at[FABRIC_RANKS_MAX], hold_until[FABRIC_RANKS_MAX], hold_close_until[FABRIC_RANKS_MAX];
    atomic_bool runs;
    bool dead[FABRIC_RANKS_MAX], gone[FABRIC_RANKS_MAX], is_open[FABRIC_RANKS_MAX],
        cut[FABRIC_RANKS_MAX][FABRIC_RANKS_MAX];
    atomic_bool is_called[FABRIC_RANKS_MAX]; /* a thread of the rank is in a call */
    unsigned calls[FABRIC_RANKS_MAX], fails_at[FABRIC_RANKS_MAX];
    const char *broken; /* the rule that a rank broke */
};

fabric *fabric_open(unsigned size, double latency_s, double bytes_per_s) {
    fabric *network = clq_alloc(1, sizeof *network);
    assert_non_null(network);
    assert_true(size <= FABRIC_RANKS_MAX);
    assert_int_equal(pthread_mutex_init(&network->lock, NULL), 0);
    network->size = size;
    network->latency_s = latency_s;
    network->bytes_per_s = bytes_per_s;
    return network;
}

void fabric_close(fabric *network) {
    const char *broken = network->broken;
    while (network->requests) {
        request *first = network->requests;
        network->requests = first->next;
        if (first->is_send) free(first->data);
        free(first);
    }
    pthread_mutex_destroy(&network->lock);
    clq_free(network);
    if (broken) fail_msg("%s", broken);
}

/* ---- calls of an engine ---- */

/* Begins a call of the rank's engine. Returns with the lock held. */
static fault enter(fabric_port *port) {
    fabric *network = port->network;
    const bool is_called = atomic_exchange(&network->is_called[port->rank], true);
    pthread_mutex_lock(&network->lock);
    const double until = network->hold_until[port->rank];
    pthread_mutex_unlock(&network->lock);
    while (clq_now() < until) nap(1e-3);
    pthread_mutex_lock(&network->lock);
    if (is_called) network->broken = "two threads call an engine at once";
    network->calls[port->rank]++;
    const unsigned at = network->fails_at[port->rank];
    return at != 0 && network->calls[port->rank] >= at ? ASKED_FOR : OK;
}

static int leave(fabric_port *port, fault code) {
    atomic_store(&port->network->is_called[port->rank], false);
    pthread_mutex_unlock(&port->network->lock);
    return (int)code;
}

static stream *find_stream(fabric *network, unsigned from, unsigned to, unsigned tag) {
    for (size_t i = 0; i < network->stream_count; i++) {
        stream *at = &network->streams[i];
        if (at->from == from && at->to == to && at->tag == tag) return at;
    }
    if (network->stream_count == STREAMS_MAX) abort();
    stream *new = &network->streams[network->stream_count++];
    *new = (stream){from, to, tag, 0, 0};
    return new;
}

static bool is_reached(const fabric *network, unsigned from, unsigned to) {
    return !network->dead[from] && !network->dead[to] && !network->cut[from][to];
}

static request *add_request(fabric *network, request made) {
    request *new = malloc(sizeof *new);
    if (!new) abort();
    *new = made;
    new->next = network->requests;
    network->requests = new;
    return new;
}

static void drop_request(fabric *network, request *old) {
    request **at = &network->requests;
    while (*at != old) at = &(*at)->next;
    *at = old->next;
    free(old);
}

static int open_port(const void *communicator, void **link, unsigned *rank, unsigned *size) {
    fabric_port *port = (fabric_port *)(uintptr_t)communicator;
    const fault code = enter(port);
    if (code == OK) {
        port->network->is_open[port->rank] = true;
        *rank = port->rank;
        *size = port->network->size;
    }
    *link = port;
    return leave(port, code);
}

bool fabric_takes_turns = true;

static int takes_turns(void *link) {
    (void)link;
    return fabric_takes_turns;
}

/* A rank may leave before its messages have arrived. Only when their receiver leaves does a message that it did not
 * receive show that a rule was broken. */
static int close_port(void *link) {
    fabric_port *port = link;
    fabric *network = port->network;
    pthread_mutex_lock(&network->lock);
    const double until = network->hold_close_until[port->rank];
    pthread_mutex_unlock(&network->lock);
    while (clq_now() < until) nap(1e-2);
    const fault code = enter(port);
    for (const request *at = network->requests; at; at = at->next)
        if (at->to == port->rank && !at->is_lost && at->data)
            network->broken = at->is_send ? "a rank left without a message that was sent to it"
                                          : "a rank left while it was receiving";
    network->is_open[port->rank] = false;
    return leave(port, code);
}

static void abandon_port(void *link) {
    fabric_port *port = link;
    fabric *network = port->network;
    (void)enter(port);
    network->is_open[port->rank] = false;
    for (request *at = network->requests; at; at = at->next) /* nothing is written to the rank's memory any more */
        if (!at->is_send && at->to == port->rank) at->is_lost = true;
    leave(port, OK);
}

static int begin_send(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **out) {
    fabric_port *port = link;
    fabric *network = port->network;
    fault code = enter(port);
    if (!network->is_open[port->rank] || to >= network->size || tag >= 32768) network->broken = "a wrong send";
    if (code != OK) return leave(port, code);
    request made = {.is_send = true, .from = port->rank, .to = to, .tag = tag, .bytes = bytes};
    made.is_lost = !is_reached(network, port->rank, to);
    made.place = find_stream(network, port->rank, to, tag)->sent++;
    made.data = malloc(bytes + 1);
    if (!made.data) abort();
    memcpy(made.data, data, bytes);
    const double begin = CLQ_MAX(clq_now(), network->free_at[port->rank]);
    made.done_at = begin + (network->bytes_per_s > 0 ? (double)bytes / network->bytes_per_s : 0);
    made.arrives_at = made.done_at + network->latency_s;
    network->free_at[port->rank] = made.done_at;
    *out = add_request(network, made);
    return leave(port, code);
}

static int begin_receive(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **out) {
    fabric_port *port = link;
    fabric *network = port->network;
    fault code = enter(port);
    if (!network->is_open[port->rank] || from >= network->size || tag >= 32768) network->broken = "a wrong receive";
    if (code != OK) return leave(port, code);
    request made = {.from = from, .to = port->rank, .tag = tag, .bytes = bytes, .data = data};
    made.place = find_stream(network, from, port->rank, tag)->received++;
    *out = add_request(network, made);
    return leave(port, code);
}

/* The message for a receive, if it has arrived; NULL otherwise. */
static request *counterpart(fabric *network, const request *mine) {
    for (request *at = network->requests; at; at = at->next)
        if (at->is_send && at->data && at->from == mine->from && at->to == mine->to && at->tag == mine->tag &&
            at->place == mine->place)
            return at->is_lost || at->arrives_at > clq_now() ? NULL : at;
    return NULL;
}

static fault test_receive(fabric *network, request *mine, int *done) {
    request *sent = counterpart(network, mine);
    if (!sent || !is_reached(network, mine->from, mine->to)) return network->gone[mine->from] ? GONE : OK;
    if (sent->bytes != mine->bytes) {
        network->broken = "a message came for a receive of another size";
        return WRONG_SIZE;
    }
    memcpy(mine->data, sent->data, mine->bytes);
    free(sent->data);
    sent->data = NULL;
    if (sent->done_at < 0) drop_request(network, sent); /* its sender already knows that it is done */
    drop_request(network, mine);
    *done = 1;
    return OK;
}

/* A send is done once the message has left the rank. A lost message has left, too. */
static fault test_send(fabric *network, request *mine, int *done) {
    if (clq_now() < mine->done_at) return OK;
    mine->done_at = -1;
    if (!mine->data) drop_request(network, mine);
    *done = 1;
    return OK;
}

static int test_request(void *link, void **at, int *done) {
    fabric_port *port = link;
    request *mine = *at;
    fault code = enter(port);
    if (!port->network->is_open[port->rank]) port->network->broken = "a call behind the end";
    *done = 0;
    if (code == OK)
        code = mine->is_send ? test_send(port->network, mine, done) : test_receive(port->network, mine, done);
    if (*done) *at = NULL;
    return leave(port, code);
}

static void tell(void *link, int error, char *text, size_t bytes) {
    static const char *const texts[] = {"no error", "truncated", "the rank is gone", "as asked for"};
    (void)link;
    snprintf(text, bytes, "%s", texts[error]);
}

const clq_engine fabric_engine = {.version = CLQ_ENGINE_VERSION,
                                  .name = "threads",
                                  .message_bytes = 4096,
                                  .open = open_port,
                                  .takes_turns = takes_turns,
                                  .close = close_port,
                                  .abandon = abandon_port,
                                  .send = begin_send,
                                  .receive = begin_receive,
                                  .test = test_request,
                                  .tell = tell};

/* ---- faults ---- */

void fabric_kill(fabric *network, unsigned rank) {
    pthread_mutex_lock(&network->lock);
    network->dead[rank] = true;
    pthread_mutex_unlock(&network->lock);
}

void fabric_cut(fabric *network, unsigned a, unsigned b) {
    pthread_mutex_lock(&network->lock);
    network->cut[a][b] = network->cut[b][a] = true;
    pthread_mutex_unlock(&network->lock);
}

void fabric_hold(fabric *network, unsigned rank, double until) {
    pthread_mutex_lock(&network->lock);
    network->hold_until[rank] = until;
    pthread_mutex_unlock(&network->lock);
}

void fabric_hold_close(fabric *network, unsigned rank, double until) {
    pthread_mutex_lock(&network->lock);
    network->hold_close_until[rank] = until;
    pthread_mutex_unlock(&network->lock);
}

bool fabric_is_open(fabric *network, unsigned rank) {
    pthread_mutex_lock(&network->lock);
    const bool is_open = network->is_open[rank];
    pthread_mutex_unlock(&network->lock);
    return is_open;
}

void fabric_vanish(fabric *network, unsigned rank) {
    pthread_mutex_lock(&network->lock);
    network->gone[rank] = true;
    pthread_mutex_unlock(&network->lock);
}

void fabric_fail_at(fabric *network, unsigned rank, unsigned nth) {
    pthread_mutex_lock(&network->lock);
    network->fails_at[rank] = network->calls[rank] + nth;
    pthread_mutex_unlock(&network->lock);
}

/* ---- ranks as threads ---- */

void fabric_note(fabric_rank *self, clq_status status) {
    self->ended = status;
    snprintf(self->detail, sizeof self->detail, "%s", status == CLQ_OK ? "" : clq_error_detail());
}

static void run_rank(void *context) {
    fabric_rank *self = context;
    while (!atomic_load(&self->port.network->runs)) nap(1e-4);
    self->opened = clq_world_open_with(&fabric_engine, &self->port, self->config, &self->world);
    if (self->opened != CLQ_OK) {
        fabric_note(self, self->opened);
        fabric_vanish(self->port.network, self->rank);
        return;
    }
    self->body(self);
    clq_world_close(self->world);
}

void fabric_begin(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                  void *context, fabric_rank *ranks) {
    assert_int_equal(size, network->size);
    for (unsigned r = 0; r < size; r++) {
        ranks[r] = (fabric_rank){.rank = r, .port = {network, r}, .config = config, .body = body, .context = context};
        assert_ok(clq_thread_start("rank", run_rank, &ranks[r], &ranks[r].thread));
    }
}

void fabric_go(fabric *network) { atomic_store(&network->runs, true); }

void fabric_end(fabric *network, fabric_rank *ranks) {
    fabric_go(network);
    for (unsigned r = 0; r < network->size; r++) clq_thread_join(ranks[r].thread);
}

void fabric_run(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                void *context, fabric_rank *ranks) {
    fabric_begin(network, size, config, body, context, ranks);
    fabric_end(network, ranks);
}
