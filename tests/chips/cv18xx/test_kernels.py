"""Kernels by themselves: instructions compute what the TPU op says, on few lanes as on many."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tpuc.registry import Registry
from tpuc.testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.kernel_samples import FLOATS, INTEGERS
from tests.chips.cv18.steps import check_steps
from tests.chips.cv18xx import NAMES
from tests.chips.cv18xx.kernel_cases import ROWS, STRIDES

FEWEST_LANES = "cv180x"
RUNS = [
    *(pytest.param(chip, ROWS, id=f"{chip}-rows") for chip in NAMES),
    *(pytest.param(chip, STRIDES, id=f"{chip}-strides") for chip in NAMES),
    pytest.param(FEWEST_LANES, INTEGERS, id=f"{FEWEST_LANES}-integers"),
    pytest.param(FEWEST_LANES, FLOATS, id=f"{FEWEST_LANES}-floats"),
]


@pytest.mark.parametrize(("chip", "samples"), RUNS)
def test_the_simulator_equals_the_evaluation(chip: str, samples: Mapping[str, Sample]) -> None:
    registry = Registry()
    compiled = compile_kernels(samples, chip, registry)
    loaded = registry.get("tpuc.chips", chip).load(compiled.data, "kernels")
    loaded.check()
    integers, floats = check_steps(compiled.module, {**loaded.run(compiled.inputs), **compiled.inputs})
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())


@pytest.mark.parametrize(("chip", "instruction"), [("cv180x", "matmul"), ("cv181x", "conv")])
def test_few_rows_use_the_matrix_product_where_a_convolution_is_slower_than_memory(chip: str, instruction: str) -> None:
    registry = Registry()
    compiled = compile_kernels({"row": ROWS["row"]}, chip, registry)
    text = registry.get("tpuc.chips", chip).load(compiled.data, "kernels").disassemble()
    found = {name for name in ("conv", "matmul") if f" {name} " in text}
    assert found == {instruction}
