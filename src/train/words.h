/* Texts of options, "name:key=value,key=value", and the tables of names and keys that such texts use. Private to
 * train. */
#ifndef CLQ_TRAIN_WORDS_H
#define CLQ_TRAIN_WORDS_H

#include "train/trainer.h"

/* Such a text, cut into words: of --optimizer, --schedule, --loss, --strategy and callbacks. */
enum { CLQ_WORDS_MAX = 16, CLQ_WORD_VALUE_MAX = 160 }; /* a monitor's name fits a value */
typedef struct clq_words {
    char name[CLQ_WORD_MAX];
    size_t kind; /* index of the row with this name */
    struct {
        char key[CLQ_WORD_MAX], value[CLQ_WORD_VALUE_MAX];
    } options[CLQ_WORDS_MAX];
    unsigned count;
} clq_words;

/* `what`, such as "optimizer", begins the messages of the functions below. */

/* Finds the row of a name in a table of `count` rows. alias_of NULL: rows have one name each. Errors: ARGUMENT (lists
 * the names, and the nearest one). */
clq_status clq_parse_name(const char *what, const char *name, size_t count, const char *(*name_of)(size_t),
                          const char *(*alias_of)(size_t), size_t *out);
/* Cuts a text, and finds its name's row in such a table. */
clq_status clq_parse_words(const char *what, const char *text, size_t count, const char *(*name_of)(size_t),
                           const char *(*alias_of)(size_t), clq_words *out);
/* Cuts "key=value,key=value", which has no name and may be empty. */
clq_status clq_parse_pairs(const char *what, const char *text, clq_words *out);
/* Copies text[0, length), and a 0 after it. False: it is empty, or too long for a word. */
bool clq_copy_word(char *to, const char *text, size_t length);

/* Finds the option with this key; NULL: there is none. */
const clq_option *clq_find_option(const clq_option *options, const char *key);
/* Returns ARGUMENT, with a message that lists the known keys, and the nearest one. text: what the user wrote. name: of
 * the row. */
clq_status clq_refuse_key(const char *what, const char *text, const char *name, const clq_option *options,
                          const char *key);
/* Checks that values, one for each option, are in their ranges. */
clq_status clq_check_values(const char *what, const char *name, const clq_option *options, const double *values);
/* Sets the values that the words give: values[] has one for each option. */
clq_status clq_set_values(const char *what, const char *text, const clq_words *words, const clq_option *options,
                          double *values);

/* Checks that names of metrics, "accuracy,mae", exist. Errors: ARGUMENT. (measures.c) */
clq_status clq_metrics_check_names(const char *names);

/* Names of enumerations' values (options.c). */
const char *clq_matmul_precision_name(size_t kind);
const char *clq_recompute_name(size_t kind);
const char *clq_tuning_name(size_t kind);
const char *clq_shard_name(size_t kind);

#endif
