/* Optimizers and losses by name, with Keras's defaults, and their text forms. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

/* Copies text[0, length) where it fits. */
static bool copy_word(char *to, const char *text, size_t length) {
    if (length == 0 || length >= CLQ_WORD_MAX) return false;
    memcpy(to, text, length);
    to[length] = '\0';
    return true;
}

clq_status clq_words_parse(const char *what, const char *text, clq_words *out) {
    clq_words words = {0};
    size_t name_length = strcspn(text, ":");
    if (!copy_word(words.name, text, name_length))
        return clq_fail(CLQ_ARGUMENT, "%s '%s': expected NAME or NAME:key=value,…", what, text);
    const char *at = text + name_length;
    while (*at) {
        at++; /* ':' or ',' */
        size_t length = strcspn(at, ","), key_length = strcspn(at, "=,");
        if (words.count == CLQ_WORDS_MAX || key_length == length ||
            !copy_word(words.options[words.count].key, at, key_length) ||
            !copy_word(words.options[words.count].value, at + key_length + 1, length - key_length - 1))
            return clq_fail(CLQ_ARGUMENT, "%s '%s': expected key=value at '%s'", what, text, at);
        for (unsigned i = 0; i < words.count; i++)
            if (strcmp(words.options[i].key, words.options[words.count].key) == 0)
                return clq_fail(CLQ_ARGUMENT, "%s '%s': %s is given twice", what, text, words.options[i].key);
        words.count++;
        at += length;
    }
    *out = words;
    return CLQ_OK;
}

/* A number that an option sets, with its limits. A flag is 0 or 1. */
typedef struct number {
    const char *key;
    double min, max;
    double *value;
    bool *flag;
} number;

static clq_status set_numbers(const char *what, const char *text, const clq_words *words, const number *numbers,
                              size_t count) {
    for (unsigned i = 0; i < words->count; i++) {
        const char *key = words->options[i].key, *value = words->options[i].value;
        const number *found = NULL;
        clq_text known = {0};
        for (size_t n = 0; n < count; n++) {
            if (strcmp(numbers[n].key, key) == 0) found = &numbers[n];
            clq_text_add(&known, "%s%s", n ? " " : "", numbers[n].key);
        }
        if (!found) {
            clq_status status = clq_fail(CLQ_ARGUMENT, "%s '%s': unknown key '%s'; %s takes: %s", what, text, key,
                                         words->name, known.data ? known.data : "none");
            clq_free(known.data);
            return status;
        }
        clq_free(known.data);
        double parsed;
        if (!clq_parse_double(value, found->min, found->max, &parsed) ||
            (found->flag && parsed != 0.0 && parsed != 1.0))
            return clq_fail(CLQ_ARGUMENT, "%s '%s': %s=%s is not a number from %g to %g", what, text, key, value,
                            found->min, found->max);
        if (found->flag)
            *found->flag = parsed != 0.0;
        else
            *found->value = parsed;
    }
    return CLQ_OK;
}

clq_optimizer clq_optimizer_default(clq_optimizer_kind kind) {
    return (clq_optimizer){
        .kind = kind, .lr = kind == CLQ_OPTIMIZER_ADAM ? 0.001 : 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7};
}

clq_status clq_optimizer_parse(const char *text, clq_optimizer *out) {
    clq_words words;
    CLQ_TRY(clq_words_parse("optimizer", text, &words));
    const double below_one = nextafter(1.0, 0.0);
    clq_optimizer result;
    if (strcmp(words.name, "adam") == 0) {
        result = clq_optimizer_default(CLQ_OPTIMIZER_ADAM);
        const number numbers[] = {{"lr", 0.0, 1e6, &result.lr, NULL},
                                  {"beta1", 0.0, below_one, &result.beta1, NULL},
                                  {"beta2", 0.0, below_one, &result.beta2, NULL},
                                  {"epsilon", 0.0, 1e6, &result.epsilon, NULL}};
        CLQ_TRY(set_numbers("optimizer", text, &words, numbers, CLQ_COUNT_OF(numbers)));
    } else if (strcmp(words.name, "sgd") == 0) {
        result = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
        const number numbers[] = {{"lr", 0.0, 1e6, &result.lr, NULL},
                                  {"momentum", 0.0, 1.0, &result.momentum, NULL},
                                  {"nesterov", 0.0, 1.0, NULL, &result.nesterov}};
        CLQ_TRY(set_numbers("optimizer", text, &words, numbers, CLQ_COUNT_OF(numbers)));
    } else {
        return clq_fail(CLQ_ARGUMENT, "optimizer '%s' is unknown: there are adam and sgd", words.name);
    }
    *out = result;
    return CLQ_OK;
}

clq_status clq_loss_parse(const char *text, clq_loss *out) {
    clq_words words;
    CLQ_TRY(clq_words_parse("loss", text, &words));
    clq_loss result = {0};
    const number numbers[] = {{"from_logits", 0.0, 1.0, NULL, &result.from_logits},
                              {"label_smoothing", 0.0, 1.0, &result.label_smoothing, NULL}};
    if (strcmp(words.name, "categorical_crossentropy") == 0) {
        result.kind = CLQ_LOSS_CATEGORICAL;
        CLQ_TRY(set_numbers("loss", text, &words, numbers, 2));
    } else if (strcmp(words.name, "sparse_categorical_crossentropy") == 0) {
        result.kind = CLQ_LOSS_SPARSE_CATEGORICAL;
        CLQ_TRY(set_numbers("loss", text, &words, numbers, 1));
    } else {
        return clq_fail(CLQ_ARGUMENT,
                        "loss '%s' is unknown: there are categorical_crossentropy and sparse_categorical_crossentropy",
                        words.name);
    }
    *out = result;
    return CLQ_OK;
}

clq_status clq_matmul_precision_parse(const char *text, clq_matmul_precision *out) {
    static const char *const names[] = {
        [CLQ_MATMUL_HIGHEST] = "highest", [CLQ_MATMUL_HIGH] = "high", [CLQ_MATMUL_MEDIUM] = "medium"};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (clq_matmul_precision)i;
            return CLQ_OK;
        }
    return clq_fail(CLQ_ARGUMENT, "--matmul-precision '%s': there are highest, high and medium", text);
}

clq_status clq_tuning_parse(const char *text, clq_tuning *out) {
    static const char *const names[] = {
        [CLQ_TUNING_OFF] = "off", [CLQ_TUNING_QUICK] = "quick", [CLQ_TUNING_FULL] = "full"};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (clq_tuning)i;
            return CLQ_OK;
        }
    return clq_fail(CLQ_ARGUMENT, "--tune '%s': there are off, quick and full", text);
}

float clq_optimizer_rate(const clq_optimizer *optimizer, uint64_t step) {
    double t = (double)step;
    if (optimizer->kind != CLQ_OPTIMIZER_ADAM) return (float)optimizer->lr;
    return (float)(optimizer->lr * sqrt(1.0 - pow(optimizer->beta2, t)) / (1.0 - pow(optimizer->beta1, t)));
}
