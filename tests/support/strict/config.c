/* The layer's configuration: words separated by blanks, from the variable CLQ_TEST_STRICT or strict_configure:
 *
 * disguise=nna-  PoCL's devices in order: n NVIDIA's, a AMD's, i Intel's GPUs; others stay what they are
 * seed=3 hold order nan migrate same_pci report delay_us=200 callback_us=500 slow=1:20 (device 1 takes 20 times as
 * long)
 *
 * What the words do not name is off. The configuration changes only while no context is open. */
#include "support/strict/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

strict_config strict_options;
static bool configured;

static bool read_flag(const char *word, strict_config *c) {
    const struct {
        const char *name;
        bool *value;
    } flags[] = {{"hold", &c->hold},       {"order", &c->order},       {"nan", &c->nan},
                 {"migrate", &c->migrate}, {"same_pci", &c->same_pci}, {"report", &c->report}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(word, flags[i].name) != 0) continue;
        *flags[i].value = true;
        return true;
    }
    return false;
}

static bool read_word(const char *word, strict_config *c) {
    unsigned long long seed;
    if (read_flag(word, c)) return true;
    if (sscanf(word, "disguise=%31s", c->disguise) == 1) return true;
    if (sscanf(word, "delay_us=%u", &c->delay_us) == 1) return true;
    if (sscanf(word, "callback_us=%u", &c->callback_us) == 1) return true;
    if (sscanf(word, "slow=%u:%u", &c->slow_device, &c->slow_times) == 2) return true;
    if (sscanf(word, "seed=%llu", &seed) != 1) return false;
    c->seed = seed;
    return true;
}

EXPORT int strict_configure(const char *words);
/* Returns 0, or -1 if a word is unknown or `words` is too long. */
int strict_configure(const char *words) {
    strict_config config = {0};
    char copy[512], *rest = copy;
    if (snprintf(copy, sizeof copy, "%s", words) >= (int)sizeof copy) return -1;
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        if (!read_word(word, &config)) return -1;
    strict_options = config;
    configured = true;
    return 0;
}

void strict_config_start(void) {
    const char *words = getenv("CLQ_TEST_STRICT");
    if (words && !configured && strict_configure(words) != 0)
        strict_die("CLQ_TEST_STRICT has a word that is not known");
}

/* SplitMix64. */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t strict_random(uint64_t stream, uint64_t n, uint64_t most) {
    return mix(mix(mix(strict_options.seed) ^ stream) ^ n) % (most + 1);
}
