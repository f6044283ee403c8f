"""Networks whose values are joined and cut at channels in the middle of a row of lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 12


class _Net:
    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.random = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def conv(self, x: str, name: str, ic: int, oc: int) -> str:
        filters = self.random.normal(0, ic**-0.5, (oc, ic, 1, 1)).astype(np.float32)
        self.weights.append(numpy_helper.from_array(filters, f"{name}_w"))
        self.nodes.append(helper.make_node("Conv", [x, f"{name}_w"], [name], name=name, kernel_shape=[1, 1]))
        return name

    def indices(self, name: str, values: Sequence[int]) -> str:
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def model(self, name: str, output: str) -> bytes:
        ends = helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.batch, 8, SIZE, SIZE])
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, name, [ends], [result], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return model.SerializeToString()


def joined(channels: Sequence[int], *, batch: int = 1) -> bytes:
    """Convolutions with so many channels each, one after the other along the channels, and one that reads all."""
    net = _Net(batch)
    parts = [net.conv("x", f"part{index}", 8, count) for index, count in enumerate(channels)]
    net.nodes.append(helper.make_node("Concat", parts, ["moved"], name="moved", axis=1))
    return net.model("joined", net.conv("moved", "end", sum(channels), 16))


def stacked(axis: int) -> bytes:
    """Two convolutions one beside the other along rows (2) or columns (3)."""
    net = _Net(1)
    parts = [net.conv("x", f"part{index}", 8, 72) for index in range(2)]
    net.nodes.append(helper.make_node("Concat", parts, ["moved"], name="moved", axis=axis))
    return net.model("stacked", net.conv("moved", "end", 72, 16))


def cut(start: Sequence[int], stop: Sequence[int], steps: Sequence[int]) -> bytes:
    """A convolution of 160 channels, a part of it (channels, rows, columns), and one that reads that."""
    net = _Net(1)
    whole = net.conv("x", "whole", 8, 160)
    fields = [net.indices(name, values) for name, values in zip("seat", (start, stop, (1, 2, 3), steps), strict=True)]
    net.nodes.append(helper.make_node("Slice", [whole, *fields], ["moved"], name="moved"))
    return net.model("cut", net.conv("moved", "end", stop[0] - start[0], 16))


def padded(before: int, behind: int) -> bytes:
    """A convolution with channels of 0 before and behind it, and a border, and one that reads that."""
    net = _Net(1)
    whole = net.conv("x", "whole", 8, 80)
    pads = net.indices("pads", (0, before, 1, 0, 0, behind, 0, 2))
    net.nodes.append(helper.make_node("Pad", [whole, pads], ["moved"], name="moved"))
    return net.model("padded", net.conv("moved", "end", before + 80 + behind, 16))


NETWORKS = {
    "32+32": joined((32, 32)),
    "24+40": joined((24, 40)),
    "96+32": joined((96, 32)),
    "40+100+20": joined((40, 100, 20)),
    "batches": joined((24, 72), batch=3),
    "rows": stacked(2),
    "columns": stacked(3),
    "channels 40 to 72": cut((40, 0, 0), (72, SIZE, SIZE), (1, 1, 1)),
    "channels 64 to 160": cut((64, 0, 0), (160, SIZE, SIZE), (1, 1, 1)),
    "inside": cut((64, 1, 2), (128, 11, 9), (1, 1, 1)),
    "channels before": padded(20, 0),
    "channels around": padded(40, 30),
    "every other place": cut((30, 0, 1), (100, SIZE, SIZE), (1, 2, 2)),
}
