/* clique report FILE.json… -o report.html: results of the bench suite as one page that needs nothing else.
 *
 * The page is made here, tables and all. Its script only draws, from numbers and names that stand in the page as JSON.
 * So the page can be read without scripts, in print and aloud. Strings of the files go through html.c only. */
#include "cli/cli.h"
#include "cli/html.h"
#include "cli/page.h"
#include "cli/results.h"

#include <string.h>
#include <unistd.h>

enum { KEY_FILE = 256 };

typedef struct report {
    const char **paths; /* the command's arguments */
    size_t count;
    const char *out;
    clq_result_file *files;
    json_t *plots;
    clq_text page;
} report;

/* ---- parts of the page ------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "2 after.json" */
static json_t *label_string(const report *r, size_t index) {
    char *label = clq_strprintf("%zu %s", index + 1, base_name(r->files[index].path));
    json_t *string = label ? clq_json_text(label) : NULL;
    clq_free(label);
    return string;
}

static void add_head(report *r) {
    clq_text_add(
        &r->page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        /* Nothing is ever loaded, whatever the page holds. */
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Clique bench "
        "report</title>\n<style>\n");
    clq_text_add(&r->page, "%s", clq_page_part("style"));
    clq_text_add(&r->page, "</style></head><body>\n<header><h1>Clique bench report</h1></header>\n<main>\n");
}

static void add_contents(report *r, json_t *sections) {
    const char *bench;
    json_t *unused;
    size_t number = 0;
    clq_text_add(&r->page,
                 "<nav aria-label=\"Contents\"><ul>\n<li><a href=\"#machines\">Machines and files</a></li>\n");
    json_object_foreach(sections, bench, unused) {
        clq_text_add(&r->page, "<li><a href=\"#bench-%zu\">", number++);
        clq_html_text(bench, &r->page);
        clq_text_add(&r->page, "</a></li>\n");
    }
    clq_text_add(&r->page, "</ul></nav>\n");
}

static void add_terms(json_t *object, clq_text *page) {
    const char *name;
    json_t *value;
    clq_text_add(page, "<dl>\n");
    json_object_foreach(object, name, value) {
        if (clq_result_is_passing(name)) continue;
        clq_text_add(page, "<dt>");
        clq_html_text(name, page);
        clq_text_add(page, "</dt><dd>");
        clq_html_value(name, value, page);
        clq_text_add(page, "</dd>\n");
    }
    clq_text_add(page, "</dl>\n");
}

/* "pocl:0, intel:0". A device without a label is named by its driver. */
static json_t *label_list(json_t *devices) {
    clq_text text = {0};
    json_t *device;
    size_t i;
    clq_text_add(&text, "%s", "");
    json_array_foreach(devices, i, device) {
        const char *label = json_string_value(json_object_get(device, "label"));
        if (!label) label = json_string_value(json_object_get(device, "driver"));
        if (label) clq_text_add(&text, "%s%s", text.length ? ", " : "", label);
    }
    json_t *list = text.failed ? NULL : json_string(text.data);
    clq_free(text.data);
    return list;
}

/* What a file says of itself: its devices, its command, what its host did during the run, and members of any other
 * name. */
static json_t *describe_file(const report *r, size_t index) {
    const clq_result_file *file = &r->files[index];
    json_t *entry = json_pack("{s:o, s:s, s:I, s:o}", "file", label_string(r, index), "benchmark", file->bench,
                              "row count", (json_int_t)json_array_size(file->rows), "devices",
                              label_list(json_object_get(file->document, "devices")));
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(file->document, "host"), name, value) {
        if (clq_result_is_passing(name)) entry = clq_json_put(entry, name, json_incref(value));
    }
    json_object_foreach(file->document, name, value) {
        static const char *const told[] = {"schema", "bench", "host", "devices", "rows", "file", "command", NULL};
        if (!clq_is_one_of(name, told)) entry = clq_json_put(entry, name, json_incref(value));
    }
    json_t *command = json_object_get(file->document, "command"); /* after the others, since it is the longest */
    return command ? clq_json_put(entry, "command", json_incref(command)) : entry;
}

/* Adds the devices of `more` that are not among `devices` yet. known: has the text of each device that is. */
static void unite(json_t *devices, json_t *known, json_t *more, clq_text *page) {
    json_t *device;
    size_t i;
    json_array_foreach(more, i, device) {
        char *text = clq_json_dumps(device, JSON_SORT_KEYS | JSON_COMPACT);
        page->failed |= !text;
        if (text && !json_object_get(known, text))
            page->failed |=
                json_object_set_new(known, text, json_true()) != 0 || json_array_append(devices, device) != 0;
        clq_free(text);
    }
}

/* Describes a machine once, with all devices that its files name, and lists these files below. */
static void add_machine(report *r, size_t first) {
    const clq_result_file *file = &r->files[first];
    json_t *devices = json_array(), *known = json_object(), *list = json_array();
    r->page.failed |= !list || !devices || !known;
    for (size_t i = first; i < r->count; i++) {
        if (i != first && !clq_result_same_host(file, &r->files[i])) continue;
        unite(devices, known, json_object_get(r->files[i].document, "devices"), &r->page);
        r->page.failed |= json_array_append_new(list, describe_file(r, i)) != 0;
    }
    add_terms(json_object_get(file->document, "host"), &r->page);
    if (json_array_size(devices)) clq_html_table(devices, "Devices", &r->page);
    clq_html_table(list, "Files", &r->page);
    json_decref(devices);
    json_decref(known);
    json_decref(list);
}

static void add_machines(report *r) {
    clq_text_add(&r->page, "<section id=\"machines\"><h2>Machines and files</h2>\n");
    size_t machines = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t earlier = 0;
        while (earlier < i && !clq_result_same_host(&r->files[earlier], &r->files[i])) earlier++;
        if (earlier != i) continue;
        if (machines++) clq_text_add(&r->page, "<h3>Another machine</h3>\n");
        add_machine(r, i);
    }
    clq_text_add(&r->page, "</section>\n");
}

/* ---- benchmarks -------------------------------------------------------------------------------------------------- */

/* What a reader should know of a benchmark's columns; trusted HTML. */
static const char *explain(const char *bench) {
    static const struct {
        const char *bench, *text;
    } known[] = {
        {"all_reduce",
         "algbw is size over time; busbw is algbw × 2(n−1)/n, which does not depend on the number of ranks n."},
        {"reduce_scatter",
         "algbw is size over time; busbw is algbw × (n−1)/n, which does not depend on the number of ranks n."},
        {"all_gather",
         "algbw is size over time; busbw is algbw × (n−1)/n, which does not depend on the number of ranks n."},
        {"broadcast", "algbw is size over time; busbw is the same."},
        {"reduce", "algbw is size over time; busbw is the same."},
        {"send_recv", "algbw is size over time; busbw is the same."},
        {"p2p", "Copies between each two devices. Bandwidth in GB/s (10⁹ bytes/s), latency in µs."},
        {"memory", "Copies between host and device, and on a device. Bandwidth in GB/s (10⁹ bytes/s)."},
        {"launch", "What it takes to enqueue an empty kernel, and to wait for it."},
        {"step",
         "Each launch of a training step. Share is of the launches' sum; the limit is the launch's arithmetic or its "
         "traffic at the rates measured in the same run, whichever takes longer."},
        {"train", "Whole epochs of training. Efficiency is the rate over n times that of one replica in the same run."},
        {"scale",
         "The step of mirrored training on many machines, as clique plan --machines simulates it. Efficiency is the "
         "rate over that of as many devices that each train alone, by the best algorithm and bucket; dotted: by "
         "default."},
        {"why",
         "Predictions of clique why: parts_ms is where the time of a step goes, limit what makes it as long as it is."},
        {"peers",
         "Clique and other systems, taking turns in one run. Ratio is Clique's speed over the other system's."},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(known); i++)
        if (strcmp(known[i].bench, bench) == 0) return known[i].text;
    return NULL;
}

/* The devices that a benchmark's rows number; NULL: its files have different devices. */
static json_t *devices_of(const report *r, const char *bench) {
    json_t *devices = NULL;
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->files[i].bench, bench) != 0) continue;
        json_t *here = json_object_get(r->files[i].document, "devices");
        if (devices && !json_equal(devices, here)) return NULL;
        devices = here;
    }
    return devices;
}

static void add_section(report *r, size_t number, const char *bench, json_t *rows) {
    clq_text_add(&r->page, "<section id=\"bench-%zu\"><h2>", number);
    clq_html_text(bench, &r->page);
    clq_text_add(&r->page, "</h2>\n");
    if (explain(bench)) clq_text_add(&r->page, "<p>%s</p>\n", explain(bench));
    size_t pictures = clq_plots_add(rows, r->plots, &r->page) +
                      clq_html_heat_maps(rows, devices_of(r, bench), &r->page) + clq_html_shares(rows, &r->page);
    /* The table is open in the file, for readers without scripts. The script folds it if there is a picture above. */
    clq_text_add(&r->page, "<details open%s><summary>All rows (%zu)</summary>\n", pictures ? " class=\"fold\"" : "",
                 json_array_size(rows));
    clq_html_table(rows, "", &r->page);
    clq_text_add(&r->page, "</details></section>\n");
}

/* The rows by benchmark. If several files have results of one benchmark, each of its rows begins with the name of its
 * file. */
static json_t *gather(report *r) {
    json_t *sections = json_object(), *row;
    for (size_t i = 0; i < r->count; i++) {
        const clq_result_file *file = &r->files[i];
        size_t sharing = 0, k;
        for (size_t j = 0; j < r->count; j++) sharing += strcmp(r->files[j].bench, file->bench) == 0;
        if (!json_object_get(sections, file->bench))
            r->page.failed |= json_object_set_new(sections, file->bench, json_array()) != 0;
        json_array_foreach(file->rows, k, row) {
            json_t *copy = sharing > 1 ? json_pack("{s:o}", "file", label_string(r, i)) : json_object();
            r->page.failed |= json_object_update(copy, row) != 0;
            r->page.failed |= json_array_append_new(json_object_get(sections, file->bench), copy) != 0;
        }
    }
    r->page.failed |= !sections;
    return sections;
}

static clq_status build(report *r) {
    r->plots = json_array();
    json_t *sections = gather(r), *rows;
    const char *bench;
    size_t number = 0;
    r->page.failed |= !r->plots;
    add_head(r);
    add_contents(r, sections);
    add_machines(r);
    json_object_foreach(sections, bench, rows) add_section(r, number++, bench, rows);
    clq_text_add(&r->page,
                 "</main>\n<footer><p>Made by clique %s.</p></footer>\n<script type=\"application/json\" id=\"plots\">",
                 clq_version());
    clq_html_script_json(r->plots, &r->page);
    clq_text_add(&r->page, "</script>\n<script>\n");
    clq_text_add(&r->page, "%s", clq_page_part("chart"));
    clq_text_add(&r->page, "\n</script>\n<script>\n");
    clq_text_add(&r->page, "%s", clq_page_part("plots"));
    clq_text_add(&r->page, "</script>\n</body></html>\n");
    json_decref(sections);
    return r->page.failed ? clq_fail_memory("building the page") : CLQ_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* The output replaces a file, which must be none of the inputs. */
static clq_status check_output(const report *r) {
    clq_named_file *files = clq_alloc(r->count + 2, sizeof *files);
    if (!files) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < r->count; i++) files[i] = (clq_named_file){"the report", r->paths[i], -1, false, NULL};
    files[r->count] = (clq_named_file){"-o", r->out, -1, true, NULL};
    files[r->count + 1] = (clq_named_file){"the output", NULL, STDOUT_FILENO, true, NULL};
    const clq_status status = clq_files_check(files, r->count + 2);
    clq_free(files);
    return status;
}

static clq_status write_page(const report *r) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(r->out, &writer));
    clq_file_writer_put(writer, r->page.data, r->page.length);
    return clq_file_writer_commit(writer); /* fails if the put has failed */
}

static clq_status make(report *r) {
    if (!r->count) return clq_fail(CLQ_ERROR_ARGUMENT, "no result is named: clique report FILE.json -o report.html");
    if (!r->out) return clq_fail(CLQ_ERROR_ARGUMENT, "-o is needed: the page's file");
    if (!clq_page_part("chart"))
        return clq_fail(CLQ_ERROR_STATE,
                        "this build has no Chart.js, which draws the plots: install libjs-chart.js, then "
                        "configure and build again");
    CLQ_TRY(check_output(r));
    r->files = clq_alloc(r->count, sizeof *r->files);
    if (!r->files) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < r->count; i++) CLQ_TRY(clq_result_read(r->paths[i], &r->files[i]));
    CLQ_TRY(build(r));
    char *name = clq_printable(r->out);
    clq_status status = name ? write_page(r) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        printf("%s: %zu %s, %zu plots\n", name, r->count, r->count == 1 ? "result" : "results",
               json_array_size(r->plots));
    clq_free(name);
    return status;
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    report *r = context;
    if (option->key == 'o')
        r->out = text;
    else
        r->paths[r->count++] = text;
    return CLQ_OK;
}

const clq_argument clq_report_options[] = {
    {"FILE.json…", KEY_FILE, NULL, .help = "results of clique bench", .plain = true},
    {NULL, 'o', "FILE", .help = "the page: HTML that needs no other file and no network"},
    {0}};

clq_status clq_command_report(int argc, char **argv) {
    report r = {.paths = clq_alloc((size_t)argc, sizeof *r.paths)};
    if (!r.paths) return CLQ_ERROR_MEMORY;
    clq_status status = clq_subcommand_parse("report", argc, argv, set_option, &r);
    if (status == CLQ_OK) status = make(&r);
    for (size_t i = 0; r.files && i < r.count; i++) clq_result_release(&r.files[i]);
    clq_free(r.files);
    clq_free(r.paths);
    clq_free(r.page.data);
    json_decref(r.plots);
    return status;
}
