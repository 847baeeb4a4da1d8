/* clique eval and clique predict: saved weights on data. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static clq_status prepare(clq_setup *s, const clq_options *o) {
    if (!o->weights)
        return clq_fail(CLQ_ARGUMENT, "--weights FILE is needed: the weights that clique train --save wrote");
    CLQ_TRY(clq_setup_model(s, o));
    CLQ_TRY(clq_setup_recall(s, o));
    CLQ_TRY(clq_setup_devices(s, o));
    CLQ_TRY(clq_setup_data(o, "test", &s->test));
    CLQ_TRY(clq_dataset_batch(s->test, s->global_batch, false));
    CLQ_TRY(clq_dataset_prefetch(s->test, CLQ_AUTO));
    return clq_setup_trainer(s, o, clq_dataset_get_info(s->test)->sample_dtype, true);
}

static clq_status evaluate(clq_setup *s, const clq_options *o) {
    CLQ_TRY(prepare(s, o));
    clq_totals totals;
    CLQ_TRY(clq_evaluate(s->trainer, s->test, &totals));
    double rate = (double)totals.samples / totals.seconds;
    char metrics[512];
    clq_describe_metrics("", &totals.metrics, metrics, sizeof metrics);
    fprintf(clq_talk(o), "loss %.6f%s  %zu samples  %.0f images/s\n", totals.loss, metrics, totals.samples, rate);
    if (!o->json) return CLQ_OK;
    json_t *result = clq_json_put_measures(json_object(), "", &totals, true);
    result = clq_json_put(result, "samples", json_integer((json_int_t)totals.samples));
    return clq_print_json(clq_json_put(result, "images_per_s", clq_json_number(rate)));
}

static clq_status predict(clq_setup *s, const clq_options *o) {
    if (!o->out) return clq_fail(CLQ_ARGUMENT, "--out FILE.npy is needed");
    CLQ_TRY(clq_file_writer_try("--out", o->out));
    CLQ_TRY(prepare(s, o));
    const clq_shape shape = clq_model_output_shape(s->model, 0);
    size_t dims[CLQ_SHAPE_MAX + 1] = {clq_dataset_get_info(s->test)->samples};
    for (unsigned d = 0; d < shape.rank; d++) dims[d + 1] = shape.dims[d];
    clq_array outputs;
    CLQ_TRY(clq_array_create(CLQ_F32, shape.rank + 1, dims, &outputs));
    char *name = clq_printable(o->out), described[160];
    clq_status status = name ? clq_predict(s->trainer, s->test, outputs.data) : CLQ_MEMORY;
    if (status == CLQ_OK) status = clq_npy_write(o->out, &outputs);
    clq_array_describe(&outputs, described, sizeof described);
    clq_array_release(&outputs);
    if (status == CLQ_OK) fprintf(clq_talk(o), "%s: %s\n", name, described);
    clq_free(name);
    return status;
}

#define WEIGHTS                                                                                                        \
    { "weights", CLQ_KEY_WEIGHTS, "FILE", 0, "safetensors, as --save writes them", 0 }

static clq_status run(const struct argp_option *table, const char *about, int argc, char **argv,
                      clq_status (*body)(clq_setup *, const clq_options *)) {
    clq_options options;
    clq_options_start(&options);
    CLQ_TRY(clq_options_parse(table, about, argc, argv, &options));
    clq_setup setup = {0};
    clq_status status = body(&setup, &options);
    clq_setup_release(&setup);
    return status;
}

clq_status clq_command_eval(int argc, char **argv) {
    static const struct argp_option table[] = {
        CLQ_OPTION_MODEL, WEIGHTS,         CLQ_OPTION_DATA,    CLQ_OPTION_DEVICES, CLQ_OPTION_BATCH,
        CLQ_OPTION_TAKE,  CLQ_OPTION_LOSS, CLQ_OPTION_METRICS, CLQ_OPTION_JSON,    {0}};
    return run(table, "Loss and accuracy of saved weights on the test set.", argc, argv, evaluate);
}

clq_status clq_command_predict(int argc, char **argv) {
    static const struct argp_option table[] = {CLQ_OPTION_MODEL,
                                               WEIGHTS,
                                               CLQ_OPTION_DATA,
                                               CLQ_OPTION_DEVICES,
                                               CLQ_OPTION_BATCH,
                                               CLQ_OPTION_TAKE,
                                               {"out", CLQ_KEY_OUT, "FILE.npy", 0, "where the outputs go", 0},
                                               {0}};
    return run(table, "Writes the model's output for every sample of the test set.", argc, argv, predict);
}
