/* The highest rate at which a device multiplies and adds. */
#include "device/device.h"

#include <math.h>

enum { PEAK_LAUNCHES = 5 };
static const double peak_s = 5e-3; /* a measured launch takes at least this long */

static clq_status time_rounds(clq_queue *queue, clq_load *load, int rounds, double *out) {
    double start = clq_now();
    CLQ_TRY(clq_load_enqueue(load, rounds));
    CLQ_TRY(clq_queue_finish(queue));
    *out = clq_now() - start;
    return CLQ_OK;
}

static clq_status run_peak(clq_queue *queue, clq_load *load, double *out) {
    int rounds = 512;
    double seconds = 0, best = INFINITY;
    CLQ_TRY(time_rounds(queue, load, rounds, &seconds)); /* the first is not counted */
    do {
        rounds *= 2;
        CLQ_TRY(time_rounds(queue, load, rounds, &seconds));
    } while (seconds < peak_s && rounds < CLQ_LOAD_ROUNDS_MAX);
    for (int i = 0; i < PEAK_LAUNCHES; i++) {
        CLQ_TRY(time_rounds(queue, load, rounds, &seconds));
        best = CLQ_MIN(best, seconds);
    }
    bool ok;
    CLQ_TRY(clq_load_check(load, &ok));
    *out = ok ? clq_load_work(load) * rounds / best * 1e-9 : NAN;
    return CLQ_OK;
}

clq_status clq_measure_peak(clq_queue *queue, double *out) {
    clq_load *load;
    CLQ_TRY(clq_load_create(queue, CLQ_LOAD_ARITHMETIC, 0, &load));
    clq_status status = run_peak(queue, load, out);
    clq_load_destroy(load);
    return status;
}
