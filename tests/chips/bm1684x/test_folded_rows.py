"""Convolutions of few channels whose rows are folded into channels: numbers of the evaluation and of ONNX Runtime, and
cycles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Node
from tpuc.registry import Registry
from tpuc_bm1684x.kernels.deconv import DeconvKernel
from tpuc_bm1684x.kernels.depthwise import AnyConvKernel
from tpuc_bm1684x.kernels.folded_rows import FoldedRowsKernel
from tpuc_driver.session import Session
from tpuc_ops import tpu

from tests.chips.bm1684x.kernels import folded_samples
from tests.families import each

onnxruntime = pytest.importorskip("onnxruntime")

LIMITS = {"f16": 4e-3, "bf16": 3e-2, "int8": 0.06}
"""Largest error by the largest value."""
CHOICES = {tpu.Conv2D: AnyConvKernel(), tpu.Deconv: DeconvKernel()}
NETWORKS = [
    (1, 3, (16, 16, 5), (24, 20)),
    (2, 3, (16, 40, 8), (16, 70)),
    (3, 20, (7, 12, 16), (13, 9)),
    (1, 65, (16, 9, 2), (12, 31)),
]
"""Samples, channels, channels of the layers, rows and columns."""


def test_the_simulator_equals_the_evaluation() -> None:
    registry = Registry()
    compiled = folded_samples.compiled("bm1684x", registry)
    nodes = [Node.of(operation) for operation in compiled.module.main.operations if type(operation.op) in CHOICES]
    assert len(nodes) >= 2 * len(folded_samples.ALL)
    plain = [node.name for node in nodes if not isinstance(CHOICES[type(node.op)].kernel(node), FoldedRowsKernel)]
    assert not plain
    compiled.compare(registry.get("tpuc.chips", "bm1684x").load(compiled.data).run(compiled.inputs))


@each(("network", "mode"), [(network, mode) for network in NETWORKS for mode in LIMITS])
def test_networks_of_few_channels_equal_onnx_runtime(
    network: tuple[int, int, tuple[int, ...], tuple[int, int]], mode: str, tmp_path: Path
) -> None:
    n, channels, widths, sides = network
    random = np.random.default_rng(channels)
    weights = {
        "a": (widths[0], channels, 3, 3),
        "b": (widths[0], widths[1], 2, 2),
        "c": (widths[2], widths[1], 3, 3),
        "d": (widths[2], widths[2], 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["one"], pads=[1] * 4),
        helper.make_node("Relu", ["one"], ["inner"]),
        helper.make_node("ConvTranspose", ["inner", "b"], ["two"], strides=[2, 2]),
        helper.make_node("Conv", ["two", "c"], ["last"], strides=[2, 1], pads=[1] * 4),
        helper.make_node("Sigmoid", ["last"], ["y"]),
    ]
    kept = [
        numpy_helper.from_array(random.normal(0, shape[1] ** -0.5 / 2, shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    inner, last = (n, widths[0], *sides), (n, widths[2], sides[0], 2 * sides[1])
    shapes = {"x": (n, channels, *sides), "inner": inner, "last": last}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, last)
    graph = helper.make_graph(nodes, "net", ends[:1], [*ends[1:], y], kept)
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    x = random.uniform(-1, 1, shapes["x"]).astype(np.float32)
    names = ["inner", "last", "y"]
    wanted = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(names, {"x": x})
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    np.savez(tmp_path / "samples.npz", x=x)
    table = None
    if mode == "int8":
        options = {"tune_num": 0, "bias_num": 0}
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", method="max", options=options)
    with folded_samples.always_folded():
        data = session.build(module, table).data
    got = session.chip.load(data).run({"x": x})  # hazards are errors
    for value, true in zip(got.values(), wanted, strict=True):
        assert np.abs(value.reshape(true.shape) - true).max() <= LIMITS[mode] * np.abs(true).max()
