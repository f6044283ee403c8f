"""Small ONNX networks around single ops: decoders, lines, an encoder block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]


class Net:
    """An ONNX graph with random weights."""

    def __init__(self, seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, name: str, array: Array) -> str:
        """A weight."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, name: str, shape: Sequence[int], spread: float) -> str:
        """A random weight."""
        return self.constant(name, self.random.normal(0, spread, shape).astype(np.float32))

    def op(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node that is called as its result."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def linear(self, x: str, name: str, width: int, target: int) -> str:
        """A product with a matrix, and a bias."""
        product = self.op("MatMul", [x, self.normal(f"{name}_w", (width, target), width**-0.5)], f"{name}_m")
        return self.op("Add", [product, self.normal(f"{name}_b", (target,), 0.1)], name)

    def norm(self, x: str, name: str, width: int) -> str:
        """Layer normalization."""
        gamma = self.constant(f"{name}_g", self.random.uniform(0.8, 1.2, width).astype(np.float32))
        beta = self.normal(f"{name}_b", (width,), 0.1)
        return self.op("LayerNormalization", [x, gamma, beta], name, axis=-1)

    def save(self, path: Path, inputs: dict[str, Sequence[int]], outputs: Sequence[str]) -> Path:
        """Write the model."""
        sources = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", sources, results, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path


def write_decoder(path: Path) -> Path:
    """An image down and up again: transposed convolutions of all kinds, and a bilinear resize."""
    net = Net()
    x = net.op(
        "Conv", ["x", net.normal("w0", (16, 3, 3, 3), 0.3)], "c0", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    )
    x = net.op("Relu", [x], "r0")
    x = net.op(
        "Conv", [x, net.normal("w1", (40, 16, 3, 3), 0.1)], "c1", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    )
    x = net.op("Relu", [x], "r1")
    x = net.op(
        "ConvTranspose",
        [x, net.normal("w2", (40, 24, 4, 4), 0.06), net.normal("b2", (24,), 0.1)],
        "d2",
        kernel_shape=[4, 4],
        strides=[2, 2],
        pads=[1] * 4,
    )
    x = net.op("Relu", [x], "r2")
    x = net.op(
        "ConvTranspose",
        [x, net.normal("w3", (24, 1, 3, 3), 0.4)],
        "d3",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1] * 4,
        output_padding=[1, 1],
        group=24,
    )
    x = net.op("ConvTranspose", [x, net.normal("w4", (24, 4, 2, 2), 0.2)], "d4", strides=[1, 1], group=2)
    scales = net.constant("scales", np.array([1, 1, 2, 2], np.float32))
    x = net.op("Resize", [x, "", scales], "up", mode="linear", coordinate_transformation_mode="half_pixel")
    net.op("Conv", [x, net.normal("w5", (3, 8, 1, 1), 0.3)], "y", kernel_shape=[1, 1])
    return net.save(path, {"x": (1, 3, 32, 24)}, ["y"])


def write_lines(path: Path) -> Path:
    """A signal classifier: convolutions and pools over lines."""
    net = Net()
    x = net.op("Conv", ["x", net.normal("w0", (24, 2, 7), 0.3)], "c0", kernel_shape=[7], strides=[2], pads=[3, 3])
    x = net.op("MaxPool", [net.op("Relu", [x], "r0")], "p0", kernel_shape=[2], strides=[2])
    x = net.op("Conv", [x, net.normal("w1", (40, 24, 3), 0.12)], "c1", kernel_shape=[3], dilations=[2], pads=[2, 2])
    x = net.op("AveragePool", [net.op("Relu", [x], "r1")], "p1", kernel_shape=[4], strides=[4])
    x = net.op(
        "ConvTranspose", [x, net.normal("w2", (40, 12, 4), 0.1)], "d2", kernel_shape=[4], strides=[2], pads=[1, 1]
    )
    x = net.op("ReduceMean", [x], "mean", axes=[2], keepdims=0)
    net.linear(x, "y", 12, 5)
    return net.save(path, {"x": (1, 2, 128)}, ["y"])


TOKENS, WIDTH, HEADS = 16, 64, 2


def write_encoder(path: Path) -> Path:
    """An encoder block: attention of two heads and a GELU layer, each with its residual and normalization."""
    net = Net()
    apart = net.constant("apart", np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64))
    joined = net.constant("joined", np.array([1, TOKENS, WIDTH], np.int64))

    def head(part: str, order: list[int]) -> str:
        y = net.op("Reshape", [net.linear("x", part, WIDTH, WIDTH), apart], f"{part}_r")
        return net.op("Transpose", [y], f"{part}_t", perm=order)

    query, key, value = head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]), head("v", [0, 2, 1, 3])
    scale = net.constant("scale", np.float32([(WIDTH // HEADS) ** 0.5]))
    scores = net.op("Div", [net.op("MatMul", [query, key], "scores"), scale], "scaled")
    mixed = net.op("MatMul", [net.op("Softmax", [scores], "shares", axis=-1), value], "mixed")
    back = net.op("Reshape", [net.op("Transpose", [mixed], "back", perm=[0, 2, 1, 3]), joined], "context")
    y = net.norm(net.op("Add", [net.linear(back, "o", WIDTH, WIDTH), "x"], "residual"), "n", WIDTH)
    wide = net.linear(y, "f", WIDTH, 4 * WIDTH)
    root, one = net.constant("root", np.float32([2**0.5])), net.constant("one", np.float32([1]))
    erf = net.op("Erf", [net.op("Div", [wide, root], "divided")], "erf")
    raised = net.op("Mul", [wide, net.op("Add", [erf, one], "plus")], "raised")
    gelu = net.op("Mul", [raised, net.constant("half", np.float32([0.5]))], "gelu")
    net.norm(net.op("Add", [net.linear(gelu, "z", 4 * WIDTH, WIDTH), y], "total"), "y", WIDTH)
    return net.save(path, {"x": (1, TOKENS, WIDTH)}, ["y"])


NETWORKS: dict[str, tuple[Callable[[Path], Path], tuple[int, ...]]] = {
    "decoder": (write_decoder, (1, 3, 32, 24)),
    "lines": (write_lines, (1, 2, 128)),
    "encoder": (write_encoder, (1, TOKENS, WIDTH)),
}
"""How to write a network, and the shape of its input `x`."""
