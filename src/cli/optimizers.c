/* --optimizer-of NAMES=OPTIMIZER, which may be given several times. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

clq_status clq_setup_optimizers(clq_setup *setup, const clq_options *options, clq_trainer_config *config) {
    const clq_named_texts *given = &options->optimizers;
    if (given->count > CLQ_COUNT_OF(setup->optimizers))
        return clq_fail(CLQ_ARGUMENT, "--optimizer-of is given %zu times: a training takes up to %zu of them",
                        given->count, CLQ_COUNT_OF(setup->optimizers));
    for (size_t i = 0; i < given->count; i++) {
        const char *text = given->texts[i], *equals = strchr(text, '=');
        const size_t length = equals ? (size_t)(equals - text) : 0;
        if (length == 0 || length >= sizeof setup->optimizer_names[i])
            return clq_fail(CLQ_ARGUMENT,
                            "--optimizer-of '%.80s': expected names of layers or variables, '=', and an optimizer, as "
                            "in 'dense*=sgd:lr=0.1'",
                            text);
        memcpy(setup->optimizer_names[i], text, length);
        setup->optimizer_names[i][length] = '\0';
        setup->optimizers[i] = (clq_optimizer_config){.variables = setup->optimizer_names[i]};
        CLQ_TRY(clq_optimizer_parse(equals + 1, &setup->optimizers[i].optimizer));
    }
    config->optimizers = setup->optimizers;
    config->optimizer_count = given->count;
    return CLQ_OK;
}
