/* formats: readers and writers of other programs' file formats. They turn bytes into checked structures, and know no
 * datasets and no models. Every reader treats its input as hostile: it checks sizes before it multiplies, allocates or
 * reads them. */
#ifndef CLQ_FORMATS_H
#define CLQ_FORMATS_H

#include "base/base.h"

/* ---- arrays (array.c): what the readers give ---- */

enum { CLQ_ARRAY_DIMS_MAX = 8 };
/* A dense array in C order and host byte order. The array owns its data, which are 64-byte aligned. */
typedef struct clq_array {
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    size_t count; /* product of dims; 1 for rank 0 */
    void *data;
} clq_array;
clq_status clq_array_create(clq_dtype dtype, unsigned rank, const size_t *dims, clq_array *out); /* zeroed */
void clq_array_release(clq_array *array);                                                        /* takes {0} */
/* Writes a description such as "(60000, 28, 28) u8" to `text`, for messages. */
void clq_array_describe(const clq_array *array, char *text, size_t bytes);

/* ---- gz (gz.c) ---- */

/* Reads a file's content, and inflates it if it begins with the gzip magic. Refuses more than max_bytes inflated,
 * truncated streams, bad checksums and trailing garbage. *out is 64-byte aligned; the caller frees it by clq_free. */
clq_status clq_gz_read(const char *path, size_t max_bytes, void **out, size_t *bytes);
/* Reads the first bytes of the same content, at most max_bytes. Does not look at what follows them. */
clq_status clq_gz_peek(const char *path, size_t max_bytes, void **out, size_t *bytes);

/* ---- IDX (idx.c): MNIST's format, http://yann.lecun.com/exdb/mnist ---- */
/* Read a plain or gzipped file; big-endian values are swapped. A dimension may be 0. A file has at most 16 GiB, as for
 * NPY and safetensors. */
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
/* Reads a whole file and checks it: header at most 100 MB, no holes, no overlap, no duplicate keys, every shape product
 * checked. The file is read, not mapped: a mapped file that another process truncates would end this process. */
clq_status clq_safetensors_open(const char *path, clq_safetensors **out);
void clq_safetensors_close(clq_safetensors *file);
size_t clq_safetensors_count(const clq_safetensors *file);
typedef struct clq_safetensors_entry {
    const char *name;
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    size_t count, bytes;
    const void *data; /* owned by the file, until it is closed; may be unaligned */
} clq_safetensors_entry;
/* The entries in the order of their data. NULL if `index` is not below `count`. */
const clq_safetensors_entry *clq_safetensors_at(const clq_safetensors *file, size_t index);
const clq_safetensors_entry *clq_safetensors_find(const clq_safetensors *file, const char *name); /* or NULL */
const char *clq_safetensors_metadata(const clq_safetensors *file, const char *key);               /* or NULL */
/* Gives the metadata's pair number `index`, from 0. False if there is no such pair. The texts are borrowed. */
bool clq_safetensors_metadata_at(const clq_safetensors *file, size_t index, const char **key, const char **value);

typedef struct clq_safetensors_source {
    const char *name;
    clq_dtype dtype;
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX];
    const void *data;
} clq_safetensors_source;
/* Writes the tensors in the order given, by rename. metadata: `metadata_count` pairs of key and value; may be NULL if
 * the count is 0. */
clq_status clq_safetensors_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_count);

/* ---- Keras's files (keras_file.c): .keras archives and .weights.h5 ----
 * Clique reads and writes these files as safetensors. The tensors' names are the paths of the datasets in the Keras
 * file, such as "layers/dense/vars/0". Values are f32 or f64, and i64 if the dataset has an integer type. Metadata:
 * "keras_config", the text of an archive's config.json, and, for each layer with a name, a key such as
 * "name:layers/dense". A separate program converts the files. A build without HDF5 or libzip lacks this program. */

bool clq_keras_file_is(const char *path); /* both go by the path's ending */
bool clq_keras_file_is_archive(const char *path);
bool clq_keras_files_built(void);
clq_status clq_keras_files_check(const char *path); /* UNSUPPORTED, with what to do, if the program was not built */
/* Errors: NOT_FOUND, READ, FORMAT, UNSUPPORTED, WRITE (no room for the temporary file), SYSTEM, MEMORY. */
clq_status clq_keras_file_open(const char *path, clq_safetensors **out);
/* tensors: f32 or i32. Writes an archive if the metadata have "keras_config", otherwise HDF5. By rename. */
clq_status clq_keras_file_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                const char *const *metadata, size_t metadata_count);

/* ---- JSON (json.c): Jansson with limits ---- */
#include <jansson.h>
/* Parses an object or array with at most max_depth nested containers; duplicate keys are refused. Errors name `where`
 * (a path), line and column. The caller releases *out by json_decref. */
clq_status clq_json_parse(const char *text, size_t bytes, size_t max_depth, const char *where, json_t **out);
clq_status clq_json_read(const char *path, size_t max_bytes, size_t max_depth, json_t **out);
/* Whether Jansson accepts a text. A caller that asks beforehand knows that a later failure of Jansson can only mean
 * that memory is out. */
bool clq_is_utf8(const char *text);
/* Make JSON values from values that JSON may not be able to hold. In a text, each byte that is not part of valid UTF-8
 * becomes "?". A number that is not finite becomes null. NULL only if memory is out. */
json_t *clq_json_text(const char *text);
json_t *clq_json_number(double value);
/* Appends the entry to the list and returns the list. Takes over both. If either is NULL or memory is out, frees both
 * and returns NULL, so that a document is never incomplete. */
json_t *clq_json_append(json_t *list, json_t *entry);
/* Sets a key of the object and returns the object. A new key goes to the object's end. Takes over object and value, and
 * fails as clq_json_append does. */
json_t *clq_json_put(json_t *object, const char *key, json_t *value);
/* As json_copy, but never incomplete: json_copy leaves out what it has no memory for. NULL: out of memory. */
json_t *clq_json_copy(json_t *value);
/* Adds the document to the text; text->failed is set if memory is out. flags: Jansson's. */
void clq_json_dump(const json_t *document, size_t flags, clq_text *text);
char *clq_json_dumps(const json_t *value, size_t flags); /* NULL on failure; clq_free() */

/* ---- trace events (trace_events.c): the format of chrome://tracing, which ui.perfetto.dev reads ---- */

typedef struct clq_trace_writer clq_trace_writer;
clq_status clq_trace_writer_open(const char *path, clq_trace_writer **out);
/* Name a process, and a thread of a process. label: a remark about the process; may be NULL. In all texts, bytes that
 * are not valid UTF-8 become question marks. */
clq_status clq_trace_writer_process(clq_trace_writer *writer, unsigned process, const char *name, const char *label);
clq_status clq_trace_writer_thread(clq_trace_writer *writer, unsigned process, unsigned thread, const char *name);
/* A complete event, with the name "scope/name". */
typedef struct clq_trace_event {
    unsigned process, thread;
    const char *scope, *name; /* scope may be NULL */
    double begin_s, end_s;
    const char *key; /* the name of `value`; NULL: there is no value */
    uint64_t value;
} clq_trace_event;
clq_status clq_trace_writer_put(clq_trace_writer *writer, const clq_trace_event *event);
clq_status clq_trace_writer_commit(clq_trace_writer *writer); /* appears by rename; frees it, whatever it returns */
void clq_trace_writer_cancel(clq_trace_writer *writer);       /* nothing is left behind; takes NULL */

#endif
