#include "base/base.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define DTYPE_ROW(name, text, bytes) [CLQ_##name] = {text, bytes},
    CLQ_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

/* A value from outside may be none of the enumeration's, and even below 0. */
static bool known(clq_dtype dtype) { return (unsigned)dtype < CLQ_DTYPE_COUNT; }

size_t clq_dtype_bytes(clq_dtype dtype) { return known(dtype) ? types[dtype].bytes : 0; }
size_t clq_values_bytes(clq_dtype dtype, size_t count) { return count * clq_dtype_bytes(dtype); }
size_t clq_values_count(clq_dtype dtype, size_t bytes) { return bytes / clq_dtype_bytes(dtype); }

const char *clq_dtype_name(clq_dtype dtype) { return known(dtype) ? types[dtype].name : "unknown type"; }
