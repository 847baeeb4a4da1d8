/* The bound is kept by looking ahead: a read, or an update, is allowed only if all gradients that are then under way
 * can still be applied within the bound. If any order of their updates keeps the bound, the order of their age keeps
 * it. In that order, the i-th oldest gradient, from 0, is applied after i updates, so its staleness is version + i -
 * read. The oldest gradient may always be applied, and all replicas that the bound stops wait for it. So none of them
 * waits forever. */
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
