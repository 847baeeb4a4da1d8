/* Keras's initializers. Each class has a row, by which it is read and written. Files have an initializer by its
 * class or by a name. */
#include "interop/keras_reading.h"

#include <string.h>

/* A number of the configuration, and the member that takes it. */
typedef struct number {
    const char *key;
    size_t at;
} number;
#define NUMBER(name, member)                                                                                           \
    { (name), offsetof(clq_initialiser, member) }

/* value: with the defaults of the class's numbers. */
typedef struct initialiser_class {
    const char *class_name, *names[3]; /* as text: "glorot_uniform" */
    clq_initialiser value;
    number numbers[2];
    bool has_fan; /* its configuration, and not its class, says its mode and distribution */
} initialiser_class;

#define SCALED(times, by, how)                                                                                         \
    { .kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = (times), .fan = (by), .distribution = (how) }
#define IN CLQ_FAN_IN
#define MEAN CLQ_FAN_MEAN
#define UNIFORM CLQ_DISTRIBUTION_UNIFORM
#define TRUNCATED CLQ_DISTRIBUTION_TRUNCATED_NORMAL

static const initialiser_class classes[] = {
    {"Zeros", {"zeros", "zero"}, {.kind = CLQ_INITIALISER_CONSTANT}, {{0}}, false},
    {"Ones", {"ones", "one"}, {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}, {{0}}, false},
    {"Constant", {"constant"}, {.kind = CLQ_INITIALISER_CONSTANT}, {NUMBER("value", value)}, false},
    {"RandomUniform",
     {"random_uniform", "uniform"},
     {.kind = CLQ_INITIALISER_UNIFORM, .low = -0.05, .high = 0.05},
     {NUMBER("minval", low), NUMBER("maxval", high)},
     false},
    {"RandomNormal",
     {"random_normal", "normal"},
     {.kind = CLQ_INITIALISER_NORMAL, .deviation = 0.05},
     {NUMBER("mean", mean), NUMBER("stddev", deviation)},
     false},
    {"TruncatedNormal",
     {"truncated_normal"},
     {.kind = CLQ_INITIALISER_TRUNCATED_NORMAL, .deviation = 0.05},
     {NUMBER("mean", mean), NUMBER("stddev", deviation)},
     false},
    {"VarianceScaling", {"variance_scaling"}, SCALED(1, IN, TRUNCATED), {NUMBER("scale", scale)}, true},
    {"GlorotUniform", {"glorot_uniform"}, SCALED(1, MEAN, UNIFORM), {{0}}, false},
    {"GlorotNormal", {"glorot_normal"}, SCALED(1, MEAN, TRUNCATED), {{0}}, false},
    {"LecunUniform", {"lecun_uniform"}, SCALED(1, IN, UNIFORM), {{0}}, false},
    {"LecunNormal", {"lecun_normal"}, SCALED(1, IN, TRUNCATED), {{0}}, false},
    {"HeUniform", {"he_uniform"}, SCALED(2, IN, UNIFORM), {{0}}, false},
    {"HeNormal", {"he_normal"}, SCALED(2, IN, TRUNCATED), {{0}}, false},
    {"Orthogonal",
     {"orthogonal", "OrthogonalInitializer", "orthogonal_initializer"},
     {.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = 1},
     {NUMBER("gain", gain)},
     false},
    {"Identity",
     {"identity", "IdentityInitializer", "identity_initializer"},
     {.kind = CLQ_INITIALISER_IDENTITY, .gain = 1},
     {NUMBER("gain", gain)},
     false},
};

static const initialiser_class *find_class(const char *name) {
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++) {
        const initialiser_class *class = &classes[i];
        if (strcmp(class->class_name, name) == 0) return class;
        for (size_t k = 0; k < CLQ_COUNT_OF(class->names) && class->names[k]; k++)
            if (strcmp(class->names[k], name) == 0) return class;
    }
    return NULL;
}

/* The index of a word among words that end with NULL; -1: it is none of them. */
static int place_of(const char *word, const char *const *words) {
    for (int i = 0; word && words[i]; i++)
        if (strcmp(words[i], word) == 0) return i;
    return -1;
}

/* In the order of the enumerators. Early Keras 2 called a truncated normal distribution "normal". */
static const char *const fans[] = {"fan_in", "fan_out", "fan_avg", NULL};
static const char *const distributions[] = {"truncated_normal", "untruncated_normal", "uniform", "normal", NULL};

/* Reads a key of the configuration; *good becomes whether its value fits. False: the key is not supported. */
static bool take(const initialiser_class *class, const char *key, const json_t *value, clq_initialiser *out,
                 bool *good) {
    for (size_t i = 0; i < CLQ_COUNT_OF(class->numbers) && class->numbers[i].key; i++) {
        if (strcmp(class->numbers[i].key, key) != 0) continue;
        *good = json_is_number(value);
        memcpy((char *)out + class->numbers[i].at, &(double){json_number_value(value)}, sizeof(double));
        return true;
    }
    const bool fan = class->has_fan && strcmp(key, "mode") == 0,
               distribution = class->has_fan && strcmp(key, "distribution") == 0;
    if (!fan && !distribution)
        return strcmp(key, "seed") == 0 || strcmp(key, "dtype") == 0; /* the trainer has the seeds */
    const int place = place_of(json_string_value(value), fan ? fans : distributions);
    *good = place >= 0;
    if (fan && *good) out->fan = (clq_fan)place;
    if (distribution && *good) out->distribution = (clq_distribution)(place % 3);
    return true;
}

static void read_config(clq_keras_attributes *a, const char *key, const initialiser_class *class, json_t *config,
                        clq_initialiser *out) {
    const char *name;
    json_t *value;
    json_object_foreach(config, name, value) {
        bool good = true;
        if (json_is_null(value)) continue;
        if (!take(class, name, value, out, &good))
            clq_keras_refuse(a, CLQ_ERROR_UNSUPPORTED, key, "%s: %.40s is not supported", class->class_name, name);
        else if (!good)
            clq_keras_refuse(a, CLQ_ERROR_FORMAT, key, "%s: %.40s has a value that is not one of its own",
                             class->class_name, name);
    }
}

void clq_keras_read_initialiser(clq_keras_attributes *a, const char *key, clq_initialiser *out) {
    json_t *value = clq_keras_attribute(a, key);
    *out = (clq_initialiser){.kind = CLQ_INITIALISER_DEFAULT};
    if (!value) return;
    const char *name = json_string_value(json_is_object(value) ? json_object_get(value, "class_name") : value);
    const initialiser_class *class = name ? find_class(name) : NULL;
    if (!name) {
        clq_keras_refuse(a, CLQ_ERROR_FORMAT, key, "should name an initializer");
    } else if (!class) {
        clq_text known = {0};
        for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
            clq_text_add(&known, "%s%s", i ? ", " : "", classes[i].names[0]);
        clq_keras_refuse(a, CLQ_ERROR_UNSUPPORTED, key, "'%.60s' is not supported; expected %s", name,
                         known.data ? known.data : "another");
        clq_free(known.data);
    } else {
        json_t *config = json_object_get(value, "config"); /* an initialiser by name has none */
        *out = class->value;
        if (config && !json_is_object(config))
            clq_keras_refuse(a, CLQ_ERROR_FORMAT, key, "%s: its config should be an object", class->class_name);
        read_config(a, key, class, config, out);
    }
}

/* ---- writing ---- */

/* Whether the class alone says what the initialiser is, without a configuration. */
static bool says_all(const initialiser_class *class, const clq_initialiser *i) {
    const clq_initialiser *value = &class->value;
    if (class->numbers[0].key) return false;
    if (i->kind == CLQ_INITIALISER_CONSTANT) return value->value == i->value;
    return value->scale == i->scale && value->fan == i->fan && value->distribution == i->distribution;
}

/* The class that alone says what the initialiser is, or else one whose configuration says it. */
static const initialiser_class *choose_class(const clq_initialiser *i) {
    const initialiser_class *chosen = NULL;
    for (size_t k = 0; k < CLQ_COUNT_OF(classes); k++) {
        if (classes[k].value.kind != i->kind) continue;
        if (says_all(&classes[k], i)) return &classes[k];
        if (classes[k].numbers[0].key) chosen = &classes[k];
    }
    return chosen;
}

json_t *clq_keras_write_initialiser(const clq_keras_writing *w, const void *member) {
    const clq_initialiser *i = member;
    const initialiser_class *class = choose_class(i);
    json_t *config = json_object();
    (void)w;
    if (!class) { /* the layer's default */
        json_decref(config);
        return json_null();
    }
    for (size_t k = 0; k < CLQ_COUNT_OF(class->numbers) && class->numbers[k].key; k++) {
        double value;
        memcpy(&value, (const char *)i + class->numbers[k].at, sizeof value);
        config = clq_json_put(config, class->numbers[k].key, json_real(value));
    }
    if (class->has_fan) {
        config = clq_json_put(config, "mode", json_string(fans[i->fan]));
        config = clq_json_put(config, "distribution", json_string(distributions[i->distribution]));
    }
    return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.initializers", "class_name", class->class_name, "config",
                     config, "registered_name");
}
