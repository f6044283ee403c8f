"""Whole networks on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.chips.cv18.networks import Arrays, Built, check
from tests.conftest import RunVendor


def check_with_vendor(built: Built, mode: str, run_vendor: RunVendor, work: Path) -> tuple[int, int]:
    """Every value is what its op evaluates to, in the bits of the simulator."""

    def run(data: bytes) -> Arrays:
        path = work / "model.cvimodel"
        path.write_bytes(data)
        vendor = run_vendor(path, built.inputs, timeout=900)
        assert_same_bits(built.session.chip.load(data).run(built.inputs), vendor)
        return vendor

    return check(built, mode, run)


def assert_same_bits(got: Arrays, vendor: Arrays) -> None:
    """All bits, except those of float32: the runtime's softmax adds in another order."""
    assert got.keys() == vendor.keys()
    for name, array in got.items():
        if array.dtype == np.float32:
            assert np.allclose(array.reshape(-1), vendor[name].reshape(-1), rtol=1e-5, atol=1e-6), name
        else:
            assert array.tobytes() == vendor[name].tobytes(), name
