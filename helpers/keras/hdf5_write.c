/* An HDF5 file as Keras writes it: a group for each layer, its variables in the group's "vars". */
#include "keras/keras.h"

#include <hdf5.h>
#include <string.h>

typedef struct target {
    const char *path; /* for messages */
    hid_t file, links, times_off;
} target;

static clq_status fail_write(const target *t, const char *name) {
    return clq_fail(CLQ_ERROR_WRITE, "%s: HDF5 does not write '%.200s'", t->path, name);
}

static clq_status write_tensor(const target *t, const clq_safetensors_entry *entry) {
    hsize_t dims[CLQ_ARRAY_DIMS_MAX];
    for (unsigned d = 0; d < entry->rank; d++) dims[d] = entry->dims[d];
    const bool whole = entry->dtype == CLQ_I32;
    if (!whole && entry->dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_INTERNAL, "%s: '%.200s' is neither f32 nor i32", t->path, entry->name);
    const hid_t space = entry->rank ? H5Screate_simple((int)entry->rank, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t dataset = -1;
    if (space >= 0)
        dataset = H5Dcreate2(t->file, entry->name, whole ? H5T_STD_I32LE : H5T_IEEE_F32LE, space, t->links,
                             t->times_off, H5P_DEFAULT);
    const herr_t written = dataset < 0 ? -1
                                       : H5Dwrite(dataset, whole ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT, H5S_ALL,
                                                  H5S_ALL, H5P_DEFAULT, entry->data);
    const herr_t closed = dataset < 0 ? -1 : H5Dclose(dataset);
    if (space >= 0) (void)H5Sclose(space);
    return written < 0 || closed < 0 ? fail_write(t, entry->name) : CLQ_OK;
}

static clq_status write_tensors(const target *t, const clq_safetensors *from) {
    for (size_t i = 0; i < clq_safetensors_count(from); i++) CLQ_TRY(write_tensor(t, clq_safetensors_at(from, i)));
    return CLQ_OK;
}

static clq_status write_all(target *t, const clq_safetensors *from, void **out, size_t *bytes) {
    CLQ_TRY(write_tensors(t, from));
    if (H5Fflush(t->file, H5F_SCOPE_GLOBAL) < 0) return fail_write(t, "the file");
    const ssize_t size = H5Fget_file_image(t->file, NULL, 0);
    if (size <= 0) return fail_write(t, "the file");
    void *image = clq_alloc_aligned(64, (size_t)size);
    if (!image) return CLQ_ERROR_MEMORY;
    if (H5Fget_file_image(t->file, image, (size_t)size) != size) {
        clq_free(image);
        return fail_write(t, "the file");
    }
    *out = image;
    *bytes = (size_t)size;
    return CLQ_OK;
}

clq_status keras_hdf5_write(const char *path, const clq_safetensors *from, void **out, size_t *bytes) {
    target t = {.path = path, .file = -1};
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    t.links = H5Pcreate(H5P_LINK_CREATE);
    t.times_off = H5Pcreate(H5P_DATASET_CREATE);
    const bool ready = access >= 0 && t.links >= 0 && t.times_off >= 0 &&
                       H5Pset_fapl_core(access, (size_t)1 << 20, 0) >= 0 &&
                       H5Pset_create_intermediate_group(t.links, 1) >= 0 && H5Pset_obj_track_times(t.times_off, 0) >= 0;
    if (ready) t.file = H5Fcreate(KERAS_NO_FILE, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const clq_status status = t.file < 0 ? fail_write(&t, "a file") : write_all(&t, from, out, bytes);
    if (t.file >= 0) (void)H5Fclose(t.file);
    if (access >= 0) (void)H5Pclose(access);
    if (t.links >= 0) (void)H5Pclose(t.links);
    if (t.times_off >= 0) (void)H5Pclose(t.times_off);
    return status;
}
