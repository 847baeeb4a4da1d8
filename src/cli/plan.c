/* clique plan: the launch list and the memory of a training step on one device. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static void print_launches(const clq_plan *plan) {
    const clq_list *list = clq_plan_list(plan);
    printf("%-9s %-28s %-18s %-28s %12s %10s %10s\n", "segment", "layer", "launch", "kernel", "work-items", "MFLOP",
           "MB");
    for (int s = 0; s < CLQ_SEGMENT_COUNT; s++) {
        size_t first, end;
        clq_plan_segment_range(plan, (clq_segment)s, &first, &end);
        for (size_t i = first; i < end; i++) {
            clq_launch_info info;
            clq_list_launch_info(list, i, &info);
            size_t items = 1;
            for (unsigned d = 0; d < info.dims; d++) items *= info.global[d];
            clq_fprintf(stdout, "%-9s %-28s %-18s %-28s %12zu %10.3f %10.3f\n", clq_segment_name((clq_segment)s),
                        info.scope, info.label, info.function, items, info.flops * 1e-6, info.bytes * 1e-6);
        }
    }
}

static json_t *describe_launches(const clq_plan *plan) {
    const clq_list *list = clq_plan_list(plan);
    json_t *rows = json_array();
    for (int s = 0; s < CLQ_SEGMENT_COUNT; s++) {
        size_t first, end;
        clq_plan_segment_range(plan, (clq_segment)s, &first, &end);
        for (size_t i = first; i < end; i++) {
            clq_launch_info info;
            clq_list_launch_info(list, i, &info);
            json_t *global = json_array();
            for (unsigned d = 0; d < info.dims; d++)
                global = clq_json_append(global, json_integer((json_int_t)info.global[d]));
            rows = clq_json_append(rows, json_pack("{s:s, s:o, s:s, s:s, s:o, s:f, s:f}", "segment",
                                                   clq_segment_name((clq_segment)s), "layer", clq_json_text(info.scope),
                                                   "launch", info.label, "kernel", info.function, "global", global,
                                                   "flops", info.flops, "bytes", info.bytes));
        }
    }
    return rows;
}

/* ---- variables ---- */

static clq_weight_slice slice_of(const clq_strategy *strategy, unsigned replica, size_t variable) {
    return clq_weights_slice(clq_plan_weights(clq_strategy_plan(strategy, replica)), variable);
}

/* How replicas split the variable, which is a matrix of inputs and units: by rows or by columns. NULL: they do not
 * split it. */
static const char *split_by(const clq_strategy *strategy, const clq_variable_info *info, size_t variable) {
    const clq_weight_slice slice = slice_of(strategy, 0, variable);
    if (slice.count == info->shape.dims[slice.axis]) return NULL;
    return slice.rows ? "rows" : "columns";
}

static int longest_name(const clq_setup *s) {
    size_t longest = strlen("split variable");
    for (size_t i = 0; i < clq_model_variable_count(s->model); i++) {
        clq_variable_info info;
        if (clq_model_variable(s->model, i, &info) == CLQ_OK) longest = CLQ_MAX(longest, strlen(info.name));
    }
    return (int)longest;
}

static void print_split(const clq_setup *s, const clq_strategy *strategy) {
    const int width = longest_name(s);
    bool any = false;
    for (size_t i = 0; i < clq_model_variable_count(s->model); i++) {
        clq_variable_info info;
        const char *by = clq_model_variable(s->model, i, &info) == CLQ_OK ? split_by(strategy, &info, i) : NULL;
        if (!by) continue;
        if (!any) printf("\n%-*s %-8s %-5s %s\n", width, "split variable", "by", "axis", "of each replica");
        printf("%-*s %-8s %-5u", width, info.name, by, slice_of(strategy, 0, i).axis);
        for (unsigned r = 0; r < clq_strategy_replicas(strategy); r++) printf(" %zu", slice_of(strategy, r, i).count);
        printf("\n");
        any = true;
    }
    if (!any) return;
    printf("parameters of each replica:");
    for (unsigned r = 0; r < clq_strategy_replicas(strategy); r++) {
        clq_plan_memory m;
        clq_plan_get_memory(clq_strategy_plan(strategy, r), &m);
        printf("%s %s", r ? "," : "", clq_bytes(m.parameter_bytes).text);
    }
    printf("\n");
}

static json_t *describe_split(const clq_strategy *strategy, const clq_variable_info *info, size_t variable) {
    const char *by = split_by(strategy, info, variable);
    json_t *counts = by ? json_array() : NULL;
    for (unsigned r = 0; by && r < clq_strategy_replicas(strategy); r++)
        counts = clq_json_append(counts, json_integer((json_int_t)slice_of(strategy, r, variable).count));
    return by ? json_pack("{s:s, s:I, s:o}", "by", by, "axis", (json_int_t)slice_of(strategy, 0, variable).axis,
                          "counts", counts)
              : NULL;
}

static json_t *describe_variables(const clq_setup *s, const clq_strategy *strategy) {
    const clq_plan *plan = clq_strategy_plan(strategy, 0);
    json_t *rows = json_array();
    for (size_t i = 0; i < clq_model_variable_count(s->model); i++) {
        clq_variable_info info;
        if (clq_model_variable(s->model, i, &info) != CLQ_OK) continue;
        if (clq_plan_variable_offset(plan, i) == CLQ_NO_OFFSET) continue; /* it belongs to another stage */
        rows = clq_json_append(rows, json_pack("{s:o, s:I, s:I, s:o*}", "name", clq_json_text(info.name), "elements",
                                               (json_int_t)info.elements, "offset",
                                               (json_int_t)clq_plan_variable_offset(plan, i), "split",
                                               describe_split(strategy, &info, i)));
    }
    return rows;
}

/* ---- fast paths ---- */

static void print_paths(const clq_strategy *strategy) {
    clq_path_info path;
    printf("\n%-16s %-9s %-4s %s\n", "fast path", "stage", "on", "reason");
    for (size_t i = 0; clq_strategy_path(strategy, i, &path); i++)
        printf("%-16s %-9s %-4s %s\n", path.name, path.stage, path.on ? "yes" : "no", path.on ? "" : path.reason);
}

static json_t *describe_paths(const clq_strategy *strategy) {
    json_t *rows = json_array();
    clq_path_info path;
    for (size_t i = 0; clq_strategy_path(strategy, i, &path); i++)
        rows = clq_json_append(rows, json_pack("{s:s, s:s, s:b, s:s?}", "name", path.name, "stage", path.stage, "on",
                                               (int)path.on, "reason", path.reason));
    return rows;
}

/* ---- the graph ---- */

static void print_node(void *context, const clq_node_info *node) {
    const char **pass = context;
    if (*pass == NULL || strcmp(*pass, node->pass) != 0) printf("\nafter %s\n", node->pass);
    *pass = node->pass;
    printf("%-9s %-28s ", clq_segment_name(node->segment), node->layer);
    for (size_t i = 0; i < node->output_count; i++) printf("%s%s", i ? ", " : "", node->outputs[i]);
    printf("%s%s(", node->output_count ? " = " : "", node->operation);
    for (size_t i = 0; i < node->input_count; i++) printf("%s%s", i ? ", " : "", node->inputs[i]);
    printf(")\n");
}

static json_t *texts(const char *const *from, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) array = clq_json_append(array, clq_json_text(from[i]));
    return array;
}

static void describe_node(void *context, const clq_node_info *node) {
    json_t **rows = context;
    *rows = clq_json_append(*rows,
                            json_pack("{s:s, s:s, s:o, s:s, s:o, s:o}", "pass", node->pass, "segment",
                                      clq_segment_name(node->segment), "layer", clq_json_text(node->layer), "operation",
                                      node->operation, "outputs", texts(node->outputs, node->output_count), "inputs",
                                      texts(node->inputs, node->input_count)));
}

/* ---- the model's file ---- */

static clq_status write_model(clq_setup *s, const clq_options *o) {
    if (o->machines) return clq_fail(CLQ_ERROR_ARGUMENT, "--write-model and --machines exclude each other");
    CLQ_TRY(clq_setup_model(s, o));
    CLQ_TRY(clq_model_write_keras_json(s->model, o->write_model));
    const json_int_t parameters = (json_int_t)clq_model_parameter_count(s->model);
    if (o->json)
        return clq_print_json(json_pack("{s:o, s:o, s:I}", "model", clq_json_text(clq_model_name(s->model)), "file",
                                        clq_json_text(o->write_model), "parameters", parameters));
    printf("wrote %s, a model of %lld parameter%s, to %s\n", clq_model_name(s->model), (long long)parameters,
           clq_plural((size_t)parameters), o->write_model);
    return CLQ_OK;
}

clq_status clq_command_plan(clq_setup *s, const clq_options *o) {
    CLQ_TRY(clq_scale_check(o));
    if (o->write_model) return write_model(s, o);
    if (o->machines) return clq_plan_machines(s, o);
    CLQ_TRY(clq_setup_step(s, o, CLQ_U8));
    const clq_strategy *strategy = clq_trainer_strategy(s->trainer);
    const clq_plan *plan = clq_strategy_plan(strategy, 0);
    clq_plan_memory m;
    clq_plan_get_memory(plan, &m);
    clq_device_info device;
    size_t share;
    CLQ_TRY(clq_trainer_replica(s->trainer, 0, &device, &share));
    clq_levels levels;
    CLQ_TRY(clq_levels_find(plan, o->measure, &levels));
    if (o->json) {
        json_t *nodes = o->graph ? json_array() : NULL;
        clq_status status = o->graph ? clq_plan_visit_graph(plan, describe_node, &nodes) : CLQ_OK;
        if (status != CLQ_OK) {
            json_decref(nodes);
            return status;
        }
        return clq_print_json(json_pack(
            "{s:o, s:o, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o*, s:o*}", "model",
            clq_json_text(clq_model_name(s->model)), "device", clq_json_text(device.name), "batch", (json_int_t)share,
            "launches", describe_launches(plan), "variables", describe_variables(s, strategy), "activation_bytes",
            (json_int_t)m.activation_bytes, "activation_bytes_unplanned", (json_int_t)m.activation_bytes_unplanned,
            "param_bytes", (json_int_t)m.parameter_bytes, "gradient_bytes", (json_int_t)m.gradient_bytes,
            "optimizer_bytes", (json_int_t)m.optimizer_bytes, "io_bytes", (json_int_t)m.io_bytes, "recompute",
            clq_describe_levels(&levels), "paths", describe_paths(strategy), "pipeline",
            clq_describe_stages(s->model, strategy), "graph", nodes));
    }
    printf("%s on %s, %zu sample%s\n\n", clq_model_name(s->model), device.name, share, clq_plural(share));
    print_launches(plan);
    printf(
        "\nactivations %s (%s without sharing by lifetime), parameters %s, gradient %s, optimizer %s, in and out %s\n",
        clq_bytes(m.activation_bytes).text, clq_bytes(m.activation_bytes_unplanned).text,
        clq_bytes(m.parameter_bytes).text, clq_bytes(m.gradient_bytes).text, clq_bytes(m.optimizer_bytes).text,
        clq_bytes(m.io_bytes).text);
    clq_print_levels(&levels);
    print_split(s, strategy);
    print_paths(strategy);
    clq_print_stages(s->model, strategy);
    const char *pass = NULL;
    return o->graph ? clq_plan_visit_graph(plan, print_node, &pass) : CLQ_OK;
}
