"""Writes the Keras models of this folder beside itself: python make.py, with Keras 3 (tests/golden/requirements.txt)."""
import json
import pathlib

from keras import Input, Sequential, utils
from keras.layers import AveragePooling2D, Conv2D, Dense, Flatten, MaxPooling2D

GRAY, COLOUR = (28, 28, 1), (32, 32, 3)


def pair(filters):
    return [Conv2D(filters, 3, padding="same", activation="relu"), Conv2D(filters, 3, padding="same", activation="relu"), MaxPooling2D(2)]


MODELS = {
    # LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998, as it is taught: its
    # third convolution as a dense layer, every map of the second fed by all of the first, softmax at the end.
    "lenet5": lambda: [Input(GRAY), Conv2D(6, 5, padding="same", activation="tanh"), AveragePooling2D(2), Conv2D(16, 5, activation="tanh"),
                       AveragePooling2D(2), Flatten(), Dense(120, activation="tanh"), Dense(84, activation="tanh"), Dense(10, activation="softmax")],
    "cnn3x3": lambda: [Input(GRAY), Conv2D(32, 3, activation="relu"), Conv2D(64, 3, activation="relu"), Conv2D(64, 3, activation="relu"), Flatten(),
                       Dense(10, activation="softmax")],
    # After Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015: pairs of 3x3 convolutions.
    "vgg": lambda: [Input(COLOUR), *pair(64), *pair(128), *pair(256), Flatten(), Dense(10, activation="softmax")],
}

for name, layers in MODELS.items():
    utils.clear_session()  # layers are numbered from the start
    text = Sequential(layers(), name=name).to_json()
    (pathlib.Path(__file__).parent / f"{name}.json").write_text(json.dumps(json.loads(text), indent=1) + "\n")
