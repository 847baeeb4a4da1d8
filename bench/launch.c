/* clique bench launch: what it costs to launch a kernel that does nothing. "enqueue" times the call alone; the clock
 * stops before the wait for the kernels. "round trip" enqueues one kernel and waits until it is done. */
#include "bench.h"

typedef struct launcher {
    clq_queue *queue;
    clq_kernel *kernel;
} launcher;

static clq_status enqueue(void *context, uint64_t repeats) {
    static const size_t one[1] = {1};
    launcher *l = context;
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_queue_launch(l->queue, l->kernel, 1, one, one));
    return CLQ_OK;
}

static clq_status finish(void *context) { return clq_queue_finish(((launcher *)context)->queue); }

static clq_status round_trip(void *context, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(enqueue(context, 1));
        CLQ_TRY(finish(context));
    }
    return CLQ_OK;
}

static clq_status add(clq_bench_run *run, uint32_t device, const char *what, const clq_bench_times *times,
                      const char *reason) {
    clq_bench_row row = clq_bench_row_of(run, device);
    clq_bench_put_text(&row, "what", what);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(run, &row);
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    const struct {
        const char *what;
        clq_bench_work work;
    } cases[] = {{"enqueue", {enqueue, finish, NULL}}, {"round trip", {round_trip, NULL, NULL}}};
    launcher l = {.queue = queue};
    clq_status made = clq_kernel_create(clq_queue_device(queue), "bench", "", "empty", &l.kernel), status = CLQ_OK;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases) && status == CLQ_OK; i++) {
        clq_bench_work work = cases[i].work;
        clq_bench_times times = clq_bench_no_times;
        work.context = &l;
        status = made == CLQ_OK ? clq_bench_measure(run, &work, &times) : made;
        if (status != CLQ_OK && !clq_bench_is_local(status)) break;
        status = add(run, device, cases[i].what, &times, status == CLQ_OK ? NULL : clq_error_detail());
    }
    clq_kernel_destroy(l.kernel);
    return status;
}

static clq_status run_launch(clq_bench_run *run, void *context) {
    (void)context;
    run->expected = 2 * (size_t)run->devices.count;
    return clq_bench_each_device(run, measure_device);
}

clq_status clq_bench_launch(int argc, char **argv) {
    static const clq_bench_column columns[] = {{"label", "device", -12, 0},
                                               {"what", "what", -10, 0},
                                               {"time_us.min", "us min", 9, 2},
                                               {"time_us.p50", "us p50", 9, 2},
                                               {"time_us.p99", "us p99", 9, 2},
                                               {"reason", "reason", -1, 0},
                                               {0}};
    static const clq_bench_spec spec = {.name = "launch",
                                        .about = "Time to enqueue an empty kernel, and until it is done.",
                                        .run = run_launch,
                                        .iterations = 200,
                                        .iterations_most = 1000000,
                                        .warm_ups = 10,
                                        .columns = columns};
    return clq_bench_main(&spec, NULL, argc, argv);
}
