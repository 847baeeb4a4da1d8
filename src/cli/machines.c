/* clique why on several processes: what limits training on 1 to all of them, and what would help most. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_MOST = 40 };
/* Bounds of the measured rate divided by the predicted one. Beyond them, the verdict says to doubt the prediction. */
static const double near_least = 0.8, near_most = 1.25;

typedef struct answer {
    clq_setup *setup;
    const clq_options *options;
    unsigned count; /* of processes */
    clq_trainer_config config;
    clq_why_task task; /* for all processes; its data are this process's */
    /* (count) shares: of the batch on all processes. paces: the batch that takes a process alone as long as its
     * share. */
    size_t *shares, *paces;
    clq_machine_probe *probes;
    clq_link_probe *links;
    clq_scale_piece *pieces;
    size_t gradient_bytes;
    float *steps_s; /* (CLQ_MACHINE_TIMED_MOST) */
    clq_machines machines;
    clq_link_probe middle; /* the median link */
    clq_machines_prediction rows[ROWS_MOST];
    size_t row_count, best;
    double measured_s; /* seconds of a step of all processes, which is an update */
    clq_advice advice[CLQ_MACHINES_ADVICE_MAX];
    size_t advice_count;
    double seconds; /* that measuring took */
    char verdict[CLQ_VERDICT_TEXT];
} answer;

static const clq_machines_prediction *all_of(const answer *a) { return &a->rows[a->row_count - 1]; }

static double measured_rate(const answer *a) {
    return (double)a->machines.batch * (double)all_of(a)->way.accumulate / a->measured_s;
}

/* ---- what is asked for ---- */

/* Refuses what cannot be predicted. Predicted is mirrored training with equal shares, which exchanges gradients as
 * float32 or float16. */
static clq_status check_options(const clq_options *o, const clq_trainer_config *config) {
    const clq_strategy_options *s = &config->strategy_options;
    const char *refused = NULL;
    if (config->strategy != CLQ_STRATEGY_AUTO && config->strategy != CLQ_STRATEGY_MIRRORED) refused = "--strategy";
    if (s->shares != CLQ_SHARES_EQUAL) refused = "--shares";
    if (s->shard_optimizer) refused = "--shard-optimizer";
    if (s->compression.kind == CLQ_COMPRESSION_TOP_K) refused = "--compress topk";
    if (config->shard == CLQ_SHARD_FILE) refused = "--shard file";
    if (config->shard == CLQ_SHARD_OFF) refused = "--shard off";
    if (o->trace)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "clique why --trace explains a file, and is of one process: start it without "
                        "a launcher");
    if (refused)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "clique why of several processes predicts mirrored training with equal shares: leave %s out",
                        refused);
    return CLQ_OK;
}

/* All that a process prepares without the others. Refuses what cannot be predicted before anything is opened. So the
 * config first lacks the type of the samples and the batch of all processes, which are filled in later. */
static clq_status prepare(answer *a) {
    clq_setup *s = a->setup;
    const clq_options *o = a->options;
    CLQ_TRY(clq_setup_model(s, o));
    CLQ_TRY(clq_setup_config(s, o, CLQ_F32, false, &a->config));
    CLQ_TRY(check_options(o, &a->config));
    clq_setup_set_patience(s, o);
    CLQ_TRY(clq_setup_devices(s, o)); /* no clq_setup_recall before: kept choices are about one process */
    CLQ_TRY(clq_setup_data(s, o, "train", &s->train));
    CLQ_TRY(clq_setup_shuffle(o, s->train));
    a->config.sample_dtype = clq_dataset_get_info(s->train)->sample_dtype;
    a->pieces = clq_alloc(CLQ_PIECES_MAX, sizeof *a->pieces);
    a->shares = clq_alloc(a->count, sizeof *a->shares);
    a->paces = clq_alloc(a->count, sizeof *a->paces);
    a->probes = clq_alloc(a->count, sizeof *a->probes);
    a->links = clq_alloc(a->count, sizeof *a->links);
    a->steps_s = clq_alloc(CLQ_MACHINE_TIMED_MOST, sizeof *a->steps_s);
    if (!a->pieces || !a->shares || !a->paces || !a->probes || !a->links || !a->steps_s) return CLQ_ERROR_MEMORY;
    return clq_why_pieces(s->model, a->pieces, &a->machines.piece_count, &a->gradient_bytes);
}

/* Checks that all processes have the same of what predictions are made of. Devices are each process's own. */
static clq_status agree(const answer *a) {
    const clq_dataset_info *data = clq_dataset_get_info(a->setup->train);
    const clq_strategy_options *s = &a->config.strategy_options;
    clq_text text = {0};
    clq_text_add(&text, "%zu %zu %zu %d; %llu %d\n", a->setup->global_batch, data->samples, data->sample_elements,
                 (int)data->sample_dtype, (unsigned long long)s->local_steps, (int)s->compression.kind);
    clq_settings_add_key(&a->config, CLQ_KEY_PREDICTION, CLQ_STRATEGY_MIRRORED, &text);
    clq_model_add_key(a->setup->model, &text);
    clq_status status = clq_world_check(a->setup->world, text.failed ? CLQ_ERROR_MEMORY : CLQ_OK);
    if (status == CLQ_OK)
        status = clq_world_agree(a->setup->world, "model, data set or set of options",
                                 clq_hash128_of(text.data, text.length, 0));
    clq_free(text.data);
    return status;
}

/* How many devices each process has; caller: clq_free. NULL: out of memory. */
static unsigned *count_devices(const answer *a) {
    unsigned *devices = clq_alloc(a->count, sizeof *devices);
    for (unsigned i = 0; devices && i < a->setup->peer_count; i++) devices[a->setup->peers[i].rank]++;
    return devices;
}

/* The batch of the first `count` processes. */
static size_t batch_of(const answer *a, unsigned count) {
    const size_t samples = clq_dataset_get_info(a->setup->train)->samples;
    size_t batch = a->setup->global_batch;
    if (a->options->batch_per_replica) {
        batch = 0;
        for (unsigned i = 0; i < a->setup->peer_count; i++)
            if (a->setup->peers[i].rank < count) batch += a->options->batch_per_replica;
    }
    return CLQ_MIN(batch, samples);
}

/* largest: what this process computes if as few processes as possible train with it. A training leaves out a process
 * that has no share. Here that is an error, since each process is to say what it computes. */
static clq_status find_shares(answer *a, size_t *largest) {
    const unsigned rank = clq_world_rank(a->setup->world);
    const size_t batch = batch_of(a, a->count);
    if (batch < a->setup->peer_count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a batch of %zu samples for %u devices: expected at least one for each",
                        batch, a->setup->peer_count);
    unsigned *devices = count_devices(a);
    if (!devices) return CLQ_ERROR_MEMORY;
    clq_status status = clq_why_machine_shares(devices, rank + 1, batch_of(a, rank + 1), a->shares, a->paces);
    *largest = a->paces[rank];
    if (status == CLQ_OK) status = clq_why_machine_shares(devices, a->count, batch, a->shares, a->paces);
    clq_free(devices);
    CLQ_TRY(status);
    a->machines.batch = batch;
    for (unsigned r = 0; r < a->count; r++)
        if (a->shares[r] == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "a batch of %zu samples leaves none for %s: use another --batch, or fewer processes", batch,
                            clq_world_name(a->setup->world, r));
    return CLQ_OK;
}

/* ---- measuring ---- */

/* Processes of different hosts probe at the same time. Processes of one host would take its cores and memory from each
 * other, but the probe is to tell what each does alone. So they take turns. */
static unsigned turn_of(const clq_world *world, unsigned rank) {
    unsigned turn = 0;
    for (unsigned r = 0; r < rank; r++) turn += strcmp(clq_world_host(world, r), clq_world_host(world, rank)) == 0;
    return turn;
}

static clq_status probe_devices(answer *a, size_t largest) {
    clq_world *world = a->setup->world;
    const unsigned rank = clq_world_rank(world);
    clq_trainer_config config = a->config;
    clq_why_task task = a->task;
    unsigned turns = 0;
    config.world = NULL;
    config.global_batch = a->paces[rank];
    task.config = &config;
    for (unsigned r = 0; r < a->count; r++) turns = CLQ_MAX(turns, turn_of(world, r) + 1);
    for (unsigned turn = 0; turn < turns; turn++) {
        const bool is_own = turn_of(world, rank) == turn;
        CLQ_TRY(clq_world_check(world, is_own ? clq_why_probe_machine(&task, largest, &a->probes[rank]) : CLQ_OK));
    }
    return CLQ_OK;
}

static clq_status gather_probes(answer *a) {
    const clq_machine_probe mine = a->probes[clq_world_rank(a->setup->world)];
    return clq_world_gather(a->setup->world, &mine, sizeof mine, a->probes);
}

/* Each process trains its share by itself, and all do so at the same time: hosts may be virtual machines of one
 * computer. Rank 0 says for how long, by what it knows so far. */
static clq_status train_beside(answer *a) {
    clq_world *world = a->setup->world;
    const unsigned rank = clq_world_rank(world);
    double times[] = {all_of(a)->step_s, all_of(a)->parts.communication};
    clq_trainer_config config = a->config;
    clq_why_task task = a->task;
    size_t count = 0;
    CLQ_TRY(clq_world_broadcast(world, times, sizeof times));
    config.world = NULL;
    config.global_batch = a->paces[rank];
    config.strategy = CLQ_STRATEGY_AUTO;
    config.strategy_options = clq_trainer_config_default().strategy_options;
    config.check_replicas = 0;
    task.config = &config;
    const clq_status status = clq_why_time_rounds(&task, world, times[0], times[1], a->steps_s, &count);
    CLQ_TRY(clq_world_check(world, status));
    clq_why_note_together(&a->probes[rank], a->steps_s, count);
    return gather_probes(a);
}

/* All processes train together, as `clique train` does it: this is what the prediction is about. Rank 0 says for how
 * long. */
static clq_status train_together(answer *a) {
    clq_trainer_config config = a->config;
    clq_why_task task = a->task;
    double estimate_s = all_of(a)->step_s;
    size_t count = 0;
    CLQ_TRY(clq_world_broadcast(a->setup->world, &estimate_s, sizeof estimate_s));
    config.global_batch = a->machines.batch;
    task.config = &config;
    clq_status status = clq_why_time_steps(&task, a->setup->world, estimate_s, a->steps_s, &count);
    CLQ_TRY(clq_world_check(a->setup->world, status));
    a->measured_s = clq_why_mean_step(a->steps_s, count);
    return CLQ_OK;
}

/* ---- predicting ---- */

/* How many sums over all processes a step has. A synchronized normalisation has two moving statistics, and two sums:
 * one forward and one backward. A loss that leaves out masked steps has two. */
static unsigned count_sums(const clq_model *model) {
    unsigned sums = 0;
    for (uint32_t v = 0; v < model->variable_count; v++)
        sums += model->variables[v].role == CLQ_ROLE_STATE && model->variables[v].synchronized;
    for (uint32_t i = 0; i < model->output_count; i++) sums += model->tensors[model->outputs[i] - 1].mask ? 2 : 0;
    return sums;
}

static void describe_machines(answer *a) {
    clq_setup *s = a->setup;
    clq_machines *m = &a->machines;
    const bool near = clq_world_is_near(s->world);
    m->count = a->count;
    m->probes = a->probes;
    m->links = a->links;
    m->samples = clq_dataset_get_info(s->train)->samples;
    m->pieces = a->pieces;
    m->sums = count_sums(s->model);
    m->algorithm = a->config.group.algorithm;
    m->bucket_bytes = clq_why_bucket_bytes(a->gradient_bytes, a->config.bucket_bytes, near);
    m->message_bytes = near ? 0 : clq_world_message_bytes(s->world);
    m->scales_loss = a->config.precision == CLQ_PRECISION_MIXED;
}

/* How many batches make an update: an epoch has no more. */
static size_t batches_of_update(const answer *a, size_t batch) {
    const uint64_t asked = CLQ_MAX(a->config.strategy_options.accumulate, (uint64_t)1);
    return (size_t)CLQ_MIN(asked, (uint64_t)clq_ceil_div(a->machines.samples, batch));
}

static clq_status predict(answer *a) {
    const clq_strategy_options *s = &a->config.strategy_options;
    clq_machines_way way = {.local_steps = s->local_steps, .compression = s->compression.kind, .link_factor = 1};
    a->row_count = a->best = 0;
    for (unsigned n = 1; n <= a->count && a->row_count < ROWS_MOST; n = clq_why_next_count(n, a->count)) {
        bool known;
        way.machines = n;
        way.batch = batch_of(a, n);
        way.accumulate = batches_of_update(a, way.batch);
        CLQ_TRY(clq_why_predict_machines(&a->machines, &way, &known, &a->rows[a->row_count]));
        a->row_count += known;
    }
    if (a->row_count == 0 || all_of(a)->way.machines < a->count)
        return clq_fail(CLQ_ERROR_DEVICE_MEMORY, "a process's share of the batch does not fit its devices' memory");
    for (size_t i = 1; i < a->row_count; i++)
        if (a->rows[i].images_per_s > a->rows[a->best].images_per_s) a->best = i;
    return clq_why_advise_machines(&a->machines, all_of(a), &a->rows[a->best], a->advice, CLQ_COUNT_OF(a->advice),
                                   &a->advice_count);
}

/* ---- for people ---- */

static const char *name_of(const answer *a, unsigned rank) { return clq_world_name(a->setup->world, rank); }

static double alone_s(const answer *a, unsigned rank) {
    return clq_why_machine_alone(&a->probes[rank], a->paces[rank]);
}

static double together_s(const answer *a, unsigned rank) {
    return clq_why_machine_together(&a->probes[rank], a->paces[rank]);
}

static void print_ranks(const answer *a, FILE *to) {
    const unsigned slowest = all_of(a)->slowest;
    double others_s = 0;
    fprintf(to, "%8s %-20s %8s %10s %10s  %s\n", "rank", "host", "share", "alone", "together", "devices");
    for (unsigned r = 0, d = 0; r < a->count; r++) {
        const bool doubtful = clq_doubt_is_grave(&a->probes[r].doubt);
        (void)clq_print(to, "%8u %-20s %8zu %10.4f %9.4f%s  ", r, clq_world_host(a->setup->world, r), a->shares[r],
                        1e3 * alone_s(a, r), 1e3 * together_s(a, r), doubtful ? "?" : " ");
        for (const char *between = ""; d < a->setup->peer_count && a->setup->peers[d].rank == r; d++, between = ", ")
            (void)clq_print(to, "%s%s (%s)", between, a->setup->peers[d].name, a->setup->peers[d].driver);
        fputc('\n', to);
        if (r != slowest) others_s += together_s(a, r) / (a->count - 1);
    }
    (void)clq_print(to, "slowest: %s, %.2f times the mean of the others\n\n", name_of(a, slowest),
                    together_s(a, slowest) / others_s);
}

static void print_links(const answer *a, FILE *to) {
    const unsigned worst = clq_why_worst_link(&a->machines), next = (worst + 1) % a->count;
    const clq_link_probe *slow = &a->links[worst];
    clq_fprintf(to, "between neighbors, median: %.1f us, %.4f GB/s; ", 1e6 * a->middle.alpha_s,
                1e-9 / a->middle.beta_s);
    (void)clq_print(to, "worst, between %s and ", name_of(a, worst));
    (void)clq_print(to, "%s: %.1f us, %.4f GB/s\n\n", name_of(a, next), 1e6 * slow->alpha_s, 1e-9 / slow->beta_s);
}

static void print_rows(const answer *a, FILE *to) {
    clq_doubt worst = {0};
    fprintf(to, "%8s %10s %9s", "machines", "images/s", "step");
    clq_print_part_names(to);
    fprintf(to, "  limit\n");
    for (size_t i = 0; i < a->row_count; i++) {
        const clq_machines_prediction *p = &a->rows[i];
        clq_fprintf(to, "%8u %10.0f %9.4f", p->way.machines, p->images_per_s, 1e3 * p->step_s);
        clq_print_parts(&p->parts, to);
        fprintf(to, "%s %s\n", clq_doubt_is_grave(&p->doubt) ? "?" : " ", clq_limit_name(p->limit));
        worst = clq_doubt_worse(&worst, &p->doubt);
    }
    clq_fprintf(to, "%8u %10.0f %9.4f  measured: %.2f of the predicted rate\n", a->count, measured_rate(a),
                1e3 * a->measured_s, measured_rate(a) / all_of(a)->images_per_s);
    clq_explain_doubt(&worst, to);
    if (a->rows[0].way.machines > 1) fprintf(to, "of fewer machines a share does not fit the memory\n");
}

/* What limits the rate of all machines, in one sentence. */
static void describe_limit(const answer *a, clq_text *text) {
    const clq_machines_prediction *all = all_of(a);
    const clq_step_parts *p = &all->parts;
    const double percent = 100 / all->step_s;
    switch (all->limit) {
    case CLQ_LIMIT_COMMUNICATION:
        clq_text_add(text, "communication: %.0f%% of a step goes into exchanges that nothing hides",
                     percent * p->communication);
        return;
    case CLQ_LIMIT_SLOW_MACHINE:
        clq_text_add(text, "slow machine: the others wait %.0f%% of a step, most for %s", percent * all->waited_s,
                     name_of(a, all->slowest));
        return;
    case CLQ_LIMIT_INPUT: clq_text_add(text, "input: %.0f%% of a step goes into samples", percent * p->input); return;
    case CLQ_LIMIT_SHARED_CORES:
        clq_text_add(text, "shared cores: the processes take %.0f%% of a step from one another", percent * p->sharing);
        return;
    case CLQ_LIMIT_SMALL_BATCH:
        clq_text_add(text, "too small a batch: %.0f%% of a step takes as long for any batch", percent * p->fixed);
        return;
    case CLQ_LIMIT_COMPUTE:
        clq_text_add(text, "compute: devices are kept busy, for %.0f%% of a step", percent * p->compute);
        return;
    default: clq_text_add(text, "%s", clq_limit_name(all->limit));
    }
}

static clq_status judge(answer *a) {
    clq_text text = {0};
    const clq_machines_prediction *one = &a->rows[0], *all = all_of(a);
    if (one->way.machines == 1)
        clq_text_add(&text, "%u machines make %.2f times the rate of one; ", a->count,
                     all->images_per_s / one->images_per_s);
    describe_limit(a, &text);
    const clq_machines_prediction *best = &a->rows[a->best];
    if (best != all && best->way.machines == 1)
        clq_text_add(&text, "; one machine alone makes most: %.0f images/s", best->images_per_s);
    else if (best != all)
        clq_text_add(&text, "; the first %u machines make most: %.0f images/s", best->way.machines, best->images_per_s);
    const double reached = measured_rate(a) / all->images_per_s;
    if (!(reached >= near_least && reached <= near_most))
        clq_text_add(&text, "; measured together they make %.2f of the rate that is predicted, so doubt it", reached);
    if (!text.failed) (void)snprintf(a->verdict, sizeof a->verdict, "%s", text.data);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

static void print_answer(const answer *a) {
    const clq_model *model = a->setup->model;
    (void)clq_print(stdout,
                    "%s: %zu parameters, batch %zu over %u processes, measured in %.1f s; milliseconds of a "
                    "step\n\n",
                    clq_model_name(model), clq_model_parameter_count(model), a->machines.batch, a->count, a->seconds);
    print_ranks(a, stdout);
    print_links(a, stdout);
    print_rows(a, stdout);
    (void)clq_print(stdout, "\nverdict: %s\n", a->verdict);
    clq_print_advice(a->advice, a->advice_count, stdout);
}

/* ---- JSON ---- */

static json_t *describe_ranks(const answer *a) {
    json_t *list = json_array();
    for (unsigned r = 0, d = 0; r < a->count; r++) {
        json_t *devices = json_array();
        for (; d < a->setup->peer_count && a->setup->peers[d].rank == r; d++)
            devices = clq_json_append(devices, json_pack("{s:i, s:o, s:s}", "index", (int)a->setup->peers[d].index,
                                                         "name", clq_json_text(a->setup->peers[d].name), "driver",
                                                         a->setup->peers[d].driver));
        const double rate = (double)a->shares[r] / alone_s(a, r);
        list = clq_json_append(list,
                               json_pack("{s:i, s:o, s:o, s:I, s:o, s:o, s:o}", "rank", (int)r, "host",
                                         clq_json_text(clq_world_host(a->setup->world, r)), "devices", devices, "share",
                                         (json_int_t)a->shares[r], "alone_ms", clq_json_number(1e3 * alone_s(a, r)),
                                         "together_ms", clq_json_number(1e3 * together_s(a, r)), "doubt",
                                         clq_describe_doubt(&a->probes[r].doubt, rate)));
    }
    return list;
}

static json_t *describe_link(const clq_link_probe *link) {
    return json_pack("{s:o, s:o}", "latency_us", clq_json_number(1e6 * link->alpha_s), "gbps",
                     clq_json_number(1e-9 / link->beta_s));
}

static json_t *describe_links(const answer *a) {
    json_t *all = json_array();
    for (unsigned r = 0; r < a->count; r++) {
        json_t *link = describe_link(&a->links[r]);
        link = clq_json_put(link, "from", json_integer(r));
        all = clq_json_append(all, clq_json_put(link, "to", json_integer((r + 1) % a->count)));
    }
    return json_pack("{s:o, s:o, s:i}", "neighbors", all, "median", describe_link(&a->middle), "worst_from",
                     (int)clq_why_worst_link(&a->machines));
}

static json_t *describe_row(const clq_machines_prediction *p) {
    const bool alone = p->way.machines == 1, buckets = !alone && p->bucket_bytes != CLQ_SCALE_WHOLE;
    return json_pack("{s:i, s:o, s:o, s:s, s:o, s:o, s:s?, s:o, s:i, s:o}", "machines", (int)p->way.machines,
                     "images_per_s", clq_json_number(p->images_per_s), "step_ms", clq_json_number(1e3 * p->step_s),
                     "limit", clq_limit_name(p->limit), "parts_ms", clq_describe_parts(&p->parts), "exchange_ms",
                     clq_json_number(1e3 * p->exchange_s), "algorithm", alone ? NULL : clq_algorithm_name(p->algorithm),
                     "bucket_bytes", buckets ? json_integer((json_int_t)p->bucket_bytes) : json_null(), "slowest",
                     (int)p->slowest, "doubt", clq_describe_doubt(&p->doubt, p->images_per_s));
}

static clq_status print_document(const answer *a) {
    json_t *rows = json_array();
    for (size_t i = 0; i < a->row_count; i++) rows = clq_json_append(rows, describe_row(&a->rows[i]));
    return clq_print_json(
        json_pack("{s:o, s:I, s:i, s:o, s:i, s:o, s:o, s:o, s:{s:o, s:o}, s:o, s:o, s:s}", "model",
                  clq_json_text(clq_model_name(a->setup->model)), "global_batch", (json_int_t)a->machines.batch,
                  "processes", (int)a->count, "ranks", describe_ranks(a), "slowest", (int)all_of(a)->slowest, "links",
                  describe_links(a), "predictions", rows, "best", describe_row(&a->rows[a->best]), "measured",
                  "images_per_s", clq_json_number(measured_rate(a)), "step_ms", clq_json_number(1e3 * a->measured_s),
                  "advice", clq_describe_advice(a->advice, a->advice_count), "seconds", clq_json_number(a->seconds),
                  "verdict", a->verdict));
}

/* ---- the command ---- */

static clq_status measure(answer *a) {
    clq_setup *s = a->setup;
    size_t largest = 0;
    CLQ_TRY(clq_setup_gather_devices(s, a->options, prepare(a)));
    a->config.global_batch = s->global_batch;
    clq_interrupts_end_at_once(s->is_silent ? "" : "clique: error: interrupted while it measured\n");
    if (!s->is_silent) clq_interrupts_tell_of_end("clique: error: ended by a signal while it measured\n");
    CLQ_TRY(agree(a));
    CLQ_TRY(clq_world_check(s->world, find_shares(a, &largest)));
    const double start = clq_now();
    a->task =
        (clq_why_task){.model = s->model, .devices = &s->devices, .data = s->train, .patience = &s->choice.patience};
    CLQ_TRY(probe_devices(a, largest));
    CLQ_TRY(gather_probes(a));
    CLQ_TRY(clq_why_probe_links(s->world, a->links));
    describe_machines(a);
    CLQ_TRY(clq_world_check(s->world, predict(a)));
    CLQ_TRY(train_beside(a));
    CLQ_TRY(clq_world_check(s->world, predict(a)));
    CLQ_TRY(train_together(a));
    a->seconds = clq_now() - start;
    return CLQ_OK;
}

clq_status clq_why_of_world(clq_setup *s, const clq_options *o) {
    answer *a = clq_alloc(1, sizeof *a);
    clq_status status = clq_world_check(s->world, a ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) {
        a->setup = s;
        a->options = o;
        a->count = clq_world_size(s->world);
        status = measure(a);
        if (status == CLQ_OK) status = clq_why_middle_link(&a->machines, &a->middle);
        if (status == CLQ_OK) status = judge(a);
        if (status == CLQ_OK && o->json) status = print_document(a);
        if (status == CLQ_OK && !o->json) print_answer(a);
        clq_free(a->pieces);
        clq_free(a->shares);
        clq_free(a->paces);
        clq_free(a->probes);
        clq_free(a->links);
        clq_free(a->steps_s);
    }
    clq_free(a);
    return status;
}
