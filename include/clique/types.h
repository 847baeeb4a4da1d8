/* clique/types.h: element types of tensors, buffers and files. */
#ifndef CLIQUE_TYPES_H
#define CLIQUE_TYPES_H

#include <clique/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/* X(name, text, bytes). The order is part of the binary interface: add at the end. */
#define CLQ_DTYPE_MAP(X) \
    X(F32, "f32", 4) \
    X(F64, "f64", 8) \
    X(F16, "f16", 2) \
    X(BF16, "bf16", 2) \
    X(I8, "i8", 1) \
    X(I16, "i16", 2) \
    X(I32, "i32", 4) \
    X(I64, "i64", 8) \
    X(U8, "u8", 1) \
    X(U16, "u16", 2) \
    X(U32, "u32", 4) \
    X(U64, "u64", 8) \
    X(BOOL, "bool", 1)

typedef enum clq_dtype {
#define CLQ_DTYPE_ENUM(name, text, bytes) CLQ_##name,
    CLQ_DTYPE_MAP(CLQ_DTYPE_ENUM)
#undef CLQ_DTYPE_ENUM
    CLQ_DTYPE_COUNT
} clq_dtype;
/* clang-format on */

CLQ_API size_t clq_dtype_bytes(clq_dtype dtype);
CLQ_API const char *clq_dtype_name(clq_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
