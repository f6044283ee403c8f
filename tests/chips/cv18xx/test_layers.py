"""The cases of CV183x, TOP op by TOP op, on chips with fewer lanes."""

from __future__ import annotations

import pytest

from tests.chips.cv18.lowered import check_layers, compile_layers
from tests.chips.cv18.more_lowering_cases import LAYERS
from tests.chips.cv18.steps import check_steps
from tests.chips.cv18xx import NAMES
from tests.families import each

QUICK = ("cv180x", "lines")
RUNS = [
    pytest.param(chip, group, marks=[] if (chip, group) == QUICK else [pytest.mark.slow])
    for chip in NAMES
    for group, _ in LAYERS
]


@each("mode", ["int8", "bf16"])
@each(("chip", "group"), RUNS)
def test_lowered_ops_are_close_and_the_file_computes_them(chip: str, group: str, mode: str) -> None:
    layers = dict(LAYERS)[group]
    compiled = compile_layers(layers, mode, 1, chip)
    got = compiled.session.chip.load(compiled.data).run(compiled.inputs)
    check_steps(compiled.final, {**got, **compiled.inputs})
    check_layers(layers, mode, compiled, got)
