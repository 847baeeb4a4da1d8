"""Measures a PyTorch training step on an NVIDIA GPU, for comparison with `clique bench step`. Prints one line of JSON
on stdout.

usage: torch_gpu.py MODEL BATCH STEPS     MODEL: as for peer_torch.py

Uses float32 without TF32, Adam in one fused kernel, and samples that are already on the GPU. Measures the step op by
op, and as a replayed CUDA graph. Times are in microseconds per step: medians over ten runs of STEPS steps that follow
one another without waiting.
"""
import json
import statistics
import sys
import time

import torch
from torch import nn

from peer_torch import build


def microseconds(step, steps):
    runs = []
    for _ in range(3 + 10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        runs.append((time.perf_counter() - start) / steps * 1e6)
    return statistics.median(runs[3:])


def replayed(step):
    """The step as a graph. PyTorch requires some steps on a separate stream before the capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model, shape, classes = build(name)
    model = model.cuda()
    update, loss_of = torch.optim.Adam(model.parameters(), fused=True, capturable=True), nn.CrossEntropyLoss()
    x = torch.rand(batch, *shape, device="cuda")
    y = torch.randint(0, classes, (batch,), device="cuda")

    def step():
        update.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        update.step()

    by_op = microseconds(step, steps)
    print(json.dumps({"model": name, "batch": batch, "card": torch.cuda.get_device_name(), "version": torch.__version__,
                      "by_op_us": by_op, "graph_us": microseconds(replayed(step), steps)}), flush=True)


if __name__ == "__main__":
    main()
