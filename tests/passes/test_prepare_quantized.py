"""Networks that are quantized already: to integers with zero points, or made symmetric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Calibrated, CalibrationError, Module, PassContext, TensorType, UsageError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.families import each
from tests.frontends.tflite.files import SAME, Node, Tensor, constant, tflite_file

Array = NDArray[Any]
GEOMETRY = {"Padding": SAME, "StrideH": 1, "StrideW": 1}


def network(folder: Path, kind: str = "INT8", *, floats: bool = False) -> Path:
    """A padded convolution with a sum and a change of scale behind it; between floats with `floats`."""
    shift = 0 if kind == "INT8" else 128
    dtype = kind.lower()

    def tensor(name: str, scale: float, zero: int, shape: tuple[int, ...] = (1, 6, 6, 4)) -> Tensor:
        return Tensor(name, shape, kind, None, (scale,), (zero + shift,))

    rng = np.random.default_rng(0)
    weight = rng.integers(-90, 91, (4, 3, 3, 4))
    low = 100 if shift else 0  # an unsigned filter does not count from the middle of its range
    scales, zeros = ((0.004,), (low,)) if shift else ((0.004, 0.005, 0.006, 0.007), (0,) * 4)
    pads = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    tensors = [
        tensor("x", 0.05, 3, (1, 4, 4, 4)),
        constant("pads", pads),
        tensor("p", 0.05, 3),
        constant("w", (weight + low).astype(dtype), scales, zeros),
        constant("b", rng.integers(-900, 900, 4).astype(np.int32)),
        tensor("c", 0.09, -7),
        constant("k", (rng.integers(-90, 91, (1, 1, 1, 4)) + shift).astype(dtype), (0.02,), (shift,)),
        tensor("s", 0.1, 5),
        tensor("y", 0.07, -20),
        Tensor("f", (1, 4, 4, 4)),
        Tensor("g", (1, 6, 6, 4)),
        Tensor("h", (1, 6, 6, 4)),
    ]
    nodes = [
        Node("PAD", ["x", "pads"], ["p"], ("PadOptions", {})),
        Node("CONV_2D", ["p", "w", "b"], ["c"], ("Conv2DOptions", {**GEOMETRY, "FusedActivationFunction": 1})),
        Node("ADD", ["c", "k"], ["s"], ("AddOptions", {})),
        Node("QUANTIZE", ["s"], ["y"], ("QuantizeOptions", {})),
    ]
    if floats:
        nodes = [
            Node("QUANTIZE", ["f"], ["x"], ("QuantizeOptions", {})),
            *nodes,
            Node("DEQUANTIZE", ["y"], ["g"], ("DequantizeOptions", {})),
            Node("LOGISTIC", ["g"], ["h"]),
        ]
    path = folder / f"{dtype}{'_floats' if floats else ''}.tflite"
    path.write_bytes(tflite_file(tensors, nodes, ["f" if floats else "x"], ["h" if floats else "y"]))
    return path


def run(module: Module, x: Array) -> Array:
    interpreter = Interpreter(module)
    (name,) = interpreter.inputs
    (result,) = interpreter.run({name: x}).values()
    return result


def run_on_reals(module: Module, x: Array) -> Array:
    """Also where the file takes them as integers."""
    (one,) = inputs_of(module)
    (result,) = Interpreter(module).run(as_stored([one], {one.name: x})).values()
    return result


def real(array: Array, type: TensorType) -> Array:
    return ((array.astype(np.float64) - type.uniform.zero_point) * type.uniform.scale).astype(np.float32)


def compiled(path: Path, chip: str, remarks: list[str] | None = None) -> tuple[Module, Module]:
    """The TOP module and what is compiled of it, without calibration."""
    notes: list[str] = [] if remarks is None else remarks
    session = Session(Registry(), chip=chip, quantize="int8", remark=notes.append)
    top = session.transform(path)
    return top, session.build(top)[0]


@each("kind", ["INT8", "UINT8"])
@pytest.mark.chip("bm1684x")
def test_integers_with_zero_points_stay_what_they_are(kind: str, tmp_path: Path) -> None:
    top, tpu = compiled(network(tmp_path, kind), "bm1684x")
    limits = np.iinfo(kind.lower())
    x = np.random.default_rng(1).integers(limits.min, limits.max, (1, 4, 4, 4), kind.lower(), endpoint=True)
    expected = real(run(top, x), top.main.outputs[0].tensor)
    result = run(tpu, real(x, top.main.inputs[0].tensor))
    steps = np.abs(result - expected) / top.main.outputs[0].tensor.uniform.scale
    # Products are the same; a sum the chip scales at once and the runtime in three steps, so that one step of it (0.1)
    # may differ where it is near a tie, which are two of the result's (0.07).
    assert steps.max() < 2.01
    assert (steps < 0.01).mean() > 0.9


@pytest.mark.chip("cv183x")
def test_chips_without_zero_points_keep_them_in_biases_and_tables(tmp_path: Path) -> None:
    remarks: list[str] = []
    top, tpu = compiled(network(tmp_path), "cv183x", remarks)
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 4)).astype(np.int8)
    expected = real(run(top, x), top.main.outputs[0].tensor).astype(np.float64)
    result = run_on_reals(tpu, real(x, top.main.inputs[0].tensor)).astype(np.float64)
    # One step of the sum (0.1) as on BM1684X, and half of one of bf16, which the result leaves through.
    assert np.abs(result - expected).max() < 0.07 * 2.51
    (remark,) = remarks
    assert remark == (
        "int8: input 'x' takes i8, scale 0.0500000007, zero point 3, as the network quantizes it; with --float-input "
        "the file takes floats"
    )


def test_requantize_symmetric_by_itself(tmp_path: Path) -> None:
    session = Session(Registry())
    module = session.transform(network(tmp_path))
    definition: Any = session.registry.get("tpuc.passes", "requantize-symmetric")
    exact = run(module.clone(), np.full((1, 4, 4, 4), 3, np.int8))
    assert definition().run(module, PassContext(session.registry))
    assert not definition().run(module, PassContext(session.registry))
    element = module.main.outputs[0].tensor.element
    assert isinstance(element, Calibrated)
    scale = float(np.float32(0.07))
    assert (element.minimum, element.maximum) == (-108 * scale, 147 * scale)
    # Now everything is computed with floats; the integers were rounded at four ops.
    np.testing.assert_allclose(
        run(module, np.zeros((1, 4, 4, 4), np.float32)), (exact.astype(float) + 20) * 0.07, atol=0.2
    )


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")])
def test_float_parts_stay_float(chip: str, tmp_path: Path) -> None:
    top, tpu = compiled(network(tmp_path, floats=True), chip)
    x = np.random.default_rng(1).uniform(-3, 3, (1, 4, 4, 4)).astype(np.float32)
    assert [v.name for v in top.main.outputs] == ["h"]
    # Two steps of 0.07 at the logistic's steepest, and bf16 on chips without f32.
    assert np.abs(run_on_reals(tpu, x) - run(top, x)).max() < 0.07 * 2 / 4 + 0.01


@pytest.mark.chip("bm1684x")
def test_a_float_mode_makes_no_sense(tmp_path: Path) -> None:
    session = Session(Registry(), chip="bm1684x", quantize="f16")
    with pytest.raises(
        UsageError,
        match=r"^int8 is already quantized, and mode 'f16' would round its integers a second time\. "
        r"Compile it with --quantize int8, or start from the float network\.$",
    ):
        session.build(session.transform(network(tmp_path)))


@pytest.mark.chip("bm1684x")
def test_the_default_mode_becomes_an_integer_mode(tmp_path: Path) -> None:
    remarks: list[str] = []
    session = Session(Registry(), chip="bm1684x", remark=remarks.append)
    session.build(session.transform(network(tmp_path)))
    assert remarks == ["int8 is already quantized: compiling in mode 'int8-asym'"]


@pytest.mark.chip("bm1684x")
def test_stages_are_compared_by_what_integers_mean(tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 4)).astype(np.int8)
    np.savez(tmp_path / "x.npz", x=x)
    session = Session(Registry(), chip="bm1684x", quantize="int8", input_layout="nchw")
    report = session.compile(network(tmp_path), tmp_path / "n.bmodel", test_input=[tmp_path / "x.npz"])
    assert [round(comparison.cosine, 3) for comparison in report.comparisons] == [1.0, 1.0]


def test_canonicalization_leaves_integer_arithmetic_alone(tmp_path: Path) -> None:
    module = Session(Registry()).transform(network(tmp_path))
    computing = [o.op.name for o in module.walk() if o.op.name.startswith(("top.", "quant.")) and o.operands]
    assert computing == ["top.Input", "top.Conv", "top.Add", "quant.qcast"]  # the pad is the convolution's own


def test_there_is_nothing_to_calibrate(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 4, 4, 4), np.int8))
    session = Session(Registry())
    with pytest.raises(
        CalibrationError,
        match=r"^int8 is already quantized and needs no calibration; compile it without a table$",
    ):
        session.calibrate(session.transform(network(tmp_path)), dataset=tmp_path / "x.npz")
