"""Real networks on the vendor's functional model: every value is what its op evaluates to, and the simulator's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.chips.cv183x.test_networks import (
    LARGER,
    MODES,
    Arrays,
    Built,
    build,
    build_file,
    check,
    write_resnet50,
)
from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

pytestmark = pytest.mark.interop


def _check_with_vendor(built: Built, mode: str, run_vendor: RunVendor, work: Path) -> tuple[int, int]:
    def run(data: bytes) -> Arrays:
        path = work / "model.cvimodel"
        path.write_bytes(data)
        vendor = run_vendor(path, built.inputs, timeout=900)
        assert_same_bits(built.session.chip.load(data).run(built.inputs), vendor)
        return vendor

    return check(built, mode, run)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_equals_the_evaluation(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    _check_with_vendor(build(network(name), mode), mode, run_vendor, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
def test_larger_networks_do_too(
    name: str, batch: int, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    path = model_data / "onnx" / TASKS[name].file
    _check_with_vendor(build_file(path, name, batch, mode, model_data, tmp_path), mode, run_vendor, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_resnet50_does_too(mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path) -> None:
    path = write_resnet50(tmp_path / "resnet50.onnx")
    integers, floats = _check_with_vendor(
        build_file(path, "resnet50", 1, mode, model_data, tmp_path), mode, run_vendor, tmp_path
    )
    assert integers >= 70 if mode == "int8" else floats >= 70


def assert_same_bits(got: Arrays, vendor: Arrays) -> None:
    """All bits, except those of float32: the runtime's softmax adds in another order."""
    assert got.keys() == vendor.keys()
    for name, array in got.items():
        if array.dtype == np.float32:
            assert np.allclose(array.reshape(-1), vendor[name].reshape(-1), rtol=1e-5, atol=1e-6), name
        else:
            assert array.tobytes() == vendor[name].tobytes(), name
