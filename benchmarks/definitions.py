"""MobileNetV2 and YOLOv5s in ONNX with deterministic random weights; ResNet-50 has a file of its own.

python benchmarks/definitions.py NAME OUT.onnx [BATCH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import resnet50

SEED = 21
MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, stride of the first block."""
ANCHORS, CLASSES = 3, 80


class Graph:
    """Nodes and weights; He initialization keeps activations near a spread of 1."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels: dict[str, int] = {}
        self._random = np.random.default_rng(SEED)

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, channels: int, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x: str, name: str, target: int, kernel: int = 1, stride: int = 1, *, depthwise: bool = False) -> str:
        source = self.channels[x]
        fan = 1 if depthwise else source
        spread = np.sqrt(2 / (fan * kernel * kernel))
        filters = self._random.normal(0, spread, (target, fan, kernel, kernel)).astype(np.float32)
        bias = self._random.normal(0, 0.1, target).astype(np.float32)
        names = [self.weight(f"{name}.weight", filters), self.weight(f"{name}.bias", bias)]
        pads = [(6 if kernel == 6 else kernel) // 2 - (kernel == 6)] * 4
        group = target if depthwise else 1
        return self.node(
            "Conv", [x, *names], name, target,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group,
        )  # fmt: skip

    def model(self, name: str, inputs: dict[str, list[int]], outputs: dict[str, list[int]]) -> onnx.ModelProto:
        ends = [
            [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in side.items()]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, name, ends[0], ends[1], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        return model


def mobilenet_v2(batch: int = 1) -> onnx.ModelProto:
    """Width 1.0, 224 x 224, batch norm folded: input `data`, output `logits: [batch, 1000]`."""
    graph = Graph()
    graph.channels["data"] = 3

    def act(x: str) -> str:
        low, high = (graph.weight(f"{x}.{word}", np.float32(value)) for word, value in (("low", 0.0), ("high", 6.0)))
        return graph.node("Clip", [x, low, high], f"{x}.relu6", graph.channels[x])

    x = act(graph.conv("data", "stem", 32, 3, 2))
    for stage, (expansion, width, blocks, first) in enumerate(MOBILENET_STAGES):
        for block in range(blocks):
            name, stride, source = f"stage{stage}.{block}", first if block == 0 else 1, graph.channels[x]
            y = x if expansion == 1 else act(graph.conv(x, f"{name}.expand", source * expansion))
            y = act(graph.conv(y, f"{name}.depthwise", graph.channels[y], 3, stride, depthwise=True))
            y = graph.conv(y, f"{name}.project", width)
            x = graph.node("Add", [x, y], f"{name}.add", width) if stride == 1 and source == width else y
    x = act(graph.conv(x, "head", 1280))
    x = graph.node("GlobalAveragePool", [x], "pool", 1280)
    x = graph.node("Flatten", [x], "flat", 1280, axis=1)
    random = np.random.default_rng(SEED + 1)
    weight = graph.weight("classes.weight", random.normal(0, 0.03, (1000, 1280)).astype(np.float32))
    bias = graph.weight("classes.bias", random.normal(0, 0.1, 1000).astype(np.float32))
    graph.node("Gemm", [x, weight, bias], "logits", 1000, transB=1)
    return graph.model("mobilenet_v2", {"data": [batch, 3, 224, 224]}, {"logits": [batch, 1000]})


def yolov5s(batch: int = 1, size: int = 640) -> onnx.ModelProto:
    """YOLOv5s 6.0 up to its three heads, SiLU as Sigmoid and Mul: input `images`, outputs `head0` to `head2`."""
    graph = Graph()
    graph.channels["images"] = 3

    def conv(x: str, name: str, target: int, kernel: int = 1, stride: int = 1) -> str:
        y = graph.conv(x, name, target, kernel, stride)
        gate = graph.node("Sigmoid", [y], f"{name}.sigmoid", target)
        return graph.node("Mul", [y, gate], f"{name}.silu", target)

    def concat(parts: list[str], name: str) -> str:
        return graph.node("Concat", parts, name, sum(graph.channels[part] for part in parts), axis=1)

    def c3(x: str, name: str, target: int, depth: int, *, shortcut: bool = True) -> str:
        half = target // 2
        y = conv(x, f"{name}.cv1", half)
        for index in range(depth):
            z = conv(conv(y, f"{name}.m{index}.cv1", half), f"{name}.m{index}.cv2", half, 3)
            y = graph.node("Add", [y, z], f"{name}.m{index}.add", half) if shortcut else z
        return conv(concat([y, conv(x, f"{name}.cv2", half)], f"{name}.cat"), f"{name}.cv3", target)

    def upsample(x: str, name: str) -> str:
        scales = graph.weight(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return graph.node("Resize", [x, "", scales], name, graph.channels[x], **modes)

    x = conv(conv("images", "b0", 32, 6, 2), "b1", 64, 3, 2)
    x = conv(c3(x, "b2", 64, 1), "b3", 128, 3, 2)
    p3 = c3(x, "b4", 128, 2)
    p4 = c3(conv(p3, "b5", 256, 3, 2), "b6", 256, 3)
    x = c3(conv(p4, "b7", 512, 3, 2), "b8", 512, 1)
    pooled = [conv(x, "b9.cv1", 256)]
    for index in range(3):
        attributes = {"kernel_shape": [5, 5], "strides": [1, 1], "pads": [2, 2, 2, 2]}
        pooled.append(graph.node("MaxPool", [pooled[-1]], f"b9.pool{index}", 256, **attributes))
    n10 = conv(conv(concat(pooled, "b9.cat"), "b9.cv2", 512), "n10", 256)
    n13 = c3(concat([upsample(n10, "n11"), p4], "n12"), "n13", 256, 1, shortcut=False)
    n14 = conv(n13, "n14", 128)
    d3 = c3(concat([upsample(n14, "n15"), p3], "n16"), "n17", 128, 1, shortcut=False)
    d4 = c3(concat([conv(d3, "n18", 128, 3, 2), n14], "n19"), "n20", 256, 1, shortcut=False)
    d5 = c3(concat([conv(d4, "n21", 256, 3, 2), n10], "n22"), "n23", 512, 1, shortcut=False)
    outputs: dict[str, list[int]] = {}
    for index, x in enumerate((d3, d4, d5)):
        y = graph.conv(x, f"detect{index}", ANCHORS * (CLASSES + 5))
        side = size >> 3 + index
        shape = graph.weight(f"detect{index}.shape", np.array([batch, ANCHORS, CLASSES + 5, side, side], np.int64))
        y = graph.node("Reshape", [y, shape], f"detect{index}.split", ANCHORS)
        graph.node("Transpose", [y], f"head{index}", ANCHORS, perm=[0, 1, 3, 4, 2])
        outputs[f"head{index}"] = [batch, ANCHORS, side, side, CLASSES + 5]
    return graph.model("yolov5s", {"images": [batch, 3, size, size]}, outputs)


DEFINITIONS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "resnet50": resnet50.build,
    "mobilenet_v2": mobilenet_v2,
    "yolov5s": yolov5s,
}


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(
        DEFINITIONS[sys.argv[1]](int(sys.argv[3]) if len(sys.argv) > 3 else 1).SerializeToString()
    )
