/* An engine whose ranks are threads of one process. Messages take the time of a network: each rank sends at a rate, one
 * byte after the other, and what it sends arrives after a latency. Faults come when a test wants them. It holds the
 * world to the engine's rules (world/engine.h): a violation fails the test. */
#ifndef CLQ_TEST_WORLD_FABRIC_H
#define CLQ_TEST_WORLD_FABRIC_H

#include "check.h"
#include "world/world.h"

enum { FABRIC_RANKS_MAX = 17 };

typedef struct fabric fabric;
/* What a rank's world is opened with, as its communicator. */
typedef struct fabric_port {
    fabric *network;
    unsigned rank;
} fabric_port;
extern const clq_engine fabric_engine;
extern bool fabric_takes_turns; /* of the engine; true unless a test sets it */

/* bytes_per_s 0: as fast as memory. */
fabric *fabric_open(unsigned size, double latency_s, double bytes_per_s);
void fabric_close(fabric *network); /* once no rank uses it; fails the test if one broke a rule */

/* Faults, from any thread. A rank that is killed: what it sent and did not arrive yet is lost, and so is all that is
 * sent to it or by it. */
void fabric_kill(fabric *network, unsigned rank);
/* Nothing arrives between two ranks any more. */
void fabric_cut(fabric *network, unsigned a, unsigned b);
/* Each call of a rank's engine lasts until then (clq_now). */
void fabric_hold(fabric *network, unsigned rank, double until);
/* The call that ends a rank's engine lasts until then. */
void fabric_hold_close(fabric *network, unsigned rank, double until);
bool fabric_is_open(fabric *network, unsigned rank); /* the rank has not left */
/* The nth call from now on of a rank's engine (1: the next) fails, and all that follow. */
void fabric_fail_at(fabric *network, unsigned rank, unsigned nth);
/* A rank is gone, and the network knows: who waits for a message of it has an error. */
void fabric_vanish(fabric *network, unsigned rank);

/* ---- ranks as threads ---- */

typedef struct fabric_rank fabric_rank;
struct fabric_rank {
    unsigned rank;
    fabric_port port;
    const clq_world_config *config;
    void (*body)(fabric_rank *self);
    void *context;
    clq_world *world;            /* open while `body` runs */
    clq_status opened, ended;    /* of opening; what `body` leaves */
    char detail[CLQ_DETAIL_MAX]; /* of what `body` leaves */
    clq_thread *thread;
};
/* Notes how the rank's work ended, with the detail. */
void fabric_note(fabric_rank *self, clq_status status);
/* Opens a world on each rank, runs `body` with it, closes it: all at the same time. A rank that cannot open vanishes.
 * In parts: `begin` makes the ranks' threads, `go` lets them run, `end` does so, too, and waits for them. */
void fabric_begin(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                  void *context, fabric_rank *ranks);
void fabric_go(fabric *network);
void fabric_end(fabric *network, fabric_rank *ranks);
void fabric_run(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                void *context, fabric_rank *ranks);

#endif
