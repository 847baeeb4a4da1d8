/* 3x3 convolutions with a stride and a dilation of 1 by Winograd's F(2x2, 3x3), for devices with work-groups and local
 * memory (Lavin and Gray, CVPR 2016). The mathematics, and the signs of the transforms, are those of winograd_2x2.cl.
 *
 * A work-group of 16 x GM x GN items makes BM tiles of 2x2 outputs in BN channels, from transform to output. GM x GN
 * items make each of the 16 products. An item's share of a product is in squares of 4 x 4, as in product_local.cl. The
 * work-group takes BK channels of the input at a time, through two buffers in local memory: while one buffer is
 * multiplied, the next numbers are loaded from global memory. Half of the items load inputs, each the 4x4 of one tile
 * in one channel, and transform them. The other half load weights. So each item needs 16 registers for loaded numbers,
 * instead of 32.
 *
 * The input is (IN_H, IN_W, IN_C), the output (OUT_H, OUT_W, COLUMNS), with any number of channels. The last of the
 * TILES_H x TILES_W tiles may reach beyond the output. Transformed weights are (blocks of BN columns, steps of BK
 * channels, 16 products, BK, BN), with zeros after the last column and channel. So the weights of a step lie as they do
 * in local memory. */
#define TAKEN (BK * BN)
#define STEPS ((IN_C + BK - 1) / BK)
#define ITEMS (16 * GM * GN)

#ifdef WEIGHTS

/* Transforms weights (3, 3, IN_C, COLUMNS), or, if TRANSPOSED, (3, 3, COLUMNS, IN_C) with the taps in reverse order.
 * Global size: (columns in whole blocks, channels in whole steps). */
kernel void winograd_local_weights(global const float *restrict w, global float *restrict to) {
    int column = (int)get_global_id(0), channel = (int)get_global_id(1);
    bool there = column < COLUMNS && channel < IN_C;
    float g[9], u[4][3];
    UNROLL for (int tap = 0; tap < 9; tap++) {
#ifdef TRANSPOSED
        size_t at = ((size_t)(8 - tap) * COLUMNS + column) * IN_C + channel;
#else
        size_t at = ((size_t)tap * IN_C + channel) * COLUMNS + column;
#endif
        g[tap] = there ? w[at] : 0.0f;
    }
    UNROLL for (int x = 0; x < 3; x++) {
        float sum = g[x] + g[6 + x];
        u[0][x] = g[x];
        u[1][x] = 0.5f * (sum + g[3 + x]);
        u[2][x] = 0.5f * (sum - g[3 + x]);
        u[3][x] = g[6 + x];
    }
    to += ((size_t)(column / BN) * STEPS + channel / BK) * 16 * TAKEN + channel % BK * BN + column % BN;
    UNROLL for (int y = 0; y < 4; y++) {
        float sum = u[y][0] + u[y][2];
        to[(4 * y) * TAKEN] = u[y][0];
        to[(4 * y + 1) * TAKEN] = 0.5f * (sum + u[y][1]);
        to[(4 * y + 2) * TAKEN] = 0.5f * (sum - u[y][1]);
        to[(4 * y + 3) * TAKEN] = u[y][2];
    }
}

#else

#define TM (BM / GM)
#define TN (BN / GN)
#define TILES (TILES_H * TILES_W)
/* HALF: how many items load inputs, one for each tile and channel of a step. As many items load weights. */
#define HALF (BM * BK)
#define W_LOADS (16 * TAKEN / 4 / HALF)
/* The floats of one of the two buffers: of its inputs, and of inputs and weights. */
#define V_FLOATS (16 * BK * BM)
#define BUFFER (V_FLOATS + 16 * TAKEN)

/* Arrays stay in registers if loops over them are unrolled. CPUs have no use for that, and PoCL takes long to compile
 * it. */
#ifdef ROLLED
#define UNROLL_LOADS _Pragma("nounroll")
#else
#define UNROLL_LOADS UNROLL
#endif

/* The place of tile t of channel k in a row of BM. Neighbouring items store BK channels of some tiles, and these places
 * lie in as many of the 32 banks as there are items. Whole float4s change places. */
#define PLACE_OF(t, k) ((t) ^ ((k)*BM / 32 * 8))

/* What an item loads, and its place in a buffer. */
typedef struct load {
    global const float *from;
    int place;
    bool weights;
    uint inside; /* inputs: a bit for each of the 4x4, set if it lies inside the image */
    int channel; /* inputs: the channel within the step */
} load;

ALWAYS_INLINE load load_of(global const float *x, global const float *u, int item, int m0, int tiles) {
    if (item >= HALF) return (load){u + (item - HALF) * 4, V_FLOATS + (item - HALF) * 4, true, 0, 0};
    int tile = min(m0 + item / BK, tiles - 1), channel = item % BK, image = tile / TILES;
    int top = tile / TILES_W % TILES_H * 2 - PAD_TOP, left = tile % TILES_W * 2 - PAD_LEFT;
    uint inside = 0;
    UNROLL for (int i = 0; i < 16; i++) {
        int down = top + i / 4, right = left + i % 4;
        inside |= (uint)(down >= 0 && down < IN_H && right >= 0 && right < IN_W) << i;
    }
    global const float *from = x + (size_t)image * (IN_H * IN_W * IN_C) + ((top * IN_W + left) * IN_C + channel);
    return (load){from, channel * BM + PLACE_OF(item / BK, channel), false, inside, channel};
}

/* Loads the numbers of one step into registers. */
ALWAYS_INLINE void take(load l, int step, float way[16]) {
    if (l.weights) {
        global const float *from = l.from + (size_t)step * (16 * TAKEN);
        UNROLL_LOADS for (int i = 0; i < W_LOADS; i++) {
            float4 v = *(global const float4 *)(from + i * (HALF * 4));
            way[4 * i] = v.x;
            way[4 * i + 1] = v.y;
            way[4 * i + 2] = v.z;
            way[4 * i + 3] = v.w;
        }
    } else {
        global const float *from = l.from + step * BK;
        uint inside = IN_C % BK == 0 || step * BK + l.channel < IN_C ? l.inside : 0;
        UNROLL_LOADS for (int i = 0; i < 16; i++) {
            way[i] = 0;
            if (inside >> i & 1) way[i] = from[(i / 4 * IN_W + i % 4) * IN_C];
        }
    }
}

/* d = B^T d, for 4 numbers that are `step` apart. */
ALWAYS_INLINE void transform(float *d, int step) {
    float a = d[0], b = d[step], c = d[2 * step];
    d[0] = a - c;
    d[step] = b + c;
    d[2 * step] = c - b;
    d[3 * step] -= b;
}

ALWAYS_INLINE void put(local float *to, load l, float way[16]) {
    to += l.place;
    if (l.weights) {
        UNROLL_LOADS for (int i = 0; i < W_LOADS; i++) * (local float4 *)(to + i * (HALF * 4)) =
            (float4)(way[4 * i], way[4 * i + 1], way[4 * i + 2], way[4 * i + 3]);
    } else {
        UNROLL_LOADS for (int x = 0; x < 4; x++) transform(way + x, 4);
        UNROLL_LOADS for (int y = 0; y < 4; y++) transform(way + 4 * y, 1);
        UNROLL_LOADS for (int i = 0; i < 16; i++) to[i * (BK * BM)] = way[i];
    }
}

/* Which of the 16 products an item has, and which of the squares in it. */
typedef struct share {
    int product, lx, ly;
} share;

/* acc += the product of the inputs and weights in a buffer. Unrolled, the loop would take more than 128 registers. */
ALWAYS_INLINE void multiply(const local float *buffer, share s, float4 acc[TM][TN / 4]) {
    const local float *v_part = buffer + s.product * (BK * BM);
    const local float *u_part = buffer + V_FLOATS + s.product * TAKEN + s.lx * 4;
    _Pragma("nounroll") for (int k = 0; k < BK; k++) {
        float4 v[TM / 4], u[TN / 4];
        UNROLL for (int r = 0; r < TM / 4; r++) v[r] =
            *(const local float4 *)(v_part + k * BM + PLACE_OF((r * GM + s.ly) * 4, k));
        UNROLL for (int q = 0; q < TN / 4; q++) u[q] = *(const local float4 *)(u_part + k * BN + q * (GN * 4));
        UNROLL for (int r = 0; r < TM / 4; r++) {
            UNROLL for (int q = 0; q < TN / 4; q++) {
                acc[4 * r][q] += v[r].x * u[q];
                acc[4 * r + 1][q] += v[r].y * u[q];
                acc[4 * r + 2][q] += v[r].z * u[q];
                acc[4 * r + 3][q] += v[r].w * u[q];
            }
        }
    }
}

/* Makes the 2x2 outputs of a tile in one channel, from its sums at m. They are added to what is there, unless `first`.
 * If `last`, the sums are complete, and get bias and activation. */
ALWAYS_INLINE void output(const local float *m, global float *y, global const float *bias, int tile, int column,
                          bool first, bool last) {
    int image = tile / TILES, top = tile / TILES_W % TILES_H * 2, left = tile % TILES_W * 2;
    float t[2][4];
    UNROLL for (int j = 0; j < 4; j++) {
        float a = m[j * (4 * GM * BN)], b = m[(4 + j) * (4 * GM * BN)], c = m[(8 + j) * (4 * GM * BN)];
        t[0][j] = a + (b + c);
        t[1][j] = (b - c) + m[(12 + j) * (4 * GM * BN)];
    }
    float add = 0;
#ifdef BIAS
    if (last) add = bias[column];
#endif
    y += (((size_t)image * OUT_H + top) * OUT_W + left) * COLUMNS + column;
    UNROLL for (int i = 0; i < 4; i++) {
        const float *row = t[i / 2];
        float z = i % 2 == 0 ? row[0] + (row[1] + row[2]) : (row[1] - row[2]) + row[3];
        if (top + i / 2 >= OUT_H || left + i % 2 >= OUT_W) continue;
        global float *to = y + (i / 2 * OUT_W + i % 2) * COLUMNS;
        if (!first) z += *to;
        z += add;
        *to = last ? ACTIVATE(float, z) : z;
    }
}

/* Makes the work-group's outputs from all its sums, which pass through local memory, 4 * GM tiles at a time. An item
 * makes one output tile after another: side by side, they would take more than 128 registers. acc is zero
 * afterwards. */
ALWAYS_INLINE void settle(local float *part, global float *y, global const float *bias, share s, int count, bool first,
                          bool last, float4 acc[TM][TN / 4]) {
    int m0 = (int)get_group_id(1) * BM, n0 = (int)get_group_id(0) * BN, tiles = count * TILES;
    UNROLL for (int r = 0; r < TM / 4; r++) {
        UNROLL for (int i = 0; i < 4; i++) UNROLL for (int q = 0; q < TN / 4; q++) {
            int tile = s.ly * 4 + i, column = (q * GN + s.lx) * 4;
            *(local float4 *)(part + (s.product * (4 * GM) + tile) * BN + column) = acc[4 * r + i][q];
            acc[4 * r + i][q] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("nounroll") for (int q = 0; q < TN / 4; q++) {
            int at = q * ITEMS + (int)get_local_id(0), tile = at / BN, column = at % BN;
            if (m0 + r * 4 * GM + tile < tiles && n0 + column < COLUMNS)
                output(part + tile * BN + column, y, bias, m0 + r * 4 * GM + tile, n0 + column, first, last);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Work-groups: (blocks of BN columns, blocks of BM tiles). Sums are added to the output every SUM steps, an even
 * number, so that rounding does not grow with their length: registers have no room for a second sum. Tiles after the
 * last repeat it, and are not stored. */
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winograd_local(global const float *restrict x,
                                                                              global const float *restrict u,
                                                                              global const float *restrict bias,
                                                                              global float *restrict y, int count) {
    local float part[2 * BUFFER] __attribute__((aligned(16)));
    int item = (int)get_local_id(0);
    share s = {item / (GM * GN), item % GN, item / GN % GM};
    load l =
        load_of(x, u + get_group_id(0) * ((size_t)STEPS * 16 * TAKEN), item, (int)get_group_id(1) * BM, count * TILES);
    float4 acc[TM][TN / 4];
    float way[16];
    UNROLL for (int i = 0; i < TM * TN / 4; i++) acc[i / (TN / 4)][i % (TN / 4)] = 0;
    for (int step = 0; step < STEPS;) {
        bool first = step == 0, more;
        take(l, step, way);
        put(part, l, way);
        barrier(CLK_LOCAL_MEM_FENCE);
        do {
            const local float *now = part + step % 2 * BUFFER;
            step++;
            more = step % SUM != 0 && step < STEPS;
            if (more) take(l, step, way);
            multiply(now, s, acc);
            if (more) put(part + step % 2 * BUFFER, l, way);
            barrier(CLK_LOCAL_MEM_FENCE);
        } while (more);
        settle(part, y, bias, s, count, first, step == STEPS, acc);
    }
}

#endif
