/* clique why: what limits training on 1 to n devices, and what would help most. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct answer {
    clq_probes probes;
    clq_prediction predictions[CLQ_PREDICTIONS_MAX];
    size_t count;
    clq_advice advice[CLQ_ADVICE_MAX];
    size_t advice_count;
    double seconds;        /* that the probes took */
    clq_choice_made *made; /* NULL: devices were named */
} answer;

/* ---- for people ---- */

static void print_answer(const clq_setup *s, const answer *a) {
    FILE *to = stdout;
    clq_doubt worst = {0};
    if (a->made) clq_print_alternatives(a->made, to);
    (void)clq_print(to, "%s: %zu parameters, batch %zu, measured in %.1f s; milliseconds of a step\n\n",
                    clq_model_name(s->model), clq_model_parameter_count(s->model), a->probes.batch, a->seconds);
    fprintf(to, "%8s %-26s %10s %9s", "replicas", "strategy", "images/s", "step");
    clq_print_part_names(to);
    fprintf(to, "  limit\n");
    for (size_t k = 0; k < a->count; k++) {
        const clq_prediction *p = &a->predictions[k];
        clq_fprintf(to, "%8u %-26s %10.0f %9.4f", p->way.replicas, p->way.strategy, p->images_per_s, 1e3 * p->step_s);
        clq_print_parts(&p->parts, to);
        fprintf(to, "%s %s\n", clq_doubt_is_grave(&p->doubt) ? "?" : " ", clq_limit_name(p->limit));
        worst = clq_doubt_worse(&worst, &p->doubt);
    }
    clq_explain_doubt(&worst, to);
    if (a->probes.lack.status != CLQ_OK)
        (void)clq_print(to, "what does not fit the memory has no row: %s\n", a->probes.lack.detail);
    fputc('\n', to);
    clq_print_advice(a->advice, a->advice_count, to);
}

/* ---- JSON ---- */

static json_t *describe_prediction(const clq_prediction *p) {
    return json_pack("{s:i, s:s, s:o, s:o, s:s, s:o, s:o}", "replicas", (int)p->way.replicas, "strategy",
                     p->way.strategy, "images_per_s", clq_json_number(p->images_per_s), "step_ms",
                     clq_json_number(1e3 * p->step_s), "limit", clq_limit_name(p->limit), "parts_ms",
                     clq_describe_parts(&p->parts), "doubt", clq_describe_doubt(&p->doubt, p->images_per_s));
}

static json_t *describe_device(const clq_device_probe *d) {
    json_t *steps = json_array();
    for (unsigned i = 0; i < d->step_count; i++)
        steps = clq_json_append(steps, json_pack("{s:I, s:o}", "batch", (json_int_t)d->steps[i].batch, "step_ms",
                                                 clq_json_number(1e3 * d->steps[i].step_s)));
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "steps", steps, "launches", (json_int_t)d->launches,
                     "launch_us", clq_json_number(1e6 * d->launch_s), "update_ms", clq_json_number(1e3 * d->update_s),
                     "row_us", clq_json_number(1e6 * d->row_s), "memory_share", clq_json_number(d->memory_share),
                     "gflops", clq_json_number(d->gflops), "gbps", clq_json_number(d->gbps));
}

static json_t *describe_pipe(const clq_pipe_probe *pipe) {
    json_t *stages = json_array();
    for (unsigned s = 0; s < pipe->stages; s++)
        stages = clq_json_append(
            stages,
            json_pack("{s:o, s:o, s:o, s:I, s:I}", "forward", clq_json_number(pipe->forward[s]), "backward",
                      clq_json_number(pipe->backward[s]), "parameters", clq_json_number(pipe->parameters[s]),
                      "sent_bytes", (json_int_t)pipe->sent_bytes[s], "back_bytes", (json_int_t)pipe->back_bytes[s]));
    return json_pack("{s:i, s:o, s:o, s:o}", "micro_batches", (int)pipe->micro_batches, "stages", stages, "hop_us",
                     clq_json_number(1e6 * pipe->hop_s), "copy_gbps", clq_json_number(pipe->copy_gbps));
}

static json_t *describe_slices(const clq_slice_probe *slices) {
    return json_pack("{s:i, s:o, s:o, s:I, s:I, s:o}", "exchanges", (int)slices->exchanges, "work",
                     clq_json_number(slices->work), "parameters", clq_json_number(slices->parameters), "launches",
                     (json_int_t)slices->launches, "bytes", (json_int_t)slices->bytes, "exchange_ms",
                     clq_json_number(1e3 * slices->exchange_s));
}

static json_t *describe_group(const clq_group_probe *g) {
    json_t *gflops = json_array(), *gbps = json_array();
    for (unsigned r = 0; r < g->count; r++) {
        gflops = clq_json_append(gflops, clq_json_number(g->gflops[r]));
        gbps = clq_json_append(gbps, clq_json_number(g->gbps[r]));
    }
    return json_pack("{s:i, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "replicas",
                     (int)g->count, "sharded_update", (int)g->shards_update, "overlap", (int)g->overlaps, "gflops",
                     gflops, "gbps", gbps, "waiting_ms", clq_json_number(1e3 * g->waiting_s), "exchange_ms",
                     clq_json_number(1e3 * g->exchange_s), "scatter_gather_ms",
                     g->shards_update ? json_null() : clq_json_number(1e3 * g->scatter_s), "store_ms",
                     clq_json_number(1e3 * g->store_s), "own_store_ms", clq_json_number(1e3 * g->own_store_s),
                     "pipeline", g->pipe.stages ? describe_pipe(&g->pipe) : json_null(), "tensor",
                     g->slices.exchanges ? describe_slices(&g->slices) : json_null(), "alpha_us",
                     clq_json_number(1e6 * g->alpha_s), "beta_gbps", clq_json_number(1e-9 / g->beta_s));
}

static json_t *describe_probes(const answer *a) {
    const clq_probes *p = &a->probes;
    json_t *devices = json_array(), *groups = json_array();
    for (unsigned r = 0; r < p->device_count; r++) devices = clq_json_append(devices, describe_device(&p->devices[r]));
    for (unsigned g = 0; g < p->group_count; g++) groups = clq_json_append(groups, describe_group(&p->groups[g]));
    return json_pack("{s:o, s:o, s:I, s:o, s:I, s:o, s:o}", "seconds", clq_json_number(a->seconds), "rows_per_s",
                     clq_json_number(p->rows_per_s), "gradient_bytes", (json_int_t)p->gradient_bytes, "post_us",
                     clq_json_number(1e6 * p->post_s), "cores", (json_int_t)p->cores, "devices", devices, "groups",
                     groups);
}

static clq_status print_document(const clq_setup *s, const clq_options *o, const answer *a) {
    json_t *predictions = json_array();
    for (size_t i = 0; i < a->count; i++)
        predictions = clq_json_append(predictions, describe_prediction(&a->predictions[i]));
    const clq_error *lack = &a->probes.lack;
    json_t *document =
        json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "model", clq_json_text(clq_model_name(s->model)),
                  "global_batch", (json_int_t)a->probes.batch, "predictions", predictions, "best",
                  describe_prediction(clq_why_best(a->predictions, a->count)), "does_not_fit",
                  lack->status == CLQ_OK ? json_null() : clq_json_text(lack->detail), "advice",
                  clq_describe_advice(a->advice, a->advice_count), "probes", describe_probes(a));
    if (!a->made) return clq_print_json(document);
    document = clq_json_put(document, "alternatives", clq_describe_alternatives(a->made));
    return clq_print_json(
        clq_json_put(document, "chosen", clq_describe_choice(s, o, a->made->alternatives[a->made->best].strategy)));
}

/* ---- the command ---- */

static clq_status ask(clq_setup *s, const clq_options *o, answer *a) {
    clq_trainer_config config;
    CLQ_TRY(clq_setup_data(s, o, "train", &s->train));
    CLQ_TRY(clq_setup_shuffle(o, s->train));
    CLQ_TRY(clq_setup_config(s, o, clq_dataset_get_info(s->train)->sample_dtype, false, &config));
    const clq_why_task task = {.model = s->model,
                               .devices = &s->devices,
                               .config = &config,
                               .data = s->train,
                               .patience = &s->choice.patience};
    const double start = clq_now();
    CLQ_TRY(clq_why_probe(&task, &a->probes));
    a->seconds = clq_now() - start;
    a->count = clq_why_predict(&a->probes, a->predictions, CLQ_COUNT_OF(a->predictions));
    if (a->count == 0) return clq_error_raise(&a->probes.lack);
    a->advice_count = clq_why_advise(&a->probes, &s->devices, a->advice, CLQ_COUNT_OF(a->advice));
    clq_setup_keep_strategy(s, o, a->predictions, a->count);
    if (clq_why_keep(&task, a->predictions, a->count) != CLQ_OK)
        clq_log(CLQ_LOG_WARNING, "the predictions are not kept for later verdicts: %s", clq_error_detail());
    return CLQ_OK;
}

clq_status clq_command_why(clq_setup *s, const clq_options *o) {
    if (s->world) return clq_why_of_world(s, o);
    if (o->trace) return clq_explain_trace(o);
    CLQ_TRY(clq_setup_model(s, o));
    s->choice.measure = true;
    CLQ_TRY(clq_setup_recall(s, o));
    CLQ_TRY(clq_setup_devices(s, o));
    answer *a = clq_alloc(1, sizeof *a);
    if (!a) return CLQ_ERROR_MEMORY;
    clq_status status = clq_setup_choose(s, o, &a->made);
    if (status == CLQ_OK) status = ask(s, o, a);
    if (status == CLQ_OK && o->json) status = print_document(s, o, a);
    if (status == CLQ_OK && !o->json) print_answer(s, a);
    clq_free(a->made);
    clq_free(a);
    return status;
}
