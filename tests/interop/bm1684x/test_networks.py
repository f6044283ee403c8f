"""Real networks on the vendor's functional model give the numbers of the TPU module's evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.chips.bm1684x.test_networks import assert_same, build
from tests.conftest import RunVendor
from tests.models.networks import NETWORKS, Network


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["int8", "f32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_equals_the_evaluation(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    session, inputs, data, wanted = build(network(name), mode)
    path = tmp_path / f"{name}.bmodel"
    path.write_bytes(data)
    names = [info.name for info in session.chip.load(data).outputs]
    assert_same(run_vendor(path, inputs), wanted, dict.fromkeys(names, np.empty(0)))
