/* Optimizers, losses and strategies by name and as texts, with Keras's defaults. */
#include "train/trainer.h"
#include "train/words.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- optimizers ---- */

static const char *optimizer_name(size_t i) { return clq_optimizer_row_of((clq_optimizer_kind)i)->name; }

static bool is_optimizer(clq_optimizer_kind kind) { return (size_t)kind < clq_optimizer_count(); }

clq_optimizer clq_optimizer_default(clq_optimizer_kind kind) {
    clq_optimizer result = {.kind = kind};
    if (!is_optimizer(kind)) return result;
    const clq_option *options = clq_optimizer_row_of(kind)->options;
    for (size_t i = 0; options[i].key; i++) result.values[i] = options[i].value;
    return result;
}

clq_status clq_optimizer_check(const clq_optimizer *optimizer) {
    if (!is_optimizer(optimizer->kind))
        return clq_fail(CLQ_ERROR_ARGUMENT, "optimizer %d is none of clq_optimizer_kind", (int)optimizer->kind);
    const clq_optimizer_row *row = clq_optimizer_row_of(optimizer->kind);
    return clq_check_values("optimizer", row->name, row->options, optimizer->values);
}

clq_status clq_optimizer_set(clq_optimizer *optimizer, const char *key, double value) {
    CLQ_TRY(clq_optimizer_check(optimizer));
    const clq_optimizer_row *row = clq_optimizer_row_of(optimizer->kind);
    const clq_option *option = clq_find_option(row->options, key);
    if (!option) return clq_refuse_key("optimizer", row->name, row->name, row->options, key);
    clq_optimizer result = *optimizer;
    result.values[option - row->options] = value;
    CLQ_TRY(clq_optimizer_check(&result));
    *optimizer = result;
    return CLQ_OK;
}

clq_status clq_optimizer_parse(const char *text, clq_optimizer *out) {
    clq_words words;
    CLQ_TRY(clq_parse_words("optimizer", text, clq_optimizer_count(), optimizer_name, NULL, &words));
    clq_optimizer result = clq_optimizer_default((clq_optimizer_kind)words.kind);
    CLQ_TRY(clq_set_values("optimizer", text, &words, clq_optimizer_row_of(result.kind)->options, result.values));
    *out = result;
    return CLQ_OK;
}

static const char *listed_optimizer(size_t i) { return i < clq_optimizer_count() ? optimizer_name(i) : NULL; }

static void list_optimizer(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    memcpy(keys, clq_optimizer_row_of((clq_optimizer_kind)i)->options,
           sizeof clq_optimizer_row_of((clq_optimizer_kind)i)->options);
}

const clq_listing clq_listed_optimizers = {.name = listed_optimizer, .keys = list_optimizer};

/* ---- losses ---- */

static const char *loss_name(size_t i) { return clq_loss_row_of((clq_loss_kind)i)->name; }
static const char *loss_alias(size_t i) { return clq_loss_row_of((clq_loss_kind)i)->alias; }

clq_loss clq_loss_default(clq_loss_kind kind) {
    return (clq_loss){.kind = kind, .delta = 1.0, .alpha = 0.25, .gamma = 2.0};
}

enum { LOSS_KEYS = 6 };
/* member: the value's offset in a clq_loss. The value is a bool if the option is a flag, otherwise a double. */
static const struct loss_key {
    unsigned taken;
    clq_option option;
    size_t member;
} loss_keys[LOSS_KEYS] = {
    {CLQ_TAKES_FROM_LOGITS, {"from_logits", 0, 0, 1, CLQ_FLAG}, offsetof(clq_loss, from_logits)},
    {CLQ_TAKES_LABEL_SMOOTHING, {"label_smoothing", 0, 0, 1, CLQ_NUMBER}, offsetof(clq_loss, label_smoothing)},
    {CLQ_TAKES_DELTA, {"delta", 1, 1e-6, 1e6, CLQ_NUMBER}, offsetof(clq_loss, delta)},
    {CLQ_TAKES_FOCUS, {"alpha", 0.25, 0, 1, CLQ_NUMBER}, offsetof(clq_loss, alpha)},
    {CLQ_TAKES_FOCUS, {"gamma", 2, 0, 100, CLQ_NUMBER}, offsetof(clq_loss, gamma)},
    {CLQ_TAKES_BALANCING, {"apply_class_balancing", 0, 0, 1, CLQ_FLAG}, offsetof(clq_loss, apply_class_balancing)}};

static double member_of(const clq_loss *loss, const struct loss_key *key) {
    const char *at = (const char *)loss + key->member;
    return key->option.type == CLQ_FLAG ? (double)*(const bool *)(const void *)at : *(const double *)(const void *)at;
}

static void set_member(clq_loss *loss, const struct loss_key *key, double value) {
    char *at = (char *)loss + key->member;
    if (key->option.type == CLQ_FLAG)
        *(bool *)(void *)at = value != 0.0;
    else
        *(double *)(void *)at = value;
}

/* The keys that a loss takes, as rows of loss_keys and as options with values. An option without a key ends
 * `options`. */
typedef struct loss_options {
    const struct loss_key *keys[LOSS_KEYS];
    clq_option options[LOSS_KEYS + 1];
    double values[LOSS_KEYS];
    size_t count;
} loss_options;

static loss_options options_of(const clq_loss *loss) {
    loss_options taken = {.count = 0};
    for (size_t i = 0; i < LOSS_KEYS; i++) {
        if (!(clq_loss_row_of(loss->kind)->takes & loss_keys[i].taken)) continue;
        taken.keys[taken.count] = &loss_keys[i];
        taken.options[taken.count] = loss_keys[i].option;
        taken.values[taken.count++] = member_of(loss, &loss_keys[i]);
    }
    return taken;
}

clq_status clq_loss_check(const clq_loss *loss) {
    if ((size_t)loss->kind >= clq_loss_count())
        return clq_fail(CLQ_ERROR_ARGUMENT, "loss %d is none of clq_loss_kind", (int)loss->kind);
    const loss_options taken = options_of(loss);
    return clq_check_values("loss", clq_loss_row_of(loss->kind)->name, taken.options, taken.values);
}

clq_status clq_loss_parse(const char *text, clq_loss *out) {
    clq_words words;
    CLQ_TRY(clq_parse_words("loss", text, clq_loss_count(), loss_name, loss_alias, &words));
    clq_loss result = clq_loss_default((clq_loss_kind)words.kind);
    loss_options taken = options_of(&result);
    CLQ_TRY(clq_set_values("loss", text, &words, taken.options, taken.values));
    for (size_t i = 0; i < taken.count; i++) set_member(&result, taken.keys[i], taken.values[i]);
    *out = result;
    return CLQ_OK;
}

static const char *listed_loss(size_t i) { return i < clq_loss_count() ? loss_name(i) : NULL; }

static void list_loss(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    const clq_loss loss = clq_loss_default((clq_loss_kind)i);
    const loss_options taken = options_of(&loss);
    memcpy(keys, taken.options, sizeof taken.options);
}

const clq_listing clq_listed_losses = {.name = listed_loss, .alias = loss_alias, .keys = list_loss};

/* ---- weights of classes ---- */

enum { CLASSES_MOST = 1 << 24 };

/* Reads one CLASS=WEIGHT. */
static clq_status parse_class_weight(const char *text, const char *at, size_t length, uint64_t *class, double *weight) {
    char word[CLQ_WORD_MAX];
    char *value = clq_copy_word(word, at, length) ? strchr(word, '=') : NULL;
    if (value) *value++ = '\0';
    if (value && clq_parse_u64(word, 0, CLASSES_MOST - 1, class) &&
        clq_parse_double(value, 0.0, (double)FLT_MAX, weight))
        return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_ARGUMENT,
        "class weights '%.80s': expected CLASS=WEIGHT,…, as 0=1,1=2.5: class numbers from 0, and weights of "
        "at least 0",
        text);
}

clq_status clq_class_weights_parse(const char *text, double *weights, size_t *count) {
    size_t most = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        uint64_t class;
        double weight;
        CLQ_TRY(parse_class_weight(text, at, length, &class, &weight));
        for (; weights && most <= class; most++) weights[most] = (double)NAN; /* no weight yet */
        if (weights && !isnan(weights[class]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "class weights '%.80s': class %zu is given twice", text,
                            (size_t) class);
        if (weights) weights[class] = weight;
        most = CLQ_MAX(most, (size_t) class + 1);
        at += length;
        if (!*at) break;
    }
    for (size_t i = 0; weights && i < most; i++)
        if (isnan(weights[i])) weights[i] = 1.0;
    *count = most;
    return CLQ_OK;
}

/* ---- strategies ---- */

/* tf.distribute's name for mirrored over several processes. In a single process it means mirrored over its devices. */
static const char *strategy_alias(size_t kind) { return kind == CLQ_STRATEGY_MIRRORED ? "multiworker" : NULL; }

static const clq_option no_keys[] = {{0}}, of_pipeline[] = {{"stages", 0, 1, CLQ_REPLICAS_MAX, CLQ_WHOLE}, {0}};

static const char *strategy_words(size_t kind) {
    static const char *const words[] = {
        [CLQ_STRATEGY_AUTO] = "what was chosen for these devices, else single for one device and mirrored for several",
        [CLQ_STRATEGY_SINGLE] = "one device",
        [CLQ_STRATEGY_MIRRORED] = "each device has all weights, and a part of each batch",
        [CLQ_STRATEGY_CENTRAL] = "weights lie in the host's memory, and the host's threads update them",
        [CLQ_STRATEGY_PS] = "a parameter server: a replica's update does not wait for all others",
        [CLQ_STRATEGY_PIPELINE] = "each device has a stage of the model",
        [CLQ_STRATEGY_TENSOR] = "devices split the weights of layers, not the batch"};
    return words[kind];
}

static void list_strategy(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    memcpy(keys, i == CLQ_STRATEGY_PIPELINE ? of_pipeline : no_keys,
           i == CLQ_STRATEGY_PIPELINE ? sizeof of_pipeline : sizeof no_keys);
}

const clq_listing clq_listed_strategies = {
    .name = clq_strategy_name, .alias = strategy_alias, .words = strategy_words, .keys = list_strategy};

clq_status clq_strategy_parse(const char *text, clq_strategy_kind *out, clq_strategy_options *options) {
    size_t count = 0;
    clq_words words;
    double values[CLQ_COUNT_OF(of_pipeline)] = {(double)options->stages};
    while (clq_strategy_name(count)) count++;
    CLQ_TRY(clq_parse_words("strategy", text, count, clq_strategy_name, strategy_alias, &words));
    const bool pipeline = words.kind == CLQ_STRATEGY_PIPELINE;
    CLQ_TRY(clq_set_values("strategy", text, &words, pipeline ? of_pipeline : no_keys, values));
    *out = (clq_strategy_kind)words.kind;
    options->stages = (uint32_t)values[0];
    return CLQ_OK;
}

/* ---- shares ---- */

static clq_status add_weight(const char *text, const char *at, size_t length, double *weights,
                             clq_strategy_options *out) {
    char word[CLQ_WORD_MAX];
    if (out->share_count == CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "shares '%.40s…': more than %d weights", text, (int)CLQ_REPLICAS_MAX);
    if (!clq_copy_word(word, at, length) || !clq_parse_double(word, 0.0, DBL_MAX, &weights[out->share_count]))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "shares '%.80s': expected equal, auto, or a number of at least 0 for each replica, as 3,1",
                        text);
    out->share_count++;
    return CLQ_OK;
}

clq_status clq_shares_parse(const char *text, double *weights, clq_strategy_options *out) {
    clq_strategy_options result = *out;
    result.share_count = 0;
    result.share_weights = NULL;
    result.shares = strcmp(text, "auto") == 0 ? CLQ_SHARES_AUTO : CLQ_SHARES_EQUAL;
    if (result.shares != CLQ_SHARES_AUTO && strcmp(text, "equal") != 0) {
        result.shares = CLQ_SHARES_WEIGHTS;
        result.share_weights = weights;
        for (const char *at = text;; at++) {
            const size_t length = strcspn(at, ",");
            CLQ_TRY(add_weight(text, at, length, weights, &result));
            at += length;
            if (!*at) break;
        }
    }
    *out = result;
    return CLQ_OK;
}

clq_status clq_compression_parse(const char *text, clq_compression *out) {
    static const struct {
        const char *name;
        clq_compression_kind kind;
    } named[] = {
        {"off", CLQ_COMPRESSION_OFF}, {"f16", CLQ_COMPRESSION_F16}, {"f16:between", CLQ_COMPRESSION_F16_BETWEEN}};
    static const char topk[] = "topk=";
    double fraction;
    for (size_t i = 0; i < CLQ_COUNT_OF(named); i++) {
        if (strcmp(text, named[i].name) != 0) continue;
        *out = (clq_compression){.kind = named[i].kind};
        return CLQ_OK;
    }
    /* The least fraction, 1e-12, stands for "above 0". */
    if (strncmp(text, topk, sizeof topk - 1) == 0 && clq_parse_double(text + sizeof topk - 1, 1e-12, 1, &fraction)) {
        *out = (clq_compression){.kind = CLQ_COMPRESSION_TOP_K, .fraction = fraction};
        return CLQ_OK;
    }
    clq_nearest nearest = clq_nearest_of(text);
    for (size_t i = 0; i < CLQ_COUNT_OF(named); i++) clq_nearest_try(&nearest, named[i].name);
    return clq_nearest_fail(
        &nearest,
        "compression '%s': expected off, f16, f16:between or topk=R, where R is the part of the gradient that is "
        "sent, above 0 and at most 1",
        text);
}

/* ---- names ---- */

const char *clq_matmul_precision_name(size_t i) {
    static const char *const names[] = {
        [CLQ_MATMUL_HIGHEST] = "highest", [CLQ_MATMUL_HIGH] = "high", [CLQ_MATMUL_MEDIUM] = "medium"};
    return names[i];
}

clq_status clq_matmul_precision_parse(const char *text, clq_matmul_precision *out) {
    size_t kind;
    CLQ_TRY(clq_parse_name("matmul precision", text, CLQ_MATMUL_MEDIUM + 1, clq_matmul_precision_name, NULL, &kind));
    *out = (clq_matmul_precision)kind;
    return CLQ_OK;
}

static const char *precision_name(size_t i) {
    static const char *const names[] = {
        [CLQ_PRECISION_F32] = "f32", [CLQ_PRECISION_MIXED] = "mixed", [CLQ_PRECISION_MIXED_BF16] = "mixed-bf16"};
    return names[i];
}

const char *clq_precision_name(clq_precision precision) {
    return (unsigned)precision <= CLQ_PRECISION_MIXED_BF16 ? precision_name(precision) : "?";
}

clq_status clq_precision_parse(const char *text, clq_precision *out) {
    size_t kind;
    CLQ_TRY(clq_parse_name("precision", text, CLQ_PRECISION_MIXED_BF16 + 1, precision_name, NULL, &kind));
    *out = (clq_precision)kind;
    return CLQ_OK;
}

const char *clq_recompute_name(size_t i) {
    static const char *const names[] = {
        [CLQ_RECOMPUTE_OFF] = "off", [CLQ_RECOMPUTE_AUTO] = "auto", [CLQ_RECOMPUTE_ALL] = "all"};
    return names[i];
}

clq_status clq_recompute_parse(const char *text, clq_recompute_kind *out) {
    size_t kind;
    CLQ_TRY(clq_parse_name("recomputation", text, CLQ_RECOMPUTE_ALL + 1, clq_recompute_name, NULL, &kind));
    *out = (clq_recompute_kind)kind;
    return CLQ_OK;
}

const char *clq_tuning_name(size_t i) {
    static const char *const names[] = {
        [CLQ_TUNING_OFF] = "off", [CLQ_TUNING_QUICK] = "quick", [CLQ_TUNING_FULL] = "full"};
    return names[i];
}

const char *clq_shard_name(size_t i) {
    static const char *const names[] = {[CLQ_SHARD_DATA] = "data", [CLQ_SHARD_FILE] = "file", [CLQ_SHARD_OFF] = "off"};
    return names[i];
}

clq_status clq_tuning_parse(const char *text, clq_tuning *out) {
    size_t kind;
    CLQ_TRY(clq_parse_name("tuning", text, CLQ_TUNING_FULL + 1, clq_tuning_name, NULL, &kind));
    *out = (clq_tuning)kind;
    return CLQ_OK;
}
