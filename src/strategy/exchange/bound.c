/* The bound is kept by looking ahead. All gradients under way can be applied within the bound if they can be in the
 * order of their age. In that order the i-th oldest, from 0, is applied after i updates, so with a staleness of version
 * + i - read. A read, or an update, is allowed if that still holds afterwards. So the oldest may always be applied, and
 * no replica waits forever: those that the bound makes wait, wait for the oldest. */
#include "strategy/exchange/bound.h"

bool clq_bound_may_apply(const clq_bound *bound, uint64_t version, unsigned place) {
    const clq_under_way *all = bound->places;
    for (unsigned s = 0; s < bound->count; s++) {
        uint64_t older = 0;
        if (s == place || !all[s].is) continue;
        for (unsigned t = 0; t < bound->count; t++)
            if (t != place && t != s && all[t].is &&
                (all[t].read < all[s].read || (all[t].read == all[s].read && t < s)))
                older++;
        if (version + 1 + older > all[s].read + bound->most) return false;
    }
    return true;
}

bool clq_bound_may_read(const clq_bound *bound) {
    uint64_t under_way = 0;
    for (unsigned s = 0; s < bound->count; s++) under_way += bound->places[s].is;
    return under_way <= bound->most;
}

unsigned clq_bound_oldest(const clq_bound *bound) {
    const clq_under_way *all = bound->places;
    unsigned found = 0;
    for (unsigned s = 1; s < bound->count; s++)
        if (all[s].is && (!all[found].is || all[s].read < all[found].read)) found = s;
    return found;
}
