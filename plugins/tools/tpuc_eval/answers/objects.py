"""Show the objects in an image, with the post-processing that fits the outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from PIL import ImageDraw
from tpuc_driver.api.answers import Answer, Asked, RunSample
from tpuc_images.images import upright

from tpuc_eval.datasets.images import sample_of
from tpuc_eval.options import candidates, reader
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.rows import DetectionRows
from tpuc_eval.protocols import Detections, Postprocess, Sample, plain_shape

SHOWN_SCORE = 0.25
"""The least score of boxes that are shown where the user asks for no other."""
COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000")


class Objects(Answer):
    """Of detectors, for pictures."""

    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """See Answer; raises UsageError where `--postprocess` names what the outputs are not."""
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
        rows = zip(found.scores.tolist(), found.boxes.tolist(), labels, strict=True)
        lines = [f"{score:.3f}  {' '.join(f'{end:.1f}' for end in box)}  {label}" for score, box, label in rows]
        return lines or [f"nothing found ({chosen.name})"]


def _chosen(ran: RunSample, asked: Asked, sample: Sample) -> Postprocess | None:
    """The post-processing that was named, the one that reads what is in the network, or the only detector that fits;
    None where none does, or several do.
    """
    if asked.postprocess:
        return candidates(asked.registry, asked.postprocess)[0]
    known = reader(asked.registry, ran.postprocess)
    if known is not None:
        return dataclasses.replace(known, score=SHOWN_SCORE) if isinstance(known, DetectionRows) else known
    fitting = fitting_detectors(ran, asked, sample)
    if len(fitting) != 1:
        return None
    (one,) = fitting
    return dataclasses.replace(one, score=SHOWN_SCORE, every_class=False) if isinstance(one, Detector) else one


def fitting_detectors(ran: RunSample, asked: Asked, sample: Sample) -> Sequence[Postprocess]:
    """Those that the outputs may be of, by their shapes."""
    shapes = [plain_shape(array.shape) for array in ran.values.values()]
    return [one for one in candidates(asked.registry, "") if one.fits(shapes, sample)]


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else f"class {index}"


def draw(picture: Path, found: Detections, labels: Sequence[str], target: Path) -> None:
    """The picture with its boxes."""
    image = upright(picture)
    pen = ImageDraw.Draw(image)
    width = max(1, max(image.size) // 300)
    colours = [COLOURS[int(index) % len(COLOURS)] for index in found.classes]
    for box, score, colour, label in zip(found.boxes.tolist(), found.scores.tolist(), colours, labels, strict=True):
        pen.rectangle(box, outline=colour, width=width)
        words = f"{label} {score:.2f}"
        corner = (box[0] + width, max(0.0, box[1] - 12))
        pen.rectangle(pen.textbbox(corner, words), fill=colour)
        pen.text(corner, words, fill="white")
    image.save(target)
