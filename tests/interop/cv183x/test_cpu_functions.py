"""Functions of the vendor's runtime give what ours give, in the middle of a network and at its end."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.chips.cv183x.test_cpu_ops import PARTS, X, write_best, write_parts
from tests.chips.pooled_regions import REGIONS, ROI_POOLING
from tests.chips.single_shot import read_detections
from tests.conftest import RunVendor
from tests.frontends.caffe.files import Array, inputs, layer, read
from tests.frontends.caffe.test_detection import CASES

pytestmark = pytest.mark.interop

YOLO = (
    "yolo_detection_param { net_input_h: 64 net_input_w: 96 nms_threshold: 0.4 obj_threshold: 0.2 keep_topk: 9 "
    "class_num: 3 KIND: true }"
)
DETECTION = (
    "detection_output_param { num_classes: 2 code_type: CENTER_SIZE keep_top_k: 4 confidence_threshold: 0.5 "
    "nms_param { nms_threshold: 0.45 top_k: 10 } }"
)


def _single_shot() -> dict[str, Array]:
    boxes = np.array([[0.1, 0.1, 0.3, 0.3], [0.12, 0.1, 0.32, 0.3], [0.6, 0.6, 0.8, 0.9]])
    priors = np.stack([boxes.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 3)])[None].astype(np.float32)
    offsets = np.zeros((1, 12), np.float32)
    offsets[0, 8:] = [1, 0, 0, 5 * math.log(2)]
    return {"l": offsets, "s": np.array([[0.1, 0.9, 0.2, 0.8, 0.4, 0.6]], np.float32), "p": priors}


@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_in_the_middle_of_a_network(largest: int, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("TopK",))
    data = session.build(session.transform(write_best(tmp_path / "net.onnx", largest=largest))).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    (got,), (vendor,) = session.chip.load(data).run({"x": X}).values(), run_vendor(target, {"x": X}).values()
    assert np.array_equal(got, vendor)


@pytest.mark.parametrize("case", PARTS)
def test_parts_by_constant_indices(case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    path, x = write_parts(tmp_path / "net.onnx", case)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("GatherND",))
    data = session.build(session.transform(path)).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    (got,), (vendor,) = session.chip.load(data).run({"x": x}).values(), run_vendor(target, {"x": x}).values()
    assert np.array_equal(got, vendor)


def test_detections_by_constant_priors(run_vendor: RunVendor, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    operands = {
        "l": random.normal(0, 0.5, (1, 192)).astype(np.float32),
        "s": random.uniform(0, 1, (1, 96)).astype(np.float32),
        "f": np.zeros((1, 2, 4, 4), np.float32),
        "i": np.zeros((1, 3, 64, 64), np.float32),
    }
    priors = "prior_box_param { min_size: 16 aspect_ratio: 2 flip: true variance: 0.1 }"
    text = inputs(**{n: a.shape for n, a in operands.items()}) + layer("PriorBox", priors, "f i", "p", "boxes")
    module = read(text + layer("DetectionOutput", DETECTION, "l s p"), tmp_path)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("DetectionOutput",))
    data = session.build(module).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    given = {info.name: operands[info.name] for info in session.chip.load(data).inputs}
    (got,), (vendor,) = session.chip.load(data).run(given).values(), run_vendor(target, given).values()
    assert (got[..., 2] > 0.5).all(), "every row is a box"
    # Pixels in float32, whose sums are taken in another order.
    np.testing.assert_allclose(vendor.reshape(got.shape), got, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shares", [(1, 1, 1), (0.3, 1, 0.6), (1, 0.1, 0.1), (0.1, 0.1, 0.1)])
def test_detections_of_several_images(shares: tuple[float, ...], run_vendor: RunVendor, tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, images=len(shares))
    operands["s"] *= np.array(shares, np.float32)[:, None]
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("DetectionOutput",))
    target = tmp_path / "net.cvimodel"
    target.write_bytes(session.build(module).data)
    (ours,) = session.chip.load(target.read_bytes()).run(operands).values()
    (theirs,) = run_vendor(target, operands).values()
    # Boxes in float32, whose sums are taken in another order.
    np.testing.assert_allclose(theirs.reshape(ours.shape), ours, rtol=1e-5, atol=1e-5)


def _smaller(maps: dict[str, Array]) -> dict[str, Array]:
    """The two smallest feature maps."""
    return dict(sorted(maps.items(), key=lambda item: item[1].size)[:2])


FUNCTIONS: dict[str, tuple[str, dict[str, Array]]] = {
    **{name: CASES[name] for name in ("Proposal", "RetinaFaceDetection", "YoloDetection")},
    "ROIPooling": (ROI_POOLING, REGIONS),
    "DetectionOutput": (DETECTION, _single_shot()),
    "YoloDetection of a v4": (YOLO.replace("KIND", "yolo_v4"), CASES["YoloDetection"][1]),
    "YoloDetection of a tiny v3": (YOLO.replace("KIND", "tiny"), _smaller(CASES["YoloDetection"][1])),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_last_layers_of_detectors(case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    body, operands = FUNCTIONS[case]
    kind = case.partition(" ")[0]
    module = read(inputs(**{n: a.shape for n, a in operands.items()}) + layer(kind, body, " ".join(operands)), tmp_path)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=(kind,))
    data = session.build(module).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    (got,), (vendor,) = session.chip.load(data).run(operands).values(), run_vendor(target, operands).values()
    rows, theirs = got.reshape(-1, got.shape[-1]), vendor.reshape(-1, got.shape[-1])
    found = rows.any(1)
    assert found.any()
    # Pixels in float32, whose sums are taken in another order.
    np.testing.assert_allclose(theirs[found], rows[found], rtol=1e-5, atol=1e-5)
    assert (np.isin(theirs[~found], (0, -1))).all(), "rows that nothing was found for"
