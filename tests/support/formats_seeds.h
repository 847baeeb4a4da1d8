/* Valid files of every kind, and all readers behind one call: for the tests with damaged files and for the fuzzer. */
#ifndef CLQ_TEST_FORMATS_SEEDS_H
#define CLQ_TEST_FORMATS_SEEDS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum seed_kind { SEED_IDX, SEED_NPY, SEED_CIFAR, SEED_SAFETENSORS, SEED_JSON, SEED_KINDS } seed_kind;

typedef struct seed {
    const char *name;
    seed_kind kind;
    const unsigned char *data;
    size_t bytes;
} seed;

enum { SEED_MAX = 16, SEED_BYTES_MAX = 8192 };

/* Makes the seeds; returns how many. */
size_t seeds_make(const seed **out);

/* Reads the file as one kind. Returns true if the reader accepts it; every value was then touched. Aborts the program
 * if a reader breaks its contract: a result that contradicts itself, an output of a failed call, or no detail. */
bool seeds_read(seed_kind kind, const char *path);

#endif
