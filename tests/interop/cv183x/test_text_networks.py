"""Text networks on the vendor's runtime: tables by token numbers, and what the chip computes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.exported_text import TEXT
from tests.families import each

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("chip", ["cv183x", "cv181x"])
@each("name", ["roberta", "clip largest", "minilm", "llama"])
def test_results_are_those_of_the_vendors_runtime(chip: str, name: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, network = Session(chip=chip, quantize="bf16"), TEXT[name]
    path = network.write(tmp_path / "net.onnx")
    data = session.build(session.transform(path, dims=network.dims)).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    loaded = session.chip.load(data)
    kinds = {one.name: np.int32 if str(one.element) == "si32" else np.float32 for one in loaded.inputs}
    feed = {key: array.astype(kinds[key]) for key, array in network.fed(path, 3).items()}
    for got, vendor in zip(loaded.run(feed).values(), run_vendor(target, feed).values(), strict=True):
        assert np.array_equal(got.reshape(-1), vendor.reshape(-1))
