"""Describe maps over an image: the class of every pixel, or a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tpuc_driver.api.answers import Answer, Asked, RunSample
from tpuc_driver.api.host import Labels
from tpuc_images.images import upright

from tpuc_eval.answers.drawing import BLENDED, COLORS
from tpuc_eval.answers.objects import fitting_detectors
from tpuc_eval.datasets.images import sample_of
from tpuc_eval.options import reader
from tpuc_eval.postprocess.boxes import placement_of
from tpuc_eval.postprocess.segmentation import ClassMap

COARSEST = 8
"""Maximum pixels of the input per position of a map; coarser outputs are features or detector heads."""
SHOWN, LEAST_SHARE = 10, 0.001
"""Maximum number of classes shown, and their minimum share."""
COLOR_CHANNELS = 3
"""Channels of a color picture."""
_HOT = np.array([255.0, 48.0, 0.0])


class Maps(Answer):
    """For networks with a picture as input and one map as output: scores `[1, classes, h, w]`, whose largest counts and
    class 0 is not drawn, or any values `[1, 1, h, w]`. Networks that return a color picture at least as large as
    their input are skipped.
    """

    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """See Answer."""
        if ran.picture is None or asked.postprocess or len(ran.values) != 1:
            return None
        (values,) = ran.values.values()
        sample = sample_of(ran.picture, ran.inputs)
        known = reader(asked.registry, ran.postprocess)
        if known is not None and not isinstance(known, ClassMap):
            return None
        place = placement_of("maps", sample)
        colors = any(COLOR_CHANNELS in one.shape for one in ran.inputs)
        if not _is_map(values.shape, place.input, colors=colors) or fitting_detectors(ran, asked, sample):
            return None
        rows, columns = place.places(*values.shape[2:])
        seen = (rows >= 0)[:, None] & (columns >= 0)
        if values.shape[1] == 1 and known is None:
            return _strengths(values[0, 0][rows][:, columns].astype(np.float64), seen, ran.picture, asked.draw)
        if known is not None:
            found, count = known(ran.values, sample), known.classes
        else:
            found, count = values[0].argmax(axis=0), values.shape[1]
        return _classes(found[rows][:, columns], seen, asked.names(ran), count, ran.picture, asked.draw)


def _is_map(shape: tuple[int, ...], size: tuple[int, int], *, colors: bool) -> bool:
    if len(shape) != 4 or shape[0] != 1:
        return False
    width, height = size
    is_picture = colors and shape[1] == COLOR_CHANNELS and shape[2] >= height and shape[3] >= width
    return not is_picture and shape[2] * COARSEST >= height and shape[3] * COARSEST >= width


def _classes(
    found: NDArray[Any], seen: NDArray[np.bool_], names: Labels, count: int, picture: Path, draw: Path | None
) -> list[str]:
    """Return the share of each class in the visible picture."""
    shares = np.bincount(found[seen], minlength=count) / seen.sum()
    if draw is not None:
        colors = np.array([[int(text[at : at + 2], 16) for at in (1, 3, 5)] for text in COLORS], np.float64)
        _blend(picture, colors[found % len(colors)], BLENDED * (seen & (found > 0)), draw)
    best = [int(one) for one in np.argsort(-shares, kind="stable")[:SHOWN] if shares[one] >= LEAST_SHARE]
    width = len(str(max(best)))
    return [f"{100 * shares[one]:5.1f}%  {one:>{width}}  {names.of(one, count)}" for one in best]


def _strengths(found: NDArray[np.float64], seen: NDArray[np.bool_], picture: Path, draw: Path | None) -> list[str]:
    """Return the position of the largest value, and the share above the middle of the range."""
    least, most = float(found[seen].min()), float(found[seen].max())
    row, column = np.unravel_index(int(np.where(seen, found, -np.inf).argmax()), found.shape)
    above = float((found[seen] > (least + most) / 2).mean())
    if draw is not None:
        strength = np.where(seen, (found - least) / ((most - least) or 1.0), 0.0)
        _blend(picture, np.broadcast_to(_HOT, (*found.shape, 3)), BLENDED * strength, draw)
    return [f"{least:.6g} to {most:.6g}, strongest at {column} {row}, {100 * above:.1f}% above the middle"]


def _blend(picture: Path, colors: NDArray[Any], strength: NDArray[Any], target: Path) -> None:
    image = np.asarray(upright(picture), np.float64)
    mixed = image + (colors - image) * strength[..., None]
    Image.fromarray(np.round(mixed).astype(np.uint8)).save(target)
