"""Real networks on the vendor's functional models: every value is what its op evaluates to, in our simulator's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chips.cv18.networks import LARGER, MODES, build, build_file
from tests.chips.cv18.vendor import check_with_vendor
from tests.chips.cv18xx import NAMES
from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("chip", NAMES)
def test_the_vendors_model_equals_the_evaluation(
    chip: str, name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    check_with_vendor(build(network(name), chip, mode), mode, run_vendor, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
@pytest.mark.parametrize("chip", NAMES)
def test_larger_networks_do_too(
    chip: str, name: str, batch: int, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    path = model_data / "onnx" / TASKS[name].file
    check_with_vendor(build_file(path, name, batch, chip, mode, model_data, tmp_path), mode, run_vendor, tmp_path)
