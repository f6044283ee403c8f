"""ArgMax and ArgMin of few long rows: parts of a row compete on all lanes, then their winners."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from tpuc.api import F32, LoweringBuilder, TensorType, Value
from tpuc_ops import tpu

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.common import FEW_LANES
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.reductions import reduced

LONG = 1 << 11
"""Elements from which parts are faster: a row of 1,024 floats takes 2,688 predicted cycles in parts and 2,458 as a
whole, one of 2,048 floats 1,470 and 4,858, one of 49,152 floats 7,636 and 114,182.
"""
_EXACT = 1 << 24
"""Whole numbers that f32 holds."""


def parts_of(value: Value) -> int:
    """In how many parts each row of a value is searched, along its last dimension; 1: as a whole."""
    *others, length = value.tensor.dims
    if math.prod(others) >= FEW_LANES or not LONG <= length < _EXACT:
        return 1
    return next(parts for parts in range(LANES, 0, -1) if length % parts == 0)


def place_of_extreme(
    build: LoweringBuilder, op: tpu.Arg, value: Value, result: TensorType, parts: int, name: str
) -> Value:
    """Return the index of the extreme of each row, found in `parts` parts that have the same length.

    Of equal values the first part wins, and the first element in it; with `select_last_index` the last ones.
    """
    length = value.tensor.dims[-1]
    rows, width = value.tensor.size // length, length // parts
    split = reshaped(build, value, (rows * parts, width), f"{name}_parts")
    along = dataclasses.replace(op, axis=1, keepdims=True)
    column = TensorType((rows * parts, 1), F32)
    own = reshaped(build, build(along, [split], column, f"{name}_own"), (rows, parts), f"{name}_places")
    mode = "ReduceMax" if op.mode == "ArgMax" else "ReduceMin"
    reduction = tpu.Reduce(axes=(1,), mode=mode, keepdims=True)
    extremes = reduced(build, reduction, split, split.tensor.with_shape(column.dims).at(None), f"{name}_extremes")
    extremes = reshaped(build, extremes, (rows, parts), f"{name}_contest")
    winner = build(along, [extremes], TensorType((rows, 1), F32), f"{name}_winner")
    numbers = np.broadcast_to(np.arange(parts, dtype=np.float32), (rows, parts))
    each = TensorType((rows, parts), F32)
    wins = build(tpu.Compare(mode="Equal"), [build.weight("parts", numbers), winner], each, f"{name}_wins")
    places = build(tpu.Add(), [own, build.weight("starts", numbers * width)], each, f"{name}_whole_places")
    place = build(tpu.Mul(), [places, wins], each, f"{name}_place_of_winner")
    total = tpu.Reduce(axes=(1,), mode="ReduceSum", keepdims=False)
    found = build(total, [place], TensorType((rows,), F32), f"{name}_place")
    return build(tpu.Reshape(shape=result.dims), [found], result, name)
