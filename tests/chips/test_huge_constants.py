"""Constants beyond what a mode's type holds mean what they mean in the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tpuc.session import Session

from tests.chips.huge_networks import NETWORKS, HugeNetwork, X

FLOATS = [("cv183x", "bf16"), ("bm1684x", "f32"), ("bm1684x", "f16"), ("bm1684x", "bf16")]
INTEGERS = [("cv183x", "int8"), ("bm1684x", "int8"), ("bm1684x", "int8-asym")]
STEP = {"f32": 1e-6, "f16": 2.0**-9, "bf16": 2.0**-6}
"""Of numbers up to 4 in each float type."""
BYTE_STEP = 6 / 255
"""Of a byte over the range of the samples; operand and result are rounded to half of it each."""


def _cells() -> list[Any]:
    return [
        pytest.param(net, chip, mode, marks=pytest.mark.chip(chip), id=f"{name}-{chip}-{mode}")
        for name, net in NETWORKS.items()
        for chip, mode in (*FLOATS, *(INTEGERS if net.in_integers else ()))
    ]


@pytest.mark.parametrize(("net", "chip", "mode"), _cells())
def test_huge_constants_give_what_onnx_runtime_gives(net: HugeNetwork, chip: str, mode: str, tmp_path: Path) -> None:
    data = net.model()
    path, sample = tmp_path / "huge.onnx", tmp_path / "x.npz"
    path.write_bytes(data)
    np.savez(sample, x=X)
    session = Session(chip=chip, quantize=mode)
    target = tmp_path / f"huge{session.chip.description.suffix}"
    session.compile(path, target, dataset=sample)
    (got,) = session.run(target, (sample,)).values()
    (wanted,) = onnxruntime.InferenceSession(data).run(None, {"x": X})
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=STEP.get(mode, BYTE_STEP) * 1.01)
