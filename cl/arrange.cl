/* Copies numbers of x to other places in y: padding, slices with steps, transposes. An axis of y has `out` places.
 * Place p takes its number from place (first + p * step) / spread of an axis of x, which has `in` places, `pitch`
 * numbers apart. If the quotient is not whole, or lies outside of that axis, the number is 0. AXES: how many axes y has
 * besides the last one. RUN: the last axis of y reads neighbouring numbers of x (step, spread and pitch are 1).
 * X_STORAGE and Y_STORAGE: how the numbers are stored (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;

#define AXIS_PARAMETER(d) , int out##d, int in##d, int pitch##d, int first##d, int step##d, int spread##d
#define AXES_0(DO)
#define AXES_1(DO) DO(0)
#define AXES_2(DO) AXES_1(DO) DO(1)
#define AXES_3(DO) AXES_2(DO) DO(2)
#define AXES_4(DO) AXES_3(DO) DO(3)
#define AXES_5(DO) AXES_4(DO) DO(4)
#define FOR_AXES(DO) CLQ_JOIN(AXES_, AXES)(DO)
#define BACK_0(DO)
#define BACK_1(DO) DO(0)
#define BACK_2(DO) DO(1) BACK_1(DO)
#define BACK_3(DO) DO(2) BACK_2(DO)
#define BACK_4(DO) DO(3) BACK_3(DO)
#define BACK_5(DO) DO(4) BACK_4(DO)

#define FOR_AXES_BACK(DO) CLQ_JOIN(BACK_, AXES)(DO)

/* The place of x that place p of y takes its number from; -1: there is none. */
ALWAYS_INLINE int place_of(int p, int in, int first, int step, int spread) {
    const int at = first + p * step;
    if (at < 0 || at % spread) return -1;
    return at / spread < in ? at / spread : -1;
}

/* Takes the index along axis d out of the row number `rest`, and adds the offset of its place in x to `from`. If x has
 * no such place, `found` becomes false, and the whole row is 0. */
#define FIND(d)                                                                                                        \
    {                                                                                                                  \
        const int at = place_of((int)(rest % out##d), in##d, first##d, step##d, spread##d);                            \
        rest /= out##d;                                                                                                \
        found = found && at >= 0;                                                                                      \
        from += (size_t)max(at, 0) * pitch##d;                                                                         \
    }

/* rows: the rows of y in each sample; x_elements: the elements of x in each sample. */
KERNEL void arrange(global const x_number *x, global y_number *y, int count, int rows, int x_elements, int out, int in,
                    int pitch, int first, int step, int spread FOR_AXES(AXIS_PARAMETER)) {
#ifdef TILE
    FOR_MY (row, (size_t)count * rows) {
        size_t rest = row % rows;
        size_t from = row / rows * x_elements;
        bool found = true;
        FOR_AXES_BACK(FIND)
        global const x_number *source = x + from;
        global y_number *target = y + row * out;
#ifdef RUN
        /* Numbers [begin, end) of the row come from x; the others are 0. */
        const int begin = found ? clamp(-first, 0, out) : out, end = found ? clamp(in - first, begin, out) : out;
        int p = 0;
        for (; p + VEC <= begin; p += VEC) WRITE_V(Y_STORAGE, (floatv)0, target + p);
        for (; p < begin; p++) WRITE(Y_STORAGE, 0.0f, target + p);
        for (; p + VEC <= end; p += VEC) WRITE_V(Y_STORAGE, READ_V(X_STORAGE, source + first + p), target + p);
        for (; p < end; p++) WRITE(Y_STORAGE, READ(X_STORAGE, source + first + p), target + p);
        for (; p + VEC <= out; p += VEC) WRITE_V(Y_STORAGE, (floatv)0, target + p);
        for (; p < out; p++) WRITE(Y_STORAGE, 0.0f, target + p);
#else
        for (int p = 0; p < out; p++) {
            const int at = found ? place_of(p, in, first, step, spread) : -1;
            const float number = at < 0 ? 0.0f : READ(X_STORAGE, source + (size_t)at * pitch);
            WRITE(Y_STORAGE, number, target + p);
        }
#endif
    }
#else
    FOR_MY (i, (size_t)count * rows * out) {
        const size_t row = i / out;
        size_t rest = row % rows;
        size_t from = row / rows * x_elements;
        bool found = true;
        FOR_AXES_BACK(FIND)
        const int at = place_of((int)(i - row * out), in, first, step, spread);
        float number = 0;
        if (found && at >= 0) number = READ(X_STORAGE, x + from + (size_t)at * pitch);
        WRITE(Y_STORAGE, number, y + i);
    }
#endif
}
