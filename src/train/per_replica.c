/* Values per replica, and metrics that are made of them. */
#include "train/distribute.h"

#include <math.h>
#include <string.h>

/* Threads of several replicas write at the same time, so no two replicas share a cache line. */
enum { LINE_BYTES = 64, LINE_DOUBLES = LINE_BYTES / sizeof(double) };

struct clq_per_replica {
    unsigned replicas, rank;
    size_t shape[CLQ_SHAPE_MAX];
    size_t elements; /* of a replica's array */
    size_t stride;   /* doubles from one replica's array to the next */
    size_t lengths[CLQ_REPLICAS_MAX];
    _Alignas(LINE_BYTES) double values[];
};

static clq_status check_shape(unsigned replicas, unsigned rank, const size_t *shape, size_t *elements, size_t *bytes) {
    *elements = 1;
    if (replicas == 0 || replicas > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "values for %u replicas: expected 1 to %d", replicas,
                        (int)CLQ_REPLICAS_MAX);
    if (rank > CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a value of %u axes: at most %d", rank, (int)CLQ_SHAPE_MAX);
    bool fits = true;
    for (unsigned i = 0; i < rank; i++) {
        if (shape[i] == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "axis %u of a value per replica has no entries", i);
        fits = fits && clq_mul_size(*elements, shape[i], elements);
    }
    fits =
        fits && *elements <= SIZE_MAX / 2 && clq_mul_size(*elements + LINE_DOUBLES, replicas * sizeof(double), bytes);
    fits = fits && *bytes <= SIZE_MAX / 2;
    return fits ? CLQ_OK : clq_fail(CLQ_ERROR_ARGUMENT, "values per replica that are larger than any memory");
}

clq_status clq_per_replica_create(unsigned replicas, unsigned rank, const size_t *shape, clq_per_replica **out) {
    size_t elements, bytes;
    CLQ_TRY(check_shape(replicas, rank, shape, &elements, &bytes));
    clq_per_replica *values = clq_alloc_aligned(LINE_BYTES, sizeof *values + bytes);
    if (!values) return CLQ_ERROR_MEMORY;
    values->replicas = replicas;
    values->rank = rank;
    values->elements = elements;
    values->stride = clq_round_up(elements, LINE_DOUBLES);
    for (unsigned i = 0; i < rank; i++) values->shape[i] = shape[i];
    for (unsigned r = 0; r < replicas; r++) values->lengths[r] = rank > 0 ? shape[0] : 1;
    *out = values;
    return CLQ_OK;
}

void clq_per_replica_destroy(clq_per_replica *values) { clq_free(values); }

double *clq_per_replica_of(clq_per_replica *values, unsigned replica) {
    return replica < values->replicas ? values->values + replica * values->stride : NULL;
}

static clq_status check_replica(const clq_per_replica *values, unsigned replica) {
    if (replica < values->replicas) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "replica %u is out of range: there are %u", replica, values->replicas);
}

clq_status clq_per_replica_set_length(clq_per_replica *values, unsigned replica, size_t length) {
    CLQ_TRY(check_replica(values, replica));
    if (values->rank == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "a number per replica has no axis to be shorter");
    if (length > values->shape[0])
        return clq_fail(CLQ_ERROR_ARGUMENT, "a length of %zu is too large: axis 0 was made with %zu", length,
                        values->shape[0]);
    values->lengths[replica] = length;
    return CLQ_OK;
}

/* ---- reducing ---- */

/* An array as (outer, along, inner). along: the axis that is reduced; 1 if no axis is reduced. */
typedef struct cut {
    size_t outer, along, inner;
} cut;

static cut cut_at(const clq_per_replica *values, int axis) {
    cut c = {1, 1, 1};
    for (unsigned i = 0; i < values->rank; i++) {
        if ((int)i == axis)
            c.along = values->shape[i];
        else if ((int)i < axis)
            c.outer *= values->shape[i];
        else
            c.inner *= values->shape[i];
    }
    return c;
}

static bool lengths_are_alike(const clq_per_replica *values) {
    for (unsigned r = 1; r < values->replicas; r++)
        if (values->lengths[r] != values->lengths[0]) return false;
    return true;
}

static clq_status check_reduction(const clq_per_replica *values, clq_reduction reduction, int axis) {
    if (reduction != CLQ_REDUCE_SUM && reduction != CLQ_REDUCE_MEAN)
        return clq_fail(CLQ_ERROR_ARGUMENT, "reduction %d is none of clq_reduction", (int)reduction);
    if (axis < CLQ_NO_AXIS || axis >= (int)values->rank)
        return clq_fail(CLQ_ERROR_ARGUMENT, "axis %d of values with %u axes: from 0, or CLQ_NO_AXIS", axis,
                        values->rank);
    if (axis != 0 && !lengths_are_alike(values))
        return clq_fail(CLQ_ERROR_MISMATCH,
                        "replicas' values are of several lengths, which only a reduction along axis 0 "
                        "adds up");
    return CLQ_OK;
}

clq_status clq_per_replica_reduce(const clq_per_replica *values, clq_reduction reduction, int axis, double *out,
                                  size_t elements) {
    CLQ_TRY(check_reduction(values, reduction, axis));
    cut c = cut_at(values, axis);
    if (axis != 0 && values->rank > 0) { /* all replicas have the same length */
        size_t *of = axis > 0 ? &c.outer : &c.inner;
        *of = *of / values->shape[0] * values->lengths[0];
    }
    if (elements != c.outer * c.inner)
        return clq_fail(CLQ_ERROR_ARGUMENT, "the result has %zu elements, and there is room for %zu", c.outer * c.inner,
                        elements);
    size_t entries = 0;
    for (size_t i = 0; i < elements; i++) out[i] = 0.0;
    for (unsigned r = 0; r < values->replicas; r++) {
        const double *from = values->values + r * values->stride;
        const size_t along = axis == 0 ? values->lengths[r] : c.along;
        for (size_t o = 0; o < c.outer; o++)
            for (size_t k = 0; k < along * c.inner; k++) out[o * c.inner + k % c.inner] += *from++;
        entries += along;
    }
    for (size_t i = 0; i < elements && reduction == CLQ_REDUCE_MEAN; i++)
        out[i] = entries > 0 ? out[i] / (double)entries : (double)NAN;
    return CLQ_OK;
}

/* ---- a mean ---- */

struct clq_mean {
    clq_per_replica *sums; /* total, count */
};

clq_status clq_mean_create(unsigned replicas, clq_mean **out) {
    clq_mean *mean = clq_alloc(1, sizeof *mean);
    if (!mean) return CLQ_ERROR_MEMORY;
    clq_status status = clq_per_replica_create(replicas, 1, (size_t[]){2}, &mean->sums);
    if (status != CLQ_OK)
        clq_free(mean);
    else
        *out = mean;
    return status;
}

void clq_mean_destroy(clq_mean *mean) {
    if (mean) clq_per_replica_destroy(mean->sums);
    clq_free(mean);
}

clq_status clq_mean_add(clq_mean *mean, unsigned replica, double total, double count) {
    CLQ_TRY(check_replica(mean->sums, replica));
    double *own = clq_per_replica_of(mean->sums, replica);
    own[0] += total;
    own[1] += count;
    return CLQ_OK;
}

double clq_mean_read(const clq_mean *mean) {
    double sums[2];
    (void)clq_per_replica_reduce(mean->sums, CLQ_REDUCE_SUM, CLQ_NO_AXIS, sums, 2);
    return sums[1] != 0.0 ? sums[0] / sums[1] : 0.0;
}

void clq_per_replica_clear(clq_per_replica *values) {
    memset(values->values, 0, values->replicas * values->stride * sizeof *values->values);
}

void clq_mean_reset(clq_mean *mean) { clq_per_replica_clear(mean->sums); }
