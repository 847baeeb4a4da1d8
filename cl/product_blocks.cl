#include "product_tiles.cl"
/* Matrix products in blocks that fit a cache. Either operand may be transposed. ADDS: C = factor * (C + sums), or, if
 * `factor` is 0, C = sums. */

/* One work-item makes a block of block_rows x block_columns of C. It takes block_terms terms at a time, at most KC.
 * A_PACKED: it packs that part of A, MC rows of KC terms, into private memory, which stays in its core's cache. PANELS:
 * product_panels has packed B into panels of NR vectors, over all terms, for all work-items; else each work-item packs
 * them for itself. B_TRANSPOSED: B lies as (columns, terms). A_TRANSPOSED: A lies as (terms, rows). Packing also pads,
 * so the inner loops do not test for edges. */
#ifdef A_TRANSPOSED
#define ROWS depth
#define TERMS (count * rows_each)
#define A_NEXT A_STRIDE
#define A_TERM(i) a_[i]
/* The stride is no power of two: lines that are a power of two apart would share few sets of the cache. */
#define A_STRIDE ((MC + VEC - 1) / VEC * VEC + VEC)
#define A_VECTORS (KC * A_STRIDE / VEC)
#else
#define ROWS (count * rows_each)
#define TERMS depth
#define A_NEXT 1
#ifdef A_PACKED
#define A_TERM(i) a_[(i)*KC]
#define A_VECTORS (KC * MC / VEC)
#else
#define A_TERM(i) a_[(size_t)(i)*depth]
#endif
#endif
#ifdef PANELS
#define PANEL_SPACE global
#else
#define PANEL_SPACE private
#endif

/* Packs a vector of columns of B, terms [first, first + part), into every NR-th vector from `to` on. Columns after the
 * last are 0. */
ALWAYS_INLINE void pack_column(PANEL_SPACE floatv *to, global const b_number *b, int column, int columns, int first,
                               int part, int terms) {
#ifdef B_TRANSPOSED
    global const b_number *end = b + (size_t)columns * terms;
    for (int k = 0; k < part; k += VEC, to += VEC * NR) {
        global const b_number *from = b + (size_t)column * terms + first + k;
        floatv square[VEC];
        if (column + VEC <= columns && from + (size_t)(VEC - 1) * terms + VEC <= end) {
            UNROLL for (int l = 0; l < VEC; l++) square[l] = READ_V(B_STORAGE, from + (size_t)l * terms);
        } else {
            floatv edge[VEC];
            for (int l = 0; l < VEC; l++)
                edge[l] = column + l < columns ? READ_V_UNTIL(B_STORAGE, from + (size_t)l * terms, end) : (floatv)0;
            UNROLL for (int l = 0; l < VEC; l++) square[l] = edge[l];
        }
        floatv_transpose(square);
        UNROLL for (int l = 0; l < VEC; l++) if (k + l < part) to[l * NR] = square[l];
    }
#else
    b += (size_t)first * columns;
    if (column + VEC <= columns) {
        for (int k = 0; k < part; k++) to[k * NR] = READ_V(B_STORAGE, b + (size_t)k * columns + column);
    } else {
        for (int k = 0; k < part; k++, b += columns) to[k * NR] = READ_V_UNTIL(B_STORAGE, b + column, b + columns);
    }
#endif
}

#ifdef PANELS
/* Global size: (blocks of KC terms, panels). */
TILE_KERNEL void product_panels(global const b_number *b, global float *to, int count, int rows_each, int depth,
                                int columns) {
    int terms = TERMS, first = (int)get_global_id(0) * KC, panel = (int)get_global_id(1);
    global floatv *panels = (global floatv *)to + ((size_t)panel * terms + first) * NR;
    for (int j = 0; j < NR; j++)
        pack_column(panels + j, b, panel * WIDTH + j * VEC, columns, first, min(KC, terms - first), terms);
}
#endif

#ifdef A_PACKED
/* Packs terms [first, first + part) of the rows from `row` on: one row after another, or, if A is transposed, one term
 * after another. What follows the last row is of no use. */
ALWAYS_INLINE void pack_a(float *packed, global const a_number *a, int first, int part, int row, int rows, int terms) {
    global const a_number *end = a + (size_t)rows * terms;
#ifdef A_TRANSPOSED
    for (int k = 0; k < part; k++, packed += A_STRIDE) {
        global const a_number *from = a + (size_t)(first + k) * rows + row;
        for (int i = 0; i < MC && row + i < rows; i += VEC)
            *(floatv *)(packed + i) = READ_V_UNTIL(A_STORAGE, from + i, end);
    }
#else
    for (int i = 0; i < MC && row + i / MR * MR < rows; i++, packed += KC) {
        global const a_number *from = a + (size_t)min(row + i, rows - 1) * terms + first;
        int k = 0;
        for (; k + VEC <= part; k += VEC) *(floatv *)(packed + k) = READ_V(A_STORAGE, from + k);
        if (k < part) *(floatv *)(packed + k) = READ_V_UNTIL(A_STORAGE, from + k, end);
    }
#endif
}
#endif

/* Prefetches a tile of C while its terms are summed. */
#define PREFETCH_C(c)                                                                                                  \
    for (int l_ = 0; l_ < MR; l_++)                                                                                    \
        for (int v_ = 0; v_ < NR; v_++) FETCH_TO_WRITE((c) + (size_t)l_ * columns + v_ * VEC)

/* While a tile of C waits for more terms, it lies in C itself. If C would round it to 16 bits, it lies in `sums` as
 * floats. */
STORE(store_sums, 0)

/* Whether a tile of C already has sums, from an earlier block of terms or from before this product. */
#ifdef ADDS
#define BEGUN (first > 0 || factor != 0)
#else
#define BEGUN (first > 0)
#endif

ALWAYS_INLINE void add_begun(floatv acc[MR][NR], int until, int column, int columns, global const float *c) {
    UNROLL for (int i = 0; i < MR; i++) {
        if (i >= until) continue;
        global const float *row = c + (size_t)i * columns;
        UNROLL for (int j = 0; j < NR; j++) acc[i][j] += READ_V_UNTIL(0, row + column + j * VEC, row + columns);
    }
}

/* Stores a tile that waits for more terms. Rows before `from` belong to the tile above, which stores them. */
ALWAYS_INLINE void leave_begun(floatv acc[MR][NR], int from, int until, int column, int columns, global float *c) {
    UNROLL for (int i = 0; i < MR; i++) {
        if (i < from || i >= until) continue;
        global float *row = c + (size_t)i * columns;
        UNROLL for (int j = 0; j < NR; j++) store_sums(row, column + j * VEC, columns, acc[i][j]);
    }
}

/* The memory of sums that later terms are added to: C itself, or the floats beside it if C has 16 bits. */
#if C_STORAGE
#define BEGUN_SUMS sums
#else
#define BEGUN_SUMS c
#endif

/* Global size: (blocks of block_rows, blocks of block_columns). */
TILE_KERNEL void product_blocks(global const a_number *a,
#ifdef PANELS
                                global const float *b,
#else
                                global const b_number *b,
#endif
                                global const float *bias, global c_number *c,
#if C_STORAGE
                                global float *sums,
#endif
                                int count, float factor, int rows_each, int depth, int columns, int block_rows,
                                int block_columns, int block_terms) {
    int rows = ROWS, terms = TERMS;
    int row = (int)get_global_id(0) * block_rows, column = (int)get_global_id(1) * block_columns;
    int row_end = min(row + block_rows, rows), column_end = min(column + block_columns, columns);
#ifdef A_PACKED
    floatv a_vectors[A_VECTORS];
    float *packed = (float *)a_vectors;
#endif
#ifndef PANELS
    floatv own[KC * NR];
#endif
    for (int first = 0; first == 0 || first < terms; first += block_terms) {
        int part = min(block_terms, terms - first);
#ifdef A_PACKED
        pack_a(packed, a, first, part, row, rows, terms);
#endif
        for (int j = column; j < column_end; j += WIDTH) {
#ifdef PANELS
            global const floatv *panel = (global const floatv *)b + ((size_t)(j / WIDTH) * terms + first) * NR;
#else
            floatv *panel = own;
            for (int v = 0; v < NR; v++) pack_column(panel + v, b, j + v * VEC, columns, first, part, terms);
#endif
            for (int i = row; i < row_end; i += MR) {
#ifdef A_PACKED
                int start = i;
#ifdef A_TRANSPOSED
                const float *a_ = packed + (i - row);
#else
                const float *a_ = packed + (i - row) * KC;
#endif
#else
                int start = max(min(i, rows - MR), 0);
                global const float *a_ = a + (size_t)start * depth + first; /* not 16 bits: those are packed */
#endif
                PANEL_SPACE const floatv *b_ = panel;
                floatv acc[MR][NR];
                CLEAR(acc);
                global c_number *to = c + (size_t)start * columns;
                global float *begun = BEGUN_SUMS + (size_t)start * columns;
                if (BEGUN && i + MR <= row_end) PREFETCH_C(begun + j);
                for (int k = 0; k < part; k++, a_ += A_NEXT, b_ += NR) {
                    UNROLL for (int l = 0; l < MR; l++) {
                        floatv value = (floatv)(A_TERM(l));
                        UNROLL for (int v = 0; v < NR; v++) acc[l][v] += value * b_[v];
                    }
                }
                if (BEGUN) add_begun(acc, rows - start, j, columns, begun);
#ifdef ADDS
                if (factor != 0 && first + block_terms >= terms)
                    UNROLL for (int l = 0; l < MR; l++) UNROLL for (int v = 0; v < NR; v++) acc[l][v] *= factor;
#endif
                if (first + block_terms >= terms)
                    finish(acc, i - start, rows - start, j, columns, bias, to, columns);
                else
                    leave_begun(acc, i - start, rows - start, j, columns, begun);
            }
        }
    }
}
