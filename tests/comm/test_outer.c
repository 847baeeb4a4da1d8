/* Collectives between processes, over a network of threads. Checks values against sums in double and against exact
 * integers, and bits against the order of summation that the schedules promise. */
#include "comm/outer/outer.h"
#include "comm/reduce/reduce.h"
#include "support/world_fabric.h"

#include <math.h>
#include <stdlib.h>

static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};
enum { CHUNK = 256 };

typedef struct trial {
    clq_collective collective;
    clq_algorithm algorithm;
    clq_dtype dtype;
    clq_redop op;
    size_t count;
    unsigned root, to, divisor;
    bool in_place;
} trial;

/* Inputs. f64 gets whole numbers, so that sums are exact in any order. f32 gets fractions, so that the order shows in
 * the bits. */
static double value_of(const trial *t, unsigned rank, size_t i) {
    const uint32_t mixed = (uint32_t)(rank * 2654435761u + i * 40503u + 17) % 1009;
    if (t->op == CLQ_REDOP_PROD) return 1 + mixed % 2;
    if (t->dtype == CLQ_U8) return mixed % 200;
    return t->dtype == CLQ_F32 ? (double)((float)mixed / 7) : (double)mixed;
}

static void put(clq_dtype dtype, void *data, size_t i, double value) {
    switch (dtype) {
    case CLQ_F32: ((float *)data)[i] = (float)value; break;
    case CLQ_F64: ((double *)data)[i] = value; break;
    case CLQ_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    default: ((uint8_t *)data)[i] = (uint8_t)value; break;
    }
}

static double get(clq_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case CLQ_F32: return ((const float *)data)[i];
    case CLQ_F64: return ((const double *)data)[i];
    case CLQ_I32: return ((const int32_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

/* ---- expected results ---- */

static double combined(const trial *t, double a, double b) {
    const double sum = t->op == CLQ_REDOP_PROD  ? a * b
                       : t->op == CLQ_REDOP_MIN ? fmin(a, b)
                       : t->op == CLQ_REDOP_MAX ? fmax(a, b)
                                                : a + b;
    return t->dtype == CLQ_F32 ? (double)(float)sum : sum;
}

/* The mean of floats is the sum times 1/n, both in the floats' own precision. */
static double divided(const trial *t, double sum, unsigned size) {
    const unsigned by = t->divisor ? t->divisor : size;
    if (t->op != CLQ_REDOP_AVG) return sum;
    if (t->dtype == CLQ_F32) return (double)((float)sum * (1.0F / (float)by));
    return t->dtype == CLQ_F64 ? sum * (1.0 / by) : trunc(sum / by);
}

/* Element i of all ranks combined in ring order, from rank `first` on. */
static double in_order(const trial *t, unsigned size, unsigned first, size_t i) {
    double sum = value_of(t, first % size, i);
    for (unsigned k = 1; k < size; k++) sum = combined(t, sum, value_of(t, (first + k) % size, i));
    return divided(t, sum, size);
}

/* Recursive doubling: partners at distance 1, 2, … of 2^levels ranks. The remaining ranks have added their values
 * first. */
static double by_doubling(const trial *t, unsigned size, size_t i) {
    double sums[FABRIC_RANKS_MAX];
    unsigned power = 1;
    while (2 * power <= size) power *= 2;
    for (unsigned r = 0; r < power; r++) {
        sums[r] = value_of(t, r, i);
        if (r + power < size) sums[r] = combined(t, sums[r], value_of(t, r + power, i));
    }
    for (unsigned distance = 1; distance < power; distance *= 2)
        for (unsigned r = 0; r < power; r += 2 * distance) sums[r] = combined(t, sums[r], sums[r + distance]);
    return divided(t, sums[0], size);
}

/* Returns which of `parts` equal parts holds element *i. Changes *i to the place within this part, and *count to the
 * length of the part. */
static unsigned part_of(const trial *t, unsigned parts, size_t *i, size_t *count) {
    const size_t element = clq_dtype_bytes(t->dtype), bytes = *count * element;
    unsigned part = 0;
    while (clq_part_begin(part + 1, parts, bytes) <= *i * element) part++;
    *count = (clq_part_begin(part + 1, parts, bytes) - clq_part_begin(part, parts, bytes)) / element;
    *i -= clq_part_begin(part, parts, bytes) / element;
    return part;
}

/* In a torus, each row of `width` ranks first adds up one part per rank, round the row. Each column then adds up these
 * parts, one smaller part per rank. */
static double by_torus(const trial *t, unsigned size, unsigned width, size_t i) {
    const unsigned rows = size / width;
    size_t place = i, count = t->count;
    const unsigned part = part_of(t, width, &place, &count), first = part_of(t, rows, &place, &count);
    double sums[FABRIC_RANKS_MAX], sum;
    for (unsigned r = 0; r < rows; r++) {
        sums[r] = value_of(t, r * width + part, i);
        for (unsigned k = 1; k < width; k++)
            sums[r] = combined(t, sums[r], value_of(t, r * width + (part + k) % width, i));
    }
    sum = sums[first];
    for (unsigned k = 1; k < rows; k++) sum = combined(t, sum, sums[(first + k) % rows]);
    return divided(t, sum, size);
}

static double all_reduced(const trial *t, unsigned size, size_t i) {
    const size_t element = clq_dtype_bytes(t->dtype);
    if (t->algorithm == CLQ_ALGORITHM_TORUS && size % 2 == 0 && size > 2) return by_torus(t, size, 2, i);
    if (t->algorithm == CLQ_ALGORITHM_DOUBLING) return by_doubling(t, size, i);
    if (t->algorithm == CLQ_ALGORITHM_REDUCE_TO_ONE) return in_order(t, size, 0, i);
    unsigned part = 0;
    while (clq_part_begin(part + 1, size, t->count * element) <= i * element) part++;
    return in_order(t, size, part, i); /* part p starts at rank p */
}

/* The expected element i of rank `rank`. Returns false if the collective does not define this rank's output. */
static bool wanted(const trial *t, unsigned size, unsigned rank, size_t i, double *out) {
    switch (t->collective) {
    case CLQ_ALL_REDUCE: *out = all_reduced(t, size, i); return true;
    case CLQ_REDUCE_SCATTER: *out = in_order(t, size, rank + 1, rank * t->count + i); return true;
    case CLQ_ALL_GATHER: *out = value_of(t, (unsigned)(i / t->count), i % t->count); return true;
    case CLQ_BROADCAST: *out = value_of(t, t->root, i); return true;
    case CLQ_REDUCE: *out = in_order(t, size, t->root + 1, i); return rank == t->root;
    default: *out = value_of(t, t->root, i); return rank == t->to;
    }
}

/* ---- one rank's part ---- */

static clq_status run_trial(clq_outer *outer, const trial *t, unsigned size, unsigned rank) {
    const size_t element = clq_dtype_bytes(t->dtype), ins = t->collective == CLQ_REDUCE_SCATTER ? size : 1;
    const size_t outs = t->collective == CLQ_ALL_GATHER ? size : 1;
    char *in = clq_alloc(ins * t->count + 1, element), *out = clq_alloc(CLQ_MAX(ins, outs) * t->count + 1, element);
    clq_outer_task task = {t->collective, t->algorithm, in,    out,        t->count, t->dtype,
                           t->op,         t->root,      t->to, t->divisor, 0};
    if (t->in_place) {
        task.in = out;
        if (t->collective == CLQ_ALL_GATHER) task.in = out + rank * t->count * element;
        if (t->collective == CLQ_REDUCE_SCATTER) task.out = out + rank * t->count * element;
    }
    for (size_t i = 0; i < ins * t->count; i++) put(t->dtype, (void *)(uintptr_t)task.in, i, value_of(t, rank, i));
    clq_status status = clq_outer_run(outer, &task);
    for (size_t i = 0; status == CLQ_OK && i < outs * t->count; i++) {
        double value;
        if (!wanted(t, size, rank, i, &value)) break;
        if (get(t->dtype, task.out, i) != value)
            status = clq_fail(CLQ_ERROR_STATE,
                              "%s by %s of %zu %s (%s%s), root %u, rank %u of %u: [%zu] is %.17g, not %.17g",
                              clq_collective_name(t->collective), clq_algorithm_name(t->algorithm), t->count,
                              clq_dtype_name(t->dtype), clq_redop_name(t->op), t->in_place ? ", in place" : "", t->root,
                              rank, size, i, get(t->dtype, task.out, i), value);
    }
    clq_free(in);
    clq_free(out);
    return status;
}

static const size_t counts[] = {0, 1, 3, 64, 1000, 5003};

static clq_status run_kind(clq_outer *outer, trial t, unsigned size, unsigned rank) {
    static const clq_dtype dtypes[] = {CLQ_F32, CLQ_F64, CLQ_I32, CLQ_U8};
    for (size_t c = 0; c < CLQ_COUNT_OF(counts); c++)
        for (size_t d = 0; d < CLQ_COUNT_OF(dtypes); d++)
            for (int in_place = 0; in_place < 2; in_place++) {
                t.count = counts[c];
                t.dtype = dtypes[d];
                t.in_place = in_place != 0 && t.collective != CLQ_SEND_RECV;
                t.root = (unsigned)(c + d) % size;
                t.to = (unsigned)(c + 2 * d + 1) % size;
                t.op = clq_collective_reduces(t.collective) && t.dtype != CLQ_U8 ? (clq_redop)(c % CLQ_REDOP_COUNT)
                                                                                 : CLQ_REDOP_MAX;
                CLQ_TRY(run_trial(outer, &t, size, rank));
            }
    return CLQ_OK;
}

static clq_status run_kinds(clq_world *world) {
    static const trial kinds[] = {
        {.collective = CLQ_ALL_REDUCE, .algorithm = CLQ_ALGORITHM_RING},
        {.collective = CLQ_ALL_REDUCE, .algorithm = CLQ_ALGORITHM_DOUBLING},
        {.collective = CLQ_ALL_REDUCE, .algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE},
        {.collective = CLQ_ALL_REDUCE, .algorithm = CLQ_ALGORITHM_TORUS},
        {.collective = CLQ_REDUCE_SCATTER, .algorithm = CLQ_ALGORITHM_RING},
        {.collective = CLQ_ALL_GATHER, .algorithm = CLQ_ALGORITHM_RING},
        {.collective = CLQ_BROADCAST, .algorithm = CLQ_ALGORITHM_RING},
        {.collective = CLQ_REDUCE, .algorithm = CLQ_ALGORITHM_RING},
        {.collective = CLQ_SEND_RECV, .algorithm = CLQ_ALGORITHM_RING},
    };
    clq_outer *outer;
    CLQ_TRY(clq_outer_create(world, CHUNK, &outer));
    clq_status status = CLQ_OK;
    for (size_t k = 0; status == CLQ_OK && k < CLQ_COUNT_OF(kinds); k++)
        status = run_kind(outer, kinds[k], clq_world_size(world), clq_world_rank(world));
    clq_outer_destroy(outer);
    return status;
}

static void runs_kinds(fabric_rank *self) { fabric_note(self, run_kinds(self->world)); }

static void run_all(unsigned size, double latency_s, double bytes_per_s, void (*body)(fabric_rank *), void *context) {
    fabric_rank ranks[FABRIC_RANKS_MAX];
    fabric *network = fabric_open(size, latency_s, bytes_per_s);
    fabric_run(network, size, &patient, body, context, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < size; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
}

static void all_kinds(void **state) {
    (void)state;
    for (unsigned size = 1; size <= 6; size++) run_all(size, 0, 0, runs_kinds, NULL);
}

/* Messages arrive late, and the window of messages in flight stays full. */
static void over_a_slow_network(void **state) {
    (void)state;
    run_all(3, 1e-4, 20e6, runs_kinds, NULL);
}

/* Two collectives of one process at once, each with a clq_outer of its own. */
typedef struct half {
    clq_outer *outer;
    fabric_rank *self;
    unsigned turn;
    clq_status ended;
    char detail[CLQ_DETAIL_MAX];
} half;

static void run_half(void *context) {
    half *mine = context;
    const trial t = {
        .algorithm = CLQ_ALGORITHM_RING, .collective = CLQ_ALL_REDUCE, .dtype = CLQ_F32, .count = 4000 + mine->turn};
    for (unsigned i = 0; i < 20 && mine->ended == CLQ_OK; i++)
        mine->ended = run_trial(mine->outer, &t, clq_world_size(mine->self->world), mine->self->rank);
    if (mine->ended != CLQ_OK) snprintf(mine->detail, sizeof mine->detail, "%s", clq_error_detail());
}

static void runs_two(fabric_rank *self) {
    half halves[2];
    clq_thread *threads[2];
    for (unsigned i = 0; i < 2; i++) {
        halves[i] = (half){.self = self, .turn = i};
        fabric_note(self, clq_outer_create(self->world, CHUNK, &halves[i].outer));
        if (self->ended != CLQ_OK) return;
    }
    for (unsigned i = 0; i < 2; i++) clq_thread_start("half", run_half, &halves[i], &threads[i]);
    for (unsigned i = 0; i < 2; i++) {
        clq_thread_join(threads[i]);
        clq_outer_destroy(halves[i].outer);
        if (halves[i].ended != CLQ_OK) fabric_note(self, clq_fail(halves[i].ended, "%s", halves[i].detail));
    }
}

static void two_at_once(void **state) {
    (void)state;
    run_all(3, 0, 0, runs_two, NULL);
}

/* An average whose divisor is not the number of ranks. */
static void divides(fabric_rank *self) {
    clq_outer *outer;
    const trial t = {.algorithm = CLQ_ALGORITHM_RING,
                     .collective = CLQ_ALL_REDUCE,
                     .dtype = CLQ_F32,
                     .op = CLQ_REDOP_AVG,
                     .count = 900,
                     .divisor = 8};
    clq_status status = clq_outer_create(self->world, CHUNK, &outer);
    if (status == CLQ_OK) {
        status = run_trial(outer, &t, clq_world_size(self->world), self->rank);
        clq_outer_destroy(outer);
    }
    fabric_note(self, status);
}

static void averages_divide_by_what_they_are_told(void **state) {
    (void)state;
    run_all(4, 0, 0, divides, NULL);
}

/* ---- failure ---- */

static void loses_one(fabric_rank *self) {
    clq_outer *outer;
    const trial t = {.algorithm = CLQ_ALGORITHM_RING, .collective = CLQ_ALL_REDUCE, .dtype = CLQ_F32, .count = 200000};
    clq_status status = clq_outer_create(self->world, CHUNK, &outer);
    if (status != CLQ_OK) return;
    for (unsigned i = 0; status == CLQ_OK; i++) {
        if (self->rank == 1 && i == 1) fabric_kill(self->port.network, 1);
        status = run_trial(outer, &t, clq_world_size(self->world), self->rank);
    }
    fabric_note(self, status);
    clq_outer_destroy(outer);
}

static void a_lost_rank_ends_them(void **state) {
    (void)state;
    fabric_rank ranks[4];
    fabric *network = fabric_open(4, 0, 200e6);
    fabric_run(network, 4, &(clq_world_config){.silence_s = 4}, loses_one, NULL, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < 4; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_ABORTED);
        if (r != 1) expect_text(ranks[r].detail, "nothing heard");
        if (r != 1) expect_text(ranks[r].detail, "rank 1");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds),
        cmocka_unit_test(over_a_slow_network),
        cmocka_unit_test(two_at_once),
        cmocka_unit_test(averages_divide_by_what_they_are_told),
        cmocka_unit_test(a_lost_rank_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
