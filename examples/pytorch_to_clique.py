"""Models and weights of PyTorch for Clique, and trained weights back. Needs torch and safetensors.

    from pytorch_to_clique import save_model, save_weights, load_weights
    save_model(net, (1, 28, 28), "model.json")            # an nn.Sequential, as a model file that Clique reads
    save_weights(net, (1, 28, 28), "start.safetensors")   # any module: the weights, for --init
    load_weights(net, (1, 28, 28), "end.safetensors")     # what `clique train --save end.safetensors` wrote

The shape is that of one sample, channels first. An example batch as a tensor does as well, and a model that begins with
an Embedding needs one, with integers. PyTorch stores a Linear as (out, in) and a convolution as (out, in, height,
width); Clique has Keras's layouts, (in, out) and (height, width, in, out), and channels last. So the first Linear after
a flattened image also gets its inputs in another order. Layers are named as Keras names them, in the order in which a
forward pass calls them: conv2d, conv2d_1, dense, dense_1, …"""
import json

import torch
from safetensors.numpy import load_file, save_file
from torch import nn
from torch.overrides import TorchFunctionMode

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
NORM_TENSORS = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
ACTIVATIONS = {nn.ReLU: "relu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh", nn.SiLU: "silu", nn.Softplus: "softplus",
               nn.GELU: "gelu"}
MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
GLOBAL_POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)


class Watch(TorchFunctionMode):
    """Notes what turns images into rows, in whichever way a forward pass writes it; other turns are refused."""

    def __init__(self, events):
        super().__init__()
        self.events = events

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result, name = function(*args, **(kwargs or {})), getattr(function, "__name__", "")
        if name in ("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "unflatten", "t", "einsum"):
            raise ValueError(f"the forward pass calls {name}: convert this model by a name map (--init-map)")
        if name in ("flatten", "view", "reshape", "view_as", "reshape_as") and result.shape != args[0].shape:
            if result.dim() != 2 or result.shape[0] != args[0].shape[0]:
                raise ValueError(f"the forward pass calls {name} to {list(result.shape)}: convert this model by a name "
                                 "map (--init-map)")
            self.events.append((None, list(args[0].shape)))
        return result


def input_shape(arguments, keywords):
    tensors = [value for value in (*arguments, *keywords.values()) if isinstance(value, torch.Tensor)]
    return list(tensors[0].shape) if tensors else []


def calls(net, example):
    """What a forward pass does, in order: each module without children, with its input's shape; and None with the shape
    of what is flattened."""
    if not isinstance(example, torch.Tensor):
        numbers = [t for t in (*net.parameters(), *net.buffers()) if t.is_floating_point()][:1]
        example = numbers[0].new_zeros(1, *example) if numbers else torch.zeros(1, *example)
    events, modes = [], [(module, module.training) for module in net.modules()]
    leaves = [module for module in net.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(lambda m, inputs, named, _: events.append((m, input_shape(inputs, named))),
                                          with_kwargs=True) for module in leaves]
    try:
        with torch.no_grad(), Watch(events):
            net.eval()(example)
    finally:
        for module, training in modes:
            module.training = training
        for hook in hooks:
            hook.remove()
    called = [id(module) for module, _ in events]
    for name, module in net.named_modules():
        times = called.count(id(module))
        if list(module.parameters(recurse=False)) and times != 1:
            raise ValueError(f"{type(module).__name__} '{name}' is called {times} times in a forward pass, not once: "
                             "convert this model by a name map (--init-map)")
    return events


def variables(net, example):
    """Name, tensor, order of the axes, and the shape of the flattened image in front, of each variable of the model."""
    counts, image, channels_first, convolved = {}, None, True, False

    def named(kind, module, tensors, axes=None):
        counts[kind] = counts.get(kind, -1) + 1
        layer = f"{kind}_{counts[kind]}" if counts[kind] else kind
        for ours, theirs in tensors.items():
            if getattr(module, theirs) is not None:
                matrix = axes if theirs == "weight" else None
                yield f"{layer}/{ours}", getattr(module, theirs), matrix, image if matrix else None

    for module, shape in calls(net, example):
        kind = type(module).__name__
        if module is None:
            if channels_first and torch.Size(shape[2:]).numel() > 1:
                image = shape[1:]
        elif not list(module.parameters()) and not list(module.buffers()):
            convolved = convolved or "Pool" in kind
        elif image and (not isinstance(module, nn.Linear) or module.in_features != torch.Size(image).numel()):
            raise ValueError(f"{kind} does not take the flattened image alone: convert this model by a name map "
                             "(--init-map)")
        elif isinstance(module, (*CONVOLUTIONS, *BATCH_NORMS)) and not channels_first and len(shape) > 2:
            raise ValueError(f"{kind} takes tokens for channels: convert this model by a name map (--init-map)")
        elif isinstance(module, CONVOLUTIONS) and not module.transposed:
            convolved = True
            axes = (*range(2, module.weight.dim()), 1, 0)
            yield from named(kind.lower(), module, {"kernel": "weight", "bias": "bias"}, axes)
        elif isinstance(module, BATCH_NORMS):
            yield from named("batch_normalization", module, NORM_TENSORS)
        elif convolved and channels_first and len(shape) > 2:
            raise ValueError(f"{kind} acts on the last axis of an image: convert this model by a name map (--init-map)")
        elif type(module) is nn.Linear:
            channels_first = channels_first and len(shape) == 2
            yield from named("dense", module, {"kernel": "weight", "bias": "bias"}, (1, 0))
            image = None
        elif isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1:
            channels_first = channels_first and len(shape) == 2
            yield from named("layer_normalization", module, {"gamma": "weight", "beta": "bias"})
        elif isinstance(module, nn.Embedding):
            channels_first = False
            yield from named("embedding", module, {"embeddings": "weight"})
        else:
            raise ValueError(f"{kind} is not known here: convert its weights by a name map (--init-map)")


def save_weights(net, example, path):
    tensors = {}
    for name, tensor, axes, image in variables(net, example):
        value = tensor.detach().float().cpu()
        if image:  # (out, channels, height, width) to (out, height, width, channels)
            value = value.reshape(value.shape[0], *image).movedim(1, -1).reshape(value.shape)
        tensors[name] = (value.permute(axes) if axes else value).contiguous().numpy()
    save_file(tensors, path)


def load_weights(net, example, path):
    tensors, model, values = load_file(path), list(variables(net, example)), []
    names = {name for name, _, _, _ in model}
    unlike = sorted(names ^ set(tensors))
    if unlike:
        raise ValueError(f"{path} has no {unlike[0]}, and the model has" if unlike[0] in names else
                         f"{path} has {unlike[0]}, and the model has no such variable")
    for name, tensor, axes, image in model:
        value = torch.from_numpy(tensors[name])
        if axes and value.dim() == len(axes):
            value = value.permute(*(axes.index(axis) for axis in range(len(axes))))
        if value.shape != tensor.shape:
            raise ValueError(f"{path}: {name} is {list(value.shape)} and the model's {list(tensor.shape)}")
        if image:
            value = value.reshape(value.shape[0], *image[1:], image[0]).movedim(-1, 1).reshape(value.shape)
        values.append(value)
    with torch.no_grad():  # nothing is copied unless everything fits
        for (_, tensor, _, _), value in zip(model, values):
            tensor.copy_(value)


def every_axis(value, axes):
    return list(value) if isinstance(value, (tuple, list)) else [value] * axes


def said(module):
    """A module in one line: with its arguments, unless it has modules of its own."""
    return type(module).__name__ if list(module.children()) else " ".join(str(module).split())


def pools_plainly(module, axes):
    """Without padding, gaps, a cut window at the end, or another divisor than the window's size."""
    return (not module.ceil_mode and not any(every_axis(module.padding, axes))
            and set(every_axis(getattr(module, "dilation", 1), axes)) == {1}
            and getattr(module, "divisor_override", None) is None and not getattr(module, "return_indices", False))


def layer_configs(module):
    """The layers of Keras that do what a module of an nn.Sequential does: class name and configuration."""
    kind, axes = type(module), type(module).__name__[-2]
    axes = int(axes) if axes.isdigit() else 0
    if isinstance(module, CONVOLUTIONS) and module.padding_mode == "zeros" and not module.transposed:
        padding = module.padding if module.padding in ("same", "valid") else every_axis(module.padding, axes)
        if isinstance(padding, list) and any(padding):
            yield f"ZeroPadding{axes}D", {"padding": [[p, p] for p in padding] if axes > 1 else [padding[0]] * 2}
        yield f"Conv{axes}D", {"filters": module.out_channels, "kernel_size": list(module.kernel_size),
                               "strides": list(module.stride), "dilation_rate": list(module.dilation),
                               "padding": "same" if padding == "same" else "valid", "groups": module.groups,
                               "use_bias": module.bias is not None, "activation": "linear"}
    elif kind is nn.Linear:
        yield "Dense", {"units": module.out_features, "use_bias": module.bias is not None, "activation": "linear"}
    elif isinstance(module, BATCH_NORMS) and module.weight is not None and module.bias is not None and (
            module.track_running_stats and module.momentum):
        yield "BatchNormalization", {"axis": -1, "momentum": 1 - module.momentum, "epsilon": module.eps}
    elif kind is nn.LayerNorm and len(module.normalized_shape) == 1 and module.weight is not None and (
            module.bias is not None):
        yield "LayerNormalization", {"axis": -1, "epsilon": module.eps}
    elif kind is nn.Embedding and module.padding_idx is None and module.max_norm is None:
        yield "Embedding", {"input_dim": module.num_embeddings, "output_dim": module.embedding_dim}
    elif kind in (*MAX_POOLS, *AVERAGE_POOLS) and pools_plainly(module, axes):
        yield f"{'Max' if kind in MAX_POOLS else 'Average'}Pooling{axes}D", {
            "pool_size": every_axis(module.kernel_size, axes), "strides": every_axis(module.stride, axes),
            "padding": "valid"}
    elif kind in GLOBAL_POOLS and set(every_axis(module.output_size, axes)) == {1}:
        yield f"GlobalAveragePooling{axes}D", {"keepdims": True}
    elif kind in ACTIVATIONS and not (kind is nn.Softplus and (module.beta, module.threshold) != (1, 20)) and not (
            kind is nn.GELU and module.approximate != "none"):
        yield "Activation", {"activation": ACTIVATIONS[kind]}
    elif kind is nn.LeakyReLU:
        yield "LeakyReLU", {"negative_slope": module.negative_slope}
    elif kind is nn.Softmax and module.dim == 1:
        yield "Softmax", {"axis": -1}
    elif kind is nn.Dropout:
        yield "Dropout", {"rate": module.p}
    elif kind is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        yield "Flatten", {}
    elif kind is not nn.Identity:
        raise ValueError(f"{said(module)} has no form here: write this model in Keras, or build it in C")


def in_order(net):
    for module in net:
        yield from in_order(module) if type(module) is nn.Sequential else (module,)


def save_model(net, shape, path):
    """An nn.Sequential, also of others, as a model file of Keras 3, with the names that save_weights gives. A sample's
    shape has the channels first; the file has them last, and so must the data."""
    if type(net) is not nn.Sequential:
        raise ValueError(f"{type(net).__name__} is no nn.Sequential: write this model in Keras, or build it in C")
    shape = list(shape.shape[1:] if isinstance(shape, torch.Tensor) else shape)
    layers = [{"class_name": "InputLayer", "config": {"name": "input", "batch_shape": [None, *shape[1:], shape[0]]}}]
    counts, seen, rows, tokens = {}, [], len(shape) == 1, False
    for module in in_order(net):
        if list(module.parameters()) and any(module is other for other in seen):
            raise ValueError(f"{said(module)} is called twice with the same weights: write this model in Keras, or "
                             "build it in C")
        seen.append(module)
        rows = rows or isinstance(module, nn.Flatten)
        tokens = (tokens or isinstance(module, nn.Embedding)) and not isinstance(module, nn.Flatten)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and not rows:
            raise ValueError(f"{said(module)} acts on the last axis of an image: an nn.Flatten has to stand in front "
                             "of it")
        if tokens and (isinstance(module, nn.Softmax) or type(module).__name__[-2:] in ("1d", "2d", "3d")):
            raise ValueError(f"{said(module)} takes tokens for channels: an nn.Flatten has to stand in front of it")
        for kind, config in layer_configs(module):
            base = kind.lower().replace("normalization", "_normalization")
            counts[base] = counts.get(base, -1) + 1
            layers.append({"class_name": kind,
                           "config": {"name": f"{base}_{counts[base]}" if counts[base] else base, **config}})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"class_name": "Sequential", "config": {"name": "from_pytorch", "layers": layers}}, file, indent=1)
