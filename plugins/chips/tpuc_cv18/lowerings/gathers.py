"""Gather: slices for constant indices, a product with a one-hot matrix for computed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.common import as_bf16
from tpuc_cv18.lowerings.table import TABLE

_MOST_ROWS, _MOST_RUNS = 256, 1024
"""Maximum number of rows, all of whose indices bf16 represents; maximum number of slices per result."""


@TABLE.lowers(top.Gather, "bf16", "int8")
class GatherAny(Lowering[top.Gather]):
    """Constant indices are split into runs, each a slice. Computed indices select rows of a bf16 matrix: comparing each
    index with the row numbers gives a one-hot row, which multiplies the matrix.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return node.constants[1] is not None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS, Wants.EXACT, *(Wants.AS_IS,) * (len(node.operand_types) - 2))

    def refuse(self, node: LoweringNode) -> str | None:
        rows, indices = node.constants[:2]
        if indices is not None:
            if rows is not None:
                return "all operands are constants; fold the op"
            runs = len(_runs(_places(node)))
            return None if runs <= _MOST_RUNS else f"indices of at most {_MOST_RUNS} runs, these have {runs}"
        extent = node.operand_types[0].dims[positive_axis(node.op.axis, node.operand_types[0].rank)]
        if extent > _MOST_ROWS:
            return (
                f"computed indices select from at most {_MOST_ROWS} rows, here {extent}; look up the rows outside and "
                "make them an input"
            )
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if node.constants[1] is None:
            return _chosen(node, Bf16Composer(node, build))
        value, dims = node.operands[0], node.operand_types[0].dims
        axis = positive_axis(node.op.axis, len(dims))
        runs = _runs(_places(node))
        parts: list[Value] = []
        for index, (first, count, step) in enumerate(runs):
            offset = tuple(first if at == axis else 0 for at in range(len(dims)))
            end = first + count * step
            ends = tuple((end if end >= 0 else -dims[axis] - 1) if at == axis else n for at, n in enumerate(dims))
            lowered = tpu.Slice(
                offset=offset, steps=tuple(step if at == axis else 1 for at in range(len(dims))), ends=ends
            )
            type_ = value.tensor.with_shape(tuple(count if at == axis else n for at, n in enumerate(dims))).at(None)
            parts.append(build(lowered, [value], type_, f"{node.name}_run{index}"))
        whole = parts[0]
        if len(parts) > 1:
            total = sum(count for _, count, _ in runs)
            type_ = value.tensor.with_shape(tuple(total if at == axis else n for at, n in enumerate(dims))).at(None)
            whole = build(tpu.Concat(axis=axis), parts, type_, f"{node.name}_rows")
        wanted = node.result_type.dims
        return [build(tpu.Reshape(shape=wanted), [whole], value.tensor.with_shape(wanted).at(None), node.name)]


def _places(node: LoweringNode) -> list[int]:
    """The indices, converted to non-negative ones."""
    indices = node.constants[1]
    assert indices is not None
    dims = node.operand_types[0].dims
    extent = dims[positive_axis(node.op.axis, len(dims))]
    return [int(index) % extent if index < 0 else int(index) for index in indices.reshape(-1)]


def _runs(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """(first index, count, step) of each run of equidistant indices."""
    runs: list[tuple[int, int, int]] = []
    for place in places:
        if runs:
            first, count, step = runs[-1]
            if count == 1 and place != first:
                runs[-1] = (first, 2, place - first)
                continue
            if count > 1 and place == first + count * step:
                runs[-1] = (first, count + 1, step)
                continue
        runs.append((place, 1, 1))
    return runs


def _chosen(node: LoweringNode, steps: Bf16Composer) -> list[Value]:
    """Select rows by computed indices: move the indexed dimension to the front and the others to columns, and back
    afterwards.
    """
    dims = node.operand_types[0].dims
    axis = positive_axis(node.op.axis, len(dims))
    before, count, behind = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
    number = math.prod(node.operand_types[1].dims)
    index = steps.reshape(steps.operand(1), (number, 1))
    below = steps.times(steps.is_positive(steps.times(index, -1.0)), count)
    places = steps.do(
        tpu.Sub(), [steps.do(tpu.Sub(), [index, steps.times(below, -1.0)]), _numbers(steps, number, count)]
    )
    is_other = steps.is_positive(steps.function("ABSVAL", places))
    absent = [steps.build.none() for _ in range(3)]
    matrix = _matrix(node, steps, (before, count, behind))
    batch = (1,) * (matrix.tensor.rank - 2)
    marks = steps.reshape(steps.inverted(is_other), (*batch, number, count))
    chosen = steps.do(tpu.MatMul(), [marks, matrix, *absent], (*batch, number, before * behind))
    if before > 1:
        chosen = steps.permute(steps.reshape(chosen, (number, before, behind)), (1, 0, 2))
    return steps.last(chosen)


def _matrix(node: LoweringNode, steps: Bf16Composer, view: tuple[int, int, int]) -> Value:
    """The rows to select from, viewed as (before, rows, after), as a matrix; a computed one has a batch dimension."""
    before, count, behind = view
    if node.constants[0] is not None:
        array = node.constants[0].reshape(view).transpose(1, 0, 2).reshape(count, -1)
        return steps.build.weight("rows_bf16", as_bf16(array), "bf16")
    value = steps.operand(0)
    if before > 1:
        value = steps.permute(steps.reshape(value, view), (1, 0, 2))
    return steps.reshape(value, (1, count, before * behind))


def _numbers(steps: Bf16Composer, number: int, count: int) -> Value:
    return steps.constant(np.broadcast_to(np.arange(count, dtype=np.float32), (number, count)))
