"""Real networks on the vendor's functional model: every value is what its op evaluates to, and the simulator's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chips.cv18.networks import LARGER, MODES, build, build_file
from tests.chips.cv18.vendor import check_with_vendor
from tests.chips.cv183x.test_networks import CHIP, write_resnet50
from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_equals_the_evaluation(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    check_with_vendor(build(network(name), CHIP, mode), mode, run_vendor, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
def test_larger_networks_do_too(
    name: str, batch: int, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    path = model_data / "onnx" / TASKS[name].file
    check_with_vendor(build_file(path, name, batch, CHIP, mode, model_data, tmp_path), mode, run_vendor, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_resnet50_does_too(mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path) -> None:
    path = write_resnet50(tmp_path / "resnet50.onnx")
    integers, floats = check_with_vendor(
        build_file(path, "resnet50", 1, CHIP, mode, model_data, tmp_path), mode, run_vendor, tmp_path
    )
    assert integers >= 70 if mode == "int8" else floats >= 70
