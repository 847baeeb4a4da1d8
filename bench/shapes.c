/* Matrix products as options name them: 64x128x784, or with the transposed matrices, 784x128x64:tn. */
#include "bench.h"

#include <string.h>

enum { SIDE_MOST = 1 << 15 };

/* BLAS's letters for A and B: t means transposed. */
static const char *const transposes[] = {"nn", "tn", "nt", "tt"};

const char *clq_bench_shape_transpose(const clq_bench_shape *shape) {
    return transposes[shape->transposed[0] + 2 * shape->transposed[1]];
}

/* Takes the word at *at, up to one of `ends`, and moves *at past the word. */
static bool next_word(const char **at, const char *ends, char word[CLQ_BENCH_SHAPE_BYTES]) {
    size_t length = strcspn(*at, ends);
    if (length == 0 || length >= CLQ_BENCH_SHAPE_BYTES) return false;
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    return true;
}

static bool parse(clq_bench_shape *out) {
    const char *text = out->name;
    size_t *const sides[] = {&out->m, &out->n, &out->k};
    for (size_t i = 0; i < 3; i++) {
        char word[CLQ_BENCH_SHAPE_BYTES];
        uint64_t side;
        if (!next_word(&text, "x:", word) || !clq_parse_u64(word, 1, SIDE_MOST, &side)) return false;
        *sides[i] = (size_t)side;
        if (i < 2 && *text++ != 'x') return false;
    }
    size_t t = 0;
    if (*text == ':')
        for (text++; t < CLQ_COUNT_OF(transposes) && strcmp(text, transposes[t]) != 0;) t++;
    else if (*text != '\0')
        t = CLQ_COUNT_OF(transposes);
    out->transposed[0] = t & 1;
    out->transposed[1] = t >> 1;
    return t < CLQ_COUNT_OF(transposes);
}

clq_status clq_bench_shapes_set(clq_bench_shapes *shapes, const char *option, const char *text) {
    shapes->count = 0;
    for (const char *at = text;; at++) {
        clq_bench_shape *shape = &shapes->items[shapes->count];
        if (shapes->count == CLQ_COUNT_OF(shapes->items) || !next_word(&at, ",", shape->name) || !parse(shape))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "%s '%s': expected up to %zu shapes as 64x128x784 or, transposed, 784x128x64:tn, with "
                            "commas between",
                            option, text, CLQ_COUNT_OF(shapes->items));
        shapes->count++;
        if (*at == '\0') return CLQ_OK;
    }
}
