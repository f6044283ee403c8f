"""Inputs of more bits than chips compute with, in networks that compute nothing else with integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tpuc
from tpuc.interpreter.values import real_values
from tpuc.ir import TensorType

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file

SHAPE, SCALE = (4, 6, 8), 0.0137
X, Y = Tensor("x", SHAPE, "INT16", None, (SCALE,), (0,)), Tensor("y", SHAPE)
STARTS, SIZES = constant("starts", np.zeros(3, np.int32)), constant("sizes", np.array(SHAPE, np.int32))
SUFFIXES = {"bm1684x": ".bmodel", "cv181x": ".cvimodel", "c": ".tar"}
FORMS = {
    "moved": ([X, STARTS, SIZES, Y], [Node("SLICE", ["x", "starts", "sizes"], ["y"], ("SliceOptions", {}))]),
    "converted": ([X, Y], [Node("DEQUANTIZE", ["x"], ["y"])]),
    "computed": ([X, Tensor("f", SHAPE), Y], [Node("DEQUANTIZE", ["x"], ["f"]), Node("ABS", ["f"], ["y"])]),
}


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@each("form", FORMS)
@each("chip", [pytest.param(one, marks=pytest.mark.chip(one)) for one in ("bm1684x", "cv181x")])
def test_int16_inputs_become_floats(chip: str, form: str, tmp_path: Path) -> None:
    """Where the chip cannot read them, the file takes floats. bf16 has 8 bits for a number."""
    path = tmp_path / "wide.tflite"
    tensors, nodes = FORMS[form]
    path.write_bytes(tflite_file(tensors, nodes, ["x"], ["y"]))
    real = np.random.default_rng(0).integers(-9000, 9000, SHAPE).astype(np.float32) * np.float32(SCALE)
    (got,) = tpuc.load(path).compile(chip, mode="bf16").run(real).values()
    want = np.abs(real) if form == "computed" else real
    np.testing.assert_allclose(got.reshape(SHAPE), want, rtol=2**-8, atol=SCALE)


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@each("chip", [pytest.param(one, marks=pytest.mark.chip(one)) for one in ("bm1684x", "cv181x", "c")])
@each("kind", ["INT8", "UINT8", "INT16"])
def test_integers_of_the_network_mean_what_they_do_there(chip: str, kind: str, tmp_path: Path) -> None:
    """Compiled files take floats, or integers of another kind: those of the network's file are converted."""
    zero = 0 if kind == "INT16" else 3
    x, y = (Tensor(name, SHAPE, kind, None, (SCALE,), (zero,)) for name in "xy")
    path = tmp_path / "stored.tflite"
    path.write_bytes(tflite_file([x, STARTS, SIZES, y], [Node("SLICE", ["x", "starts", "sizes"], ["y"])], ["x"], ["y"]))
    low, high = np.iinfo(kind.lower()).min, np.iinfo(kind.lower()).max
    integers = np.random.default_rng(0).integers(low, high + 1, SHAPE).astype(kind.lower())
    mode = {"c": "f32"}.get(chip, "bf16") if kind == "INT16" else None
    compiled = tpuc.load(path).compile(chip, mode=mode)
    file = compiled.save(tmp_path / f"stored{SUFFIXES[chip]}")
    (got,), (again,) = (one.run(integers).values() for one in (compiled, tpuc.load_compiled(file)))
    np.testing.assert_array_equal(again, got)
    want = (integers.astype(np.float64) - zero) * SCALE
    (info,) = compiled.outputs
    np.testing.assert_allclose(real_values(got, TensorType(info.shape, info.element)), want, rtol=2**-8, atol=SCALE)
