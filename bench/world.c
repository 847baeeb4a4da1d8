/* A benchmark in several processes, which an MPI launcher started. All processes take the same steps and get the same
 * rows. Rank 0 prints and writes them. */
#include "bench.h"

#include "cli/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- joining ---- */

static clq_status agree(const clq_bench_run *run) {
    CLQ_TRY(clq_world_check(run->world, run->given.failed ? CLQ_ERROR_MEMORY : CLQ_OK));
    return clq_world_agree(run->world, "benchmark or set of options",
                           clq_hash128_of(run->given.data, run->given.length, 0));
}

clq_status clq_bench_join(clq_bench_run *run, clq_status status) {
    CLQ_TRY(clq_ranks_join(&run->world, status));
    if (!run->world) return CLQ_OK;
    if (run->spec->span == CLQ_BENCH_OF_ONE)
        status = clq_fail(CLQ_ERROR_UNSUPPORTED,
                          "clique bench %s is of one process, and a launcher started %u: start it without one; the "
                          "collectives, send_recv and p2p are of several, too",
                          run->spec->name, clq_world_size(run->world));
    CLQ_TRY(clq_world_check(run->world, status));
    CLQ_TRY(agree(run));
    if (!clq_bench_is_silent(run)) return CLQ_OK;
    run->json_path = run->csv_path = NULL;
    run->terminal = false;
    return CLQ_OK;
}

bool clq_bench_is_silent(const clq_bench_run *run) { return clq_world_rank(run->world) > 0; }

/* ---- what all know together ---- */

/* *out_all, a pointer: the bytes of all ranks (size * bytes). The caller frees them with clq_free. */
static clq_status gather(const clq_bench_run *run, const void *mine, size_t bytes, void *out_all) {
    void *all = clq_alloc(clq_world_size(run->world), bytes);
    const clq_status status =
        all ? clq_world_gather(run->world, mine, bytes, all) : clq_world_fail_with(run->world, CLQ_ERROR_MEMORY);
    if (status == CLQ_OK)
        memcpy(out_all, &all, sizeof all);
    else
        clq_free(all);
    return status;
}

clq_status clq_bench_add_up(const clq_bench_run *run, uint64_t *value) {
    uint64_t *all, sum = 0;
    if (!run->world) return CLQ_OK;
    CLQ_TRY(gather(run, value, sizeof *value, &all));
    for (unsigned r = 0; r < clq_world_size(run->world); r++) sum += all[r];
    clq_free(all);
    *value = sum;
    return CLQ_OK;
}

clq_status clq_bench_find_last(const clq_bench_run *run, double *seconds) {
    double *all, most = 0;
    if (!run->world) return CLQ_OK;
    CLQ_TRY(gather(run, seconds, sizeof *seconds, &all));
    for (unsigned r = 0; r < clq_world_size(run->world); r++) most = CLQ_MAX(most, all[r]);
    clq_free(all);
    *seconds = most;
    return CLQ_OK;
}

void clq_bench_add_up_here(const clq_bench_run *run, double *seconds) {
    double *all, sum = 0;
    if (!run->world) return;
    const clq_status status = gather(run, seconds, sizeof *seconds, &all);
    const char *here = clq_world_host(run->world, clq_world_rank(run->world));
    for (unsigned r = 0; status == CLQ_OK && r < clq_world_size(run->world); r++)
        if (strcmp(clq_world_host(run->world, r), here) == 0) sum += all[r];
    if (status == CLQ_OK) clq_free(all);
    *seconds = status == CLQ_OK ? sum : NAN;
}

/* ---- who takes part ---- */

/* Gets the texts of all ranks, each ended by a zero byte and `bytes` after the one before. */
static clq_status gather_texts(const clq_bench_run *run, const char *mine, size_t *bytes, char **out) {
    double most = (double)strlen(mine) + 1;
    CLQ_TRY(clq_bench_find_last(run, &most));
    *bytes = (size_t)most;
    char *padded = clq_alloc(*bytes, 1);
    if (!padded) return clq_world_fail_with(run->world, CLQ_ERROR_MEMORY);
    memcpy(padded, mine, strlen(mine));
    const clq_status status = gather(run, padded, *bytes, out);
    clq_free(padded);
    return status;
}

enum { DEPTH_MOST = 4 };

/* Appends the devices in `text`, which are this rank's, to the list. */
static bool append_devices(const clq_bench_run *run, json_t *list, unsigned rank, const char *text) {
    json_t *devices, *device;
    size_t index;
    if (clq_json_parse(text, strlen(text), DEPTH_MOST, "the devices", &devices) != CLQ_OK) return false;
    bool whole = true;
    json_array_foreach(devices, index, device) {
        whole = json_object_set_new(device, "rank", json_integer(rank)) == 0 && whole;
        whole = json_object_set_new(device, "host", clq_json_text(clq_world_host(run->world, rank))) == 0 && whole;
        whole = json_array_append(list, device) == 0 && whole;
    }
    json_decref(devices);
    return whole;
}

clq_status clq_bench_describe_all(clq_bench_run *run) {
    if (!run->world) return CLQ_OK;
    char *mine = clq_json_dumps(run->described, JSON_COMPACT), *all;
    size_t bytes;
    clq_status status = mine ? CLQ_OK : clq_fail_memory("describing the devices");
    if (status == CLQ_OK) status = gather_texts(run, mine, &bytes, &all);
    free(mine);
    CLQ_TRY(status);
    json_t *list = json_array();
    bool whole = list != NULL;
    for (unsigned r = 0; r < clq_world_size(run->world) && whole; r++)
        whole = append_devices(run, list, r, all + r * bytes);
    clq_free(all);
    if (!whole) {
        json_decref(list);
        return clq_fail_memory("describing the devices");
    }
    json_decref(run->described);
    run->described = list;
    return CLQ_OK;
}

clq_status clq_bench_describe_ranks(clq_bench_run *run) {
    run->described = json_array();
    for (unsigned r = 0; r < clq_world_size(run->world); r++) {
        char label[32];
        (void)snprintf(label, sizeof label, "rank %u", r);
        json_t *rank = json_pack("{s:s, s:i, s:o}", "label", label, "rank", (int)r, "host",
                                 clq_json_text(clq_world_host(run->world, r)));
        if (json_array_append_new(run->described, rank) != 0) return clq_fail_memory("describing the processes");
    }
    return CLQ_OK;
}
