/* The parameter server (ps.c). Private to it, and to its tests. */
#ifndef CLQ_STRATEGY_PS_H
#define CLQ_STRATEGY_PS_H

#include "strategy/exchange/bound.h"
#include "strategy/modules/central.h"

/* A replica of an asynchronous one. */
typedef struct clq_free_client {
    unsigned outstanding; /* batches that it was given and has not finished */
    double seconds;       /* that its last batch took */
} clq_free_client;

typedef struct clq_ps {
    clq_rounds rounds; /* first: clq_rounds_of */
    bool asynchronous;
    unsigned last_given; /* who got the last batch; the poster's */
    /* Under the server's lock, of an asynchronous one. */
    clq_free_client clients[CLQ_REPLICAS_MAX];
    clq_under_way under_way[CLQ_REPLICAS_MAX]; /* gradients; with store ranks the first of these knows */
    clq_bound bound;                           /* over them */
    /* With store ranks, the poster's: the step that this process has, or had last; the first that nobody has, as it was
     * told last; how long a batch takes on the fastest replica of all. */
    uint64_t mine, issued;
    double elsewhere;
    bool updating;     /* an update is under way */
    uint64_t finished; /* all steps up to this one (params.step) were applied */
    struct {
        uint64_t step; /* 0: none */
        double ended;  /* when it was applied; once `finished` has passed it: when all steps up to it were */
    } * times;         /* (CLQ_STEP_TIMES) by step; NULL: synchronous */
} clq_ps;

static inline clq_ps *clq_ps_of(const clq_replica *replica) { return replica->strategy->own; }

#endif
