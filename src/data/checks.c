/* Checks and conversions of what a source delivers. */
#include "data/checks.h"

#include <math.h>
#include <string.h>

enum { DESCRIPTION = 160 };

/* ---- samples ---- */

static size_t first_not_finite(const float *values, size_t count) {
    size_t i = 0;
    while (i < count && isfinite(values[i])) i++;
    return i;
}

static clq_status check_finite(const char *where, const clq_array *samples) {
    const float *values = samples->data;
    size_t elements = samples->count / samples->dims[0];
    for (size_t n = 0; n < samples->dims[0]; n++) {
        const float *row = values + n * elements;
        size_t at = first_not_finite(row, elements);
        if (at < elements)
            return clq_fail(CLQ_FORMAT,
                            "%s: value %zu of sample %zu is %g as float32: samples must be finite; remove or "
                            "replace it",
                            where, at, n, (double)row[at]);
    }
    return CLQ_OK;
}

/* Values beyond float32 become infinite here and are refused with the others that are not finite. */
static clq_status narrow(clq_array *array) {
    clq_array f32 = {0};
    CLQ_TRY(clq_array_create(CLQ_F32, array->rank, array->dims, &f32));
    const double *from = array->data;
    float *to = f32.data;
    for (size_t i = 0; i < array->count; i++) to[i] = (float)from[i];
    clq_array_release(array);
    *array = f32;
    return CLQ_OK;
}

clq_status clq_check_samples(const char *where, clq_array *samples) {
    char text[DESCRIPTION];
    clq_array_describe(samples, text, sizeof text);
    if (samples->rank == 0 || samples->rank > CLQ_SHAPE_MAX + 1)
        return clq_fail(CLQ_UNSUPPORTED, "%s: %s: samples are (n, ...) with 1 to %d dimensions in all", where, text,
                        CLQ_SHAPE_MAX + 1);
    if (samples->dims[0] == 0) return clq_fail(CLQ_FORMAT, "%s: %s: there are no samples", where, text);
    if (samples->count == 0) return clq_fail(CLQ_FORMAT, "%s: %s: a sample has no values", where, text);
    if (samples->dtype == CLQ_U8) return CLQ_OK;
    if (samples->dtype == CLQ_F64) CLQ_TRY(narrow(samples));
    if (samples->dtype != CLQ_F32)
        return clq_fail(CLQ_UNSUPPORTED, "%s: samples are %s: convert them to u8 (scaled by 1/255 later), f32 or f64",
                        where, text);
    return check_finite(where, samples);
}

/* ---- labels ---- */

static bool is_integer(clq_dtype dtype) {
    return dtype != CLQ_F32 && dtype != CLQ_F64 && dtype != CLQ_F16 && dtype != CLQ_BF16;
}

/* The element as int64; false where it does not fit there. */
static bool integer_at(const clq_array *array, size_t i, int64_t *out) {
    switch (array->dtype) {
    case CLQ_I8: *out = ((const int8_t *)array->data)[i]; return true;
    case CLQ_I16: *out = ((const int16_t *)array->data)[i]; return true;
    case CLQ_I32: *out = ((const int32_t *)array->data)[i]; return true;
    case CLQ_I64: *out = ((const int64_t *)array->data)[i]; return true;
    case CLQ_U16: *out = ((const uint16_t *)array->data)[i]; return true;
    case CLQ_U32: *out = ((const uint32_t *)array->data)[i]; return true;
    case CLQ_U64: {
        uint64_t value = ((const uint64_t *)array->data)[i];
        *out = (int64_t)(value & INT64_MAX);
        return value <= INT64_MAX;
    }
    default: *out = ((const uint8_t *)array->data)[i]; return true; /* u8, bool */
    }
}

static void note_label(clq_labels_info *info, size_t sample, double value) {
    if (value >= info->least) return;
    info->least = value;
    info->least_at = sample;
}

static clq_status check_integers(const char *where, clq_array *labels, clq_labels_info *info) {
    clq_array i32 = {0};
    CLQ_TRY(clq_array_create(CLQ_I32, labels->rank, labels->dims, &i32));
    int32_t *to = i32.data, largest = -1;
    for (size_t i = 0; i < labels->count; i++) {
        const size_t sample = i / info->elements;
        int64_t value;
        bool fits = integer_at(labels, i, &value);
        if (!fits || value < INT32_MIN || value >= INT32_MAX) {
            clq_array_release(&i32);
            if (!fits)
                return clq_fail(CLQ_FORMAT, "%s: label %zu is beyond 2^63: class numbers go from 0", where, sample);
            return clq_fail(CLQ_FORMAT,
                            "%s: label %zu is %lld: integer labels are at most %d, and class numbers go from 0", where,
                            sample, (long long)value, INT32_MAX - 1);
        }
        to[i] = (int32_t)value;
        largest = CLQ_MAX(largest, to[i]);
        note_label(info, sample, (double)value);
    }
    clq_array_release(labels);
    *labels = i32;
    info->classes = (size_t)largest + 1;
    return CLQ_OK;
}

static clq_status check_floats(const char *where, clq_array *labels, clq_labels_info *info) {
    if (labels->dtype == CLQ_F64) CLQ_TRY(narrow(labels));
    const float *values = labels->data;
    for (size_t i = 0; i < labels->count; i++) {
        const size_t sample = i / info->elements;
        if (!isfinite(values[i]))
            return clq_fail(CLQ_FORMAT, "%s: value %zu of label %zu is %g as float32: labels must be finite", where,
                            i % info->elements, sample, (double)values[i]);
        note_label(info, sample, (double)values[i]);
    }
    return CLQ_OK;
}

clq_status clq_check_labels(const char *where, clq_array *labels, clq_labels_info *info) {
    char text[DESCRIPTION];
    clq_array_describe(labels, text, sizeof text);
    if (labels->count == 0) return clq_fail(CLQ_FORMAT, "%s: %s: there are no labels", where, text);
    info->elements = labels->count / labels->dims[0];
    info->least = (double)INFINITY;
    info->is_float = labels->dtype == CLQ_F32 || labels->dtype == CLQ_F64;
    if (info->is_float) return check_floats(where, labels, info);
    if (is_integer(labels->dtype)) return check_integers(where, labels, info);
    return clq_fail(CLQ_UNSUPPORTED, "%s: labels are %s: they must be integers, f32 or f64", where, text);
}
