"""Constant matrices that DequantizeLinear makes from small integers whose rows or columns share scales in groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import ForeignNode
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import fits_group

from tpuc_onnx.shapes import TypeTable

NARROW = {"int4": 8, "uint4": 0, "int2": 2, "uint2": 0}
"""Types of four bits or less, and what makes their integers positive."""
BLOCKED = {**NARROW, "int8": 128, "uint8": 0}
"""Types whose blocks are kept as integers; bytes with a scale per channel belong to quantized networks."""
FEWEST = 1 << 15
"""Numbers of a matrix; expanding the integers of a smaller one takes longer than loading its floats."""


@dataclass(frozen=True, eq=False)
class GroupedMatrix:
    """``(integers - zp) * scale`` of two dimensions. Scales and zero points have one number for each block of `block`
    along `axis`, and one or all along the other dimension.
    """

    integers: Array
    scale: Array
    zp: Array
    axis: int
    block: int
    bits: int

    def turned(self) -> GroupedMatrix:
        """Return the transposed matrix."""
        return GroupedMatrix(self.integers.T, self.scale.T, self.zp.T, 1 - self.axis, self.block, self.bits)

    def stored(self) -> tuple[top.A16MatMul, Array, Array, Array] | None:
        """Return the op whose right factor this is, with integers [columns, depth], scales and zero points [columns,
        groups]; None if scales differ along the depth in other blocks than an op has.
        """
        integers, scale, zp = (array.T for array in (self.integers, self.scale, self.zp))
        columns, depth = integers.shape
        groups = scale.shape[1]
        block = self.block if self.axis == 0 and groups > 1 else 0
        if integers.size < FEWEST or len(scale) not in (1, columns) or (not fits_group(block) if block else groups > 1):
            return None
        op = top.A16MatMul(weight_bits=self.bits, q_group_size=block)
        wide = np.zeros((columns, op.stored_depth(depth)), np.uint8)
        wide[:, :depth] = integers
        tables = np.zeros((2, columns, wide.shape[1] // op.group(depth)), np.float32)
        tables[0, :, :groups], tables[1, :, :groups] = scale, zp
        return op, wide, tables[0], tables[1].astype(np.uint8)


def grouped_matrix(node: ForeignNode, types: TypeTable) -> GroupedMatrix | None:
    """Return the result of a DequantizeLinear of constants, None for other integers than those of products."""
    integers, scale, *rest = (types.constants[name] for name in node.inputs if name)
    kind = integers.dtype.name
    if integers.ndim != 2 or kind not in (BLOCKED if scale.ndim == 2 else NARROW):
        return None
    scale = scale.astype(np.float32)
    if not np.isfinite(scale).all():
        return None
    axis = node.attributes.get("axis", 1) % 2
    if scale.ndim == 2:
        block = node.attributes.get("block_size", 0) or -(-integers.shape[axis] // scale.shape[axis])
    else:
        block, shape = 1, (-1, 1) if axis == 0 else (1, -1)
        scale, rest = scale.reshape(shape), [one.reshape(shape) for one in rest]
    low = BLOCKED[kind]
    numbers, zero = (array.astype(np.int16) + low for array in (integers, rest[0] if rest else np.zeros((1, 1))))
    return GroupedMatrix(
        numbers.astype(np.uint8), scale, zero.astype(np.uint8), axis, block, 4 if kind in NARROW else 8
    )
