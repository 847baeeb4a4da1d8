/* formats: other people's files as such. Bytes in, checked structures out; knows no datasets and no models.
 * Every reader treats its input as hostile: sizes are checked before they are multiplied, allocated or read. */
#ifndef CLQ_FORMATS_H
#define CLQ_FORMATS_H

#include "base/base.h"

/* ---- arrays (array.c): what the readers give ---- */

enum { CLQ_ARRAY_DIMS_MAX = 8 };
/* A dense array, C order, host byte order, 64-byte aligned data that the array owns. */
typedef struct clq_array {
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    size_t count; /* product of dims; 1 for rank 0 */
    void *data;
} clq_array;
clq_status clq_array_create(clq_dtype dtype, unsigned rank, const size_t *dims, clq_array *out); /* zeroed */
void clq_array_release(clq_array *array);                                                        /* takes {0} */
/* "(60000, 28, 28) u8" into text, for messages. */
void clq_array_describe(const clq_array *array, char *text, size_t bytes);

/* ---- gz (gz.c) ---- */

/* A file's content, inflated where it starts with the gzip magic, else as it is. Refuses more than max_bytes
 * inflated, truncated streams, bad checksums and trailing garbage. The data are 64-byte aligned; clq_free. */
clq_status clq_gz_read(const char *path, size_t max_bytes, void **out, size_t *bytes);
/* The first bytes of that content, at most max_bytes: what is behind them is not looked at. */
clq_status clq_gz_peek(const char *path, size_t max_bytes, void **out, size_t *bytes);

/* ---- IDX (idx.c): MNIST's format, http://yann.lecun.com/exdb/mnist ---- */
/* Plain or gz; big-endian values are swapped. A dimension may be 0. At most 16 GiB, as for NPY and safetensors. */
clq_status clq_idx_read(const char *path, clq_array *out);
clq_status clq_idx_look(const char *path, clq_array *out); /* the header alone: there are no data */

/* ---- NPY (npy.c): numpy's format, versions 1.0 to 3.0, C or Fortran order, either byte order ---- */
clq_status clq_npy_read(const char *path, clq_array *out);
clq_status clq_npy_look(const char *path, clq_array *out);          /* the header alone: there are no data */
clq_status clq_npy_write(const char *path, const clq_array *array); /* version 1.0, by rename */

/* ---- CIFAR-10 binary (cifar.c): records of 1 label byte and 3 x 32 x 32 planes ---- */
/* Reads `count` files one after another into images (n, 32, 32, 3) u8 and labels (n) u8. */
clq_status clq_cifar10_read(const char *const *paths, size_t count, clq_array *images, clq_array *labels);

/* ---- safetensors (safetensors.c): https://github.com/huggingface/safetensors ---- */

typedef struct clq_safetensors clq_safetensors;
/* Reads and checks a whole file (mapped, one cut short meanwhile would end the process): header at most 100 MB, no
 * holes, no overlap, no duplicate keys, every shape product checked. */
clq_status clq_safetensors_open(const char *path, clq_safetensors **out);
void clq_safetensors_close(clq_safetensors *file);
size_t clq_safetensors_count(const clq_safetensors *file);
typedef struct clq_safetensors_entry {
    const char *name;
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    size_t count, bytes;
    const void *data; /* the file's until it is closed; may be unaligned */
} clq_safetensors_entry;
/* In the order of their data. NULL from `count` on. */
const clq_safetensors_entry *clq_safetensors_at(const clq_safetensors *file, size_t index);
const clq_safetensors_entry *clq_safetensors_find(const clq_safetensors *file, const char *name); /* or NULL */
const char *clq_safetensors_metadata(const clq_safetensors *file, const char *key);               /* or NULL */
/* All of them: pair number `index`, from 0; false behind the last. Borrowed. */
bool clq_safetensors_metadata_at(const clq_safetensors *file, size_t index, const char **key, const char **value);

typedef struct clq_safetensors_source {
    const char *name;
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    const void *data;
} clq_safetensors_source;
/* Writes by rename, the tensors in the order given. metadata: `metadata_count` pairs key, value; may be NULL with 0. */
clq_status clq_safetensors_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_count);

/* ---- Keras's files (keras_file.c): .keras archives and .weights.h5 ----
 * Read and written as safetensors whose names are the paths of the file's datasets, as "layers/dense/vars/0"; values
 * are f32, f64, or, of whole numbers, i64. Metadata: "keras_config", the text of an archive's config.json, and for each
 * layer with a name "name:layers/dense". By a program, which a build without HDF5 or libzip does not have. */

bool clq_keras_file_is(const char *path); /* by its ending, as the next */
bool clq_keras_file_is_archive(const char *path);
bool clq_keras_files_built(void);
clq_status clq_keras_files_check(const char *path); /* UNSUPPORTED, with what is to be done, if it was not built */
/* Errors: NOT_FOUND, READ, FORMAT, UNSUPPORTED, WRITE (no room for a file between), SYSTEM, MEMORY. */
clq_status clq_keras_file_open(const char *path, clq_safetensors **out);
/* tensors: of f32 or i32; with "keras_config" among the metadata an archive is written, else HDF5. By rename. */
clq_status clq_keras_file_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                const char *const *metadata, size_t metadata_count);

/* ---- JSON (json.c): Jansson with limits ---- */
#include <jansson.h>
/* Parses an object or array with at most max_depth nested containers; duplicate keys are refused. The message
 * names `where` (a path), line and column. Caller: json_decref. */
clq_status clq_json_parse(const char *text, size_t bytes, size_t max_depth, const char *where, json_t **out);
clq_status clq_json_read(const char *path, size_t max_bytes, size_t max_depth, json_t **out);
/* Whether Jansson will take a text: asked beforehand, so that its refusal later can only mean memory. */
bool clq_is_utf8(const char *text);
/* What JSON cannot hold, as it can: "?" for each byte of a text that belongs to no character of UTF-8, and null for a
 * number that is not finite. NULL only where memory is out. */
json_t *clq_json_text(const char *text);
json_t *clq_json_number(double value);
/* The list with the entry at its end. Both are taken: where either is NULL or memory is out, NULL and nothing is kept,
 * so that a document is whole or none. */
json_t *clq_json_append(json_t *list, json_t *entry);
/* The object with the value behind its last key, or in place of the value that the key has; the same of failures. */
json_t *clq_json_put(json_t *object, const char *key, json_t *value);
/* As json_copy, whose copies lack what there was no memory for. NULL: out of memory. */
json_t *clq_json_copy(json_t *value);
/* Adds the document to the text; text->failed where memory is out. flags: Jansson's. */
void clq_json_dump(const json_t *document, size_t flags, clq_text *text);
char *clq_json_dumps(const json_t *value, size_t flags); /* NULL on failure; clq_free() */

/* ---- trace events (trace_events.c): the format of chrome://tracing, which ui.perfetto.dev reads ---- */

typedef struct clq_trace_writer clq_trace_writer;
clq_status clq_trace_writer_open(const char *path, clq_trace_writer **out);
/* Names a process; label (may be NULL) is a remark about it. Names a thread of it. In all texts what is no UTF-8
 * becomes question marks. */
clq_status clq_trace_writer_process(clq_trace_writer *writer, unsigned process, const char *name, const char *label);
clq_status clq_trace_writer_thread(clq_trace_writer *writer, unsigned process, unsigned thread, const char *name);
/* A complete event "scope/name". */
typedef struct clq_trace_event {
    unsigned process, thread;
    const char *scope, *name; /* scope may be NULL */
    double begin_s, end_s;
    const char *key; /* of `value`; NULL: there is none */
    uint64_t value;
} clq_trace_event;
clq_status clq_trace_writer_put(clq_trace_writer *writer, const clq_trace_event *event);
clq_status clq_trace_writer_commit(clq_trace_writer *writer); /* appears by rename; frees it, whatever it returns */
void clq_trace_writer_cancel(clq_trace_writer *writer);       /* nothing is left behind; takes NULL */

#endif
