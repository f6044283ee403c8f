"""Train the digits example and write the network, its evaluation slice and its calibration images.

    python examples/digits/train.py [FOLDER]          (needs numpy, onnx and scikit-learn; about ten seconds)

The same machine gives the same bytes each time. Another processor or BLAS library may round matrix products
differently, which ends in slightly different weights; the committed files are the reference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

EPOCHS = 40
BATCH = 64
LEARNING_RATE = 3e-3
EPSILON = 1e-5
MOMENTUM = 0.9


@dataclass
class Layer:
    """A trainable step; `grads` are those of the last `backward`, by the names in `params`."""

    params: dict[str, Array] = field(default_factory=dict)
    grads: dict[str, Array] = field(default_factory=dict)

    def forward(self, x: Array, training: bool) -> Array:
        raise NotImplementedError

    def backward(self, dy: Array) -> Array:
        raise NotImplementedError


class Conv(Layer):
    """3 x 3 convolution, padding 1: `x: [n, c, h, w]`, weight `[o, c, 3, 3]`."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        scale = np.sqrt(2.0 / (inputs * 9))
        self.params["weight"] = (rng.standard_normal((outputs, inputs, 3, 3)) * scale).astype(np.float32)
        self.params["bias"] = np.zeros(outputs, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        self.columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * w, c * 9)
        self.shape = x.shape
        y = self.columns @ self.params["weight"].reshape(-1, c * 9).T + self.params["bias"]
        return np.ascontiguousarray(y.reshape(n, h, w, -1).transpose(0, 3, 1, 2))

    def backward(self, dy: Array) -> Array:
        n, c, h, w = self.shape
        rows = dy.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        weight = self.params["weight"]
        self.grads = {"weight": (rows.T @ self.columns).reshape(weight.shape), "bias": rows.sum(0)}
        columns = (rows @ weight.reshape(-1, c * 9)).reshape(n, h, w, c, 3, 3)
        dx = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i : i + h, j : j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return dx[:, :, 1:-1, 1:-1]


class BatchNorm(Layer):
    """Normalize every channel over batch, rows and columns; running statistics serve inference."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.params = {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}
        self.mean = np.zeros(channels, np.float32)
        self.variance = np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
            self.variance = MOMENTUM * self.variance + (1 - MOMENTUM) * variance
        self.inverse = per_channel(1 / np.sqrt(variance + EPSILON))
        self.normal = (x - per_channel(mean)) * self.inverse
        return self.normal * per_channel(self.params["scale"]) + per_channel(self.params["bias"])

    def backward(self, dy: Array) -> Array:
        axes = (0, 2, 3)
        self.grads = {"scale": (dy * self.normal).sum(axes), "bias": dy.sum(axes)}
        centered = dy - dy.mean(axes, keepdims=True) - self.normal * (dy * self.normal).mean(axes, keepdims=True)
        return centered * self.inverse * per_channel(self.params["scale"])


class Relu(Layer):
    """Element-wise ``max(x, 0)``."""

    def forward(self, x: Array, training: bool) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        return dy * self.positive


class MaxPool(Layer):
    """2 x 2 maximum, stride 2; equal maxima share the gradient."""

    def forward(self, x: Array, training: bool) -> Array:
        n, c, h, w = x.shape
        tiles = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = tiles.max((3, 5), keepdims=True)
        self.winner = (tiles == y).astype(np.float32)
        self.winner /= self.winner.sum((3, 5), keepdims=True)
        self.shape = x.shape
        return y.reshape(n, c, h // 2, w // 2)

    def backward(self, dy: Array) -> Array:
        return (self.winner * dy[:, :, :, None, :, None]).reshape(self.shape)


class GlobalAverage(Layer):
    """Mean over rows and columns: `[n, c, h, w]` to `[n, c]`."""

    def forward(self, x: Array, training: bool) -> Array:
        self.shape = x.shape
        return x.mean((2, 3))

    def backward(self, dy: Array) -> Array:
        h, w = self.shape[2:]
        return np.broadcast_to(dy[:, :, None, None] / np.float32(h * w), self.shape)


class Gemm(Layer):
    """``x @ weight.T + bias``, weight `[o, c]`."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        self.params["weight"] = (rng.standard_normal((outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
        self.params["bias"] = np.zeros(outputs, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        self.x = x
        return x @ self.params["weight"].T + self.params["bias"]

    def backward(self, dy: Array) -> Array:
        self.grads = {"weight": dy.T @ self.x, "bias": dy.sum(0)}
        return dy @ self.params["weight"]


class Adam:
    """The usual optimizer with bias correction."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.step_count = 0
        self.moments = {(i, k): (np.zeros_like(v), np.zeros_like(v)) for i, k, v in self._params()}

    def _params(self) -> Iterator[tuple[int, str, Array]]:
        for i, layer in enumerate(self.layers):
            for name, value in layer.params.items():
                yield i, name, value

    def step(self, rate: float) -> None:
        self.step_count += 1
        for i, name, value in self._params():
            grad = self.layers[i].grads[name]
            first, second = self.moments[i, name]
            first += 0.1 * (grad - first)
            second += 0.001 * (grad * grad - second)
            unbiased = first / (1 - 0.9**self.step_count)
            spread = np.sqrt(second / (1 - 0.999**self.step_count)) + 1e-8
            value -= np.float32(rate) * unbiased / spread


def per_channel(value: Array) -> Array:
    """`[c]` as `[1, c, 1, 1]`."""
    return value.reshape(1, -1, 1, 1)


def shifted(rng: np.random.Generator, x: Array) -> Array:
    """Every image moved by up to one pixel in each direction, as a writer's hand would."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    offsets = rng.integers(0, 3, (len(x), 2))
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in zip(padded, offsets, strict=True)])


def train(x: Array, y: Labels, rng: np.random.Generator) -> list[Layer]:
    """Layers after `EPOCHS` rounds of Adam on the softmax cross-entropy."""
    layers: list[Layer] = [
        *(Conv(rng, 1, 16), BatchNorm(16), Relu()),
        *(Conv(rng, 16, 32), BatchNorm(32), Relu()),
        MaxPool(),
        *(Conv(rng, 32, 32), Relu()),
        GlobalAverage(),
        Gemm(rng, 32, 10),
    ]
    adam = Adam(layers)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            delta = softmax(logits(layers, shifted(rng, x[pick]), training=True))
            delta[np.arange(BATCH), y[pick]] -= 1
            delta /= BATCH
            for layer in reversed(layers):
                delta = layer.backward(delta)
            adam.step(LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS)))
    return layers


def logits(layers: list[Layer], x: Array, *, training: bool = False) -> Array:
    """What stands before the softmax, `[n, 10]`."""
    for layer in layers:
        x = layer.forward(x, training)
    return x


def softmax(x: Array) -> Array:
    """Probabilities along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def to_onnx(layers: list[Layer]) -> onnx.ModelProto:
    """The trained layers as an ONNX network, BatchNormalization nodes and all."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    value = "image"

    def node(op: str, name: str, *operands: tuple[str, Array], **attributes: object) -> None:
        nonlocal value
        weights.extend(numpy_helper.from_array(array, f"{name}.{key}") for key, array in operands)
        inputs = [value, *(f"{name}.{key}" for key, _ in operands)]
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        value = name

    counts: dict[str, int] = {}
    for layer in layers:
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        name = f"{kind}{counts[kind]}"
        trained = list(layer.params.items())
        match layer:
            case Conv():
                node("Conv", name, *trained, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
            case BatchNorm():
                statistics = [("mean", layer.mean), ("variance", layer.variance)]
                node("BatchNormalization", name, *trained, *statistics, epsilon=EPSILON)
            case Relu():
                node("Relu", name)
            case MaxPool():
                node("MaxPool", name, kernel_shape=[2, 2], strides=[2, 2])
            case GlobalAverage():
                node("GlobalAveragePool", "average")
                node("Flatten", "flat", axis=1)
            case _:
                node("Gemm", "scores", *trained, transB=1)
    node("Softmax", "probabilities", axis=1)

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.producer_name = "tpuc digits example"
    onnx.checker.check_model(model, full_check=True)
    return model


def main(folder: Path) -> None:
    digits = load_digits()
    images = np.asarray(digits.images, np.uint8)
    labels = np.asarray(digits.target, np.int64)
    order = np.random.default_rng(8).permutation(len(labels))
    held_out, training = order[:200], order[200:]
    calibration = training[:100]

    x = images[:, None].astype(np.float32)  # the network takes the pixels as they are, 0..16
    layers = train(x[training], labels[training], np.random.default_rng(13))
    right = int((logits(layers, x[held_out]).argmax(-1) == labels[held_out]).sum())

    onnx.save(to_onnx(layers), folder / "digits.onnx")
    np.savez_compressed(folder / "digits_eval.npz", x=images[held_out], y=labels[held_out].astype(np.uint8))
    np.savez_compressed(folder / "digits_calib.npz", x=images[calibration])
    print(f"held out: {right}/200 right; wrote digits.onnx, digits_eval.npz and digits_calib.npz to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
