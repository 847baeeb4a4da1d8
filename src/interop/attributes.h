/* Checked access to one JSON object of a model file. Every key is either taken or known to be harmless; what is left at
 * the end is refused by its path, so that nothing a file asks for is silently ignored. Private to interop. */
#ifndef CLQ_INTEROP_ATTRIBUTES_H
#define CLQ_INTEROP_ATTRIBUTES_H

#include "interop/interop.h"

typedef struct clq_attributes {
    json_t *object;    /* borrowed */
    json_t *left;      /* what nobody has taken yet */
    char path[256];    /* "config.layers[3].config" */
    clq_status status; /* the first failure, whose detail is this thread's */
} clq_attributes;

/* object may be anything: what is no object is a FORMAT failure. */
void clq_attributes_open(json_t *object, const char *path, clq_attributes *out);
/* Refuses what is left, unless null, and ends. The first failure of all calls. */
clq_status clq_attributes_close(clq_attributes *a);

json_t *clq_attribute(clq_attributes *a, const char *key); /* borrowed; NULL where missing or null */
/* Text; `fallback` where missing. */
const char *clq_attribute_text(clq_attributes *a, const char *key, const char *fallback);
size_t clq_attribute_size(clq_attributes *a, const char *key,
                          size_t fallback); /* a whole number >= 1; fallback 0: needed */
void clq_attribute_pair(clq_attributes *a, const char *key, size_t fallback, size_t out[2]); /* n or [n, m] */
bool clq_attribute_flag(clq_attributes *a, const char *key, bool fallback);
/* The value must be `only` (or be missing). */
void clq_attribute_only(clq_attributes *a, const char *key, const char *only);
void clq_attribute_only_size(clq_attributes *a, const char *key, size_t only);
/* The key means nothing here. */
void clq_attribute_ignore(clq_attributes *a, const char *key);
/* Notes a failure of the attribute: "path.key: …". */
void clq_attribute_refuse(clq_attributes *a, clq_status status, const char *key, const char *format, ...)
    CLQ_PRINTF(4, 5);

#endif
