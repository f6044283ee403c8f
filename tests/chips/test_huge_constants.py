"""Constants beyond what a mode's type holds mean what they mean in the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from _pytest.mark import ParameterSet
from tpuc_driver.session import Session

from tests.chips.huge_networks import NETWORKS, HugeNetwork, X
from tests.families import each
from tests.turns import quick_pairs

FLOATS = [("cv183x", "bf16"), ("bm1684x", "f32"), ("bm1684x", "f16"), ("bm1684x", "bf16")]
INTEGERS = [("cv183x", "int8"), ("bm1684x", "int8"), ("bm1684x", "int8-asym")]
STEP = {"f32": 1e-6, "f16": 2.0**-9, "bf16": 2.0**-6}
"""Of numbers up to 4 in each float type."""
BYTE_STEP = 6 / 255
"""Of a byte over the range of the samples; operand and result are rounded to half of it each."""


def _quick(networks: Mapping[str, HugeNetwork], runs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Chips and modes take turns over the networks of each operator."""
    modes = {f"{chip}-{mode}": (chip, mode) for chip, mode in runs}
    for name, run in quick_pairs(networks, tuple(modes), lambda net: net.nodes[0].op_type):
        yield name, *modes[run]


def _cells() -> Iterator[ParameterSet]:
    of_integers = {name: net for name, net in NETWORKS.items() if net.in_integers}
    quick = {*_quick(NETWORKS, FLOATS), *_quick(of_integers, INTEGERS)}
    for name, net in NETWORKS.items():
        for chip, mode in (*FLOATS, *(INTEGERS if net.in_integers else ())):
            marks = [pytest.mark.chip(chip), *([] if (name, chip, mode) in quick else [pytest.mark.slow])]
            yield pytest.param(net, chip, mode, marks=marks, id=f"{name}-{chip}-{mode}")


@each(("net", "chip", "mode"), list(_cells()))
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
