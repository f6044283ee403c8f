"""Kernel samples drawn at random, the same in every run: shapes, windows, tiles, quantizations."""

from __future__ import annotations

import numpy as np
from tpuc.api import TensorType
from tpuc_ops import tpu
from tpuc_testing import Typed, quantized, quantized_element
from tpuc_testing.kernel_conformance import Fixed, Sample


class Draw:
    """A source of small random things."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        """Between both, inclusive."""
        return int(self.random.integers(low, high, endpoint=True))

    def pair(self, low: int, high: int) -> tuple[int, int]:
        """Two numbers."""
        return self.number(low, high), self.number(low, high)

    def dtype(self) -> str:
        """A byte type."""
        return "int8" if self.random.random() < 0.5 else "uint8"

    def bytes(self, *shape: int, dtype: str | None = None) -> Typed:
        """A quantized tensor over the whole range of its type."""
        name = dtype or self.dtype()
        limits = np.iinfo(name)
        return quantized(self.random.integers(limits.min, limits.max, shape, name, endpoint=True), 0.05)

    def shape(self) -> tuple[int, int, int, int]:
        """n, c, h, w with channels on both sides of the lane count."""
        channels = (self.number(1, 9), self.number(60, 70), self.number(120, 140))[self.number(0, 2)]
        return (self.number(1, 3), channels, self.number(1, 9), self.number(1, 9))

    def tiling(self, result: tuple[int, ...]) -> dict[str, int]:
        """Tile sizes; channels are cut at the lane count."""
        n, c, h, w = result
        sizes = {"n": self.number(1, n), "h": self.number(1, h), "w": self.number(1, w)}
        if c > 64:
            sizes["c"] = 64
        return sizes


def convolution(draw: Draw) -> Sample:
    """Full, depthwise or grouped; bytes with per-channel requantization, or floats."""
    n, c, h, w = draw.shape()
    kind = draw.number(0, 2)
    divisors = [group for group in range(2, c + 1) if c % group == 0]
    group = 1 if kind == 0 or not divisors else c if kind == 1 else divisors[draw.number(0, len(divisors) - 1)]
    channels = group * (1 if kind == 1 else draw.number(1, max(140 // group, 1)))
    kernel, strides, dilations = draw.pair(1, 3), draw.pair(1, 3), draw.pair(1, 2)
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    least = [max(e - s, 0) for e, s in zip(extent, (h, w), strict=True)]
    pads = (least[0], least[1], draw.number(0, extent[0] - 1), draw.number(0, extent[1] - 1))
    integer = draw.random.random() < 0.7
    op = tpu.Conv2D(
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
        do_relu=draw.random.random() < 0.3,
        multiplier=tuple(draw.number(2**29, 2**31 - 1) for _ in range(channels)) if integer else (),
        rshift=tuple(draw.number(36, 42) for _ in range(channels)) if integer else (),
    )
    filters = draw.random.integers(-128, 127, (channels, c // group, *kernel), np.int8, endpoint=True)
    bias = draw.random.integers(-(2**20), 2**20, channels).astype(np.int32) if draw.random.random() < 0.7 else None
    operands = [
        draw.bytes(n, c, h, w),
        Fixed(filters, "si8"),
        None if bias is None else Fixed(bias.reshape(1, -1, 1, 1)),
    ]
    if not integer:
        x = draw.random.uniform(-1, 1, (n, c, h, w)).astype(np.float32)
        scale = np.float32(1 / 128)
        operands = [
            x,
            Fixed(filters * scale),
            None if bias is None else Fixed((bias * scale / 8192).astype(np.float32)),
        ]
    height, width = op.window().output((h, w))
    tiles = draw.tiling((n, channels, height, width))
    result = quantized_element(draw.dtype(), 0.05) if integer else None
    return Sample(op, operands, result, (tiles,))


def elementwise(draw: Draw) -> Sample:
    """Sums, differences and products of bytes with extents that repeat."""
    shape = draw.shape()
    other = tuple(extent if draw.random.random() < 0.6 else 1 for extent in shape)
    left, right = draw.bytes(*shape), draw.bytes(*other)
    second: Typed | Fixed = right
    if draw.random.random() < 0.4:
        second = Fixed(right.array, "ui8" if right.array.dtype == np.uint8 else "si8")
    # A constant comes second: the first operand's type says what the result means.
    operands = [second, left] if draw.random.random() < 0.5 and isinstance(second, Typed) else [left, second]
    kind = draw.number(0, 2)
    multipliers, shifts = draw.pair(-127, 127), draw.pair(-2, 9)
    relu = draw.random.random() < 0.3
    op = (
        tpu.Add(multipliers=multipliers, rshifts=shifts, do_relu=relu),
        tpu.Sub(multipliers=multipliers, rshifts=shifts, do_relu=relu, is_reverse=bool(draw.number(0, 1))),
        tpu.Mul(multiplier=multipliers[0], rshift=draw.number(5, 16), do_relu=relu),
    )[kind]
    return Sample(op, operands, quantized_element(draw.dtype(), 0.05), (draw.tiling(shape),))


def rescaled(draw: Draw) -> Sample:
    """Bytes in another scale."""
    shape = draw.shape()
    op = tpu.MulShift(multiplier=draw.number(-127, 127), rshift=draw.number(-3, 9))
    return Sample(op, [draw.bytes(*shape)], quantized_element(draw.dtype(), 0.03), (draw.tiling(shape),))


def pooled(draw: Draw) -> Sample:
    """Maxima and averages of bytes."""
    n, c, h, w = draw.shape()
    kernel, strides = (draw.number(1, h), draw.number(1, w)), draw.pair(1, 3)
    pads = tuple(draw.number(0, (extent - 1) // 2) for extent in kernel)
    average = draw.random.random() < 0.5
    op = tpu.Pool2D(
        pool_mode="Avg" if average else "Max",
        kernel_shape=kernel,
        strides=strides,
        pads=(*pads, *pads),
        count_include_pad=True,
        multiplier=draw.number(1, 127),
        rshift=draw.number(4, 9),
        round_mode="HalfUp",
        do_relu=draw.random.random() < 0.3,
    )
    dtype = draw.dtype()
    result = (n, c, *op.window().output((h, w)))
    type_ = TensorType(result, quantized_element(dtype, 0.05))
    return Sample(op, [draw.bytes(n, c, h, w, dtype=dtype)], type_, (draw.tiling(result),))


def moved(draw: Draw) -> Sample:
    """Slices, pads and permutations of up to five dimensions."""
    shape = tuple(draw.number(1, 7) for _ in range(draw.number(1, 5)))
    x = draw.bytes(*shape)
    kind = draw.number(0, 2)
    if kind == 0:
        steps = tuple((-2, -1, 1, 2)[draw.number(0, 3)] for _ in shape)
        offset = tuple(draw.number(-1, 0) for _ in shape)
        offset = tuple(-1 if step < 0 else max(at, 0) for at, step in zip(offset, steps, strict=True))
        ends = tuple(-100 if step < 0 else 100 for step in steps)
        op = tpu.Slice(offset=offset, steps=steps, ends=ends)
    elif kind == 1:
        op = tpu.Pad(paddings=tuple(draw.number(-1 if extent > 2 else 0, 3) for extent in (*shape, *shape)), val=5.0)
    else:
        op = tpu.Permute(order=tuple(int(axis) for axis in draw.random.permutation(len(shape))))
    inferred = op.infer((x.type,))
    assert inferred is not None
    return Sample(op, [x], inferred[0].with_element(x.type.element))


KINDS = {
    "convolution": convolution,
    "elementwise": elementwise,
    "rescaled": rescaled,
    "pooled": pooled,
    "moved": moved,
}


def generated(kind: str, count: int) -> dict[str, Sample]:
    """The first `count` samples of a kind."""
    return {f"{kind}{seed}": KINDS[kind](Draw(seed)) for seed in range(count)}
