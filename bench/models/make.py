"""Writes this folder's Keras models: python make.py, with Keras 3 (tests/golden/requirements.txt)."""
import json
import pathlib

from keras import Input, Model, Sequential, utils
from keras.layers import (Activation, Add, AveragePooling2D, BatchNormalization, Conv2D, Dense, Flatten, GlobalAveragePooling2D,
                          MaxPooling2D)

GRAY, COLOUR = (28, 28, 1), (32, 32, 3)


def pair(filters):
    return [Conv2D(filters, 3, padding="same", activation="relu"), Conv2D(filters, 3, padding="same", activation="relu"), MaxPooling2D(2)]


def normalised(x, name, filters, size, strides=1):
    """Momentum 0.9 is PyTorch's default, which PyTorch writes as 0.1. Keras's 0.99 averages over about a hundred
    updates: after a short training, the moving statistics lag the weights, and the accuracy on a test set says
    little."""
    x = Conv2D(filters, size, strides, padding="same", use_bias=False, name=f"{name}_conv")(x)
    return BatchNormalization(momentum=0.9, name=f"{name}_bn")(x)


def block(x, name, filters, strides):
    """Two 3x3 convolutions, and a shortcut: the identity, or a 1x1 convolution if the shape changes."""
    y = Activation("relu", name=f"{name}_1_relu")(normalised(x, f"{name}_1", filters, 3, strides))
    y = normalised(y, f"{name}_2", filters, 3)
    if x.shape[-1] != filters:
        x = normalised(x, f"{name}_shortcut", filters, 1, strides)
    return Activation("relu", name=f"{name}_relu")(Add(name=f"{name}_add")([y, x]))


def resnet(shape, blocks):
    """He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, section 4.2: three stages with 16,
    32 and 64 filters. The network has 6 * blocks + 2 layers, including the first convolution and the dense layer."""
    inputs = Input(shape, name="input")
    x = Activation("relu", name="first_relu")(normalised(inputs, "first", 16, 3))
    for stage, filters in enumerate((16, 32, 64), 1):
        for number in range(1, blocks + 1):
            x = block(x, f"stage{stage}_block{number}", filters, 2 if stage > 1 and number == 1 else 1)
    outputs = Dense(10, activation="softmax", name="dense")(GlobalAveragePooling2D(name="average")(x))
    return lambda name: Model(inputs, outputs, name=name)


def chain(*layers):
    return lambda name: Sequential(list(layers), name=name)


MODELS = {
    # LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998, in the form
    # that is taught: the third convolution is a dense layer, every map of the second convolution reads all maps of the
    # first, and softmax is at the end.
    "lenet5": lambda: chain(Input(GRAY), Conv2D(6, 5, padding="same", activation="tanh"), AveragePooling2D(2), Conv2D(16, 5, activation="tanh"),
                            AveragePooling2D(2), Flatten(), Dense(120, activation="tanh"), Dense(84, activation="tanh"), Dense(10, activation="softmax")),
    "cnn3x3": lambda: chain(Input(GRAY), Conv2D(32, 3, activation="relu"), Conv2D(64, 3, activation="relu"), Conv2D(64, 3, activation="relu"), Flatten(),
                            Dense(10, activation="softmax")),
    # Based on Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015: pairs
    # of 3x3 convolutions.
    "vgg": lambda: chain(Input(COLOUR), *pair(64), *pair(128), *pair(256), Flatten(), Dense(10, activation="softmax")),
    "resnet20": lambda: resnet(GRAY, 3),
}

for name, make in MODELS.items():
    utils.clear_session()  # numbers the layers from the start
    text = make()(name).to_json()
    (pathlib.Path(__file__).parent / f"{name}.json").write_text(json.dumps(json.loads(text), indent=1) + "\n")
