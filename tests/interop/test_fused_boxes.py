"""Rows of post-processing in the file are those of the vendor's runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.tools.eval.test_fused import GRAYS, SEGMENTS, write_classifier, write_segmenter
from tests.tools.eval.test_fused_boxes import HEADS, IMAGE, SAMPLE, reader, worst, write_heads, write_single_shot

pytestmark = pytest.mark.interop

CHIPS = [("bm1684x", "f32"), ("cv183x", "bf16"), ("cv181x", "bf16")]


@pytest.mark.parametrize(("chip", "mode"), CHIPS)
@pytest.mark.parametrize("post", [*HEADS, "ssd"])
def test_boxes(chip: str, mode: str, post: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize=mode)
    path = write_single_shot(tmp_path) if post == "ssd" else write_heads(post, tmp_path)
    module = session.transform(path, post=post, random_weights=True)
    target = tmp_path / f"net{session.chip.description.suffix}"
    target.write_bytes(session.build(module).data)
    (ours,) = session.chip.load(target.read_bytes()).run(IMAGE).values()
    (theirs,) = run_vendor(target, IMAGE).values()
    found = [reader(module)({"rows": rows.reshape(1, 1, -1, 7)}, SAMPLE) for rows in (ours, theirs)]
    score, box = worst(*found)
    assert len(found[0].scores) > 5
    assert score == 0
    # Boxes in float32, whose sums are taken in another order.
    assert box < 1e-5


@pytest.mark.parametrize(("chip", "mode"), CHIPS)
def test_classes(chip: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize=mode)
    module = session.transform(write_classifier(tmp_path / "net.onnx", 2), post="classes")
    x = {"image": np.random.default_rng(1).normal(0, 3, (2, 1, 4, 4)).astype(np.float32)}
    target = tmp_path / f"net{session.chip.description.suffix}"
    target.write_bytes(session.build(module).data)
    (ours,) = session.chip.load(target.read_bytes()).run(x).values()
    (theirs,) = run_vendor(target, x).values()
    ours, theirs = (rows.reshape(2, 5, 7) for rows in (ours, theirs))
    for mine, other in zip(ours, theirs, strict=True):
        assert sorted(mine.tolist()) == sorted(other.tolist())


@pytest.mark.parametrize(("chip", "mode"), CHIPS)
def test_segments(chip: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize=mode)
    module = session.transform(write_segmenter(tmp_path / "net.onnx"), post="segmentation")
    target = tmp_path / f"net{session.chip.description.suffix}"
    target.write_bytes(session.build(module).data)
    (found,) = run_vendor(target, {"image": GRAYS}).values()
    assert found.reshape(4, 4).tolist() == SEGMENTS
