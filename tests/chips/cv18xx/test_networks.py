"""Real networks on each chip: every op gives what it evaluates to, and whole files what their values say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chips.cv18.networks import LARGER, MODES, build, build_file, check
from tests.chips.cv18xx import NAMES
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("chip", NAMES)
def test_every_value_equals_its_evaluation(chip: str, name: str, mode: str, network: Callable[[str], Network]) -> None:
    built = build(network(name), chip, mode)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 5 if mode == "int8" else floats >= 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
@pytest.mark.parametrize("chip", NAMES)
def test_every_value_of_larger_networks_equals_its_evaluation(
    chip: str, name: str, batch: int, mode: str, model_data: Path, tmp_path: Path
) -> None:
    path = model_data / "onnx" / TASKS[name].file
    built = build_file(path, name, batch, chip, mode, model_data, tmp_path)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 28 if mode == "int8" else floats >= 28
