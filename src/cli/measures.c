/* Losses and metrics in lines and in JSON. */
#include "cli/cli.h"

void clq_describe_metrics(const char *prefix, const clq_metric_values *metrics, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < metrics->count && used < bytes; i++)
        used +=
            (size_t)clq_format(text + used, bytes - used, "  %s%s %.4f", prefix, metrics->names[i], metrics->values[i]);
}

static json_t *put(json_t *object, const char *prefix, const char *name, double value, bool known) {
    char key[128];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    return clq_json_put(object, key, known ? clq_json_number(value) : json_null());
}

json_t *clq_json_put_measures(json_t *object, const char *prefix, const clq_totals *totals, bool known) {
    object = put(object, prefix, "loss", totals->loss, known);
    for (unsigned i = 0; i < totals->metrics.count; i++)
        object = put(object, prefix, totals->metrics.names[i], totals->metrics.values[i], known);
    return object;
}
