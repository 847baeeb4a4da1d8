/* One child of clique bench peers, from its arguments to its figures. */
#include "peers.h"

#include "cli/results.h"

#include <math.h>
#include <string.h>

enum { OUTPUT_BYTES_MAX = 1 << 20 };

void clq_peer_command_add(clq_peer_command *command, const char *format, ...) {
    size_t room = sizeof command->text - command->used;
    va_list arguments;
    va_start(arguments, format);
    int length = clq_format_list(command->text + command->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room || command->count == CLQ_PEER_ARGUMENTS_MAX) {
        command->failed = true;
        return;
    }
    command->argv[command->count++] = command->text + command->used;
    command->used += (size_t)length + 1;
}

void clq_peer_command_add_words(clq_peer_command *command, const char *format, ...) {
    char words[512];
    va_list arguments;
    va_start(arguments, format);
    int length = clq_format_list(words, sizeof words, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof words) {
        command->failed = true;
        return;
    }
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        clq_peer_command_add(command, "%s", word);
}

static clq_status run(const clq_peers *peers, const clq_peer_command *command, clq_bench_ending *out) {
    if (command->failed) return clq_fail(CLQ_ERROR_ARGUMENT, "an argument is too long to be passed on");
    return clq_bench_child_run(
        &(clq_bench_child){
            .argv = command->argv, .out_path = peers->out_path, .err_path = peers->err_path, .limit_s = peers->limit_s},
        out);
}

/* ---- peers ---- */

/* The last line that is a JSON object; NULL if there is none. */
static json_t *last_object(char *text) {
    json_t *found = NULL;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *value = NULL;
        (void)clq_json_parse(line, strlen(line), CLQ_RESULT_DEPTH_MAX, "a peer", &value);
        if (json_is_object(value)) {
            json_decref(found);
            found = value;
        } else {
            json_decref(value);
        }
    }
    return found;
}

static json_t *read_object(const clq_peers *peers) {
    void *text;
    size_t bytes;
    if (clq_file_read(peers->out_path, OUTPUT_BYTES_MAX, &text, &bytes) != CLQ_OK) return NULL;
    json_t *object = last_object(text);
    clq_free(text);
    return object;
}

static void explain(const clq_peers *peers, const clq_bench_ending *ending, char reason[CLQ_PEER_REASON_MAX]) {
    char line[CLQ_BENCH_LINE_MAX];
    clq_bench_line_of(peers->err_path, NULL, line);
    const char *colon = line[0] ? ": " : "";
    if (ending->late)
        (void)clq_format(reason, CLQ_PEER_REASON_MAX, "took longer than %g s (--limit)%s%s", peers->limit_s, colon,
                         line);
    else if (ending->signal)
        (void)snprintf(reason, CLQ_PEER_REASON_MAX, "ended by signal %d%s%s", ending->signal, colon, line);
    else if (ending->code)
        (void)snprintf(reason, CLQ_PEER_REASON_MAX, "exit status %d%s%s", ending->code, colon, line);
    else
        (void)snprintf(reason, CLQ_PEER_REASON_MAX, "printed no result%s%s", colon, line);
}

clq_status clq_peer_run(const clq_peers *peers, const clq_peer_command *command, char reason[CLQ_PEER_REASON_MAX],
                        json_t **out) {
    clq_bench_ending ending;
    reason[0] = '\0';
    *out = NULL;
    clq_status status = run(peers, command, &ending);
    if (status == CLQ_ERROR_SYSTEM) {
        (void)snprintf(reason, CLQ_PEER_REASON_MAX, "%s", clq_error_detail());
        return CLQ_OK;
    }
    CLQ_TRY(status);
    bool ended_well = !ending.late && ending.signal == 0 && ending.code == 0;
    if (ended_well) *out = read_object(peers);
    if (!*out) explain(peers, &ending, reason);
    return CLQ_OK;
}

/* ---- Clique itself ---- */

/* The inverse of clq_program_end's exit codes. */
static clq_status status_of_exit(int code) {
    switch (code) {
    case 2: return CLQ_ERROR_ARGUMENT;
    case 3: return CLQ_ERROR_FORMAT;
    case 4: return CLQ_ERROR_DEVICE;
    default: return CLQ_ERROR_SYSTEM;
    }
}

static clq_status fail_as_child(const clq_peers *peers, const char *bench, const clq_bench_ending *ending) {
    static const char prefix[] = "clique: error: ";
    char line[CLQ_BENCH_LINE_MAX];
    if (ending->late)
        return clq_fail(CLQ_ERROR_TIMEOUT, "clique bench %s took longer than %g s (--limit)", bench, peers->limit_s);
    clq_bench_line_of(peers->err_path, prefix, line);
    if (line[0]) return clq_fail(status_of_exit(ending->code), "%s", line + sizeof prefix - 1);
    clq_bench_line_of(peers->err_path, NULL, line);
    return clq_fail(CLQ_ERROR_SYSTEM, "clique bench %s ended by %s %d: %s", bench,
                    ending->signal ? "signal" : "exit status", ending->signal ? ending->signal : ending->code, line);
}

clq_status clq_peer_run_own(const clq_peers *peers, const clq_peer_command *arguments, json_t **out) {
    clq_peer_command command = {0};
    clq_bench_ending ending;
    clq_peer_command_add(&command, "%s", peers->self);
    for (size_t i = 0; i < arguments->count; i++) clq_peer_command_add(&command, "%s", arguments->argv[i]);
    clq_peer_command_add(&command, "--json");
    clq_peer_command_add(&command, "%s", peers->json_path);
    command.failed |= arguments->failed;
    CLQ_TRY(run(peers, &command, &ending));
    if (ending.late || ending.signal || ending.code) return fail_as_child(peers, arguments->argv[0], &ending);
    json_t *document;
    if (clq_json_read(peers->json_path, CLQ_RESULT_BYTES_MAX, CLQ_RESULT_DEPTH_MAX, &document) != CLQ_OK)
        return clq_fail(CLQ_ERROR_SYSTEM, "clique bench %s left no result", arguments->argv[0]);
    *out = document;
    return CLQ_OK;
}

/* ---- figures ---- */

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool clq_peer_figures_read(const json_t *object, clq_peer_figures *out) {
    const json_t *time = json_object_get(object, "time_us");
    clq_peer_figures f = {
        .typical = number_of(time, "p50"), .least = number_of(time, "min"), .most = number_of(time, "p99")};
    if (!time)
        f = (clq_peer_figures){.typical = number_of(object, "images_per_s"),
                               .least = number_of(object, "images_per_s_least"),
                               .most = number_of(object, "images_per_s_most")};
    if (!(f.least > 0 && f.least <= f.typical && f.typical <= f.most && isfinite(f.most))) return false;
    *out = f;
    return true;
}
