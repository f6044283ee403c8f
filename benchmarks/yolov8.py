"""Networks with the topology of YOLOv8n as `yolo export format=onnx` writes it, with random weights.

python benchmarks/yolov8.py OUT.onnx [SIZE] [detect|segment|pose|classify]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 8
CLASSES = 80
BINS = 16
"""Of the distribution that says how far an edge of a box is."""
MASKS, POINTS = 32, 17
"""Coefficients of an object's mask, and the joints of a person."""
TASKS = ("detect", "segment", "pose", "classify")

Value = tuple[str, int]
"""A tensor of the network and its channels."""


class _Graph:
    """Nodes and weights of a fully convolutional network; batch norms are folded, as an export folds them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(SEED)

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.nodes_of(kind, inputs, 1, **attributes)[0]

    def nodes_of(self, kind: str, inputs: Sequence[str], results: int, **attributes: Any) -> list[str]:
        """The names of several results of a node."""
        base = f"{kind.lower()}_{len(self.nodes)}"
        names = [f"{base}_{number}" for number in range(results)] if results > 1 else [base]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=base, **attributes))
        return names

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(array, dtype), name))
        return name

    def plain(self, x: Value, channels: int, kernel: int = 1, stride: int = 1) -> Value:
        """A convolution without activation."""
        filters = self.random.normal(0, np.sqrt(2 / (x[1] * kernel**2)), (channels, x[1], kernel, kernel))
        weights = [self.constant(filters), self.constant(self.random.normal(0, 0.1, channels))]
        pads, strides, shape = [kernel // 2] * 4, [stride] * 2, [kernel] * 2
        return self.node("Conv", [x[0], *weights], kernel_shape=shape, strides=strides, pads=pads), channels

    def conv(self, x: Value, channels: int, kernel: int = 3, stride: int = 1) -> Value:
        """A convolution and SiLU."""
        y = self.plain(x, channels, kernel, stride)[0]
        return self.node("Mul", [y, self.node("Sigmoid", [y])]), channels

    def concat(self, values: Sequence[Value], axis: int = 1) -> Value:
        return self.node("Concat", [name for name, _ in values], axis=axis), sum(count for _, count in values)

    def blocks(self, x: Value, channels: int, count: int, *, shortcut: bool = True) -> Value:
        """Convolutions on one half of the channels, all of whose results are joined."""
        half = channels // 2
        y = self.conv(x, channels, 1)[0]
        parts = self.nodes_of("Split", [y, self.constant([half, half], np.int64)], 2, axis=1)
        values = [(part, half) for part in parts]
        for _ in range(count):
            last = values[-1]
            z = self.conv(self.conv(last, half), half)
            values.append((self.node("Add", [last[0], z[0]]), half) if shortcut else z)
        return self.conv(self.concat(values), channels, 1)

    def pooled(self, x: Value) -> Value:
        """Maxima of growing windows."""
        values = [self.conv(x, x[1] // 2, 1)]
        for _ in range(3):
            last = values[-1]
            pool = self.node("MaxPool", [last[0]], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
            values.append((pool, last[1]))
        return self.conv(self.concat(values), x[1], 1)

    def larger(self, x: Value) -> Value:
        scales = self.constant([1, 1, 2, 2])
        mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", [x[0], "", scales], **mode), x[1]

    def shaped(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", [x, self.constant(shape, np.int64)])


def _backbone(graph: _Graph) -> tuple[Value, Value, Value]:
    """Features of the picture at strides 8, 16 and 32."""
    x = graph.conv(graph.conv(("images", 3), 16, 3, 2), 32, 3, 2)
    x = graph.conv(graph.blocks(x, 32, 1), 64, 3, 2)
    fine = graph.blocks(x, 64, 2)
    middle = graph.blocks(graph.conv(fine, 128, 3, 2), 128, 2)
    return fine, middle, graph.blocks(graph.conv(middle, 256, 3, 2), 256, 1)


def _trunk(graph: _Graph) -> tuple[Value, Value, Value]:
    """Features at the same strides, each of which has seen the others."""
    fine, middle, last = _backbone(graph)
    coarse = graph.pooled(last)
    up = graph.blocks(graph.concat([graph.larger(coarse), middle]), 128, 1, shortcut=False)
    first = graph.blocks(graph.concat([graph.larger(up), fine]), 64, 1, shortcut=False)
    second = graph.blocks(graph.concat([graph.conv(first, 64, 3, 2), up]), 128, 1, shortcut=False)
    third = graph.blocks(graph.concat([graph.conv(second, 128, 3, 2), coarse]), 256, 1, shortcut=False)
    return first, second, third


def _rows(graph: _Graph, features: Sequence[Value], *branches: tuple[int, int]) -> str:
    """What convolutions give at all places; a branch is the channels inside and those of its result."""
    rows: list[Value] = []
    for x in features:
        parts = [graph.plain(graph.conv(graph.conv(x, inner), inner), outer) for inner, outer in branches]
        both = graph.concat(parts) if len(parts) > 1 else parts[0]
        rows.append((graph.shaped(both[0], [1, both[1], -1]), both[1]))
    return graph.concat(rows, axis=2)[0]


def _short_trunk(graph: _Graph) -> tuple[Value, Value, Value]:
    """Features at the same strides by a convolution each, for tests."""
    fine = graph.conv(graph.conv(graph.conv(("images", 3), 16, 3, 2), 32, 3, 2), 64, 3, 2)
    middle = graph.conv(fine, 128, 3, 2)
    return fine, middle, graph.conv(middle, 256, 3, 2)


def _head(graph: _Graph, features: Sequence[Value], size: int, classes: int) -> str:
    """Boxes and scores of all places: 4 + classes rows."""
    joined = _rows(graph, features, (4 * BINS, 4 * BINS), (CLASSES, classes))
    sizes = graph.constant([4 * BINS, classes], np.int64)
    box, score = graph.nodes_of("Split", [joined, sizes], 2, axis=1)
    return graph.node("Concat", [_boxes(graph, box, size), graph.node("Sigmoid", [score])], axis=1)


def _grid(size: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The center of every place in steps of its stride, and the stride."""
    sides = [size // stride for stride in (8, 16, 32)]
    grids = [np.stack(np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5)).reshape(2, -1) for n in sides]
    return np.concatenate(grids, 1), np.concatenate([np.full(n * n, size // n) for n in sides])


def _boxes(graph: _Graph, box: str, size: int) -> str:
    """Center and extent in pixels, from the distributions of four distances."""
    anchors, strides = _grid(size)
    places = strides.size
    bins = graph.node("Transpose", [graph.shaped(box, [1, 4, BINS, places])], perm=[0, 2, 1, 3])
    means = graph.constant(np.arange(BINS).reshape(1, BINS, 1, 1))
    distances = graph.shaped(graph.node("Conv", [graph.node("Softmax", [bins], axis=1), means]), [1, 4, places])
    halves = graph.constant([2, 2], np.int64)
    low, high = graph.nodes_of("Split", [distances, halves], 2, axis=1)
    centers = graph.constant(anchors[None])
    start, end = graph.node("Sub", [centers, low]), graph.node("Add", [centers, high])
    center = graph.node("Div", [graph.node("Add", [start, end]), graph.constant(2.0)])
    return graph.node(
        "Mul",
        [graph.concat([(center, 2), (graph.node("Sub", [end, start]), 2)])[0], graph.constant(strides[None, None])],
    )


def _joints(graph: _Graph, rows: str, size: int) -> str:
    """Places in pixels, and how visible they are."""
    anchors, strides = _grid(size)
    joints = graph.shaped(rows, [1, POINTS, 3, strides.size])
    place, seen = graph.nodes_of("Split", [joints, graph.constant([2, 1], np.int64)], 2, axis=2)
    doubled = graph.node("Mul", [place, graph.constant(2.0)])
    moved = graph.node("Add", [doubled, graph.constant(anchors[None, None] - 0.5)])
    pixels = graph.node("Mul", [moved, graph.constant(strides[None, None, None])])
    both = graph.node("Concat", [pixels, graph.node("Sigmoid", [seen])], axis=2)
    return graph.shaped(both, [1, 3 * POINTS, strides.size])


def _masks(graph: _Graph, fine: Value) -> str:
    """Masks that those of objects are sums of, at a quarter of the size."""
    x = graph.conv(fine, 64)
    filters = graph.constant(graph.random.normal(0, 0.1, (64, 64, 2, 2)))
    larger = graph.node("ConvTranspose", [x[0], filters], kernel_shape=[2, 2], strides=[2, 2])
    return graph.conv(graph.conv((larger, 64), 64), MASKS, 1)[0]


def _classes(graph: _Graph, last: Value) -> str:
    pooled = graph.node("GlobalAveragePool", [graph.conv(last, 1280, 1)[0]])
    weights = graph.constant(graph.random.normal(0, 0.05, (1280, 1000)))
    return graph.node("Softmax", [graph.node("MatMul", [graph.node("Flatten", [pooled]), weights])], axis=1)


def _results(graph: _Graph, size: int, task: str, *, is_short: bool) -> list[str]:
    if task == "classify":
        return [_classes(graph, (_short_trunk if is_short else _backbone)(graph)[2])]
    features = (_short_trunk if is_short else _trunk)(graph)
    found = _head(graph, features, size, 1 if task == "pose" else CLASSES)
    if task == "detect":
        return [found]
    if task == "pose":
        joints = _joints(graph, _rows(graph, features, (3 * POINTS, 3 * POINTS)), size)
        return [graph.node("Concat", [found, joints], axis=1)]
    rows = graph.node("Concat", [found, _rows(graph, features, (MASKS, MASKS))], axis=1)
    return [rows, _masks(graph, features[0])]


def build(size: int = 640, task: str = "detect", *, is_short: bool = False) -> onnx.ModelProto:
    """The network for square images; with the same outputs and few layers if it `is_short`."""
    graph = _Graph()
    results = _results(graph, size, task, is_short=is_short)
    names = [f"output{number}" for number in range(len(results))]
    graph.nodes += [helper.make_node("Identity", [one], [name]) for one, name in zip(results, names, strict=True)]
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, size, size])]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    made = helper.make_graph(graph.nodes, "main_graph", inputs, outputs, graph.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    return model


def main(arguments: Sequence[str]) -> None:
    """Write the file."""
    target, *rest = arguments
    size, task = int(rest[0]) if rest else 640, rest[1] if rest[1:] else TASKS[0]
    Path(target).write_bytes(build(size, task).SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(sys.argv[1:])
