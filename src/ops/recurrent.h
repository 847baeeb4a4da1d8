/* Recurrent cells over sequences (recurrent/recurrent.c). Part of ops/ops.h. */
#ifndef CLQ_OPS_RECURRENT_H
#define CLQ_OPS_RECURRENT_H

#include "launch/launch.h"

/* Of a sample: `steps` steps, and a state of `units` numbers, h. With gates z (gates, units) of a step, what its input
 * gives, and r = h U + b, what the state gives, in the order of Keras:
 *   simple  h = act(z + r)
 *   LSTM    i, f, o = gate(z + r), g = act(z + r) in the order i f g o; c = f c + i g; h = o act(c)
 *   GRU     u, s = gate(z + r), g = act(z + s r); h = u h + (1 - u) g; with resets_first g = act(z + (s h) U), no b
 * (Elman, 1990; Hochreiter and Schmidhuber, 1997, and Gers et al., 2000; Cho et al., 2014). Activations are those
 * that clq_recurrent_knows. */
typedef struct clq_recurrent_problem {
    clq_cell cell;
    size_t steps, units;
    clq_activation activation, gate_activation;
    bool backwards;    /* the last step first: y has the steps in the order in which they were gone through */
    bool resets_first; /* of GRU */
    bool zeroes;       /* y is 0 at steps that do not count, else what it was before */
} clq_recurrent_problem;
size_t clq_cell_gates(clq_cell cell); /* 1, 4, 3 */
/* Whether kernels have the activation: linear, or one whose slope is known from its result. */
bool clq_recurrent_knows(clq_activation activation);
/* Numbers of a step that backward needs; and how many copies of the state products take: one for each gate if each
 * has factors of its own, or the candidate's takes what the reset left. */
size_t clq_recurrent_kept(const clq_recurrent_problem *p);
size_t clq_recurrent_copies(const clq_recurrent_problem *p, bool drops);
/* Whether what the state's product gets is another gradient than what z gets. */
bool clq_recurrent_apart(const clq_recurrent_problem *p, bool drops);
double clq_recurrent_flops(const clq_recurrent_problem *p); /* of a sample */

/* What may be none is said. Steps that do not count, where mask is 0, leave the state as it is. */
typedef struct clq_recurrent_values {
    clq_value z;      /* (steps, gates, units) */
    clq_value u;      /* (units, gates, units): weights */
    clq_value bias;   /* (2, gates, units): of z and of r; or none */
    clq_value h0, c0; /* (units): the state at first; c0 of LSTM; or none: zeros */
    clq_value mask;   /* (steps), or none */
    clq_value drops;  /* (gates, units): factors of h in each gate's product; or none */
    clq_value y;      /* (steps, units), or none */
    clq_value h, c;   /* (units): the state at last; c of LSTM */
    clq_value before; /* (copies, steps, units): what products took, for backward; both or none */
    clq_value kept;   /* (steps, clq_recurrent_kept) */
} clq_recurrent_values;
void clq_recurrent_forward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_values *v);

typedef struct clq_recurrent_gradients {
    clq_value dy, dh, dc; /* each may be none */
    clq_value u, kept, mask, drops;
    bool bias, state;
    clq_value dz;
    clq_value dr;       /* (copies, steps, gates, units): of the products; none unless apart */
    clq_value dboth;    /* (steps, 2, gates, units): of both biases, step by step; none without a bias */
    clq_value dh0, dc0; /* none without a state */
} clq_recurrent_gradients;
void clq_recurrent_backward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_gradients *g);

#endif
