"""The networks of `huge_networks` in bf16 on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tpuc_driver.session import Session

from tests.chips.huge_networks import NETWORKS, X
from tests.chips.test_huge_constants import STEP
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_gives_what_onnx_runtime_gives(name: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    data = NETWORKS[name].model()
    path, target = tmp_path / "huge.onnx", tmp_path / "huge.cvimodel"
    path.write_bytes(data)
    Session(chip="cv183x", quantize="bf16").compile(path, target)
    (got,) = run_vendor(target, {"x": X.reshape(1, 13, 1, 1)}).values()
    (wanted,) = onnxruntime.InferenceSession(data).run(None, {"x": X})
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=STEP["bf16"] * 1.01)
