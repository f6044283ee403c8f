"""Kernels by themselves: instructions compute what the TPU op says, on few lanes as on many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tpuc.api import Node, ScalarType, TensorType, View
from tpuc.registry import Registry
from tpuc_cv18.isa import Target
from tpuc_cv18.kernels.common import LaneKernel, flat_space
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.kernel_samples import FLOATS, INTEGERS
from tests.chips.cv18.steps import check_steps
from tests.chips.cv18xx import NAMES, TARGETS
from tests.chips.cv18xx.kernel_cases import BYTE_ROWS, FLOAT_ROWS, ROWS, SEPARATE, STRIDES
from tests.families import each

FEWEST_LANES = "cv180x"
RUNS = [
    *(
        pytest.param(chip, ROWS, id=f"{chip}-rows", marks=() if chip == FEWEST_LANES else pytest.mark.slow)
        for chip in NAMES
    ),
    pytest.param(FEWEST_LANES, BYTE_ROWS, id=f"{FEWEST_LANES}-byte-rows"),
    pytest.param(FEWEST_LANES, FLOAT_ROWS, id=f"{FEWEST_LANES}-float-rows"),
    pytest.param(FEWEST_LANES, SEPARATE, id=f"{FEWEST_LANES}-separate"),
    *(pytest.param(chip, STRIDES, id=f"{chip}-strides") for chip in NAMES),
    # The kernels are those of cv183x, whose quick tests run these.
    pytest.param(FEWEST_LANES, INTEGERS, id=f"{FEWEST_LANES}-integers", marks=pytest.mark.slow),
    pytest.param(FEWEST_LANES, FLOATS, id=f"{FEWEST_LANES}-floats", marks=pytest.mark.slow),
]


@each(("chip", "samples"), RUNS)
def test_the_simulator_equals_the_evaluation(chip: str, samples: Mapping[str, Sample]) -> None:
    registry = Registry()
    compiled = compile_kernels(samples, chip, registry)
    loaded = registry.get("tpuc.chips", chip).load(compiled.data, "kernels")
    loaded.check()
    integers, floats = check_steps(compiled.module, {**loaded.run(compiled.inputs), **compiled.inputs})
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())


@each(
    ("chip", "samples", "products"),
    [
        *(("cv180x", {"row": ROWS["row"]}, True), ("cv181x", {"row": ROWS["row"]}, False)),
        *(
            ("cv180x", BYTE_ROWS, True),
            ("cv180x", FLOAT_ROWS, True),
            ("cv180x", SEPARATE, False),
            ("cv181x", {"row": BYTE_ROWS["row"]}, False),
        ),
    ],
)
def test_few_rows_use_the_matrix_product_where_a_convolution_is_slower(
    chip: str, samples: Mapping[str, Sample], products: bool
) -> None:
    for name, sample in samples.items():
        registry = Registry()
        compiled = compile_kernels({name: replace(sample, tilings=[])}, chip, registry)
        text = registry.get("tpuc.chips", chip).load(compiled.data, "kernels").disassemble()
        assert (" matmul " in text) == products


@each("target", TARGETS, ids=NAMES)
def test_planes_of_bytes_are_looked_up_in_all_lanes(target: Target) -> None:
    plane = TensorType((1, 1, 144, 152), ScalarType("i8"))
    space = flat_space(LaneKernel[Any](target).lanes, Node(tpu.Lut(), (plane,), (plane,), "table"))
    assert space.results == (View((1, target.lanes, 1, 144 * 152 // target.lanes)),)
