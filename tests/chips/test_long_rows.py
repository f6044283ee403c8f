"""Rows of as many classes as a character recognizer for Chinese has, which no lane holds at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

CLASSES = 18385
"""5 * 3677: distributed over lanes without gaps, columns are 3,677 wide."""


def _network(folder: Path, operator: str) -> tuple[Path, np.ndarray[tuple[int, ...], np.dtype[np.float64]], Path]:
    """The file, the exact result, and the file of the input."""
    random, matrix = np.random.default_rng(5), []
    if operator == "Softmax":
        x = random.normal(0, 3, (1, 2, CLASSES)).astype(np.float32)
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        wanted = powers / powers.sum(-1, keepdims=True)
        node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    else:
        x, right = (random.normal(size=shape).astype(np.float32) for shape in ((1, 40, 120), (120, CLASSES)))
        matrix, wanted = [numpy_helper.from_array(right, "w")], x.astype(np.float64) @ right
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [helper.make_tensor_value_info(*one) for one in (("x", TensorProto.FLOAT, x.shape), ("y", 1, wanted.shape))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], matrix)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    np.save(folder / "x.npy", x)
    return folder / "net.onnx", wanted, folder / "x.npy"


@each(
    ("chip", "mode", "operator", "decibels"),
    [("bm1684x", "f16", "Softmax", 100), ("cv186x", "f16", "Softmax", 100), ("cv181x", "bf16", "MatMul", 45)],
)
def test_rows_longer_than_a_lane(chip: str, mode: str, operator: str, decibels: float, tmp_path: Path) -> None:
    path, wanted, samples = _network(tmp_path, operator)
    session = Session(chip=chip, quantize=mode)
    loaded = session.chip.load(session.build(session.transform(path)).data)
    (y,) = loaded.run({"x": np.load(samples).reshape(loaded.inputs[0].shape)}).values()
    error = y.reshape(wanted.shape).astype(np.float64) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > decibels
