/* choose: which devices and which strategy to train with, where the user leaves it open (decisions/057). Alternatives
 * are devices alone, measured by a short training each, and devices together, predicted from probes (why.h). choose.c
 * is arithmetic, choosing.c measures, chosen.c keeps what was chosen. One thread at a time. */
#ifndef CLQ_WHY_CHOOSE_H
#define CLQ_WHY_CHOOSE_H

#include "why/why.h"

/* ---- alternatives (choose.c) ---- */

/* What alternatives are made from. */
typedef struct clq_machine {
    const clq_device_info *const *devices; /* (count), by index; those that are not usable are left out */
    size_t count;
    const clq_devices *rule; /* what the rule takes: its GPUs are the distinct ones that hold none up */
    unsigned cores;          /* of the CPU, that the process may use */
    size_t batch;            /* the global one: no alternative has more replicas */
} clq_machine;

enum { CLQ_LONE_MAX = 32, CLQ_TOGETHER_MAX = CLQ_ALTERNATIVES_MAX - CLQ_LONE_MAX };

/* A device that trains alone, of each kind one: devices of one driver, name and size are of a kind. */
typedef struct clq_lone {
    clq_device_choice device;
    double images_per_s; /* 0: not known, or it cannot train this alone */
    bool too_large;      /* it lacks memory for the whole batch, and may have enough for a part of it */
} clq_lone;
/* The rule's first; returns how many. Only their devices are set. */
size_t clq_why_lone(const clq_machine *machine, clq_lone *out, size_t capacity);

/* Whether a SPEC, as clq_why_spec writes it, has a device of the kind. */
bool clq_why_has_kind(const clq_machine *machine, const clq_lone *kind, const char *spec);

/* Devices that train together. */
typedef struct clq_together {
    uint32_t count;
    bool all_only; /* fewer of them are another alternative, or none */
    clq_device_choice items[CLQ_REPLICAS_MAX];
    uint32_t lone[CLQ_REPLICAS_MAX]; /* of what kind each is; of a split CPU device: the kind of the whole */
} clq_together;
/* By what the lone ones do, which must train this or be too small for it: GPUs, the fastest first; these and a CPU
 * device; CPU devices that are alike, as many as there are cores for; the parts of a CPU device. Devices of several
 * drivers on one CPU are never together: they would compute on the same cores. Returns how many. */
size_t clq_why_together(const clq_machine *machine, const clq_lone *lone, size_t lone_count, clq_together *out,
                        size_t capacity);
/* Moves to the front the alternative that has these devices (a SPEC), or, unless it is all_only, that begins with them.
 * False: there is none. */
bool clq_why_put_first(clq_together *alternatives, size_t count, const char *devices);
/* No equal shares of a batch on the devices make more images per second, whatever they exchange: each step waits for
 * the slowest. rates: of each alone. */
double clq_why_bound(const double *rates, unsigned count, bool all_only);

/* ---- the choice ---- */

/* Whether a strategy may be chosen for several devices. */
bool clq_why_may_choose(const clq_choosing *choosing, const char *strategy);
/* With which strategy one device may be chosen; NULL: with none. */
const char *clq_why_strategy_alone(const clq_choosing *choosing);
/* The fastest; where others with fewer replicas are nearly as fast, which predictions cannot tell apart, the one with
 * the fewest. NULL: of none anything is known. */
const clq_alternative *clq_why_fastest(const clq_alternative *alternatives, size_t count);

#endif
