/* The last stages alone of sums that work-groups make in slices: any number of slices, on every device. interop/balance
 * tests that plans use these stages and share them among work-groups. */
#include "support/ops_rig.h"

#include <math.h>
#include <stdio.h>

enum { GROUP = 256 };

/* ---- column sums: shares (slices, sums, 2, fold * channels) to sums of (channels) ---- */

typedef struct fold {
    size_t slices, fold, channels, columns; /* columns: of a work-group */
    size_t sums;
} fold;

/* The options of a program that only hands on the numbers that its sums take. */
#define PROGRAM "-DGROUP=256 -DINPUTS=1 -DIN0=0 -DINSTRUCTIONS=1 -DOP0=0 -DA0=0 -DOUTPUTS=0 -DWORDS=0"

static void launch_fold(rig *r, const fold *f, clq_value from, const clq_value to[2]) {
    size_t groups = clq_ceil_div(f->channels, f->columns);
    const char *options = f->sums == 2 ? PROGRAM " -DSUMS=2 -DSUM0=0 -DSUM1=0" : PROGRAM " -DSUMS=1 -DSUM0=0";
    clq_launch_begin(r->list, "fold", "elementwise", options, "fold_columns");
    clq_launch_value(r->list, from, CLQ_READS);
    clq_launch_int(r->list, (int)f->slices);
    clq_launch_int(r->list, (int)f->fold);
    clq_launch_int(r->list, (int)f->channels);
    clq_launch_int(r->list, (int)f->columns);
    for (size_t k = 0; k < f->sums; k++) clq_launch_value(r->list, to[k], CLQ_WRITES);
    clq_launch_local(r->list, 2 * GROUP * sizeof(float));
    clq_launch_work(r->list, 1, (size_t[]){groups * GROUP}, (size_t[]){GROUP}, -1, 0, 0);
}

/* The shares are sums of one sign, and what these sums rounded off. */
static void check_fold(rig *r, const fold *f) {
    clq_random random = clq_random_start(51, f->slices * 64 + f->fold);
    size_t width = f->fold * f->channels, n = 2 * f->sums * f->slices * width, bytes = f->channels * sizeof(float);
    float *shares, *db = rig_alloc(f->channels, sizeof *db), *again = rig_alloc(f->channels, sizeof *db);
    double *shares64, *want = rig_alloc(2 * f->channels, sizeof *want);
    rig_numbers(&random, n, 0.5, 1, &shares, &shares64);
    for (size_t i = 0; i < n; i++) {
        size_t row = i / width, sum = row / 2 % f->sums;
        if (row % 2) shares64[i] = (double)(shares[i] *= 0x1p-24f);
        want[sum * f->channels + i % width % f->channels] += shares64[i];
    }
    rig_begin(r, 1);
    clq_value from = rig_value(r, "shares", n * sizeof *shares, 0), to[2] = {CLQ_NO_VALUE};
    for (size_t k = 0; k < f->sums; k++) to[k] = rig_value(r, "db", bytes, 0);
    launch_fold(r, f, from, to);
    rig_bind(r);
    rig_fill(r, from, shares, n * sizeof *shares);
    for (size_t k = 0; k < f->sums; k++) {
        rig_run(r, 1);
        rig_read(r, to[k], db, bytes);
        rig_run(r, 1);
        rig_read(r, to[k], again, bytes);
        rig_check_close(r, "db", db, want + k * f->channels, f->channels, 1.2e-7, 0); /* compensated: rounded once */
        assert_memory_equal(db, again, bytes);
    }
    rig_end(r);
    void *const all[] = {shares, shares64, db, again, want};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

/* A work-group has 256 / columns rows. The numbers of slices: one, primes, the number of rows and its neighbours,
 * thousands. */
static void check_folds(rig *r) {
    static const fold folds[] = {
        {1, 1, 32, 8, 1},    {1, 32, 1, 1, 1},   {2, 11, 3, 4, 2},   {3, 1, 33, 8, 1},   {13, 1, 8, 8, 1},
        {31, 1, 32, 8, 2},   {32, 1, 33, 8, 1},  {33, 1, 32, 8, 1},  {255, 1, 1, 1, 2},  {256, 1, 2, 2, 1},
        {257, 16, 2, 2, 1},  {509, 1, 64, 8, 2}, {1056, 3, 5, 8, 1}, {2112, 1, 8, 8, 1}, {2113, 4, 10, 8, 2},
        {5003, 1, 32, 8, 1}, {4, 1, 1009, 8, 1},
    };
    if (r->family != CLQ_FAMILY_LOCAL) return;
    for (size_t i = 0; i < CLQ_COUNT_OF(folds); i++)
        if (rig_affords(r, 2 * folds[i].sums * folds[i].slices * folds[i].fold * folds[i].channels))
            check_fold(r, &folds[i]);
}

/* ---- products: slices (slices, floats) to their sum ---- */

typedef struct reduce {
    size_t slices, floats, wide, across, rows; /* across, rows: columns of a work-group, and items for each */
    bool half;
} reduce;

static float half_at(const float *numbers, size_t i) {
    uint16_t half;
    memcpy(&half, (const char *)numbers + i * sizeof half, sizeof half);
    return clq_half_to_float(half);
}

static void check_reduce(rig *r, const reduce *d) {
    clq_random random = clq_random_start(52, d->slices * 1009 + d->floats);
    size_t n = d->slices * d->floats, group = d->across * d->rows, bytes = d->floats * (d->half ? 2 : 4);
    size_t groups = clq_ceil_div(d->floats / d->wide, d->across);
    float *from, *got = rig_alloc(d->floats, sizeof *got);
    double *from64, *want = rig_alloc(d->floats, sizeof *want);
    char options[64];
    rig_numbers(&random, n, -1, 1, &from, &from64);
    for (size_t i = 0; i < n; i++) want[i % d->floats] += from64[i];
    (void)snprintf(options, sizeof options, "-DWIDE=%zu %s", d->wide, d->half ? "-DTO_STORAGE=1" : "");
    rig_begin(r, 1);
    clq_value slices = rig_value(r, "slices", n * sizeof *from, 0), to = rig_value(r, "sum", bytes, 0);
    clq_launch_begin(r->list, "reduce", "product_support", options, "product_reduce_rows");
    clq_launch_value(r->list, slices, CLQ_READS);
    clq_launch_value(r->list, to, CLQ_WRITES);
    clq_launch_int(r->list, (int)d->floats);
    clq_launch_int(r->list, (int)d->slices);
    clq_launch_int(r->list, (int)d->across);
    clq_launch_local(r->list, group * d->wide * sizeof(float));
    clq_launch_param(r->list, CLQ_PARAM_SUM_FACTOR);
    clq_launch_work(r->list, 1, (size_t[]){groups * group}, (size_t[]){group}, -1, 0, 0);
    rig_bind(r);
    rig_fill(r, slices, from, n * sizeof *from);
    rig_run(r, 1);
    rig_read(r, to, got, bytes);
    for (size_t i = d->half ? d->floats : 0; i-- > 0;) got[i] = half_at(got, i); /* backwards, because in place */
    double most = sqrt((double)d->slices);
    rig_check_close(r, "sum", got, want, d->floats, d->half ? 5e-4 : 0, 2e-7 * most * (1 + log2((double)d->slices)));
    rig_end(r);
    void *const all[] = {from, from64, got, want};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void check_reduces(rig *r) {
    static const reduce reduces[] = {
        {1, 4, 4, 64, 1, false},     {2, 288, 4, 64, 1, false},   {3, 6, 2, 32, 2, false},
        {7, 45, 1, 16, 4, false},    {8, 1, 1, 8, 8, false},      {15, 72, 4, 4, 16, false},
        {16, 50, 2, 4, 16, false},   {17, 36, 4, 4, 16, false},   {63, 12, 4, 2, 64, false},
        {64, 150, 2, 4, 64, false},  {65, 28, 4, 1, 64, false},   {338, 288, 4, 2, 64, false},
        {1009, 30, 2, 1, 64, false}, {4099, 20, 4, 4, 64, false}, {5, 24, 4, 2, 4, true},
        {9, 10, 2, 4, 2, true},      {3, 7, 1, 4, 1, true},
    };
    if (r->family != CLQ_FAMILY_LOCAL) return;
    for (size_t i = 0; i < CLQ_COUNT_OF(reduces); i++)
        if (rig_affords(r, reduces[i].slices * reduces[i].floats)) check_reduce(r, &reduces[i]);
}

static void columns_match_reference(void **state) {
    (void)state;
    rig_each(check_folds);
}

static void products_match_reference(void **state) {
    (void)state;
    rig_each(check_reduces);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_match_reference),
                                       cmocka_unit_test(products_match_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
