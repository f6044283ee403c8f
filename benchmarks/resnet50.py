"""ResNet-50 in ONNX with deterministic random weights (the topology of torchvision's v1.5, batch norm unfolded).

python benchmarks/resnet50.py OUT.onnx [BATCH]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 20
STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # blocks, width, stride of the first block
EXPANSION = 4


class _Graph:
    """Nodes and weights; activations keep a spread near 1 through He initialization and batch norm."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(SEED)

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x: str, name: str, channels: tuple[int, int], kernel: int, stride: int = 1) -> str:
        """Convolution and batch norm; channels are (in, out)."""
        source, target = channels
        spread = np.sqrt(2 / (source * kernel * kernel))
        filters = self.random.normal(0, spread, (target, source, kernel, kernel))
        pads = [(kernel - 1) // 2] * 4
        y = self.node(
            "Conv",
            [x, self.weight(f"{name}.weight", filters)],
            f"{name}.conv",
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=pads,
        )
        parameters = {
            "scale": self.random.uniform(0.5, 1.0, target),
            "shift": self.random.normal(0, 0.1, target),
            "mean": self.random.normal(0, 0.1, target),
            "variance": self.random.uniform(0.8, 1.2, target),
        }
        names = [self.weight(f"{name}.{key}", value) for key, value in parameters.items()]
        return self.node("BatchNormalization", [y, *names], f"{name}.norm", epsilon=1e-5)

    def block(self, x: str, name: str, source: int, width: int, stride: int) -> str:
        """A bottleneck with its shortcut."""
        y = self.node("Relu", [self.conv(x, f"{name}.a", (source, width), 1)], f"{name}.a.relu")
        y = self.node("Relu", [self.conv(y, f"{name}.b", (width, width), 3, stride)], f"{name}.b.relu")
        y = self.conv(y, f"{name}.c", (width, width * EXPANSION), 1)
        if source != width * EXPANSION or stride != 1:
            x = self.conv(x, f"{name}.shortcut", (source, width * EXPANSION), 1, stride)
        return self.node("Relu", [self.node("Add", [y, x], f"{name}.add")], f"{name}.relu")


def build(batch: int = 1) -> onnx.ModelProto:
    """The model, input `data: [batch, 3, 224, 224]`, output `prob: [batch, 1000]`."""
    graph = _Graph()
    x = graph.node("Relu", [graph.conv("data", "stem", (3, 64), 7, 2)], "stem.relu")
    x = graph.node("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    source = 64
    for stage, (blocks, width, stride) in enumerate(STAGES, 1):
        for index in range(blocks):
            x = graph.block(x, f"layer{stage}.{index}", source, width, stride if index == 0 else 1)
            source = width * EXPANSION
    x = graph.node("GlobalAveragePool", [x], "pool")
    x = graph.node("Flatten", [x], "flat", axis=1)
    head = graph.weight("head.weight", graph.random.normal(0, np.sqrt(1 / source), (1000, source)))
    bias = graph.weight("head.bias", graph.random.normal(0, 0.1, 1000))
    x = graph.node("Gemm", [x, head, bias], "logits", transB=1)
    graph.node("Softmax", [x], "prob", axis=1)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("data", [batch, 3, 224, 224]), ("prob", [batch, 1000]))
    ]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "resnet50", ends[:1], ends[1:], graph.weights),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    model.ir_version = 8
    return model


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(build(int(sys.argv[2]) if len(sys.argv) > 2 else 1).SerializeToString())
