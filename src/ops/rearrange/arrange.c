/* Values taken from other places: padding, slices, transposes. */
#include "ops/elementwise/cut.h"

#include <assert.h>

clq_arrangement clq_arrangement_of(unsigned rank, const size_t *sizes) {
    clq_arrangement a = {.rank = rank};
    size_t pitch = 1;
    assert(rank <= CLQ_ARRANGED_AXES);
    for (unsigned d = rank; d-- > 0; pitch *= sizes[d])
        a.axes[d] = (clq_arranged_axis){.out = sizes[d], .in = sizes[d], .pitch = pitch, .step = 1, .spread = 1};
    return a;
}

size_t clq_arrangement_elements(const clq_arrangement *a) {
    size_t elements = 1;
    for (unsigned d = 0; d < a->rank; d++) elements *= a->axes[d].out;
    return elements;
}

/* Place p of y took place (first + p * step) / spread of x. So place q of x went to place (q * spread - first) / step
 * of y. */
static clq_arranged_axis back(const clq_arranged_axis *axis, size_t pitch) {
    const bool turned = axis->step < 0;
    return (clq_arranged_axis){.out = axis->in,
                               .in = axis->out,
                               .pitch = pitch,
                               .first = turned ? axis->first : -axis->first,
                               .step = turned ? -axis->spread : axis->spread,
                               .spread = turned ? -axis->step : axis->step};
}

clq_arrangement clq_arrangement_back(const clq_arrangement *a) {
    clq_arrangement result = {.rank = a->rank};
    size_t pitches[CLQ_ARRANGED_AXES], pitch = 1;
    for (unsigned d = a->rank; d-- > 0; pitch *= a->axes[d].out) pitches[d] = pitch;
    /* Finds x's axes in x's order: larger pitches come first. Of axes with equal pitches, all but one have one place,
     * so their order does not matter. */
    bool taken[CLQ_ARRANGED_AXES] = {false};
    for (unsigned k = 0; k < a->rank; k++) {
        unsigned next = a->rank;
        for (unsigned d = 0; d < a->rank; d++)
            if (!taken[d] && (next == a->rank || a->axes[d].pitch > a->axes[next].pitch ||
                              (a->axes[d].pitch == a->axes[next].pitch && a->axes[d].in < a->axes[next].in)))
                next = d;
        taken[next] = true;
        result.axes[k] = back(&a->axes[next], pitches[next]);
    }
    return result;
}

/* Whether the axis is the same in y as in x. */
static bool is_whole(const clq_arranged_axis *axis) {
    return axis->out == axis->in && axis->first == 0 && axis->step == 1 && axis->spread == 1;
}

/* Joins neighbouring axes that are nested in both x and y, if the inner axis is whole. So runs become longer. */
static clq_arrangement join_axes(const clq_arrangement *a) {
    clq_arrangement joined = {.rank = 0};
    for (unsigned d = 0; d < a->rank; d++) {
        clq_arranged_axis *before = joined.rank ? &joined.axes[joined.rank - 1] : NULL;
        const clq_arranged_axis *axis = &a->axes[d];
        if (axis->out == 1 && axis->in == 1 && axis->first == 0) continue; /* any other `first` gives a zero */
        if (before && is_whole(axis) && before->step == 1 && before->spread == 1 &&
            before->pitch == axis->in * axis->pitch) {
            before->out *= axis->out;
            before->in *= axis->in;
            before->first *= (long)axis->in;
            before->pitch = axis->pitch;
        } else {
            joined.axes[joined.rank++] = *axis;
        }
    }
    if (joined.rank == 0) joined.axes[joined.rank++] = (clq_arranged_axis){1, 1, 1, 0, 1, 1};
    return joined;
}

static void add_axis(clq_list *list, const clq_arranged_axis *axis) {
    CLQ_LAUNCH_SIZES(list, axis->out, axis->in, axis->pitch);
    clq_launch_int(list, (int)axis->first);
    clq_launch_int(list, (int)axis->step);
    clq_launch_int(list, (int)axis->spread);
}

void clq_arrange(clq_list *list, const clq_arrangement *arrangement, size_t x_elements, bool once, clq_value x,
                 clq_value y) {
    const clq_arrangement a = join_axes(arrangement);
    const clq_arranged_axis *last = &a.axes[a.rank - 1];
    const size_t elements = clq_arrangement_elements(&a);
    const size_t number = clq_dtype_bytes(clq_list_storage(list, x)) + clq_dtype_bytes(clq_list_storage(list, y));
    const double capacity = once ? 1 : clq_list_capacity(list), bytes = (double)elements * (double)number;
    const bool run = last->pitch == 1 && last->step == 1 && last->spread == 1;
    const clq_cut cut = clq_cut_make(list, bytes * capacity, (double)elements * capacity, 256);
    clq_kernel_options options = clq_cut_options(&cut, " -DAXES=%u%s", a.rank - 1, run && cut.tile ? " -DRUN" : "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "arrange", "arrange", options.text, "arrange");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    if (once)
        clq_launch_int(list, 1);
    else
        clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, elements / last->out, x_elements);
    add_axis(list, last);
    for (unsigned d = 0; d + 1 < a.rank; d++) add_axis(list, &a.axes[d]);
    clq_cut_work(list, &cut);
    if (once)
        clq_launch_cost(list, (double)elements, 0, bytes, 0);
    else
        clq_launch_cost(list, 0, (double)elements, 0, bytes);
}
