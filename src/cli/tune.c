/* clique tune: measures which kernels are the fastest for a model's training step, and keeps what won. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

/* The measured rate of arithmetic of each replica's device; NaN: there is none. */
static clq_status measure_peaks(const clq_trainer *trainer, double peaks[CLQ_REPLICAS_MAX]) {
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) {
        clq_queue *queue;
        CLQ_TRY(clq_queue_create(clq_strategy_device(clq_trainer_strategy(trainer), r), 0, &queue));
        clq_status status = clq_measure_peak(queue, &peaks[r]);
        clq_queue_destroy(queue);
        if (status == CLQ_ERROR_BUILD || status == CLQ_ERROR_UNSUPPORTED) peaks[r] = (double)NAN;
        if (status != CLQ_OK && !isnan(peaks[r])) return status;
    }
    return CLQ_OK;
}

/* The winner's GFLOP/s; NaN: it was not measured. */
static double rate_of(const clq_tune_row *row) {
    double seconds = row->seconds[row->choice.selected];
    return row->flops > 0 ? row->flops / seconds * 1e-9 : (double)NAN;
}

static void print_figure(int width, int digits, double value) {
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        clq_fprintf(stdout, " %*.*f", width, digits, value);
}

static void print_row(const clq_tune_row *row, double peak) {
    const clq_choice *q = &row->choice;
    printf("%s\n", q->key);
    for (size_t i = 0; i < q->count; i++) {
        bool winner = i == q->selected;
        if (isnan(row->seconds[i]) && !winner) continue;
        printf("  %s %-*s", winner ? "*" : " ", CLQ_CANDIDATE_BYTES, q->candidates[i].name);
        print_figure(10, 1, row->seconds[i] * 1e6);
        print_figure(9, 1, winner ? rate_of(row) : (double)NAN);
        print_figure(5, 0, winner ? 100 * rate_of(row) / peak : (double)NAN);
        printf("%s\n", winner && !row->measured ? "  not measured: the budget was at its end" : "");
    }
}

static json_t *describe_row(const clq_tune_row *row, double peak) {
    const clq_choice *q = &row->choice;
    json_t *candidates = json_array();
    for (size_t i = 0; i < q->count; i++)
        candidates = clq_json_append(candidates, json_pack("{s:s, s:o}", "name", q->candidates[i].name, "us",
                                                           clq_json_number(row->seconds[i] * 1e6)));
    return json_pack("{s:i, s:s, s:o, s:s, s:b, s:o, s:o, s:o}", "replica", (int)row->replica, "question", q->key,
                     "candidates", candidates, "winner", q->candidates[q->selected].name, "measured", row->measured,
                     "gflops", clq_json_number(rate_of(row)), "limit_gflops", clq_json_number(peak), "pct_of_limit",
                     clq_json_number(100 * rate_of(row) / peak));
}

/* The type of the samples that are to be trained on; uint8 if there are no data. */
static clq_status type_of_samples(const clq_setup *s, const clq_options *o, clq_dtype *out) {
    clq_dataset *data;
    const clq_status status = clq_setup_data(s, o, "train", &data);
    *out = CLQ_U8;
    if (status == CLQ_ERROR_NOT_FOUND && clq_dataset_is_folder(o->data))
        clq_log(CLQ_LOG_WARNING, "kernels are measured for uint8 samples: %s", clq_error_detail());
    if (status == CLQ_ERROR_NOT_FOUND) return CLQ_OK;
    CLQ_TRY(status);
    *out = clq_dataset_get_info(data)->sample_dtype;
    clq_dataset_destroy(data);
    return CLQ_OK;
}

clq_status clq_command_tune(clq_setup *s, const clq_options *o) {
    clq_options tuning = *o;
    tuning.tune = "full";
    s->choice.measure = s->choice.may_lack_data = true;
    clq_dtype samples;
    CLQ_TRY(type_of_samples(s, o, &samples));
    CLQ_TRY(clq_setup_step(s, &tuning, samples));
    clq_tell_choice(s, o, clq_talk(o));
    const clq_tune_log *log = clq_strategy_tune_log(clq_trainer_strategy(s->trainer));
    double peaks[CLQ_REPLICAS_MAX] = {0};
    CLQ_TRY(measure_peaks(s->trainer, peaks));
    json_t *rows = json_array();
    for (size_t i = 0; i < log->count; i++) {
        const clq_tune_row *row = &log->rows[i];
        if (o->json) {
            rows = clq_json_append(rows, describe_row(row, peaks[row->replica]));
            continue;
        }
        clq_device_info device;
        size_t share;
        CLQ_TRY(clq_trainer_replica(s->trainer, row->replica, &device, &share));
        if (i == 0 || row->replica != row[-1].replica)
            clq_fprintf(stdout, "%s%s on %s, %zu samples; %.1f GFLOP/s at most\n%-*s %10s %9s %5s\n", i ? "\n" : "",
                        clq_model_name(s->model), device.name, share, peaks[row->replica], CLQ_CANDIDATE_BYTES + 4,
                        "* is the winner", "us", "GFLOP/s", "%");
        print_row(row, peaks[row->replica]);
    }
    const clq_strategy *strategy = clq_trainer_strategy(s->trainer);
    if (o->json)
        return clq_print_json(json_pack("{s:o, s:o, s:o, s:o*}", "model", clq_json_text(clq_model_name(s->model)),
                                        "chosen", clq_describe_choice(s, o, clq_strategy_own_name(strategy)), "rows",
                                        rows, "pipeline", clq_describe_stages(s->model, strategy)));
    json_decref(rows);
    clq_print_stages(s->model, strategy);
    return CLQ_OK;
}
