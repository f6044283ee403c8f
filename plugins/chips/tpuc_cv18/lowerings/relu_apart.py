"""Relus in prequantized networks that saturation does not implement: a table after the op."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, TensorType, Value, numpy_dtype
from tpuc_chip_parts.lowering import InnerBuilder, is_stated
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import integer_bounds, zero_point

LowerT = TypeVar("LowerT", bound=Callable[..., Sequence[Value]])
"""The `lower` method of a lowering."""


def with_relu_apart(lower: LowerT) -> LowerT:
    """Wrap `lower` for ops with a relu that neither saturation nor a command implements: lower without the relu, then
    clamp by a table.

    Commands clamp at the stored 0, which is not the real 0 of a type with a zero point.
    """

    def apart(self: Any, node: LoweringNode[Any], build: LoweringBuilder) -> Sequence[Value]:
        if not _needs_table(node):
            return lower(self, node, build)
        op, result = node.op, node.quantized_result_type()
        plain = dataclasses.replace(op, do_relu=False, relu_limit=-1.0)
        inner = dataclasses.replace(node, op=plain, name=f"{node.name}_before_relu")
        (value,) = lower(self, inner, InnerBuilder(build, inner.name))
        entries = clamped_bytes(result, op.relu_limit).reshape(1, 1, 1, 256)
        element = "ui8" if result.storage.is_unsigned else "si8"
        return [build(tpu.Lut(), [value, build.weight("relu_table", entries, element)], result)]

    return cast("LowerT", apart)


def clamped_bytes(type_: TensorType, limit: float) -> Array:
    """The relu of each byte of a type."""
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(type_.storage))
    return np.clip(every, *integer_bounds(type_, True, limit)).astype(every.dtype)


def _needs_table(node: LoweringNode[Any]) -> bool:
    if not (node.op.do_relu and is_stated(node) and zero_point(node.result_type)):
        return False
    bounds = integer_bounds(node.result_type, False, -1.0)
    return integer_bounds(node.result_type, True, node.op.relu_limit) != bounds
