"""Group normalization as exporters write it, between reshapes that join groups: numpy's numbers, in local memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
CASES = {
    "one group": ((1, 24, 9, 7), 1, "f16"),
    "four groups": ((1, 32, 6, 5), 4, "f16"),
    "batches": ((2, 32, 4, 4), 2, "f32"),
    "rows": ((1, 20, 50), 5, "f16"),
    "too few channels": ((1, 4, 12, 12), 2, "f16"),
}
LIMITS = {"f16": 4e-3, "f32": 3e-6}


def model(shape: tuple[int, ...], groups: int, factors: Array, offsets: Array) -> bytes:
    """Relu, the joined groups normalized, and factors and offsets per channel."""
    constants = {
        "joined": np.array([shape[0], groups, -1], np.int64),
        "apart": np.array(shape, np.int64),
        "ones": np.ones(groups, np.float32),
        "zeros": np.zeros(groups, np.float32),
        "factors": factors,
        "offsets": offsets,
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["v"]),
        helper.make_node("Reshape", ["v", "joined"], ["groups"]),
        helper.make_node("InstanceNormalization", ["groups", "ones", "zeros"], ["normal"], epsilon=1e-5),
        helper.make_node("Reshape", ["normal", "apart"], ["image"]),
        helper.make_node("Mul", ["image", "factors"], ["scaled"]),
        helper.make_node("Add", ["scaled", "offsets"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@each("name", list(CASES))
def test_groups_are_normalized_where_they_are(name: str, tmp_path: Path) -> None:
    shape, groups, mode = CASES[name]
    random = np.random.default_rng(3)
    per_channel = (shape[1], *[1] * (len(shape) - 2))
    factors, offsets = (random.uniform(0.5, 1.5, per_channel).astype(np.float32) for _ in range(2))
    path = tmp_path / "net.onnx"
    path.write_bytes(model(shape, groups, factors, offsets))
    session = Session(chip="bm1684x", quantize=mode)
    loaded = session.chip.load(session.build(session.transform(path)).data)
    x = random.uniform(-1, 2, shape).astype(np.float32)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    rows = np.maximum(x, 0).reshape(shape[0], groups, -1).astype(np.float64)
    centered = rows - rows.mean(-1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    wanted = normal.reshape(shape) * factors + offsets
    assert np.abs(got.reshape(shape) - wanted).max() <= LIMITS[mode] * np.abs(wanted).max()
    if name not in ("too few channels", "batches"):
        commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
        written = sum(loaded.ddr_bytes(command)[1] for command in commands)
        assert written <= wanted.size * 4 + 64 * shape[0] * shape[1], "only the result and means of channels"
