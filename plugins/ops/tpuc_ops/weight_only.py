"""Matrices stored as small integers with scales and zero points of groups: packing, and the floats that they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, LoweringNode, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import is_absent, show

BITS = (4, 8, 16)
UNIT, LEAST_GROUP = 32, 16
"""Stored rows are filled up to multiples of the first; groups are multiples of the second."""


@dataclass(frozen=True, kw_only=True)
class WeightOnlyFields:
    """How the matrix `weight: [columns, bytes]` of a product is stored.

    Every row holds integers of `weight_bits`, two in a byte with the first in the low bits if these are 4. Groups of
    `q_group_size` integers, or whole rows if it is 0, share a scale and a zero point: ``(integer - zp) * scale``. Rows
    are filled up to whole groups. With 16 bits the matrix consists of floats, without scales.
    """

    weight_bits: I64 = 4
    q_group_size: I64 = 64

    def group(self, depth: int) -> int:
        """Return the integers that share a scale, in rows of `depth`."""
        return self.q_group_size or padded(depth)

    def stored_depth(self, depth: int) -> int:
        """Return the integers of a stored row: whole groups, and whole units of 32."""
        unit = math.lcm(self.group(depth), UNIT)
        return -(-depth // unit) * unit if self.weight_bits < 16 else depth

    def real(self, weight: Array, scale: Array, zp: Array, depth: int) -> Array:
        """Return the matrix as float32: [columns, depth]; neither products nor differences are rounded."""
        if self.weight_bits == 16:
            return weight.astype(np.float32)
        numbers = unpacked(weight, self.weight_bits)
        grouped = numbers.reshape(len(numbers), -1, self.group(depth)).astype(np.float32)
        points = zp.astype(np.float32)[..., None]
        found = (grouped - points) * scale.astype(np.float32)[..., None]
        return found.reshape(len(numbers), -1)[:, :depth]

    def check(self, operands: Types) -> None:
        """Raise ValueError where operands do not fit these fields or each other."""
        x, weight, *others = operands
        depth, columns = x.dims[-1], weight.dims[0]
        if self.weight_bits not in BITS:
            raise ValueError(f"weight_bits is {self.weight_bits}, it has to be 4, 8 or 16")
        if self.q_group_size and not fits_group(self.q_group_size):
            raise ValueError(f"q_group_size is {self.q_group_size}, it has to be a multiple of {LEAST_GROUP}")
        wide = self.stored_depth(depth)
        row = wide if self.weight_bits == 16 else wide * self.weight_bits // 8
        if weight.dims != (columns, row):
            raise ValueError(f"weight {show(weight.dims)} does not fit a depth of {depth}, rows have {row} elements")
        tables = [type_ for type_ in others[:2] if not is_absent(type_)]
        wanted = (columns, wide // self.group(depth))
        if self.weight_bits < 16 and [type_.dims for type_ in tables] != [wanted] * 2:
            raise ValueError(f"scales and zero points have to be {show(wanted)}")


def refuse_computed(node: LoweringNode[Op]) -> str | None:
    """Return why a product cannot be lowered: operands beside the first one have to be constants, or absent."""
    others = zip(node.operand_types[1:], node.constants[1:], strict=True)
    if any(constant is None and not is_absent(type_) for type_, constant in others):
        return "the matrix, its scales and zero points, and the bias must be constants"
    return None


def fits_group(size: int) -> bool:
    """True if groups can have this many integers."""
    return size > 0 and size % LEAST_GROUP == 0


def padded(depth: int) -> int:
    """Return the depth of rows without groups, in multiples of 32."""
    return -(-depth // UNIT) * UNIT


def packed(numbers: Array, bits: int) -> Array:
    """Pack rows of integers into bytes."""
    if bits == 8:
        return numbers.astype(np.uint8)
    low, high = numbers[:, ::2].astype(np.uint8), numbers[:, 1::2].astype(np.uint8)
    return low | high << 4


def unpacked(weight: Array, bits: int) -> Array:
    """Return the integers of packed rows."""
    if bits == 8:
        return weight
    found = np.empty((len(weight), weight.shape[1] * 2), np.uint8)
    found[:, ::2], found[:, 1::2] = weight & 15, weight >> 4
    return found


def product_dims(node_types: Types) -> tuple[int, ...]:
    """Return the shape of the product of rows with a stored matrix."""
    return (*node_types[0].dims[:-1], node_types[1].dims[0])


def weight_only_flops(node: Node) -> int:
    """Count multiplications and additions."""
    return 2 * node.result_type.size * node.operand_types[0].dims[-1]
