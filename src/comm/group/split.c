/* Splits a group by color and key: finds which ranks form which new group, and in which order. */
#include "comm/group/group.h"

static clq_status check_colors(const clq_group *group, const int *colors, unsigned count) {
    if (!colors || count < 1 || count > group->size)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a group of %u ranks is split into 1 to %u, with a color for each rank, not %u", group->size,
                        group->size, colors ? count : 0);
    for (unsigned r = 0; r < group->size; r++)
        if (colors[r] != CLQ_NO_COLOR && (unsigned)colors[r] >= count) /* negative colors, too */
            return clq_fail(CLQ_ERROR_ARGUMENT, "rank %u: its color %d is out of range: there are %u, or CLQ_NO_COLOR",
                            r, colors[r], count);
    return CLQ_OK;
}

/* The ranks with a color, ordered by key. Ranks with equal keys are ordered by rank. */
static unsigned find_ranks(const clq_group *group, const int *colors, const int *keys, unsigned color,
                           unsigned *ranks) {
    unsigned count = 0;
    for (unsigned r = 0; r < group->size; r++) {
        if (colors[r] != (int)color) continue;
        unsigned at = count++;
        for (; at > 0 && keys && keys[ranks[at - 1]] > keys[r]; at--) ranks[at] = ranks[at - 1];
        ranks[at] = r;
    }
    return count;
}

clq_status clq_group_split(clq_group *group, const int *colors, const int *keys, unsigned count, clq_group **out) {
    clq_group *parts[CLQ_REPLICAS_MAX];
    unsigned made = 0;
    clq_status status = check_colors(group, colors, count);
    for (; made < count && status == CLQ_OK; made += status == CLQ_OK) {
        unsigned ranks[CLQ_REPLICAS_MAX], n = find_ranks(group, colors, keys, made, ranks);
        if (n == 0)
            status =
                clq_fail(CLQ_ERROR_ARGUMENT, "no rank has color %u: expected ranks of each of %u colors", made, count);
        else
            status = clq_group_make_part(group, ranks, n, &parts[made]);
    }
    if (status != CLQ_OK) {
        clq_error why; /* destroying may fail, too */
        clq_error_take(status, &why);
        while (made > 0) clq_group_destroy(parts[--made]);
        return clq_error_raise(&why);
    }
    for (unsigned c = 0; c < count; c++) out[c] = parts[c];
    return CLQ_OK;
}
