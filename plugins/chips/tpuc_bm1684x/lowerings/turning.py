"""Transpose a dimension to the end for an op along it, where lanes would otherwise load short runs."""

from __future__ import annotations

import math

from tpuc.api import LoweringBuilder, Value
from tpuc_ops import tpu

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.common import FEW_LANES, SHORT_RUN

_LEAST_ELEMENTS = 1 << 12
"""Below this number of elements, the overhead of commands exceeds the cost of transfers. Not varied."""


def is_scattered(value: Value, axis: int, end: int | None = None) -> bool:
    """True if working along the dimensions from `axis` to `end` (by default one) is slow in the present layout.

    The dimensions before them fill few lanes, and distributing those after them gives each lane runs shorter than half
    of the minimal transfer. Transposing the value takes about as long as loading it that way.
    """
    dims = value.tensor.dims
    outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 if end is None else end :])
    if inner == 1 or outer >= FEW_LANES or math.prod(dims) < _LEAST_ELEMENTS:
        return False
    lanes = max(size for size in range(1, LANES + 1) if inner % size == 0)
    run = inner // lanes * value.tensor.storage.bits // 8
    return lanes < FEW_LANES or run < SHORT_RUN


def turned(build: LoweringBuilder, value: Value, axis: int, name: str) -> Value:
    """Permute the dimension `axis` to the end."""
    rank = value.tensor.rank
    return _permuted(build, value, (*(index for index in range(rank) if index != axis), axis), f"{name}_turned")


def turned_back(build: LoweringBuilder, value: Value, axis: int, name: str) -> Value:
    """Permute the last dimension back to `axis`."""
    last = value.tensor.rank - 1
    return _permuted(build, value, (*range(axis), last, *range(axis, last)), name)


def _permuted(build: LoweringBuilder, value: Value, order: tuple[int, ...], name: str) -> Value:
    dims = tuple(value.tensor.dims[index] for index in order)
    return build(tpu.Permute(order=order), [value], value.tensor.with_shape(dims).at(None), name)
