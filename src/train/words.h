/* Text forms of options, "name:key=value,key=value", and the tables of keys that they name. Private to train. */
#ifndef CLQ_TRAIN_WORDS_H
#define CLQ_TRAIN_WORDS_H

#include "train/trainer.h"

/* Such a text cut into words, for --optimizer, --schedule, --loss, --strategy and callbacks. */
enum { CLQ_WORDS_MAX = 16, CLQ_WORD_VALUE_MAX = 160 }; /* a monitor's name fits a value */
typedef struct clq_words {
    char name[CLQ_WORD_MAX];
    size_t kind; /* the row of this name */
    struct {
        char key[CLQ_WORD_MAX], value[CLQ_WORD_VALUE_MAX];
    } options[CLQ_WORDS_MAX];
    unsigned count;
} clq_words;

/* In all of these `what` begins the messages: "optimizer". */

/* Finds the row of a name in a table of `count`. alias_of NULL: rows have one name each. ARGUMENT names those that
 * there are and the nearest of them. */
clq_status clq_parse_name(const char *what, const char *name, size_t count, const char *(*name_of)(size_t),
                          const char *(*alias_of)(size_t), size_t *out);
/* Cuts a text, and finds the row that it names in such a table. */
clq_status clq_parse_words(const char *what, const char *text, size_t count, const char *(*name_of)(size_t),
                           const char *(*alias_of)(size_t), clq_words *out);
/* Cuts "key=value,key=value", which has no name and may be empty. */
clq_status clq_parse_pairs(const char *what, const char *text, clq_words *out);
/* Copies text[0, length) where it fits a word. */
bool clq_copy_word(char *to, const char *text, size_t length);

/* NULL: no option has the key. */
const clq_option *clq_find_option(const clq_option *options, const char *key);
/* ARGUMENT names the keys that there are and the nearest of them. text: that the user wrote; name: of the row. */
clq_status clq_refuse_key(const char *what, const char *text, const char *name, const clq_option *options,
                          const char *key);
/* Whether values, one for each option, are in their ranges. */
clq_status clq_check_values(const char *what, const char *name, const clq_option *options, const double *values);
/* Sets what the words name of values[], one for each option. */
clq_status clq_set_values(const char *what, const char *text, const clq_words *words, const clq_option *options,
                          double *values);

/* Whether metrics have such names: "accuracy,mae". Errors: ARGUMENT. (measures.c) */
clq_status clq_metrics_check_names(const char *names);

/* Names of enumerations (options.c). */
const char *clq_matmul_precision_name(size_t kind);
const char *clq_recompute_name(size_t kind);
const char *clq_tuning_name(size_t kind);
const char *clq_shard_name(size_t kind);

#endif
