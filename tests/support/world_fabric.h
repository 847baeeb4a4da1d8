/* An engine whose ranks are threads of one process. Messages take the time of a network: each rank sends its bytes one
 * after the other at a given rate, and a message arrives a latency after the rank has sent it. Tests can order faults.
 * The engine checks that the world keeps the engine's rules (world/engine.h); a violation fails the test. */
#ifndef CLQ_TEST_WORLD_FABRIC_H
#define CLQ_TEST_WORLD_FABRIC_H

#include "check.h"
#include "world/world.h"

enum { FABRIC_RANKS_MAX = 17 };

typedef struct fabric fabric;
/* The communicator that a rank opens its world with. */
typedef struct fabric_port {
    fabric *network;
    unsigned rank;
} fabric_port;
extern const clq_engine fabric_engine;
extern bool fabric_takes_turns; /* the engine's answer; true unless a test sets it */

/* bytes_per_s 0: as fast as memory. */
fabric *fabric_open(unsigned size, double latency_s, double bytes_per_s);
void fabric_close(fabric *network); /* call it once no rank uses the network; fails the test if one broke a rule */

/* Faults; any thread may order them. A killed rank loses the messages that it sent and that did not arrive yet, and all
 * that is sent to it or by it later. */
void fabric_kill(fabric *network, unsigned rank);
/* Nothing arrives between ranks a and b any more. */
void fabric_cut(fabric *network, unsigned a, unsigned b);
/* Each call of the rank's engine lasts until that time (clq_now). */
void fabric_hold(fabric *network, unsigned rank, double until);
/* The call that closes the rank's engine lasts until that time. */
void fabric_hold_close(fabric *network, unsigned rank, double until);
bool fabric_is_open(fabric *network, unsigned rank); /* the rank has opened its world and not left */
/* The nth call of the rank's engine from now on fails (1: the next), and so do all that follow. */
void fabric_fail_at(fabric *network, unsigned rank, unsigned nth);
/* The rank is gone, and the network knows: a rank that waits for a message from it gets an error. */
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
    clq_status opened, ended;    /* opened: of opening the world. ended: what `body` notes */
    char detail[CLQ_DETAIL_MAX]; /* the error detail of `ended` */
    clq_thread *thread;
};
/* Notes how the rank's work ended, with the detail. */
void fabric_note(fabric_rank *self, clq_status status);
/* fabric_run opens a world on each rank, runs `body` with it and closes it, on all ranks at the same time. A rank that
 * cannot open its world vanishes. The same in parts: `begin` makes the ranks' threads, `go` lets them run, and `end`
 * lets them run, too, and waits for them. */
void fabric_begin(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                  void *context, fabric_rank *ranks);
void fabric_go(fabric *network);
void fabric_end(fabric *network, fabric_rank *ranks);
void fabric_run(fabric *network, unsigned size, const clq_world_config *config, void (*body)(fabric_rank *),
                void *context, fabric_rank *ranks);

#endif
