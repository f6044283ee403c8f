"""Forms of ops that TPU-MLIR's text has and front ends here do not write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_driver.session.border import as_network, border_of
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample, sample_module

from tests.chips.lowered import own_ranges
from tests.families import each
from tests.turns import first_few

CHIPS = {"bm1684x": ("f16", "int8", "int8-asym"), "cv181x": ("bf16", "int8"), "cv183x": ("bf16",), "c": ("f32", "int8")}
WEIGHT, BIAS = (Fixed(np.random.default_rng(0).normal(size=dims).astype(np.float32)) for dims in ((8, 5), (5,)))
CASES = {
    "mean without dimensions": Sample(
        top.AvgPool(kernel_shape=(6, 6), strides=(1, 1), keepdims=False), [uniform(2, 3, 6, 6)]
    ),
    "maximum without dimensions": Sample(
        top.MaxPool(kernel_shape=(4, 6), strides=(1, 1), keepdims=False, do_relu=True), [uniform(2, 3, 4, 6)]
    ),
    "mean of a row": Sample(
        top.AvgPool(kernel_shape=(6,), strides=(1,), pads=(0, 0), keepdims=False), [uniform(2, 3, 6)]
    ),
    "exchanged sums and a bias": Sample(top.MatMul(output_transpose=True), [uniform(2, 9, 8), uniform(2, 8, 5), BIAS]),
    "exchanged sums of a constant": Sample(
        top.MatMul(output_transpose=True, do_relu=True), [uniform(2, 9, 8), WEIGHT, BIAS]
    ),
    "exchanged sums of matrices": Sample(top.MatMul(output_transpose=True), [uniform(9, 8), WEIGHT, BIAS]),
}
LEAST_DB = 30.0
"""Of int8 with a range for every value; floats are above 45."""


def noise(module: Module, inputs: dict[str, np.ndarray], chip: str, mode: str) -> float:
    """How far a compiled module is from its evaluation, in decibels."""
    values = Interpreter(module).run(inputs, "all")
    session = Session(Registry(), chip=chip, quantize=mode, opt=1)
    built = session.build(module, own_ranges(values) if mode.startswith("int8") else None)
    loaded = session.chip.load(built.data, "network")
    (got,) = as_network(loaded, border_of(module, built.module, loaded)).run(inputs).values()
    wanted = values["y"]
    assert got.shape == wanted.shape
    error = float(((got - wanted) ** 2).sum())
    return 10 * np.log10(float((wanted**2).sum()) / error) if error else np.inf


@each("chip", first_few(CHIPS, 2))
def test_pools_and_products(chip: str) -> None:
    """Pools without the pooled dimensions; a bias belongs to the columns of a product before they are exchanged."""
    found = {
        (name, mode): noise(*sample_module({"y": sample}, Registry()), chip, mode)
        for name, sample in CASES.items()
        for mode in CHIPS[chip]
    }
    assert not {key: db for key, db in found.items() if db < LEAST_DB}


@each("chip", first_few(CHIPS, 2))
def test_products_of_two_operands_in_text(chip: str, tmp_path: Path) -> None:
    """The text of a module may leave out the bias that there is none of."""
    plain = Sample(top.MatMul(), [uniform(3, 8), WEIGHT, None])
    module, inputs = sample_module({"y": plain}, Registry())
    session, path = Session(), tmp_path / "net.mlir"
    session.save(module, path)
    text = path.read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if "top.MatMul" in line)
    operands = line[line.index("(") + 1 : line.index(")")].split(", ")
    types = line[line.index(": (") + 3 : line.index(") ->")].split(", ")
    short = line.replace(", ".join(operands), ", ".join(operands[:2])).replace(", ".join(types), ", ".join(types[:2]))
    assert short != line
    path.write_text(text.replace(line, short), encoding="utf-8")
    read = session.load(path)
    assert min(noise(read, inputs, chip, mode) for mode in CHIPS[chip]) > LEAST_DB
