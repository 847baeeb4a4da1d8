/* clique train. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* STEPS_TIMED: how many of the last steps count for the percentiles of step times. */
enum { STEPS_TIMED = 4096 };

/* A part of the data that a thread reads while devices are opened. */
typedef struct reading {
    const clq_setup *setup;
    const clq_options *options;
    const char *part;
    clq_thread *thread;
    clq_dataset *data; /* NULL: reading failed; `error` says why */
    clq_error error;
} reading;

typedef struct training {
    const clq_options *options;
    clq_setup *setup;
    reading train, test; /* until open_data takes the data sets */
    FILE *log;           /* NULL: no log */
    bool log_begun;      /* the lines of an earlier training were removed */
    FILE *talk;
    bool terminal;      /* a progress line may be redrawn */
    size_t line_length; /* length of the progress line on the screen */
    uint64_t epoch;
    double first_step_s;
    double trained_s, input_s; /* in epochs that have ended; input_s: of this, waiting for data */
    clq_toll begun;            /* the toll after the first step */
    clq_cores_used cores;      /* what the cores had done until then */
    double begun_samples;      /* samples of the epoch until then */
    float *step_s;
    clq_epoch_info *epochs;
    size_t epoch_count;
    json_t *matrices;   /* for --json, by epoch: those of training and test */
    size_t shares_told; /* how many changes of shares were printed */
    clq_fit_callbacks callbacks;
    clq_checkpoints *checkpoints;
    uint64_t resumed; /* the update from which the training resumes; 0: it is new */
} training;

/* ---- the log: a line of JSON for each update ---- */

static clq_status fail_log(const training *t) {
    return clq_fail(CLQ_ERROR_WRITE, "--log %s: %s", t->options->log, strerror(errno));
}

/* A key may hold the name of a layer, which is UTF-8 without control characters: only quotation marks and backslashes
 * need an escape. JSON has no NaN and no infinity: null stands for them. */
static void log_number(FILE *file, const char *key, double value) {
    putc('"', file);
    for (; *key; key++) {
        if (*key == '"' || *key == '\\') putc('\\', file);
        putc(*key, file);
    }
    if (isfinite(value))
        clq_fprintf(file, "\": %.17g, ", value);
    else
        fprintf(file, "\": null, ");
}

/* Prepares the log when its first line is to be written: empties an earlier log, or cuts it after the step from which
 * this training resumes. */
static clq_status begin_log(training *t) {
    if (t->log_begun) return CLQ_OK;
    t->log_begun = true;
    return clq_cli_checkpoints_log(t->options->log, t->resumed, t->log);
}

/* Logs the metrics, too, if the model has several outputs. */
static clq_status log_step(void *context, const clq_step_info *info) {
    training *t = context;
    if (!t->log) return CLQ_OK; /* if there are several processes, rank 0 has the log */
    CLQ_TRY(begin_log(t));
    fprintf(t->log, "{\"step\": %llu, \"epoch\": %llu, ", (unsigned long long)info->step, (unsigned long long)t->epoch);
    log_number(t->log, "loss", info->loss);
    for (unsigned i = 0; i < info->metrics.count && clq_model_output_count(t->setup->model) > 1; i++)
        log_number(t->log, info->metrics.names[i], info->metrics.values[i]);
    log_number(t->log, "grad_norm", info->grad_norm);
    log_number(t->log, "lr", info->lr);
    if (info->replica >= 0)
        fprintf(t->log, "\"replica\": %d, \"staleness\": %u, ", (int)info->replica, (unsigned)info->staleness);
    clq_fprintf(t->log, "\"samples\": %zu, \"ms\": %.6g}\n", info->samples, 1e3 * info->seconds);
    return ferror(t->log) ? fail_log(t) : CLQ_OK;
}

/* Whether the path exists and is no regular file: a pipe or a device. */
static bool is_stream(const char *path) {
    struct stat info;
    return path && stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* Leaves the lines of an earlier log as they are. Opens a pipe for writing only: a process that also holds the reading
 * end waits for ever once the pipe is full, and never learns that the pipe's reader has gone. */
static clq_status open_log(training *t) {
    if (!t->options->log || t->setup->is_silent) return CLQ_OK;
    const bool stream = is_stream(t->options->log);
    const int fd = open(t->options->log, stream ? O_WRONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    t->log = fd < 0 ? NULL : fdopen(fd, stream ? "w" : "r+");
    if (t->log) return CLQ_OK;
    const clq_status status = fail_log(t);
    if (fd >= 0) close(fd);
    return status;
}

/* Also reports a write that failed earlier. */
static clq_status close_log(training *t) {
    if (!t->log) return CLQ_OK;
    bool failed = ferror(t->log) != 0;
    failed |= fclose(t->log) != 0;
    t->log = NULL;
    return failed ? fail_log(t) : CLQ_OK;
}

/* ---- progress ---- */

static void clear_line(training *t) {
    if (t->line_length) fprintf(t->talk, "\r%*s\r", (int)t->line_length, "");
    t->line_length = 0;
}

/* Prints the shares that were changed since the last call. The introduction has told how they began. */
static void tell_shares(training *t) {
    const clq_trainer *trainer = t->setup->trainer;
    for (; t->shares_told < clq_trainer_share_changes(trainer); t->shares_told++) {
        size_t shares[CLQ_REPLICAS_MAX];
        uint64_t step;
        if (t->shares_told == 0 || clq_trainer_share_change(trainer, t->shares_told, &step, shares) != CLQ_OK) continue;
        clear_line(t);
        fprintf(t->talk, "step %llu: shares are now", (unsigned long long)step);
        for (unsigned r = 0; r < clq_setup_replicas(t->setup); r++) fprintf(t->talk, "%s %zu", r ? "," : "", shares[r]);
        for (unsigned r = 0; r < clq_setup_replicas(t->setup); r++)
            if (shares[r] == 0) fprintf(t->talk, "; replica %u is left out", r);
        fprintf(t->talk, "\n");
    }
}

/* What remains of the epoch, or of its test. If the model has several outputs, leaves out the metrics, so that the line
 * fits a screen. */
static void describe_progress(const training *t, const clq_progress *p, char *text, size_t bytes) {
    int length =
        snprintf(text, bytes, "epoch %llu/%llu  ", (unsigned long long)p->epoch + 1, (unsigned long long)p->epochs);
    char *rest = text + length, metrics[CLQ_METRICS_TEXT] = "";
    bytes -= (size_t)length;
    if (clq_model_output_count(t->setup->model) == 1)
        clq_describe_metrics("", &p->totals.metrics, metrics, sizeof metrics);
    if (p->validation_batches > 0) {
        clq_format(rest, bytes, "loss %.4f%s  testing %.0f%%", p->totals.loss, metrics,
                   100.0 * (double)p->validation_batch / (double)p->validation_batches);
        return;
    }
    double rate = (double)p->totals.samples / CLQ_MAX(p->totals.seconds, 1e-9);
    double left = p->batch ? p->totals.seconds / (double)p->batch * (double)(p->batches - p->batch) : 0.0;
    clq_format(rest, bytes, "%3.0f%%  %.0f images/s  loss %.4f%s  %.0f s left",
               100.0 * (double)p->batch / (double)p->batches, rate, p->totals.loss, metrics, left);
}

/* /proc/self/stat gives the process's start in clock ticks since boot. Without that file: the time since the first
 * call. */
static double seconds_since_process_start(void) {
    static double first_call = 0.0;
    if (first_call == 0.0) first_call = clq_now();
    FILE *stat = fopen("/proc/self/stat", "r");
    char line[1024] = "";
    if (stat) {
        if (!fgets(line, sizeof line, stat)) line[0] = '\0';
        fclose(stat);
    }
    unsigned long long ticks = 0;
    const char *after_name = strrchr(line, ')');
    struct timespec now;
    if (!after_name ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1 ||
        clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return clq_now() - first_call;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static clq_status show_progress(void *context, const clq_progress *p) {
    training *t = context;
    if (t->first_step_s == 0.0) {
        t->first_step_s = seconds_since_process_start();
        t->setup->begun = true;
        t->begun = clq_toll_now(t->setup->trainer, p->totals.seconds, p->totals.input_s);
        t->begun_samples = (double)p->totals.samples;
        t->cores = clq_cores_used_now();
    }
    tell_shares(t);
    if (clq_interrupted())
        return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted after step %llu", (unsigned long long)p->step);
    if (t->log && fflush(t->log) != 0) return fail_log(t); /* for a reader that follows the log */
    if (!t->terminal) return CLQ_OK;
    char line[2 * CLQ_METRICS_TEXT];
    describe_progress(t, p, line, sizeof line);
    clear_line(t);
    int length = fprintf(t->talk, "%s", line);
    t->line_length = length > 0 ? (size_t)length : 0;
    fflush(t->talk);
    return CLQ_OK;
}

static clq_status flush_log(void *context, uint64_t step) {
    training *t = context;
    (void)step;
    return t->log && fflush(t->log) != 0 ? fail_log(t) : CLQ_OK;
}

/* Call it after an epoch: the trainer has the epoch's matrices until the next one. */
static clq_status note_matrices(training *t, bool trained, bool validated) {
    const clq_trainer *trainer = t->setup->trainer;
    if (!t->options->json || clq_trainer_matrix_count(trainer) == 0) return CLQ_OK;
    json_t *own = clq_json_put_matrices(json_object(), "", trainer, CLQ_MATRIX_OF_TRAINING, trained);
    own = clq_json_put_matrices(own, "val_", trainer, CLQ_MATRIX_OF_EVALUATION, validated);
    t->matrices = clq_json_append(t->matrices ? t->matrices : json_array(), own);
    return t->matrices ? CLQ_OK : clq_fail_memory("an epoch's confusion matrices");
}

static clq_status show_epoch(void *context, const clq_epoch_info *info) {
    training *t = context;
    clq_epoch_info *grown = clq_realloc(t->epochs, t->epoch_count, t->epoch_count + 1, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    t->epochs = grown;
    t->epochs[t->epoch_count++] = *info;
    t->epoch = info->epoch + 1;
    CLQ_TRY(note_matrices(t, info->train.samples > 0, info->validation.samples > 0));
    t->trained_s += info->train.seconds;
    t->input_s += info->train.input_s;
    clear_line(t);
    char metrics[CLQ_METRICS_TEXT];
    clq_describe_metrics("", &info->train.metrics, metrics, sizeof metrics);
    fprintf(t->talk, "epoch %llu", (unsigned long long)info->epoch + 1);
    if (info->train.samples) clq_fprintf(t->talk, "  loss %.4f%s", info->train.loss, metrics);
    clq_describe_metrics("test ", &info->validation.metrics, metrics, sizeof metrics);
    if (info->validation.samples) clq_fprintf(t->talk, "  test loss %.4f%s", info->validation.loss, metrics);
    clq_fprintf(t->talk, "  %.1f s  %.0f images/s\n", info->train.seconds,
                (double)info->train.samples / info->train.seconds);
    fflush(t->talk);
    return CLQ_OK;
}

/* ---- setting up ---- */

static void read_data(void *context) {
    reading *r = context;
    clq_status status = clq_setup_data(r->setup, r->options, r->part, &r->data);
    if (status != CLQ_OK) clq_error_take(status, &r->error);
}

static clq_status start_reading(const clq_setup *setup, const clq_options *options, const char *part, reading *out) {
    out->setup = setup;
    out->options = options;
    out->part = part;
    return clq_thread_start("data", read_data, out, &out->thread);
}

/* Waits for the thread, and hands over what it read. */
static clq_status end_reading(reading *r, clq_dataset **out) {
    clq_thread_join(r->thread);
    r->thread = NULL;
    if (!r->data) return clq_error_raise(&r->error);
    *out = r->data;
    r->data = NULL;
    return CLQ_OK;
}

static void cancel_reading(reading *r) {
    clq_thread_join(r->thread);
    clq_dataset_destroy(r->data);
}

static clq_status open_data(training *t) {
    const clq_options *o = t->options;
    clq_setup *s = t->setup;
    CLQ_TRY(end_reading(&t->train, &s->train));
    CLQ_TRY(clq_setup_shuffle(o, s->train));
    CLQ_TRY(clq_dataset_batch(s->train, s->global_batch, o->drop_remainder));
    CLQ_TRY(clq_dataset_prefetch(s->train, CLQ_PREFETCH_AUTO));
    if (o->no_test) return CLQ_OK;
    clq_status status = end_reading(&t->test, &s->test);
    if (status == CLQ_ERROR_NOT_FOUND) return clq_fail_within(status, "no test set (--no-test trains without one)");
    if (status == CLQ_ERROR_MISMATCH && clq_dataset_is_text(o->data))
        return clq_fail_within(status, "the test set is the text's last tenth (--no-test trains without one)");
    CLQ_TRY(status);
    CLQ_TRY(clq_dataset_batch(s->test, s->global_batch, false));
    return clq_dataset_prefetch(s->test, CLQ_PREFETCH_AUTO);
}

static void introduce_replicas(const training *t) {
    const clq_setup *s = t->setup;
    const bool whole = clq_strategy_gradient_counts(clq_trainer_strategy(s->trainer)).staleness != NULL;
    for (unsigned r = 0; r < clq_trainer_replicas(s->trainer); r++) {
        clq_device_info device;
        size_t share, launches = clq_strategy_calls(clq_trainer_strategy(s->trainer), r);
        if (clq_trainer_replica(s->trainer, r, &device, &share) == CLQ_OK)
            fprintf(t->talk, "  %u: %s (%s), %zu of each batch%s, %zu %s a step\n", r, device.name, device.driver,
                    share, whole ? " that it is given" : "", launches, launches == 1 ? "launch" : "launches");
    }
}

static void introduce(const training *t) {
    const clq_setup *s = t->setup;
    const unsigned replicas = s->world ? s->peer_count : clq_trainer_replicas(s->trainer);
    fprintf(t->talk, "%s: %zu parameters, global batch %zu on %u %s", clq_model_name(s->model),
            clq_model_parameter_count(s->model), s->global_batch, replicas, replicas == 1 ? "device" : "replicas");
    const unsigned processes = clq_world_size(s->world);
    if (s->world) fprintf(t->talk, " of %u process%s", processes, processes == 1 ? "" : "es");
    if (s->world && s->config.shard != CLQ_SHARD_DATA) fprintf(t->talk, ", shard %s", t->options->shard);
    if (t->options->accumulate > 1)
        fprintf(t->talk, ", an update for %llu batches", (unsigned long long)t->options->accumulate);
    putc('\n', t->talk);
    if (s->world) {
        clq_introduce_peers(s, t->talk);
    } else {
        introduce_replicas(t);
        clq_tell_choice(s, t->options, t->talk);
    }
}

/* All that a process prepares without the others. */
static clq_status prepare_devices(training *t) {
    static const char *const progress_words[] = {"auto", "off", NULL};
    const clq_options *o = t->options;
    size_t progress;
    CLQ_TRY(clq_find_word("--progress", o->progress, progress_words, &progress));
    /* Finds wrong options and files that cannot be written before the training, not after it. */
    CLQ_TRY(clq_check_init(o));
    CLQ_TRY(clq_file_writer_try("--save", o->save));
    CLQ_TRY(clq_file_writer_try("--trace", o->trace));
    if (is_stream(o->log) || is_stream(o->csv)) clq_interrupts_block_pipe();
    t->talk = clq_talk(o);
    t->terminal = strcmp(o->progress, "auto") == 0 && isatty(fileno(t->talk));
    t->step_s = clq_alloc(STEPS_TIMED, sizeof *t->step_s);
    if (!t->step_s) return CLQ_ERROR_MEMORY;
    CLQ_TRY(clq_setup_model(t->setup, o));
    if (o->save) CLQ_TRY(clq_model_check_save(t->setup->model, o->save));
    t->setup->choice.may_renew = true;
    if (!t->setup->world) CLQ_TRY(clq_setup_recall(t->setup, o)); /* measurements are about a single process */
    CLQ_TRY(start_reading(t->setup, o, "train", &t->train));
    CLQ_TRY(clq_setup_devices(t->setup, o));
    CLQ_TRY(clq_setup_choose(t->setup, o, NULL));
    /* Not sooner: the process uses the most memory while drivers are loaded. */
    return o->no_test ? CLQ_OK : start_reading(t->setup, o, "test", &t->test);
}

static clq_status prepare(training *t) {
    const clq_options *o = t->options;
    clq_world *world = t->setup->world;
    CLQ_TRY(clq_setup_gather_devices(t->setup, o, prepare_devices(t)));
    CLQ_TRY(clq_world_check(world, open_data(t)));
    const clq_dtype dtype = clq_dataset_get_info(t->setup->train)->sample_dtype;
    CLQ_TRY(clq_world_check(world, clq_setup_trainer(t->setup, o, dtype, false)));
    CLQ_TRY(clq_world_check(world, clq_options_name(clq_fit_callbacks_open(o, t->setup->trainer, &t->callbacks))));
    CLQ_TRY(clq_options_name(
        clq_fit_checkpoints_open(o, world, t->setup->trainer, t->setup->train, &t->checkpoints, &t->resumed)));
    uint64_t index;
    if (t->resumed > 0) clq_dataset_tell(t->setup->train, &t->epoch, &index);
    if (t->resumed > 0) fprintf(t->talk, "resuming from step %llu\n", (unsigned long long)t->resumed);
    return clq_world_check(world, open_log(t));
}

/* ---- the end ---- */

static const clq_epoch_info *best_epoch(const training *t) {
    const clq_epoch_info *best = &t->epochs[0];
    for (size_t i = 1; i < t->epoch_count; i++)
        if ((double)t->epochs[i].train.samples * best->train.seconds >
            (double)best->train.samples * t->epochs[i].train.seconds)
            best = &t->epochs[i];
    return best;
}

static int by_value(const void *left, const void *right) {
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static json_t *describe_epoch(const training *t, size_t index) {
    const clq_epoch_info *e = &t->epochs[index];
    clq_totals validation = e->validation;
    bool validated = validation.samples > 0;
    if (!validated) validation.metrics = e->train.metrics; /* for the names of the metrics */
    json_t *epoch = clq_json_put_measures(json_object(), "", &e->train, e->train.samples > 0);
    epoch = clq_json_put_measures(epoch, "val_", &validation, validated);
    if (t->matrices && json_object_update(epoch, json_array_get(t->matrices, index)) != 0) {
        json_decref(epoch);
        return NULL;
    }
    epoch = clq_json_put(epoch, "seconds", json_real(e->train.seconds));
    return clq_json_put(epoch, "images_per_s", clq_json_number((double)e->train.samples / e->train.seconds));
}

static json_t *describe_devices(const training *t) {
    json_t *list = json_array();
    for (unsigned r = 0; r < clq_trainer_replicas(t->setup->trainer); r++) {
        clq_device_info device;
        size_t share;
        if (clq_trainer_replica(t->setup->trainer, r, &device, &share) == CLQ_OK)
            list = clq_json_append(list, json_pack("{s:i, s:o, s:I}", "index", (int)device.index, "name",
                                                   clq_json_text(device.name), "share", (json_int_t)share));
    }
    return list;
}

/* Which share of a full global batch each replica had, and from which step on. */
static json_t *describe_shares(const training *t) {
    const clq_trainer *trainer = t->setup->trainer;
    const size_t changes = clq_trainer_share_changes(trainer);
    json_t *list = json_array();
    for (size_t i = 0; i < CLQ_MAX(changes, (size_t)1); i++) {
        size_t shares[CLQ_REPLICAS_MAX] = {0};
        uint64_t step = 1;
        json_t *row = json_array();
        if (i < changes) (void)clq_trainer_share_change(trainer, i, &step, shares);
        for (unsigned r = 0; r < clq_setup_replicas(t->setup); r++)
            row = clq_json_append(row,
                                  json_integer((json_int_t)(i < changes ? shares[r] : clq_setup_share(t->setup, r))));
        list = clq_json_append(list, json_pack("{s:I, s:o}", "step", (json_int_t)step, "shares", row));
    }
    return list;
}

/* NaN: no epoch has ended. */
static double best_rate(const training *t) {
    if (t->epoch_count == 0) return (double)NAN;
    const clq_totals *best = &best_epoch(t)->train;
    return (double)best->samples / best->seconds;
}

/* The precision. If the loss is scaled, also its scale and the number of skipped steps; otherwise null for both. */
static json_t *put_precision(const training *t, json_t *document) {
    double scale;
    uint64_t skipped;
    const bool scales = strcmp(t->options->precision, clq_precision_name(CLQ_PRECISION_MIXED)) == 0 &&
                        clq_trainer_loss_scale(t->setup->trainer, &scale, &skipped) == CLQ_OK;
    document = clq_json_put(document, "precision", json_string(t->options->precision));
    document = clq_json_put(document, "loss_scale", scales ? json_real(scale) : json_null());
    return clq_json_put(document, "skipped_steps", scales ? json_integer((json_int_t)skipped) : json_null());
}

static clq_status print_result(training *t, const char *verdict) {
    size_t kept;
    CLQ_TRY(clq_trainer_step_times(t->setup->trainer, STEPS_TIMED, t->step_s, &kept));
    qsort(t->step_s, kept, sizeof *t->step_s, by_value);
    const double p50 = kept ? 1e3 * (double)t->step_s[kept / 2] : (double)NAN,
                 p95 = kept ? 1e3 * (double)t->step_s[kept * 95 / 100] : (double)NAN;
    json_t *epochs = json_array();
    for (size_t i = 0; i < t->epoch_count; i++) epochs = clq_json_append(epochs, describe_epoch(t, i));
    const clq_setup *s = t->setup;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    json_t *document =
        json_pack("{s:o, s:i, s:I, s:I, s:o, s:o, s:f, s:o, s:o, s:{s:o, s:o}, s:I, s:I, s:I, s:o}", "model",
                  clq_json_text(clq_model_name(t->setup->model)), "replicas", (int)clq_setup_replicas(s),
                  "global_batch", (json_int_t)t->setup->global_batch, "accumulate", (json_int_t)t->options->accumulate,
                  "devices", s->world ? clq_describe_peers(s) : describe_devices(t), "shares", describe_shares(t),
                  "first_step_s", t->first_step_s, "images_per_s", clq_json_number(best_rate(t)), "epochs", epochs,
                  "step_ms", "p50", clq_json_number(p50), "p95", clq_json_number(p95), "launches_per_step",
                  (json_int_t)clq_strategy_calls(clq_trainer_strategy(t->setup->trainer), 0), "peak_rss_bytes",
                  (json_int_t)usage.ru_maxrss * 1024, "device_bytes",
                  (json_int_t)clq_trainer_device_bytes(t->setup->trainer), "verdict", clq_json_text(verdict));
    document = clq_json_put(
        document, "chosen",
        clq_describe_choice(t->setup, t->options, clq_strategy_own_name(clq_trainer_strategy(t->setup->trainer))));
    const uint64_t diverged = clq_trainer_diverged(t->setup->trainer);
    document = clq_json_put(document, "diverged_step", diverged ? json_integer((json_int_t)diverged) : json_null());
    document = clq_json_put(document, "ranks", json_integer((json_int_t)clq_world_size(s->world)));
    document = clq_json_put(document, "ps_ranks", json_integer((json_int_t)clq_world_apart(s->world)));
    document = put_precision(t, document);
    document = clq_json_put(document, "early_stopping", clq_train_callbacks_describe(&t->callbacks));
    if (t->setup->loaded) document = clq_json_put(document, "init", clq_describe_loaded(t->setup->loaded));
    document = clq_json_put(document, "checkpoints", clq_cli_checkpoints_describe(t->checkpoints, t->resumed));
    clq_status status = clq_json_put_server(t->setup->trainer, &document);
    if (status == CLQ_OK) return clq_print_json(document);
    json_decref(document);
    return status;
}

/* The rate of the best epoch, without the time up to the first step. An epoch counts only if enough of its time is
 * left; 0: none counts. */
static double settled_rate(const training *t) {
    static const double least_s = 0.25;
    double best = 0;
    if (t->first_step_s == 0) return 0; /* no step was made: the training had ended in an earlier run */
    for (size_t i = 0; i < t->epoch_count; i++) {
        const clq_totals *e = &t->epochs[i].train;
        const double seconds = e->seconds - (i == 0 ? t->begun.trained_s : 0.0),
                     samples = (double)e->samples - (i == 0 ? t->begun_samples : 0.0);
        if (seconds >= least_s) best = CLQ_MAX(best, samples / seconds);
    }
    return best;
}

/* Notes nothing if steps are traced or checked: they take longer than what is predicted. */
static void note_choice(const training *t) {
    const clq_options *o = t->options;
    const clq_cores_used now = clq_cores_used_now();
    const double rate = settled_rate(t);
    if (rate > 0 && !o->trace && !o->check_numerics && o->check_replicas == 0)
        clq_setup_note_training(t->setup, rate, clq_others_between(&t->cores, &now));
}

/* Judges the time after the first step: in the first one, replicas wait for what others compile. */
static clq_status tell(training *t) {
    char verdict[CLQ_VERDICT_TEXT];
    const clq_toll ended = clq_toll_now(t->setup->trainer, t->trained_s, t->input_s);
    note_choice(t);
    CLQ_TRY(clq_judge(t->setup, t->options, &t->begun, &ended, best_rate(t), verdict));
    if (t->options->json) return print_result(t, verdict);
    return clq_print(t->talk, "verdict: %s\n", verdict);
}

/* Reports what there is so far. */
static clq_status tell_interrupted(training *t, clq_status status) {
    clq_error error;
    clq_error_take(status, &error);
    CLQ_TRY(close_log(t));
    if (t->checkpoints) CLQ_TRY(clq_cli_checkpoints_tell(t->checkpoints, t->talk));
    if (t->options->json) CLQ_TRY(print_result(t, error.detail));
    return clq_error_raise(&error);
}

/* Prints the matrices of the last epoch: of its test, if there was one, otherwise of its training. */
static clq_status tell_matrices(const training *t) {
    if (t->epoch_count == 0) return CLQ_OK;
    const clq_epoch_info *last = &t->epochs[t->epoch_count - 1];
    if (last->validation.samples > 0)
        return clq_print_matrices(t->talk, "test ", t->setup->trainer, CLQ_MATRIX_OF_EVALUATION);
    if (last->train.samples == 0) return CLQ_OK;
    return clq_print_matrices(t->talk, "", t->setup->trainer, CLQ_MATRIX_OF_TRAINING);
}

/* With --ema the weights become their averages. */
static clq_status take_average(const training *t) {
    double momentum = 0.0;
    if (t->options->ema) (void)clq_parse_double(t->options->ema, 0.0, 1.0, &momentum);
    return momentum > 0.0 ? clq_trainer_swap_average(t->setup->trainer) : CLQ_OK;
}

static clq_status train(training *t) {
    CLQ_TRY(prepare(t));
    introduce(t);
    if (t->setup->loaded) CLQ_TRY(clq_tell_loaded(t->setup->loaded, t->options->init, t->talk));
    /* Until the first step is made, Ctrl-C ends the process at once. After that, it ends the run in order. */
    clq_interrupts_end_at_once(t->setup->is_silent ? "" : "clique: error: interrupted before the first step\n");
    const clq_options *o = t->options;
    clq_fit_config fit = {.validation = t->setup->test,
                          .context = t,
                          .on_progress = show_progress,
                          .on_epoch = show_epoch,
                          .on_log = o->log ? log_step : NULL,
                          .checkpoints = t->checkpoints,
                          .callbacks = t->callbacks.list,
                          .callback_count = t->callbacks.count,
                          .on_checkpoint = flush_log};
    clq_fit_set_length(o, &fit);
    clq_status status = clq_fit(t->setup->trainer, t->setup->train, &fit);
    (void)clq_interrupted(); /* from here on Ctrl-C no longer ends the process at once, even if no step was made */
    clear_line(t);
    tell_shares(t);
    if (status == CLQ_ERROR_INTERRUPTED && o->trace) CLQ_TRY(clq_trainer_write_trace(t->setup->trainer, o->trace));
    if (status == CLQ_ERROR_INTERRUPTED) return tell_interrupted(t, status);
    CLQ_TRY(status);
    CLQ_TRY(close_log(t));
    CLQ_TRY(tell_matrices(t));
    CLQ_TRY(clq_train_callbacks_tell(&t->callbacks, t->talk));
    if (t->checkpoints) CLQ_TRY(clq_cli_checkpoints_tell(t->checkpoints, t->talk));
    CLQ_TRY(take_average(t));
    if (o->save) CLQ_TRY(clq_trainer_save(t->setup->trainer, o->save));
    if (o->trace) CLQ_TRY(clq_trainer_write_trace(t->setup->trainer, o->trace));
    CLQ_TRY(clq_describe_server(t->setup->trainer, t->talk));
    CLQ_TRY(tell(t));
    return t->checkpoints ? clq_cli_checkpoints_check(t->checkpoints, t->setup->trainer) : CLQ_OK;
}

clq_status clq_command_train(clq_setup *setup, const clq_options *options) {
    training t = {.options = options, .setup = setup};
    if (clq_world_is_apart(setup->world)) return clq_setup_serve(setup);
    clq_status status = clq_setup_end_stores(setup, train(&t));
    clq_checkpoints_close(t.checkpoints);
    clq_fit_callbacks_close(&t.callbacks);
    if (t.log) fclose(t.log); /* it is open only after a failure, which is the one to report */
    cancel_reading(&t.train); /* the thread still reads if something else failed */
    cancel_reading(&t.test);
    json_decref(t.matrices);
    clq_free(t.step_s);
    clq_free(t.epochs);
    return status;
}
