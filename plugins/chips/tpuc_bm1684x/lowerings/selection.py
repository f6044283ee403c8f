"""TopK of long rows: selects the best first, because ranking compares every pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import LoweringBuilder, TensorType, Value, numpy_dtype
from tpuc_ops import top, tpu

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.best_places import LANE_UNIT, MOST_PER_LANE
from tpuc_bm1684x.kernels.rank import LONGEST
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.repetition import along

_WORTHWHILE = 1.5
"""Smallest ratio of row length to group length for another round. Not varied."""
_UNIT = LANES * LANE_UNIT
"""Rows whose best elements are selected by counting are padded to a multiple of this."""
_MANY = 1 << 18
"""Comparisons of a round from which counting is faster. Not varied."""


@dataclass(frozen=True)
class _Contest:
    """The candidates left after some rounds: values `[rows, length]`, and their original positions `[rows, length, 1]`
    in f32.

    Equal values keep their order, so every round prefers the earlier one.
    """

    values: Value
    places: Value

    @property
    def dims(self) -> tuple[int, ...]:
        return self.values.tensor.dims


def best_of(build: LoweringBuilder, flat: Value, op: top.TopK, name: str, names: Sequence[str]) -> Sequence[Value]:
    """The K best values of each row of `[rows, length]`, then their indices in f32: `[rows, K, 1]` each, one result per
    name.
    """
    rows, length = flat.tensor.dims
    numbers = np.broadcast_to(np.arange(length, dtype=np.float32)[:, None], (rows, length, 1))
    left = _Contest(flat, build.weight("places", numbers))
    turn = 0
    if _is_counted(length, op.K):
        left = _selected(build, left, op, name)
    while (groups := _groups(rows, left.dims[1], op.K)) > 1:
        turn += 1
        left = _round(build, left, op, groups, f"{name}_round{turn}")
    return _ranked(build, left, op, name, [f"{own}_best" for own in names])


def longest_ranked(rows: int, length: int, kept: int) -> int:
    """Return the length of the rows whose elements are all compared with each other, when all rounds are over."""
    if _is_counted(length, kept):
        return kept
    while (groups := _groups(rows, length, kept)) > 1:
        length = groups * kept
    return length


def _is_counted(length: int, kept: int) -> bool:
    """True if the best elements of a row are selected by counting those that are not below a number."""
    fits = length <= LANES // 2 * MOST_PER_LANE  # of all chips of the family
    return fits and length > _WORTHWHILE * kept and length * _group(kept) >= _MANY


def _selected(build: LoweringBuilder, left: _Contest, op: top.TopK, name: str) -> _Contest:
    """Keep the K best of each row, in the order of the row."""
    rows, count = left.dims[0], math.ceil(left.dims[1] / _UNIT) * _UNIT
    values = _lengthened(build, left.values, count, _least(left.values.tensor, op.largest), f"{name}_values")
    places = _lengthened(build, left.places, count, 0, f"{name}_places")
    kept = build(tpu.BestPlaces(kept=op.K, largest=op.largest), [values], None, f"{name}_kept")
    best, where = _scattered(build, kept, _Contest(values, places), op.K, (f"{name}_best", f"{name}_best_places"))
    return _Contest(reshaped(build, best, (rows, op.K), f"{name}_left"), where)


def _groups(rows: int, length: int, kept: int) -> int:
    """In how many groups the next round ranks each row; 1: there is no further round."""
    group = _group(kept)
    groups = math.ceil(length / group)
    return groups if length > _WORTHWHILE * group and rows * groups <= LONGEST else 1


def _group(kept: int) -> int:
    """The length of a group, which minimizes the work of all rounds."""
    return math.ceil(2 * kept / LANES) * LANES


def _round(build: LoweringBuilder, left: _Contest, op: top.TopK, groups: int, name: str) -> _Contest:
    """Keep the K best of each group, in group order."""
    rows, group = left.dims[0], _group(op.K)
    last = _least(left.values.tensor, op.largest)
    values = _lengthened(build, left.values, groups * group, last, f"{name}_values")
    places = _lengthened(build, left.places, groups * group, 0, f"{name}_places")
    parts = _Contest(
        reshaped(build, values, (rows * groups, group), f"{name}_groups"),
        reshaped(build, places, (rows * groups, group, 1), f"{name}_group_places"),
    )
    best, where = _ranked(build, parts, op, name, (f"{name}_best", f"{name}_best_places"))
    return _Contest(
        reshaped(build, best, (rows, groups * op.K), f"{name}_left"),
        reshaped(build, where, (rows, groups * op.K, 1), f"{name}_left_places"),
    )


def _ranked(build: LoweringBuilder, left: _Contest, op: top.TopK, name: str, names: Sequence[str]) -> Sequence[Value]:
    """The best of each row in order, then their positions: scatters each element to the position of its rank."""
    rank = build(tpu.Rank(largest=op.largest), [left.values, left.values], None, f"{name}_rank")
    return _scattered(build, rank, left, op.K, names)


def _scattered(build: LoweringBuilder, to: Value, left: _Contest, kept: int, names: Sequence[str]) -> Sequence[Value]:
    """Values and positions of the elements that have one of the numbers below `kept`, in the order of the numbers."""
    elements = reshaped(build, left.values, (*left.dims, 1), f"{names[0]}_elements")
    return [
        build(tpu.ScatterRows(), [build.none(), to, one], along(one.tensor, 1, kept), own)
        for one, own in zip((elements, left.places), names, strict=False)
    ]


def _lengthened(build: LoweringBuilder, value: Value, length: int, fill: float, name: str) -> Value:
    """Pad each row at the end."""
    dims = value.tensor.dims
    if dims[1] == length:
        return value
    paddings = (0,) * (len(dims) + 1) + (length - dims[1],) + (0,) * (len(dims) - 2)
    return build(tpu.Pad(paddings=paddings, val=fill), [value], along(value.tensor, 1, length), name)


def _least(type_: TensorType, largest: bool) -> float:
    """A stored value that ranks last."""
    dtype = numpy_dtype(type_.storage)
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).min if largest else np.iinfo(dtype).max)
    return -math.inf if largest else math.inf
