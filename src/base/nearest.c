/* Finds the known word that is nearest to an unknown word, for messages. */
#include "base/base.h"

#include <string.h>

enum { LENGTH_MOST = 63 };

/* The number of insertions, deletions, substitutions and swaps of neighbours that turn one word into the other, if no
 * letter is changed twice (optimal string alignment). */
static size_t distance_of(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][LENGTH_MOST + 1]; /* row i is rows[i % 3] */
    for (size_t k = 0; k <= b_length; k++) rows[0][k] = k;
    for (size_t i = 1; i <= a_length; i++) {
        const size_t *above = rows[(i - 1) % 3], *above_that = rows[(i + 1) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t k = 1; k <= b_length; k++) {
            row[k] = CLQ_MIN(above[k], row[k - 1]) + 1;
            row[k] = CLQ_MIN(row[k], above[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = CLQ_MIN(row[k], above_that[k - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

clq_nearest clq_nearest_of(const char *word) { return (clq_nearest){.word = word, .length = strlen(word)}; }

void clq_nearest_try(clq_nearest *nearest, const char *known) {
    const size_t length = nearest->length, known_length = strlen(known);
    if (length == 0 || length > LENGTH_MOST || known_length > LENGTH_MOST) return;
    size_t distance = distance_of(nearest->word, length, known, known_length);
    /* A word that is the beginning of a known word is near, however much is missing. */
    if (length > 1 && length < known_length && memcmp(nearest->word, known, length) == 0) distance = 1;
    const size_t most = CLQ_MAX(length / 3, (size_t)1);
    if (distance > most || distance >= known_length || (nearest->found && distance >= nearest->distance)) return;
    nearest->found = known;
    nearest->distance = distance;
}

void clq_nearest_add(const clq_nearest *nearest, clq_text *text) {
    if (nearest->found) clq_text_add(text, "; did you mean '%s'?", nearest->found);
}

clq_status clq_nearest_fail(const clq_nearest *nearest, const char *format, ...) {
    clq_text text = {0};
    va_list arguments;
    va_start(arguments, format);
    clq_text_add_list(&text, format, arguments);
    va_end(arguments);
    clq_nearest_add(nearest, &text);
    const clq_status status =
        text.failed ? clq_fail_memory("naming what there is") : clq_fail(CLQ_ERROR_ARGUMENT, "%s", text.data);
    clq_free(text.data);
    return status;
}

clq_status clq_find_word(const char *what, const char *word, const char *const *words, size_t *out) {
    clq_text known = {0};
    clq_nearest nearest = clq_nearest_of(word);
    for (size_t i = 0; words[i]; i++) {
        if (strcmp(words[i], word) == 0) {
            clq_free(known.data);
            *out = i;
            return CLQ_OK;
        }
        clq_text_add(&known, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
        clq_nearest_try(&nearest, words[i]);
    }
    const clq_status status = known.failed ? clq_fail_memory("naming what there is")
                                           : clq_nearest_fail(&nearest, "%s '%s': expected %s", what, word, known.data);
    clq_free(known.data);
    return status;
}
