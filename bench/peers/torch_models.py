"""Clique's models by name (docs/models.md) in PyTorch: the same layers and numbers of parameters, from a sample to logits.

build("resnet18:input=32x32x3,classes=10") returns the module, a sample's shape (channels first), the number of classes,
the number of labels of a sample, and the number of tokens, which is 0 for images."""
import torch
from torch import nn
from torch.nn import functional


def conv_norm(inputs, filters, side, stride=1, groups=1, activation=nn.ReLU):
    parts = [nn.Conv2d(inputs, filters, side, stride, side // 2, groups=groups, bias=False), nn.BatchNorm2d(filters)]
    return [*parts, activation(inplace=True)] if activation else parts


class Residual(nn.Module):
    def __init__(self, body, shortcut=None, activation=None):
        super().__init__()
        self.body, self.shortcut, self.activation = body, shortcut or nn.Identity(), activation or nn.Identity()

    def forward(self, x):
        return self.activation(self.body(x) + self.shortcut(x))


def classify(features, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes)]


def resnet(blocks, bottleneck, o, stem=True):
    def block(inputs, filters, stride):
        outputs = 4 * filters if bottleneck else filters
        body = ([*conv_norm(inputs, filters, 1), *conv_norm(filters, filters, 3, stride), *conv_norm(filters, outputs, 1, activation=None)] if bottleneck
                else [*conv_norm(inputs, filters, 3, stride), *conv_norm(filters, outputs, 3, activation=None)])
        shortcut = nn.Sequential(*conv_norm(inputs, outputs, 1, stride, activation=None)) if stride > 1 or inputs != outputs else None
        return Residual(nn.Sequential(*body), shortcut, nn.ReLU(inplace=True)), outputs

    width, (channels, *sides) = o["width"], o["shape"]
    large = stem and min(sides) > 64
    parts = [*conv_norm(channels, width, 7, 2), nn.MaxPool2d(3, 2, 1)] if large else conv_norm(channels, width, 3)
    inputs = width
    for stage, count in enumerate(blocks):
        for number in range(count):
            part, inputs = block(inputs, width << stage, 2 if stage and not number else 1)
            parts.append(part)
    return nn.Sequential(*parts, *classify(inputs, o["classes"]))


def mobilenetv2(o):
    channels, *sides = o["shape"]
    early, inputs = 1 if min(sides) <= 64 else 2, 32
    parts = conv_norm(channels, 32, 3, early, activation=nn.ReLU6)
    for expansion, filters, count, first in ((1, 16, 1, 1), (6, 24, 2, early), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for number in range(count):
            stride, wide = first if number == 0 else 1, inputs * expansion
            body = nn.Sequential(*(conv_norm(inputs, wide, 1, activation=nn.ReLU6) if expansion > 1 else []),
                                 *conv_norm(wide, wide, 3, stride, wide, nn.ReLU6), *conv_norm(wide, filters, 1, activation=None))
            parts.append(Residual(body) if stride == 1 and inputs == filters else body)
            inputs = filters
    return nn.Sequential(*parts, *conv_norm(inputs, 1280, 1, activation=nn.ReLU6), *classify(1280, o["classes"]))


class Unet(nn.Module):
    def __init__(self, o):
        super().__init__()
        channels, *sides = o["shape"]
        width, levels = o["width"], o.get("levels", 0)
        while not o.get("levels") and levels < 4 and all(side % (2 << levels) == 0 for side in sides):
            levels += 1

        def two(inputs, filters):
            return nn.Sequential(nn.Conv2d(inputs, filters, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(filters, filters, 3, padding=1),
                                 nn.ReLU(inplace=True))

        filters = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList([two(a, b) for a, b in zip([channels, *filters], filters)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * f, f, 2, 2) for f in filters[-2::-1]])
        self.joined = nn.ModuleList([two(2 * f, f) for f in filters[-2::-1]])
        self.last = nn.Conv2d(width, o["classes"], 1)

    def forward(self, x):
        kept = []
        for part in self.down[:-1]:
            x = part(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, joined in zip(self.up, self.joined):
            x = joined(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


class Block(nn.Module):
    """Attention and dense layers, with normalisation before each half."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList([nn.LayerNorm(width, eps=1e-5) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norms[0](x)).split(width, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        width = o["width"]
        self.tokens, self.places = nn.Embedding(o["vocabulary"], width), nn.Embedding(o["context"], width)
        self.blocks = nn.ModuleList([Block(width, o["heads"], True) for _ in range(o["layers"])])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-5), nn.Linear(width, o["vocabulary"], bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def take(self, weights):
        """Copies weights, which are numpy arrays with Clique's names and layouts."""
        def put(parameter, value):
            assert parameter.shape == value.shape, (parameter.shape, value.shape)
            parameter.data.copy_(torch.tensor(value))

        def numbered(stem, n):
            return f"{stem}_{n}" if n else stem

        def dense(layer, n):
            put(layer.weight, weights[numbered("dense", n) + "/kernel"].T)
            if layer.bias is not None:
                put(layer.bias, weights[numbered("dense", n) + "/bias"])

        def norm(layer, n):
            put(layer.weight, weights[numbered("layer_normalization", n) + "/gamma"])
            put(layer.bias, weights[numbered("layer_normalization", n) + "/beta"])

        put(self.tokens.weight, weights["embedding/embeddings"])
        put(self.places.weight, weights["position_embedding/embeddings"])
        width = self.tokens.weight.shape[1]
        for i, block in enumerate(self.blocks):
            name, third = numbered("multi_head_attention", i), slice(0, width)
            for part in ("query", "key", "value"):
                put(block.qkv.weight[third], weights[f"{name}/{part}/kernel"].reshape(width, width).T)
                put(block.qkv.bias[third], weights[f"{name}/{part}/bias"].reshape(width))
                third = slice(third.stop, third.stop + width)
            put(block.out.weight, weights[f"{name}/attention_output/kernel"].reshape(width, width).T)
            put(block.out.bias, weights[f"{name}/attention_output/bias"])
            for half in range(2):
                norm(block.norms[half], 2 * i + half)
            dense(block.up, 2 * i)
            dense(block.down, 2 * i + 1)
        norm(self.norm, 2 * len(self.blocks))
        dense(self.head, 2 * len(self.blocks))


class Vit(nn.Module):
    def __init__(self, o):
        super().__init__()
        channels, *sides = o["shape"]
        patch = o.get("patch") or (4 if min(sides) <= 64 else 16)
        self.patches = nn.Conv2d(channels, o["width"], patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn(sides[0] // patch * (sides[1] // patch), o["width"]))
        self.blocks = nn.Sequential(*[Block(o["width"], o["heads"], False) for _ in range(o["layers"])], nn.LayerNorm(o["width"], eps=1e-5))
        self.head = nn.Linear(o["width"], o["classes"])

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places).mean(1))


class BiLstm(nn.Module):
    """Without the mask of Clique's layer: PyTorch would pack the sequences, which costs more than it saves."""

    def __init__(self, o):
        super().__init__()
        self.tokens = nn.Embedding(o["vocabulary"], o["width"])
        self.lstm = nn.LSTM(o["width"], o["units"], o["layers"], batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * o["units"], o["classes"])

    def forward(self, x):
        _, (last, _) = self.lstm(self.tokens(x))
        return self.head(torch.cat([last[-2], last[-1]], 1))


def chain(*parts):
    return lambda o: nn.Sequential(*(part(o) if callable(part) and not isinstance(part, nn.Module) else part for part in parts))


TRANSFORMER = {"layers": 4, "width": 128, "heads": 4, "context": 128, "vocabulary": 256}
IMAGES = {
    "lenet5": ({}, chain(lambda o: nn.Conv2d(o["shape"][0], 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), lambda o: nn.Linear(16 * ((o["shape"][1] // 2 - 4) // 2) * ((o["shape"][2] // 2 - 4) // 2), 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), lambda o: nn.Linear(84, o["classes"]))),
    "resnet18": ({"width": 64}, lambda o: resnet((2, 2, 2, 2), False, o)),
    "resnet20": ({"width": 16}, lambda o: resnet((3, 3, 3), False, o, stem=False)),
    "resnet34": ({"width": 64}, lambda o: resnet((3, 4, 6, 3), False, o)),
    "resnet50": ({"width": 64}, lambda o: resnet((3, 4, 6, 3), True, o)),
    "mobilenetv2": ({}, mobilenetv2),
    "unet": ({"width": 32}, Unet),
    "vit-tiny": ({"layers": 12, "width": 192, "heads": 3}, Vit),
}
TOKENS = {"gpt": (TRANSFORMER, Gpt), "bilstm": ({"layers": 2, "width": 128, "units": 64, "context": 200, "vocabulary": 20000}, BiLstm)}


def build(name):
    name, _, text = name.partition(":")
    usual, make = {**IMAGES, **TOKENS}[name]
    given = dict(pair.split("=") for pair in text.split(",")) if text else {}
    height, width, channels = map(int, given.pop("input", "28x28x1").split("x"))
    o = {"classes": 10, **usual, **{key: int(value) for key, value in given.items()}, "shape": (channels, height, width)}
    if name in IMAGES:
        places = height * width if name == "unet" else 1
        return make(o), o["shape"], o["classes"], places, 0
    tokens = o["vocabulary"]
    return make(o), (o["context"],), tokens if name == "gpt" else o["classes"], o["context"] if name == "gpt" else 1, tokens


def knows(name):
    return name.partition(":")[0] in {**IMAGES, **TOKENS}
