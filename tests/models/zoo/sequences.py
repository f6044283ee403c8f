"""Networks over tokens, sound and points."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto

from tests.models.zoo.graph import Graph


def patches() -> onnx.ModelProto:
    """A vision transformer with a class token; its normalizations are written out."""
    graph, width, tokens, heads = Graph("patches"), 96, 17, 3
    embedding = {"kernel_shape": [16, 16], "strides": [16, 16]}
    y = graph.node(
        "Conv", graph.input(1, 3, 64, 64), graph.normal(width, 3, 16, 16, spread=0.05), graph.normal(width), **embedding
    )
    y = graph.permute(graph.reshape(y, 1, width, 16), 0, 2, 1)
    y = graph.node("Add", graph.concat(graph.normal(1, 1, width), y), graph.normal(1, tokens, width, spread=0.3))
    for _ in range(2):
        mixed = _attention(graph, graph.written_out_norm(y, width), 1, tokens, width, heads)
        y = graph.node("Add", y, graph.linear(mixed, width, width))
        inner = graph.activate(graph.linear(graph.written_out_norm(y, width), width, 4 * width), "GELU")
        y = graph.node("Add", y, graph.linear(inner, 4 * width, width))
    first = graph.node("Gather", graph.written_out_norm(y, width), graph.constant(np.int64(0)), axis=1)
    return graph.model(graph.linear(first, width, 10))


def _attention(graph: Graph, x: str, batch: int, tokens: int, width: int, heads: int, bias: str = "") -> str:
    """All heads' queries, keys and values by one product."""
    size = width // heads
    joint = graph.reshape(graph.linear(x, width, 3 * width), batch, tokens, 3, heads, size)
    parts = graph.nodes_of("Split", [graph.permute(joint, 2, 0, 3, 1, 4)], 3, axis=0)
    query, key, value = (graph.node("Squeeze", part, graph.integers(0)) for part in parts)
    scores = graph.node("MatMul", graph.node("Mul", query, graph.number(size**-0.5)), graph.permute(key, 0, 1, 3, 2))
    scores = graph.node("Add", scores, bias) if bias else scores
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    return graph.reshape(graph.permute(mixed, 0, 2, 1, 3), batch, tokens, width)


def shifted_windows() -> onnx.ModelProto:
    """Attention inside windows of a rolled image."""
    graph, width = Graph("shifted_windows"), 32
    embedding = {"kernel_shape": [4, 4], "strides": [4, 4]}
    y = graph.node("Conv", graph.input(1, 3, 32, 32), graph.normal(width, 3, 4, 4, spread=0.15), **embedding)
    y = graph.permute(y, 0, 2, 3, 1)
    z = graph.node("LayerNormalization", y, graph.between(0.5, 1.5, width), graph.normal(width, spread=0.1), axis=-1)
    cut = [graph.integers(*values) for values in ((2,), (8,), (0,), (2,), (1,))]
    z = graph.concat(graph.node("Slice", z, cut[0], cut[1], cut[4]), graph.node("Slice", z, cut[2], cut[3], cut[4]))
    windows = graph.permute(graph.reshape(z, 1, 2, 4, 2, 4, width), 0, 1, 3, 2, 4, 5)
    z = _attention(graph, graph.reshape(windows, 4, 16, width), 4, 16, width, 2, graph.normal(1, 2, 16, 16))
    z = graph.reshape(graph.linear(z, width, width), 1, 2, 2, 4, 4, width)
    y = graph.node("Add", y, graph.reshape(graph.permute(z, 0, 1, 3, 2, 4, 5), 1, 8, 8, width))
    z = graph.node("LayerNormalization", y, graph.between(0.5, 1.5, width), axis=-1)
    y = graph.node("Add", y, graph.linear(graph.activate(graph.linear(z, width, 64), "GELU"), 64, width))
    return graph.model(graph.linear(graph.node("ReduceMean", y, axes=[1, 2], keepdims=0), width, 10))


def text_lines() -> onnx.ModelProto:
    """Columns of an image read in both directions by an LSTM."""
    graph, hidden = Graph("text_lines"), 24
    y = graph.max_pool(graph.conv(graph.input(1, 1, 32, 64), 1, 32), 2, 2)
    y = graph.max_pool(graph.conv(y, 32, 64), 2, 2)
    y = graph.node("MaxPool", y, kernel_shape=[8, 1], strides=[8, 1])
    y = graph.permute(graph.node("Squeeze", y, graph.integers(2)), 2, 0, 1)
    weights = [
        graph.normal(2, 4 * hidden, 64, spread=0.12),
        graph.normal(2, 4 * hidden, hidden, spread=0.2),
        graph.normal(2, 8 * hidden, spread=0.1),
    ]
    y = graph.nodes_of("LSTM", [y, *weights], 3, hidden_size=hidden, direction="bidirectional")[0]
    y = graph.reshape(graph.permute(y, 0, 2, 1, 3), 16, 1, 2 * hidden)
    return graph.model(graph.node("LogSoftmax", graph.linear(y, 2 * hidden, 37), axis=2))


def words() -> onnx.ModelProto:
    """Embedded words under windows of two to four."""
    graph = Graph("words")
    y = graph.node("Gather", graph.normal(100, 32), graph.input(1, 20, dtype=TensorProto.INT64), axis=0)
    y, found = graph.permute(y, 0, 2, 1), list[str]()
    for size in (2, 3, 4):
        z = graph.node("Conv", y, graph.normal(16, 32, size, spread=0.1), graph.normal(16), kernel_shape=[size])
        found.append(graph.node("ReduceMax", graph.node("Relu", z), axes=[2], keepdims=0))
    return graph.model(graph.linear(graph.concat(*found), 48, 4))


def sound() -> onnx.ModelProto:
    """One-dimensional convolutions, down and up again."""
    graph = Graph("sound")
    y = graph.input(1, 1, 1600)
    y = graph.node("Conv", y, graph.normal(16, 1, 9, spread=0.3), graph.normal(16), kernel_shape=[9], strides=[4])
    y = graph.node("LeakyRelu", y, alpha=0.2)
    y = graph.node("Conv", y, graph.normal(32, 16, 5, spread=0.1), kernel_shape=[5], strides=[2], pads=[2, 2])
    y = graph.node("PRelu", y, graph.between(0.1, 0.3, 32, 1))
    up = {"kernel_shape": [4], "strides": [2], "pads": [1, 1]}
    y = graph.node("ConvTranspose", y, graph.normal(32, 16, 4, spread=0.1), graph.normal(16, spread=0.1), **up)
    y = graph.node("AveragePool", y, kernel_shape=[2], strides=[2])
    y = graph.node("Conv", y, graph.normal(1, 16, 3, spread=0.2), kernel_shape=[3], pads=[1, 1])
    return graph.model(graph.node("Tanh", y))


def points() -> onnx.ModelProto:
    """A cloud of points turned by a matrix that the network itself computes."""
    graph = Graph("points")
    cloud = graph.input(1, 128, 3)

    def features(x: str, *widths: int) -> str:
        for source, target in pairwise(widths):
            x = graph.node("Relu", graph.linear(x, source, target))
        return graph.node("ReduceMax", x, axes=[1], keepdims=0)

    turn = graph.reshape(graph.linear(features(cloud, 3, 32, 64), 64, 9), 1, 3, 3)
    y = features(graph.node("MatMul", cloud, turn), 3, 64)
    return graph.model(graph.node("LogSoftmax", graph.linear(y, 64, 5), axis=-1))


SEQUENCES: dict[str, Callable[[], onnx.ModelProto]] = {
    one.__name__: one for one in (patches, shifted_windows, text_lines, words, sound, points)
}
