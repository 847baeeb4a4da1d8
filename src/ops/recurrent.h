/* Recurrent cells over sequences (recurrent/recurrent.c). Part of ops/ops.h. */
#ifndef CLQ_OPS_RECURRENT_H
#define CLQ_OPS_RECURRENT_H

#include "launch/launch.h"

/* A sample has `steps` steps, and a state h of `units` numbers. In each step, the input gives z (gates, units), and the
 * state gives r = h U + b. The order of the gates is Keras's:
 *   simple  h = act(z + r)
 *   LSTM    i, f, o = gate(z + r), g = act(z + r) in the order i f g o; c = f c + i g; h = o act(c)
 *   GRU     u, s = gate(z + r), g = act(z + s r); h = u h + (1 - u) g; with resets_first g = act(z + (s h) U), no b
 * (Elman, 1990; Hochreiter and Schmidhuber, 1997, and Gers et al., 2000; Cho et al., 2014). clq_recurrent_knows tells
 * which activations are possible. */
typedef struct clq_recurrent_problem {
    clq_cell cell;
    size_t steps, units;
    clq_activation activation, gate_activation;
    bool backwards;    /* goes from the last step to the first; y has the steps in the order of processing */
    bool resets_first; /* GRU only */
    bool zeroes;       /* y is 0 at masked steps; false: y is h, which such a step does not change */
} clq_recurrent_problem;
size_t clq_cell_gates(clq_cell cell); /* 1, 4, 3 */
/* Whether the kernels have the activation: linear, or an activation whose slope follows from its result. */
bool clq_recurrent_knows(clq_activation activation);
/* clq_recurrent_kept: how many numbers of a step backward needs. clq_recurrent_copies: how many copies of the state the
 * products take. This is one for each gate if each gate drops other units, or if the candidate's product takes the
 * state after the reset. Otherwise it is one. */
size_t clq_recurrent_kept(const clq_recurrent_problem *p);
size_t clq_recurrent_copies(const clq_recurrent_problem *p, bool drops);
/* Whether the gradient of the state's product differs from the gradient of z. */
bool clq_recurrent_apart(const clq_recurrent_problem *p, bool drops);
double clq_recurrent_flops(const clq_recurrent_problem *p); /* of a sample */

/* Values may be none only where a comment says so. At steps where mask is 0, the state stays as it is. */
typedef struct clq_recurrent_values {
    clq_value z;      /* (steps, gates, units) */
    clq_value u;      /* (units, gates, units): weights */
    clq_value bias;   /* (2, gates, units): z's and r's; or none */
    clq_value h0, c0; /* (units): the initial state; c0: LSTM only; none: zeros */
    clq_value mask;   /* (steps), or none */
    clq_value drops;  /* (gates, units): factors of h in each gate's product; or none */
    clq_value y;      /* (steps, units), or none */
    clq_value h, c;   /* (units): the final state; c: LSTM only */
    clq_value before; /* (copies, steps, units): the states that the products took, for backward. before and kept: both
                         or none */
    clq_value kept;   /* (steps, clq_recurrent_kept) */
} clq_recurrent_values;
void clq_recurrent_forward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_values *v);

typedef struct clq_recurrent_gradients {
    clq_value dy, dh, dc; /* each may be none */
    clq_value u, kept, mask, drops;
    bool bias, state;
    clq_value dz;
    clq_value dr;       /* (copies, steps, gates, units): the products' gradient; none unless clq_recurrent_apart */
    clq_value dboth;    /* (steps, 2, gates, units): gradients of both biases in each step; none without a bias */
    clq_value dh0, dc0; /* none unless `state` */
} clq_recurrent_gradients;
void clq_recurrent_backward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_gradients *g);

#endif
