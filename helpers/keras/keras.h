/* clique-keras-files: Keras's .keras and .weights.h5 files as safetensors, and back. The library starts it for each
 * such file (src/formats/keras_file.c). It is a process of its own, because HDF5 may crash on a damaged file, allocates
 * what the file says, and is neither small nor made for several threads.
 *
 * A tensor of the safetensors has the path of its dataset for a name: "layers/dense/vars/0". Their metadata have the
 * text of config.json as "keras_config", if there is one, and for each group with a name "name:layers/dense". */
#ifndef HELPERS_KERAS_H
#define HELPERS_KERAS_H

#include "formats/formats.h"

/* The most that a file may hold. */
#define KERAS_BYTES_MAX ((size_t)16 << 30)

/* What is in a file. Start with {0}, release in any case. */
typedef struct keras_content {
    clq_safetensors_source *tensors; /* their names and data are the content's, if `owns` */
    size_t count, capacity;
    char **metadata; /* pairs of keys and values; the content's */
    size_t metadata_count, metadata_capacity;
    size_t bytes; /* of all tensors */
} keras_content;
void keras_release(keras_content *content);
/* Both texts are copied. */
clq_status keras_note(keras_content *content, const char *key, const char *value, size_t value_bytes);

/* ---- zip archives (archive.c) ---- */

bool keras_is_archive(const void *bytes, size_t count);
/* A member of the archive, with a zero byte behind it; NULL with CLQ_OK: it has none of this name. The caller's. */
clq_status keras_archive_read(const char *path, const char *member, void **out, size_t *bytes);
typedef struct keras_member {
    const char *name;
    const void *data;
    size_t bytes;
} keras_member;
/* Members are stored as they are, as Keras does. */
clq_status keras_archive_write(const char *path, const keras_member *members, size_t count);

/* ---- HDF5 (hdf5_read.c, hdf5_write.c) ---- */

/* HDF5 wants a name for a file in memory, and refuses that of one that exists: no file can lie here. */
#define KERAS_NO_FILE "/dev/null/weights"
/* Adds all datasets and names of groups of the file, which is in memory. */
clq_status keras_hdf5_read(const char *path, void *image, size_t bytes, keras_content *to);
/* The file's bytes, the caller's. */
clq_status keras_hdf5_write(const char *path, const clq_safetensors *from, void **out, size_t *bytes);

#endif
