"""CenterNet: a heat map of centers for every class, with sizes and offsets in two other maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError, Value
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import around, placement_of, sigmoid
from tpuc_eval.postprocess.composed import TYPICAL, cell_anchors, grown_sizes
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import cells, corners
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Sample
from tpuc_eval.tail import Anchors, Candidates, Tail


@dataclass(frozen=True)
class CenterNet(Detector):
    """Maps of `stride`: a heat map of classes, sizes (width and height), and offsets to the cell, both in cells, in
    this order. Every local maximum in a 3 x 3 neighborhood counts. `sigmoid`: the host applies the heat map's
    sigmoid.
    """

    name = "centernet"
    iou: float = 1.0  # peaks suppress their neighbors already
    keep: int = 100
    stride: int = 4
    sigmoid: bool = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        grid = cells(placement_of(self.name, sample).input, self.stride)
        if len(shapes) != 3 or any(len(shape) != 4 or shape[2:] != grid for shape in shapes):
            return False
        return [shape[1] for shape in shapes[1:]] == [2, 2]

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        if not self.fits([array.shape for array in outputs.values()], sample):
            raise UsageError(
                f"post-processing '{self.name}': the outputs are not a heat map, sizes and offsets of stride "
                f"{self.stride}; choose another --postprocess."
            )
        heat, sizes, offsets = only_row(outputs)
        heat = sigmoid(heat) if self.sigmoid else heat
        heat = np.where(heat == _highest_near(heat), heat, 0.0)
        cell = corners(*heat.shape[1:]).reshape(-1, 2)
        centers, extents = (one.reshape(2, -1).T for one in (offsets, sizes))
        boxes = around(cell + centers, extents) * self.stride
        return self.select(boxes, heat.reshape(len(heat), -1).T, place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        heat, sizes, offsets = tail.outputs
        if self.sigmoid:
            heat = tail(top.Sigmoid(), heat)
        highest = tail(top.MaxPool(kernel_shape=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)), heat)
        peaks = tail(top.Mul(), heat, tail(top.Compare(mode="Equal"), heat, highest))
        places, stride = cell_anchors(tail.size, [self.stride])
        grown = grown_sizes(tail, _rows(tail, sizes), np.full((1, 2), TYPICAL))
        variances = np.array([1 / TYPICAL, 1 / TYPICAL, 1, 1])
        anchors = Anchors(places, np.tile(stride * TYPICAL, 2), tail.size, variances)
        return Candidates(tail.concat(2, _rows(tail, offsets), grown), _rows(tail, peaks), anchors)


def _rows(tail: Tail, value: Value) -> Value:
    """Return a map as `[images, cells, values]`."""
    images, channels, rows, columns = value.tensor.dims
    return tail.permute(tail.reshape(value, images, channels, rows * columns), 0, 2, 1)


def _highest_near(heat: NDArray[Any]) -> NDArray[Any]:
    """Return the maximum of the 3 x 3 neighborhood of each value, `[classes, h, w]`."""
    wide = np.pad(heat, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2)).max(axis=(3, 4))
