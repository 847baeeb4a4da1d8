/* The first samples of the synthetic set. Making all 60,000 of them takes longer than most trainings of tests. */
#ifndef CLQ_TEST_SYNTHETIC_H
#define CLQ_TEST_SYNTHETIC_H

#include <clique/data.h>

#include <stdio.h>
#include <string.h>

/* part: "train" or "test". A set has six times as many training samples as test samples. */
static inline clq_status open_synthetic(const char *part, size_t samples, clq_dataset **out) {
    char name[64];
    (void)snprintf(name, sizeof name, "synthetic:28x28/10/%zu", strcmp(part, "test") == 0 ? 6 * samples : samples);
    return clq_dataset_open(name, part, out);
}

#endif
