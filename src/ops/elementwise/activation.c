/* Chains of activations, their backward pass, and the sums over rows that are the gradients of biases. */
#include "ops/elementwise/cut.h"

#include <assert.h>
#include <stdio.h>

static bool has_weight(clq_activation act) { return act == CLQ_SIGMOID || act == CLQ_TANH; }

/* What a chain's program is made for: each sequence of links is one. */
enum { CHAIN_OPTIONS = 112 };
static void chain_options(const clq_chain *chain, char options[CHAIN_OPTIONS]) {
    assert(chain->count <= CLQ_CHAIN_LINKS_MOST);
    options[0] = '\0';
    int used = chain->count ? snprintf(options, CHAIN_OPTIONS, " -DLINKS=%u", chain->count) : 0;
    for (unsigned i = 0; i < chain->count; i++)
        used += snprintf(options + used, (size_t)(CHAIN_OPTIONS - used), " -DLINK_%u=%d", i, (int)chain->links[i]);
    assert(used < CHAIN_OPTIONS);
}

/* Operations for each element. */
static double chain_flops(const clq_chain *chain) {
    double flops = 0;
    for (unsigned i = 0; i < chain->count; i++) flops += has_weight(chain->links[i]) ? 12 : 1;
    return flops;
}
static double slope_flops(const clq_chain *chain, clq_activation act) {
    double flops = chain_flops(chain) + (has_weight(act) ? 3 : 1);
    for (unsigned i = 0; i < chain->count; i++) flops += has_weight(chain->links[i]) ? 3 : 1;
    return flops;
}

static void softmax(clq_list *list, const char *label, const char *function, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value out) {
    bool backward = dy != CLQ_NO_VALUE;
    double n = (double)elements, bytes = n * sizeof(float) * (backward ? 3 : 2), capacity = clq_list_capacity(list);
    size_t group = channels > 64 ? 256 : 64, rows = elements / channels;
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(rows * group) * capacity, group);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s", "");
    clq_launch_begin(list, label, "loss", options, function);
    clq_launch_value(list, y, CLQ_READS);
    if (backward) clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, out, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_launch_int(list, clq_cut_int(channels));
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, n * (backward ? 4 : 12), 0, bytes);
}

/* What a flat pass over one example costs in bytes: in, out, and the output where the slope is taken from it. */
static double flat_bytes(size_t elements, int arrays) { return (double)elements * sizeof(float) * arrays; }

void clq_activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x,
                            clq_value y) {
    if (act == CLQ_SOFTMAX) {
        softmax(list, "forward", "softmax_forward", elements, channels, x, CLQ_NO_VALUE, y);
        return;
    }
    const clq_chain one = {.count = act != CLQ_LINEAR, .links = {act}};
    clq_chain_forward(list, &one, elements, x, y);
}

void clq_chain_forward(clq_list *list, const clq_chain *chain, size_t elements, clq_value x, clq_value y) {
    if (chain->count == 0 && x == y) return;
    double bytes = flat_bytes(elements, 2), capacity = clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256);
    char links[CHAIN_OPTIONS], options[CLQ_CUT_OPTIONS];
    chain_options(chain, links);
    clq_cut_options(&cut, options, " -DFORWARD%s", links);
    clq_launch_begin(list, "forward", "activation", options, "activation_forward");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements * CLQ_MAX(chain_flops(chain), 1.0), 0, bytes);
}

static bool is_linear(const clq_chain *chain, clq_activation act) { return act == CLQ_LINEAR && chain->count == 0; }

static void backward_flat(clq_list *list, const clq_chain *chain, clq_activation act, size_t elements, clq_value y,
                          clq_value dy, clq_value dz) {
    bool linear = is_linear(chain, act);
    double bytes = flat_bytes(elements, linear ? 2 : 3), capacity = clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256);
    char links[CHAIN_OPTIONS], options[CLQ_CUT_OPTIONS];
    chain_options(chain, links);
    clq_cut_options(&cut, options, " -DACT=%d -DWRITE_DZ%s", (int)act, links);
    clq_launch_begin(list, "backward", "activation", options, "activation_backward");
    clq_launch_value(list, linear ? CLQ_NO_VALUE : y, CLQ_READS);
    clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, dz, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements * slope_flops(chain, act), 0, bytes);
}

/* ---- with column sums ---- */

enum {
    SUM_ITEMS_PER_UNIT = 1024, /* work-items that hide the latency of a compute unit's memory, four loads each */
    SUM_ROWS_LEAST = 4,        /* of an item: as many as it loads together */
    FOLD_COLUMNS_MOST = 8 /* channels of a work-group that folds: neighbours fill a memory transaction of 32 bytes */
};

typedef struct column_cut {
    clq_cut cut;
    size_t fold;          /* rows that make one long row */
    size_t columns, rows; /* of a work-group */
    size_t column_groups, slices;
    size_t fold_columns; /* channels of a work-group that folds; local kernels */
} column_cut;

static size_t greatest_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static column_cut cut_columns(const clq_list *list, size_t elements, size_t channels, double bytes) {
    double capacity = clq_list_capacity(list);
    column_cut c = {.cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256),
                    .fold_columns = 1};
    size_t rows = elements / channels * clq_list_capacity(list);
    if (c.cut.tile) { /* a long row is whole vectors; slices are long enough to be worth their sums */
        c.fold = c.cut.lanes / greatest_divisor(c.cut.lanes, channels);
        c.columns = c.rows = 1;
        size_t vectors = c.fold * channels / c.cut.lanes, long_rows = rows / c.fold;
        c.slices = CLQ_MAX(CLQ_MIN(long_rows / 64, c.cut.groups), (size_t)1);
        c.column_groups = CLQ_MAX(CLQ_MIN(vectors / 4, c.cut.groups / c.slices), (size_t)1);
    } else { /* a long row has at least one column for each item side by side */
        c.columns = CLQ_MIN((size_t)32, c.cut.group);
        c.rows = c.cut.group / c.columns;
        c.fold = clq_ceil_div(c.columns, channels);
        c.column_groups = clq_ceil_div(c.fold * channels, c.columns);
        size_t units = CLQ_MAX(clq_device_get_info(clq_list_device(list))->compute_units, 1u);
        size_t groups = units * SUM_ITEMS_PER_UNIT / c.cut.group; /* more slices would only make the fold longer */
        size_t most = rows / c.fold / (SUM_ROWS_LEAST * c.rows);
        c.slices = CLQ_MAX(CLQ_MIN(groups / c.column_groups, most), (size_t)1);
        while (c.fold_columns < CLQ_MIN((size_t)FOLD_COLUMNS_MOST, CLQ_MIN(channels, c.cut.group))) c.fold_columns *= 2;
    }
    return c;
}

/* Adds the slices' sums up into db. A tile kernel with one work-item has done so. Work-groups share the channels; a
 * tile adds to the first slice's sums. */
static void fold_columns(clq_list *list, const column_cut *c, const char *options, size_t channels, clq_value shares,
                         clq_value db) {
    double numbers = (double)(2 * c->slices * c->fold * channels);
    clq_launch_begin(list, "bias gradient", "activation", options, "fold_columns");
    clq_launch_value(list, shares, c->cut.tile ? CLQ_READS_WRITES : CLQ_READS);
    clq_launch_value(list, db, CLQ_WRITES);
    clq_launch_int(list, clq_cut_int(c->slices));
    clq_launch_int(list, clq_cut_int(c->fold));
    clq_launch_int(list, clq_cut_int(channels));
    if (c->cut.tile) {
        clq_cut_work_one(list, &c->cut);
    } else {
        size_t groups = clq_ceil_div(channels, c->fold_columns), group = c->cut.group;
        clq_launch_int(list, clq_cut_int(c->fold_columns));
        clq_launch_local(list, 2 * group * sizeof(float));
        clq_launch_work(list, 1, (size_t[]){groups * group}, (size_t[]){group}, -1, 0, 0);
    }
    clq_launch_cost(list, numbers * 6, 0, numbers * sizeof(float), 0);
}

static void backward_sums(clq_list *list, const clq_chain *chain, clq_activation act, size_t elements, size_t channels,
                          clq_value y, clq_value dy, clq_value dz, clq_value db) {
    bool linear = is_linear(chain, act), store = dz != CLQ_NO_VALUE && !(linear && dz == dy);
    double bytes = flat_bytes(elements, 1 + (linear ? 0 : 1) + (store ? 1 : 0));
    column_cut c = cut_columns(list, elements, channels, bytes);
    char links[CHAIN_OPTIONS], options[CLQ_CUT_OPTIONS];
    chain_options(chain, links);
    clq_cut_options(&c.cut, options, " -DACT=%d -DCOLUMNS=%zu -DROWS=%zu%s%s", (int)act, c.columns, c.rows,
                    store ? " -DWRITE_DZ" : "", links);
    clq_value shares =
        clq_list_value(list, CLQ_VALUE_SCRATCH, "column sums", 2 * c.slices * c.fold * channels * sizeof(float), 0);
    clq_launch_begin(list, "backward", "activation", options, "activation_backward_sums");
    clq_launch_value(list, linear ? CLQ_NO_VALUE : y, CLQ_READS);
    clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, store ? dz : CLQ_NO_VALUE, CLQ_WRITES);
    clq_launch_value(list, shares, CLQ_WRITES);
    clq_launch_value(list, db, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements / channels));
    clq_launch_int(list, clq_cut_int(channels));
    clq_launch_int(list, clq_cut_int(c.fold));
    clq_launch_local(list, 2 * c.columns * c.rows * sizeof(float));
    clq_launch_work(list, 2, (size_t[]){c.column_groups * c.columns, c.slices * c.rows}, (size_t[]){c.columns, c.rows},
                    -1, 0, 0);
    clq_launch_cost(list, 0, (double)elements * (slope_flops(chain, act) + 1), 0, bytes);
    if (!c.cut.tile || c.slices * c.column_groups > 1) fold_columns(list, &c, options, channels, shares, db);
}

void clq_activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                             clq_value dy, clq_value dz, clq_value db) {
    static const clq_chain none;
    clq_chain_backward(list, &none, act, elements, channels, y, dy, dz, db);
}

void clq_chain_backward(clq_list *list, const clq_chain *chain, clq_activation act, size_t elements, size_t channels,
                        clq_value y, clq_value dy, clq_value dz, clq_value db) {
    assert(act != CLQ_SOFTMAX || chain->count == 0);
    if (act == CLQ_SOFTMAX) {
        if (dz == CLQ_NO_VALUE)
            dz = clq_list_value(list, CLQ_VALUE_SCRATCH, "softmax gradient", 0, elements * sizeof(float));
        softmax(list, "backward", "softmax_backward", elements, channels, y, dy, dz);
        act = CLQ_LINEAR; /* what is left are the sums */
        dy = dz;
    }
    if (db != CLQ_NO_VALUE)
        backward_sums(list, chain, act, elements, channels, y, dy, dz, db);
    else if (dz != CLQ_NO_VALUE && !(is_linear(chain, act) && dz == dy))
        backward_flat(list, chain, act, elements, y, dy, dz);
}
