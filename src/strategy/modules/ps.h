/* The parameter server (ps.c). Private to it, and to its tests. */
#ifndef CLQ_STRATEGY_PS_H
#define CLQ_STRATEGY_PS_H

#include "strategy/exchange/bound.h"
#include "strategy/modules/central.h"

/* A replica of an asynchronous parameter server. */
typedef struct clq_free_client {
    unsigned outstanding; /* batches that the replica was given and has not finished */
    double seconds;       /* the time of its last batch, up to the push; 0: it has finished none */
} clq_free_client;

typedef struct clq_ps {
    clq_rounds rounds; /* the first member: clq_rounds_of */
    bool asynchronous;
    unsigned last_given; /* the replica that got the last batch; only the poster uses it */
    /* Under the storage's lock, if asynchronous. */
    clq_free_client clients[CLQ_REPLICAS_MAX];
    clq_under_way under_way[CLQ_REPLICAS_MAX]; /* by replica; unused with store ranks: the first one keeps them */
    clq_bound bound;                           /* over `under_way` */
    /* With store ranks; only the poster uses these. mine: the step that this process was given last. issued: the first
     * step that is not handed out yet, as the first store rank said last. elsewhere: the seconds of a batch on the
     * fastest replica of all processes; 0: not known. */
    uint64_t mine, issued;
    double elsewhere;
    bool updating;     /* an update is under way */
    uint64_t finished; /* all steps up to this one (params.step) were applied */
    struct {
        uint64_t step; /* 0: none */
        double ended;  /* when it was applied; once `finished` is not below it: when all steps up to it were */
    } * times;         /* (CLQ_STEP_TIMES) by step, round and round; NULL: synchronous */
} clq_ps;

static inline clq_ps *clq_ps_of(const clq_replica *replica) { return replica->strategy->own; }

#endif
