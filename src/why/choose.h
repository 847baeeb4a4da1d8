/* choose: finds which devices and which strategy to train with, if the user leaves them open (decisions/057). An
 * alternative is a device alone, measured by a short training, or devices together, predicted from probes (why.h).
 * choose.c is arithmetic, choosing.c measures, chosen.c keeps what was chosen. One thread at a time. */
#ifndef CLQ_WHY_CHOOSE_H
#define CLQ_WHY_CHOOSE_H

#include "why/why.h"

/* ---- alternatives (choose.c) ---- */

/* What alternatives are made from. */
typedef struct clq_machine {
    const clq_device_info *const *devices; /* (count) by index; alternatives leave out those that are not usable */
    size_t count;
    const clq_devices *rule; /* what the rule takes: its GPUs are distinct, and none of them holds the others up */
    unsigned cores;          /* CPU cores that the process may use */
    size_t batch;            /* the global batch: no alternative has more replicas than samples */
} clq_machine;

enum { CLQ_LONE_MAX = 32, CLQ_TOGETHER_MAX = CLQ_ALTERNATIVES_MAX - CLQ_LONE_MAX };

/* A device that trains alone; one stands for each kind. Devices of the same driver, name and size are of a kind. */
typedef struct clq_lone {
    clq_device_choice device;
    double images_per_s; /* 0: not known, or it cannot train this alone */
    bool too_large;      /* it lacks memory for the whole batch, but may have enough for a part of it */
} clq_lone;
/* Lists one device of each kind, the rule's first, and sets only their `device`. Returns how many. */
size_t clq_why_lone(const clq_machine *machine, clq_lone *out, size_t capacity);

/* Whether a SPEC, as clq_why_spec writes it, has a device of the kind. */
bool clq_why_has_kind(const clq_machine *machine, const clq_lone *kind, const char *spec);

/* Devices that train together. */
typedef struct clq_together {
    uint32_t count;
    bool all_only; /* using fewer of them is another alternative, or none */
    clq_device_choice items[CLQ_REPLICAS_MAX];
    uint32_t lone[CLQ_REPLICAS_MAX]; /* [i]: the index of the lone device of items[i]'s kind; parts of a CPU device are
                                        of the kind of the whole */
} clq_together;
/* Lists the alternatives of several devices, by the rates of the lone ones. Only devices whose kind can train this, or
 * lacks memory for the whole batch, are in them: GPUs, the fastest first; these and a CPU device; CPU devices that are
 * alike, as many as there are cores for; the parts of a CPU device. Devices of several drivers on one CPU are never
 * together, because they would compute on the same cores. Returns how many. */
size_t clq_why_together(const clq_machine *machine, const clq_lone *lone, size_t lone_count, clq_together *out,
                        size_t capacity);
/* Moves the alternative with these devices (a SPEC) to the front. An alternative that is not all_only also matches if
 * it begins with these devices. False: there is none. */
bool clq_why_put_first(clq_together *alternatives, size_t count, const char *devices);
/* An upper bound on the images per second of equal shares of a batch on the devices, whatever they exchange: each step
 * waits for the slowest device. rates: (count) of each device alone. */
double clq_why_bound(const double *rates, unsigned count, bool all_only);

/* ---- the choice ---- */

/* Whether a strategy may be chosen for several devices. */
bool clq_why_may_choose(const clq_choosing *choosing, const char *strategy);
/* The strategy with which one device may be chosen; NULL: none. */
const char *clq_why_strategy_alone(const clq_choosing *choosing);
/* The fastest alternative. If others with fewer replicas are nearly as fast, the one with the fewest replicas:
 * predictions cannot tell them apart. NULL: nothing is known of any of them. */
const clq_alternative *clq_why_fastest(const clq_alternative *alternatives, size_t count);

#endif
