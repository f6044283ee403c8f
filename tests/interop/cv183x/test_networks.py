"""Real networks on the vendor's functional model: every value is what its op evaluates to, and the simulator's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.chips.cv183x.steps import check_steps
from tests.chips.cv183x.test_networks import MODES, ONNX, Arrays, build, build_onnx, model_path
from tests.conftest import RunVendor
from tests.models.networks import NETWORKS, Network

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_equals_the_evaluation(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    session, final, data, inputs = build(network(name), mode)
    path = tmp_path / f"{name}.cvimodel"
    path.write_bytes(data)
    vendor = run_vendor(path, inputs)
    check_steps(final, vendor)
    assert_same_bits(session.chip.load(data).run(inputs), vendor)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ONNX)
def test_larger_networks_do_too(
    name: str, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    session, final, data, inputs = build_onnx(model_path(name, model_data), mode, tmp_path)
    path = tmp_path / f"{name}.cvimodel"
    path.write_bytes(data)
    vendor = run_vendor(path, inputs)
    check_steps(final, vendor)
    assert_same_bits(session.chip.load(data).run(inputs), vendor)


def assert_same_bits(got: Arrays, vendor: Arrays) -> None:
    """All bits, except those of float32: the runtime's softmax adds in another order."""
    assert got.keys() == vendor.keys()
    for name, array in got.items():
        if array.dtype == np.float32:
            assert np.allclose(array.reshape(-1), vendor[name].reshape(-1), rtol=1e-5, atol=1e-6), name
        else:
            assert array.tobytes() == vendor[name].tobytes(), name
