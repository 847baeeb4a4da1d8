/* Models as options name them: by a name with options, or by the path of a Keras model.to_json() file. */
#include "bench.h"

#include <string.h>

/* The length of the first model in a list. A comma followed by KEY=VALUE belongs to the name's options. */
static size_t length_of(const char *text) {
    const size_t name = strcspn(text, ",:");
    size_t length = strcspn(text, ",");
    while (text[name] == ':' && text[length] == ',' && text[length + 1 + strcspn(text + length + 1, ",:=")] == '=')
        length += 1 + strcspn(text + length + 1, ",");
    return length;
}

bool clq_bench_next_model(const char **at, char model[CLQ_BENCH_MODEL_BYTES]) {
    const size_t length = length_of(*at);
    if (length == 0 || length >= CLQ_BENCH_MODEL_BYTES) return false;
    memcpy(model, *at, length);
    model[length] = '\0';
    *at += length;
    if (**at == ',' && (*at)[1]) ++*at;
    return true;
}

clq_status clq_bench_model_open(const char *model, const char *data, clq_model **out) {
    clq_model *opened;
    if (!clq_model_is_file(model)) return data ? clq_model_for_data(model, data, out) : clq_model_builtin(model, out);
    CLQ_TRY(clq_model_read_keras_json(model, &opened));
    const size_t outputs = clq_model_output_count(opened);
    if (outputs > 1) {
        clq_model_destroy(opened);
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s has %zu outputs: benchmarks take models of one", model, outputs);
    }
    *out = opened;
    return CLQ_OK;
}

const char *clq_bench_model_name(const char *model) {
    const char *slash = strrchr(model, '/');
    return clq_model_is_file(model) && slash ? slash + 1 : model;
}

clq_status clq_bench_models_check(const char *list, const char *data) {
    char name[CLQ_BENCH_MODEL_BYTES];
    for (const char *at = list; *at || at == list;) {
        if (!clq_bench_next_model(&at, name))
            return clq_fail(CLQ_ERROR_ARGUMENT, "--models '%s': expected names with commas between", list);
        clq_model *model = NULL;
        clq_status status = clq_bench_model_open(name, data, &model);
        clq_model_destroy(model);
        if (status != CLQ_OK) return clq_fail_within(status, "--models");
    }
    return CLQ_OK;
}

size_t clq_bench_models_count(const char *list) {
    char name[CLQ_BENCH_MODEL_BYTES];
    size_t count = 0;
    for (const char *at = list; *at && clq_bench_next_model(&at, name);) count++;
    return count;
}

size_t clq_bench_model_places(const clq_model *model) {
    const clq_shape gives = clq_model_output_shape(model, 0);
    size_t places = 1;
    for (unsigned d = 0; d + 1 < gives.rank; d++) places *= gives.dims[d];
    return places;
}

clq_status clq_bench_model_data(const clq_model *model, uint64_t samples, char out[CLQ_BENCH_DATA_BYTES]) {
    clq_shape in = clq_model_input_shape(model);
    clq_text text = {0};
    clq_text_add(&text, "synthetic:");
    for (unsigned d = 0; d < in.rank; d++) clq_text_add(&text, "%s%zu", d ? "x" : "", in.dims[d]);
    const clq_shape gives = clq_model_output_shape(model, 0);
    const size_t places = clq_bench_model_places(model);
    clq_text_add(&text, "/%zu/%llu", gives.dims[gives.rank - 1], (unsigned long long)samples);
    if (places > 1) clq_text_add(&text, "/%zu", places);
    clq_status status = text.failed ? clq_fail_memory("naming the data") : CLQ_OK;
    if (status == CLQ_OK) (void)snprintf(out, CLQ_BENCH_DATA_BYTES, "%s", text.data);
    clq_free(text.data);
    return status;
}
