/* Optimizer updates on the host's own memory: finds the rule for the processor. */
#include "ops/training/update_host.h"

#include <assert.h>
#include <string.h>

static const clq_host_rule_row *rules(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) return clq_host_rules_avx2;
#endif
    return clq_host_rules_plain;
}

/* name NULL: the row that computes only the sum. */
static const clq_host_rule_row *find(const char *name) {
    const clq_host_rule_row *row = rules();
    while (row->name && !(name && strcmp(row->name, name) == 0)) row++;
    assert(!row->name == !name); /* cl/update_rules.cl has each rule that a row of optimizers.c names */
    return row;
}

void clq_update_on_host(const clq_optimizer *optimizer, const clq_host_update *update, const clq_update_rates *rates,
                        float average) {
    clq_host_numbers numbers = {.rates = *rates, .average = average};
    clq_optimizer_constants(optimizer, numbers.constants);
    find(clq_optimizer_rule(optimizer)->name)->run(update, &numbers);
}

void clq_directions_on_host(const clq_optimizer *optimizer, const clq_host_update *update,
                            const clq_update_rates *rates, double squares[2]) {
    clq_host_numbers numbers = {.rates = *rates};
    clq_optimizer_constants(optimizer, numbers.constants);
    find(clq_optimizer_rule(optimizer)->name)->direct(update, &numbers, squares);
}

void clq_sum_on_host(const clq_host_update *update) { find(NULL)->run(update, NULL); }

/* Four chains hide the latency of the additions. */
double clq_square_sum_on_host(const float *x, size_t floats) {
    double sums[4] = {0};
    for (size_t i = 0; i < floats; i++) sums[i % 4] += (double)x[i] * (double)x[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
