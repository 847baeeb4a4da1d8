/* The header of an NPY file: the text of a Python dictionary. */
#ifndef CLQ_FORMATS_NPY_H
#define CLQ_FORMATS_NPY_H

#include "formats/formats.h"

typedef struct clq_npy_header {
    clq_dtype dtype;
    bool swapped; /* in the byte order that the host has not */
    bool fortran_order;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
} clq_npy_header;

/* `text` need not end with a NUL; `where` names the file. */
clq_status clq_npy_header_parse(const char *text, size_t bytes, const char *where, clq_npy_header *out);

#endif
