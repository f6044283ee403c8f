"""Arithmetic in steps of 1/16 pixel value, in integers or float32 with equal results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from tpuc.api import F32, Node, Op, ScalarType, TensorType, Uniform, Value
from tpuc_driver.api.host import FRACTION_BITS, LOW_STEPS, video_terms
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_lower.boundary.building import PIXELS, BoundaryBuilder
from tpuc_lower.boundary.lines import line_through

_STEPS = Uniform(ScalarType("i8"), F32, 1.0)
"""Signed bytes of terms."""
_SIGN = 128
_FACTORS = range(-128, 128)
_F32_BITS = 23
_ROUNDING = 1.5 * 2.0 ** (_F32_BITS - FRACTION_BITS)
"""Adding this rounds to multiples of a term's smallest step: float32 numbers this large have that resolution."""


class Part(NamedTuple):
    """A value that is a term of a sum, with a multiplicity."""

    value: Value
    factor: int = 1


Parts = tuple[Part, ...]
"""The terms of a sum."""
Blocks = tuple[int, int, int, int, int]
"""`[n, c, rows, w, columns]`: one chroma value covers a block of `rows` by `columns` pixels."""


class VideoArithmetic(ABC):
    """Computes terms from bytes, and pixels from sums of terms."""

    def __init__(self, build: BoundaryBuilder) -> None:
        self._build = build
        self._terms = video_terms()

    @abstractmethod
    def brightness(self, pixels: Value) -> Parts:
        """The luma term of all channels."""

    @abstractmethod
    def color(self, channel: str, color: str, pixels: Value) -> Parts:
        """The term of a chroma byte in one channel."""

    @abstractmethod
    def sum(self, left: Parts, right: Parts) -> Parts:
        """The exact sum."""

    @abstractmethod
    def pixels(self, brightness: Parts, colors: Parts, blocks: Blocks) -> Value:
        """The sum rounded half up to a byte, saturated: `[n, c, rows, columns * w]`."""

    def _do(self, op: Op, operands: list[Value], element: ScalarType | Uniform, what: str) -> Value:
        return self._build.op(op, operands, TensorType(operands[0].tensor.dims, element), what)

    def _reshaped(self, value: Value, dims: tuple[int, ...], what: str) -> Value:
        return self._build.op(tpu.Reshape(shape=dims), [value], TensorType(dims, value.tensor.element), what)


class ByteTerms(VideoArithmetic):
    """Luma is the two bytes that tables give. Chroma is the difference from its middle value times an integer, and a
    byte for the remainder.
    """

    def __init__(self, build: BoundaryBuilder, runs: Callable[[Node], bool]) -> None:
        super().__init__(build)
        self._runs = runs
        self._differences: dict[Value, Value] = {}

    def brightness(self, pixels: Value) -> Parts:
        term = self._terms["", "y"]
        low = self._looked_up(pixels, term.low, PIXELS, "y_low")
        return Part(low), Part(self._high(pixels, term.high.astype(np.uint8)), LOW_STEPS)

    def _high(self, pixels: Value, entries: Array) -> Value:
        """The high bytes, by a product and a sum where these are exact, else by a table."""
        line, type = line_through(entries, 0), TensorType(pixels.tensor.dims, PIXELS)
        if line is not None and self._runs(Node(line, (pixels.tensor,), (type,), "y_high")):
            return self._do(line, [pixels], PIXELS, "y_high")
        return self._looked_up(pixels, entries, PIXELS, "y_high")

    def color(self, channel: str, color: str, pixels: Value) -> Parts:
        term, what = self._terms[channel, color], f"{channel}{color}"
        factor = round(term.factor * (1 << FRACTION_BITS))
        rest = term.values - factor * (np.arange(256) - _SIGN)
        return Part(self._difference(pixels, color), factor), Part(self._rest(pixels, color, rest, what))

    def _difference(self, pixels: Value, color: str) -> Value:
        if pixels not in self._differences:
            op = tpu.AddConst(const_val=-float(_SIGN))
            self._differences[pixels] = self._do(op, [pixels], _STEPS, f"{color}_difference")
        return self._differences[pixels]

    def _rest(self, pixels: Value, color: str, entries: Array, what: str) -> Value:
        """The remainder, by a product with a shift or a table."""
        factors = shifted_product(entries)
        if factors is None:
            return self._looked_up(pixels, entries.astype(np.int8), _STEPS, f"{what}_rest")
        op = tpu.MulShift(multiplier=factors[0], rshift=factors[1], round_mode="HalfUp")
        return self._do(op, [self._difference(pixels, color)], _STEPS, f"{what}_rest")

    def _looked_up(self, pixels: Value, entries: Array, element: Uniform, what: str) -> Value:
        table = self._build.weight(f"{what}_table", entries.reshape(1, 1, 1, 256), element)
        return self._do(tpu.Lut(), [pixels, table], element, what)

    def sum(self, left: Parts, right: Parts) -> Parts:
        return left + right

    def pixels(self, brightness: Parts, colors: Parts, blocks: Blocks) -> Value:
        n, c, rows, w, columns = blocks
        small = (n, c, 1, w, 1)
        operands = [self._reshaped(part.value, blocks, "y_blocks") for part in brightness]
        operands += [self._reshaped(part.value, small, "colors") for part in colors]
        factors = tuple(part.factor for part in (*brightness, *colors))
        pixels = self._do(tpu.Add(multipliers=factors, rshifts=(FRACTION_BITS,)), operands, PIXELS, "pixels")
        return self._reshaped(pixels, (n, c, rows, columns * w), "pixels_rows")


def shifted_product(entries: Array) -> tuple[int, int] | None:
    """The factor and shift that reproduce every entry, a signed byte, from the difference of its index from the
    middle.
    """
    differences = np.arange(256) - _SIGN
    shifts = range(16, 0, -1)
    for shift in shifts:
        for factor in _FACTORS:
            if np.array_equal((factor * differences + (1 << shift >> 1)) >> shift, entries):
                return factor, shift
    return None


class FloatTerms(VideoArithmetic):
    """Products of float32, rounded to multiples of 1/16, whose sums are exact."""

    def brightness(self, pixels: Value) -> Parts:
        return self.color("", "y", pixels)

    def color(self, channel: str, color: str, pixels: Value) -> Parts:
        term = self._terms[channel, color]
        value = self._do(tpu.Cast(), [pixels], F32, f"{color}_f32")
        for op in (
            tpu.AddConst(const_val=-float(term.zero), do_relu=term.is_positive),
            tpu.MulConst(const_val=term.factor),
            tpu.AddConst(const_val=_ROUNDING),
            tpu.AddConst(const_val=-_ROUNDING),
        ):
            value = self._do(op, [value], F32, f"{channel}{color}_term")
        return (Part(value),)

    def sum(self, left: Parts, right: Parts) -> Parts:
        return (Part(self._do(tpu.Add(), [left[0].value, right[0].value], F32, "sum")),)

    def pixels(self, brightness: Parts, colors: Parts, blocks: Blocks) -> Value:
        n, c, rows, w, columns = blocks
        type, op = TensorType((n, c, rows, columns * w), F32), tpu.Upsample(scale_h=rows, scale_w=columns)
        doubled = self._build.op(op, [colors[0].value], type, "doubled")
        (total,) = self.sum(brightness, (Part(doubled),))
        return self._do(tpu.Cast(), [total.value], PIXELS, "pixels")
