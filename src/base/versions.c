/* Converts structs of callers that were compiled with another version of the headers. */
#include "base/base.h"

#include <string.h>

clq_status clq_struct_take(const char *what, const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    const unsigned char *bytes = from;
    for (size_t i = to_bytes; i < from_bytes; i++)
        if (bytes[i])
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "%s sets what this version of the library, %s, does not know: it was compiled with a newer "
                            "header",
                            what, clq_version());
    clq_struct_give(from, from_bytes, to, to_bytes);
    return CLQ_OK;
}

clq_status clq_reserve_check(const char *of, const void *reserved, size_t bytes) {
    const unsigned char *at = reserved;
    for (size_t i = 0; i < bytes; i++)
        if (at[i])
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "%s.reserved is not 0: it is room for later members; begin with the struct's default, or "
                            "with {0}",
                            of);
    return CLQ_OK;
}

void clq_struct_give(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    memset(to, 0, to_bytes);
    memcpy(to, from, CLQ_MIN(from_bytes, to_bytes));
}
