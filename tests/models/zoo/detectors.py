"""Networks that find things in images, with the decoding that exporters leave in the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.models.zoo.graph import Graph


def anchors() -> onnx.ModelProto:
    """SiLU, a pyramid of poolings, and boxes decoded over five dimensions."""
    graph = Graph("anchors")

    def conv(x: str, source: int, target: int, kernel: int = 1, stride: int = 1, pad: int | None = None) -> str:
        return graph.conv(x, source, target, kernel, stride, pad=pad, then="SiLU")

    y = conv(conv(graph.input(1, 3, 96, 96), 3, 16, 6, 2, 2), 16, 32, 3, 2)
    left, right = conv(y, 32, 16), conv(y, 32, 16)
    left = graph.node("Add", left, conv(conv(left, 16, 16), 16, 16, 3))
    fine = conv(graph.concat(left, right), 32, 32)
    coarse = conv(conv(fine, 32, 64, 3, 2), 64, 32)
    once = graph.max_pool(coarse, 5, 1, 2)
    coarse = conv(graph.concat(coarse, once, graph.max_pool(once, 5, 1, 2)), 96, 64)
    fine = conv(graph.concat(graph.twice_as_large(conv(coarse, 64, 32)), fine), 64, 32, 3)
    return graph.model(graph.concat(_boxes(graph, fine, 32, 24, 4), _boxes(graph, coarse, 64, 12, 8)))


def _boxes(graph: Graph, x: str, channels: int, size: int, stride: int) -> str:
    y = graph.reshape(graph.head(x, channels, 27), 1, 3, 9, size, size)
    y = graph.node("Sigmoid", graph.permute(y, 0, 1, 3, 4, 2))
    center, extent, rest = graph.nodes_of("Split", [y, graph.integers(2, 2, 5)], 3, axis=4)
    cells = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1)[None, None].astype(np.float32) - 0.5
    center = graph.node("Add", graph.node("Mul", center, graph.number(2)), graph.constant(cells))
    center = graph.node("Mul", center, graph.number(stride))
    extent = graph.node("Pow", graph.node("Mul", extent, graph.number(2)), graph.number(2))
    extent = graph.node("Mul", extent, graph.between(5, 40, 1, 3, 1, 1, 2))
    return graph.reshape(graph.concat(center, extent, rest, axis=4), 1, -1, 9)


def single_shot() -> onnx.ModelProto:
    """Boxes and classes of two resolutions, their channels put last."""
    graph = Graph("single_shot")
    y = graph.conv(graph.input(1, 3, 64, 64), 3, 32, 3, 2, then="Relu6")
    fine = graph.conv(graph.conv(y, 32, 32, 3, 2, group=32, then="Relu6"), 32, 64, 1, then="Relu6")
    levels = (fine, graph.conv(fine, 64, 64, 3, 2, then="Relu6"))

    def rows(target: int, width: int) -> str:
        parts = [graph.permute(graph.head(level, 64, target, 3), 0, 2, 3, 1) for level in levels]
        return graph.concat(*(graph.reshape(part, 1, -1, width) for part in parts))

    return graph.model(rows(12, 4), graph.node("Softmax", rows(9, 3), axis=2))


def peaks() -> onnx.ModelProto:
    """Two resolutions added, and a heat map of which only what is above 0.47 remains.

    No logit on a grid of integers lies there, as 0 does for one half.
    """
    graph = Graph("peaks")
    fine = graph.conv(graph.input(1, 3, 64, 96), 3, 32, 3, 4, pad=1)
    coarse = graph.head(graph.conv(fine, 32, 64, 3, 2), 64, 32)
    fine = graph.node("Add", graph.head(fine, 32, 32), graph.twice_as_large(coarse))
    heat = graph.head(fine, 32, 2, 3, then="Sigmoid")
    highest = graph.node("Cast", graph.node("Greater", heat, graph.number(0.47)), to=1)
    sizes = graph.node("Exp", graph.node("Mul", graph.head(coarse, 32, 4, 3), graph.number(0.5)))
    return graph.model(graph.node("Mul", heat, highest), sizes)


DETECTORS: dict[str, Callable[[], onnx.ModelProto]] = {one.__name__: one for one in (anchors, single_shot, peaks)}
