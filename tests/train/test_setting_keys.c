/* <clique/settings.h>: the descriptions of settings, what each key sets, what is refused, and who owns texts. */
#include "support/settings.h"
#include "support/system.h"

#include <malloc.h>

/* ---- descriptions ---- */

/* Finds "(default 64)" in a help text and copies its word into `word`. NULL: the help names no default in one word. */
static const char *default_in(const char *help, char word[64]) {
    const char *at = strstr(help, "(default ");
    if (!at) return NULL;
    at += strlen("(default ");
    const size_t length = strcspn(at, ",;:)");
    if (at[length] != ')' && at[length] != ',' && at[length] != ';' && at[length] != ':') return NULL;
    if (strcspn(at, " ") < length || length >= 64) return NULL;
    memcpy(word, at, length);
    word[length] = '\0';
    return word;
}

static void settings_are_described(void **state) {
    (void)state;
    clq_settings *settings = make_settings();
    const size_t count = clq_setting_count();
    assert_true(count > 40);
    assert_null(clq_setting_at(count));
    for (size_t i = 0; i < count; i++) {
        const clq_setting *setting = clq_setting_at(i), *found;
        const char *key = clq_setting_key(setting), *initial = clq_setting_default(setting);
        char word[64];
        double least = -1, most = -1;
        assert_ok(clq_setting_find(key, &found)); /* each key names one setting */
        assert_ptr_equal(found, setting);
        assert_true(strlen(clq_setting_help(setting)) > 5 && !strchr(clq_setting_help(setting), '\n'));
        if (strstr(clq_setting_help(setting), "--")) fail_msg("%s: help speaks of the command", key);
        assert_true(strlen(clq_setting_group(setting)) > 3);
        assert_true(clq_setting_uses(setting) != 0);
        assert_int_equal(strlen(clq_setting_placeholder(setting)) == 0, clq_setting_kind(setting) == CLQ_SETTING_FLAG);
        const bool ranges = clq_setting_range(setting, &least, &most);
        assert_int_equal(ranges, clq_setting_kind(setting) == CLQ_SETTING_COUNT ||
                                     clq_setting_kind(setting) == CLQ_SETTING_SECONDS);
        if (ranges) assert_true(least >= 0 && least < most);
        if (initial) assert_ok(clq_settings_set(settings, key, initial));
        assert_ok(clq_settings_set(settings, key, NULL));
        if (!initial && clq_setting_kind(setting) == CLQ_SETTING_NAMED) continue; /* the default is of what is named */
        if (default_in(clq_setting_help(setting), word) && (!initial || strcmp(word, initial) != 0))
            fail_msg("%s: help says '%s', the default is '%s'", key, word, initial ? initial : "none");
    }
    clq_settings_destroy(settings);
}

/* Programs need not parse placeholders to know the choices. */
static void choices_are_told(void **state) {
    (void)state;
    clq_settings *settings = make_settings();
    const clq_setting *setting;
    static const char *const shards[] = {"data", "file", "off"};
    for (size_t i = 0; i < clq_setting_count(); i++) {
        setting = clq_setting_at(i);
        const char *word, *initial = clq_setting_default(setting);
        bool has_default = false;
        size_t count = 0;
        for (; (word = clq_setting_choice(setting, count)) != NULL; count++) {
            assert_ok(clq_settings_set(settings, clq_setting_key(setting), word));
            has_default = has_default || (initial && strcmp(initial, word) == 0);
        }
        assert_int_equal(count > 1, clq_setting_kind(setting) == CLQ_SETTING_CHOICE);
        assert_int_equal(has_default, clq_setting_kind(setting) == CLQ_SETTING_CHOICE);
    }
    assert_ok(clq_setting_find("shard", &setting));
    for (size_t i = 0; i < 3; i++) assert_string_equal(clq_setting_choice(setting, i), shards[i]);
    assert_null(clq_setting_choice(setting, 3));
    clq_settings_destroy(settings);
}

static void expect_setting(clq_settings *settings, const char *key, size_t index, const char *value) {
    const char *got;
    assert_ok(clq_settings_get(settings, key, index, &got));
    if (value && !got) fail_msg("%s: no value, not %s", key, value);
    if (got && (!value || strcmp(got, value) != 0)) fail_msg("%s: %s, not %s", key, got, value ? value : "none");
}

/* A setting that was set gives its value, and any other gives its default. */
static void values_are_read(void **state) {
    (void)state;
    static const struct {
        const char *key, *before, *value;
    } read[] = {{"batch", "64", "128"},
                {"seed", "0", "18446744073709551615"},
                {"deadline", "600", "0.5"},
                {"optimizer", "adam", "sgd:lr=0.1"},
                {"resume", "0", "1"},
                {"precision", "f32", "mixed"},
                {"csv", NULL, "t.csv"},
                {"learning-rate", NULL, "0.25"},
                {"steps", NULL, "7"},
                {"accumulate", "1", "3"},
                {"loss", "sparse_categorical_crossentropy", "mse"}};
    const char *got;
    clq_settings *settings = make_settings();
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++) {
        expect_setting(settings, read[i].key, 0, read[i].before);
        assert_ok(clq_settings_set(settings, read[i].key, read[i].value));
        expect_setting(settings, read[i].key, 0, read[i].value);
        expect_setting(settings, read[i].key, 1, NULL);
    }
    assert_ok(clq_settings_set(settings, "loss", "size=mae"));
    expect_setting(settings, "loss", 0, "mse");
    expect_setting(settings, "loss", 1, "size=mae");
    expect_setting(settings, "loss", 2, NULL);
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++) {
        assert_ok(clq_settings_set(settings, read[i].key, NULL));
        expect_setting(settings, read[i].key, 0, read[i].before);
    }
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'batch'?", clq_settings_get(settings, "bach", 0, &got));
    assert_fails(CLQ_ERROR_ARGUMENT, "is NULL", clq_settings_get(settings, NULL, 0, &got));
    assert_fails(CLQ_ERROR_ARGUMENT, "is NULL", clq_settings_set(settings, NULL, "1"));
    clq_settings_destroy(settings);
}

static void ranges_hold(void **state) {
    (void)state;
    const clq_setting *setting;
    double least, most;
    assert_ok(clq_setting_find("accumulate", &setting));
    assert_true(clq_setting_range(setting, &least, &most));
    assert_true(least == 1 && most == CLQ_ACCUMULATE_MAX);
    assert_true(clq_setting_range(setting, NULL, NULL));
    assert_ok(clq_setting_find("deadline", &setting));
    assert_true(clq_setting_range(setting, &least, &most));
    assert_true(least > 0.0009 && least < 0.0011 && most == 1e6);
    assert_ok(clq_setting_find("learning-rate", &setting));
    assert_int_equal(clq_setting_uses(setting), CLQ_SETTING_OF_TRAINER | CLQ_SETTING_CHANGES);
    assert_ok(clq_setting_find("epochs", &setting));
    assert_int_equal(clq_setting_uses(setting), CLQ_SETTING_OF_FIT);
    assert_ok(clq_setting_find("memory-limit", &setting));
    assert_int_equal(clq_setting_uses(setting), CLQ_SETTING_OF_SYSTEM);
}

/* ---- each key ---- */

#define IS(member, value) (c->member == (value))
#define HAS(member, text) (c->member && strcmp(c->member, text) == 0)
#define CASE(name, key, value, condition)                                                                              \
    static bool name(const clq_trainer_config *c) { return condition; }
#define CASES(X)                                                                                                       \
    X(batch, "batch", "96", IS(global_batch, 96))                                                                      \
    X(per_replica, "batch-per-replica", "7", IS(global_batch, 21))                                                     \
    X(accumulate, "accumulate", "3", IS(strategy_options.accumulate, 3))                                               \
    X(seed, "seed", "11", IS(seed, 11))                                                                                \
    X(shard, "shard", "file", IS(shard, CLQ_SHARD_FILE))                                                               \
    X(optimizer, "optimizer", "sgd:lr=0.5", IS(optimizer.kind, CLQ_OPTIMIZER_SGD) && IS(optimizer.values[0], 0.5))     \
    X(optimizer_of, "optimizer-of", "size=lion:lr=0.25",                                                               \
      IS(optimizer_count, 1) && HAS(optimizers[0].variables, "size") &&                                                \
          IS(optimizers[0].optimizer.kind, CLQ_OPTIMIZER_LION) && IS(optimizers[0].optimizer.values[0], 0.25))         \
    X(clip, "clip", "norm=2", IS(clip.kind, CLQ_CLIP_NORM) && IS(clip.limit, 2))                                       \
    X(no_decay, "no-decay", "bias,gamma", HAS(no_decay, "bias,gamma"))                                                 \
    X(ema, "ema", "0.75", IS(average, 0.75))                                                                           \
    X(schedule, "schedule", "cosine:decay_steps=10", IS(schedule.kind, CLQ_LR_SCHEDULE_COSINE))                        \
    X(loss, "loss", "size=huber:delta=2", IS(outputs[1].loss.kind, CLQ_LOSS_HUBER) && IS(outputs[1].loss.delta, 2))    \
    X(loss_weight, "loss-weight", "size=0.5", IS(outputs[1].weight, 0.5) && IS(outputs[0].weight, 1))                  \
    X(class_weights, "class-weights", "0=1,2=2.5",                                                                     \
      IS(class_weight_count, 3) && IS(class_weights[1], 1) && IS(class_weights[2], 2.5))                               \
    X(sample_weights, "sample-weights", "1", IS(sample_weights, true))                                                 \
    X(metrics, "metrics", "place=mae,mse", HAS(outputs[0].metrics, "mae,mse") && !c->outputs[1].metrics)               \
    X(strategy, "strategy", "pipeline:stages=2",                                                                       \
      IS(strategy, CLQ_STRATEGY_PIPELINE) && IS(strategy_options.stages, 2))                                           \
    X(micro_batches, "micro-batches", "6", IS(strategy_options.micro_batches, 6))                                      \
    X(staleness, "staleness", "9", IS(strategy_options.staleness, 9))                                                  \
    X(backup, "backup", "2", IS(strategy_options.backup, 2))                                                           \
    X(shares, "shares", "3,1",                                                                                         \
      IS(strategy_options.shares, CLQ_SHARES_WEIGHTS) && IS(strategy_options.share_count, 2) &&                        \
          IS(strategy_options.share_weights[0], 3))                                                                    \
    X(shard_optimizer, "shard-optimizer", "1", IS(strategy_options.shard_optimizer, 1))                                \
    X(algorithm, "cross-device-ops", "torus", IS(group.algorithm, CLQ_ALGORITHM_TORUS))                                \
    X(compress, "compress", "topk=0.5",                                                                                \
      IS(strategy_options.compression.kind, CLQ_COMPRESSION_TOP_K) && IS(strategy_options.compression.fraction, 0.5))  \
    X(local_steps, "local-steps", "4", IS(strategy_options.local_steps, 4))                                            \
    X(bucket_bytes, "bucket-bytes", "1000", IS(bucket_bytes, 1000))                                                    \
    X(deadline, "deadline", "2.5", IS(group.deadline_s, 2.5))                                                          \
    X(check_replicas, "check-replicas", "5", IS(check_replicas, 5))                                                    \
    X(check_numerics, "check-numerics", "1", IS(check_numerics, true))                                                 \
    X(matmul, "matmul-precision", "medium", IS(matmul_precision, CLQ_MATMUL_MEDIUM))                                   \
    X(precision, "precision", "mixed", IS(precision, CLQ_PRECISION_MIXED))                                             \
    X(loss_scale, "loss-scale", "1024", IS(loss_scale, 1024))                                                          \
    X(recompute, "recompute", "all", IS(recompute, CLQ_RECOMPUTE_ALL))                                                 \
    X(disable_paths, "disable-paths", "overlap", HAS(disabled_paths, "overlap"))                                       \
    X(tune, "tune", "full", IS(tuning, CLQ_TUNING_FULL))                                                               \
    X(budget, "budget", "3", IS(tuning_s, 3))                                                                          \
    X(learning_rate, "learning-rate", "0.125", IS(optimizer.values[0], 0.125))                                         \
    X(sample_dtype, "sample-dtype", "f32", IS(sample_dtype, CLQ_F32))                                                  \
    X(inference_only, "inference-only", "1", IS(inference_only, true))                                                 \
    X(measure_gradient, "measure-gradient", "1", IS(measure_gradient, true))                                           \
    X(interval, "loss-scale-interval", "50", IS(loss_scale_interval, 50))                                              \
    X(transport, "transport", "mapped", IS(group.transport, CLQ_TRANSPORT_MAPPED))                                     \
    X(trace_steps, "trace-steps", "8", IS(trace_steps, 8))                                                             \
    X(parts, "parts", "2", IS(parts, 2))                                                                               \
    X(part, "part", "1", IS(part, 1))
CASES(CASE)
#undef CASE
static const struct {
    const char *key, *value;
    bool (*holds)(const clq_trainer_config *config);
} cases[] = {
#define CASE(name, key, value, condition) {key, value, name},
    CASES(CASE)
#undef CASE
};

/* Settings with what makes the value of case i allowed. */
static clq_settings *for_case(size_t i) {
    clq_settings *settings = make_settings();
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    if (strcmp(cases[i].key, "staleness") == 0 || strcmp(cases[i].key, "backup") == 0)
        assert_ok(clq_settings_set(settings, "strategy", "ps"));
    return settings;
}

static void each_key_sets_what_it_names(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_settings *settings = for_case(i);
        clq_trainer_config before, after, again;
        char text[64];
        assert_ok(clq_settings_trainer_config(settings, model, 3, &before));
        if (cases[i].holds(&before)) fail_msg("%s is %s before it is set", cases[i].key, cases[i].value);
        (void)snprintf(text, sizeof text, "%s", cases[i].value);
        assert_ok(clq_settings_set(settings, cases[i].key, text));
        memset(text, 'x', sizeof text); /* it was copied */
        assert_ok(clq_settings_trainer_config(settings, model, 3, &after));
        if (!cases[i].holds(&after)) fail_msg("%s does not become %s", cases[i].key, cases[i].value);
        assert_ok(clq_settings_set(settings, cases[i].key, NULL));
        if (strcmp(cases[i].key, "loss") == 0) assert_ok(clq_settings_set(settings, "loss", "mse"));
        assert_ok(clq_settings_trainer_config(settings, model, 3, &again));
        if (cases[i].holds(&again)) fail_msg("%s stays %s", cases[i].key, cases[i].value);
        clq_settings_destroy(settings);
    }
    clq_model_destroy(model);
}

/* "devices" has no case: it is checked when a trainer is made. */
static void all_keys_of_trainers_are_tried(void **state) {
    (void)state;
    for (size_t i = 0; i < clq_setting_count(); i++) {
        const clq_setting *setting = clq_setting_at(i);
        const char *key = clq_setting_key(setting);
        bool tried = strcmp(key, "devices") == 0;
        for (size_t k = 0; k < CLQ_COUNT_OF(cases); k++) tried = tried || strcmp(cases[k].key, key) == 0;
        if ((clq_setting_uses(setting) & CLQ_SETTING_OF_TRAINER) && !tried) fail_msg("no case for %s", key);
    }
}

/* ---- refusals ---- */

static void nonsense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } refused[] = {
        {"bach", "1", "setting 'bach' is unknown: clq_setting_at lists all; did you mean 'batch'?"},
        {"model", "cnn", "setting 'model' is unknown"}, /* a setting of the command alone */
        {"batch", "0", "batch '0': expected a whole number from 1 to 16777216"},
        {"batch", "12x", "batch '12x'"},
        {"seed", "-1", "seed '-1': expected a whole number of at least 0"},
        {"deadline", "0", "deadline '0': expected seconds, from 0.001 to 1000000"},
        {"shard-optimizer", "yes", "shard-optimizer 'yes': expected 0 or 1"},
        {"optimizer", "adan", "did you mean 'adam'"},
        {"optimizer", "adam:speed=1", "speed"},
        {"optimizer-of", "sgd", "expected names of layers or variables"},
        {"loss", "guess", "guess"},
        {"loss", "size=guess", "output 'size'"},
        {"loss", "huber:delta=0", "delta"},
        {"loss-weight", "2", "loss-weight '2': expected OUTPUT=NUMBER"},
        {"metrics", "mae,speed", "speed"},
        {"metrics", "mae,precision:treshold=0.5", "did you mean 'threshold'"},
        {"metrics", "precision:threshold=x", "threshold=x is not"},
        {"metrics", "accuracy:k=2", "unknown key 'k'"},
        {"sample-weights", "w.npy", "sample-weights 'w.npy': expected 0 or 1"},
        {"class-weights", "0=2,0=3", "class 0 is given twice"},
        {"shares", "3,x", "shares '3,x'"},
        {"staleness", "-1", "from 0, which is synchronous"},
        {"ema", "1", "ema '1': expected a momentum"},
        {"strategy", "telepathy", "telepathy"},
        {"precision", "f8", "f8"},
        {"compress", "topk=2", "at most 1"},
        {"learning-rate", "fast", "learning-rate 'fast': expected a number"},
        {"learning-rate", "-1", "lr=-1"},
        {"early-stopping", "patence=2", "patience"},
        {"reduce-lr", "factor=2", "factor"},
    };
    clq_settings *settings = make_settings();
    clq_model *model = make_two_outputs();
    clq_trainer_config before, after;
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_ok(clq_settings_trainer_config(settings, model, 1, &before));
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, refused[i].says, clq_settings_set(settings, refused[i].key, refused[i].value));
    assert_ok(clq_settings_trainer_config(settings, model, 1, &after)); /* nothing has changed */
    assert_memory_equal(&before, &after, offsetof(clq_trainer_config, outputs));
    assert_int_equal(after.outputs[0].loss.kind, CLQ_LOSS_MEAN_SQUARED_ERROR);
    /* Settings that do not go together, or not with this model. */
    assert_ok(clq_settings_set(settings, "backup", "1"));
    assert_fails(CLQ_ERROR_ARGUMENT, "backup is an option of strategy ps",
                 clq_settings_trainer_config(settings, model, 1, &after));
    assert_ok(clq_settings_set(settings, "backup", NULL));
    assert_ok(clq_settings_set(settings, "batch", "8"));
    assert_ok(clq_settings_set(settings, "batch-per-replica", "8"));
    assert_fails(CLQ_ERROR_ARGUMENT, "exclude each other", clq_settings_trainer_config(settings, model, 1, &after));
    assert_ok(clq_settings_set(settings, "batch-per-replica", NULL));
    assert_ok(clq_settings_set(settings, "loss", "sice=mse"));
    assert_fails(CLQ_ERROR_ARGUMENT, "model two has no output 'sice', only 'place', 'size'; did you mean 'size'?",
                 clq_settings_trainer_config(settings, model, 1, &after));
    for (unsigned i = 0; i < 3; i++) assert_ok(clq_settings_set(settings, "optimizer-of", "size=sgd"));
    assert_fails(CLQ_ERROR_ARGUMENT, "optimizer-of is given more than 3 times",
                 clq_settings_set(settings, "optimizer-of", "place=sgd"));
    for (unsigned i = 2; i < 2 * CLQ_MODEL_OUTPUTS_MAX; i++) assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_fails(CLQ_ERROR_ARGUMENT, "loss is given more than 16 times", clq_settings_set(settings, "loss", "mse"));
    clq_model_destroy(model);
    clq_settings_destroy(settings);
}

/* Names of outputs may contain the characters at which texts are split. */
static void names_of_outputs_may_be_odd(void **state) {
    (void)state;
    clq_settings *settings = make_settings();
    clq_model *model;
    clq_trainer_config config;
    assert_ok(clq_model_create("odd", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(3));
    clq_tensor a = clq_dense(model, x, &(clq_dense_config){.units = 1, .name = "a:b=c"});
    clq_tensor b = clq_dense(model, x, &(clq_dense_config){.units = 1, .name = "d"});
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(a, b)));
    assert_ok(clq_settings_set(settings, "loss", "a:b=c=huber:delta=3"));
    assert_ok(clq_settings_set(settings, "loss", "d=mae"));
    assert_ok(clq_settings_set(settings, "metrics", "a:b=c=mse"));
    assert_ok(clq_settings_trainer_config(settings, model, 1, &config));
    assert_true(config.outputs[0].loss.delta == 3);
    assert_string_equal(config.outputs[0].metrics, "mse");
    clq_model_destroy(model);
    clq_settings_destroy(settings);
}

/* An older program's struct is shorter. */
static void configs_are_as_long_as_the_program_says(void **state) {
    (void)state;
    clq_settings *settings = make_settings();
    clq_model *model = make_two_outputs();
    clq_trainer_config config;
    memset(&config, 0x5a, sizeof config);
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_ok(clq_settings_trainer_config_sized(settings, model, 1, &config, offsetof(clq_trainer_config, shard)));
    assert_int_equal(config.output_count, 2);
    assert_int_equal((unsigned)config.shard, 0x5a5a5a5au);
    clq_model_destroy(model);
    clq_settings_destroy(settings);
}

/* A config's texts stay valid, whatever becomes of the settings that made it. Memory that the library releases is
 * overwritten here (fill_and_free). */
static void configs_keep_their_texts(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"loss", "mse"},          {"no-decay", "bias"},         {"disable-paths", "overlap"},
        {"metrics", "place=mae"}, {"optimizer-of", "size=sgd"}, {"class-weights", "1=2"}};
    clq_settings *settings = make_settings();
    clq_model *model = make_two_outputs();
    clq_trainer_config config;
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) assert_ok(clq_settings_set(settings, texts[i][0], texts[i][1]));
    assert_ok(clq_settings_trainer_config(settings, model, 1, &config));
    assert_ok(clq_settings_set(settings, "no-decay", "gamma"));
    assert_ok(clq_settings_set(settings, "no-decay", "beta"));
    for (size_t i = 2; i < CLQ_COUNT_OF(texts); i++) assert_ok(clq_settings_set(settings, texts[i][0], NULL));
    for (unsigned i = 0; i < 40; i++) assert_ok(clq_settings_set(settings, "ema", i % 2 ? "0.5" : "0.25"));
    assert_string_equal(config.no_decay, "bias");
    assert_string_equal(config.disabled_paths, "overlap");
    assert_string_equal(config.outputs[0].metrics, "mae");
    assert_string_equal(config.optimizers[0].variables, "size");
    assert_true(config.class_weights[1] == 2);
    assert_ok(clq_settings_trainer_config(settings, model, 1, &config));
    assert_string_equal(config.no_decay, "beta");
    assert_null(config.disabled_paths);
    assert_null(config.outputs[0].metrics);
    assert_true(config.average == 0.5);
    clq_model_destroy(model);
    clq_settings_destroy(settings);
}

/* ---- memory ---- */

static void *system_memory(void *context, size_t alignment, size_t bytes) {
    void *block;
    (void)context;
    if (alignment == 0) return malloc(bytes);
    return posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}
static void *system_memory_again(void *context, void *block, size_t bytes) {
    (void)context;
    return realloc(block, bytes);
}
static void fill_and_free(void *context, void *block) {
    static void *(*const volatile fill)(void *, int, size_t) = memset; /* volatile: no compiler leaves the call out */
    (void)context;
    if (block) (void)fill(block, 0xdd, malloc_usable_size(block));
    free(block);
}
static const clq_allocator spoiling = {
    .allocate = system_memory, .reallocate = system_memory_again, .release = fill_and_free};

/* Defaults are constants: a setting returns to its default even without memory. If there is no memory for a new value,
 * the setting keeps its old value. */
static void defaults_need_no_memory(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    clq_settings *settings = make_settings();
    clq_trainer_config config;
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        assert_ok(clq_settings_set(settings, cases[i].key, cases[i].value));
    for (size_t i = 0; i < clq_setting_count(); i++) {
        clq_memory_fail_at(1, true);
        const clq_status status = clq_settings_set(settings, clq_setting_key(clq_setting_at(i)), NULL);
        clq_memory_fail_at(0, false);
        assert_ok(status);
    }
    for (size_t i = 0; i < clq_setting_count(); i++)
        expect_setting(settings, clq_setting_key(clq_setting_at(i)), 0, clq_setting_default(clq_setting_at(i)));
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_ok(clq_settings_set(settings, "strategy", "central"));
    clq_memory_fail_at(1, true);
    const clq_status status = clq_settings_set(settings, "strategy", "tensor");
    clq_memory_fail_at(0, false);
    assert_int_equal(status, CLQ_ERROR_MEMORY);
    assert_ok(clq_settings_trainer_config(settings, model, 1, &config));
    assert_int_equal(config.strategy, CLQ_STRATEGY_CENTRAL);
    clq_settings_destroy(settings);
    clq_model_destroy(model);
}

static clq_status set_several(void *context) {
    clq_settings *settings;
    clq_trainer_config config;
    CLQ_TRY(clq_settings_create(&settings));
    static const char *const texts[][2] = {
        {"loss", "mse"},          {"optimizer-of", "size=sgd"},    {"class-weights", "3=2"},
        {"metrics", "place=mae"}, {"class-weights", "1=2"},        {"no-decay", "bias"},
        {"no-decay", NULL},       {"strategy", "mirrored"},        {"strategy", NULL},
        {"shares", "2,1"},        {"early-stopping", "patience=2"}};
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < CLQ_COUNT_OF(texts) && status == CLQ_OK; i++)
        status = clq_settings_set(settings, texts[i][0], texts[i][1]);
    if (status == CLQ_OK) status = clq_settings_trainer_config(settings, context, 2, &config);
    clq_settings_destroy(settings);
    return status;
}

static void memory_may_be_missing(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    assert_true(walk_allocations(set_several, model) > 20);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings_are_described),
                                       cmocka_unit_test(choices_are_told),
                                       cmocka_unit_test(values_are_read),
                                       cmocka_unit_test(ranges_hold),
                                       cmocka_unit_test(each_key_sets_what_it_names),
                                       cmocka_unit_test(all_keys_of_trainers_are_tried),
                                       cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(names_of_outputs_may_be_odd),
                                       cmocka_unit_test(configs_are_as_long_as_the_program_says),
                                       cmocka_unit_test(configs_keep_their_texts),
                                       cmocka_unit_test(defaults_need_no_memory),
                                       cmocka_unit_test(memory_may_be_missing)};
    if (clq_set_allocator(&spoiling) != CLQ_OK) return 1;
    return cmocka_run_group_tests(tests, open_system, close_system);
}
