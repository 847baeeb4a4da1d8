/* Looks: a measurement is made several times. Each look notes how much of the cores other programs used meanwhile
 * (base's clq_others_between). If enough looks were quiet, only these count. Otherwise more looks are made while there
 * is time; if still too few are quiet, the result keeps its doubt. All of this is arithmetic, except for the clock.
 * Private to why. */
#ifndef CLQ_WHY_LOOKS_H
#define CLQ_WHY_LOOKS_H

#include "why/why.h"

enum { CLQ_LOOKS_MAX = 64 };

/* Start with {.first = …, .least = …}. */
typedef struct clq_looks {
    unsigned first, least;        /* first: are always made; least: quiet ones that are enough, 1 to `first` */
    unsigned count;               /* that were made */
    double others[CLQ_LOOKS_MAX]; /* NaN: not known; if it is not known of any look, all looks count as quiet */
    clq_cores_used begun;
} clq_looks;

/* Whether to make another look: fewer than `first` were made, or too few were quiet and some patience is left. */
bool clq_looks_wanted(const clq_looks *looks, const clq_patience *patience);
void clq_looks_begin(clq_looks *looks);
/* Adds the look, and takes its time from the patience unless it is one of the first looks. patience NULL: there is
 * none. */
void clq_looks_end(clq_looks *looks, clq_patience *patience);
/* Whether a look counts. If there are enough quiet looks, only these count. Otherwise the `least` quietest looks count,
 * and those that are nearly as quiet. */
bool clq_looks_counts(const clq_looks *looks, unsigned look);
/* The part of the cores that other programs used during the looks that count. NaN: not known. */
double clq_looks_others(const clq_looks *looks);
/* Moves the values of the looks that count to the front. Returns how many these are. */
unsigned clq_looks_pick(const clq_looks *looks, double *values);

/* The mean of the middle half of the values of looks that count (count: at least 1). It includes what changes a
 * machine's speed for some time, but not a moment's mishap. Sorts the values. */
double clq_middle_mean(double *values, size_t count);
/* The range of the middle half, over the middle of that range. The values are sorted. */
double clq_middle_spread(const double *values, size_t count);

/* The mean over rounds of the longest time in a round, by times[member][round]. Members that meet in each round wait
 * for the longest. */
double clq_mean_of_slowest(const double *const *times, unsigned members, size_t rounds);

/* Makes *doubt the worse of what it was and of these looks. */
void clq_doubt_add(clq_doubt *doubt, const clq_looks *looks, double spread);

#endif
