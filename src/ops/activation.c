/* Activations, their backward pass, and the sums over rows that are the gradients of biases. */
#include "ops/cut.h"

static bool has_weight(clq_activation act) { return act == CLQ_SIGMOID || act == CLQ_TANH; }

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
    if (act == CLQ_LINEAR && x == y) return;
    if (act == CLQ_SOFTMAX) {
        softmax(list, "forward", "softmax_forward", elements, channels, x, CLQ_NO_VALUE, y);
        return;
    }
    double bytes = flat_bytes(elements, 2), capacity = clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, " -DFORWARD -DACT=%d", (int)act);
    clq_launch_begin(list, "forward", "activation", options, "activation_forward");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements * (has_weight(act) ? 12 : 1), 0, bytes);
}

static void backward_flat(clq_list *list, clq_activation act, size_t elements, clq_value y, clq_value dy,
                          clq_value dz) {
    double bytes = flat_bytes(elements, act == CLQ_LINEAR ? 2 : 3), capacity = clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, " -DACT=%d -DWRITE_DZ", (int)act);
    clq_launch_begin(list, "backward", "activation", options, "activation_backward");
    clq_launch_value(list, act == CLQ_LINEAR ? CLQ_NO_VALUE : y, CLQ_READS);
    clq_launch_value(list, dy, CLQ_READS);
    clq_launch_value(list, dz, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements * (has_weight(act) ? 3 : 1), 0, bytes);
}

/* ---- with column sums ---- */

typedef struct column_cut {
    clq_cut cut;
    size_t fold;          /* rows that make one long row */
    size_t columns, rows; /* of a work-group */
    size_t column_groups, slices;
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
    column_cut c = {.cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity / 4, 256)};
    if (c.cut.tile) { /* a long row is whole vectors; slices are long enough to be worth their sums */
        c.fold = c.cut.lanes / greatest_divisor(c.cut.lanes, channels);
        c.columns = c.rows = 1;
        size_t vectors = c.fold * channels / c.cut.lanes,
               long_rows = elements / channels * clq_list_capacity(list) / c.fold;
        c.slices = CLQ_MAX(CLQ_MIN(long_rows / 64, c.cut.groups), (size_t)1);
        c.column_groups = CLQ_MAX(CLQ_MIN(vectors / 4, c.cut.groups / c.slices), (size_t)1);
    } else { /* a long row has at least one column for each item side by side */
        c.columns = CLQ_MIN((size_t)32, c.cut.group);
        c.rows = c.cut.group / c.columns;
        c.fold = clq_ceil_div(c.columns, channels);
        c.column_groups = clq_ceil_div(c.fold * channels, c.columns);
        c.slices = CLQ_MAX(c.cut.groups / c.column_groups, (size_t)1);
    }
    return c;
}

/* Adds the slices' sums up into db. A tile kernel with one work-item has done so. */
static void fold_columns(clq_list *list, const column_cut *c, const char *options, size_t channels, clq_value shares,
                         clq_value db) {
    double numbers = (double)(2 * c->slices * c->fold * channels);
    clq_launch_begin(list, "bias gradient", "activation", options, "fold_columns");
    clq_launch_value(list, shares, CLQ_READS_WRITES);
    clq_launch_value(list, db, CLQ_WRITES);
    clq_launch_int(list, clq_cut_int(c->slices));
    clq_launch_int(list, clq_cut_int(c->fold));
    clq_launch_int(list, clq_cut_int(channels));
    clq_cut_work_one(list, &c->cut);
    clq_launch_cost(list, numbers * 6, 0, numbers * sizeof(float), 0);
}

static void backward_sums(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                          clq_value dy, clq_value dz, clq_value db) {
    bool store = dz != CLQ_NO_VALUE && !(act == CLQ_LINEAR && dz == dy);
    double bytes = flat_bytes(elements, 1 + (act == CLQ_LINEAR ? 0 : 1) + (store ? 1 : 0));
    column_cut c = cut_columns(list, elements, channels, bytes);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&c.cut, options, " -DACT=%d -DCOLUMNS=%zu -DROWS=%zu%s", (int)act, c.columns, c.rows,
                    store ? " -DWRITE_DZ" : "");
    clq_value shares =
        clq_list_value(list, CLQ_VALUE_SCRATCH, "column sums", 2 * c.slices * c.fold * channels * sizeof(float), 0);
    clq_launch_begin(list, "backward", "activation", options, "activation_backward_sums");
    clq_launch_value(list, act == CLQ_LINEAR ? CLQ_NO_VALUE : y, CLQ_READS);
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
    clq_launch_cost(list, 0, (double)elements * (has_weight(act) ? 4 : 2), 0, bytes);
    if (!c.cut.tile || c.slices * c.column_groups > 1) fold_columns(list, &c, options, channels, shares, db);
}

void clq_activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                             clq_value dy, clq_value dz, clq_value db) {
    if (act == CLQ_SOFTMAX) {
        if (dz == CLQ_NO_VALUE)
            dz = clq_list_value(list, CLQ_VALUE_SCRATCH, "softmax gradient", 0, elements * sizeof(float));
        softmax(list, "backward", "softmax_backward", elements, channels, y, dy, dz);
        act = CLQ_LINEAR; /* what is left are the sums */
        dy = dz;
    }
    if (db != CLQ_NO_VALUE)
        backward_sums(list, act, elements, channels, y, dy, dz, db);
    else if (dz != CLQ_NO_VALUE && !(act == CLQ_LINEAR && dz == dy))
        backward_flat(list, act, elements, y, dy, dz);
}
