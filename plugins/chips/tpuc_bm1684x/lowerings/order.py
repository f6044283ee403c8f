"""ArgMax and ArgMin, TopK, single-box DetectionOutput, cumulative sums and products."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.boxes import decoded
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.kernels.rank import LONGEST as LONGEST_ROW
from tpuc_bm1684x.kernels.scan import longest
from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, lane_bytes
from tpuc_bm1684x.lowerings.long_rows import parts_of, place_of_extreme
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.reductions import reduced
from tpuc_bm1684x.lowerings.selection import best_of, longest_ranked
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.turning import is_scattered, turned, turned_back

LOWEST = -1e30
"""A confidence threshold below every score."""


@TABLE.lowers(top.Arg, *ALL)
class ArgAny(Lowering[top.Arg]):
    """Computes the index in f32 from stored values. The extreme itself is a reduction, which has no integer minimum."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        exact = node.mode in INTEGERS and node.op.mode == "ArgMin"
        return (Wants.FLOAT if exact else Wants.AS_IS,)

    def lower(self, node: LoweringNode[top.Arg], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        (value,) = node.operands
        lowered = tpu.Arg(axis=op.axis, keepdims=op.keepdims, mode=op.mode, select_last_index=op.select_last_index)
        axis, result = positive_axis(op.axis, value.tensor.rank), node.result_type.with_element(F32)
        rows = turned(build, value, axis, node.name) if is_scattered(value, axis) else value
        axis = axis if rows is value else rows.tensor.rank - 1
        if axis == rows.tensor.rank - 1 and (parts := parts_of(rows)) > 1:
            results = [place_of_extreme(build, lowered, rows, result, parts, node.result_names[0])]
        elif rows is value:
            results = [build(lowered, [value], result, node.result_names[0])]
        else:
            lowered = dataclasses.replace(lowered, axis=axis, keepdims=False)
            found = result.with_shape(rows.tensor.dims[:-1]).at(None)
            places = build(lowered, [rows], found, f"{node.name}_rows")
            results = [_renamed(build, places, result.dims, node.result_names[0])]
        if len(node.result_names) > 1:
            mode = "ReduceMax" if op.mode == "ArgMax" else "ReduceMin"
            extreme = tpu.Reduce(axes=(op.axis,), mode=mode, keepdims=op.keepdims)
            result = value.tensor.with_shape(node.result_type.dims).at(None)
            results.append(reduced(build, extreme, value, result, node.result_names[1]))
        return results


@TABLE.lowers(top.TopK, *ALL)
class TopKAny(Lowering[top.TopK]):
    """Ranks every element, then scatters values and indices to the positions of their ranks, dropping ranks from K
    up.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        dims = node.operand_types[0].dims
        length = dims[positive_axis(node.op.axis, len(dims))]
        rows = math.prod(dims) // length
        ranked = longest_ranked(rows, length, node.op.K)
        if rows > LONGEST_ROW or ranked > LONGEST_ROW:
            return f"at most {LONGEST_ROW} rows and as many values to rank in each, there are {rows} and {ranked}"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.TopK], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        value = node.operands[0]
        dims = value.tensor.dims
        axis, length = positive_axis(op.axis, len(dims)), dims[op.axis]
        order = (*(index for index in range(len(dims)) if index != axis), axis)
        if axis != len(dims) - 1:
            value = _permuted(build, value, order, f"{node.name}_turned")
        rows = math.prod(dims) // length
        flat = reshaped(build, value, (rows, length), f"{node.name}_rows")
        results: list[Value] = []
        for best, name in zip(best_of(build, flat, op, node.name, node.result_names), node.result_names, strict=True):
            shape = tuple(op.K if index == axis else dims[index] for index in order)
            if axis == len(dims) - 1:
                results.append(_renamed(build, best, shape, name))
                continue
            back = tuple(order.index(index) for index in range(len(dims)))
            results.append(_permuted(build, reshaped(build, best, shape, f"{name}_shaped"), back, name))
        return results


@TABLE.lowers(top.DetectionOutput, *ALL)
class ClassesOfOneBox(Lowering[top.DetectionOutput]):
    """DetectionOutput with one constant box per image and no threshold: ranks the classes; the box is decoded at
    compile time.
    """

    def refuse(self, node: LoweringNode[top.DetectionOutput]) -> str | None:
        op, (offsets, _, priors) = node.op, node.constants
        if offsets is None or priors is None or priors.size != 8:
            return "the chip ranks the classes of one constant box, and cannot select among boxes"
        if op.confidence_threshold > LOWEST or op.top_k == 0 or op.background_label_id in range(op.num_classes):
            return "no class of the box may be excluded, neither by its score nor as background"
        if not op.share_location or not op.keep_top_k <= op.num_classes <= LONGEST_ROW:
            return (
                f"at most {LONGEST_ROW} shared classes and no more rows than classes, "
                f"there are {op.num_classes} and {op.keep_top_k}"
            )
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS, Wants.FLOAT, Wants.AS_IS)

    def lower(self, node: LoweringNode[top.DetectionOutput], build: LoweringBuilder) -> Sequence[Value]:
        op, (offsets, _, priors) = node.op, node.constants
        assert offsets is not None
        assert priors is not None
        images, count = len(offsets), op.keep_top_k
        place, variances = priors.reshape(2, 1, 4)
        units = None if op.variance_encoded_in_target else variances
        boxes = decoded(offsets.reshape(images, 1, 4), np.tile(place, (images, 1)), units, op.code_type)
        flat = reshaped(build, node.operands[1], (images, op.num_classes), f"{node.name}_scores")
        best = top.TopK(axis=1, K=count)
        scores, classes = best_of(build, flat, best, node.name, (f"{node.name}_score", f"{node.name}_class"))
        numbers = np.broadcast_to(np.arange(images, dtype=np.float32)[:, None, None], (images, count, 1))
        corners = np.broadcast_to(boxes.astype(np.float32), (images, count, 4))
        parts = [build.weight("images", numbers), classes, scores, build.weight("boxes", corners)]
        type_ = scores.tensor.with_shape((images, count, 7)).at(None)
        return [_renamed(build, build(tpu.Concat(axis=2), parts, type_, f"{node.name}_rows"), node.result_type.dims)]


def _renamed(build: LoweringBuilder, value: Value, dims: tuple[int, ...], name: str | None = None) -> Value:
    return build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def _permuted(build: LoweringBuilder, value: Value, order: tuple[int, ...], name: str) -> Value:
    dims = tuple(value.tensor.dims[index] for index in order)
    return build(tpu.Permute(order=order), [value], value.tensor.with_shape(dims).at(None), name)


@TABLE.lowers(top.CumSum, *ALL)
@TABLE.lowers(top.CumProd, *ALL)
class RunningFloat(Lowering[Any]):
    """Cumulative sums and products in floats, f32 in the integer modes: sums exceed any 8-bit scale."""

    def refuse(self, node: LoweringNode) -> str | None:
        dims = node.operand_types[0].dims
        length = dims[positive_axis(node.op.axis, len(dims))]
        most = longest(lane_bytes(node))
        return f"at most {most} values along the axis, there are {length}" if length > most else None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.FLOAT if node.mode in INTEGERS else Wants.AS_IS
        return (wanted, *(Wants.AS_IS,) * (len(node.operand_types) - 1))

    def lower(self, node: LoweringNode[top.CumSum | top.CumProd], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        value = node.operands[0]
        mode = "Sum" if isinstance(op, top.CumSum) else "Prod"
        scan = tpu.Scan(axis=op.axis, mode=mode, exclusive=op.exclusive, reverse=op.reverse)
        if not value.tensor.storage.is_float:
            wide = value.tensor.with_element(F32).at(None)
            value = build(tpu.Cast(with_scale=True), [value], wide, f"{node.name}_float")
        axis = positive_axis(op.axis, value.tensor.rank)
        result = node.result_type.with_element(value.tensor.element)
        if not is_scattered(value, axis):
            return [build(scan, [value], result)]
        rows = turned(build, value, axis, node.name)
        scan = dataclasses.replace(scan, axis=rows.tensor.rank - 1)
        rows = build(scan, [rows], result.with_shape(rows.tensor.dims).at(None), f"{node.name}_rows")
        return [turned_back(build, rows, axis, node.name)]
