/* What the layer adds to programs of disguised devices, so that launches can renumber their work-groups and fill local
 * memory with NaN. It adds functions in front of the source, and calls of them behind each local array of a kernel and
 * at the beginning of each kernel with local memory among its parameters (for the first such parameter). The functions
 * act only as the launch's global offset says (kernels.c). So one compiled program serves all configurations, also as a
 * binary. */
#include "support/strict/layer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    "static uint strict_field(uint d, uint shift) { return (uint)(get_global_offset(d) >> shift) & 0xFFFFFu; }\n"
    "static size_t strict_group_id(uint d) {\n"
    "    uint a = strict_field(d, 20), b = strict_field(d, 0), n = (uint)get_num_groups(d), g = "
    "(uint)get_group_id(d);\n"
    "    return a ? (size_t)(uint)(((ulong)a * g + b) % n) : get_group_id(d);\n"
    "}\n"
    "static size_t strict_global_id(uint d) { return strict_group_id(d) * get_local_size(d) + get_local_id(d); }\n"
    "static void strict_nan(local uint *at, uint words) {\n"
    "    uint x = (uint)get_local_size(0), y = (uint)get_local_size(1), z = (uint)get_local_size(2);\n"
    "    uint i = ((uint)get_local_id(2) * y + (uint)get_local_id(1)) * x + (uint)get_local_id(0);\n"
    "    if (!(get_global_offset(0) >> 60 & 1)) words = 0;\n"
    "    for (; i < words; i += x * y * z) at[i] = 0x7FC07FC0u;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "}\n"
    "#define STRICT_NAN(array) strict_nan((local uint *)(array), (uint)sizeof(array) / 4)\n"
    "#define STRICT_NAN_PARAMETER(pointer) strict_nan((local uint *)(pointer), strict_field(0, 40))\n"
    "#define get_group_id(d) strict_group_id(d)\n"
    "#define get_global_id(d) strict_global_id(d)\n"
    "#define get_global_offset(d) ((size_t)0)\n"
    "#line 1\n";

/* ---- reading OpenCL C ---- */

typedef struct word {
    const char *at;
    size_t length;
} word;

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is(word w, const char *text) { return w.length == strlen(text) && memcmp(w.at, text, w.length) == 0; }

static const char *skip_line(const char *at) {
    while (*at && *at != '\n') at += at[0] == '\\' && at[1] ? 2 : 1;
    return at;
}

/* Skips a comment, if one begins at `at`. */
static const char *skip_comment(const char *at) {
    if (at[0] == '/' && at[1] == '/') return skip_line(at);
    if (at[0] != '/' || at[1] != '*') return at;
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

static const char *skip_blanks(const char *at) {
    for (;;) {
        const char *next = skip_comment(at);
        while (isspace((unsigned char)*next) || (next[0] == '\\' && next[1] == '\n')) next++;
        if (next == at) return at;
        at = next;
    }
}

static word read_word(const char *at) {
    word w = {at, 0};
    while (is_letter(at[w.length])) w.length++;
    return w;
}

/* Returns the place behind the bracket that closes the one at `at`. */
static const char *skip_brackets(const char *at) {
    int depth = 0;
    do {
        if (*at == '(' || *at == '[') depth++;
        if (*at == ')' || *at == ']') depth--;
        if (*at) at++;
    } while (*at && depth > 0);
    return at;
}

/* Reads the array that is declared behind the word "local". Gives its name, and returns where its declarator ends; NULL
 * if there is no array, or if another declarator follows. */
static const char *read_array(const char *at, word *name) {
    for (int words = 0; words < 4; words++) {
        at = skip_blanks(at);
        *name = read_word(at);
        if (name->length == 0) return NULL;
        at = skip_blanks(at + name->length);
        if (*at == '[') break;
    }
    if (*at != '[') return NULL;
    while (*at == '[') at = skip_brackets(at);
    word attribute = read_word(skip_blanks(at));
    if (is(attribute, "__attribute__")) at = skip_brackets(skip_blanks(attribute.at + attribute.length));
    return *skip_blanks(at) == ',' ? NULL : at;
}

/* Finds the name of the first parameter that is local memory. */
static word find_parameter(const char *at, const char *end) {
    word found = {NULL, 0};
    bool local = false;
    for (; at < end; at++) {
        word w = read_word(at);
        if (w.length == 0) {
            if (*at == ',' && local) break;
            continue;
        }
        if (is(w, "local") || is(w, "__local")) local = true;
        if (local) found = w;
        at += w.length - 1;
    }
    return found;
}

/* Returns the place behind the brace that opens the kernel's body; NULL if no body begins here. */
static const char *read_kernel(const char *at, word *parameter) {
    for (;;) {
        at = skip_blanks(at);
        if (*at == '#') {
            at = skip_line(at);
            continue;
        }
        word w = read_word(at);
        if (w.length == 0) return NULL;
        const char *next = skip_blanks(at + w.length);
        if (*next == '(' && !is(w, "__attribute__")) {
            const char *end = skip_brackets(next), *body = skip_blanks(end);
            *parameter = find_parameter(next, end);
            return *body == '{' ? body + 1 : NULL;
        }
        at = *next == '(' ? skip_brackets(next) : next;
    }
}

/* ---- writing it ---- */

typedef struct text {
    char *data;
    size_t length, room;
} text;

static void add(text *t, const char *from, size_t length) {
    if (t->length + length + 1 > t->room) {
        t->room = 2 * (t->length + length + 1);
        t->data = realloc(t->data, t->room);
        if (!t->data) strict_die("no memory");
    }
    memcpy(t->data + t->length, from, length);
    t->length += length;
    t->data[t->length] = '\0';
}

static void add_fill(text *t, const char *begin, word name, const char *end) {
    add(t, begin, strlen(begin));
    add(t, name.at, name.length);
    add(t, end, strlen(end));
}

static char *with_fills(const char *source) {
    text t = {0};
    const char *copied = source, *at = source;
    bool macro = false; /* inside a preprocessor line */
    add(&t, "", 0);
    while (*at) {
        const char *behind = skip_comment(at), *end = NULL;
        word w = read_word(at), name = {NULL, 0};
        if (behind > at) {
            at = behind;
            continue;
        }
        if (w.length == 0) {
            if (*at == '#') macro = true;
            if (*at == '\n' && at > source && at[-1] != '\\') macro = false;
            at++;
            continue;
        }
        at += w.length;
        bool array = is(w, "local") || is(w, "__local");
        if (array)
            end = read_array(at, &name);
        else if (!macro && (is(w, "kernel") || is(w, "__kernel") || is(w, "KERNEL")))
            end = read_kernel(at, &name);
        if (!end) continue;
        add(&t, copied, (size_t)(end - copied));
        copied = at = end;
        if (array)
            add_fill(&t, "; STRICT_NAN(", name, ")");
        else if (name.length > 0)
            add_fill(&t, " STRICT_NAN_PARAMETER(", name, ");");
    }
    add(&t, copied, strlen(copied));
    return t.data;
}

/* ---- calls ---- */

static cl_program CL_API_CALL create(cl_context context, cl_uint count, const char **parts, const size_t *lengths,
                                     cl_int *error) {
    const strict_context *in = strict_context_of(context);
    if (!in || !in->disguised || count == 0 || !parts)
        return strict_driver->clCreateProgramWithSource(context, count, parts, lengths, error);
    text whole = {0};
    for (cl_uint i = 0; i < count; i++) add(&whole, parts[i], lengths && lengths[i] ? lengths[i] : strlen(parts[i]));
    char *filled = with_fills(whole.data);
    const char *all[2] = {head, filled};
    cl_program program = strict_driver->clCreateProgramWithSource(context, 2, all, NULL, error);
    free(filled);
    free(whole.data);
    return program;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *ids, const char *options,
                                void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
    static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&building);
    cl_int error = strict_driver->clBuildProgram(program, count, ids, options, notify, user);
    pthread_mutex_unlock(&building);
    return error;
}

void strict_programs_install(struct _cl_icd_dispatch *calls) {
    calls->clCreateProgramWithSource = create;
    calls->clBuildProgram = build;
}
