/* Compression of gradients with error feedback: the part of a gradient that a message leaves out stays in `error`, and
 * goes with the next message. The arrays are flat arenas of whole vectors. */

/* ---- halves ---- */

#define LOAD_HALVES(i, p) CLQ_JOIN(vloada_half, VEC)(i, p)
#define STORE_HALVES(v, i, p) CLQ_JOIN(CLQ_JOIN(vstorea_half, VEC), _rte)(v, i, p)

/* Finite numbers are clamped to [-most, most]. The others are sent as they are and leave no error. */
KERNEL void compress_halves(global const float *gradient, global float *error, global half *halves, int vectors,
                            float most) {
    FOR_MY (i, vectors) {
        floatv all = LOADV_ALIGNED(error + i * VEC) + LOADV_ALIGNED(gradient + i * VEC);
        intv finite = fabs(all) < INFINITY;
        STORE_HALVES(finite ? clamp(all, -most, most) : all, i, halves);
        STOREV_ALIGNED(finite ? all - LOAD_HALVES(i, halves) : (floatv)0, error + i * VEC);
    }
}

KERNEL void expand_halves(global const half *halves, global float *gradient, int vectors) {
    FOR_MY (i, vectors) STOREV_ALIGNED(LOAD_HALVES(i, halves), gradient + i * VEC);
}

/* ---- the largest numbers ----
 * Radix select. A number's key is the bits of its absolute value, which have the same order. NaN has the largest keys.
 * The smallest chosen key is found digit by digit, the highest digit first. All groups count the next digit of those
 * numbers whose higher digits are the decided ones. Then one group picks the digit with which enough numbers are
 * chosen.
 *
 * BINS: the most values that a digit can have. choice[0]: the digits that are decided. choice[1]: how many numbers are
 * still to be chosen among those with these digits. At the end, choice[0] is the smallest chosen key, and choice[1]
 * tells how many numbers with that key are chosen: the first ones. */

#define KEY(number) (as_uint(number) & 0x7fffffffu)
#define KEYS(numbers) (CLQ_JOIN(as_uint, VEC)(numbers) & 0x7fffffffu)

#ifndef TILE
/* The sum of the values of all items. */
static uint group_total(local uint *shared, uint value) {
    int item = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (item < step) shared[item] += shared[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[0];
}

/* The sum of the values of the items before this one. *total: the sum of all values. shared: 2 * GROUP words. */
static uint sum_before(local uint *shared, uint value, uint *total) {
    int item = (int)get_local_id(0), at = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < GROUP; step *= 2, at ^= GROUP) {
        uint sum = shared[at + item] + (item >= step ? shared[at + item - step] : 0);
        shared[(at ^ GROUP) + item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *total = shared[at + GROUP - 1];
    return shared[at + item] - value;
}
#endif

/* The vectors of each group are consecutive: [BLOCK_BEGIN, BLOCK_END). */
#define GROUP_SHARE(vectors) (((size_t)(vectors) + get_num_groups(0) - 1) / get_num_groups(0))
#define BLOCK_BEGIN(vectors) min(get_group_id(0) * GROUP_SHARE(vectors), (size_t)(vectors))
#define BLOCK_END(vectors) min((get_group_id(0) + 1) * GROUP_SHARE(vectors), (size_t)(vectors))

/* counts (groups, BINS): how many numbers of each group, among those with the decided digits, have each value of the
 * next digit. mask: the bits of the decided digits. first: no digit is decided yet, and the gradient is added to the
 * error before the count. */
KERNEL void count_digits(global const float *gradient, global float *error, global const uint *choice,
                         global uint *counts, int vectors, int shift, int mask, int digits, int first,
                         local uint *shared) {
    const uint decided = first ? 0 : choice[0];
    global uint *mine = counts + get_group_id(0) * BINS;
#ifdef TILE
    for (int bin = 0; bin < BINS; bin++) mine[bin] = 0;
#define COUNT_DIGIT(key) mine[((key) >> shift) & (uint)digits]++
#else
    for (int bin = (int)get_local_id(0); bin < BINS; bin += GROUP) shared[bin] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#define COUNT_DIGIT(key) atomic_inc(&shared[((key) >> shift) & (uint)digits])
#endif
    FOR_MY (i, vectors) {
        floatv all = LOADV_ALIGNED(error + i * VEC);
        if (first) {
            all += LOADV_ALIGNED(gradient + i * VEC);
            STOREV_ALIGNED(all, error + i * VEC);
        }
        uintv keys = KEYS(all);
        if (!any((keys & (uint)mask) == decided)) continue;
        for (int k = 0; k < VEC; k++) {
            uint key = ((const uint *)&keys)[k];
            if ((key & (uint)mask) == decided) COUNT_DIGIT(key);
        }
    }
#ifndef TILE
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int bin = (int)get_local_id(0); bin < BINS; bin += GROUP) mine[bin] = shared[bin];
#endif
}

static uint column_total(global const uint *counts, int groups, int bin) {
    uint total = 0;
    for (int g = 0; g < groups; g++) total += counts[(size_t)g * BINS + bin];
    return total;
}

/* One work-group. chosen: how many numbers are to be chosen in all. first: the digit is the highest one. shared: BINS +
 * GROUP words. */
KERNEL void pick_digit(global const uint *counts, global uint *choice, int groups, int chosen, int shift, int first,
                       local uint *shared) {
#ifdef TILE
    uint left = first ? (uint)chosen : choice[1];
    int bin = BINS - 1;
    for (uint total; bin > 0 && (total = column_total(counts, groups, bin)) < left; bin--) left -= total;
#else
    enum { SHARE = BINS / GROUP };
    local uint *sums = shared + BINS;
    int item = (int)get_local_id(0);
    uint sum = 0;
    for (int b = item; b < BINS; b += GROUP) shared[b] = column_total(counts, groups, b);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int b = 0; b < SHARE; b++) sum += shared[item * SHARE + b];
    sums[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item > 0) return;
    uint left = first ? (uint)chosen : choice[1];
    int bin = BINS - 1;
    for (int i = GROUP - 1; i > 0 && sums[i] < left; i--, bin -= SHARE) left -= sums[i];
    for (; bin > 0 && shared[bin] < left; bin--) left -= shared[bin];
#endif
    choice[0] = (first ? 0 : choice[0]) | (uint)bin << shift;
    choice[1] = left;
}

/* found[group]: how many numbers of the group's block are above the smallest chosen key, and how many have that key. */
KERNEL void count_chosen(global const float *error, global const uint *choice, global uint2 *found, int vectors,
                         local uint *shared) {
    const uint least = choice[0];
    uint above = 0, equal = 0;
#ifdef TILE
    FOR_MY (i, vectors) {
        uintv keys = KEYS(LOADV_ALIGNED(error + i * VEC));
        if (!any(keys >= least)) continue;
        for (int k = 0; k < VEC; k++) {
            uint key = ((const uint *)&keys)[k];
            above += key > least;
            equal += key == least;
        }
    }
#else
    for (size_t i = BLOCK_BEGIN(vectors) * VEC + get_local_id(0); i < BLOCK_END(vectors) * VEC; i += GROUP) {
        uint key = KEY(error[i]);
        above += key > least;
        equal += key == least;
    }
    above = group_total(shared, above);
    equal = group_total(shared, equal);
    if (get_local_id(0) == 0)
#endif
    found[get_group_id(0)] = (uint2)(above, equal);
}

/* pairs (2, chosen): indices in rising order, then the bits of the numbers. Chosen numbers are set to 0 in the error,
 * and so are all numbers that are not finite. These have the largest keys, so some of them are chosen, and the step is
 * lost anyway; if the others stayed, they would spoil later steps. */
#define INFINITE 0x7f800000u
KERNEL void write_chosen(global float *error, global const uint *choice, global const uint2 *found, global uint *pairs,
                         int vectors, int chosen, local uint *shared) {
    const uint least = choice[0], ties = choice[1];
    uint above = 0, equal = 0;
#ifdef TILE
    for (size_t g = 0; g < get_group_id(0); g++) {
        above += found[g].x;
        equal += found[g].y;
    }
    FOR_MY (i, vectors) {
        uintv keys = KEYS(LOADV_ALIGNED(error + i * VEC));
        if (!any(keys >= min(least, INFINITE))) continue;
        for (int k = 0; k < VEC; k++) {
            uint key = ((const uint *)&keys)[k], at = above + min(equal, ties);
            bool is_equal = key == least;
            if (key > least || (is_equal && equal < ties)) {
                pairs[at] = (uint)(i * VEC + k);
                pairs[chosen + at] = as_uint(error[i * VEC + k]);
                error[i * VEC + k] = 0;
            } else if (key >= INFINITE) {
                error[i * VEC + k] = 0;
            }
            above += key > least;
            equal += is_equal;
        }
    }
#else
    const size_t item = get_local_id(0), end = BLOCK_END(vectors) * VEC;
    for (size_t g = item; g < get_group_id(0); g += GROUP) {
        above += found[g].x;
        equal += found[g].y;
    }
    above = group_total(shared, above);
    equal = group_total(shared, equal);
    for (size_t first = BLOCK_BEGIN(vectors) * VEC; first < end; first += GROUP) {
        const size_t i = first + item;
        uint bits = i < end ? as_uint(error[i]) : 0, key = bits & 0x7fffffffu, total;
        uint is_above = i < end && key > least, is_equal = i < end && key == least;
        uint before = sum_before(shared, is_above | is_equal << 16, &total);
        uint equal_before = equal + (before >> 16);
        if (is_above || (is_equal && equal_before < ties)) {
            const uint at = above + (before & 0xffffu) + min(equal_before, ties);
            pairs[at] = (uint)i;
            pairs[chosen + at] = bits;
            error[i] = 0;
        } else if (i < end && key >= INFINITE) {
            error[i] = 0;
        }
        above += total & 0xffffu;
        equal += total >> 16;
    }
#endif
}

/* How many of the indices are below `place`. */
static int places_before(global const uint *places, int count, uint place) {
    int low = 0;
    while (low < count) {
        int middle = low + (count - low) / 2;
        if (places[middle] < place)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* pairs (ranks, 2, chosen). Each group makes its block of the gradient: it begins with zeros, and adds the numbers of
 * one rank after another. */
KERNEL void add_pairs(global const uint *pairs, global float *gradient, int vectors, int chosen, int ranks) {
    const size_t begin = BLOCK_BEGIN(vectors), end = BLOCK_END(vectors);
#ifdef TILE
    const int item = 0, items = 1;
#define MEET_IN_GROUP
#else
    const int item = (int)get_local_id(0), items = GROUP;
#define MEET_IN_GROUP barrier(CLK_GLOBAL_MEM_FENCE)
#endif
    for (size_t i = begin + item; i < end; i += items) STOREV_ALIGNED((floatv)0, gradient + i * VEC);
    for (int r = 0; r < ranks; r++) {
        global const uint *places = pairs + (size_t)r * 2 * chosen, *bits = places + chosen;
        MEET_IN_GROUP;
        for (int j = places_before(places, chosen, (uint)(begin * VEC)) + item;
             j < chosen && places[j] < (uint)(end * VEC); j += items)
            gradient[places[j]] += as_float(bits[j]);
    }
}
