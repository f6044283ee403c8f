"""What `compile` says that an option would save is what a compilation with that option saves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from tpuc_driver.session import Boundary, Session

from tests.docs.test_commands import classifier


def test_the_saving_of_fused_preprocessing_is_measured(tmp_path: Path) -> None:
    network = tmp_path / "net.onnx"
    classifier(network, (1, 3, 224, 224), classes=10)

    def compiled(**settings: Any) -> tuple[int, list[str]]:
        told: list[str] = []
        session = Session(chip="bm1684x", quantize="f16", remark=told.append)
        cycles = session.compile(network, tmp_path / "net.bmodel", **settings).cycles
        assert cycles is not None
        return cycles, [one for one in told if "fuse-preprocess" in one]

    plain, hints = compiled(preprocess={"preset": "ssd"})
    fused, others = compiled(preprocess={"preset": "ssd"}, boundary=Boundary(fuse_preprocess=True))
    assert others == []
    assert compiled()[1] == []  # nobody described images
    (hint,) = hints
    found = re.fullmatch(
        r"casting the float input takes ([\d,]+) of ([\d,]+) cycles \((\d+)%\); --fuse-preprocess would save ([\d,]+) "
        r"cycles",
        hint,
    )
    assert found is not None
    spent, all_of_them, share, saved = (int(one.replace(",", "")) for one in found.groups())
    assert (all_of_them, saved) == (plain, plain - fused)
    assert share == round(100 * spent / plain)


def test_comparisons_name_outputs_as_the_network_does(digits_onnx: Path, tmp_path: Path) -> None:
    samples = digits_onnx.with_name("digits_eval.npz")
    with np.load(samples) as stored:
        np.save(tmp_path / "x.npy", stored["x"][:1].astype(np.float32))
    session = Session(chip="bm1684x", quantize="f16")
    report = session.compile(digits_onnx, tmp_path / "digits.bmodel", test_input=(tmp_path / "x.npy",))
    assert report.comparisons[1].worst == "probabilities"
