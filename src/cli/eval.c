/* clique eval and clique predict: saved weights on data. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static clq_status open_model(clq_setup *s, const clq_options *o) {
    if (o->follow && !o->checkpoint)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--follow needs the folder of the checkpoints: --checkpoint DIR");
    if (!o->weights && !o->checkpoint && !clq_model_has_weights(o))
        return clq_fail(CLQ_ERROR_ARGUMENT, "--weights FILE is needed: the weights that clique train --save wrote; or "
                                            "--checkpoint DIR: those of its checkpoints; or --model FILE.keras");
    if (o->weights && o->checkpoint)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--weights and --checkpoint exclude each other");
    return clq_setup_model(s, o);
}

static clq_status prepare(clq_setup *s, const clq_options *o) {
    CLQ_TRY(clq_setup_recall(s, o));
    CLQ_TRY(clq_setup_devices(s, o));
    CLQ_TRY(clq_setup_data(s, o, "test", &s->test));
    CLQ_TRY(clq_dataset_batch(s->test, s->global_batch, false));
    CLQ_TRY(clq_dataset_prefetch(s->test, CLQ_PREFETCH_AUTO));
    return clq_setup_trainer(s, o, clq_dataset_get_info(s->test)->sample_dtype, true);
}

/* Whether it is the checkpoint that cannot be used, and not the model or a device. */
static bool is_of_files(clq_status status) {
    return status == CLQ_ERROR_NOT_FOUND || status == CLQ_ERROR_READ || status == CLQ_ERROR_FORMAT;
}

/* Loads a checkpoint. *gone: it was removed meanwhile, as newer ones were written, which is no error. */
static clq_status load(const clq_setup *s, const clq_options *o, uint64_t step, bool *gone) {
    const clq_status status = clq_trainer_load_checkpoint(s->trainer, o->checkpoint, step);
    uint64_t newest;
    clq_error error;
    *gone = false;
    if (!is_of_files(status)) return status;
    clq_error_take(status, &error);
    CLQ_TRY(clq_checkpoints_newest(o->checkpoint, &newest));
    *gone = newest != step;
    return *gone ? CLQ_OK : clq_error_raise(&error);
}

/* Loads the weights of the newest checkpoint, if the options name a folder of checkpoints. *step 0: they do not. */
static clq_status load_newest(const clq_setup *s, const clq_options *o, uint64_t *step) {
    bool looks = o->checkpoint;
    *step = 0;
    while (looks) {
        CLQ_TRY(clq_checkpoints_newest(o->checkpoint, step));
        if (*step == 0)
            return clq_fail(CLQ_ERROR_NOT_FOUND, "--checkpoint %s: there is no whole checkpoint", o->checkpoint);
        CLQ_TRY(load(s, o, *step, &looks));
    }
    return CLQ_OK;
}

/* step: the checkpoint's; 0: the weights are not of a checkpoint. */
static json_t *describe(const clq_setup *s, uint64_t step, const clq_totals *totals, double rate) {
    json_t *result = json_object();
    if (step > 0) result = clq_json_put(result, "step", json_integer((json_int_t)step));
    result = clq_json_put_measures(result, "", totals, true);
    result = clq_json_put_matrices(result, "", s->trainer, CLQ_MATRIX_OF_EVALUATION, true);
    result = clq_json_put(result, "samples", json_integer((json_int_t)totals->samples));
    return clq_json_put(result, "images_per_s", clq_json_number(rate));
}

static clq_status evaluate(clq_setup *s, const clq_options *o, uint64_t step) {
    clq_totals totals;
    char metrics[CLQ_METRICS_TEXT];
    CLQ_TRY(clq_evaluate(s->trainer, s->test, &totals));
    s->begun = true;
    const double rate = (double)totals.samples / totals.seconds;
    clq_describe_metrics("", &totals.metrics, metrics, sizeof metrics);
    if (o->follow && o->json) return clq_print_json_line(describe(s, step, &totals, rate));
    if (step > 0) fprintf(clq_talk(o), "step %llu  ", (unsigned long long)step);
    clq_fprintf(clq_talk(o), "loss %.6f%s  %zu samples  %.0f images/s\n", totals.loss, metrics, totals.samples, rate);
    if (o->follow)
        return fflush(clq_talk(o)) == 0 ? CLQ_OK : clq_fail(CLQ_ERROR_WRITE, "cannot write: %s", strerror(errno));
    CLQ_TRY(clq_print_matrices(clq_talk(o), "", s->trainer, CLQ_MATRIX_OF_EVALUATION));
    return o->json ? clq_print_json(describe(s, step, &totals, rate)) : CLQ_OK;
}

/* ---- following a training ---- */

/* Evaluates a checkpoint. If it is damaged, only warns. */
static clq_status evaluate_checkpoint(clq_setup *s, const clq_options *o, uint64_t step) {
    bool gone;
    const clq_status status = load(s, o, step, &gone);
    if (status == CLQ_OK) return gone ? CLQ_OK : evaluate(s, o, step);
    if (!is_of_files(status)) return status;
    clq_log(CLQ_LOG_WARNING, "checkpoint left out: %s", clq_error_detail());
    return CLQ_OK;
}

/* *seen: whether the training was seen to write checkpoints so far. */
static bool has_ended(const clq_followed *followed, const char *folder, bool *seen) {
    if (followed->has_ended) return followed->has_ended(followed->context);
    const bool written = clq_checkpoints_are_written(folder), ended = *seen && !written;
    *seen = *seen || written;
    return ended;
}

/* The last checkpoint is there before the training has ended, so this looks for the end first and for checkpoints
 * afterwards. If the newest checkpoint is older than the newest one before, the training has gone back to it: it was
 * evaluated already, and the next ones are new. */
static clq_status follow(clq_setup *s, const clq_options *o) {
    enum { LOOK_MS = 250 };
    uint64_t newest, last = 0;
    bool seen = false;
    for (;;) {
        const bool ended = has_ended(&s->followed, o->checkpoint, &seen);
        CLQ_TRY(clq_checkpoints_newest(o->checkpoint, &newest));
        if (newest > last)
            CLQ_TRY(evaluate_checkpoint(s, o, newest));
        else if (ended)
            return CLQ_OK;
        else
            (void)poll(NULL, 0, LOOK_MS);
        last = newest;
    }
}

clq_status clq_command_eval(clq_setup *s, const clq_options *o) {
    uint64_t step;
    CLQ_TRY(open_model(s, o));
    CLQ_TRY(prepare(s, o));
    if (o->follow) return follow(s, o);
    CLQ_TRY(load_newest(s, o, &step));
    return evaluate(s, o, step);
}

/* ---- predict ---- */

/* FILE.npy for the first output, FILE_1.npy for the second, … NULL: out of memory. Caller: clq_free. */
static char *name_file(const char *out, size_t output) {
    const size_t length = strlen(out), stem = length > 4 && strcmp(out + length - 4, ".npy") == 0 ? length - 4 : length;
    return output ? clq_strprintf("%.*s_%zu%s", (int)stem, out, output, out + stem) : clq_strdup(out);
}

static clq_status create_array(const clq_setup *s, size_t output, clq_array *out) {
    const clq_shape shape = clq_model_output_shape(s->model, output);
    size_t dims[CLQ_SHAPE_MAX + 1] = {clq_dataset_get_info(s->test)->samples};
    for (unsigned d = 0; d < shape.rank; d++) dims[d + 1] = shape.dims[d];
    return clq_array_create(CLQ_F32, shape.rank + 1, dims, out);
}

static clq_status write_array(FILE *talk, const char *file, const clq_array *array) {
    char *name = clq_printable(file), described[160];
    clq_status status = name ? clq_npy_write(file, array) : CLQ_ERROR_MEMORY;
    clq_array_describe(array, described, sizeof described);
    if (status == CLQ_OK) fprintf(talk, "%s: %s\n", name, described);
    clq_free(name);
    return status;
}

typedef struct prediction {
    char *files[CLQ_MODEL_OUTPUTS_MAX];
    clq_array arrays[CLQ_MODEL_OUTPUTS_MAX];
    float *rows[CLQ_MODEL_OUTPUTS_MAX]; /* the data of the arrays */
} prediction;

static clq_status predict_into(clq_setup *s, const clq_options *o, prediction *p) {
    CLQ_TRY(open_model(s, o));
    const size_t outputs = clq_model_output_count(s->model);
    uint64_t step;
    for (size_t i = 0; i < outputs; i++) {
        p->files[i] = name_file(o->out, i);
        if (!p->files[i]) return CLQ_ERROR_MEMORY;
    }
    CLQ_TRY(clq_options_check_files("predict", o, p->files + 1, outputs - 1));
    for (size_t i = 0; i < outputs; i++) CLQ_TRY(clq_file_writer_try("--out", p->files[i]));
    CLQ_TRY(prepare(s, o));
    CLQ_TRY(load_newest(s, o, &step));
    for (size_t i = 0; i < outputs; i++) {
        CLQ_TRY(create_array(s, i, &p->arrays[i]));
        p->rows[i] = p->arrays[i].data;
    }
    CLQ_TRY(clq_predict_outputs(s->trainer, s->test, p->rows));
    for (size_t i = 0; i < outputs; i++) CLQ_TRY(write_array(clq_talk(o), p->files[i], &p->arrays[i]));
    return CLQ_OK;
}

clq_status clq_command_predict(clq_setup *s, const clq_options *o) {
    if (!o->out) return clq_fail(CLQ_ERROR_ARGUMENT, "--out FILE.npy is needed");
    prediction p = {.files = {NULL}};
    clq_status status = predict_into(s, o, &p);
    for (size_t i = 0; i < CLQ_MODEL_OUTPUTS_MAX; i++) {
        clq_array_release(&p.arrays[i]);
        clq_free(p.files[i]);
    }
    return status;
}
