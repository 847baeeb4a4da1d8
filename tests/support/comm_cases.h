/* One collective as a case: buffers made, run by a communicator or by a public group, and all bytes of all buffers held
 * against what they must be. */
#ifndef CLQ_TEST_COMM_CASES_H
#define CLQ_TEST_COMM_CASES_H

#include "support/comm_ranks.h"

typedef enum case_caller { CALL_COMM, CALL_BLOCKING, CALL_EVENTS, CASE_CALLERS } case_caller;
/* NEIGHBOURS: input and output lie apart in one memory object. */
typedef enum case_placement { IN_PLACE, APART, NEIGHBOURS, CASE_PLACEMENTS } case_placement;

typedef struct comm_case {
    clq_collective collective;
    clq_dtype dtype;
    clq_redop op;
    size_t count;
    unsigned root, to;
    case_placement placement;
    size_t shift; /* elements before the ranges, another number on each rank */
    case_caller caller;
    bool plain;  /* memory as a program makes it, rather than the library's */
    bool random; /* floats whose sum depends on its order: only that all ranks have the same bits is checked */
    uint64_t seed;
} comm_case;

/* Fails the test where a byte is wrong, naming the case and `where`. group may be NULL for CALL_COMM. Returns a hash of
 * all outputs. */
uint64_t comm_case_run(ranks *all, clq_group *group, const comm_case *c, const char *where);
/* A public group on the same contexts, devices and queues. */
clq_group *comm_case_group(const ranks *all, const clq_group_config *config);

/* Every algorithm over every transport that it can take. */
enum { COMM_SETTINGS = 15 };
extern const clq_group_config comm_settings[COMM_SETTINGS];

#endif
