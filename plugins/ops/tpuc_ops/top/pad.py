"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64Array, Node, Op, Str, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import padded
from tpuc_ops.traits import KeepsGrid, KeepsRange, Traceable


@dataclass(frozen=True)
class Pad(Op, quantized.KeepsScale, KeepsRange, KeepsGrid, Traceable):
    """Pad each dimension; `paddings` lists all counts before, then all counts after.

    `mode`: constant fills with `val`; reflect mirrors without repeating the border; edge repeats the border. Negative
    paddings crop.
    """

    name = "top.Pad"
    paddings: I64Array
    mode: Str = "constant"
    val: F64 = 0.0

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        if self.mode not in ("constant", "reflect", "edge"):
            raise ValueError(f"mode must be constant, reflect or edge, this one is {self.mode}")
        return (x.shape_only().with_shape(padded(x.dims, self.paddings)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.pad(self, node, operands, pad)]
        return [pad(operands[0], self.paddings, self.mode, self.val)]

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        return (self.val,) if self.mode == "constant" else ()

    def without_fill(self) -> Pad:
        return Pad(self.paddings, self.mode)


def pad(x: Array, paddings: Sequence[int], mode: str, value: float) -> Array:
    """Pad `x`; `paddings` lists all before, then all after; negative ones crop."""
    pairs = list(zip(paddings[: x.ndim], paddings[x.ndim :], strict=True))
    cut = tuple(
        slice(max(-before, 0), extent + min(after, 0)) for extent, (before, after) in zip(x.shape, pairs, strict=True)
    )
    added = [(max(before, 0), max(after, 0)) for before, after in pairs]
    match mode:
        case "reflect":
            return np.pad(x[cut], added, mode="reflect")
        case "edge":
            return np.pad(x[cut], added, mode="edge")
        case _:
            return np.pad(x[cut], added, constant_values=value)
