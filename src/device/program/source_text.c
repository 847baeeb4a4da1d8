/* The texts of programs:
 * - the embedded files;
 * - a file with some of its kernels alone, since a compiler spends its time on every kernel that it is shown, and PoCL
 * once more when it is asked for the binary;
 * - a file whose kernels only call functions that do their work;
 * - kernels of several files, with several sets of options, as functions of one program.
 *
 * In the last kind of text, a part consists of its options as definitions, the prelude once more, and its source.
 * Several parts may have the same names at file scope (functions, types). So definitions rename each of these names to
 * the name and the part's number. Behind the part these definitions are taken back, and so are the options and the
 * source's own macros. A macro that makes a function must take the function's name as its first argument. */
#include "device/internal.h"
#include "device/program/sources.h"

#include <string.h>

const char *clq_source_text(const char *file) {
    for (const clq_kernel_source *source = clq_kernel_sources; source->name; source++)
        if (strcmp(source->name, file) == 0) return source->text;
    return NULL;
}

static size_t word_length(const char *at) {
    size_t length = 0;
    while (clq_is_letter(at[length]) || clq_is_digit(at[length]) || at[length] == '_') length++;
    return length;
}

/* ---- some kernels of a file ---- */

static bool starts_kernel(const char *line) {
    static const char *const starts[] = {"kernel ", "TILE_KERNEL ", "KERNEL "};
    for (size_t i = 0; i < CLQ_COUNT_OF(starts); i++)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* Finds the name behind `void`. Returns its length; 0 if there is none. */
static size_t kernel_name(const char *definition, const char **name) {
    const char *at = strstr(definition, "void");
    if (!at) return 0;
    at += strlen("void");
    while (clq_is_space(*at)) at++;
    *name = at;
    return word_length(at);
}

static const char *line_end(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end : line + strlen(line);
}

/* The end of a definition's last line. If the first line ends with a brace, it is also the last line. Otherwise the
 * last line is the first line that begins with a brace. */
static const char *definition_end(const char *definition) {
    const char *end = line_end(definition);
    if (end > definition && end[-1] == '}') return end;
    for (const char *line = end; *line == '\n';) {
        line++;
        end = line_end(line);
        if (*line == '}') return end;
        line = end;
    }
    return end;
}

/* The next kernel's definition at or behind `at`, which is the beginning of a line; NULL if there is none. Also gives
 * the kernel's name, and where its last line ends. */
static const char *next_kernel(const char *at, const char **name, size_t *length, const char **end) {
    for (const char *line = at; *line;) {
        if (starts_kernel(line)) {
            *length = kernel_name(line, name);
            *end = definition_end(line);
            return line;
        }
        line = line_end(line);
        if (*line) line++;
    }
    return NULL;
}

char *clq_wanted_source(const char *text, const char *kernels) {
    char *copy = clq_strdup(text);
    if (!copy || kernels[0] == '\0') return copy;
    const char *name, *end = copy;
    size_t length;
    for (const char *at = copy; (at = next_kernel(at, &name, &length, &end)); at = end) {
        if (clq_list_has(kernels, " ", name, length)) continue;
        for (char *blank = copy + (at - copy); blank < end; blank++) /* compilers' messages keep their line numbers */
            if (*blank != '\n') *blank = ' ';
    }
    return copy;
}

/* ---- kernels as functions ---- */

typedef struct name {
    const char *at;
    size_t length;
} name;

/* Some of a text's names, each once. */
typedef struct names {
    name *list;
    size_t count, capacity;
    bool failed;
} names;

static bool has(const names *all, const char *at, size_t length) {
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].length == length && memcmp(all->list[i].at, at, length) == 0) return true;
    return false;
}

static void note(names *all, const char *at, size_t length) {
    if (all->failed || has(all, at, length)) return;
    name *list = clq_grow(all->list, all->count, &all->capacity, 64, sizeof *list);
    all->failed = !list;
    if (!list) return;
    all->list = list;
    all->list[all->count++] = (name){at, length};
}

/* ---- what a source names at file scope ---- */

static bool begins_word(char c) { return clq_is_letter(c) || c == '_'; }

static bool is_word(const char *at, size_t length, const char *word) {
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* The end of the comment, string or character constant that begins here; NULL if none does. */
static const char *skip_opaque(const char *at) {
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    if (at[0] == '/' && at[1] == '/') return at + strcspn(at, "\n");
    if (at[0] != '"' && at[0] != '\'') return NULL;
    const char *end = at + 1;
    while (*end && *end != *at) end += end[0] == '\\' && end[1] ? 2 : 1;
    return *end ? end + 1 : end;
}

/* Reads a directive with its continuation lines, and notes the macro that it defines. Returns the end. */
static const char *read_directive(const char *at, names *macros) {
    const char *word = at + 1;
    while (*word == ' ') word++;
    if (strncmp(word, "define ", 7) == 0) {
        word += 7;
        while (*word == ' ') word++;
        note(macros, word, word_length(word));
    }
    for (;; at++) {
        at += strcspn(at, "\n");
        if (*at == '\0' || at[-1] != '\\') return at;
    }
}

typedef struct scan {
    int depth;       /* of braces and parentheses */
    bool is_type;    /* in a typedef */
    bool is_made;    /* behind "MACRO(" at file scope: the next word names what it makes */
    name last, type; /* the last word at file scope; the last word in a typedef, which at its end is its name */
} scan;

static void read_word(scan *s, const char *at, size_t length, names *found) {
    if (s->is_made) note(found, at, length);
    s->is_made = false;
    if (s->depth > 0 || is_word(at, length, "__attribute__")) {
        s->last.length = 0;
        return;
    }
    if (is_word(at, length, "typedef")) s->is_type = true;
    s->last = s->type = (name){at, length};
}

static void read_mark(scan *s, char c, names *found, const names *macros) {
    s->is_made = false;
    if (c == '(' && s->depth == 0 && !s->is_type && s->last.length) {
        s->is_made = has(macros, s->last.at, s->last.length);
        if (!s->is_made) note(found, s->last.at, s->last.length);
    } else if (c == ';' && s->depth == 0) {
        if (s->is_type) note(found, s->type.at, s->type.length);
        s->is_type = false;
    }
    if (c == '(' || c == '{') s->depth++;
    if (c == ')' || c == '}') s->depth--;
    s->last.length = 0;
}

static void find_names(const char *text, names *found, names *macros) {
    scan s = {0};
    bool line_begins = true;
    for (const char *at = text; *at;) {
        const char *behind = skip_opaque(at);
        if (behind) {
            at = behind;
        } else if (*at == '#' && line_begins) {
            at = read_directive(at, macros);
        } else if (begins_word(*at)) {
            read_word(&s, at, word_length(at), found);
            at += word_length(at);
            line_begins = false;
        } else {
            if (*at == '\n') line_begins = true;
            if (!clq_is_space(*at)) {
                read_mark(&s, *at, found, macros);
                line_begins = false;
            }
            at++;
        }
    }
}

/* ---- a part ---- */

static void undefine(clq_text *out, const char *at, size_t length) {
    clq_text_add(out, "#undef %.*s\n", (int)length, at);
}

/* Leaves the macros of the device, which begin with CLQ_ and are the same in every part. */
static void undefine_macros(clq_text *out, const names *macros) {
    for (size_t i = 0; i < macros->count; i++)
        if (strncmp(macros->list[i].at, "CLQ_", 4) != 0) undefine(out, macros->list[i].at, macros->list[i].length);
}

/* Adds the options "-DNAME=VALUE -DOTHER" as definitions, or takes the definitions back. */
static clq_status add_options(clq_text *out, const char *options, bool define) {
    for (const char *at = options + strspn(options, " "); *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (strncmp(at, "-D", 2) != 0)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "the option %.*s is no definition", (int)length, at);
        const char *macro = at + 2;
        size_t word = word_length(macro), value = length - 2 - word;
        if (!define)
            undefine(out, macro, word);
        else if (value > 0)
            clq_text_add(out, "#define %.*s %.*s\n", (int)word, macro, (int)value - 1, macro + word + 1);
        else
            clq_text_add(out, "#define %.*s 1\n", (int)word, macro);
        at += length;
    }
    return CLQ_OK;
}

/* Adds the text. Its kernels get the item's parameters in front of their own. */
static void add_with_items(clq_text *out, const char *text) {
    const char *from = text, *function, *end = text;
    size_t length;
    while (next_kernel(end, &function, &length, &end)) {
        const char *parameters = function + length;
        parameters += strspn(parameters, " ");
        if (*parameters != '(') continue;
        clq_text_add_bytes(out, from, (size_t)(parameters + 1 - from));
        clq_text_add(out, "CLQ_ITEM, ");
        from = parameters + 1;
    }
    clq_text_add_text(out, from);
}

/* ---- kernels that only call functions ---- */

/* Whether a macro of this name makes parameters. Their names are then not in the list. */
static bool makes_parameters(const char *at, size_t length) {
    static const char *const ends[] = {"ARGS", "ARGUMENT", "PARAMETER", "PARAMETERS"};
    if (strncmp(at, "FOR_", 4) == 0) return true;
    for (size_t i = 0; i < CLQ_COUNT_OF(ends); i++) {
        const size_t bytes = strlen(ends[i]);
        if (length >= bytes && memcmp(at + length - bytes, ends[i], bytes) == 0) return true;
    }
    return false;
}

/* Where a list of parameters ends; `at` is behind its opening parenthesis. */
static const char *parameters_end(const char *at) {
    for (int depth = 0; *at && (depth > 0 || *at != ')'); at++) depth += (*at == '(') - (*at == ')');
    return at;
}

/* Adds the names of the parameters as arguments, with the same commas and directives between. Returns false if macros
 * make some of the parameters. */
static bool add_arguments(clq_text *out, const char *at, const char *end) {
    name last = {0};
    for (int depth = 0; at < end;) {
        if (*at == '#') {
            const size_t length = strcspn(at, "\n");
            clq_text_add(out, "\n%.*s\n", (int)length, at);
            at += length;
        } else if (begins_word(*at)) {
            const size_t length = word_length(at);
            if (makes_parameters(at, length)) return false;
            if (depth == 0) last = (name){at, length};
            at += length;
        } else {
            depth += (*at == '(') - (*at == ')');
            if (*at == ',' && depth == 0) clq_text_add(out, "%.*s, ", (int)last.length, last.at);
            at++;
        }
    }
    clq_text_add(out, "%.*s", (int)last.length, last.at);
    return true;
}

static size_t lines_in(const char *at, const char *end) {
    size_t lines = 0;
    for (; at < end; at++) lines += *at == '\n';
    return lines;
}

/* Adds a function that does the kernel's work for one item, and behind it the kernel, which calls the function. Returns
 * false if that cannot be done. */
static bool add_behind_call(clq_text *out, const char *definition, name kernel, const char *end, bool tile) {
    const char *parameters = kernel.at + kernel.length;
    if (strncmp(definition, "TILE_KERNEL ", 12) != 0 && !(tile && strncmp(definition, "KERNEL ", 7) == 0)) return false;
    if (*parameters++ != '(') return false;
    const char *behind = parameters_end(parameters);
    clq_text_add_bytes(out, definition, (size_t)(kernel.at + kernel.length - definition));
    clq_text_add(out, "_of_item(CLQ_ITEM, ");
    clq_text_add_bytes(out, parameters, (size_t)(end - parameters));
    clq_text_add(out, "\n__kernel CLQ_GROUP_OF_ONE void %.*s(", (int)kernel.length, kernel.at);
    clq_text_add_bytes(out, parameters, (size_t)(behind - parameters));
    clq_text_add(out, ") {\n    %.*s_of_item(CLQ_HERE, ", (int)kernel.length, kernel.at);
    const bool all = add_arguments(out, parameters, behind);
    clq_text_add(out, ");\n}");
    return all;
}

/* An item's parameters, and the arguments for them. */
#define ITEM_PARAMETERS                                                                                                \
    "#define CLQ_ITEM size_t clq_id0, size_t clq_id1, size_t clq_id2, size_t clq_size0, size_t clq_size1, "            \
    "size_t clq_size2\n"
const char clq_items_prelude[] = "static inline size_t clq_item_id(uint d) { return get_global_id(d); }\n"
                                 "static inline size_t clq_item_count(uint d) { return get_global_size(d); }\n"
                                 "#define CLQ_HERE clq_item_id(0), clq_item_id(1), clq_item_id(2), clq_item_count(0), "
                                 "clq_item_count(1), clq_item_count(2)\n"
                                 "#define CLQ_JOINED\n" ITEM_PARAMETERS "#line 1 \"prelude.cl\"\n";

clq_status clq_called_source(const char *wanted, bool tile, clq_text *out) {
    const char *from = wanted, *definition, *end = wanted;
    bool all = true;
    name kernel;
    while (all && (definition = next_kernel(end, &kernel.at, &kernel.length, &end))) {
        clq_text_add_bytes(out, from, (size_t)(definition - from));
        all = add_behind_call(out, definition, kernel, end, tile);
        clq_text_add(out, "\n#line %zu", lines_in(wanted, end) + 2);
        from = end;
    }
    clq_text_add_text(out, from);
    if (out->failed) return CLQ_ERROR_MEMORY;
    return all && from > wanted ? CLQ_OK : CLQ_ERROR_UNSUPPORTED;
}

/* The names of a part at file scope, and its macros. The prelude's come first, and belong to every part. */
typedef struct part_names {
    names found, macros;
    size_t prelude_found, prelude_macros;
} part_names;

static clq_status add_part(clq_text *out, const clq_program_part *part, size_t index, const names *macros,
                           part_names *of) {
    char *wanted = clq_wanted_source(clq_source_text(part->file), part->function);
    if (!wanted) return CLQ_ERROR_MEMORY;
    find_names(wanted, &of->found, &of->macros);
    clq_status status = of->found.failed || of->macros.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
    undefine_macros(out, macros);
    if (status == CLQ_OK) status = add_options(out, part->options, true);
    for (size_t i = 0; i < of->found.count; i++) {
        const name *n = &of->found.list[i];
        clq_text_add(out, "#define %.*s %.*s_%zu\n", (int)n->length, n->at, (int)n->length, n->at, index);
    }
    clq_text_add_text(out, "#line 1 \"prelude.cl\"\n");
    clq_text_add_text(out, clq_source_text("prelude"));
    clq_text_add(out, "\n#line 1 \"%s.cl\"\n", part->file);
    add_with_items(out, wanted);
    for (size_t i = 0; i < of->found.count; i++) undefine(out, of->found.list[i].at, of->found.list[i].length);
    if (status == CLQ_OK) status = add_options(out, part->options, false);
    of->found.count = of->prelude_found; /* the other names point into `wanted`, which is freed here */
    of->macros.count = of->prelude_macros;
    clq_free(wanted);
    return status;
}

/* The macros of the prelude and of all parts' files. */
static clq_status find_macros(const clq_program_part *parts, size_t count, names *macros) {
    names found = {0};
    find_names(clq_source_text("prelude"), &found, macros);
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (strcmp(parts[first].file, parts[i].file) != 0) first++;
        const char *source = clq_source_text(parts[i].file);
        if (!source) {
            clq_free(found.list);
            return clq_fail(CLQ_ERROR_INTERNAL, "there is no kernel file %s.cl", parts[i].file);
        }
        if (first == i) find_names(source, &found, macros);
    }
    clq_free(found.list);
    return found.failed || macros->failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

clq_status clq_fused_source(const clq_program_part *parts, size_t count, clq_text *out) {
    names macros = {0};
    part_names of = {0};
    clq_status status = find_macros(parts, count, &macros);
    find_names(clq_source_text("prelude"), &of.found, &of.macros);
    of.prelude_found = of.found.count;
    of.prelude_macros = of.macros.count;
    clq_text_add_text(out, "#define CLQ_JOINED\n" ITEM_PARAMETERS);
    for (size_t i = 0; i < count && status == CLQ_OK; i++) status = add_part(out, &parts[i], i, &macros, &of);
    undefine_macros(out, &macros);
    clq_free(macros.list);
    clq_free(of.found.list);
    clq_free(of.macros.list);
    if (status == CLQ_OK && out->failed) status = CLQ_ERROR_MEMORY;
    return status;
}
