"""Measures PyTorch for clique bench peers. Prints the result on stdout as one line of JSON.

usage: peer_torch.py probe
       peer_torch.py all_reduce RANKS BYTES SAMPLES WARMUPS        gloo, float, sum, in place (it has no other)
       peer_torch.py train RANKS MODEL BATCH SAMPLES EPOCHS THREADS    RANKS 1: one process; else DDP over gloo
                                                                       MODEL: a name, or a Sequential of Keras's as .json
"""
import importlib.util
import json
import os
import sys
import tempfile
import time


def rank_of(sorted_values, percent):
    """Nearest rank."""
    return sorted_values[max((len(sorted_values) * percent + 99) // 100, 1) - 1]


def report(**result):
    import torch
    print(json.dumps({"version": torch.__version__, **result}), flush=True)


def spawn(body, ranks, *args):
    """Runs body(rank, ranks, *args) in `ranks` processes, which meet through a file."""
    import torch.multiprocessing
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(__file__))) as folder:
        torch.multiprocessing.spawn(meet, (body, ranks, os.path.join(folder, "meeting"), *args), ranks)


def meet(rank, body, ranks, path, *args):
    import torch.distributed
    if os.path.isdir("/sys/class/net/lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=ranks)
    body(rank, ranks, *args)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def all_reduce(rank, ranks, size, samples, warm_ups):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    data = torch.zeros(size // 4)

    def sample(repeats):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            dist.all_reduce(data)
        seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return seconds.item()

    for _ in range(warm_ups):
        sample(1)
    repeats = 1
    while repeats < 1 << 20 and sample(repeats) < 20e-6:
        repeats *= 2
    times = sorted(sample(repeats) / repeats * 1e6 for _ in range(samples))
    mine = torch.arange(size // 4) % 61
    data.copy_(mine + rank)
    dist.all_reduce(data)
    if not torch.equal(data, (ranks * mine + ranks * (ranks - 1) // 2).float()):
        sys.exit(f"rank {rank}: wrong sums")
    if rank == 0:
        report(in_place=True, time_us={"min": times[0], "p50": rank_of(times, 50), "p99": rank_of(times, 99)})


def build(name):
    """The model, from the input to logits, with a sample's shape and the numbers of classes, labels and tokens."""
    from torch import nn
    import torch_models
    if name.endswith(".json"):
        return *build_json(name), 1, 0
    if torch_models.knows(name):
        return torch_models.build(name)
    torso = {"mlp": [nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)],
             "cnn": [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                     nn.Linear(1600, 10)],
             "cnn1": [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 10)]}
    if name not in torso:
        sys.exit(f"there is no model {name} here")
    return nn.Sequential(*torso[name]), (1, 28, 28), 10, 1, 0


def refuse(path, what):
    sys.exit(f"{path}: {what} is not read for PyTorch")


def build_json(path):
    """Builds a model from those of Keras's layers that compute the same here, except for the order of axes: channels
    come first."""
    import torch
    from torch import nn
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    first, *layers = model["config"]["layers"]
    if model["class_name"] != "Sequential" or first["class_name"] != "InputLayer":
        refuse(path, "what is not a Sequential with an InputLayer")
    shape = first["config"]["batch_shape"][1:]
    shape = (shape[2], *shape[:2]) if len(shape) == 3 else tuple(shape)
    parts, x = [], torch.zeros(1, *shape)
    for i, layer in enumerate(layers):
        parts += read_layer(path, layer["class_name"], layer["config"], x.shape, i == len(layers) - 1)
        x = nn.Sequential(*parts)(torch.zeros(1, *shape))
    if x.dim() != 2:
        refuse(path, "an output of several axes")
    return nn.Sequential(*parts), shape, x.shape[1]


def read_layer(path, kind, config, shape, last):
    """The modules for a layer whose input has this shape, (1, channels, height, width) or (1, features)."""
    from torch import nn
    activations = {"linear": [], "relu": [nn.ReLU()], "sigmoid": [nn.Sigmoid()], "tanh": [nn.Tanh()]}
    activation = config.get("activation", "softmax" if kind == "Softmax" else "linear")
    if last and activation == "softmax":
        activation = "linear"  # the loss computes softmax
    if activation not in activations or config.get("data_format", "channels_last") != "channels_last" or config.get("groups", 1) != 1:
        refuse(path, "the configuration of " + config["name"])
    if kind == "Flatten":
        return [nn.Flatten()]
    if kind in ("Activation", "Softmax"):
        return activations[activation]
    if kind == "Dense" and len(shape) == 2:
        return [nn.Linear(shape[1], config["units"], bias=config["use_bias"]), *activations[activation]]
    if kind == "Conv2D" and len(shape) == 4:
        kernel, strides, spread = (tuple(config[key]) for key in ("kernel_size", "strides", "dilation_rate"))
        sides = [sides_of(config, n, (k - 1) * d + 1, s) for n, k, d, s in zip(shape[2:], kernel, spread, strides)]
        even = all(front == behind for front, behind in sides)
        front = tuple(front for front, _ in sides) if even else 0
        pad = [] if even else [nn.ZeroPad2d((*sides[1], *sides[0]))]
        return [*pad, nn.Conv2d(shape[1], config["filters"], kernel, strides, front, spread, bias=config["use_bias"]), *activations[activation]]
    if kind in ("MaxPooling2D", "AveragePooling2D") and len(shape) == 4:
        size, strides = tuple(config["pool_size"]), tuple(config["strides"] or config["pool_size"])
        sides = [sides_of(config, n, k, s) for n, k, s in zip(shape[2:], size, strides)]
        if any(front != behind and s == 1 for (front, behind), s in zip(sides, strides)):
            refuse(path, "the uneven padding of " + config["name"])
        # With ceil_mode, windows extend over the far edge, as in TensorFlow. Only the values inside count.
        how = {"kernel_size": size, "stride": strides, "padding": tuple(front for front, _ in sides), "ceil_mode": config["padding"] == "same"}
        return [nn.MaxPool2d(**how) if kind == "MaxPooling2D" else nn.AvgPool2d(**how, count_include_pad=False)]
    return refuse(path, f"{kind} at {config['name']}")


def sides_of(config, length, size, stride):
    """TensorFlow's padding along an axis: before and after."""
    whole = 0 if config["padding"] == "valid" else max((-(-length // stride) - 1) * stride + size - length, 0)
    return whole // 2, whole - whole // 2


def train(rank, ranks, name, batch, samples, epochs, threads):
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, shape, classes, places, tokens = build(name)
    if len(shape) == 3:
        model = model.to(memory_format=torch.channels_last)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    update, loss_of = torch.optim.Adam(model.parameters(), fused=True), nn.CrossEntropyLoss()
    x = torch.randint(0, min(tokens, 256), (samples, *shape)) if tokens else torch.rand(samples, *shape)
    if len(shape) == 3:
        x = x.to(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (samples, places))
    low, high = batch * rank // ranks, batch * (rank + 1) // ranks
    seconds = []
    for _ in range(1 + epochs):
        if ranks > 1:
            torch.distributed.barrier()
        start = time.perf_counter()
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(0))
        for at in range(0, samples, batch):
            chosen = order[at + low:at + high]
            update.zero_grad()
            logits = model(x[chosen])
            rows = logits.movedim(1, -1) if logits.dim() == 4 else logits
            loss_of(rows.reshape(-1, classes), y[chosen].reshape(-1)).backward()
            update.step()
        if ranks > 1:
            torch.distributed.barrier()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        rates = sorted(samples / s for s in seconds[1:])
        report(images_per_s=rank_of(rates, 50), images_per_s_least=rates[0], images_per_s_most=rates[-1])


def main():
    what, *args = sys.argv[1:]
    if what == "probe":
        print(json.dumps({"installed": importlib.util.find_spec("torch") is not None}))
    elif what == "all_reduce":
        spawn(all_reduce, *map(int, args))
    else:
        ranks, name, rest = int(args[0]), args[1], list(map(int, args[2:]))
        if ranks > 1:
            spawn(train, ranks, name, *rest)
        else:
            train(0, 1, name, *rest)


if __name__ == "__main__":
    main()
