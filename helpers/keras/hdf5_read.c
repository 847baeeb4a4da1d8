/* The datasets of an HDF5 file. Only what Keras writes is taken: groups and datasets by hard links, values in the file
 * itself. A file that says more of a dataset than it stores is refused before memory is asked for. */
#include "keras/keras.h"

#include <hdf5.h>
#include <string.h>

enum { DEPTH_MAX = 64, OBJECTS_MAX = 1000000, NAME_MAX_BYTES = 1024, EXPANSION_MAX = 1000 };

typedef struct walk {
    const char *path; /* of the file */
    keras_content *to;
    char name[4 * NAME_MAX_BYTES]; /* of the object that the walk is at, from the root on */
    unsigned depth;
    size_t objects;
    clq_status status;
} walk;

static clq_status fail_at(const walk *w, clq_status status, const char *what) {
    return clq_fail(status, "%s: '%.200s': %s", w->path, w->name, what);
}

/* ---- datasets ---- */

/* A text that an object has as an attribute; NULL: it has none. H5free_memory. */
static char *read_attribute(hid_t object, const char *name) {
    char *text = NULL;
    const hid_t attribute = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    const hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    const hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    if (type >= 0 && space >= 0 && H5Tis_variable_str(type) > 0 && H5Sget_simple_extent_npoints(space) == 1 &&
        H5Aread(attribute, type, &text) < 0)
        text = NULL;
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    if (attribute >= 0) (void)H5Aclose(attribute);
    return text;
}

/* Keras stores such numbers as opaque ones of two bytes. */
static bool is_bfloat(hid_t dataset) {
    char *text = read_attribute(dataset, "dtype");
    const bool is = text && strcmp(text, "bfloat16") == 0;
    if (text) (void)H5free_memory(text);
    return is;
}

/* As the file's type is; false: it is none that a tensor has. *memory_type: that of the file, or one of HDF5's own. */
static bool find_type(hid_t dataset, hid_t file_type, clq_dtype *out, hid_t *memory_type) {
    const H5T_class_t class = H5Tget_class(file_type);
    const size_t bytes = H5Tget_size(file_type);
    if (class == H5T_FLOAT && (bytes == 4 || bytes == 8)) {
        *out = bytes == 4 ? CLQ_F32 : CLQ_F64;
        *memory_type = bytes == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
        return true;
    }
    if (class == H5T_FLOAT && bytes == 2) { /* read as float32, which has all its values */
        *out = CLQ_F32;
        *memory_type = H5T_NATIVE_FLOAT;
        return true;
    }
    if (class == H5T_OPAQUE && bytes == 2 && is_bfloat(dataset)) {
        *out = CLQ_BF16;
        *memory_type = file_type;
        return true;
    }
    *out = CLQ_I64;
    *memory_type = H5T_NATIVE_INT64;
    return class == H5T_INTEGER && bytes <= 8;
}

static clq_status find_shape(const walk *w, hid_t dataset, clq_safetensors_source *out) {
    hsize_t dims[CLQ_ARRAY_DIMS_MAX] = {0};
    const hid_t space = H5Dget_space(dataset);
    const int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    const bool fits = rank >= 0 && rank <= CLQ_ARRAY_DIMS_MAX && H5Sget_simple_extent_type(space) != H5S_NULL &&
                      (rank == 0 || H5Sget_simple_extent_dims(space, dims, NULL) == rank);
    if (space >= 0) (void)H5Sclose(space);
    if (!fits) return fail_at(w, CLQ_ERROR_FORMAT, "its shape is damaged, or has too many axes");
    out->rank = (unsigned)rank;
    for (int d = 0; d < rank; d++) {
        if (dims[d] > KERAS_BYTES_MAX) return fail_at(w, CLQ_ERROR_FORMAT, "its shape is damaged");
        out->dims[d] = (size_t)dims[d];
    }
    return CLQ_OK;
}

/* Values elsewhere than in the file are nobody's weights. */
static clq_status check_storage(const walk *w, hid_t dataset, size_t bytes) {
    const hid_t how = H5Dget_create_plist(dataset);
    const H5D_layout_t layout = how < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(how);
    const int external = how < 0 ? -1 : H5Pget_external_count(how);
    if (how >= 0) (void)H5Pclose(how);
    if (layout < H5D_COMPACT || layout > H5D_CHUNKED || external != 0)
        return fail_at(w, CLQ_ERROR_FORMAT, "its values are not stored in the file, or its layout is damaged");
    const hsize_t stored = H5Dget_storage_size(dataset);
    if (bytes > EXPANSION_MAX * stored)
        return fail_at(w, CLQ_ERROR_FORMAT, "it has a shape of far more bytes than are stored");
    return CLQ_OK;
}

static clq_status take_values(walk *w, hid_t dataset, hid_t memory_type, clq_safetensors_source *tensor) {
    keras_content *to = w->to;
    size_t count = 1, bytes;
    for (unsigned d = 0; d < tensor->rank; d++)
        if (!clq_mul_size(count, tensor->dims[d], &count)) return fail_at(w, CLQ_ERROR_FORMAT, "its shape is damaged");
    if (!clq_mul_size(count, clq_dtype_bytes(tensor->dtype), &bytes) || bytes > KERAS_BYTES_MAX - to->bytes)
        return fail_at(w, CLQ_ERROR_FORMAT, "it is larger than what is read");
    CLQ_TRY(check_storage(w, dataset, bytes));
    clq_safetensors_source *grown = clq_grow(to->tensors, to->count, &to->capacity, 64, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    to->tensors = grown;
    tensor->name = clq_strdup(w->name);
    void *values = tensor->name ? clq_alloc_aligned(64, CLQ_MAX(bytes, (size_t)1)) : NULL;
    tensor->data = values;
    to->tensors[to->count++] = *tensor;
    to->bytes += bytes;
    if (!values) return CLQ_ERROR_MEMORY;
    if (!clq_is_utf8(w->name)) return fail_at(w, CLQ_ERROR_FORMAT, "its name is no UTF-8");
    if (count && H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        return fail_at(w, CLQ_ERROR_FORMAT, "its values cannot be read: the file is damaged");
    return CLQ_OK;
}

/* Values of other types than numbers are left out: they are no weights. */
static clq_status take_dataset(walk *w, hid_t dataset) {
    clq_safetensors_source tensor = {0};
    hid_t memory_type;
    const hid_t type = H5Dget_type(dataset);
    if (type < 0) return fail_at(w, CLQ_ERROR_FORMAT, "its type is damaged");
    clq_status status = CLQ_OK;
    if (find_type(dataset, type, &tensor.dtype, &memory_type)) {
        status = find_shape(w, dataset, &tensor);
        if (status == CLQ_OK) status = take_values(w, dataset, memory_type, &tensor);
    }
    (void)H5Tclose(type);
    return status;
}

/* ---- groups ---- */

/* "name" of the group "…/vars": what the layer is called. Without it nothing is lost. */
static clq_status take_name(walk *w, hid_t group) {
    const size_t length = strlen(w->name);
    if (length < 5 || strcmp(w->name + length - 5, "/vars") != 0) return CLQ_OK;
    char *text = read_attribute(group, "name"), key[sizeof w->name + 8];
    clq_status status = CLQ_OK;
    if (text && clq_is_utf8(text)) {
        (void)snprintf(key, sizeof key, "name:%.*s", (int)(length - 5), w->name);
        status = keras_note(w->to, key, text, strlen(text));
    }
    if (text) (void)H5free_memory(text);
    return status;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *context);

static clq_status walk_group(walk *w, hid_t group) {
    hsize_t at = 0;
    CLQ_TRY(take_name(w, group));
    if (w->depth == DEPTH_MAX) return fail_at(w, CLQ_ERROR_FORMAT, "groups lie too deep in one another");
    w->depth++;
    const herr_t walked = H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &at, visit, w);
    w->depth--;
    if (w->status != CLQ_OK) return w->status;
    return walked < 0 ? fail_at(w, CLQ_ERROR_FORMAT, "the group is damaged") : CLQ_OK;
}

static clq_status take_object(walk *w, hid_t group, const char *name, const H5L_info_t *info) {
    if (++w->objects > OBJECTS_MAX) return fail_at(w, CLQ_ERROR_FORMAT, "the file has more objects than are read");
    if (info->type != H5L_TYPE_HARD) return fail_at(w, CLQ_ERROR_FORMAT, "links to other places are not followed");
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) return fail_at(w, CLQ_ERROR_FORMAT, "it cannot be opened: the file is damaged");
    const H5I_type_t type = H5Iget_type(object);
    const clq_status status = type == H5I_GROUP     ? walk_group(w, object)
                              : type == H5I_DATASET ? take_dataset(w, object)
                                                    : CLQ_OK;
    (void)H5Oclose(object);
    return status;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *context) {
    walk *w = context;
    const size_t length = strlen(w->name), more = strlen(name);
    if (more == 0 || length + more + 2 > sizeof w->name) {
        w->status = fail_at(w, CLQ_ERROR_FORMAT, "the name of what is in it is empty or too long");
        return -1;
    }
    (void)snprintf(w->name + length, sizeof w->name - length, "%s%s", length ? "/" : "", name);
    w->status = take_object(w, group, name, info);
    w->name[length] = '\0';
    return w->status == CLQ_OK ? 0 : -1;
}

clq_status keras_hdf5_read(const char *path, void *image, size_t bytes, keras_content *to) {
    walk w = {.path = path, .to = to};
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* it would print its stack of errors */
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file = -1;
    if (access >= 0 && H5Pset_fapl_core(access, (size_t)1 << 20, 0) >= 0 &&
        H5Pset_file_image(access, image, bytes) >= 0)
        file = H5Fopen(KERAS_NO_FILE, H5F_ACC_RDONLY, access);
    if (access >= 0) (void)H5Pclose(access);
    if (file < 0) return clq_fail(CLQ_ERROR_FORMAT, "%s: no HDF5 file, or it is damaged", path);
    const hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    const clq_status status =
        root < 0 ? clq_fail(CLQ_ERROR_FORMAT, "%s: the HDF5 file is damaged", path) : walk_group(&w, root);
    if (root >= 0) (void)H5Gclose(root);
    (void)H5Fclose(file);
    return status;
}
