/* An engine is a table of functions that move bytes between the processes of a run. A library for each MPI exports such
 * a table; tests have one of their own. The thread that opens an engine also closes or abandons it. One thread calls at
 * a time: that one, or others in turns with it if the engine lets them.
 * open, close and all_reduce wait for other ranks; no other function does. Engines include this header and nothing else
 * of Clique, and link nothing of it: a process loads at most one, once it is known which.
 *
 * Errors are numbers other than 0, which `tell` puts into words. */
#ifndef CLQ_WORLD_ENGINE_H
#define CLQ_WORLD_ENGINE_H

#include <stddef.h>

/* The engine's table, as a library exports it. */
#define CLQ_ENGINE_SYMBOL "clq_engine_table"
enum { CLQ_ENGINE_VERSION = 2 }; /* changes with anything below */

typedef struct clq_engine {
    unsigned version; /* CLQ_ENGINE_VERSION */
    const char *name; /* "Open MPI" */
    /* The longest message that goes over a network at once (MPI's eager protocol). A longer one waits for the
     * receiver's answer (rendezvous), behind all that is under way in that direction: with 1 Gbit/s busy both ways that
     * cost up to half of the rate. */
    size_t message_bytes;
    /* Joins the run; returns when every rank has called it, if the engine can tell. communicator: address of the
     * program's own MPI_Comm, whose ranks are the run; NULL: all that the launcher started. */
    int (*open)(const void *communicator, void **link, unsigned *rank, unsigned *size);
    /* Whether threads other than the one that opened it may send, receive and test, one at a time. */
    int (*takes_turns)(void *link);
    /* Leaves the run. Every rank calls it, with no message under way. */
    int (*close)(void *link);
    /* Gives up, for a run that has failed: waits for nobody for longer than a moment. Nothing is written to the memory
     * of messages under way any more, as far as the engine can help it; nothing of it is called again. */
    void (*abandon)(void *link);
    /* Begins a message. Between two ranks, messages of one tag arrive in the order in which they were begun, each into
     * the receive that was begun as its counterpart, whose `bytes` (at most 2^30) are the same. tag: at most 32767. The
     * memory belongs to the message until `test` says that it is done. Several may be under way. */
    int (*send)(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **request);
    int (*receive)(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **request);
    /* Moves all messages forward. *done = 1: this one is done, and *request is NULL. */
    int (*test)(void *link, void **request, int *done);
    void (*tell)(void *link, int error, char *text, size_t bytes);
    /* The engine's own sum of floats over all ranks, to compare with: it waits for the others. NULL: it has none. */
    int (*all_reduce)(void *link, const float *in, float *out, size_t count);
} clq_engine;

#endif
