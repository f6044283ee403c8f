"""Attributes and shapes of matrix products, shared by `top.MatMul` and `tpu.MatMul`. No numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tpuc.api import Bool, Node, Types

from tpuc_ops.shapes import broadcast, is_absent, show


@dataclass(frozen=True, kw_only=True)
class ProductFields:
    """Flags that state which tensors have their last two dimensions exchanged."""

    left_transpose: Bool = False
    right_transpose: Bool = False
    output_transpose: Bool = False
    hdim_is_batch: Bool = False


def matrix_shape(dims: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    """Return the shape that enters the product; a vector becomes one row."""
    dims = dims if len(dims) > 1 else (1, *dims)
    return (*dims[:-2], dims[-1], dims[-2]) if transposed else dims


def product_shape(op: ProductFields, operands: Types) -> tuple[int, ...]:
    """Return the shape of ``left @ right + bias``; raises ValueError if the operands do not fit."""
    if op.hdim_is_batch:
        raise ValueError("hdim_is_batch is not supported; permute the operands so that batches come first")
    left, right, *bias = operands
    first = matrix_shape(left.dims, op.left_transpose)
    second = matrix_shape(right.dims, op.right_transpose)
    if first[-1] != second[-2]:
        raise ValueError(f"{show(first)} times {show(second)} has inner extents {first[-1]} and {second[-2]}")
    shape = (*broadcast(first[:-2], second[:-2]), first[-2], second[-1])
    if bias and not is_absent(bias[0]) and bias[0].size != second[-1] and broadcast(shape, bias[0].dims) != shape:
        raise ValueError(f"bias {show(bias[0].dims)} does not fit a product of {show(shape)}")
    if len(left.dims) == 1:
        return (*shape[:-2], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if op.output_transpose else shape


def product_flops(op: ProductFields, node: Node, do_relu: bool) -> int:
    """Count multiplications and additions, including bias and relu."""
    depth = matrix_shape(node.operand_types[0].dims, op.left_transpose)[-1]
    has_bias = len(node.operand_types) > 2 and not is_absent(node.operand_types[2])
    return math.prod(node.result_type.dims) * (2 * depth + has_bias + do_relu)
