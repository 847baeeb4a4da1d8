/* What reader and writer of safetensors agree on. */
#ifndef CLQ_FORMATS_SAFETENSORS_H
#define CLQ_FORMATS_SAFETENSORS_H

#include "formats/formats.h"

#define CLQ_SAFETENSORS_METADATA "__metadata__"

enum { CLQ_SAFETENSORS_LENGTH_BYTES = 8, CLQ_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 };

/* The values lie in the file as the host has them. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are read and written on little-endian hosts");

static const struct {
    const char *name;
    clq_dtype dtype;
} clq_safetensors_types[] = {
    {"F32", CLQ_F32}, {"F64", CLQ_F64}, {"F16", CLQ_F16},   {"BF16", CLQ_BF16}, {"I8", CLQ_I8},
    {"I16", CLQ_I16}, {"I32", CLQ_I32}, {"I64", CLQ_I64},   {"U8", CLQ_U8},     {"U16", CLQ_U16},
    {"U32", CLQ_U32}, {"U64", CLQ_U64}, {"BOOL", CLQ_BOOL},
};

#endif
