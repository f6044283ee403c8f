"""Products with matrices of small integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tpuc.api import F32, ScalarType, TensorType, Unsupported
from tpuc.api.evaluation import Interpreter
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top

from tests.chips.weight_only import CASES, Case, gated, network


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(("mode", "error"), [("f16", 2**-10), ("bf16", 2**-6)])
def test_products_are_those_of_the_floats_that_integers_mean(mode: str, error: float, tmp_path: Path) -> None:
    """Errors relative to the largest result: matrix, sums and result are rounded once each."""
    module, inputs, wanted = network(CASES)
    plain = Interpreter(module).run({name: array.astype("f4") for name, array in inputs.items()})
    session = Session(chip="bm1684x", quantize=mode)
    types = (mode,) * len(CASES)
    session.deploy(module, tmp_path / "m.bmodel", boundary=Boundary(input_types=types, output_types=types))
    file = session.opened(tmp_path / "m.bmodel")
    given = inputs if mode == "f16" else {name: array.astype(bfloat16) for name, array in inputs.items()}
    found = session.simulate(file.chip, file.container(0), given)
    for name, result in wanted.items():
        largest = np.abs(result).max()
        assert np.abs(plain[name] - result).max() < 1e-5 * largest, name
        assert np.abs(found[name].astype("f4") - result).max() < error * largest, name


@pytest.mark.chip("bm1684x")
def test_a_matrix_is_read_once_and_in_its_integers(tmp_path: Path) -> None:
    """Four bits take a quarter of the time of sixteen, but for scales; rows and single vectors share bytes."""
    cycles: dict[int, int] = {}
    for bits in (4, 8, 16):
        report = Session(chip="bm1684x", quantize="f16").deploy(
            network([Case(1, 1024, 512, bits, 64)])[0], tmp_path / f"{bits}.bmodel"
        )
        assert report.cycles is not None
        cycles[bits] = report.cycles
    assert cycles[4] < 0.35 * cycles[16]
    assert cycles[8] < 0.6 * cycles[16]


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(
    ("shape", "inner", "bits", "is_last", "has_bias"),
    [
        ((1, 130, 200), 1000, 4, True, False),
        ((2, 65, 200), 1000, 4, False, True),
        ((3, 180, 72), 2500, 8, False, False),
        ((1, 520, 136), 1900, 4, False, False),
        ((1, 31, 1500), 1000, 8, True, True),
        ((1, 600, 200), 1100, 16, False, False),
        ((2, 96, 1000), 1000, 16, True, True),
        ((1, 600, 72), 8200, 4, False, True),
        ((3, 181, 72), 8264, 16, True, False),
        ((2, 150, 136), 8000, 8, False, False),
    ],
)
def test_parts_of_resident_results_are_written_in_their_places(
    shape: tuple[int, ...], inner: int, bits: int, is_last: bool, has_bias: bool, tmp_path: Path
) -> None:
    """Matrices do not fit into local memory, their operands and results do."""
    module, inputs, wanted = gated(shape, inner, bits, is_last=is_last, has_bias=has_bias)
    session = Session(chip="bm1684x", quantize="f16")
    boundary = Boundary(input_types=("f16",), output_types=("f16",))
    session.deploy(module, tmp_path / "m.bmodel", boundary=boundary)
    file = session.opened(tmp_path / "m.bmodel")
    found = session.simulate(file.chip, file.container(0), inputs)["y"].astype("f4")
    assert np.abs(found - wanted).max() < 2**-8 * np.abs(wanted).max()


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(("inner", "bits"), [(2048, 4), (2048, 8), (2048, 16), (8960, 4), (8960, 16)])
def test_many_rows_take_little_more_time_than_their_products(inner: int, bits: int, tmp_path: Path) -> None:
    """Parts of a matrix arrive during the products with others, and are expanded once for all rows. Where values do not
    fit into local memory, they pass through it.
    """
    module, *_ = gated((1, 512, 896), inner, bits, is_last=False)
    report = Session(chip="bm1684x", quantize="f16").deploy(module, tmp_path / "m.bmodel")
    products = 3 * 512 * 896 * inner
    assert report.cycles is not None
    assert report.cycles < 1.35 * products / 8192


@pytest.mark.chip("bm1684x")
def test_few_rows_take_little_more_time_than_one(tmp_path: Path) -> None:
    """Reading the matrix takes longer than expanding it and than the products."""
    cycles: dict[int, int] = {}
    for rows in (1, 4):
        module = network([Case(rows, 1024, 2048, 4, 64)])[0]
        report = Session(chip="bm1684x", quantize="f16").deploy(module, tmp_path / f"{rows}.bmodel")
        assert report.cycles is not None
        cycles[rows] = report.cycles
    assert cycles[4] < 1.2 * cycles[1]


@pytest.mark.parametrize(
    ("chip", "mode", "error"), [("c", "f32", 1e-5), ("cv183x", "bf16", 2**-6), ("bm1684x", "f32", 1e-5)]
)
def test_others_compute_with_the_floats(chip: str, mode: str, error: float) -> None:
    module, inputs, wanted = network([Case(3, 40, 24, 4, 32, has_bias=True)])
    lowered, *_ = Session(chip=chip, quantize=mode).build(module, None)
    found = Interpreter(lowered).run({name: array.astype("f4") for name, array in inputs.items()})
    result = next(iter(found.values())).astype("f4")
    assert np.abs(result - wanted["y0"]).max() < error * np.abs(wanted["y0"]).max()


@pytest.mark.parametrize(("chip", "mode"), [("c", "f32"), ("bm1684x", "f16")])
@pytest.mark.parametrize("computed", ["weight", "scale", "zp", "bias"])
def test_computed_matrices_are_refused(chip: str, mode: str, computed: str) -> None:
    """A computed bias would be lost in silence."""
    shapes = {"weight": (24, 16), "scale": (24, 1), "zp": (24, 1), "bias": (24,)}
    element = ScalarType("ui8") if computed in ("weight", "zp") else F32
    source = ModuleSource("net", "net", "ONNX", {}, frozenset())
    inputs = [("x", TensorType((3, 32), F32)), (computed, TensorType(shapes[computed], element))]
    builder = TopBuilder(source, inputs)
    others = [
        builder.values[name]
        if name == computed
        else builder.weight(name, np.ones(shape, "u1"), ScalarType("ui8"))
        if name in ("weight", "zp")
        else builder.weight(name, np.ones(shape, "f4"))
        for name, shape in shapes.items()
    ]
    op = top.A16MatMul(weight_bits=4, q_group_size=32)
    module = builder.finish([("y", builder.build(op, [builder.values["x"], *others], "y"))])
    with pytest.raises(Unsupported, match="the matrix, its scales and zero points, and the bias must be constants"):
        Session(chip=chip, quantize=mode).build(module, None)
