/* What updates know of the blocks of the arenas: the variable of each block (clq_blocks), whether the block decays, and
 * whether an optimizer with a trust ratio updates it. */
#include "graph/plan.h"

#include <string.h>

_Static_assert(CLQ_VARIABLE_ALIGN == CLQ_UPDATE_BLOCK * sizeof(float), "a variable is whole blocks");

enum { ENTRY = 4 }; /* numbers of a row of the table */

/* The range of the arenas that a table is about, and what is made of it. */
typedef struct making {
    const clq_weights *weights;
    size_t begin, end;                /* bytes of the arenas */
    int32_t *table, *of_trust_ratios; /* of_trust_ratios NULL: no optimizer has one */
    size_t entries;
    float *decays; /* NULL: all decay */
} making;

static size_t block_of(const making *m, size_t at) {
    return (CLQ_MIN(CLQ_MAX(at, m->begin), m->end) - m->begin) / CLQ_VARIABLE_ALIGN;
}

static void add_entry(making *m, int32_t variable, size_t first, size_t behind, bool counts) {
    const int32_t row[ENTRY] = {variable, (int32_t)first, (int32_t)behind, counts};
    memcpy(m->table + ENTRY * m->entries, row, sizeof row);
    const bool left_out = variable >= 0 && !clq_weights_have_trust_ratio(m->weights, (uint32_t)variable);
    const int32_t none[ENTRY] = {variable};
    if (m->of_trust_ratios) memcpy(m->of_trust_ratios + ENTRY * m->entries, left_out ? none : row, sizeof row);
    m->entries++;
}

/* Where a variable's bytes and the gap behind them end. 0: the variable is state, or another stage has it. */
static size_t end_of(const clq_weights *weights, uint32_t index) {
    const size_t offset = weights->offsets[index];
    if (weights->model->variables[index].role != CLQ_ROLE_TRAINABLE || offset == CLQ_NO_OFFSET) return 0;
    return offset + clq_round_up(clq_weights_variable_bytes(weights, index), (size_t)CLQ_VARIABLE_ALIGN);
}

static void add_variable(making *m, uint32_t index) {
    const clq_weights *weights = m->weights;
    const clq_variable *variable = &weights->model->variables[index];
    const size_t end = end_of(weights, index), first = end ? block_of(m, weights->offsets[index]) : 0,
                 behind = block_of(m, end);
    if (variable->role != CLQ_ROLE_TRAINABLE) return;
    add_entry(m, (int32_t)index, first, CLQ_MAX(first, behind),
              weights->measures_whole || clq_weight_slice_is_part(&weights->slices[index], variable));
    for (size_t i = first; m->decays && i < behind; i++) m->decays[i] = weights->treatments[index].spared ? 0.0f : 1.0f;
}

/* If the arena was padded, adds the gap behind the last variable. */
static void add_gap(making *m) {
    size_t used = 0;
    for (uint32_t i = 0; i < m->weights->model->variable_count; i++) used = CLQ_MAX(used, end_of(m->weights, i));
    const size_t first = block_of(m, used), behind = block_of(m, m->end);
    if (first < behind) add_entry(m, -1, first, behind, false);
}

static clq_status keep(const clq_weights *weights, const char *what, const void *from, size_t bytes, clq_buffer **out) {
    CLQ_TRY(clq_buffer_create(weights->device, CLQ_MEMORY_DEVICE, bytes, what, out));
    return clq_buffer_set(weights->device, *out, from, bytes);
}

clq_status clq_block_table_create(const clq_weights *weights, size_t begin, size_t end, clq_block_table *out) {
    const uint32_t variables = weights->model->variable_count;
    const size_t count = (end - begin) / CLQ_VARIABLE_ALIGN;
    making m = {.weights = weights, .begin = begin, .end = end};
    m.table = clq_alloc(ENTRY * ((size_t)variables + 1), sizeof *m.table);
    if (weights->spares) m.decays = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *m.decays);
    if (weights->trust_ratios)
        m.of_trust_ratios = clq_alloc(ENTRY * ((size_t)variables + 1), sizeof *m.of_trust_ratios);
    const bool all = m.table && (m.decays || !weights->spares) && (m.of_trust_ratios || !weights->trust_ratios);
    clq_status status = all ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < variables && status == CLQ_OK; i++) add_variable(&m, i);
    if (status == CLQ_OK) add_gap(&m);
    *out = (clq_block_table){.entries = m.entries, .count = count};
    if (status == CLQ_OK)
        status = keep(weights, "table of blocks", m.table, ENTRY * m.entries * sizeof *m.table, &out->table);
    if (status == CLQ_OK && m.decays)
        status = keep(weights, "blocks that decay", m.decays, count * sizeof *m.decays, &out->decays);
    if (status == CLQ_OK && m.of_trust_ratios)
        status = keep(weights, "table of blocks", m.of_trust_ratios, ENTRY * m.entries * sizeof *m.of_trust_ratios,
                      &out->of_trust_ratios);
    clq_free(m.table);
    clq_free(m.of_trust_ratios);
    clq_free(m.decays);
    return status;
}

void clq_block_table_release(clq_block_table *table) {
    clq_buffer_destroy(table->table);
    clq_buffer_destroy(table->decays);
    clq_buffer_destroy(table->of_trust_ratios);
    *table = (clq_block_table){0};
}
