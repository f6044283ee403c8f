"""Matrices as small integers with scales and zero points of groups: rounded to nearest, with a search of scales."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import FLOAT_MODES, WeightChoice, numpy_dtype
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import packed, padded

from tpuc_llm.family import Linear, Shape
from tpuc_llm.integers import Integers

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
"""The products of a block whose matrices are quantized."""
NARROW, WIDE = 4, 8
"""Bits that matrices have."""
DEFAULT_HEAD_BITS = 8
UNDIVIDED_BITS = 8
"""Of matrices whose rows groups do not divide. The vendor's converter leaves them floats. stories260k in w4f16: 5.2 %
more perplexity than in floats with 4 bits, 4.4 % with 8.
"""
SHARED_BITS = 8
"""Of the matrices of keys and values that several query heads share: few numbers, whose errors reach all these heads.
Chosen on stories260k in w4f16: 3.5 % more perplexity than in floats with 4 bits, 2.1 % with 8.
"""
SHRINKS = np.linspace(1.0, 0.6, 17, dtype=np.float32)
"""Shares of the range of a group that scales are tried for."""


@dataclass(frozen=True)
class Quantizer:
    """Stores matrices as `choice` says, with integers of `bits`; products keep the floats that these mean."""

    choice: WeightChoice
    bits: int

    def suited(self, depth: int) -> Quantizer:
        """Return the quantizer for rows of `depth` numbers: with 8 bits where several groups do not divide them, as a
        scale for what remains would be one for few numbers.
        """
        is_divided = not self.choice.group or depth <= self.choice.group or depth % self.choice.group == 0
        return self if is_divided else replace(self, bits=max(self.bits, UNDIVIDED_BITS))

    @staticmethod
    def of(choice: WeightChoice) -> Quantizer:
        """Return the quantizer for matrices that are not chosen to have more bits."""
        return Quantizer(choice, WIDE if choice.bits == WIDE else NARROW)

    def of_projection(self, name: str, shape: Shape, wide: Collection[str] = ()) -> Quantizer:
        """Return the quantizer for one of the products of a block; those of `wide` get 8 bits."""
        if name in wide:
            return replace(self, bits=WIDE)
        is_shared = name in ("k", "v") and shape.group > 1
        return replace(self, bits=max(self.bits, SHARED_BITS)) if is_shared else self

    @property
    def top(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1

    def linear(self, linear: Linear, importance: Array | None = None) -> Linear:
        """Return the product with its matrix stored as integers.

        `importance`: mean squares of the inputs, [inputs]; errors of weights count by them.
        """
        if linear.integers is not None:
            return linear
        own = self.suited(linear.weight.shape[1])
        if own != self:
            return own.linear(linear, importance)
        rows = self.grouped(linear.weight)
        weights = None if importance is None else self.grouped(importance[None].astype(np.float32))
        scale, zp = self.parameters(rows, weights)
        numbers = self.rounded(rows, scale, zp)
        real = self.real(numbers, scale, zp).reshape(len(rows), -1)[:, : linear.weight.shape[1]]
        return Linear(real, linear.bias, self.stored(numbers.astype(np.uint8), scale, zp))

    def stored(self, numbers: Array, scale: Array, zp: Array) -> Integers:
        """Return integers [outputs, groups, group] as the chip stores them."""
        flat = packed(numbers.reshape(len(numbers), -1), self.bits)
        return Integers(flat, scale, zp.astype(np.uint8), self.bits, self.choice.group)

    def grouped(self, matrix: Array) -> Array:
        """Return the rows in groups, the last one filled with zeros: [outputs, groups, group]."""
        rows, depth = matrix.shape
        group = self.choice.group or padded(depth)
        filled = np.zeros((rows, -(-depth // group) * group), np.float32)
        filled[:, :depth] = matrix
        return filled.reshape(rows, -1, group)

    def parameters(self, rows: Array, importance: Array | None) -> tuple[Array, Array]:
        """Return the scales and zero points of groups with the least squared error among shares of their range."""
        low, high = np.minimum(rows.min(-1), 0), np.maximum(rows.max(-1), 0)
        if self.choice.symmetric:
            high = np.maximum(high, -low)
            low = -high
        shares = SHRINKS if importance is not None else SHRINKS[:1]
        best = np.full(low.shape, np.inf, np.float32)
        scale, zp = np.ones_like(low), np.zeros_like(low)
        for share in shares:
            tried = self._held((high - low) * share / self.top)
            points = np.clip(np.rint(-low * share / tried), 0, self.top)
            if self.choice.symmetric:
                points = np.full_like(low, (self.top + 1) // 2)
            error = np.square(self.real(self.rounded(rows, tried, points), tried, points) - rows)
            loss = (error if importance is None else error * importance).sum(-1)
            better = loss < best
            best, scale, zp = (np.where(better, new, old) for new, old in ((loss, best), (tried, scale), (points, zp)))
        return scale, zp

    def _held(self, scale: Array) -> Array:
        """Round scales to the type that stores them; 1 where a group has only zeros."""
        held = scale.astype(numpy_dtype(FLOAT_MODES[self.choice.mode])).astype(np.float32)
        return np.where(held > 0, held, np.float32(1))

    def rounded(self, rows: Array, scale: Array, zp: Array) -> Array:
        """Return the nearest integers, as floats."""
        return np.clip(np.rint(rows / scale[..., None]) + zp[..., None], 0, self.top)

    def real(self, numbers: Array, scale: Array, zp: Array) -> Array:
        """Return the floats that integers mean."""
        return (numbers - zp[..., None]) * scale[..., None]
