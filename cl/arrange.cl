/* Values taken from other places of a value: padding, slices with steps, transposes. Axis d of y has OUT places; place
 * p of it takes place (first + p * step) / spread of an axis of x with `in` places, `pitch` numbers apart, if that is
 * whole and there is one, else 0. AXES: of all axes but the last one. With -DRUN the last one goes along neighbours of
 * x. X_STORAGE and Y_STORAGE: how the numbers are stored (prelude.cl). */
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

/* The place of x that place p takes; -1: none. */
ALWAYS_INLINE int place_of(int p, int in, int first, int step, int spread) {
    const int at = first + p * step;
    if (at < 0 || at % spread) return -1;
    return at / spread < in ? at / spread : -1;
}

/* Where a row of y begins in x, of which `rest` is the number; false: nothing of x is in it. */
#define FIND(d)                                                                                                        \
    {                                                                                                                  \
        const int at = place_of((int)(rest % out##d), in##d, first##d, step##d, spread##d);                            \
        rest /= out##d;                                                                                                \
        found = found && at >= 0;                                                                                      \
        from += (size_t)max(at, 0) * pitch##d;                                                                         \
    }

/* rows: of y, for each sample; x_elements: of x. */
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
        /* [begin, end) of y are in x. */
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
