/* Help by columns. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

static size_t columns_of(const char *text, size_t bytes) {
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++) columns += ((unsigned char)text[i] & 0xc0) != 0x80; /* not a later byte */
    return columns;
}

static void add_spaces(size_t count, clq_text *to) { clq_text_add(to, "%*s", (int)count, ""); }

/* Adds words after the `used` columns that the line already has. Later lines begin with `indent` spaces. Ends the last
 * line. */
static void wrap(size_t used, size_t indent, const char *words, clq_text *to) {
    bool first = true;
    for (const char *at = words; *(at += strspn(at, " "));) {
        const size_t bytes = strcspn(at, " "), columns = columns_of(at, bytes);
        if (!first && used + 1 + columns > CLQ_HELP_WIDTH) {
            clq_text_add(to, "\n");
            add_spaces(indent, to);
            used = indent;
            first = true;
        }
        clq_text_add(to, "%s", first ? "" : " ");
        clq_text_add_bytes(to, at, bytes);
        used += columns + !first;
        first = false;
        at += bytes;
    }
    clq_text_add(to, "\n");
}

void clq_help_paragraph(size_t indent, const char *words, clq_text *to) {
    if (!words || !words[strspn(words, " ")]) return;
    add_spaces(indent, to);
    wrap(indent, indent, words, to);
}

void clq_help_entry(const char *left, const char *words, clq_text *to) {
    const size_t columns = 2 + columns_of(left, strlen(left));
    clq_text_add(to, "  %s", left);
    if (!*words) {
        clq_text_add(to, "\n");
        return;
    }
    const bool beside = columns + 2 <= CLQ_HELP_COLUMN;
    if (!beside) clq_text_add(to, "\n");
    add_spaces(beside ? CLQ_HELP_COLUMN - columns : CLQ_HELP_COLUMN, to);
    wrap(CLQ_HELP_COLUMN, CLQ_HELP_COLUMN, words, to);
}

void clq_help_form(const clq_argument *row, clq_text *to) {
    const char letter = clq_argument_letter(row);
    if (row->plain) {
        clq_text_add(to, "%s", row->name);
        return;
    }
    if (letter) clq_text_add(to, "-%c%s", letter, row->name ? ", " : "");
    if (row->name) clq_text_add(to, "--%s", row->name);
    if (row->value) clq_text_add(to, " %s", row->value);
}

static void add_option(const clq_argument *row, clq_text *to) {
    clq_text form = {0};
    clq_help_form(row, &form);
    if (form.failed)
        to->failed = true;
    else
        clq_help_entry(form.data, row->help, to);
    clq_free(form.data);
}

/* ---- groups ---- */

static bool is_of(const clq_argument *row, const char *group) {
    return group && row->group ? strcmp(row->group, group) == 0 : group == row->group;
}

/* Whether the row is the first of its group. */
static bool is_first(const clq_argument *rows, const clq_argument *row) {
    for (; rows < row; rows++)
        if (is_of(rows, row->group)) return false;
    return true;
}

/* Adds "title:" and the options of a group (its key word; NULL: the options of no group). */
static void add_group(const clq_argument *rows, const char *title, const char *group, clq_text *to) {
    clq_text_add(to, "\n%s:\n", title);
    for (; !clq_argument_is_end(rows); rows++)
        if (is_of(rows, group)) add_option(rows, to);
}

static void add_all(const clq_argument *rows, clq_text *to) {
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++)
        if (is_first(rows, row)) add_group(rows, row->title ? row->title : "Options", row->group, to);
}

/* Adds only the names of a group's options that are not usual. first: the group's first row. */
static void add_names(const clq_argument *rows, const clq_argument *first, clq_text *to) {
    clq_text names = {0};
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++)
        if (is_of(row, first->group) && !row->usual) clq_text_add(&names, " --%s", row->name);
    if (names.length) {
        clq_text_add(to, "\n%s (--help=%s):\n", first->title, first->group);
        clq_help_paragraph(2, names.data, to);
    }
    to->failed = to->failed || names.failed;
    clq_free(names.data);
}

static void add_usual(const clq_arguments *arguments, clq_text *to) {
    clq_text more = {0};
    const clq_argument *rows = arguments->rows;
    clq_text_add(to, "\nUsual options:\n");
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++)
        if (row->usual) add_option(row, to);
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++)
        if (is_first(rows, row)) add_names(rows, row, to);
    clq_text_add(to, "\n");
    clq_text_add(&more,
                 "%s --help=all prints all options, --help=GROUP those of a group, for example --help=%s. clique help "
                 "OPTION explains one option, for example clique help %s.",
                 arguments->program, rows->group, rows->name);
    clq_help_paragraph(0, more.data ? more.data : "", to);
    to->failed = to->failed || more.failed;
    clq_free(more.data);
}

/* ---- the whole of a command ---- */

static void add_head(const clq_arguments *arguments, clq_text *to) {
    const clq_argument *plain = clq_arguments_plain(arguments->rows);
    const char *behind = arguments->behind ? arguments->behind : plain ? plain->name : NULL;
    const bool has_options = !clq_argument_is_end(arguments->rows);
    clq_text_add(to, "Usage: %s%s%s%s\n\n", arguments->program, has_options ? " [OPTION…]" : "", behind ? " " : "",
                 behind ? behind : "");
    clq_help_paragraph(0, arguments->about, to);
}

/* Whether help explains only the usual options. */
static bool is_long(const clq_argument *rows) {
    size_t count = 0;
    bool usual = false;
    for (; !clq_argument_is_end(rows); rows++, count++) usual = usual || rows->usual;
    return usual && count > CLQ_HELP_FEW;
}

static clq_status refuse_group(const clq_arguments *arguments, const char *group) {
    clq_text why = {0};
    clq_nearest nearest = clq_nearest_of(group);
    clq_nearest_try(&nearest, "all");
    clq_text_add(&why, "--help=%s: expected all", group);
    for (const clq_argument *row = arguments->rows; !clq_argument_is_end(row); row++) {
        if (!row->group || !is_first(arguments->rows, row)) continue;
        clq_text_add(&why, ", %s", row->group);
        clq_nearest_try(&nearest, row->group);
    }
    const clq_status status =
        why.failed ? clq_fail_memory("naming groups") : clq_nearest_fail(&nearest, "%s", why.data);
    clq_free(why.data);
    return status;
}

clq_status clq_help_command(const clq_arguments *arguments, const char *part, clq_text *to) {
    const bool all = !part || strcmp(part, "all") == 0;
    const clq_argument *row = arguments->rows;
    while (!all && !clq_argument_is_end(row) && !(row->group && strcmp(row->group, part) == 0)) row++;
    if (!all && clq_argument_is_end(row)) return refuse_group(arguments, part);
    add_head(arguments, to);
    if (!all)
        add_group(arguments->rows, row->title, row->group, to);
    else if (part || !is_long(arguments->rows))
        add_all(arguments->rows, to);
    else
        add_usual(arguments, to);
    return CLQ_OK;
}

clq_status clq_help_write(clq_text *text) {
    const bool failed = text->failed || !text->data;
    if (!failed) fputs(text->data, stdout);
    clq_free(text->data);
    *text = (clq_text){0};
    return failed ? clq_fail_memory("writing help") : CLQ_OK;
}
