/* Synthetic data that can be learned: each class has a blocky pattern, and each sample is its class's pattern with
 * noise. All values are integers computed by Philox, so they are the same on every machine. */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

enum {
    SEED = 2026,
    CELLS = 7,      /* the most blocks along an axis */
    TEST_SHARE = 6, /* training samples for each test sample */
    CLASSES_MAX = 1 << 16,
};

/* The test part has streams of its own, after those of the training part. Both parts share the patterns. */
enum { STREAM_PATTERN, STREAM_LABEL, STREAM_NOISE, STREAMS };

typedef struct recipe {
    unsigned rank;
    size_t dims[CLQ_ARRAY_DIMS_MAX]; /* (samples, shape…) */
    size_t elements;                 /* of one sample */
    size_t classes, places;          /* places: labels of a sample, all alike */
    uint64_t streams;                /* number of the part's first stream */
} recipe;

/* ---- "28x28/10/60000", or "28x28/10/60000/4" ---- */

static bool parse_shape(const char *text, recipe *out) {
    unsigned count;
    out->elements = 1;
    if (!clq_parse_sizes(text, CLQ_SHAPE_MAX, out->dims + 1, &count)) return false;
    out->rank = 1 + count;
    for (unsigned d = 1; d < out->rank; d++)
        if (!clq_mul_size(out->elements, out->dims[d], &out->elements) || out->elements > INT32_MAX) return false;
    return true;
}

static clq_status parse(const char *description, bool test, recipe *out) {
    char text[128];
    uint64_t class_count = 10, samples = 60000, place_count = 1;
    *out = (recipe){.streams = test ? STREAMS : 0};
    bool good = snprintf(text, sizeof text, "%s", description) < (int)sizeof text;
    char *places = text, *dims = strsep(&places, "/"), *classes = strsep(&places, "/"), *count = strsep(&places, "/");
    good = good && parse_shape(*description ? dims : "28x28", out);
    if (classes) good = good && clq_parse_u64(classes, 1, CLASSES_MAX, &class_count);
    if (count) good = good && clq_parse_u64(count, 1, INT32_MAX, &samples);
    if (places) good = good && clq_parse_u64(places, 1, INT32_MAX, &place_count);
    if (!good)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "synthetic:%s: expected synthetic, or synthetic:SHAPE/CLASSES/COUNT/PLACES such as "
                        "synthetic:32x32x3/10/60000",
                        description);
    out->classes = (size_t)class_count;
    out->places = (size_t)place_count;
    out->dims[0] = clq_ceil_div((size_t)samples, test ? TEST_SHARE : 1);
    return CLQ_OK;
}

/* ---- making it ---- */

/* The block in which a sample's element lies. *cells: the number of blocks. */
static size_t cell_of(const recipe *r, size_t element, size_t *cells) {
    size_t cell = 0, stride = 1;
    for (unsigned axis = r->rank - 1; axis >= 1; axis--) {
        size_t dim = r->dims[axis], along = CLQ_MIN(dim, (size_t)CELLS);
        cell += element % dim * along / dim * stride;
        stride *= along;
        element /= dim;
    }
    *cells = stride;
    return cell;
}

/* patterns (classes, elements) */
static void make_patterns(const recipe *r, uint8_t *patterns) {
    for (size_t element = 0; element < r->elements; element++) {
        size_t cells, cell = cell_of(r, element, &cells);
        for (size_t c = 0; c < r->classes; c++)
            patterns[c * r->elements + element] =
                (uint8_t)clq_philox4x32(SEED, c * cells + cell, STREAM_PATTERN).word[0];
    }
}

/* Adds noise to a value. noise: 0 to 255, of which 128 means none. */
static uint8_t with_noise(uint8_t value, uint32_t noise) {
    int sum = value + (int)noise - 128;
    return (uint8_t)CLQ_MAX(0, CLQ_MIN(sum, 255));
}

/* A block of random numbers has 16 bytes, the noise of 16 elements. */
static void make_sample(const recipe *r, size_t number, const uint8_t *pattern, uint8_t *out) {
    const size_t blocks = clq_ceil_div(r->elements, 16);
    for (size_t block = 0; block < blocks; block++) {
        clq_philox noise = clq_philox4x32(SEED, number * blocks + block, r->streams + STREAM_NOISE);
        size_t first = block * 16, count = CLQ_MIN((size_t)16, r->elements - first);
        for (size_t i = 0; i < count; i++)
            out[first + i] = with_noise(pattern[first + i], noise.word[i / 4] >> i % 4 * 8 & 0xFF);
    }
}

static clq_status make(const recipe *r, clq_array *samples, clq_array *labels) {
    size_t bytes;
    if (!clq_mul_size(r->classes, r->elements, &bytes))
        return clq_fail(CLQ_ERROR_MEMORY, "the patterns do not fit in memory");
    CLQ_TRY(clq_array_create(CLQ_U8, r->rank, r->dims, samples));
    CLQ_TRY(clq_array_create(CLQ_I32, 2, (const size_t[]){r->dims[0], r->places}, labels));
    uint8_t *patterns = clq_alloc(bytes, 1);
    if (!patterns) return CLQ_ERROR_MEMORY;
    make_patterns(r, patterns);
    int32_t *values = labels->data;
    uint8_t *to = samples->data;
    for (size_t n = 0; n < r->dims[0]; n++) {
        size_t label = clq_philox4x32(SEED, n, r->streams + STREAM_LABEL).word[0] % r->classes;
        for (size_t place = 0; place < r->places; place++) values[n * r->places + place] = (int32_t)label;
        make_sample(r, n, patterns + label * r->elements, to + n * r->elements);
    }
    clq_free(patterns);
    return CLQ_OK;
}

clq_status clq_source_synthetic_look(const char *description, clq_dataset_sight *out) {
    recipe r;
    CLQ_TRY(parse(description, false, &r));
    *out = (clq_dataset_sight){.rank = r.rank - 1, .classes = r.classes};
    for (unsigned i = 1; i < r.rank; i++) out->shape[i - 1] = r.dims[i];
    return CLQ_OK;
}

clq_status clq_source_synthetic(const char *description, const char *part, clq_dataset **out) {
    bool test = false;
    recipe r;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(parse(description, test, &r));
    clq_array samples = {0}, labels = {0};
    clq_status status = make(&r, &samples, &labels);
    if (status != CLQ_OK) {
        clq_array_release(&samples);
        clq_array_release(&labels);
        return clq_fail_within(status, "synthetic:%s", description);
    }
    const clq_data_origin origin = {.name = test ? "synthetic (test)" : "synthetic (train)",
                                    .samples = "synthetic samples",
                                    .labels = "synthetic labels"};
    return clq_dataset_adopt(&origin, &samples, &labels, out);
}
