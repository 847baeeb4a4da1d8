/* The one place of the tests that knows what PoCL calls its devices for CPUs. POCL_DEVICES takes the words "basic" (the
 * device that runs commands in its caller's thread) and "pthread" (the pool of threads). Up to PoCL 3 their names begin
 * with these words; from PoCL 4 on they begin with "cpu-minimal-" and "cpu-". */
#ifndef CLQ_TEST_POCL_NAMES_H
#define CLQ_TEST_POCL_NAMES_H

#include <stdbool.h>
#include <string.h>

#define POCL_BASIC "basic"
#define POCL_POOL "pthread"

/* Whether `word` stands for a device of this name. Any other word stands for the devices whose names begin with it. */
static inline bool pocl_name_is(const char *name, const char *word) {
    static const char minimal[] = "cpu-minimal-", pool[] = "cpu-";
    const bool is_minimal = strncmp(name, minimal, sizeof minimal - 1) == 0;
    if (strncmp(name, word, strlen(word)) == 0) return true;
    if (strcmp(word, POCL_BASIC) == 0) return is_minimal;
    return strcmp(word, POCL_POOL) == 0 && !is_minimal && strncmp(name, pool, sizeof pool - 1) == 0;
}

#endif
