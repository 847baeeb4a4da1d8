#include "ref/ref_recurrent.h"

#include "ref/ref_elementwise.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one unit in one step ---- */

static double activated(clq_activation activation, double x) {
    double y;
    ref_activation(activation, 1, 1, &x, &y);
    return y;
}
static double slope_at(clq_activation activation, double x) {
    const double one = 1;
    double dx;
    ref_activation_gradient(activation, 1, 1, &x, &one, &dx, NULL);
    return dx;
}

/* A unit in a step. sums: the gates before their activations, i f g o for LSTM and u s g for GRU. r: for GRU, the part
 * of g's sum that comes from the state. */
typedef struct unit {
    double sums[4], r;
    double h, c; /* before the step */
} unit;

static double step_of(const clq_recurrent_problem *p, const unit *of, double *c) {
    const double *a = of->sums;
    switch (p->cell) {
    case CLQ_CELL_SIMPLE: return activated(p->activation, a[0]);
    case CLQ_CELL_LSTM:
        *c = activated(p->gate_activation, a[1]) * of->c +
             activated(p->gate_activation, a[0]) * activated(p->activation, a[2]);
        return activated(p->gate_activation, a[3]) * activated(p->activation, *c);
    default: {
        const double u = activated(p->gate_activation, a[0]);
        return u * of->h + (1 - u) * activated(p->activation, a[2]);
    }
    }
}

/* Gradients of a unit: of z and r of each gate, of h directly, and of c. */
typedef struct unit_slopes {
    double z[4], r[4], h, c;
} unit_slopes;

static unit_slopes slopes_of(const clq_recurrent_problem *p, const unit *of, double dh, double dc) {
    unit_slopes s = {.c = dc};
    const double *a = of->sums;
    if (p->cell == CLQ_CELL_SIMPLE) {
        s.z[0] = dh * slope_at(p->activation, a[0]);
    } else if (p->cell == CLQ_CELL_LSTM) {
        const double i = activated(p->gate_activation, a[0]), f = activated(p->gate_activation, a[1]),
                     g = activated(p->activation, a[2]), o = activated(p->gate_activation, a[3]), c = f * of->c + i * g;
        const double all = dc + dh * o * slope_at(p->activation, c);
        s.z[0] = all * g * slope_at(p->gate_activation, a[0]);
        s.z[1] = all * of->c * slope_at(p->gate_activation, a[1]);
        s.z[2] = all * i * slope_at(p->activation, a[2]);
        s.z[3] = dh * activated(p->activation, c) * slope_at(p->gate_activation, a[3]);
        s.c = all * f;
    } else {
        const double u = activated(p->gate_activation, a[0]), g = activated(p->activation, a[2]);
        s.h = dh * u;
        s.z[0] = dh * (of->h - g) * slope_at(p->gate_activation, a[0]);
        s.z[2] = dh * (1 - u) * slope_at(p->activation, a[2]);
        s.z[1] = p->resets_first ? 0 : s.z[2] * of->r * slope_at(p->gate_activation, a[1]);
    }
    memcpy(s.r, s.z, sizeof s.r);
    if (p->cell == CLQ_CELL_GRU && !p->resets_first) s.r[2] = s.z[2] * activated(p->gate_activation, a[1]);
    return s;
}

/* ---- one sample ---- */

/* The step that is visited as number s. */
static size_t step_at(const clq_recurrent_problem *p, size_t s) { return p->backwards ? p->steps - 1 - s : s; }

static double *numbers(size_t count, const double *from) {
    double *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    if (from) memcpy(memory, from, count * sizeof *memory);
    return memory;
}

/* The bias of gate g and unit j. part: 0 for the bias of z, 1 for the bias of r. */
static double bias_of(const clq_recurrent_problem *p, const double *bias, size_t part, size_t g, size_t j) {
    return bias ? bias[(part * clq_cell_gates(p->cell) + g) * p->units + j] : 0;
}

/* kept (steps, n, units): all sums. For LSTM also c before the step. For GRU also h before the step, and r unless the
 * reset comes first. */
static void keep(const clq_recurrent_problem *p, const unit *of, double *kept, size_t j) {
    const size_t gates = clq_cell_gates(p->cell);
    for (size_t g = 0; g < gates; g++) kept[g * p->units + j] = of->sums[g];
    if (p->cell == CLQ_CELL_LSTM) kept[gates * p->units + j] = of->c;
    if (p->cell != CLQ_CELL_GRU) return;
    kept[gates * p->units + j] = of->h;
    if (!p->resets_first) kept[(gates + 1) * p->units + j] = of->r;
}
static unit kept_of(const clq_recurrent_problem *p, const double *kept, size_t j) {
    const size_t gates = clq_cell_gates(p->cell);
    unit of = {.h = 0};
    for (size_t g = 0; g < gates; g++) of.sums[g] = kept[g * p->units + j];
    if (p->cell == CLQ_CELL_LSTM) of.c = kept[gates * p->units + j];
    if (p->cell != CLQ_CELL_GRU) return of;
    of.h = kept[gates * p->units + j];
    if (!p->resets_first) of.r = kept[(gates + 1) * p->units + j];
    return of;
}

/* Unit j's product of the state with gate g's weights. taken (copies, units): the state that products read. */
static double product_of(const clq_recurrent_problem *p, const ref_recurrent_values *v, const double *taken, size_t g,
                         size_t j) {
    const size_t gates = clq_cell_gates(p->cell), units = p->units;
    double sum = bias_of(p, v->bias, 1, g, j);
    for (size_t k = 0; k < units; k++)
        sum += taken[g % clq_recurrent_copies(p, v->drops) * units + k] * v->u[(k * gates + g) * units + j];
    return sum;
}

static double *take_state(const clq_recurrent_problem *p, const ref_recurrent_values *v, size_t t, const double *h) {
    const size_t copies = clq_recurrent_copies(p, v->drops), units = p->units;
    double *taken = numbers(copies * units, NULL);
    for (size_t i = 0; i < copies * units; i++) taken[i] = h[i % units] * (v->drops ? v->drops[i] : 1);
    for (size_t k = 0; k < units && p->resets_first; k++)
        taken[2 * units + k] *=
            activated(p->gate_activation, v->z[(t * 3 + 1) * units + k] + product_of(p, v, taken, 1, k));
    for (size_t i = 0; i < copies * units && v->before; i++)
        v->before[(i / units * p->steps + t) * units + i % units] = taken[i];
    return taken;
}

static void forward_step(const clq_recurrent_problem *p, const ref_recurrent_values *v, size_t t, double *h,
                         double *c) {
    const size_t gates = clq_cell_gates(p->cell), units = p->units;
    double *h_next = numbers(units, NULL), *taken = take_state(p, v, t, h);
    for (size_t j = 0; j < units; j++) {
        unit of = {.h = h[j], .c = c[j]};
        double r[4] = {0};
        for (size_t g = 0; g < gates; g++) {
            r[g] = product_of(p, v, taken, g, j);
            of.sums[g] = v->z[(t * gates + g) * units + j] + bias_of(p, v->bias, 0, g, j);
        }
        of.r = r[2];
        for (size_t g = 0; g < gates; g++)
            of.sums[g] += p->cell == CLQ_CELL_GRU && g == 2 && !p->resets_first
                              ? activated(p->gate_activation, of.sums[1]) * r[g]
                              : r[g];
        if (v->kept) keep(p, &of, v->kept + t * clq_recurrent_kept(p), j);
        h_next[j] = step_of(p, &of, &c[j]);
    }
    memcpy(h, h_next, units * sizeof *h);
    free(h_next);
    free(taken);
}

static void forward_sample(const clq_recurrent_problem *p, const ref_recurrent_values *v) {
    const size_t units = p->units;
    double *h = numbers(units, v->h0), *c = numbers(units, v->c0);
    for (size_t s = 0; s < p->steps; s++) {
        const size_t t = step_at(p, s);
        const bool counts = !v->mask || v->mask[t] != 0;
        double *h_before = numbers(units, h), *c_before = numbers(units, c);
        forward_step(p, v, t, h, c);
        if (!counts) {
            memcpy(h, h_before, units * sizeof *h);
            memcpy(c, c_before, units * sizeof *c);
        }
        for (size_t j = 0; j < units && v->y; j++) v->y[s * units + j] = counts || !p->zeroes ? h[j] : 0;
        free(h_before);
        free(c_before);
    }
    if (v->h) memcpy(v->h, h, units * sizeof *h);
    if (v->c) memcpy(v->c, c, units * sizeof *c);
    free(h);
    free(c);
}

/* If the reset comes first: propagates the gradient of the reset state to the reset gate and to the state. */
static void reset_step(const clq_recurrent_problem *p, const ref_recurrent_slopes *b, size_t t, double *dh_before) {
    const size_t units = p->units;
    double *slopes = numbers(units, NULL);
    for (size_t k = 0; k < units; k++) {
        const unit of = kept_of(p, b->kept + t * clq_recurrent_kept(p), k);
        double value = 0;
        for (size_t j = 0; j < units; j++) value += b->dz[(t * 3 + 2) * units + j] * b->u[(k * 3 + 2) * units + j];
        if (b->drops) value *= b->drops[2 * units + k];
        dh_before[k] += value * activated(p->gate_activation, of.sums[1]);
        slopes[k] = value * of.h * slope_at(p->gate_activation, of.sums[1]);
    }
    for (size_t j = 0; j < units; j++) {
        b->dz[(t * 3 + 1) * units + j] = b->dr[((p->steps + t) * 3 + 1) * units + j] = slopes[j];
        for (size_t k = 0; k < units; k++)
            dh_before[k] += slopes[j] * b->u[(k * 3 + 1) * units + j] * (b->drops ? b->drops[units + k] : 1);
    }
    free(slopes);
}

/* dh, dc: the gradient of the state after step t, and on return that of the state before the step. */
static void backward_step(const clq_recurrent_problem *p, const ref_recurrent_slopes *b, size_t t, double *dh,
                          double *dc) {
    const size_t gates = clq_cell_gates(p->cell), units = p->units, copies = clq_recurrent_copies(p, b->drops);
    double *dh_before = numbers(units, NULL);
    for (size_t j = 0; j < units; j++) {
        const unit of = kept_of(p, b->kept + t * clq_recurrent_kept(p), j);
        const unit_slopes s = slopes_of(p, &of, dh[j], dc[j]);
        dh_before[j] += s.h;
        dc[j] = s.c;
        for (size_t g = 0; g < gates; g++) {
            b->dz[(t * gates + g) * units + j] = s.z[g];
            if (b->dr) b->dr[((g % copies * p->steps + t) * gates + g) * units + j] = s.r[g];
            if (b->dboth) b->dboth[(t * 2 * gates + g) * units + j] = s.z[g];
            if (b->dboth) b->dboth[((t * 2 + 1) * gates + g) * units + j] = s.r[g];
            for (size_t k = 0; k < units && !(p->resets_first && g > 0); k++)
                dh_before[k] += s.r[g] * b->u[(k * gates + g) * units + j] * (b->drops ? b->drops[g * units + k] : 1);
        }
    }
    if (p->resets_first) reset_step(p, b, t, dh_before);
    memcpy(dh, dh_before, units * sizeof *dh);
    free(dh_before);
}

static void backward_sample(const clq_recurrent_problem *p, const ref_recurrent_slopes *b) {
    const size_t units = p->units, all = p->steps * clq_cell_gates(p->cell) * units;
    double *dh = numbers(units, b->dh), *dc = numbers(units, b->dc);
    memset(b->dz, 0, all * sizeof *b->dz);
    if (b->dr) memset(b->dr, 0, clq_recurrent_copies(p, b->drops) * all * sizeof *b->dr);
    if (b->dboth) memset(b->dboth, 0, 2 * all * sizeof *b->dboth);
    for (size_t s = p->steps; s-- > 0;) {
        const size_t t = step_at(p, s);
        const bool counts = !b->mask || b->mask[t] != 0;
        for (size_t j = 0; j < units && b->dy && (counts || !p->zeroes); j++) dh[j] += b->dy[s * units + j];
        if (counts) backward_step(p, b, t, dh, dc);
    }
    if (b->dh0) memcpy(b->dh0, dh, units * sizeof *dh);
    if (b->dc0) memcpy(b->dc0, dc, units * sizeof *dc);
    free(dh);
    free(dc);
}

/* ---- all samples ---- */

/* The numbers of sample n, or NULL if there are none. */
#define OF(from, elements) ((from) ? (from) + n * (elements) : NULL)

void ref_recurrent(const clq_recurrent_problem *p, size_t count, const ref_recurrent_values *v) {
    const size_t units = p->units, steps = p->steps, width = clq_cell_gates(p->cell) * units;
    for (size_t n = 0; n < count; n++) {
        const ref_recurrent_values own = {
            .z = OF(v->z, steps * width),
            .u = v->u,
            .bias = v->bias,
            .h0 = OF(v->h0, units),
            .c0 = OF(v->c0, units),
            .mask = OF(v->mask, steps),
            .drops = OF(v->drops, width),
            .y = OF(v->y, steps * units),
            .h = OF(v->h, units),
            .c = OF(v->c, units),
            .before = OF(v->before, clq_recurrent_copies(p, v->drops) * steps * units),
            .kept = OF(v->kept, steps * clq_recurrent_kept(p)),
        };
        forward_sample(p, &own);
    }
}

void ref_recurrent_gradient(const clq_recurrent_problem *p, size_t count, const ref_recurrent_slopes *g) {
    const size_t units = p->units, steps = p->steps, width = clq_cell_gates(p->cell) * units;
    for (size_t n = 0; n < count; n++) {
        const ref_recurrent_slopes own = {
            .dy = OF(g->dy, steps * units),
            .dh = OF(g->dh, units),
            .dc = OF(g->dc, units),
            .u = g->u,
            .kept = OF(g->kept, steps * clq_recurrent_kept(p)),
            .mask = OF(g->mask, steps),
            .drops = OF(g->drops, width),
            .dz = OF(g->dz, steps * width),
            .dr = OF(g->dr, clq_recurrent_copies(p, g->drops) * steps * width),
            .dboth = OF(g->dboth, steps * 2 * width),
            .dh0 = OF(g->dh0, units),
            .dc0 = OF(g->dc0, units),
        };
        backward_sample(p, &own);
    }
}
