/* A launch list as one kernel, for CPU devices of the TILE family: handing a launch to a driver's threads costs as much
 * as a small launch takes (40 us to wake PoCL's on a virtual machine), and none may begin before the last thread is
 * done with the one before. In a sequence the device's threads are called once; they take items of all launches in
 * order, and wait for what those depend on and for nothing else. Results are bit for bit those of the launches one by
 * one: the same functions make the same items. */
#ifndef CLQ_OPS_SEQUENCE_H
#define CLQ_OPS_SEQUENCE_H

#include "ops/list.h"

typedef struct clq_sequence clq_sequence;

/* Of a list whose values are placed. *out stays NULL where it cannot be one: launches of other kinds are in it (calls,
 * work-groups of more than one item), or fewer than two. */
clq_status clq_sequence_create(clq_list *list, clq_sequence **out);
void clq_sequence_destroy(clq_sequence *sequence); /* takes NULL */
/* Another buffer in the place of one that values are placed in. */
clq_status clq_sequence_replace(clq_sequence *sequence, const clq_buffer *before, clq_buffer *buffer);
/* Launches first .. end - 1, by the list's parameters. */
clq_status clq_sequence_run(clq_sequence *sequence, clq_queue *queue, size_t first, size_t end);

#endif
