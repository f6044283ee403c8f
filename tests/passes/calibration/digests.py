"""Digests of calibration tables and compiled files of small networks, in a process whose environment chooses kernels.

`python -m tests.passes.calibration.digests NAME.CHIP.MODE ...` prints one line each.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

SAMPLES = 6


class Graph:
    """Nodes and weights, one after the other; each node reads the result of the one before."""

    def __init__(self, *shape: int) -> None:
        self.random = np.random.default_rng(3)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.shape = shape
        self.last = "x"

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        array = self.random.standard_normal(shape) * scale / np.sqrt(max(np.prod(shape[1:]), 1))
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def constant(self, values: Sequence[int]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def op(self, kind: str, *rest: str, first: str | None = None, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.last if first is None else first, *rest], [name], **attributes))
        self.last = name
        return name

    def write(self, path: Path) -> None:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "network",
            [value("x", TensorProto.FLOAT, self.shape)],
            [value(self.last, TensorProto.FLOAT, None)],
            self.weights,
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def convolutions() -> Graph:
    graph = Graph(1, 3, 20, 20)
    graph.op("Conv", graph.weight(24, 3, 3, 3), graph.weight(24), strides=[2, 2], pads=[1, 1, 1, 1])
    graph.op("Relu")
    graph.op("Conv", graph.weight(24, 24, 3, 3), graph.weight(24), pads=[1, 1, 1, 1])
    graph.op("Relu")
    graph.op("ConvTranspose", graph.weight(24, 8, 2, 2, scale=2), graph.weight(8), strides=[2, 2])
    graph.op("GlobalAveragePool")
    graph.op("Flatten")
    graph.op("Gemm", graph.weight(10, 8), graph.weight(10), transB=1)
    graph.op("Softmax")
    return graph


def depthwise() -> Graph:
    graph = Graph(1, 3, 20, 20)
    graph.op("Conv", graph.weight(16, 3, 3, 3), graph.weight(16), pads=[1, 1, 1, 1])
    gate = graph.last
    graph.op("Mul", graph.op("Sigmoid"), first=gate)
    graph.op("Conv", graph.weight(16, 1, 5, 5), graph.weight(16), group=16, pads=[2, 2, 2, 2])
    graph.op("HardSwish")
    graph.op("Conv", graph.weight(32, 16, 1, 1), graph.weight(32))
    graph.op("Elu")
    graph.op("Conv", graph.weight(6, 32, 3, 3), graph.weight(6))
    return graph


def attention() -> Graph:
    graph = Graph(1, 12, 32)
    source = graph.last
    query, key, value = (graph.op("MatMul", graph.weight(32, 32, scale=2), first=source) for _ in range(3))
    graph.op("MatMul", graph.op("Transpose", first=key, perm=[0, 2, 1]), first=query)
    graph.op("Softmax", axis=-1)
    graph.op("MatMul", value)
    graph.op("Add", source)
    hidden = graph.op("MatMul", graph.weight(32, 64, scale=2))
    graph.op("Tanh", first=hidden)
    graph.op("MatMul", graph.weight(64, 4))
    return graph


def recurrent() -> Graph:
    graph = Graph(6, 1, 12)
    hidden = 16
    graph.op("GRU", graph.weight(1, 3 * hidden, 12), graph.weight(1, 3 * hidden, hidden), hidden_size=hidden)
    graph.op("Reshape", graph.constant([6, 1, hidden]))
    graph.op("LSTM", graph.weight(1, 4 * hidden, hidden), graph.weight(1, 4 * hidden, hidden), hidden_size=hidden)
    graph.op("Reshape", graph.constant([6, hidden]))
    graph.op("Gemm", graph.weight(5, hidden), graph.weight(5), transB=1)
    return graph


NETWORKS: Mapping[str, Callable[[], Graph]] = {
    one.__name__: one for one in (convolutions, depthwise, attention, recurrent)
}


def samples(graph: Graph, folder: Path) -> Path:
    """The file with the calibration samples of a network."""
    random = np.random.default_rng(5)
    path = folder / "samples.npz"
    np.savez(path, x=random.standard_normal((SAMPLES, *graph.shape)).astype(np.float32))
    return path


def digests(case: str, folder: Path) -> list[str]:
    """Of the table, where there is one, and of the file."""
    name, chip, mode = case.split(".")
    graph = NETWORKS[name]()
    graph.write(folder / "network.onnx")
    session = Session(chip=chip, quantize=mode)
    module = session.transform(folder / "network.onnx")
    table: Any = None
    found: list[str] = []
    if mode == "int8":
        table = session.calibrate(module, dataset=samples(graph, folder))
        table.write(folder / "table")
        found.append(hashlib.sha256((folder / "table").read_bytes()).hexdigest()[:16])
    return [*found, hashlib.sha256(session.build(module, table).data).hexdigest()[:16]]


def main() -> None:
    for case in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(" ".join([case, *digests(case, Path(folder))]) + "\n")


if __name__ == "__main__":
    main()
