"""Image to boxes through one file, for whole detectors of Caffe: boxes are those of the host and of the vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tpuc.api import LoadedModel
from tpuc_driver.session import Session
from tpuc_eval.postprocess.ssd import Ssd
from tpuc_eval.postprocess.yolo_anchors import YoloV3
from tpuc_eval.protocols import Detections, Postprocess, Sample
from tpuc_images.placing import Placement

from tests.conftest import RunVendor
from tests.models.caffe_detectors import Detector, mobilenet_ssd, yolov3
from tests.tools.eval.test_fused_boxes import reader, worst

PICTURE = "000000037777.jpg"
SIDES = {"mobilenet_ssd": 300, "yolov3": 96}
WRITERS: Mapping[str, Callable[[NDArray[np.float32], Path], Detector]] = {
    "mobilenet_ssd": mobilenet_ssd,
    "yolov3": yolov3,
}
CASES = [
    pytest.param("mobilenet_ssd", "bm1684x", "f16", marks=pytest.mark.chip("bm1684x")),
    pytest.param("mobilenet_ssd", "cv181x", "bf16", marks=(pytest.mark.chip("cv181x"), pytest.mark.slow)),
    pytest.param("yolov3", "bm1684x", "f16", marks=(pytest.mark.chip("bm1684x"), pytest.mark.slow)),
    pytest.param("yolov3", "cv183x", "bf16", marks=(pytest.mark.chip("cv183x"), pytest.mark.slow)),
]


@dataclass(frozen=True)
class Compiled:
    """A detector with its boxes in the file, and what the host finds in the raw outputs of the same network."""

    path: Path
    model: LoadedModel
    given: dict[str, NDArray[np.float32]]
    sample: Sample
    reader: Postprocess
    host: Callable[[float], Detections]
    """Boxes with scores above a threshold."""
    threshold: float

    def found(self, outputs: Mapping[str, NDArray[Any]]) -> Detections:
        """What the rows of the file say."""
        (rows,) = outputs.values()
        return self.reader({"rows": rows.reshape(1, 1, -1, 7)}, self.sample)


def written(name: str, chip: str, mode: str, data: Path, folder: Path) -> Compiled:
    """A network compiled with and without its post-processing, for a picture."""
    side = SIDES[name]
    picture = Image.open(data / "data" / "coco" / PICTURE).convert("RGB").resize((side, side))
    x = (np.asarray(picture, np.float32).transpose(2, 0, 1)[None, ::-1] - np.float32(127.5)) / np.float32(127.5)
    detector, session = WRITERS[name](x, folder), Session(chip=chip, quantize=mode)
    outputs = ["mbox_loc", "mbox_conf"] if name == "mobilenet_ssd" else []
    post = "ssd" if outputs else f"yolov3{{score={detector.threshold}}}"
    raw = session.transform(detector.prototxt, model_data=detector.caffemodel, output_names=outputs)
    module = session.transform(detector.prototxt, model_data=detector.caffemodel, post=post)
    path = folder / f"net{session.chip.description.suffix}"
    path.write_bytes(session.build(module).data)
    given, sample = {"data": x}, Sample(({},), Placement((side, side), (side, side), (1.0, 1.0), (0.0, 0.0)))
    values = session.chip.load(session.build(raw).data).run(given)
    last = module.main.outputs[0].defining
    priors = last and module.constant(last.operands[2])
    assert priors is not None
    np.save(folder / "priors.npy", priors[0, 0].reshape(-1, 4))

    def host(threshold: float) -> Detections:
        if outputs:
            return Ssd(priors=str(folder / "priors.npy"), score=threshold, iou=0.45, keep=100)(values, sample)
        return YoloV3(score=threshold)(values, sample)

    loaded = session.chip.load(path.read_bytes())
    return Compiled(path, loaded, given, sample, reader(module), host, detector.threshold)


@pytest.mark.parametrize(("name", "chip", "mode"), CASES)
def test_boxes_are_those_of_the_host(name: str, chip: str, mode: str, model_data: Path, tmp_path: Path) -> None:
    compiled = written(name, chip, mode, model_data, tmp_path)
    found = compiled.found(compiled.model.run(compiled.given))
    assert len(found.scores) > 20
    assert len({*found.classes.tolist()}) > 10
    if (name, mode) != ("yolov3", "bf16"):
        score, box = worst(compiled.host(compiled.threshold), found)
        assert score < 1e-6
        assert box < 1e-5
        return
    # Sigmoids of an object and of a class are rounded to bf16 there, and so is their product.
    relative = 3 * 2**-8
    for some, among in (
        (found, compiled.host(compiled.threshold * (1 - relative))),
        (compiled.host(compiled.threshold * (1 + relative)), found),
    ):
        score, box = farthest(some, among)
        assert score < relative
        # The place within a cell is rounded, too.
        assert box < 2**-8


def farthest(some: Detections, among: Detections) -> tuple[float, float]:
    """The largest differences of scores, and of boxes as shares of their larger side, to the nearest of the others that
    has the same class.
    """
    sides = np.maximum(some.boxes[:, 2:] - some.boxes[:, :2], 1).max(axis=1)
    differences: list[tuple[float, float]] = []
    for index, label in enumerate(some.classes):
        apart = np.abs(among.boxes - some.boxes[index]).max(axis=1) / sides[index]
        score = np.abs(among.scores - some.scores[index])
        nearest = int(np.where(among.classes == label, apart + score, np.inf).argmin())
        assert among.classes[nearest] == label
        differences.append((float(score[nearest]), float(apart[nearest])))
    scores, boxes = zip(*differences, strict=True)
    return max(scores), max(boxes)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize(("name", "chip", "mode"), CASES)
def test_boxes_are_those_of_the_vendors_runtime(
    name: str, chip: str, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    compiled = written(name, chip, mode, model_data, tmp_path)
    ours = compiled.found(compiled.model.run(compiled.given))
    theirs = compiled.found(run_vendor(compiled.path, compiled.given, timeout=1000))
    score, box = worst(ours, theirs)
    assert score < 1e-6
    assert box < 1e-5
