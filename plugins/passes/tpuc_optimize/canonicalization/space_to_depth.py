"""Turn a convolution over interleaved parts of an image ("focus", space to depth) into a larger convolution of the
image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names, new_weight


@dataclass(frozen=True)
class _Part:
    """Every `step`-th row and column of `source`, from `start`."""

    source: Value
    start: tuple[int, int]
    step: tuple[int, int]


@dataclass(frozen=True)
class SpaceToDepthIntoConv(Pattern):
    """Slices of one image with a common step, concatenated as channels, followed by a convolution.

    Filter tap `(i, j)` of part `(y, x)` becomes tap `(i * step + y, j * step + x)`; strides and pads grow by the step.
    """

    names: Names
    matches = (top.Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        parts = _parts(operation.operands[0])
        filters = rewriter.module.constant(operation.operands[1]) if parts else None
        if filters is None or filters.ndim != 4 or op.group != 1 or op.inserts or max(op.dilations) > 1:
            return False
        source, (rows, columns) = parts[0].source, parts[0].step
        if any(part.source is not source or part.step != (rows, columns) for part in parts):
            return False
        if len({part.start for part in parts}) < len(parts) or any(
            start >= step for part in parts for start, step in zip(part.start, part.step, strict=True)
        ):
            return False
        _, channels, height, width = source.tensor.dims
        if (
            height % rows
            or width % columns
            or operation.operands[0].tensor.dims[2:] != (height // rows, width // columns)
        ):
            return False
        count, _, kh, kw = filters.shape
        wide = np.zeros((count, channels, kh * rows, kw * columns), np.float32)
        for index, part in enumerate(parts):
            y, x = part.start
            wide[:, :, y::rows, x::columns] = filters[:, index * channels : (index + 1) * channels]
        rewriter.at(operation)
        rewriter.set_operand(operation, 1, new_weight(rewriter, self.names, f"{operation.name}_filter", wide))
        rewriter.set_operand(operation, 0, source)
        upper, left, bottom, right = op.pads
        changed = dataclasses.replace(
            op,
            kernel_shape=(kh * rows, kw * columns),
            strides=(op.strides[0] * rows, op.strides[1] * columns),
            pads=(upper * rows, left * columns, bottom * rows, right * columns),
        )
        rewriter.change(operation, changed)
        return True


def _parts(value: Value) -> list[_Part]:
    """The parts that are concatenated along a value's channels; empty for any other value."""
    operation = value.defining
    if operation is None or not isinstance(operation.op, top.Concat) or operation.op.axis != 1 or operation.op.do_relu:
        return []
    parts = [_part(operand) for operand in operation.operands]
    found = [part for part in parts if part is not None]
    return found if len(found) == len(parts) and len(parts) > 1 else []


def _part(value: Value) -> _Part | None:
    """A value as a regular part of another one's rows and columns, through one or more slices."""
    part: _Part | None = None
    for op, source in _slices(value):
        if op.offset[:2] != (0, 0) or op.steps[:2] != (1, 1) or source.tensor.rank != 4 or min(op.offset) < 0:
            return None
        if source.tensor.dims[:2] != value.tensor.dims[:2] or min(op.steps) < 1:
            return None
        first, second = op.offset[2:], op.steps[2:]
        start, step = ((0, 0), (1, 1)) if part is None else (part.start, part.step)
        part = _Part(
            source,
            (first[0] + start[0] * second[0], first[1] + start[1] * second[1]),
            (step[0] * second[0], step[1] * second[1]),
        )
    return part


def _slices(value: Value) -> Iterator[tuple[top.Slice, Value]]:
    while value.defining is not None and isinstance(value.defining.op, top.Slice):
        yield value.defining.op, value.defining.operands[0]
        value = value.defining.operands[0]
