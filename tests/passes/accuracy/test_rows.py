"""int8 with default options against what the vendor's compiler reaches with the same data; detectors by their mAP."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.work import one_blas_thread

from tests.models.mean_precision import mean_average_precision
from tests.models.rows import ROWS, calibrate, load, logits_of, lower, measure, run

SMALL = ("mnist", "ic01", "vww01", "ad01")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_small_networks_are_at_least_as_near_as_with_the_vendor(name: str, model_data: Path, tmp_path: Path) -> None:
    row = ROWS[name]
    peer = row.vendor["bm1684x"]
    with one_blas_thread():
        table = calibrate(row, load(row, model_data), model_data, tmp_path)
        module = load(row, model_data, row.batch)
        logits = logits_of(module)
        exact = run(module, [logits] if logits else [], row.samples(model_data / "data"))
        got = measure(row, module, exact, lower(module, "bm1684x", table), model_data / "data")
    assert min(got.output_db.values()) >= peer.output_db
    assert np.isnan(got.logits_db) or got.logits_db >= peer.logits_db
    assert got.score >= peer.score - (1 if row.score is None else 0.01)


def test_average_precision_of_boxes_written_by_hand(tmp_path: Path) -> None:
    """One image, two objects of a class, one found: precision 1 up to recall 1/2, 51 of 101 levels; then nothing."""
    from PIL import Image

    Image.new("RGB", (64, 64)).save(tmp_path / "a.jpg")
    notes = {
        "categories": [{"id": 7}],
        "images": [{"file_name": "a.jpg", "id": 1}],
        "annotations": [
            {"image_id": 1, "category_id": 7, "bbox": [8, 8, 16, 16]},
            {"image_id": 1, "category_id": 7, "bbox": [40, 40, 10, 10]},
        ],
    }
    (tmp_path / "instances.json").write_text(json.dumps(notes))
    rows = np.zeros((1, 64 + 16 + 4, 6), np.float32)  # cells of 8, 16 and 32 pixels, one class
    rows[0, 2 * 8 + 2] = [0, 0, np.log(2), np.log(2), 0.9, 1.0]  # its center at pixel 16, extents 16
    assert mean_average_precision([rows], tmp_path, 64) == pytest.approx(51 / 101)
    rows[0, 64] = [0, 0, 0, 0, 1.0, 1.0]  # a surer box where nothing is
    assert mean_average_precision([rows], tmp_path, 64) == pytest.approx(51 / 101 / 2)
