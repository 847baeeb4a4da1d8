/* An engine moves bytes between the processes of a run: a table of functions that one library per MPI exports, and that
 * tests have one of their own for. Only one thread of a process calls an engine, from open to close or abandon, and no
 * function waits for another rank but open and close. Engines include this header and nothing else of Clique, and link
 * nothing of it: a process loads at most one, when it is known which MPI it was launched by.
 *
 * Errors are numbers other than 0, which `tell` puts into words. */
#ifndef CLQ_WORLD_ENGINE_H
#define CLQ_WORLD_ENGINE_H

#include <stddef.h>

/* The engine's table, as a library exports it. */
#define CLQ_ENGINE_SYMBOL "clq_engine_table"
enum { CLQ_ENGINE_VERSION = 1 }; /* changes with anything below */

typedef struct clq_engine {
    unsigned version; /* CLQ_ENGINE_VERSION */
    const char *name; /* "Open MPI" */
    /* Over a network, messages of up to so many bytes leave at once. Longer ones ask the receiver first, and the answer
     * waits behind all that is under way in its direction: over 1 Gbit/s, both ways busy, that took half of the time.
     */
    size_t message_bytes;
    /* Joins the run; returns when every rank has called it, if the engine can tell. communicator: address of the
     * program's own MPI_Comm, whose ranks are the run; NULL: all that the launcher started. */
    int (*open)(const void *communicator, void **link, unsigned *rank, unsigned *size);
    /* Leaves the run. Every rank calls it, with no message under way. */
    int (*close)(void *link);
    /* Gives up, for a run that has failed: waits for nobody. Messages under way are never finished; nothing of the
     * engine is called any more. */
    void (*abandon)(void *link);
    /* Begins a message. Between two ranks, messages of one tag arrive in the order in which they were begun, each into
     * the receive that was begun as its counterpart, whose `bytes` (at most 2^30) are the same. tag: at most 32767. The
     * memory belongs to the message until `test` says that it is done. Several may be under way. */
    int (*send)(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **request);
    int (*receive)(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **request);
    /* Moves all messages forward. *done: this one is, and *request is gone. */
    int (*test)(void *link, void **request, int *done);
    void (*tell)(void *link, int error, char *text, size_t bytes);
    /* The engine's own sum of floats over all ranks, to compare with: it waits for the others. NULL: it has none. */
    int (*all_reduce)(void *link, const float *in, float *out, size_t count);
} clq_engine;

#endif
