/* Trainers and fits by settings over several processes, which are threads here. If one process cannot make its trainer
 * or fit, the others learn why at once, although that process lives on. */
#include "support/files.h"
#include "support/stop.h"
#include "support/system.h"
#include "support/world_fabric.h"
#include "train/train.h"
#include <clique/settings.h>

enum { RANKS = 2, N = 16, IN = 3 };
/* A wait for a process that has given up would end as a TIMEOUT. */
static const clq_world_config patient = {.silence_s = 60, .deadline_s = 10};
static float samples[N][IN], targets[N];

typedef struct plan {
    const char *key, *value; /* what rank 1 sets differently; NULL: nothing */
    const char *checkpoint, *csv[RANKS];
    atomic_uint ended; /* number of ranks whose work has ended */
} plan;

static clq_status set_all(clq_settings *settings, const plan *how, const fabric_rank *of) {
    const char *const texts[][2] = {{"loss", "mse"},
                                    {"sample-dtype", "f32"},
                                    {"batch", "8"},
                                    {"epochs", "2"},
                                    {"devices", of->rank == 0 ? "pocl:0" : "pocl:1"},
                                    {"checkpoint", how->checkpoint},
                                    {"csv", how->csv[of->rank]}};
    clq_settings_set_world(settings, of->world);
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) CLQ_TRY(clq_settings_set(settings, texts[i][0], texts[i][1]));
    return of->rank == 1 && how->key ? clq_settings_set(settings, how->key, how->value) : CLQ_OK;
}

static clq_status make_model(clq_model **out) {
    CLQ_TRY(clq_model_create("line", out));
    clq_tensor x = clq_input(*out, CLQ_SHAPE(IN));
    return clq_model_finish(*out, clq_dense(*out, x, &(clq_dense_config){.units = 1}));
}

static clq_status train(const plan *how, const fabric_rank *of) {
    static const size_t shape[] = {IN};
    clq_settings *settings = NULL;
    clq_model *model = NULL;
    clq_dataset *data = NULL;
    clq_trainer *trainer = NULL;
    clq_error why;
    clq_status status = clq_settings_create(&settings);
    if (status == CLQ_OK) status = set_all(settings, how, of);
    if (status == CLQ_OK) status = make_model(&model);
    if (status == CLQ_OK) status = clq_dataset_arrays(samples, CLQ_F32, N, 1, shape, targets, CLQ_F32, 1, &data);
    if (status == CLQ_OK) status = clq_dataset_batch(data, 8, false);
    if (status == CLQ_OK) status = clq_settings_create_trainer(settings, sys, model, &trainer);
    if (status == CLQ_OK) status = clq_settings_fit(settings, trainer, data, NULL, NULL, 0);
    clq_error_take(status, &why);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_settings_destroy(settings);
    return clq_error_raise(&why);
}

/* A rank that fails lives on, like a program that reports the failure. */
static void train_rank(fabric_rank *rank) {
    plan *how = rank->context;
    fabric_note(rank, train(how, rank));
    atomic_fetch_add(&how->ended, 1);
    for (double until = clq_now() + 30; atomic_load(&how->ended) < RANKS && clq_now() < until;) nap(0.01);
}

static void run(plan *how, fabric_rank ranks[RANKS]) {
    fabric *network = fabric_open(RANKS, 0, 0);
    fabric_run(network, RANKS, &patient, train_rank, how, ranks);
    fabric_close(network);
}

static void who_fails_first_is_named_to_all(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *says;
        clq_status status;
    } cases[] = {{"devices", "pocl:99", "pocl:99", CLQ_ERROR_NO_DEVICE},
                 {"batch-per-replica", "4", "exclude each other", CLQ_ERROR_ARGUMENT},
                 {"loss", "other=mse", "no output 'other'", CLQ_ERROR_ARGUMENT},
                 {"early-stopping", "monitor=nothing", "nothing", CLQ_ERROR_ARGUMENT},
                 {"checkpoint", "", "the name of a folder", CLQ_ERROR_ARGUMENT}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        plan how = {.key = cases[i].key, .value = cases[i].value, .checkpoint = files_path("failed")};
        fabric_rank ranks[RANKS];
        run(&how, ranks);
        if (ranks[1].ended != cases[i].status) fail_msg("%s: %s", cases[i].key, ranks[1].detail);
        expect_text(ranks[1].detail, cases[i].says);
        if (ranks[0].ended != CLQ_ERROR_ABORTED) fail_msg("%s: rank 0: %s", cases[i].key, ranks[0].detail);
        expect_text(ranks[0].detail, "rank 1 on ");
        expect_text(ranks[0].detail, cases[i].says);
    }
}

static void all_train_and_one_writes(void **state) {
    (void)state;
    char tables[RANKS][512];
    plan how = {.checkpoint = files_path("together")};
    fabric_rank ranks[RANKS];
    for (unsigned r = 0; r < RANKS; r++) {
        (void)snprintf(tables[r], sizeof tables[r], "%s", files_path(r == 0 ? "0.csv" : "1.csv"));
        how.csv[r] = tables[r];
    }
    run(&how, ranks);
    for (unsigned r = 0; r < RANKS; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
    assert_int_equal(access(tables[0], R_OK), 0);
    assert_int_not_equal(access(tables[1], F_OK), 0);
}

static int begin(void **state) {
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < IN; k++) samples[i][k] = (float)((i * 5 + k * 3) % 7) / 7;
        targets[i] = (float)(i % 3);
    }
    return files_begin(state) == 0 ? open_system(state) : -1;
}
static int end(void **state) { return close_system(state) == 0 ? files_end(state) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_fails_first_is_named_to_all),
                                       cmocka_unit_test(all_train_and_one_writes)};
    return cmocka_run_group_tests(tests, begin, end);
}
