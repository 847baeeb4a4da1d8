/* A test case of one collective: makes the buffers, runs the collective through a communicator or a public group, and
 * compares all bytes of all buffers with what they must be. */
#ifndef CLQ_TEST_COMM_CASES_H
#define CLQ_TEST_COMM_CASES_H

#include "support/comm_ranks.h"

typedef enum case_caller { CALL_COMM, CALL_BLOCKING, CALL_EVENTS, CASE_CALLERS } case_caller;
/* NEIGHBOURS: input and output are separate ranges of one memory object. */
typedef enum case_placement { IN_PLACE, APART, NEIGHBOURS, CASE_PLACEMENTS } case_placement;

typedef struct comm_case {
    clq_collective collective;
    clq_dtype dtype;
    clq_redop op;
    size_t count;
    unsigned root, to;
    case_placement placement;
    size_t shift; /* extra elements in front of the ranges, their number differs by rank; 0: none */
    case_caller caller;
    bool plain;  /* memory that clCreateBuffer makes, as a user's program would; false: the library's */
    bool random; /* the float sum depends on its order: only checks that all ranks have the same bits */
    uint64_t seed;
} comm_case;

/* Fails the test if a byte is wrong; the message names the case and `where`. group may be NULL for CALL_COMM. Returns a
 * hash of all outputs. */
uint64_t comm_case_run(ranks *all, clq_group *group, const comm_case *c, const char *where);
/* Makes a public group on the same contexts, devices and queues. */
clq_group *comm_case_group(const ranks *all, const clq_group_config *config);

/* Every algorithm with every transport that it supports. */
enum { COMM_SETTINGS = 15 };
extern const clq_group_config comm_settings[COMM_SETTINGS];

#endif
