/* Adds a chunk that came from another rank: to = from + received, `count` floats at element offsets of any alignment.
 * `to` and `from` may be the same memory. One addition per element: the same bits on every device. */

#ifdef TILE /* few work-items, each with one stretch */
#define WIDTH 16
#define VLOAD vload16
#define VSTORE vstore16
#else /* many, neighbours take neighbouring vectors */
#define WIDTH 4
#define VLOAD vload4
#define VSTORE vstore4
#endif

kernel void comm_add(global float *to_memory, ulong to_at, global const float *from_memory, ulong from_at,
                     global const float *received_memory, ulong received_at, ulong count) {
    global float *to = to_memory + to_at;
    global const float *from = from_memory + from_at;
    global const float *received = received_memory + received_at;
    ulong item = get_global_id(0), items = get_global_size(0), vectors = count / WIDTH;
#ifdef TILE
    ulong share = (vectors + items - 1) / items;
    ulong first = min(vectors, item * share), last = min(vectors, first + share), stride = 1;
#else
    ulong first = item, last = vectors, stride = items;
#endif
    for (ulong i = first; i < last; i += stride) VSTORE(VLOAD(i, from) + VLOAD(i, received), i, to);
    for (ulong i = vectors * WIDTH + item; i < count; i += items) to[i] = from[i] + received[i];
}
