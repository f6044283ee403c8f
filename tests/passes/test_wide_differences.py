"""Squares of 16-bit differences are computed in floats before a chip sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc_prequantized.wide_differences import differences_to_floats

from tests.families import each
from tests.frontends.tflite.files import Tensor, constant
from tests.frontends.tflite.networks import compute, single, stored

SHAPE = (2, 40)
X, Y = Tensor("x", SHAPE, "INT8", None, (0.05,), (3,)), Tensor("y", SHAPE, "INT8", None, (0.2,), (-100,))


@each("is_constant", [False, True])
def test_differences_are_rounded_once(is_constant: bool, tmp_path: Path) -> None:
    a, b = stored("int8", *SHAPE), stored("int8", *SHAPE, seed=1)
    w = constant("w", b, [0.031], [-14]) if is_constant else Tensor("w", SHAPE, "INT8", None, (0.031,), (-14,))
    module = single(tmp_path, "SQUARED_DIFFERENCE", [X, w], Y)
    wide = next(operation for operation in module.walk() if operation.op.name == "top.Sub")
    assert wide.result.tensor.storage.bits == 16
    differences_to_floats(module)
    module.verify()
    names = [operation.op.name for operation in module.walk() if operation.op.name.startswith("quant.")]
    assert len(names) == (2 if is_constant else 3)  # a constant operand becomes a float later, as all weights do
    if is_constant:
        return
    (y,) = compute(module, a, b)
    exact = np.float32(0.05) * (a.astype(float) - 3) - np.float32(0.031) * (b.astype(float) + 14)
    steps = exact**2 / float(np.float32(0.2))
    sure = np.abs(np.abs(steps - np.floor(steps)) - 0.5) > 1e-3  # float32 may round what lies nearer to a tie elsewhere
    np.testing.assert_array_equal(y[sure], np.clip(np.floor(steps + 0.5) - 100, -128, 127)[sure])
    assert sure.mean() > 0.9


def test_other_differences_stay(tmp_path: Path) -> None:
    w = Tensor("w", SHAPE, "INT8", None, (0.031,), (-14,))
    module = single(tmp_path, "SUB", [X, w], Y, ("SubOptions", {}))
    before = str([operation.result.type for operation in module.walk() if operation.results])
    differences_to_floats(module)
    assert str([operation.result.type for operation in module.walk() if operation.results]) == before
