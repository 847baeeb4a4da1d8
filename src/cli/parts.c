/* Parts of a step, and advice: what clique why tells of one machine and of several. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* In the order of the columns. */
static const struct {
    const char *name;
    size_t offset;
} parts[] = {
    {"input", offsetof(clq_step_parts, input)},       {"host", offsetof(clq_step_parts, host)},
    {"launches", offsetof(clq_step_parts, launches)}, {"fixed", offsetof(clq_step_parts, fixed)},
    {"compute", offsetof(clq_step_parts, compute)},   {"sharing", offsetof(clq_step_parts, sharing)},
    {"waiting", offsetof(clq_step_parts, waiting)},   {"communication", offsetof(clq_step_parts, communication)},
};

static double part_of(const clq_step_parts *p, size_t part) {
    return *(const double *)(const void *)((const char *)p + parts[part].offset);
}

static int width_of(size_t part) { return (int)CLQ_MAX(strlen(parts[part].name), (size_t)7); }

void clq_print_part_names(FILE *to) {
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) fprintf(to, " %*s", width_of(i), parts[i].name);
}

void clq_print_parts(const clq_step_parts *p, FILE *to) {
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) clq_fprintf(to, " %*.4f", width_of(i), 1e3 * part_of(p, i));
}

json_t *clq_describe_parts(const clq_step_parts *p) {
    json_t *ms = json_object();
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++)
        ms = clq_json_put(ms, parts[i].name, clq_json_number(1e3 * part_of(p, i)));
    return ms;
}

void clq_print_advice(const clq_advice *all, size_t count, FILE *to) {
    for (size_t i = 0; i < count; i++) {
        const clq_advice *advice = &all[i];
        if (isinf(advice->gain))
            fprintf(to, "%s: fits the memory (", advice->text);
        else
            clq_fprintf(to, "%s: %.1fx (", advice->text, advice->gain);
        fprintf(to, "%s%sresults: %s)\n", advice->options, *advice->options ? "; " : "", advice->effect);
    }
    if (count == 0) fprintf(to, "no option that is known here would help by 5 %% or more\n");
}

json_t *clq_describe_advice(const clq_advice *all, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list =
            clq_json_append(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "text", all[i].text, "options", all[i].options,
                                            "effect", all[i].effect, "gain", clq_json_number(all[i].gain),
                                            "images_per_s", clq_json_number(all[i].images_per_s)));
    return list;
}
