"""Arithmetic with terms of 1/16 of a pixel's step: by tables of bytes, or in float32, with the same results."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from tpuc.api import F32, Op, ScalarType, TensorType, Uniform, Value
from tpuc.api.host import FRACTION_BITS, LOW_STEPS, video_terms
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_passes.boundary.building import PIXELS, BoundaryBuilder

_STEPS = Uniform(ScalarType("i8"), F32, 1.0)
"""High bytes of terms."""
_F32_BITS = 23
_ROUNDING = 1.5 * 2.0 ** (_F32_BITS - FRACTION_BITS)
"""What float32 numbers this large hold are multiples of the smallest step of a term: adding it rounds."""

Parts = tuple[Value, ...]
"""The values that a sum of terms consists of."""


class VideoArithmetic(ABC):
    """How terms are made of bytes, and pixels of their sums."""

    repeats_rows: bool
    """Do sums repeat single rows?"""

    def __init__(self, build: BoundaryBuilder) -> None:
        self._build = build
        self._terms = video_terms()

    @abstractmethod
    def term(self, channel: str, colour: str, pixels: Value) -> Parts:
        """What each byte adds to a channel."""

    @abstractmethod
    def sum(self, left: Parts, right: Parts) -> Parts:
        """Exact, or beyond what a pixel can be."""

    @abstractmethod
    def pixels(self, brightness: Parts, colours: Parts) -> Value:
        """Their sum, rounded half up to a byte, and saturated."""

    def _do(self, op: Op, operands: list[Value], element: ScalarType | Uniform, what: str) -> Value:
        return self._build.op(op, operands, TensorType(operands[0].tensor.dims, element), what)


class ByteTerms(VideoArithmetic):
    """Two tables give the high and the low byte of a term; those of colours are added by themselves."""

    repeats_rows = True

    def term(self, channel: str, colour: str, pixels: Value) -> Parts:
        term, what = self._terms[channel, colour], f"{channel}{colour}"
        entries, steps = (term.high.astype(np.uint8), PIXELS) if term.is_positive else (term.high, _STEPS)
        high = self._looked_up(pixels, entries, steps, f"{what}_high")
        return high, self._looked_up(pixels, term.low, PIXELS, f"{what}_low")

    def _looked_up(self, pixels: Value, entries: Array, element: Uniform, what: str) -> Value:
        table = self._build.weight(f"{what}_table", entries.reshape(1, 1, 1, 256), element)
        return self._do(tpu.Lut(), [pixels, table], element, what)

    def sum(self, left: Parts, right: Parts) -> Parts:
        op = tpu.Add(multipliers=(1, 1), rshifts=(0,))
        high, low = (list(pair) for pair in zip(left, right, strict=True))
        return self._do(op, high, _STEPS, "high_sum"), self._do(op, low, PIXELS, "low_sum")

    def pixels(self, brightness: Parts, colours: Parts) -> Value:
        op = tpu.Add(multipliers=(LOW_STEPS, 1) * 2, rshifts=(FRACTION_BITS,))
        return self._do(op, [*brightness, *colours], PIXELS, "pixels")


class FloatTerms(VideoArithmetic):
    """Products of float32, rounded to multiples of 1/16, whose sums are exact."""

    repeats_rows = False

    def term(self, channel: str, colour: str, pixels: Value) -> Parts:
        term = self._terms[channel, colour]
        value = self._do(tpu.Cast(), [pixels], F32, f"{colour}_f32")
        for op in (
            tpu.AddConst(const_val=-float(term.zero), do_relu=term.is_positive),
            tpu.MulConst(const_val=term.factor),
            tpu.AddConst(const_val=_ROUNDING),
            tpu.AddConst(const_val=-_ROUNDING),
        ):
            value = self._do(op, [value], F32, f"{channel}{colour}_term")
        return (value,)

    def sum(self, left: Parts, right: Parts) -> Parts:
        return (self._do(tpu.Add(), [left[0], right[0]], F32, "sum"),)

    def pixels(self, brightness: Parts, colours: Parts) -> Value:
        return self._do(tpu.Cast(), [*self.sum(brightness, colours)], PIXELS, "pixels")
