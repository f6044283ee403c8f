"""Choices between values of which one is a number or has one element: they calibrate, and are computed exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.families import each
from tests.turns import runs_in_turn

BRANCHES = {
    "number": ("x", "s"),
    "number-first": ("s", "x"),
    "two-numbers": ("s", "t"),
    "one-element": ("x", "top"),
    "one-element-first": ("top", "x"),
    "one-constant-element": ("x", "row"),
    "list": ("list", "x"),
}
RUNS = [
    (chip, mode)
    for chip, modes in (("bm1684x", ("f32", "f16", "bf16", "int8", "int8-asym")), ("cv183x", ("int8", "bf16")))
    for mode in modes
]


def _network(branches: tuple[str, str]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Greater", ["x", "t"], ["above"], name="above"),
        helper.make_node("ReduceMax", ["x"], ["top"], name="top", axes=[1]),
        helper.make_node("Where", ["above", *branches], ["y"], name="y"),
    ]
    weights = {
        "t": np.float32(0.1),
        "s": np.float32(-0.5),
        "row": np.full((1, 1), 0.75, np.float32),
        "list": np.linspace(-1, 1, 5, dtype=np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "choice",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@each(("branches", "chip", "mode"), runs_in_turn(BRANCHES, RUNS))
def test_choice_compiles_and_is_exact(branches: str, chip: str, mode: str, tmp_path: Path) -> None:
    onnx.save(_network(BRANCHES[branches]), tmp_path / "choice.onnx")
    samples = np.random.default_rng(0).normal(0, 1, (6, 5)).astype(np.float32)
    for index, sample in enumerate(samples):
        np.savez(tmp_path / f"{index}.npz", x=sample.reshape(1, 5))
    session = Session(chip=chip, quantize=mode)
    module = session.transform(tmp_path / "choice.onnx")
    table = session.calibrate(module, dataset=tmp_path) if mode.startswith("int8") else None
    final, data, *_ = session.build(module, table)
    runnable, evaluate = session.chip.load(data), Interpreter(final)
    for sample in samples:
        inputs = {"x": sample.reshape(1, 5)}
        for name, wanted in evaluate.run(inputs).items():
            np.testing.assert_array_equal(runnable.run(inputs)[name].reshape(wanted.shape), wanted)
