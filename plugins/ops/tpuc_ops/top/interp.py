"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node, Op, Str, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.traits import ExtractsFeatures


@dataclass(frozen=True)
class Interp(Op, quantized.KeepsScale, ExtractsFeatures):
    """Resample rows and columns of `x: [n, c, h, w]` to the declared result type, by `mode` nearest or linear.

    `coord_mode` maps result position i to the operand, with scale = ``result / operand`` extent: half_pixel ``(i + 0.5)
    / scale - 0.5``, pytorch_half_pixel the same (0 for a single element), asymmetric ``i / scale``, align_corners ``i *
    (operand - 1) / (result - 1)``. Nearest takes the lower position for asymmetric coordinates, else the nearest one
    with ties downwards. Positions outside take the border's value. `scale_h` and `scale_w` are the network's own
    scales, -1 if it states none.
    """

    name = "top.Interp"
    slots = listed(2, kept=1)
    mode: Str
    coord_mode: Str
    scale_h: F64 = -1.0
    scale_w: F64 = -1.0

    def infer(self, operands: Types) -> None:
        if self.mode not in ("nearest", "linear") or self.coord_mode not in _MODES:
            raise ValueError(f"mode {self.mode} with coord_mode {self.coord_mode} is not supported")

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        # A mean of limited numbers is not the limited mean, so another scale is one of its result, not of its operand.
        same = operands[0].element == result
        return same and self.mode == "linear" and self.coord_mode != "pytorch_half_pixel"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.resize(self, node, operands, lambda x: self._resized(x, node.result_type.dims))]
        return [self._resized(as_float(operands[0]), node.result_type.dims).astype(np.float32, copy=False)]

    def _resized(self, x: Array, dims: tuple[int, ...]) -> Array:
        for axis, scale in ((2, self.scale_h), (3, self.scale_w)):
            x = self._resample(x, axis, dims[axis], scale)
        return x

    def _resample(self, x: Array, axis: int, count: int, scale: float) -> Array:
        extent = x.shape[axis]
        if count == extent:
            return x
        places = self._places(extent, count, scale if scale > 0 else count / extent)
        if self.mode == "nearest":
            rounded = np.floor(places) if self.coord_mode == "asymmetric" else np.ceil(places - 0.5)
            return np.take(x, np.clip(rounded, 0, extent - 1).astype(np.int64), axis)
        places = np.clip(places, 0, extent - 1)
        lower = np.minimum(np.floor(places).astype(np.int64), extent - 1)
        share = (places - lower).astype(np.float32).reshape((-1,) + (1,) * (x.ndim - axis - 1))
        upper = np.minimum(lower + 1, extent - 1)
        return np.take(x, lower, axis) * (1 - share) + np.take(x, upper, axis) * share

    def _places(self, extent: int, count: int, scale: float) -> Array:
        index = np.arange(count, dtype=np.float64)
        match self.coord_mode:
            case "asymmetric":
                return index / scale
            case "align_corners":
                return index * ((extent - 1) / max(count - 1, 1))
            case "pytorch_half_pixel" if count == 1:
                return index
            case _:
                return (index + 0.5) / scale - 0.5


_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
