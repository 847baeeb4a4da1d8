/* clique plan --machines: the step of mirrored training on many machines, simulated (scale/scale.h). */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values of options that are not given: 10 Gbit/s Ethernet between machines, and PCIe within one. Messages between
 * machines are as Open MPI sends them between hosts. The processors' time for a message is assumed: it is small beside
 * such links. */
static const double link_gbps = 1.25, latency_us = 50, device_link_gbps = 10, device_latency_us = 10;
static const double message_s = 10e-6;
static const size_t message_bytes = (size_t)60 << 10, device_message_bytes = (size_t)256 << 10;
/* Twice as many machines pay if the added machines make at least half of what they could. */
static const double pays_least = 1.5;

enum { ROWS_MOST = 24 };

typedef struct row {
    unsigned machines;
    double gain; /* the rate over that of the row before; NaN: it is the first row */
    clq_scale_result best, usual;
} row;

typedef struct answer {
    clq_scale_task task;
    clq_scale_piece *pieces;
    size_t bytes; /* of the gradient */
    char name[CLQ_LAYER_NAME_MAX];
    double batch; /* of one device */
    bool is_measured;
    clq_doubt doubt; /* of the measurement, if is_measured */
    row rows[ROWS_MOST];
    size_t count;
    unsigned pays_to;
} answer;

/* ---- what was given ---- */

static clq_status number(const char *option, const char *text, double least, double most, double usual, double *out) {
    *out = usual;
    if (!text || clq_parse_double(text, least, most, out)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--%s '%s': expected a number from %g to %g", option, text, least, most);
}

static clq_status take_links(const clq_options *o, clq_scale_task *task) {
    double gbps, us, device_gbps, device_us;
    CLQ_TRY(number("link", o->link, 1e-6, 1e6, link_gbps, &gbps));
    CLQ_TRY(number("latency", o->latency, 0, 1e9, latency_us, &us));
    CLQ_TRY(number("device-link", o->device_link, 1e-6, 1e6, device_link_gbps, &device_gbps));
    CLQ_TRY(number("device-latency", o->device_latency, 0, 1e9, device_latency_us, &device_us));
    CLQ_TRY(number("spread", o->spread, 0, 2, 0, &task->spread));
    task->between = (clq_scale_link){1e-6 * us, 1e-9 / gbps, message_s, clq_scale_add_byte_s, message_bytes};
    task->inside = (clq_scale_link){1e-6 * device_us, 1e-9 / device_gbps, 0, 0, device_message_bytes};
    return CLQ_OK;
}

/* Takes numbers between commas: at least `least` and at most `most` of them. */
static bool take_numbers(const char *text, double *out, size_t least, size_t most, size_t *count) {
    char part[64];
    *count = 0;
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        if (length >= sizeof part || *count == most) return false;
        memcpy(part, text, length);
        part[length] = 0;
        if (!clq_parse_double(part, 0, 1e12, &out[(*count)++])) return false;
        text += length;
        if (!*text) return *count >= least;
    }
}

static clq_status take_compute(const clq_options *o, clq_scale_task *task) {
    double ms[3] = {0};
    size_t count;
    if (!take_numbers(o->compute_ms, ms, 2, 3, &count) || ms[0] + ms[1] <= 0 || ms[0] + ms[1] + ms[2] > 1e9)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--compute-ms '%s': expected milliseconds of forward, backward and, if it takes any, update, "
                        "as 10,20 or 10,20,1",
                        o->compute_ms);
    task->forward_s = 1e-3 * ms[0];
    task->backward_s = 1e-3 * ms[1];
    task->update_s = 1e-3 * ms[2];
    return CLQ_OK;
}

static const size_t gradient_most = 1000000000000;

static clq_status take_gradient(const clq_options *o, answer *a) {
    double pair[2];
    size_t count;
    const char *text = o->gradient;
    for (bool more = true; more;) {
        char part[64];
        const size_t length = strcspn(text, ",");
        char *at = NULL;
        if (length < sizeof part) {
            memcpy(part, text, length);
            part[length] = 0;
            at = strchr(part, '@');
        }
        if (at) *at = ',';
        clq_scale_piece *piece = &a->pieces[a->task.piece_count];
        if (!at || !take_numbers(part, pair, 2, 2, &count) || pair[0] < 1 || pair[1] > 1 ||
            (a->task.piece_count > 0 && pair[1] < piece[-1].part) || a->task.piece_count == CLQ_PIECES_MAX)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "--gradient '%s': expected up to %d times BYTES@PART between commas, the parts of backward "
                            "ascending from 0 to 1, as 4e8@0.1,6e7@1",
                            o->gradient, (int)CLQ_PIECES_MAX);
        *piece = (clq_scale_piece){pair[1], (size_t)pair[0]};
        a->task.piece_count++;
        a->bytes += piece->bytes;
        if (a->bytes > gradient_most)
            return clq_fail(CLQ_ERROR_ARGUMENT, "--gradient '%s': more than 1e12 bytes in all", o->gradient);
        more = text[length] == ',';
        text += length + more;
    }
    (void)snprintf(a->name, sizeof a->name, "a given gradient");
    return CLQ_OK;
}

clq_status clq_scale_check(const clq_options *o) {
    static const char *const names[] = {"devices-per-machine", "link",       "latency",  "device-link",
                                        "device-latency",      "compute-ms", "gradient", "spread"};
    const bool given[] = {o->devices_per_machine > 0, o->link != NULL,           o->latency != NULL,
                          o->device_link != NULL,     o->device_latency != NULL, o->compute_ms != NULL,
                          o->gradient != NULL,        o->spread != NULL};
    for (size_t i = 0; i < CLQ_COUNT_OF(names) && !o->machines; i++)
        if (given[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "--%s is about the simulation of several machines: add --machines N",
                            names[i]);
    if (o->gradient && !o->compute_ms)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--gradient stands for a model that cannot be measured: add --compute-ms F,B");
    return CLQ_OK;
}

/* ---- the model ---- */

static clq_status take_model(const clq_model *model, answer *a) {
    CLQ_TRY(clq_why_pieces(model, a->pieces, &a->task.piece_count, &a->bytes));
    (void)snprintf(a->name, sizeof a->name, "%s", clq_model_name(model));
    return CLQ_OK;
}

/* Measures a step on the first device, which trains alone. */
static clq_status probe(clq_setup *s, const clq_options *o, answer *a, clq_probes *probes) {
    clq_trainer_config config;
    s->devices.count = 1;
    CLQ_TRY(clq_setup_data(s, o, "train", &s->train));
    CLQ_TRY(clq_setup_shuffle(o, s->train));
    CLQ_TRY(clq_setup_config(s, o, clq_dataset_get_info(s->train)->sample_dtype, false, &config));
    config.strategy = CLQ_STRATEGY_SINGLE;
    const clq_why_task task = {.model = s->model,
                               .devices = &s->devices,
                               .config = &config,
                               .data = s->train,
                               .patience = &s->choice.patience};
    CLQ_TRY(clq_why_probe(&task, probes));
    const clq_device_probe *device = &probes->devices[0];
    const double step_s = device->steps[0].step_s;
    a->batch = (double)probes->batch;
    a->task.update_s = CLQ_MIN(device->update_s, step_s);
    a->task.backward_s = clq_backward_part * (step_s - a->task.update_s);
    a->task.forward_s = step_s - a->task.update_s - a->task.backward_s;
    a->doubt = device->doubt;
    a->is_measured = true;
    return CLQ_OK;
}

static clq_status measure(clq_setup *s, const clq_options *o, answer *a) {
    CLQ_TRY(clq_setup_recall(s, o));
    CLQ_TRY(clq_setup_devices(s, o));
    clq_probes *probes = clq_alloc(1, sizeof *probes);
    if (!probes) return CLQ_ERROR_MEMORY;
    clq_status status = probe(s, o, a, probes);
    clq_free(probes);
    return status;
}

/* ---- simulating ---- */

static clq_status add_row(const answer *a, unsigned machines, size_t usual_bytes, row *out) {
    clq_scale_task task = a->task;
    task.machines = machines;
    task.algorithm = CLQ_ALGORITHM_AUTO;
    task.bucket_bytes = usual_bytes;
    out->machines = machines;
    CLQ_TRY(clq_scale_step(&task, &out->usual));
    return clq_scale_best(&task, &out->best);
}

static double rate_of(const answer *a, const row *r) {
    return a->batch * r->machines * a->task.devices / r->best.step_s;
}

/* Simulates 1, 2, 4, … machines, and at last `machines` itself. */
static clq_status simulate(answer *a, unsigned machines, size_t usual_bytes) {
    a->pays_to = 1;
    for (unsigned n = 1;; n = CLQ_MIN(2 * n, machines)) {
        row *r = &a->rows[a->count++];
        CLQ_TRY(add_row(a, n, usual_bytes, r));
        r->gain = a->count > 1 ? rate_of(a, r) / rate_of(a, r - 1) : (double)NAN;
        /* The last row may be less than a doubling: then less is expected of it. */
        const double least = a->count > 1 ? 1 + (pays_least - 1) * ((double)n / r[-1].machines - 1) : 0;
        if (a->count > 1 && a->pays_to == r[-1].machines && r->gain >= least) a->pays_to = n;
        if (n == machines) return CLQ_OK;
    }
}

/* ---- telling ---- */

static void print_bucket(size_t bytes) {
    if (bytes == CLQ_SCALE_WHOLE)
        printf(" %10s", "whole");
    else
        printf(" %10s", clq_bytes(bytes).text);
}

static const char *algorithm_of(const clq_scale_result *result, unsigned machines) {
    return machines == 1 ? "-" : clq_algorithm_name(result->algorithm);
}

static void print_answer(const answer *a) {
    const clq_scale_task *t = &a->task;
    (void)clq_print(stdout,
                    "%s: gradient %s; forward %.3f ms, backward %.3f ms, update %.3f ms of %.0f samples on a "
                    "device (%s), spread %.3f\n",
                    a->name, clq_bytes(a->bytes).text, 1e3 * t->forward_s, 1e3 * t->backward_s, 1e3 * t->update_s,
                    a->batch, a->is_measured ? "measured" : "given", t->spread);
    clq_fprintf(stdout, "machines: %.3f GB/s, %.1f us; devices of a machine: %u, %.3f GB/s, %.1f us\n\n",
                1e-9 / t->between.byte_s, 1e6 * t->between.latency_s, t->devices, 1e-9 / t->inside.byte_s,
                1e6 * t->inside.latency_s);
    printf("%8s %8s %12s %11s %10s %10s %10s %9s %10s %6s %11s\n", "machines", "devices", "images/s", "step ms",
           "waiting", "exposed", "efficiency", "algorithm", "bucket", "gain", "by default");
    for (size_t i = 0; i < a->count; i++) {
        const row *r = &a->rows[i];
        clq_fprintf(stdout, "%8u %8u %12.0f %11.3f %10.3f %10.3f %9.1f%% %9s", r->machines, r->machines * t->devices,
                    rate_of(a, r), 1e3 * r->best.step_s, 1e3 * r->best.waiting_s, 1e3 * r->best.exposed_s,
                    100 * r->best.efficiency, algorithm_of(&r->best, r->machines));
        print_bucket(r->best.bucket_bytes);
        if (i == 0)
            printf(" %6s", "-");
        else
            clq_fprintf(stdout, " %5.2fx", r->gain);
        clq_fprintf(stdout, " %10.1f%%\n", 100 * r->usual.efficiency);
    }
    if (a->pays_to == a->rows[a->count - 1].machines)
        clq_fprintf(stdout, "\nadding machines pays up to %u: twice as many make at least %.1f times the rate\n",
                    a->pays_to, pays_least);
    else
        clq_fprintf(stdout,
                    "\nadding machines pays up to %u: beyond, twice as many make less than %.1f times the rate\n",
                    a->pays_to, pays_least);
    if (a->is_measured) clq_explain_doubt(&a->doubt, stdout);
}

static json_t *describe_bucket(const clq_scale_result *r) {
    return r->bucket_bytes == CLQ_SCALE_WHOLE ? json_null() : json_integer((json_int_t)r->bucket_bytes);
}

static json_t *describe_row(const answer *a, const row *r) {
    return json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:s, s:o, s:f, s:f}", "model",
                     clq_json_text(a->name), "devices_per_machine", (json_int_t)a->task.devices, "machines",
                     (json_int_t)r->machines, "total_devices", (json_int_t)(r->machines * a->task.devices),
                     "images_per_s", rate_of(a, r), "step_ms", 1e3 * r->best.step_s, "waiting_ms",
                     1e3 * r->best.waiting_s, "exchange_ms", 1e3 * r->best.exchange_s, "exposed_ms",
                     1e3 * r->best.exposed_s, "efficiency", r->best.efficiency, "gain", clq_json_number(r->gain),
                     "algorithm", algorithm_of(&r->best, r->machines), "bucket_bytes", describe_bucket(&r->best),
                     "default_step_ms", 1e3 * r->usual.step_s, "default_efficiency", r->usual.efficiency);
}

static json_t *describe_link(const clq_scale_link *link) {
    return json_pack("{s:f, s:f, s:f, s:f, s:I}", "gbps", 1e-9 / link->byte_s, "latency_us", 1e6 * link->latency_s,
                     "message_us", 1e6 * link->message_s, "add_ns_per_byte", 1e9 * link->add_byte_s, "message_bytes",
                     (json_int_t)link->message_bytes);
}

static clq_status print_document(const answer *a) {
    json_t *rows = json_array(), *gradient = json_array();
    for (size_t i = 0; i < a->count; i++) rows = clq_json_append(rows, describe_row(a, &a->rows[i]));
    for (size_t i = 0; i < a->task.piece_count; i++)
        gradient = clq_json_append(gradient, json_pack("{s:I, s:f}", "bytes", (json_int_t)a->task.pieces[i].bytes,
                                                       "part", a->task.pieces[i].part));
    return clq_print_json(json_pack("{s:s, s:s, s:o, s:I, s:b, s:{s:f, s:f, s:f}, s:f, s:o, s:o, s:o, s:I, s:o}",
                                    "schema", "clique-bench/1", "bench", "scale", "model", clq_json_text(a->name),
                                    "batch", (json_int_t)a->batch, "measured", (int)a->is_measured, "compute_ms",
                                    "forward", 1e3 * a->task.forward_s, "backward", 1e3 * a->task.backward_s, "update",
                                    1e3 * a->task.update_s, "spread", a->task.spread, "between",
                                    describe_link(&a->task.between), "inside", describe_link(&a->task.inside),
                                    "gradient", gradient, "pays_to_machines", (json_int_t)a->pays_to, "rows", rows));
}

/* ---- the command ---- */

static clq_status ask(clq_setup *s, const clq_options *o, answer *a) {
    a->batch = o->batch ? (double)o->batch : CLQ_BATCH_DEFAULT;
    a->task.devices = (unsigned)CLQ_MAX(o->devices_per_machine, (uint64_t)1);
    a->task.pieces = a->pieces;
    CLQ_TRY(take_links(o, &a->task));
    if (o->compute_ms) CLQ_TRY(take_compute(o, &a->task));
    if (o->gradient) {
        CLQ_TRY(take_gradient(o, a));
    } else {
        CLQ_TRY(clq_setup_model(s, o));
        CLQ_TRY(take_model(s->model, a));
    }
    if (!o->compute_ms) CLQ_TRY(measure(s, o, a));
    return simulate(a, (unsigned)o->machines, clq_why_bucket_bytes(a->bytes, 0, false));
}

clq_status clq_plan_machines(clq_setup *s, const clq_options *o) {
    answer *a = clq_alloc(1, sizeof *a);
    if (!a) return CLQ_ERROR_MEMORY;
    a->pieces = clq_alloc(CLQ_PIECES_MAX + 1, sizeof *a->pieces);
    clq_status status = a->pieces ? ask(s, o, a) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK && o->json) status = print_document(a);
    if (status == CLQ_OK && !o->json) print_answer(a);
    clq_free(a->pieces);
    clq_free(a);
    return status;
}
