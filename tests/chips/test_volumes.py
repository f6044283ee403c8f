"""Convolutions of volumes whose depths become channels: networks beside ONNX Runtime."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session
from tpuc_ops import tpu

from tests.families import each

onnxruntime = pytest.importorskip("onnxruntime")

LIMITS = {"f16": 4e-3, "bf16": 3e-2, "int8": 0.06}
"""Largest error by the largest value."""
MODES = [("bm1684x", "f16"), ("bm1684x", "int8")]
OTHERS = [("bm1688", "int8"), ("cv183x", "bf16"), ("cv183x", "int8")]
PLAIN: dict[str, Any] = {"pads": [1] * 6}
NETWORKS: list[tuple[tuple[int, ...], int, int, dict[str, Any]]] = [
    ((1, 3, 5, 9, 11), 7, 3, PLAIN),
    ((2, 2, 4, 6, 7), 9, 3, {"pads": [1, 1, 0, 0, 1, 2], "strides": [2, 1, 2]}),
    ((3, 1, 6, 8, 5), 5, 2, {"pads": [2, 0, 1, 1, 0, 1], "dilations": [2, 1, 1]}),
    ((1, 4, 3, 7, 30), 12, 3, {"pads": [2, 1, 1, 2, 1, 1], "strides": [1, 2, 1]}),
    ((2, 5, 4, 10, 6), 20, 2, {}),
]
"""Shape of the input, channels of the result, extent of the window, and attributes of the first convolution."""


def write(path: Path, shape: tuple[int, ...], outputs: int, side: int, attributes: dict[str, Any]) -> list[str]:
    """A convolution of volumes inside a network, then another one as its last op."""
    random = np.random.default_rng(outputs)

    def weight(name: str, *dims: int) -> Any:
        return numpy_helper.from_array(random.normal(0, 0.3, dims).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "a", "b"], ["one"], **attributes),
        helper.make_node("Relu", ["one"], ["inner"]),
        helper.make_node("Conv", ["inner", "c"], ["y"], pads=[1] * 6),
    ]
    kept = [weight("a", outputs, shape[1], *[side] * 3), weight("b", outputs), weight("c", 6, outputs, 3, 3, 3)]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    ends += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("inner", "y")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return ["inner", "y"]


@each(("network", "case"), [*product(NETWORKS, MODES), *product(NETWORKS[:1], OTHERS)])
def test_networks_of_volumes_equal_onnx_runtime(
    network: tuple[tuple[int, ...], int, int, dict[str, Any]], case: tuple[str, str], tmp_path: Path
) -> None:
    shape, (chip, mode), path = network[0], case, tmp_path / "net.onnx"
    names = write(path, *network)
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    wanted = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(names, {"x": x})
    session = Session(chip=chip, quantize=mode)
    module = session.transform(path)
    np.savez(tmp_path / "samples.npz", x=x)
    table = None
    if mode == "int8":
        options = {"tune_num": 0, "bias_num": 0}
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", method="max", options=options)
    built = session.build(module, table)
    assert not [one for one in built.module.main.operations if isinstance(one.op, tpu.Slice) and one.name[:4] == "one_"]
    got = session.chip.load(built.data).run({"x": x})  # hazards are errors
    for value, true in zip(got.values(), wanted, strict=True):
        assert np.abs(value.reshape(true.shape) - true).max() <= LIMITS[mode] * np.abs(true).max()
