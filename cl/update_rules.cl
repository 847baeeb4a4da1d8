/* The rules of the optimizers, for kernels (update.cl), and for the host's memory
 * (src/ops/training/update_host_body.h). The host has its own floatv, sqrt, ALWAYS_INLINE, PICK(condition, a, b), which
 * chooses in each lane, and ALL(number), a vector with the number in all lanes. So a rule uses only these, + - * / and
 * comparisons of vectors, and floats.
 *
 * rule_NAME: makes the new weights from the weights w and their gradients g, and changes the states s in place. rate,
 * second and third: what the optimizer's row in src/ops/training/optimizers.c computes from its hyper-parameters for
 * this step. c0, c1, c2: what it computes from them for all steps. Formulas are those of Keras's optimizers.
 *
 * A rule with a trust ratio makes its update in two passes, since the length of its step depends on norms of whole
 * variables. direction_NAME: changes the states, and gives the direction of the step. rule_NAME then gets norm(weights)
 * / norm(direction) of the variable as g, instead of the gradient, and leaves the states as they are. */

#define RULE_ARGUMENTS                                                                                                 \
    floatv w, floatv g, floatv *s, float rate, float second, float third, float c0, float c1, float c2

#ifndef PICK
#define PICK(condition, a, b) ((condition) ? (a) : (b))
#define ALL(number) ((floatv)(number))
#endif
/* NaN stays NaN. */
#define SIZE_OF(v) PICK((v) < 0.0f, -(v), v)
#define LARGER_OF(a, b) PICK((a) >= (b), a, b)
#define NOT_BELOW_0(v) PICK((v) < 0.0f, ALL(0.0f), v)
#define SIGN_OF(v) PICK((v) > 0.0f, ALL(1.0f), PICK((v) < 0.0f, ALL(-1.0f), v))

ALWAYS_INLINE floatv rule_sgd(RULE_ARGUMENTS) { return w - rate * g; }

/* c0: momentum. s[0]: the velocity. */
ALWAYS_INLINE floatv rule_momentum(RULE_ARGUMENTS) {
    s[0] = c0 * s[0] - rate * g;
    return w + s[0];
}

ALWAYS_INLINE floatv rule_nesterov(RULE_ARGUMENTS) {
    s[0] = c0 * s[0] - rate * g;
    return w + (c0 * s[0] - rate * g);
}

/* c0, c1: 1 - beta1, 1 - beta2; c2: epsilon, outside the root. s[0], s[1]: the moments. `rate` corrects their bias. */
ALWAYS_INLINE floatv rule_adam(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return w - rate * s[0] / (sqrt(s[1]) + c2);
}

/* The same with the largest second moment so far, s[2]. */
ALWAYS_INLINE floatv rule_amsgrad(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    s[2] = LARGER_OF(s[2], s[1]);
    return w - rate * s[0] / (sqrt(s[2]) + c2);
}

/* c0: 1 - beta1; c1: beta2; c2: epsilon. s[0]: the first moment, whose bias `rate` corrects; s[1]: the largest absolute
 * gradient, which decays. */
ALWAYS_INLINE floatv rule_adamax(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] = LARGER_OF(c1 * s[1], SIZE_OF(g));
    return w - rate * s[0] / (s[1] + c2);
}

/* As in adam. `rate` is the factor of the first moment, `second` that of the gradient; `third` corrects the bias of the
 * second moment. */
ALWAYS_INLINE floatv rule_nadam(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return w - (rate * s[0] + second * g) / (sqrt(third * s[1]) + c2);
}

/* c0: the initial sum of squares; c1: epsilon, inside the root. s[0]: the sum of squares without c0. */
ALWAYS_INLINE floatv rule_adagrad(RULE_ARGUMENTS) {
    s[0] += g * g;
    return w - rate * g / sqrt(s[0] + c0 + c1);
}

/* c0: 1 - rho; c2: epsilon, inside the roots. s[0], s[1]: means of the squares of gradients and of steps. */
ALWAYS_INLINE floatv rule_adadelta(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    floatv step = sqrt(s[1] + c2) * g / sqrt(s[0] + c2);
    s[1] += (step * step - s[1]) * c0;
    return w - rate * step;
}

/* c0: 1 - rho; c1: momentum; c2: epsilon, inside the root. s[0]: the mean square. After it, if the rule has them, come
 * the velocity, and the mean gradient, whose square is subtracted. */
ALWAYS_INLINE floatv rule_rmsprop(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    return w - rate * g / sqrt(s[0] + c2);
}

ALWAYS_INLINE floatv rule_rmsprop_momentum(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    s[1] = c1 * s[1] + rate * g / sqrt(s[0] + c2);
    return w - s[1];
}

/* If gradients are nearly equal, rounding can make the difference negative. */
#define VARIANCE(mean_square, mean) NOT_BELOW_0((mean_square) - (mean) * (mean))

ALWAYS_INLINE floatv rule_rmsprop_centered(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    s[1] += (g - s[1]) * c0;
    return w - rate * g / sqrt(VARIANCE(s[0], s[1]) + c2);
}

ALWAYS_INLINE floatv rule_rmsprop_centered_momentum(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    s[2] += (g - s[2]) * c0;
    s[1] = c1 * s[1] + rate * g / sqrt(VARIANCE(s[0], s[2]) + c2);
    return w - s[1];
}

/* c0, c1: 1 - beta1, 1 - beta2. s[0]: the moment. */
ALWAYS_INLINE floatv rule_lion(RULE_ARGUMENTS) {
    floatv direction = s[0] + (g - s[0]) * c0;
    s[0] += (g - s[0]) * c1;
    return w - rate * SIGN_OF(direction);
}

/* As in adam, but `second` and `third` correct the bias of the moments. If the first moment is 0, the step is 0,
 * whatever epsilon is: the numbers after a variable's last one belong to its last block, and have no moments. */
#define LAMB_STEP PICK(s[0] == 0.0f, ALL(0.0f), second * s[0] / (sqrt(third * s[1]) + c2))

ALWAYS_INLINE floatv direction_lamb(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return LAMB_STEP;
}

ALWAYS_INLINE floatv rule_lamb(RULE_ARGUMENTS) { return w - rate * g * LAMB_STEP; }

/* Every rule with the number of its states; then those with a trust ratio. */
#define UPDATE_RULES(DO)                                                                                               \
    DO(sgd, 0)                                                                                                         \
    DO(momentum, 1)                                                                                                    \
    DO(nesterov, 1)                                                                                                    \
    DO(adam, 2)                                                                                                        \
    DO(amsgrad, 3)                                                                                                     \
    DO(adamax, 2)                                                                                                      \
    DO(nadam, 2)                                                                                                       \
    DO(adagrad, 1)                                                                                                     \
    DO(adadelta, 2)                                                                                                    \
    DO(rmsprop, 1)                                                                                                     \
    DO(rmsprop_momentum, 2)                                                                                            \
    DO(rmsprop_centered, 2)                                                                                            \
    DO(rmsprop_centered_momentum, 3)                                                                                   \
    DO(lion, 1)
#define TRUST_RATIO_RULES(DO) DO(lamb, 2)
