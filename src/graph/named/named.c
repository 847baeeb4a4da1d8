/* Models by name: NAME, or NAME:KEY=VALUE,KEY=VALUE. */
#include "graph/named/named.h"

#include <string.h>

static const clq_named_model *const models[] = {&clq_named_mlp,       &clq_named_cnn,         &clq_named_cnn1,
                                                &clq_named_lenet5,    &clq_named_autoencoder, &clq_named_vgg11,
                                                &clq_named_resnet18,  &clq_named_resnet20,    &clq_named_resnet34,
                                                &clq_named_resnet50,  &clq_named_mobilenetv2, &clq_named_efficientnetb0,
                                                &clq_named_convmixer, &clq_named_unet,        &clq_named_vit_tiny,
                                                &clq_named_gpt,       &clq_named_bert_tiny,   &clq_named_bilstm};

enum { CLASSES_MOST = 1 << 20, CLASSES_USUAL = 10 };

bool clq_model_is_file(const char *word) {
    const char *ending = strrchr(word, '.');
    return ending && (strcmp(ending, ".json") == 0 || strcmp(ending, ".keras") == 0);
}

const char *clq_model_path(const char *word) { return clq_model_is_file(word) ? word : NULL; }

static clq_status refuse_name(const char *name) {
    clq_text known = {0};
    clq_nearest nearest = {.word = name, .length = strcspn(name, ":")};
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) {
        clq_text_add(&known, "%s, ", models[i]->name);
        clq_nearest_try(&nearest, models[i]->name);
    }
    clq_status status = clq_fail_memory("naming the models");
    if (!known.failed)
        status = clq_nearest_fail(
            &nearest, "model '%.80s' is unknown: expected %sor a Keras model's .json or .keras file", name, known.data);
    clq_free(known.data);
    return status;
}

static clq_status find_model(const char *name, const clq_named_model **out) {
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++)
        if (strlen(models[i]->name) == length && strncmp(models[i]->name, name, length) == 0)
            return *out = models[i], CLQ_OK;
    return refuse_name(name);
}

/* ---- options ---- */

/* What the data and the options in its name say of a model. */
typedef struct spec {
    const clq_named_model *model;
    clq_named_settings settings;
    bool given[CLQ_NAMED_OPTIONS_MAX], has_input;
} spec;

static clq_status refuse_key(const clq_named_model *model, const char *key) {
    clq_text known = {0};
    const char *keys[CLQ_NAMED_OPTIONS_MAX + 2];
    size_t count = 0;
    clq_nearest nearest = clq_nearest_of(key);
    for (const clq_named_option *o = model->options; o < model->options + CLQ_NAMED_OPTIONS_MAX && o->key; o++)
        keys[count++] = o->key;
    if (!model->no_classes) keys[count++] = "classes";
    if (model->input != CLQ_NAMED_TOKENS) keys[count++] = "input";
    for (size_t i = 0; i < count; i++) {
        clq_text_add(&known, "%s%s", i ? ", " : "", keys[i]);
        clq_nearest_try(&nearest, keys[i]);
    }
    clq_status status = clq_fail_memory("naming the options");
    if (!known.failed)
        status =
            clq_nearest_fail(&nearest, "%s has no option '%.40s': its options are %s", model->name, key, known.data);
    clq_free(known.data);
    return status;
}

static clq_status set_number(const char *model, const char *key, const char *text, size_t least, size_t most,
                             size_t *out) {
    uint64_t value;
    if (!clq_parse_u64(text, least, most, &value))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: %s '%.40s': expected a whole number from %zu to %zu", model, key, text,
                        least, most);
    *out = (size_t)value;
    return CLQ_OK;
}

static clq_status set_input(spec *s, const char *text) {
    clq_shape shape = {0};
    if (!clq_parse_sizes(text, CLQ_SHAPE_MAX, shape.dims, &shape.rank))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: input '%.40s': expected 1 to %d sizes, such as 32x32x3",
                        s->model->name, text, CLQ_SHAPE_MAX);
    if (s->model->input == CLQ_NAMED_IMAGE && shape.rank != 3)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: input: expected an image as HEIGHTxWIDTHxCHANNELS, such as 32x32x3",
                        s->model->name);
    s->settings.input = shape;
    s->has_input = true;
    return CLQ_OK;
}

static clq_status set_option(spec *s, char *text) {
    char *value = text, *key = strsep(&value, "=");
    if (!value) return clq_fail(CLQ_ERROR_ARGUMENT, "%s: '%.40s': expected KEY=VALUE", s->model->name, key);
    for (size_t i = 0; i < CLQ_NAMED_OPTIONS_MAX && s->model->options[i].key; i++) {
        const clq_named_option *o = &s->model->options[i];
        if (strcmp(o->key, key) != 0) continue;
        s->given[i] = true;
        return set_number(s->model->name, key, value, o->least, o->most, &s->settings.options[i]);
    }
    if (!s->model->no_classes && strcmp(key, "classes") == 0)
        return set_number(s->model->name, key, value, 1, CLASSES_MOST, &s->settings.classes);
    if (s->model->input != CLQ_NAMED_TOKENS && strcmp(key, "input") == 0) return set_input(s, value);
    return refuse_key(s->model, key);
}

static clq_status parse(const char *name, spec *out) {
    *out = (spec){0};
    CLQ_TRY(find_model(name, &out->model));
    for (size_t i = 0; i < CLQ_NAMED_OPTIONS_MAX; i++) out->settings.options[i] = out->model->options[i].value;
    const char *options = strchr(name, ':');
    if (!options) return CLQ_OK;
    char *text = clq_strprintf("%s", options + 1), *rest = text;
    clq_status status = text ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (char *word; status == CLQ_OK && (word = strsep(&rest, ","));) status = set_option(out, word);
    clq_free(text);
    return status;
}

/* ---- what data say ---- */

/* Sequences are as long as those of the data, unless the context is given. */
static void take_tokens(spec *s, const clq_shape *input) {
    size_t context = 0;
    while (strcmp(s->model->options[context].key, "context") != 0) context++; /* each model of tokens has it */
    if (input->rank == 1 && !s->given[context]) s->settings.options[context] = input->dims[0];
    s->settings.input = CLQ_SHAPE(s->settings.options[context]);
}

static void take_data(spec *s, clq_shape input, size_t classes) {
    if (!s->settings.classes) s->settings.classes = classes ? classes : CLASSES_USUAL;
    if (s->model->input == CLQ_NAMED_TOKENS) return take_tokens(s, &input);
    if (s->has_input) return;
    if (input.rank == 2) input = CLQ_SHAPE(input.dims[0], input.dims[1], 1);
    const bool serves = s->model->input == CLQ_NAMED_IMAGE ? input.rank == 3 : input.rank > 0;
    s->settings.input = serves ? input : CLQ_SHAPE(28, 28, 1);
}

/* ---- building ---- */

static clq_status build(const spec *s, const char *name, clq_model **out) {
    clq_model *model;
    if (s->model->check) {
        const clq_status status = s->model->check(&s->settings);
        if (status != CLQ_OK) return clq_fail_within(status, "%s", s->model->name);
    }
    const bool fits = strlen(name) < CLQ_LAYER_NAME_MAX;
    CLQ_TRY(clq_model_create(fits ? name : s->model->name, &model));
    const clq_tensor x = clq_input(model, s->settings.input);
    const clq_status status = clq_model_finish(model, s->model->build(model, x, &s->settings));
    if (status == CLQ_OK)
        *out = model;
    else
        clq_model_destroy(model);
    return status;
}

clq_status clq_model_builtin_for(const char *name, clq_shape input, size_t classes, clq_model **out) {
    spec s;
    if (!name) return clq_fail(CLQ_ERROR_ARGUMENT, "clq_model_builtin: the name is NULL");
    if (input.rank > CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a sample of rank %u: at most %d", input.rank, CLQ_SHAPE_MAX);
    CLQ_TRY(parse(name, &s));
    take_data(&s, input, classes);
    return build(&s, name, out);
}

clq_status clq_model_builtin(const char *name, clq_model **out) {
    return clq_model_builtin_for(name, (clq_shape){0}, 0, out);
}

/* ---- for help ---- */

static const char *listed_name(size_t i) { return i < CLQ_COUNT_OF(models) ? models[i]->name : NULL; }

static const char *listed_words(size_t i) {
    static const char *const words[] = {[CLQ_NAMED_IMAGE] = "of images; input=HEIGHTxWIDTHxCHANNELS",
                                        [CLQ_NAMED_TOKENS] = "of tokens",
                                        [CLQ_NAMED_ANY] = "of values of any shape; input=SHAPE, as 28x28"};
    return words[models[i]->input];
}

static void list_keys(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    size_t count = 0;
    for (const clq_named_option *o = models[i]->options; o < models[i]->options + CLQ_NAMED_OPTIONS_MAX && o->key; o++)
        keys[count++] = (clq_option){o->key, (double)o->value, (double)o->least, (double)o->most, CLQ_WHOLE};
    if (!models[i]->no_classes) keys[count++] = (clq_option){"classes", 0, 1, CLASSES_MOST, CLQ_WHOLE};
    keys[count] = (clq_option){0};
}

const clq_listing clq_listed_models = {.name = listed_name, .words = listed_words, .keys = list_keys};
