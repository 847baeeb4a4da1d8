/* clique-bench: `clique bench NAME` runs it. */
#include "bench.h"

#include "cli/program.h"

#include <string.h>

static const struct {
    const char *name;
    clq_status (*run)(int argc, char **argv);
    const char *help;
} benches[] = {
    {"memory", clq_bench_memory, "copies between host and device, on the device, and fills"},
    {"launch", clq_bench_launch, "what it costs to launch a kernel"},
    {"p2p", clq_bench_p2p, "bandwidth and latency between each two devices"},
    {"gemm", clq_bench_gemm, "matrix products, by each variant of kernels"},
    {"conv", clq_bench_conv, "convolution layers, forward and both gradients"},
    {"ops", clq_bench_ops, "activations, pooling, loss, update"},
    {"all_reduce", clq_bench_all_reduce, "sum (or product, …) of all ranks' buffers, on all"},
    {"reduce_scatter", clq_bench_reduce_scatter, "the same, a part on each rank"},
    {"all_gather", clq_bench_all_gather, "all ranks' buffers, on all"},
    {"broadcast", clq_bench_broadcast, "one rank's buffer, on all"},
    {"reduce", clq_bench_reduce, "sum (or product, …) of all ranks' buffers, on one"},
    {"send_recv", clq_bench_send_recv, "one rank's buffer, on another"},
    {"step", clq_bench_step, "where a training step's time goes, launch by launch"},
    {"train", clq_bench_train, "training speed on 1 to n devices"},
    {"peers", clq_bench_peers, "Open MPI, PyTorch and TensorFlow, beside the same on Clique"},
};

static clq_status run(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        for (size_t i = 0; i < CLQ_COUNT_OF(benches); i++)
            printf("clique bench %-14s %s\n", benches[i].name, benches[i].help);
        return CLQ_OK;
    }
    for (size_t i = 0; argc >= 2 && i < CLQ_COUNT_OF(benches); i++)
        if (strcmp(argv[1], benches[i].name) == 0) return benches[i].run(argc - 1, argv + 1);
    return clq_fail(CLQ_ARGUMENT, "%s%s%s: clique bench --help lists the benchmarks",
                    argc >= 2 ? "unknown benchmark '" : "no benchmark is named", argc >= 2 ? argv[1] : "",
                    argc >= 2 ? "'" : "");
}

int main(int argc, char **argv) { return clq_program_run(argc, argv, run); }
