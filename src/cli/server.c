/* What a parameter server did: a line and a member of the JSON at the end of a training. */
#include "cli/cli.h"

#include <stdio.h>

typedef struct server {
    clq_server_counts counts;
    uint64_t *staleness; /* (bounds): updates by their staleness; caller: clq_free */
    size_t bounds;
} server;

static clq_status look(clq_trainer *trainer, server *out) {
    *out = (server){0};
    CLQ_TRY(clq_trainer_server_counts(trainer, &out->counts));
    CLQ_TRY(clq_trainer_staleness(trainer, 0, NULL, &out->bounds));
    out->staleness = clq_alloc(out->bounds, sizeof *out->staleness);
    return out->staleness ? clq_trainer_staleness(trainer, out->bounds, out->staleness, &out->bounds)
                          : CLQ_ERROR_MEMORY;
}

/* The least staleness that this part of the updates does not exceed. */
static size_t quantile(const server *s, double part) {
    uint64_t sum = 0, below = 0;
    for (size_t i = 0; i < s->bounds; i++) sum += s->staleness[i];
    for (size_t i = 0; i < s->bounds; i++) {
        below += s->staleness[i];
        if ((double)below >= part * (double)sum) return i;
    }
    return 0;
}

clq_status clq_describe_server(clq_trainer *trainer, FILE *talk) {
    server s;
    clq_status status = look(trainer, &s);
    if (status == CLQ_OK && s.bounds > 0)
        fprintf(talk, "staleness of %llu update%s: median %zu, 90%% at most %zu, largest %zu, bound %zu\n",
                (unsigned long long)s.counts.updates, clq_plural(s.counts.updates), quantile(&s, 0.5),
                quantile(&s, 0.9), quantile(&s, 1.0), s.bounds - 1);
    else if (status == CLQ_OK && s.counts.dropped > 0)
        fprintf(talk, "backup replicas: %llu update%s, %llu gradient%s dropped\n", (unsigned long long)s.counts.updates,
                clq_plural(s.counts.updates), (unsigned long long)s.counts.dropped, clq_plural(s.counts.dropped));
    clq_free(s.staleness);
    return status;
}

clq_status clq_json_put_server(clq_trainer *trainer, json_t **document) {
    server s;
    clq_status status = look(trainer, &s);
    if (status == CLQ_OK && s.counts.servers > 0) {
        json_t *staleness = json_array();
        for (size_t i = 0; i < s.bounds; i++)
            staleness = clq_json_append(staleness, json_integer((json_int_t)s.staleness[i]));
        *document =
            clq_json_put(*document, "server",
                         json_pack("{s:I, s:I, s:I, s:I, s:o}", "servers", (json_int_t)s.counts.servers, "updates",
                                   (json_int_t)s.counts.updates, "gradients", (json_int_t)s.counts.gradients, "dropped",
                                   (json_int_t)s.counts.dropped, "staleness", staleness));
    }
    clq_free(s.staleness);
    return status;
}
