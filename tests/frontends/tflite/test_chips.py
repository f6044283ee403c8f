"""Quantized operators that are more than one op: compiled without calibration, chips stay near TFLite's integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.floats import run_on_floats
from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.lstms import X_SCALE, X_ZERO, Layer
from tests.frontends.tflite.networks import stored

Array = NDArray[Any]
SHAPE = (1, 9, 7, 6)
CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]


def tensor(name: str, scale: float, zero: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return Tensor(name, shape, "INT8", None, (scale,), (zero,))


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.array(data, np.int32))


X = tensor("x", 0.05, 3)
DIVISOR = constant("w", np.maximum(np.abs(stored("int8", *SHAPE) // 2), 20).astype(np.int8), [0.031], [0])
MASK = constant("c", np.arange(9 * 7 * 6).reshape(SHAPE) % 3 == 0)
LAYERS = [Layer(), Layer(norm=True, peephole=True, outputs=24, cell_clip=0.7, steps=3)]
CASES: dict[str, tuple[list[Tensor], Tensor, Any]] = {
    "BATCH_TO_SPACE_ND": (
        [tensor("x", 0.05, 3, (6, 5, 3, 6)), ints("b", [2, 3]), ints("p", [[1, 0], [1, 1]])],
        tensor("y", 0.05, 3),
        None,
    ),
    "DIV": ([X, DIVISOR], tensor("y", 0.3, -2), ("DivOptions", {})),
    "L2_NORMALIZATION": ([X], tensor("y", 1 / 128, 0), None),
    "LOG_SOFTMAX": ([X], tensor("y", 16 / 256, 127), None),
    "MIRROR_PAD": (
        [X, ints("p", [[0, 0], [1, 2], [2, 0], [0, 0]])],
        tensor("y", 0.05, 3, (1, 12, 9, 6)),
        ("MirrorPadOptions", {"Mode": 1}),
    ),
    "SELECT_V2": ([MASK, X, tensor("w", 0.05, 3)], tensor("y", 0.05, 3), None),
    "SPACE_TO_BATCH_ND": (
        [X, ints("b", [2, 3]), ints("p", [[1, 0], [1, 1]])],
        tensor("y", 0.05, 3, (6, 5, 3, 6)),
        None,
    ),
    "SQUARED_DIFFERENCE": ([X, tensor("w", 0.031, 14)], tensor("y", 0.5, -128), None),
}


@each("chip", CHIPS)
@each("op", CASES)
def test_chips_stay_near(op: str, chip: str, tmp_path: Path) -> None:
    operands, result, options = CASES[op]
    inputs = [operand.name for operand in operands if operand.data is None]
    node = Node(op, [operand.name for operand in operands], [result.name], options)
    path = tmp_path / "network.tflite"
    path.write_bytes(tflite_file([*operands, result], [node], inputs, [result.name]))
    session = Session(chip=chip, quantize="int8")
    top = session.transform(path)
    data = session.build(top).data
    fed = {
        name: stored("int8", *value.tensor.dims, seed=seed)
        for seed, (name, value) in enumerate(zip(Interpreter(top).inputs, top.main.inputs, strict=True))
    }
    (wanted,) = Interpreter(top).run(fed).values()
    meant = {o.result.name: o.result.tensor.uniform for o in top.main.operations if o.op.name == "top.Input"}
    real = {
        n: ((x.astype(np.float64) - meant[n].zero_point) * meant[n].scale).astype(np.float32) for n, x in fed.items()
    }
    (got,) = run_on_floats(session.chip.load(data), real).values()
    scale, zero = result.scales[0], result.zeros[0]
    steps = np.abs(got.reshape(-1) / scale + zero - wanted.reshape(-1).astype(np.float64))
    # What is the last computed in floats leaves the chip unrounded, at most half a step from the integer, and
    # saturates later; without zero points steps are wider, and two roundings meet. A square counts half of a step of
    # both operands as often as twice their difference is large.
    inside = (wanted.reshape(-1) > -128) & (wanted.reshape(-1) < 127)
    wider = 3.0 if op == "SQUARED_DIFFERENCE" else 2.5
    assert steps[inside].max() <= (0.5 if chip == "bm1684x" else wider) + 1e-3


@each("chip", CHIPS)
@each("layer", LAYERS, ids=["plain", "everything"])
def test_lstms_compute_floats_between_integers(layer: Layer, chip: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(layer.content())
    session = Session(chip=chip)
    module = session.transform(path)
    fed = layer.fed(3)
    (wanted,) = Interpreter(module).run({"x": fed}).values()
    real = (fed - np.float32(X_ZERO)) * np.float32(X_SCALE)
    (got,) = run_on_floats(session.chip.load(session.build(module).data), {"x": real}).values()
    type_ = module.main.outputs[0].tensor.uniform
    steps = np.abs(got.reshape(wanted.shape) / type_.scale + type_.zero_point - wanted)
    # The last results leave the chip unrounded. CV183x computes gates in bfloat16, with symmetric steps between them.
    assert steps.max() <= (0.51 if chip == "bm1684x" else 5)
    assert steps.mean() < (0.26 if chip == "bm1684x" else 0.6)
