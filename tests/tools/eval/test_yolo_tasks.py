"""Masks, points and rotated boxes of YOLO v8 and its successors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tpuc.errors import UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir.fused_postprocess import fused_postprocess, network_alone
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_eval.job import fitting
from tpuc_eval.metrics.coco import CocoAp
from tpuc_eval.options import candidates, configured
from tpuc_eval.postprocess.outlines import masks_of
from tpuc_eval.postprocess.rotated import corners_of, likenesses, suppress_rotated
from tpuc_eval.postprocess.yolo_free import YoloV8
from tpuc_eval.postprocess.yolo_tasks import YoloObb, YoloPose, YoloSegment
from tpuc_eval.protocols import Detections, Mask, Objects, Sample
from tpuc_images.placing import Placement

from tests.families import each
from tests.tools.eval.test_fused_boxes import CLASSES, IMAGE, SAMPLE, SIZE, Heads

CELLS = 8 * 4 + 4 * 2 + 2
POINTS = 51
MASKS = 4
HALF = Sample(({},), Placement((120, 60), SIZE, (0.5, 0.5), (2.0, 1.0)))
"""A picture of 120 x 60, half as large in the input and not at its corner."""


def boxes(heads: Heads, more: str) -> str:
    """Boxes, scores and `more`, joined as exporters do it."""
    scale = heads.constant("scale", np.array([64, 32, 20, 20], np.float32)[None, :, None])
    box = heads.op("Mul", f"{columns(heads, 'box', 4, 'Sigmoid')} {scale}", "scaled")
    return heads.op("Concat", f"{box} {columns(heads, 'sure', CLASSES, 'Sigmoid')} {more}", "output0", axis=1)


def columns(heads: Heads, name: str, count: int, op: str) -> str:
    """`[1, count, cells]`."""
    return heads.op(op, heads.op("Transpose", heads.rows(name, count), f"{name}_t", perm=[0, 2, 1]), f"{name}_o")


def segment(heads: Heads) -> Sequence[str]:
    return [boxes(heads, columns(heads, "weights", MASKS, "Identity")), heads.map("prototypes", MASKS, 4)]


def pose(heads: Heads) -> Sequence[str]:
    """Points in pixels, each with a probability."""
    factors = heads.constant("factors", np.tile([64, 32, 1], 17).astype(np.float32)[None, :, None])
    return [boxes(heads, heads.op("Mul", f"{columns(heads, 'points', POINTS, 'Sigmoid')} {factors}", "places"))]


def obb(heads: Heads) -> Sequence[str]:
    pi, quarter = heads.constant("pi", np.float32(math.pi)), heads.constant("quarter", np.float32(0.25))
    turned = heads.op("Sub", f"{columns(heads, 'angle', 1, 'Sigmoid')} {quarter}", "turned")
    return [boxes(heads, heads.op("Mul", f"{turned} {pi}", "radians"))]


TASKS: dict[str, Callable[[Heads], Sequence[str]]] = {"yolov8-seg": segment, "yolov8-pose": pose, "yolov8-obb": obb}


def assert_equal(found: Detections, wanted: Detections) -> None:
    assert len(wanted.scores) > 3
    np.testing.assert_array_equal(found.classes, wanted.classes)
    for name in ("boxes", "scores", "points", "corners"):
        if getattr(wanted, name) is not None:
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-4)
    if wanted.masks is not None:
        assert found.masks is not None
        assert [one.pixels.sum() for one in found.masks] == [one.pixels.sum() for one in wanted.masks]


@each("name", list(TASKS))
def test_a_file_with_a_task_gives_what_the_host_makes_of_raw_outputs(name: str, tmp_path: Path) -> None:
    """Each part becomes an output of its own, and what reads them is found by them, by `auto` too."""
    heads = Heads()
    path = heads.save(tmp_path / "net.onnx", TASKS[name](heads))
    session = Session(Registry())
    raw = Interpreter(session.transform(path)).run(IMAGE)
    task = configured(Registry(), "tpuc.postprocess", f"{name}{{score=0.6}}")
    wanted = task(raw, HALF)
    assert fitting(candidates(Registry(), ""), raw, SAMPLE, "net").name == name
    for text in (f"{name}{{score=0.6}}", "yolo{score=0.6}"):
        module = session.transform(path, post=text)
        outputs = Interpreter(module).run(IMAGE)
        fused = fused_postprocess(module)
        assert (len(outputs), fused and fused.read_by) == (4 if name == "yolov8-seg" else 3, f"{name}{{score=0.6}}")
        assert len(network_alone(module).main.outputs) == len(raw)
        assert_equal(configured(Registry(), "tpuc.postprocess", f"{name}{{score=0.6}}")(outputs, HALF), wanted)
    with pytest.raises(UsageError, match=r"--post yolov8: the outputs .* do not fit; choose another post-processing"):
        session.transform(path, post="yolov8")
    if name != "yolov8-seg":
        with pytest.raises(UsageError, match="so not all are scores of classes; name yolov8-pose, yolov8-obb, or"):
            YoloV8()(raw, SAMPLE)
    other = "yolov8-obb" if name == "yolov8-pose" else "yolov8-pose"
    with pytest.raises(UsageError, match=f"--post {other}: the outputs .* with 64x32 images do not fit"):
        session.transform(path, post=other)


def test_classes_as_many_as_joints_have_numbers_stay_classes() -> None:
    rows = np.full((1, 56, CELLS), 0.25)
    rows[:, :4] *= 100
    assert fitting(candidates(Registry(), ""), {"o": rows}, SAMPLE, "net").name == "yolov8"


def chosen(name: str) -> NDArray[Any]:
    """Two rows that a network has chosen: of class 1, at the middle of the input, and one of no score."""
    more = {"yolov8-seg": [1.0, 0, 0, 0], "yolov8-pose": [32.0, 16, 0.9] * 17, "yolov8-obb": [math.pi / 2]}[name]
    box = [32.0, 16, 20, 10] if name == "yolov8-obb" else [22.0, 11, 42, 21]
    return np.array([[[*box, 0.75, 1, *more], [*box, 0.0, 1, *more]]])


@each("name", list(TASKS))
def test_what_the_network_has_chosen_itself(name: str) -> None:
    outputs = {"rows": chosen(name)}
    if name == "yolov8-seg":
        outputs["prototypes"] = np.ones((1, MASKS, 8, 16))
    post = fitting(candidates(Registry(), ""), outputs, HALF, "net")
    assert post.name == name
    found: Detections = post(outputs, HALF)
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.75], [1])
    # (22 - 2) / 0.5 and (11 - 1) / 0.5; a rotated box is as high as it was wide
    turned = name == "yolov8-obb"
    np.testing.assert_allclose(found.boxes, [[50, 10, 70, 50]] if turned else [[40, 20, 80, 40]], atol=1e-9)
    if found.masks is not None:
        assert (found.masks[0].left, found.masks[0].top, found.masks[0].pixels.sum()) == (40, 20, 40 * 20)
    if found.points is not None:
        np.testing.assert_allclose(found.points, np.tile([60.0, 30, 0.9], (1, 17, 1)))


def test_masks_lie_between_the_places_of_the_prototypes() -> None:
    random = np.random.default_rng(3)
    prototypes, weights = random.normal(0, 1, (MASKS, 8, 16)), random.normal(0, 1, (5, MASKS))
    ends = np.sort(random.uniform(0, 1, (5, 2, 2)), axis=1).reshape(5, 4) * [120, 60, 120, 60]
    place = HALF.placement
    assert place is not None
    for mask, row, box in zip(masks_of(weights, prototypes, ends, place), weights, ends, strict=True):
        values: NDArray[np.float64] = np.einsum("m,mhw->hw", row, prototypes)
        # a pixel's place in the map, whose picture begins at 0.5 and 0.25 places and has 15 and 7.5 of them
        x, y = (np.clip((np.arange(n) + 0.5) / 8 + o - 0.5, 0, m) for n, o, m in ((120, 0.5, 15), (60, 0.25, 7)))
        lines: list[NDArray[np.float64]] = [np.interp(x, np.arange(16), line) for line in values]
        turned: NDArray[np.float64] = np.stack(lines, axis=1)
        across: list[NDArray[np.float64]] = [np.interp(y, np.arange(8), line) for line in turned]
        whole = np.stack(across, axis=1) > 0
        rows, columns = np.mgrid[:60, :120]
        inside = (columns >= box[0]) & (columns < box[2]) & (rows >= box[1]) & (rows < box[3])
        np.testing.assert_array_equal(mask.whole(120, 60), whole & inside)


def test_likeness_of_rotated_boxes() -> None:
    """Of squares only the distance counts: BD is 1.5 d^2 / s^2."""
    distances, angles = np.array([1.0, 3, 8]), np.array([0.0, 0.4, 2.0])
    others = np.stack([5 + distances, np.full(3, 5.0), np.full(3, 4.0), np.full(3, 4.0), angles], axis=1)
    wanted = 1 - np.sqrt(1 - np.exp(-1.5 * distances**2 / 16))
    np.testing.assert_allclose(likenesses(np.array([5.0, 5, 4, 4, 0.1]), others), wanted, atol=1e-5)
    # a box and the same one, stated as high instead of wide
    same = likenesses(np.array([5.0, 5, 8, 2, 0.3]), np.array([[5.0, 5, 2, 8, 0.3 + math.pi / 2]]))
    np.testing.assert_allclose(same, 1, atol=1e-3)
    corners = corners_of(np.array([[10.0, 20, 4, 2, math.pi / 2]]))
    np.testing.assert_allclose(corners, [[[11, 18], [11, 22], [9, 22], [9, 18]]], atol=1e-12)


def test_rotated_boxes_are_suppressed_by_any_better_one() -> None:
    row = np.stack([np.arange(4.0) * 2, *np.tile([[0.0], [8.0], [4.0], [0.0]], 4)], axis=1)
    alike = likenesses(row[0], row[1:])
    level = float(alike[:2].mean())  # neighbors are more alike, all others less
    kept = suppress_rotated(row, np.array([0.9, 0.8, 0.7, 0.6]), np.array([0, 0, 0, 1]), level, 10)
    assert kept.tolist() == [0, 3]  # the third falls to the second, which has fallen itself
    assert suppress_rotated(row, np.array([0.9, 0.8, 0.7, 0.6]), np.array([0, 0, 0, 1]), level, 1).tolist() == [0]


SQUARE = Objects(
    np.array([[10, 20, 50, 60.0]]),
    np.array([0]),
    np.array([1600.0]),
    np.array([False]),
    ([[10, 20, 50, 20, 50, 60, 10, 60]],),
    np.dstack([np.linspace(10, 50, 17), np.linspace(20, 60, 17), np.full(17, 2.0)]),
    (100, 80),
)


def test_precision_of_masks_and_points() -> None:
    pytest.importorskip("pycocotools")
    points = SQUARE.points
    assert points is not None
    whole = Mask(10, 20, np.ones((40, 40), np.bool_))
    right = Detections(
        SQUARE.boxes, np.array([0.9]), np.array([0]), masks=(whole,), points=points * [1, 1, 0.5], size=(100, 80)
    )
    half = replace(right, masks=(replace(whole, pixels=np.arange(40)[:, None].repeat(40, 1) < 20),), points=points + 30)
    for of, counted in (("masks", 0.1), ("points", 0.0)):  # half of a mask is right from an overlap of 0.5 only
        metric = CocoAp(of=of)
        assert metric.refuse(SQUARE) == ""
        figures = [metric.evaluate([metric.digest(one, "")], [SQUARE], [])["AP"] for one in (right, half)]
        np.testing.assert_allclose(figures, [1, counted], atol=1e-9)
        with pytest.raises(
            UsageError, match=f"metric 'coco{{of={of}}}': the post-processing returns no {of}; leave out"
        ):
            metric.digest(Detections(SQUARE.boxes, np.array([0.9]), np.array([0])), "")
        bare = replace(SQUARE, outlines=None, points=None)
        assert "not every object of an image has" in metric.refuse(bare)
        with pytest.raises(UsageError, match="not every object of an image has"):
            metric.evaluate([metric.digest(right, "")], [bare], [])
    assert CocoAp(of="hats").refuse(SQUARE) == "metric 'coco': of=hats is unknown; choose one of boxes, masks, points."


@each(("name", "words"), [("seg", "mask of "), ("pose", "points "), ("obb", "class ")])
def test_run_tells_and_draws_them(name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads = Heads()
    net = heads.save(tmp_path / "net.onnx", TASKS[f"yolov8-{name}"](heads))
    picture, drawn = tmp_path / "noise.png", tmp_path / "drawn.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 70, 3), np.uint8)).save(picture)
    assert main(["run", str(net), str(picture), "--preprocess=yolo", "--draw", str(drawn)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(words in line for line in lines)
    assert len(lines[0].split("  ")[1].split()) == (8 if name == "obb" else 4)
    with Image.open(drawn) as found, Image.open(picture) as given:
        assert found.size == (70, 40)
        assert np.any(np.asarray(found) != np.asarray(given))


@each("post", [YoloSegment(), YoloPose(), YoloObb()], ids=lambda one: one.name)
def test_other_outputs_are_named(post: Any) -> None:
    with pytest.raises(UsageError, match=f"'{post.name}': o .* is not one output of {CELLS} cells with 4"):
        post({"o": np.zeros((1, 5, 3))}, SAMPLE)
