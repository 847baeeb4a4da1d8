/* The optimizers' rules: for kernels (update.cl), and for the host's memory (src/ops/training/update_host_body.h),
 * which has floatv, sqrt and ALWAYS_INLINE of its own, PICK(condition, a, b), which chooses in each lane, and
 * ALL(number), a vector of it. So a rule uses nothing else but these, + - * / and comparisons of vectors, and floats.
 *
 * rule_NAME: the new weights from the weights w and their gradients g; the states s are changed in place. rate, second
 * and third: what the optimizer's row in src/ops/training/optimizers.c makes of its hyper-parameters in this step; c0,
 * c1, c2: what it makes of them for all steps. Formulas are those of Keras's optimizers.
 *
 * A rule with a trust ratio makes its update in two passes, since the length of its step depends on norms of whole
 * variables. direction_NAME: changes the states, and gives the direction of the step. rule_NAME then gets as g, in
 * place of the gradient, norm(weights) / norm(direction) of the variable, and leaves the states as they are. */

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

/* c0, c1: 1 - beta1, 1 - beta2; c2: epsilon, outside the root. s[0], s[1]: the moments. The rate corrects their bias.
 */
ALWAYS_INLINE floatv rule_adam(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return w - rate * s[0] / (sqrt(s[1]) + c2);
}

/* The same by the largest second moment so far, s[2]. */
ALWAYS_INLINE floatv rule_amsgrad(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    s[2] = LARGER_OF(s[2], s[1]);
    return w - rate * s[0] / (sqrt(s[2]) + c2);
}

/* c0: 1 - beta1; c1: beta2; c2: epsilon. s[0]: the first moment, whose bias the rate corrects; s[1]: the largest
 * gradient, which fades. */
ALWAYS_INLINE floatv rule_adamax(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] = LARGER_OF(c1 * s[1], SIZE_OF(g));
    return w - rate * s[0] / (s[1] + c2);
}

/* As adam. rate is of the first moment, second of the gradient; third corrects the second moment's bias. */
ALWAYS_INLINE floatv rule_nadam(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return w - (rate * s[0] + second * g) / (sqrt(third * s[1]) + c2);
}

/* c0: what the sum of squares begins with; c1: epsilon, inside the root. s[0]: the sum of squares, less c0. */
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

/* c0: 1 - rho; c1: momentum; c2: epsilon, inside the root. s[0]: the mean square; behind it, where the rule has them,
 * the velocity, and the mean gradient, whose square is taken off. */
ALWAYS_INLINE floatv rule_rmsprop(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    return w - rate * g / sqrt(s[0] + c2);
}

ALWAYS_INLINE floatv rule_rmsprop_momentum(RULE_ARGUMENTS) {
    s[0] += (g * g - s[0]) * c0;
    s[1] = c1 * s[1] + rate * g / sqrt(s[0] + c2);
    return w - s[1];
}

/* Of gradients that are nearly alike rounding can leave less than 0. */
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

/* As adam, but second and third correct the moments' bias. No moment, no step, whatever epsilon is: the numbers behind
 * a variable's last belong to its last block, and have none. */
#define LAMB_STEP PICK(s[0] == 0.0f, ALL(0.0f), second * s[0] / (sqrt(third * s[1]) + c2))

ALWAYS_INLINE floatv direction_lamb(RULE_ARGUMENTS) {
    s[0] += (g - s[0]) * c0;
    s[1] += (g * g - s[1]) * c1;
    return LAMB_STEP;
}

ALWAYS_INLINE floatv rule_lamb(RULE_ARGUMENTS) { return w - rate * g * LAMB_STEP; }

/* Every rule, with the number of its states; and those with a trust ratio. */
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
