"""Recurrent layers of 200 steps from ONNX: the values of ONNX Runtime, in one pass over resident weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

onnxruntime = pytest.importorskip("onnxruntime")

Array = NDArray[Any]
STEPS, INPUTS, HIDDEN = 200, 24, 48
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def write_network(kind: str, path: Path, ways: int = 1, steps: int = STEPS) -> None:
    random = np.random.default_rng(7)
    rows = GATES[kind] * HIDDEN
    shapes = {"w": (ways, rows, INPUTS), "r": (ways, rows, HIDDEN), "b": (ways, 2 * rows)}
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name) for name, shape in shapes.items()
    ]
    extra = {"direction": "bidirectional"} if ways > 1 else {}
    node = helper.make_node(kind, ["x", *shapes], ["y", "h"], name="layer", hidden_size=HIDDEN, **extra)
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 1, INPUTS])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h")]
    graph = helper.make_graph([node], "net", [source], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def inputs_of(steps: int = STEPS) -> dict[str, Array]:
    return {"x": np.random.default_rng(3).normal(0, 1, (steps, 1, INPUTS)).astype(np.float32)}


@pytest.mark.parametrize(
    ("kind", "mode", "ways"),
    [
        pytest.param("LSTM", "f16", 1, marks=pytest.mark.slow),
        pytest.param("GRU", "f32", 2, marks=pytest.mark.slow),
        ("RNN", "bf16", 1),
    ],
)
def test_two_hundred_steps_are_those_of_onnx_runtime(kind: str, mode: str, ways: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write_network(kind, path, ways)
    inputs = inputs_of()
    expected = onnxruntime.InferenceSession(str(path)).run(None, inputs)
    session = Session(chip="bm1684x", quantize=mode)
    data = session.build(session.transform(path), None).data
    assert len(data) < 4_000_000  # the recurrence is stored once, the commands grow with the steps
    results = list(session.chip.load(data).run(inputs).values())
    for found, wanted in zip(results, expected, strict=True):
        # Steps are computed in f32 in every mode; inputs may be 16-bit, whose rounding the states carry on.
        bound = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}[mode]
        assert np.abs(found.reshape(wanted.shape) - wanted).max() <= bound
