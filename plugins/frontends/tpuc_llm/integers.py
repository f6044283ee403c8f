"""Matrices as integers with scales and zero points, as products store them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import WeightOnlyFields, packed


@dataclass(frozen=True)
class Integers:
    """A matrix `[outputs, inputs]` as packed integers of `bits`, with scales and zero points [outputs, groups].

    Where `order` is given, integer i of a row belongs to input `order[i]`.
    """

    weight: Array
    scale: Array
    zp: Array
    bits: int
    group: int
    order: Array | None = None

    @staticmethod
    def of(numbers: Array, scale: Array, zp: Array, bits: int, group: int) -> Integers:
        """Pack numbers [outputs, inputs], whose rows are filled up with zeros to whole groups.

        `scale` and `zp` are those of the groups; `group` is 0 for one of them per row.
        """
        outputs, depth = numbers.shape
        form = WeightOnlyFields(weight_bits=bits, q_group_size=group)
        size, wide = form.group(depth), form.stored_depth(depth)
        added = wide // size - scale.shape[1]
        scale = np.pad(scale.astype(np.float32), ((0, 0), (0, added)), constant_values=1)
        zp = np.pad(zp.astype(np.uint8), ((0, 0), (0, added)))
        filled = np.repeat(zp, size, 1)
        filled[:, :depth] = numbers
        return Integers(packed(filled.reshape(outputs, wide), bits), scale, zp, bits, group)

    def real(self, depth: int) -> Array:
        """Return the floats that the integers mean: [outputs, depth]."""
        form = WeightOnlyFields(weight_bits=self.bits, q_group_size=self.group)
        found = form.real(self.weight, self.scale, self.zp, depth)
        if self.order is None:
            return found
        placed = np.empty_like(found)
        placed[:, self.order] = found
        return placed

    def rows(self, part: slice) -> Integers:
        """Return some of the outputs."""
        return replace(self, weight=self.weight[part], scale=self.scale[part], zp=self.zp[part])

    def scaled(self, factor: float) -> Integers:
        """Return the matrix times a factor."""
        return replace(self, scale=self.scale * np.float32(factor))
