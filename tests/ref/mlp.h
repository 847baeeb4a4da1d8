/* Trains the model mlp in double, as in a textbook: Flatten, Dense(128, ReLU), Dense(10, softmax), cross-entropy, Adam
 * (Kingma and Ba, "Adam", 2015, the efficient form of section 2, as in Keras: epsilon is added to the uncorrected
 * root).
 *
 * The training also tells whether rounding decides anything. A hidden unit's pre-activation is a sum of 785 terms. If
 * the sum is almost 0, one order of summing turns the unit on and another turns it off, and from there on two correct
 * trainings differ. The unit's margin is |sum| / sum of |terms|. It can be compared with float32's relative rounding
 * error. */
#ifndef REF_MLP_H
#define REF_MLP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { REF_INPUTS = 784, REF_HIDDEN = 128, REF_CLASSES = 10 };

/* The members are in the order of the model's variables. */
typedef struct ref_mlp_values {
    double kernel1[REF_INPUTS][REF_HIDDEN], bias1[REF_HIDDEN], kernel2[REF_HIDDEN][REF_CLASSES], bias2[REF_CLASSES];
} ref_mlp_values;
enum { REF_MLP_VALUES = sizeof(ref_mlp_values) / sizeof(double) };

typedef struct ref_mlp {
    ref_mlp_values weights, gradient, first_moments, second_moments;
    unsigned steps;
    double margin; /* the smallest of all units so far */
} ref_mlp;

/* Adds one sample's gradient to m->gradient. Returns the sample's loss. */
static double ref_mlp_sample(ref_mlp *m, const unsigned char *sample, int label, double scale) {
    const ref_mlp_values *w = &m->weights;
    ref_mlp_values *g = &m->gradient;
    double x[REF_INPUTS], hidden[REF_HIDDEN], logits[REF_CLASSES], most = -HUGE_VAL, sum = 0;
    for (int i = 0; i < REF_INPUTS; i++) x[i] = (double)((float)sample[i] * (1.0f / 255.0f));
    for (int u = 0; u < REF_HIDDEN; u++) {
        double z = w->bias1[u], size = fabs(z);
        for (int i = 0; i < REF_INPUTS; i++) {
            z += x[i] * w->kernel1[i][u];
            size += fabs(x[i] * w->kernel1[i][u]);
        }
        m->margin = fmin(m->margin, fabs(z) / size);
        hidden[u] = fmax(z, 0);
    }
    for (int c = 0; c < REF_CLASSES; c++) {
        logits[c] = w->bias2[c];
        for (int u = 0; u < REF_HIDDEN; u++) logits[c] += hidden[u] * w->kernel2[u][c];
        most = fmax(most, logits[c]);
    }
    for (int c = 0; c < REF_CLASSES; c++) sum += exp(logits[c] - most);
    double to_hidden[REF_HIDDEN] = {0};
    for (int c = 0; c < REF_CLASSES; c++) {
        const double d = scale * (exp(logits[c] - most) / sum - (c == label));
        g->bias2[c] += d;
        for (int u = 0; u < REF_HIDDEN; u++) {
            g->kernel2[u][c] += d * hidden[u];
            to_hidden[u] += d * w->kernel2[u][c];
        }
    }
    for (int u = 0; u < REF_HIDDEN; u++) {
        if (hidden[u] == 0) continue;
        g->bias1[u] += to_hidden[u];
        for (int i = 0; i < REF_INPUTS; i++) g->kernel1[i][u] += to_hidden[u] * x[i];
    }
    return most + log(sum) - logits[label];
}

static void ref_mlp_update(ref_mlp *m) {
    const double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-7, step = ++m->steps;
    const double corrected = rate * sqrt(1 - pow(beta2, step)) / (1 - pow(beta1, step));
    double *w = (double *)&m->weights, *first = (double *)&m->first_moments, *second = (double *)&m->second_moments;
    const double *g = (const double *)&m->gradient;
    for (int i = 0; i < REF_MLP_VALUES; i++) {
        first[i] = beta1 * first[i] + (1 - beta1) * g[i];
        second[i] = beta2 * second[i] + (1 - beta2) * g[i] * g[i];
        w[i] -= corrected * first[i] / (sqrt(second[i]) + epsilon);
    }
}

/* Trains one step. Returns the mean loss before the step. */
static double ref_mlp_step(ref_mlp *m, const unsigned char *samples, const int32_t *labels, size_t count) {
    double loss = 0;
    memset(&m->gradient, 0, sizeof m->gradient);
    for (size_t i = 0; i < count; i++)
        loss += ref_mlp_sample(m, samples + i * REF_INPUTS, labels[i], 1.0 / (double)count);
    ref_mlp_update(m);
    return loss / (double)count;
}

#endif
