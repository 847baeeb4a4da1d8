/* Which looks of a measurement count. */
#include "why/looks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of the cores. quiet_most: what every machine does beside a program, and what counters are off by. alike: looks
 * that differ by less met the same load. */
static const double quiet_most = 0.1, alike = 0.1;

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

bool clq_doubt_is_grave(const clq_doubt *doubt) { return doubt->others > quiet_most; }

clq_doubt clq_doubt_worse(const clq_doubt *a, const clq_doubt *b) {
    const bool takes_b = isnan(a->others) || b->others > a->others;
    return (clq_doubt){.others = takes_b ? b->others : a->others, .spread = CLQ_MAX(a->spread, b->spread)};
}

static bool is_known(const clq_looks *l) {
    for (unsigned i = 0; i < l->count; i++)
        if (!isnan(l->others[i])) return true;
    return false;
}

static bool is_at_most(const clq_looks *l, unsigned look, double most) {
    return isnan(l->others[look]) ? !is_known(l) : l->others[look] <= most;
}

void clq_looks_begin(clq_looks *l) { l->begun = clq_cores_used_now(); }

void clq_looks_end(clq_looks *l, clq_patience *patience) {
    const clq_cores_used now = clq_cores_used_now();
    if (l->count >= l->first && patience) patience->left_s -= now.at_s - l->begun.at_s;
    if (l->count < CLQ_LOOKS_MAX) l->others[l->count++] = clq_others_between(&l->begun, &now);
}

static unsigned count_quiet(const clq_looks *l) {
    unsigned quiet = 0;
    for (unsigned i = 0; i < l->count; i++) quiet += is_at_most(l, i, quiet_most);
    return quiet;
}

bool clq_looks_wanted(const clq_looks *l, const clq_patience *patience) {
    if (l->count < l->first) return true;
    return l->count < CLQ_LOOKS_MAX && count_quiet(l) < l->least && patience && patience->left_s > 0;
}

/* The largest part of the cores that others used in a look that counts. */
static double most_of(const clq_looks *l) {
    double sorted[CLQ_LOOKS_MAX];
    unsigned known = 0;
    if (count_quiet(l) >= l->least) return quiet_most;
    for (unsigned i = 0; i < l->count; i++)
        if (!isnan(l->others[i])) sorted[known++] = l->others[i];
    if (known == 0) return 1.0;
    qsort(sorted, known, sizeof *sorted, by_value);
    return sorted[CLQ_MIN(l->least, known) - 1] + alike;
}

bool clq_looks_counts(const clq_looks *l, unsigned look) { return is_at_most(l, look, most_of(l)); }

double clq_looks_others(const clq_looks *l) {
    double sum = 0;
    unsigned known = 0;
    for (unsigned i = 0; i < l->count; i++) {
        if (isnan(l->others[i]) || !clq_looks_counts(l, i)) continue;
        sum += l->others[i];
        known++;
    }
    return known ? sum / known : (double)NAN;
}

unsigned clq_looks_pick(const clq_looks *l, double *values) {
    unsigned picked = 0;
    for (unsigned i = 0; i < l->count; i++)
        if (clq_looks_counts(l, i)) values[picked++] = values[i];
    return picked;
}

double clq_middle_mean(double *values, size_t count) {
    const size_t left_out = count / 4;
    double sum = 0;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = left_out; i < count - left_out; i++) sum += values[i];
    return sum / (double)(count - 2 * left_out);
}

double clq_middle_spread(const double *values, size_t count) {
    const size_t left_out = count / 4;
    const double low = values[left_out], high = values[count - 1 - left_out];
    return high + low > 0 ? 2 * (high - low) / (high + low) : 0.0;
}

double clq_mean_of_slowest(const double *const *times, unsigned members, size_t rounds) {
    double sum = 0;
    for (size_t i = 0; i < rounds; i++) {
        double slowest = 0;
        for (unsigned r = 0; r < members; r++) slowest = CLQ_MAX(slowest, times[r][i]);
        sum += slowest;
    }
    return rounds ? sum / (double)rounds : 0.0;
}

void clq_doubt_add(clq_doubt *doubt, const clq_looks *looks, double spread) {
    *doubt = clq_doubt_worse(doubt, &(clq_doubt){.others = clq_looks_others(looks), .spread = spread});
}
