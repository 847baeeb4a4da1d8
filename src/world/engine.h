/* An engine is a table of functions that move bytes between the processes of a run. A library for each MPI exports one
 * table; tests have their own. The thread that opens an engine also closes or abandons it. One thread at a time calls
 * the engine: the one that opened it, or other threads in turns with it if the engine allows that.
 * open, close and all_reduce wait for other ranks; no other function does. An engine includes no other header of
 * Clique, and links nothing of it. A process loads at most one engine, once it knows which.
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
    /* The longest message that MPI sends over a network without asking the receiver (eager protocol). A longer one
     * waits for the receiver's answer (rendezvous), and that answer waits behind all messages under way in its
     * direction: at 1 Gbit/s, busy both ways, that cost up to half of the rate. */
    size_t message_bytes;
    /* Joins the run; returns when every rank has called it, if the engine can tell. communicator: address of the
     * program's own MPI_Comm, whose ranks are the run; NULL: all processes that the launcher started. */
    int (*open)(const void *communicator, void **link, unsigned *rank, unsigned *size);
    /* Whether threads other than the one that opened the engine may send, receive and test, one at a time. */
    int (*takes_turns)(void *link);
    /* Leaves the run. Every rank calls it, with no message under way. */
    int (*close)(void *link);
    /* Gives up a run that has failed. Waits for other ranks for a moment at most. As far as the engine can prevent it,
     * nothing writes to the memory of messages under way any more. No function of the engine is called afterwards. */
    void (*abandon)(void *link);
    /* Begin a message. Between two ranks, messages with one tag arrive in the order in which they were begun: the first
     * send goes to the first receive, and so on. Both name the same `bytes`, at most 2^30. tag: at most 32767. The
     * memory belongs to the message until `test` says that the message is done. Several messages may be under way. */
    int (*send)(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **request);
    int (*receive)(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **request);
    /* Moves all messages forward. *done = 1: this message is done, and *request is NULL. */
    int (*test)(void *link, void **request, int *done);
    void (*tell)(void *link, int error, char *text, size_t bytes);
    /* The engine's own sum of floats over all ranks, for comparisons; it waits for the other ranks. NULL: the engine
     * has none. */
    int (*all_reduce)(void *link, const float *in, float *out, size_t count);
} clq_engine;

#endif
