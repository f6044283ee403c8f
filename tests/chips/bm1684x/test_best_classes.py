"""Rows of the best classes are those of the scores that the same network gives by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.tools.eval.test_fused import write_classifier

SHOWN = (
    top.DetectionOutput(
        num_classes=7,
        nms_threshold=1.0,
        top_k=1,
        code_type="CENTER_SIZE",
        keep_top_k=5,
        confidence_threshold=-1e30,
        background_label_id=7,
    ),
)
"""What the networks below have, for the count of what is tested."""


@each("mode", ["f32", "f16", "bf16", "int8", "int8-asym"])
def test_rows_are_the_best_scores_with_their_classes(mode: str, tmp_path: Path) -> None:
    network, samples = write_classifier(tmp_path / "net.onnx", 2), tmp_path / "samples.npz"
    x = {"image": np.random.default_rng(1).normal(0, 3, (2, 1, 4, 4)).astype(np.float32)}
    np.savez(samples, **x)
    session = Session(chip="bm1684x", quantize=mode)
    given: list[np.ndarray] = []
    for post in ("", "classes"):
        module = session.transform(network, post=post)
        table = session.calibrate(module, dataset=samples) if mode.startswith("int8") else None
        (result,) = session.chip.load(session.build(module, table).data).run(x).values()
        given.append(result)
    scores, rows = given[0].reshape(2, 7), given[1].reshape(2, 5, 7)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    assert np.array_equal(rows[..., 0], [[0] * 5, [1] * 5])
    assert np.array_equal(rows[..., 1], best)
    assert np.array_equal(rows[..., 2], np.take_along_axis(scores, best, 1))
    assert np.array_equal(rows[..., 3:], np.broadcast_to([0, 0, 1, 1], (2, 5, 4)))
