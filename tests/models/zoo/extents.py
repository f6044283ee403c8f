"""Networks with more elements along a dimension, or in an image, than commands of chips can say."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from tests.models.zoo.graph import Graph

MANY = 65537
"""A prime number beyond 16 bits: what does not divide can only be cut."""


def many_boxes() -> onnx.ModelProto:
    """Boxes of a large image are decoded, and the best score of each found."""
    graph = Graph("many_boxes")
    x = graph.input(1, MANY, 6)
    centers, sizes, scores = graph.nodes_of("Split", [x, graph.integers(2, 2, 2)], 3, axis=2)
    centers = graph.node("Add", graph.node("Mul", centers, graph.number(0.1)), graph.between(0, 1, 1, MANY, 2))
    sizes = graph.node("Mul", graph.node("Exp", graph.node("Mul", sizes, graph.number(0.2))), graph.number(0.5))
    corners = graph.concat(graph.node("Sub", centers, sizes), graph.node("Add", centers, sizes), axis=2)
    best = graph.node("ReduceMax", graph.node("Sigmoid", scores), axes=[2], keepdims=0)
    return graph.model(graph.permute(corners, 0, 2, 1), best)


def long_wave() -> onnx.ModelProto:
    """Samples of sound under windows of one dimension, and their mean."""
    graph = Graph("long_wave")
    y = graph.node(
        "Conv", graph.input(1, 1, 2 * MANY), graph.normal(4, 1, 5, spread=0.6), kernel_shape=[5], pads=[2, 2]
    )
    y = graph.node("MaxPool", graph.node("Relu", y), kernel_shape=[2], strides=[2])
    y = graph.node("LeakyRelu", graph.node("Sub", y, graph.number(0.5)), alpha=0.25)
    return graph.model(y, graph.node("ReduceMean", graph.node("Abs", y), axes=[1], keepdims=0))


def wide_images() -> onnx.ModelProto:
    """Whole images of more pixels than a lane holds are reduced and normalized."""
    graph = Graph("wide_images")
    x = graph.input(1, 2, 515, 260)
    y = graph.node("Add", graph.head(x, 2, 3), graph.number(1.0))
    mean, greatest = graph.node("GlobalAveragePool", y), graph.node("GlobalMaxPool", y)
    least = graph.node("ReduceMin", x, axes=[1, 2, 3], keepdims=0)
    spread = graph.node("ReduceMean", graph.node("Abs", x), axes=[2, 3, 1], keepdims=0)
    normal = graph.node(
        "InstanceNormalization", graph.reshape(x, 1, 1, -1), graph.between(1, 1, 1), graph.between(0, 0, 1)
    )
    return graph.model(mean, greatest, least, spread, graph.reshape(normal, 1, 2, 515, 260))


EXTENTS: dict[str, Callable[[], onnx.ModelProto]] = {
    function.__name__: function for function in (many_boxes, long_wave, wide_images)
}
