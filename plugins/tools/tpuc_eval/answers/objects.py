"""List the objects in an image, with the post-processing that fits the outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tpuc.api import LoadedModel, Registry
from tpuc.api.boundary import FusedPostprocess
from tpuc_driver.api.answers import Answer, Asked, RunSample

from tpuc_eval.answers.drawing import draw
from tpuc_eval.datasets.images import sample_of
from tpuc_eval.options import candidates, reader
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.rows import DetectionRows
from tpuc_eval.postprocess.yolo_tasks import SEEN, YoloTask
from tpuc_eval.programs import object_programs
from tpuc_eval.protocols import Detections, Postprocess, Sample, plain_shape

_Detector = TypeVar("_Detector", bound=Detector)
SHOWN_SCORE = 0.25
"""Default minimum score of boxes that are shown."""


class Objects(Answer):
    """For detectors on pictures."""

    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """See Answer; raises UsageError if `--postprocess` does not fit the outputs."""
        if ran.picture is None:
            return None
        sample = sample_of(ran.picture, ran.inputs)
        chosen = _chosen(ran, asked, sample)
        if chosen is None:
            return None
        found = chosen(ran.values, sample)
        if not isinstance(found, Detections):
            return None
        names = asked.names(ran).names
        labels = [_name(names, index) for index in found.classes.tolist()]
        if asked.draw is not None:
            draw(ran.picture, found, labels, asked.draw)
        return list(_lines(found, labels)) or [f"nothing found ({chosen.name})"]

    def programs(self, network: LoadedModel, fused: FusedPostprocess, registry: Registry) -> Mapping[str, str]:
        """See Answer: masks and points."""
        known = reader(registry, fused)
        if not isinstance(known, YoloTask) or len(network.inputs) != 1 or len(network.inputs[0].shape) != 4:
            return {}
        dims = network.inputs[0].shape
        height, width = dims[2:] if dims[1] in (1, 3) else dims[1:3]
        shapes = [info.shape for info in network.outputs]
        return object_programs(_as_shown(known), shapes, height, width)


def _lines(found: Detections, labels: Sequence[str]) -> Iterator[str]:
    """Format score, box or corners, and class of each object, followed by further values."""
    ends = found.boxes if found.corners is None else found.corners.reshape(-1, 8)
    for index, (score, label) in enumerate(zip(found.scores.tolist(), labels, strict=True)):
        line = f"{score:.3f}  {' '.join(f'{end:.1f}' for end in ends[index].tolist())}  {label}"
        if found.masks is not None:
            line += f"  mask of {int(found.masks[index].pixels.sum())} pixels"
        if found.points is not None:
            line += f"  points {' '.join(map(_point, found.points[index].tolist()))}"
        yield line


def _point(point: Sequence[float]) -> str:
    x, y, sure = point
    return f"{x:.1f},{y:.1f}" if sure > SEEN else "-"


def _chosen(ran: RunSample, asked: Asked, sample: Sample) -> Postprocess | None:
    """Return the named post-processing, the one that reads what is in the network, or the only detector that fits; None
    if none or several fit.
    """
    if asked.postprocess:
        return candidates(asked.registry, asked.postprocess)[0]
    known = reader(asked.registry, ran.postprocess)
    if known is None:
        fitting = fitting_detectors(ran, asked, sample)
        known = fitting[0] if len(fitting) == 1 else None
    if isinstance(known, Detector):
        return _as_shown(known)
    return dataclasses.replace(known, score=SHOWN_SCORE) if isinstance(known, DetectionRows) else known


def _as_shown(known: _Detector) -> _Detector:
    """Return a detector without boxes that are unlikely, and of each box only the best class."""
    return dataclasses.replace(known, score=max(SHOWN_SCORE, known.score), every_class=False)


def fitting_detectors(ran: RunSample, asked: Asked, sample: Sample) -> Sequence[Postprocess]:
    """Return the detectors that fit the shapes of the outputs."""
    shapes = [plain_shape(array.shape) for array in ran.values.values()]
    fitting = [one for one in candidates(asked.registry, "") if one.fits(shapes, sample)]
    return [one for one in fitting if one.reads(ran.values, sample)]


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else f"class {index}"
