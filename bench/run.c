/* What all benchmarks have in common, from the command line to the written result. */
#include "bench.h"

#include "cli/cli.h"
#include "cli/ranks.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

enum { KEY_DEVICES = 256, KEY_BUILD_DEADLINE, KEY_JSON, KEY_CSV, OPTIONS_MAX = 32 };

static clq_status set_common(clq_bench_run *run, const clq_argument *option, const char *text) {
    const clq_bench_spec *spec = run->spec;
    switch (option->key) {
    case KEY_DEVICES: run->devices_spec = text; return CLQ_OK;
    case KEY_BUILD_DEADLINE:
        run->build_deadline = text;
        return clq_argument_seconds(option, text, &run->build_deadline_s);
    case KEY_JSON: run->json_path = text; return CLQ_OK;
    case KEY_CSV: run->csv_path = text; return CLQ_OK;
    case 'w':
        run->warm_ups_given = true;
        if (clq_parse_u64(text, 0, 1000, &run->warm_ups)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "-w '%s': expected a whole number from 0 to 1000", text);
    default:
        run->iterations_given = true;
        if (clq_parse_u64(text, 1, spec->iterations_most, &run->iterations)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "-n '%s': expected a whole number from 1 to %llu", text,
                        (unsigned long long)spec->iterations_most);
    }
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    clq_bench_run *run = context;
    if (option->name && strcmp(option->name, "models") == 0) run->models = text;
    if (option->name && strcmp(option->name, "data") == 0) run->data = text;
    if (option->key < KEY_DEVICES || option->key >= CLQ_BENCH_KEY_OWN)
        clq_text_add(&run->given, "%d %s\n", option->key, text ? text : "");
    bool common =
        option->key == 'n' || option->key == 'w' || (option->key >= KEY_DEVICES && option->key < CLQ_BENCH_KEY_OWN);
    return common ? set_common(run, option, text) : run->spec->set(run->context, option, text);
}

static clq_status parse(clq_bench_run *run, int argc, char **argv) {
    const clq_bench_spec *spec = run->spec;
    char program[64], iterations[96], warm_ups[96];
    (void)snprintf(program, sizeof program, "clique bench %s", spec->name);
    (void)snprintf(iterations, sizeof iterations, "%s (default %llu)",
                   spec->iterations_help ? spec->iterations_help : "timed samples of each row",
                   (unsigned long long)spec->iterations);
    (void)snprintf(warm_ups, sizeof warm_ups, "%s (default %llu)",
                   spec->warm_ups_help ? spec->warm_ups_help : "samples before them that count for nothing",
                   (unsigned long long)spec->warm_ups);
    const clq_argument common[] = {
        {"devices", KEY_DEVICES, "SPEC", .help = "as clique train (default auto)"},
        {"build-deadline", KEY_BUILD_DEADLINE, "SECONDS", .help = "as clique train (default 120)"},
        {"json", KEY_JSON, "FILE", .help = "the result as JSON"},
        {"csv", KEY_CSV, "FILE", .help = "the rows as CSV"},
        {NULL, 'n', "COUNT", .help = iterations},
        {NULL, 'w', "COUNT", .help = warm_ups},
        {0}};
    clq_argument all[OPTIONS_MAX + CLQ_COUNT_OF(common)];
    size_t own = 0;
    while (spec->options && (spec->options[own].name || spec->options[own].key) && own < OPTIONS_MAX) {
        all[own] = spec->options[own];
        own++;
    }
    memcpy(all + own, common, sizeof common);
    const clq_arguments arguments = {.program = program, .about = spec->about, .rows = all};
    CLQ_TRY(clq_arguments_parse(&arguments, argc, argv, set_option, run));
    return spec->check ? spec->check(run->context) : CLQ_OK;
}

/* ---- devices ---- */

static clq_status name_devices(clq_bench_run *run) {
    run->labels = clq_alloc(run->devices.count, sizeof *run->labels);
    if (!run->labels) return CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < run->devices.count; i++) {
        const clq_device_choice *choice = &run->devices.items[i];
        const clq_device_info *info = clq_system_device_info(run->system, choice->index);
        unsigned ordinal = 0;
        for (uint32_t k = 0; k < choice->index; k++)
            ordinal += strcmp(clq_system_device_info(run->system, k)->driver, info->driver) == 0;
        size_t used = (size_t)snprintf(run->labels[i], CLQ_BENCH_LABEL_MAX, "%s:%u", info->driver, ordinal);
        if (choice->parts > 1)
            (void)snprintf(run->labels[i] + used, CLQ_BENCH_LABEL_MAX - used, " %u/%u", choice->part + 1,
                           choice->parts);
    }
    return CLQ_OK;
}

static clq_status open_own_devices(clq_bench_run *run) {
    CLQ_TRY(clq_system_open(&(clq_system_config){.build_deadline_s = run->build_deadline_s}, &run->system));
    CLQ_TRY(clq_select_devices(run->system, run->devices_spec, &run->devices));
    CLQ_TRY(name_devices(run));
    return clq_bench_describe_devices(run, &run->described);
}

static clq_status open_devices(clq_bench_run *run) {
    if (run->world && run->spec->span == CLQ_BENCH_OF_HOSTS) return clq_bench_describe_ranks(run);
    CLQ_TRY(clq_world_check(run->world, open_own_devices(run)));
    return clq_bench_describe_all(run);
}

static void introduce(clq_bench_run *run) {
    size_t index;
    json_t *device;
    json_array_foreach(run->described, index, device) {
        const char *name = json_string_value(json_object_get(device, "name"));
        const json_t *rank = json_object_get(device, "rank");
        const char *process = rank ? clq_world_name(run->world, (unsigned)json_integer_value(rank)) : "";
        if (name)
            clq_bench_print(run, "# %s: %s, driver %s%s%s\n", json_string_value(json_object_get(device, "label")), name,
                            json_string_value(json_object_get(device, "driver_version")), rank ? ", of " : "", process);
        else
            clq_bench_print(run, "# %s\n", process);
    }
    const clq_bench_column *columns = run->spec->columns;
    for (const clq_bench_column *column = columns; column && column->key; column++)
        clq_bench_print(run, "%s%*s", column == columns ? "" : "  ", column->width, column->title);
    if (columns) clq_bench_print(run, "\n");
}

clq_status clq_bench_each_device(clq_bench_run *run, clq_bench_device_body body) {
    for (uint32_t i = 0; i < run->devices.count; i++) {
        clq_device *device;
        clq_queue *queue = NULL;
        CLQ_TRY(clq_device_open(run->system, run->devices.items[i], &device));
        clq_status status = clq_queue_create(device, 0, &queue);
        if (status == CLQ_OK) status = body(run, i, queue);
        clq_queue_destroy(queue);
        clq_device_close(device);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

/* ---- the end ---- */

static clq_status finish(clq_bench_run *run, int argc, char **argv, const clq_bench_load *load, clq_status status) {
    clq_error failure;
    if (run->world && status != CLQ_OK && status != CLQ_ERROR_INTERRUPTED) /* the others may wait for this process */
        status = clq_world_fail_with(run->world, status);
    clq_error_take(status, &failure);
    clq_bench_print(run, "%s", ""); /* removes the progress line */
    double others = clq_bench_others(run, load), seconds = clq_now() - run->started;
    if (clq_bench_is_busy(others, seconds))
        clq_bench_print(run, "note: the machine was busy: others used %.1f of its %u cores; repeat on a quiet one\n",
                        others, clq_cpu_count());
    clq_status written = CLQ_OK;
    if (status == CLQ_OK || json_array_size(run->rows) > 0)
        written = clq_bench_result_write(run, argc, argv, others, status == CLQ_OK);
    if (written != CLQ_OK) return clq_bench_fail_also(&failure, written);
    CLQ_TRY(clq_error_raise(&failure));
    if (run->wrong_rows == 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_DEVICE, "%zu row%s with wrong data: see the column and key \"wrong\"", run->wrong_rows,
                    run->wrong_rows == 1 ? "" : "s");
}

static clq_status run_all(clq_bench_run *run, int argc, char **argv) {
    run->rows = json_array();
    if (!run->rows) return clq_fail_memory("starting");
    CLQ_TRY(run->spec->describe ? run->spec->describe(run, run->context) : open_devices(run));
    introduce(run);
    clq_bench_load load = clq_bench_load_now();
    run->started = clq_now();
    return finish(run, argc, argv, &load, run->spec->run(run, run->context));
}

/* Checks that no file to be written is also read. Takes the files of --models one at a time. */
static clq_status check_files(const clq_bench_run *run, const char *model) {
    clq_named_file files[6] = {{.option = NULL}};
    size_t count = 0;
    if (model) files[count++] = (clq_named_file){"--models", model, -1, false, NULL};
    if (run->data && clq_dataset_is_folder(run->data))
        files[count++] = (clq_named_file){"--data", run->data, -1, false, clq_dataset_reads};
    if (run->json_path) files[count++] = (clq_named_file){"--json", run->json_path, -1, true, NULL};
    if (run->csv_path) files[count++] = (clq_named_file){"--csv", run->csv_path, -1, true, NULL};
    files[count++] = (clq_named_file){"the output", NULL, STDOUT_FILENO, true, NULL};
    files[count++] = (clq_named_file){"the error output", NULL, STDERR_FILENO, true, NULL};
    return clq_files_check(files, count);
}

static clq_status check_all_files(const clq_bench_run *run) {
    char model[CLQ_BENCH_MODEL_BYTES];
    CLQ_TRY(check_files(run, NULL));
    for (const char *at = run->models; at && *at && clq_bench_next_model(&at, model);)
        if (clq_model_is_file(model)) CLQ_TRY(check_files(run, model));
    return CLQ_OK;
}

/* Does everything except closing what is open. */
static clq_status prepare_and_run(clq_bench_run *run, int argc, char **argv) {
    const bool is_silent = clq_bench_is_silent(run);
    run->talk = run->json_path ? stderr : stdout;
    clq_status status = is_silent ? CLQ_OK : check_all_files(run);
    if (status == CLQ_OK) status = clq_file_writer_try("--json", run->json_path); /* now, not after the measurements */
    if (status == CLQ_OK) status = clq_file_writer_try("--csv", run->csv_path);
    CLQ_TRY(clq_world_check(run->world, status));
    /* From the first measurement on, Ctrl-C ends the run after the current row. Until then it ends the process at
     * once. */
    clq_interrupts_end_at_once(is_silent ? "" : "clique: error: interrupted before the first measurement\n");
    return run_all(run, argc, argv);
}

clq_status clq_bench_main(const clq_bench_spec *spec, void *context, int argc, char **argv) {
    clq_bench_run run = {.spec = spec,
                         .context = context,
                         .devices_spec = "auto",
                         .iterations = spec->iterations,
                         .warm_ups = spec->warm_ups,
                         .terminal = isatty(STDERR_FILENO) == 1};
    clq_text_add(&run.given, "%s\n", spec->name);
    clq_status status = clq_bench_join(&run, parse(&run, argc, argv));
    if (status == CLQ_OK) status = prepare_and_run(&run, argc, argv);
    clq_ranks_end(run.world, json_array_size(run.rows) > 0, status);
    json_decref(run.rows);
    json_decref(run.described);
    clq_free(run.labels);
    clq_free(run.given.data);
    clq_end_if_stuck(run.system, true, status); /* begun: it has already printed */
    clq_system_close(run.system);
    return clq_ranks_leave(run.world, status);
}
