/* The benchmarks of clique-bench, as X(NAME, what it measures). The function clq_bench_NAME runs the benchmark. The
 * help and the completion of clique name them, too. */
#ifndef CLQ_CLI_BENCHES_H
#define CLQ_CLI_BENCHES_H

#define CLQ_BENCHES(X)                                                                                                 \
    X(memory, "copies between host and device, on the device, and fills")                                              \
    X(launch, "what it costs to launch a kernel")                                                                      \
    X(p2p, "bandwidth and latency between each two devices")                                                           \
    X(gemm, "matrix products, by each variant of kernels")                                                             \
    X(conv, "convolution layers, forward and both gradients")                                                          \
    X(ops, "activations, pooling, loss, update")                                                                       \
    X(all_reduce, "sum (or product, …) of all ranks' buffers, on all")                                                 \
    X(reduce_scatter, "the same, a part on each rank")                                                                 \
    X(all_gather, "all ranks' buffers, on all")                                                                        \
    X(broadcast, "one rank's buffer, on all")                                                                          \
    X(reduce, "sum (or product, …) of all ranks' buffers, on one")                                                     \
    X(send_recv, "one rank's buffer, on another")                                                                      \
    X(step, "where a training step's time goes, launch by launch")                                                     \
    X(train, "training speed on 1 to n devices")                                                                       \
    X(peers, "Open MPI, PyTorch and TensorFlow, beside the same on Clique")

#endif
