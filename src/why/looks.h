/* Looks: a measurement is made several times, and each time it is noted how much of the cores other programs used
 * meanwhile (base's clq_others_between). Looks while others were quiet count alone where there are enough; else more
 * are made, for as long as there is time, and what was measured keeps its doubt. Arithmetic, but for the clock. Private
 * to why. */
#ifndef CLQ_WHY_LOOKS_H
#define CLQ_WHY_LOOKS_H

#include "why/why.h"

enum { CLQ_LOOKS_MAX = 64 };

/* Start with {.first = …, .least = …}. */
typedef struct clq_looks {
    unsigned first, least;        /* so many are made anyhow; so many quiet ones are enough, 1 to `first` */
    unsigned count;               /* that were made */
    double others[CLQ_LOOKS_MAX]; /* NaN: not known; where it is of no look, all count as quiet */
    clq_cores_used begun;
} clq_looks;

/* Whether another look is to be made: not all of the first yet, or too few quiet ones while patience lasts. */
bool clq_looks_wanted(const clq_looks *looks, const clq_patience *patience);
void clq_looks_begin(clq_looks *looks);
/* Adds one. What it took beyond the first ones is taken from the patience; NULL: there is none. */
void clq_looks_end(clq_looks *looks, clq_patience *patience);
/* Whether a look counts: with the quiet ones, if there are enough, else with those that are nearly as quiet as the
 * `least` quietest. */
bool clq_looks_counts(const clq_looks *looks, unsigned look);
/* What others used during the looks that count. */
double clq_looks_others(const clq_looks *looks);
/* Moves the values of the looks that count to the front; how many there are. */
unsigned clq_looks_pick(const clq_looks *looks, double *values);

/* Of values of looks that count (count at least 1): the mean of the middle half. What moves a machine for some time is
 * in it; a moment's mishap is not. Sorts them. */
double clq_middle_mean(double *values, size_t count);
/* How far apart the middle half lies, over that mean. Of sorted values. */
double clq_middle_spread(const double *values, size_t count);

/* Of times by member and round: the mean over rounds of the longest. Who meets in each round waits for that one. */
double clq_mean_of_slowest(const double *const *times, unsigned members, size_t rounds);

/* Makes it the worse of what it was and of these looks. */
void clq_doubt_add(clq_doubt *doubt, const clq_looks *looks, double spread);

#endif
