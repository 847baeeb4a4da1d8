/* What `clique plan` and `clique tune` show of a pipeline. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

/* The name of the i-th layer of a stage, each layer counted once; NULL: there are fewer. */
static const char *layer_of(const clq_model *model, const clq_stage *stage, size_t i) {
    for (uint32_t id = stage->before.at; id < stage->after.at; id++) {
        uint32_t earlier = stage->before.at;
        while (model->tensors[earlier - 1].layer != model->tensors[id - 1].layer) earlier++;
        if (earlier == id && i-- == 0) return clq_model_tensor_name(model, &model->tensors[id - 1]);
    }
    return NULL;
}

void clq_print_stages(const clq_model *model, const clq_strategy *strategy) {
    clq_pipeline_info pipeline;
    clq_stage_info info;
    const char *layer;
    if (!clq_strategy_pipelines(strategy, &pipeline)) return;
    clq_fprintf(
        stdout,
        "\n%u stage%s, %u pipeline%s, %u micro-batches, cut by %s: a bubble (idle time) of %.1f %% if all stages take "
        "equally long, %.1f %% by their %s\n",
        pipeline.stages, pipeline.stages == 1 ? "" : "s", pipeline.pipelines, pipeline.pipelines == 1 ? "" : "s",
        pipeline.micro_batches, clq_cut_basis_name(pipeline.basis), 100 * pipeline.bubble,
        100 * pipeline.bubble_expected, pipeline.timed ? "times" : "work");
    printf("%5s %12s %10s %12s %12s %10s %11s %12s %12s  %s\n", "stage", "parameters", "memory MB", "forward Mop",
           "backward Mop", "forward ms", "backward ms", "sends kB", "gets back kB", "layers");
    for (size_t s = 0; clq_strategy_stage(strategy, s, &info); s++) {
        clq_fprintf(stdout, "%5zu %12zu %10.3f %12.3f %12.3f ", s, info.parameters, (double)info.memory_bytes * 1e-6,
                    info.forward * 1e-6, info.backward * 1e-6);
        if (info.took)
            clq_fprintf(stdout, "%10.3f %11.3f ", info.took->forward * 1e3, info.took->backward * 1e3);
        else
            printf("%10s %11s ", "-", "-");
        clq_fprintf(stdout, "%12.3f %12.3f  ", (double)info.sent_bytes * 1e-3, (double)info.back_bytes * 1e-3);
        for (size_t i = 0; (layer = layer_of(model, info.stage, i)); i++) printf("%s%s", i ? ", " : "", layer);
        printf("\n");
    }
}

json_t *clq_describe_stages(const clq_model *model, const clq_strategy *strategy) {
    clq_pipeline_info pipeline;
    clq_stage_info info;
    const char *layer;
    if (!clq_strategy_pipelines(strategy, &pipeline)) return NULL;
    json_t *rows = json_array();
    for (size_t s = 0; clq_strategy_stage(strategy, s, &info); s++) {
        json_t *layers = json_array();
        for (size_t i = 0; (layer = layer_of(model, info.stage, i)); i++)
            layers = clq_json_append(layers, clq_json_text(layer));
        const clq_plan_seconds unknown = {(double)NAN, (double)NAN}, *took = info.took ? info.took : &unknown;
        rows = clq_json_append(
            rows, json_pack("{s:o, s:I, s:I, s:f, s:f, s:o, s:o, s:I, s:I}", "layers", layers, "parameters",
                            (json_int_t)info.parameters, "memory_bytes", (json_int_t)info.memory_bytes, "forward_work",
                            info.forward, "backward_work", info.backward, "forward_ms",
                            clq_json_number(took->forward * 1e3), "backward_ms", clq_json_number(took->backward * 1e3),
                            "sent_bytes", (json_int_t)info.sent_bytes, "back_bytes", (json_int_t)info.back_bytes));
    }
    return json_pack("{s:I, s:I, s:s, s:f, s:f, s:o}", "pipelines", (json_int_t)pipeline.pipelines, "micro_batches",
                     (json_int_t)pipeline.micro_batches, "cut_by", clq_cut_basis_name(pipeline.basis), "bubble",
                     pipeline.bubble, "bubble_expected", pipeline.bubble_expected, "stages", rows);
}
