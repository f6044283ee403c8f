"""Heads made by hand, and the boxes that follow from the published formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import UsageError
from tpuc_eval.job import fitting
from tpuc_eval.postprocess.boxes import overlaps, suppress
from tpuc_eval.postprocess.centernet import CenterNet
from tpuc_eval.postprocess.end_to_end import YoloV10
from tpuc_eval.postprocess.faces import BlazeFace, RetinaFace, YuNet
from tpuc_eval.postprocess.nanodet import NanoDet
from tpuc_eval.postprocess.rows import DetectionRows, FaceRows, YoloRows
from tpuc_eval.postprocess.scores import ReconstructionError, Scores
from tpuc_eval.postprocess.ssd import Boxes, Ssd
from tpuc_eval.postprocess.yolo_anchors import YoloV3, YoloV5
from tpuc_eval.postprocess.yolo_free import FastestDet, YoloV8, YoloX
from tpuc_eval.protocols import Detections, Postprocess, Sample
from tpuc_images.placing import Placement

from tests.families import each

Array = NDArray[Any]

# An image of 120 x 96 fills the 64 x 64 input from row 8 on, at half its size: 60 x 48.
PLACE = Placement((120, 96), (64, 64), (0.5, 0.5), (0, 8))
SAMPLE = Sample((), PLACE)
CLASSES = 2
NO = -30.0  # as good as never, once through a sigmoid
LN2, LN3 = math.log(2), math.log(3)


def image_box(center: tuple[float, float], size: tuple[float, float]) -> list[float]:
    """The box in the image: half a size around the center, then minus the offset, times two, cut at 120 x 96."""
    (x, y), (w, h) = center, size
    corners = (2 * (x - w / 2), 2 * (y - h / 2 - 8), 2 * (x + w / 2), 2 * (y + h / 2 - 8))
    return [min(max(value, 0.0), limit) for value, limit in zip(corners, (120, 96, 120, 96), strict=True)]


def assert_found(seen: Detections, *wanted: tuple[list[float], float, int]) -> None:
    assert [int(one) for one in seen.classes] == [index for _, _, index in wanted]
    # exp and sigmoid round in the last place
    np.testing.assert_allclose(seen.boxes, [box for box, _, _ in wanted], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(seen.scores, [score for _, score, _ in wanted], rtol=1e-12)


# Layouts of maps with three anchors, from [rows, columns, anchors, values]
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "channels first": lambda one: one.transpose(2, 3, 0, 1).reshape(1, -1, one.shape[0], one.shape[1]),
    "channels last": lambda one: one.reshape(1, one.shape[0], one.shape[1], -1),
    "anchors first": lambda one: one.transpose(2, 0, 1, 3)[None],
    "anchors inside": lambda one: one[None],
}


def anchor_maps() -> dict[int, Array]:
    """Silent maps of strides 8, 16 and 32, with one object at stride 16, row 1, column 2, second anchor (62 x 45)."""
    maps = {stride: np.full((64 // stride, 64 // stride, 3, 5 + CLASSES), NO) for stride in (8, 16, 32)}
    # sigmoid: x 3/4, y 1/2, w 1/2, h 1/4; object 3/4, classes 1/2 and never
    maps[16][1, 2, 1] = [LN3, 0, 0, -LN3, LN3, 0, NO]
    return maps


@each("layout", LAYOUTS)
def test_yolov5_maps(layout: str) -> None:
    outputs = {str(stride): LAYOUTS[layout](one) for stride, one in reversed(anchor_maps().items())}
    center = ((2 * 0.75 - 0.5 + 2) * 16, (2 * 0.5 - 0.5 + 1) * 16)
    size = ((2 * 0.5) ** 2 * 62, (2 * 0.25) ** 2 * 45)
    assert_found(YoloV5()(outputs, SAMPLE), (image_box(center, size), 0.75 * 0.5, 0))


@each("layout", LAYOUTS)
def test_yolov3_maps(layout: str) -> None:
    outputs = {str(stride): LAYOUTS[layout](one) for stride, one in anchor_maps().items()}
    center, size = ((0.75 + 2) * 16, (0.5 + 1) * 16), (1 * 62, 45 / 3)
    assert_found(YoloV3()(outputs, SAMPLE), (image_box(center, size), 0.75 * 0.5, 0))


def test_two_maps_with_anchors_of_their_own() -> None:
    maps = anchor_maps()
    outputs = {"a": LAYOUTS["channels first"](maps[32]), "b": LAYOUTS["channels first"](maps[16])}
    anchors = (*(1, 1, 20, 10, 1, 1), *(1, 1, 1, 1, 1, 1))
    seen = YoloV3(anchors=anchors)(outputs, SAMPLE)
    assert_found(seen, (image_box((44, 24), (20, 10 / 3)), 0.375, 0))
    with pytest.raises(UsageError, match=r"'yolov3': 20 anchor numbers cannot be divided among 3 outputs"):
        YoloV3(anchors=(1.0,) * 20)({name: np.zeros((1, 21, 2, 2)) for name in "abc"}, SAMPLE)


def test_yolov5_decoded_by_the_network() -> None:
    rows = np.zeros((1, 3 * (64 + 16 + 4), 5 + CLASSES))
    rows[0, 17] = [30, 40, 20, 16, 0.5, 0.25, 0.5]
    box = image_box((30, 40), (20, 16))
    assert_found(YoloV5()({"output0": rows}, SAMPLE), (box, 0.25, 1), (box, 0.125, 0))
    maps = {str(stride): LAYOUTS["anchors first"](one) for stride, one in anchor_maps().items()}
    assert_found(YoloV5()({**maps, "output0": rows}, SAMPLE), (box, 0.25, 1), (box, 0.125, 0))
    assert_found(YoloV5(every_class=False)({"output0": rows}, SAMPLE), (box, 0.25, 1))


def test_yolox_rows_and_maps() -> None:
    maps = [np.zeros((8, 8, 5 + CLASSES)), np.zeros((4, 4, 5 + CLASSES)), np.zeros((2, 2, 5 + CLASSES))]
    maps[1][1, 2] = [0.25, 0.5, LN2, 0, 0.5, 0.125, 0.5]  # object and classes are probabilities already
    wanted = (image_box(((0.25 + 2) * 16, (0.5 + 1) * 16), (2 * 16, 16)), 0.25, 1)
    rows = np.concatenate([one.reshape(-1, 5 + CLASSES) for one in maps])[None]
    assert rows[0, 64 + 4 + 2, 6] == 0.5
    assert_found(YoloX(score=0.1)({"output": rows}, SAMPLE), wanted)
    assert_found(
        YoloX(score=0.1)({str(i): one.transpose(2, 0, 1)[None] for i, one in enumerate(reversed(maps))}, SAMPLE), wanted
    )
    pixels = np.zeros((1, 84, 5 + CLASSES))
    pixels[0, 3] = [36, 24, 32, 16, 0.5, 0.125, 0.5]
    assert_found(YoloX(score=0.1, decoded=True)({"output": pixels}, SAMPLE), wanted)


def test_fastestdet() -> None:
    head = np.zeros((1, 5 + CLASSES, 4, 4))
    # object 1/2, offset tanh(ln 3 / 2) = 1/2 each, width sigmoid(0) = 1/2, height sigmoid(-ln 3) = 1/4
    head[0, :, 1, 2] = [0.5, LN3 / 2, LN3 / 2, 0, -LN3, 0.125, 0.25]
    box = image_box((2.5 * 16, 1.5 * 16), (32, 16))
    seen = FastestDet(score=0.1)({"out": head}, SAMPLE)
    assert_found(seen, (box, 0.5**0.6 * 0.25**0.4, 1), (box, 0.5**0.6 * 0.125**0.4, 0))


def test_yolov8_decoded_by_the_network() -> None:
    rows = np.zeros((1, 4 + CLASSES, 84))
    rows[0, :, 5] = [30, 40, 20, 16, 0.25, 0.5]
    wanted = ((image_box((30, 40), (20, 16)), 0.5, 1), (image_box((30, 40), (20, 16)), 0.25, 0))
    assert_found(YoloV8()({"output0": rows}, SAMPLE), *wanted)
    assert_found(YoloV8()({"output0": rows.transpose(0, 2, 1)}, SAMPLE), *wanted)


def test_yolov8_distributions() -> None:
    """Distances 1, 0.5 (half zero, half one), 2 and 15 cells from the middle of cell (row 1, column 2)."""
    maps = [np.full((64 // stride, 64 // stride, 64 + CLASSES), NO) for stride in (8, 16, 32)]
    bins = np.full((4, 16), -1000.0)
    bins[0, 1] = bins[1, 0] = bins[1, 1] = bins[2, 2] = bins[3, 15] = 0
    maps[1][1, 2] = [*bins.reshape(-1), 0, NO]
    corners = [(2.5 - 1) * 16, (1.5 - 0.5) * 16, (2.5 + 2) * 16, (1.5 + 15) * 16]
    x1, y1, x2, y2 = (2 * (value - shift) for value, shift in zip(corners, (0, 8, 0, 8), strict=True))
    seen = YoloV8()({str(i): one.transpose(2, 0, 1)[None] for i, one in enumerate(maps)}, SAMPLE)
    assert_found(seen, ([x1, y1, min(x2, 120), min(y2, 96)], 0.5, 0))


# SSD: prior with center (0.3, 0.4) and size (0.2, 0.4); its variances 0.1 and 0.2
PRIORS = np.array([[0.2, 0.2, 0.4, 0.6], [0.5, 0.5, 0.6, 0.6]])
OFFSETS = np.array([[1.0, -0.5, 5 * LN2, 0.0], [0.0, 0.0, 0.0, 0.0]])
SSD_CENTER = ((0.3 + 0.1 * 0.2) * 64, (0.4 - 0.05 * 0.4) * 64)
SSD_SIZE = (2 * 0.2 * 64, 0.4 * 64)


def test_ssd_with_priors_from_the_network() -> None:
    variances = np.tile([0.1, 0.1, 0.2, 0.2], 2)
    outputs = {
        "mbox_conf_flatten": np.array([[0.25, 0.5, 0.25, 1.0, 0.0, 0.0]]),
        "mbox_loc": OFFSETS.reshape(1, -1),
        "mbox_priorbox": np.stack([PRIORS.reshape(-1), variances])[None],
    }
    box = image_box(SSD_CENTER, SSD_SIZE)
    assert_found(Ssd()(outputs, SAMPLE), (box, 0.5, 0), (box, 0.25, 1))


def test_ssd_with_priors_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "priors.npy", PRIORS)
    logits = np.array([[[0, LN2, 0], [50.0, 0, 0]]])
    outputs = {"boxes": OFFSETS[None], "scores": logits}
    seen = Ssd(priors=str(tmp_path / "priors.npy"), softmax=True)(outputs, SAMPLE)
    assert_found(seen, (image_box(SSD_CENTER, SSD_SIZE), 0.5, 0), (image_box(SSD_CENTER, SSD_SIZE), 0.25, 1))
    with pytest.raises(UsageError, match=r"no output holds prior boxes; write ssd\{priors=FILE.npy\}"):
        Ssd()({"boxes": OFFSETS.reshape(1, -1), "scores": logits}, SAMPLE)
    np.save(tmp_path / "priors.npy", PRIORS[:, :3])
    with pytest.raises(UsageError, match=r"does not hold one array \[n, 4\]"):
        Ssd(priors=str(tmp_path / "priors.npy"))(outputs, SAMPLE)


def test_rows_of_detections() -> None:
    rows = np.array([[0, 2, 0.5, 0, 0.125, 1, 1], [0, 1, 0.75, 0.25, 0.5, 0.5, 0.75], [-1] + [0] * 6])[None, None]
    wanted = ([32, 48, 64, 80], 0.75, 0), ([0, 0, 120, 96], 0.5, 1)
    assert_found(DetectionRows()({"out": rows}, SAMPLE), *wanted)
    pixels = np.array([[0, 3, 0.5, 30, 40, 20, 16]])[None, None]
    seen = DetectionRows(center=True, pixels=True, background=False)({"out": pixels}, SAMPLE)
    assert_found(seen, (image_box((30, 40), (20, 16)), 0.5, 3))


def test_rows_of_layers_of_caffe() -> None:
    rows = np.array([[0, 0, 0, 0, 0, 0], [0.5, 0.625, 0.25, 0.25, 3, 0.75]])[None, None]
    assert_found(YoloRows()({"out": rows}, SAMPLE), (image_box((32, 40), (16, 16)), 0.75, 3))
    face = np.array([[24, 32, 40, 48, 0.5, *range(10)], [0] * 15])[None, None]
    assert_found(FaceRows()({"out": face}, SAMPLE), (image_box((32, 40), (16, 16)), 0.5, 0))


def test_boxes_decoded_in_the_network() -> None:
    outputs = {"scores": np.array([[[0.5, 0.5], [1, 0]]]), "boxes": np.array([[[0.25, 0.5, 0.5, 0.75], [0, 0, 1, 1]]])}
    assert_found(Boxes()(outputs, SAMPLE), ([32, 48, 64, 80], 0.5, 0))


def test_blazeface() -> None:
    """64 x 64: strides 8 and 16 with 2 and 6 anchors per cell, 128 and 96 of them."""
    boxes, logits = np.zeros((1, 224, 16)), np.full((1, 224, 1), NO)
    index = 128 + (1 * 4 + 2) * 6 + 5  # stride 16, row 1, column 2, the last of its anchors
    boxes[0, index, :4], logits[0, index] = [2, -3, 20, 10], LN3
    box = image_box((2.5 * 16 + 2, 1.5 * 16 - 3), (20, 10))
    assert_found(BlazeFace()({"r": boxes, "c": logits}, SAMPLE), (box, 0.75, 0))


def test_yunet() -> None:
    heads = {f"cls_{s}": np.zeros((1, (64 // s) ** 2, 1)) for s in (8, 16, 32)}
    heads |= {f"obj_{s}": np.zeros((1, (64 // s) ** 2, 1)) for s in (8, 16, 32)}
    heads |= {f"bbox_{s}": np.zeros((1, (64 // s) ** 2, 4)) for s in (8, 16, 32)}
    heads |= {f"kps_{s}": np.zeros((1, (64 // s) ** 2, 10)) for s in (8, 16, 32)}
    heads["cls_16"][0, 6], heads["obj_16"][0, 6], heads["bbox_16"][0, 6] = 0.5, 0.5, [0.25, 0.5, LN2, 0]
    assert_found(YuNet()(heads, SAMPLE), (image_box((36, 24), (32, 16)), 0.5, 0))


def test_yolov10() -> None:
    rows = np.array([[15, 24, 30, 40, 0.25, 1], [0, 8, 60, 56, 0.5, 0], [1, 1, 2, 2, 0.0005, 0]])[None]
    wanted = ([0, 0, 120, 96], 0.5, 0), ([30, 32, 60, 64], 0.25, 1)
    assert_found(YoloV10()({"output0": rows}, SAMPLE), *wanted)


def test_retinaface() -> None:
    """64 x 64: two priors in each of 64, 16 and 4 cells; that of 128 pixels in stride 16, row 1, column 2."""
    offsets, sure = np.zeros((1, 168, 4)), np.tile([1.0, 0.0], (1, 168, 1))
    index = 128 + (1 * 4 + 2) * 2 + 1
    offsets[0, index], sure[0, index] = [0.5, -0.25, -10 * LN2, 5 * -LN2], [0.25, 0.75]
    box = image_box((2.5 * 16 + 0.05 * 128, 1.5 * 16 - 0.025 * 128), (128 / 4, 128 / 2))
    assert_found(RetinaFace()({"b": offsets, "c": sure, "l": np.zeros((1, 168, 10))}, SAMPLE), (box, 0.75, 0))


def test_centernet() -> None:
    """Of two neighbors the higher is a peak; those of another class and farther ones are peaks as well."""
    heat = np.zeros((1, CLASSES, 16, 16))
    heat[0, 0, 5, 6], heat[0, 0, 5, 7], heat[0, 0, 9, 6], heat[0, 1, 5, 7] = 0.5, 0.75, 0.25, 0.125
    sizes, offsets = np.full((1, 2, 16, 16), 3.0), np.full((1, 2, 16, 16), 0.5)
    sizes[0, 0], offsets[0, 1] = 2.0, 0.25
    middle, lower = image_box((7.5 * 4, 5.25 * 4), (8, 12)), image_box((6.5 * 4, 9.25 * 4), (8, 12))
    wanted = (middle, 0.75, 0), (lower, 0.25, 0), (middle, 0.125, 1)
    assert_found(CenterNet()({"hm": heat, "wh": sizes, "reg": offsets}, SAMPLE), *wanted)
    with np.errstate(divide="ignore"):
        logits = np.log(heat / (1 - heat))
    assert_found(CenterNet(sigmoid=True)({"hm": logits, "wh": sizes, "reg": offsets}, SAMPLE), *wanted)


def test_nanodet() -> None:
    """Distances 1, 0.5 (half zero, half one), 2 and 7 cells from the corner of cell (row 1, column 2) of stride 16."""
    rows, bins = np.zeros((1, 64 + 16 + 4 + 1, CLASSES + 32)), np.full((4, 8), -1000.0)
    bins[0, 1] = bins[1, 0] = bins[1, 1] = bins[2, 2] = bins[3, 7] = 0
    rows[0, 64 + 1 * 4 + 2] = [0.25, 0.5, *bins.reshape(-1)]
    corners = [(2 - 1) * 16, (1 - 0.5) * 16, (2 + 2) * 16, (1 + 7) * 16]
    x1, y1, x2, y2 = (2 * (value - shift) for value, shift in zip(corners, (0, 8, 0, 8), strict=True))
    box = [x1, y1, min(x2, 120), min(y2, 96)]
    assert_found(NanoDet()({"output": rows}, SAMPLE), (box, 0.5, 1), (box, 0.25, 0))


# What they share


def test_overlap_and_suppression_by_hand() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 5], [5, 0, 15, 10], [20, 20, 20, 30]], np.float64)
    np.testing.assert_array_equal(overlaps(boxes[0], boxes), [1, 0.5, 50 / 150, 0])
    scores, same = np.array([0.9, 0.8, 0.95, 0.1]), np.zeros(4, np.int64)
    assert list(suppress(boxes, scores, same, 0.5, 10)) == [2, 0, 1, 3]  # not more than 0.5
    assert list(suppress(boxes, scores, same, 0.4, 10)) == [2, 0, 3]
    assert list(suppress(boxes, scores, same, 0.3, 10)) == [2, 1, 3]  # what is gone suppresses nothing
    assert list(suppress(boxes, scores, np.arange(4), 0.0, 10)) == [2, 0, 1, 3]  # other classes stay
    assert list(suppress(boxes, scores, same, 0.5, 2)) == [2, 0]


DETECTORS: tuple[Postprocess, ...] = (
    *(YoloV3(), YoloV5(), YoloV8(), YoloX(), FastestDet(), Ssd(), Boxes(), DetectionRows(), BlazeFace(), YuNet()),
    *(RetinaFace(), CenterNet(), NanoDet(), YoloV10(), YoloRows(), FaceRows()),
)


@each(
    ("shapes", "name"),
    [
        ([(1, 252, 85)], "yolov5"),
        ([(1, 3, 8, 8, 85), (1, 3, 4, 4, 85), (1, 3, 2, 2, 85), (1, 252, 85)], "yolov5"),
        ([(1, 84, 85)], "yolox"),
        ([(1, 6, 84)], "yolov8"),
        ([(1, 7, 4, 4)], "fastestdet"),
        ([(1, 66, 8, 8), (1, 66, 4, 4), (1, 66, 2, 2)], "yolov3 and yolov5 and yolov8 and yolox"),
        ([(1, 21, 8, 8), (1, 21, 4, 4), (1, 21, 2, 2)], "yolov3 and yolov5 and yolox"),
        ([(1, 8), (1, 6), (1, 2, 8)], "ssd"),
        ([(1, 5, 4), (1, 5, 2)], "boxes"),
        ([(1, 1, 200, 7)], "detection-rows"),
        ([(1, 224, 16), (1, 224, 1)], "blazeface"),
        ([(1, 168, 4), (1, 168, 2), (1, 168, 10)], "retinaface"),
        ([(1, 5, 16, 16), (1, 2, 16, 16), (1, 2, 16, 16)], "centernet"),
        ([(1, 85, 112)], "nanodet"),
        ([(1, 300, 6)], "yolov10"),
        ([(1, 1, 30, 6)], "yolo-rows"),
        ([(1, 1, 5, 15)], "face-rows"),
        ([(1, 84, 6)], "yolox"),
        ([(1, 64, 1), (1, 16, 1), (1, 4, 1)] * 4, "yunet"),
        ([(1, 1000)], ""),
    ],
)
def test_the_detector_is_found_by_its_outputs(shapes: Sequence[tuple[int, ...]], name: str) -> None:
    outputs = {f"out{index}": np.zeros(shape) for index, shape in enumerate(shapes)}
    if name and " " not in name:
        assert fitting(DETECTORS, outputs, SAMPLE, "net.onnx").name == name
        return
    sentence = rf"several post-processings fit its outputs \(.*\): {name}; choose with --postprocess"
    if not name:
        sentence = r"net.onnx: no known post-processing fits its outputs \(out0 1x1000\); choose with --postprocess: "
    with pytest.raises(UsageError, match=sentence):
        fitting(DETECTORS, outputs, SAMPLE, "net.onnx")


@each("detector", DETECTORS, ids=lambda one: one.name)
def test_detectors_refuse_what_they_cannot_be(detector: Postprocess) -> None:
    with pytest.raises(UsageError, match=f"post-processing '{detector.name}'"):
        detector({"a": np.zeros((1, 3, 3)), "b": np.zeros((1, 5, 5, 5))}, SAMPLE)
    with pytest.raises(UsageError, match="the data has no images; use data of type coco"):
        detector({"a": np.zeros((1, 3, 3))}, Sample(()))


def test_scores_of_one_row_and_of_several() -> None:
    one = Sample(({},))
    np.testing.assert_array_equal(Scores()({"p": np.array([[1.0, 2.0]])}, one), [[1, 2]])
    # the sample fills both places of a batch of two
    np.testing.assert_array_equal(Scores()({"p": np.array([[1.0, 2.0], [1.0, 2.0]])}, one), [[1, 2]])
    np.testing.assert_array_equal(Scores()({"p": np.array([[1.0, 2.0], [3.0, 0.0]])}, Sample(({}, {}))), [2, 1])
    with pytest.raises(UsageError, match=r"several outputs; write scores\{output=NAME\} with one of p, q"):
        Scores()({"p": np.zeros(1), "q": np.zeros(1)}, one)
    with pytest.raises(UsageError, match="no output named 'x'"):
        Scores(output="x")({"p": np.zeros(1)}, one)


def test_reconstruction_error_by_hand() -> None:
    given = (np.array([[1.0, 2.0]]), np.array([[0.0, 4.0]]))
    outputs = {"y": np.array([[1.0, 4.0], [2.0, 2.0]])}  # squares 0, 4 and 4, 4: means 2 and 4
    assert ReconstructionError()(outputs, Sample(({}, {}), given=given)) == 3.0
    with pytest.raises(UsageError, match="is for networks that reconstruct their input"):
        ReconstructionError()({"y": np.zeros((2, 3))}, Sample(({}, {}), given=given))


def test_rows_that_are_not_as_many_as_cells() -> None:
    """An input of 64 x 64 has 64 + 16 + 4 cells of strides 8, 16 and 32; v8 wants 4 x 16 bins before its classes."""
    for detector, outputs, said in (
        (YoloX(), [np.zeros((1, 85, 7))], "the output is 85x7, not 84 cells with 5 + classes values"),
        (YoloX(), [np.zeros((1, 84, 5))], "the output is 84x5, not 84 cells with 5 + classes values"),
        (YoloV8(), [np.zeros((1, 6, 85))], "the output is 6x85, not 84 cells with 4 + classes values"),
        (YoloV8(), [np.zeros((1, 64, *one)) for one in ((8, 8), (4, 4), (2, 2))], "8x8x64, not 64 cells with 64 + cl"),
    ):
        with pytest.raises(UsageError) as caught:
            detector({f"out{index}": array for index, array in enumerate(outputs)}, SAMPLE)
        assert f"post-processing '{detector.name}': " in str(caught.value)
        assert said in str(caught.value)
        assert str(caught.value).endswith("; choose another --postprocess.")
