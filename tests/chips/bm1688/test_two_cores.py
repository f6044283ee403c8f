"""Networks for both cores of BM1688: the same results as for one, in less time, and no conflict between the cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import HazardError, UsageError, check_cores, stretches
from tpuc_driver.session import Session

from tests.passes.planning.test_images import _network

CHIP = "bm1688"


def built(path: Path, cores: int, mode: str = "f16") -> Any:
    """The compiled file of a network in the simulator."""
    session = Session(chip=CHIP, quantize=mode, cores=cores)
    return session.chip.load(session.build(session.transform(path)).data)


def outputs(loaded: Any) -> dict[str, bytes]:
    random = np.random.default_rng(0)
    inputs: Mapping[str, NDArray[Any]] = {
        one.name: random.standard_normal(one.shape).astype(np.float32) for one in loaded.inputs
    }
    return {name: array.tobytes() for name, array in loaded.run(inputs).items()}


def test_images_of_a_batch_are_computed_on_both_cores(tmp_path: Path) -> None:
    _network(tmp_path / "four.onnx", 4)
    one, two = (built(tmp_path / "four.onnx", cores) for cores in (1, 2))
    assert [part.core for part in one._parts] == [0]
    assert [part.core for part in two._parts][:2] == [0, 1]
    assert outputs(one) == outputs(two)
    two._runner.steps = tuple(part for stretch in stretches(two._parts) for part in reversed(stretch))
    assert outputs(one) == outputs(two), "the second core before the first"
    assert two.timeline("vendor").cycles < 0.62 * one.timeline("vendor").cycles
    assert two.timeline("shared").cycles < 0.55 * one.timeline("shared").cycles


def test_what_reads_results_of_both_cores_needs_a_barrier(tmp_path: Path) -> None:
    _network(tmp_path / "four.onnx", 4)
    parts = built(tmp_path / "four.onnx", 2)._parts
    check_cores(parts, ("ddr",), "net")
    beside = [replace(part, core=index) for index, part in enumerate(parts)]
    with pytest.raises(HazardError, match=r"of a core and .* of another run at the same time and both use ddr"):
        check_cores(beside, ("ddr",), "net")


@pytest.mark.parametrize(
    ("chip", "cores", "has"), [("cv186x", 2, "has one core, not 2"), ("bm1688", 3, "has 2 cores, not 3")]
)
def test_a_chip_has_the_cores_that_it_has(chip: str, cores: int, has: str) -> None:
    with pytest.raises(UsageError) as caught:
        Session(chip=chip, cores=cores)
    assert str(caught.value) == f"chip '{chip}' {has}; lower --cores or leave it out."
