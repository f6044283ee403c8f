"""Stated softmaxes and their logarithms: what a chip's instructions compute is within a step of ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tpuc

from tests.families import each
from tests.frontends.quantized.shares import draw_shares

EXACT = 1.01
"""Steps: both round once, and the chip a second time to bf16."""
BF16 = 2.0**-8
"""Of a result: networks end in floats, which the chip multiplies as bf16."""
CHIPS = ("cv180x", "cv181x", "cv182x", "cv183x")


def beyond(chip: str, op: str, seed: int, count: int, path: Path) -> list[str]:
    """The outputs that are more than a step off, and by how many steps."""
    drawn = draw_shares(seed, count, op)
    path.write_bytes(drawn.model.SerializeToString())
    results, found = tpuc.load(path).compile(chip).run(drawn.inputs), list[str]()
    for name, wanted in drawn.wanted().items():
        off = np.abs(results[name].astype(np.float64) - wanted) - BF16 * np.abs(wanted)
        if (steps := float(off.max()) / drawn.steps[name]) > EXACT:
            found.append(f"{name} {wanted.shape}: {steps:.2f}")
    return found


@each("op", [pytest.param(op, marks=pytest.mark.chip("cv181x")) for op in ("Softmax", "LogSoftmax")])
@pytest.mark.filterwarnings("ignore::tpuc.Remark")
def test_simulated_softmaxes_are_those_of_the_runtime(op: str, tmp_path: Path) -> None:
    assert not beyond("cv181x", op, 7, 10, tmp_path / "shares.onnx")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_two_thousand_softmaxes_are_those_of_the_runtime(chip: str, op: str, tmp_path: Path) -> None:
    found = [off for seed in range(20) for off in beyond(chip, op, seed, 100, tmp_path / "shares.onnx")]
    assert not found
