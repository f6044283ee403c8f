"""Shape arithmetic, with error messages that explain why operands do not fit. No numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ABSENT, TensorType


def is_absent(type: TensorType) -> bool:
    """True if this is the type of an absent optional operand."""
    return type == ABSENT


def show(shape: Sequence[int]) -> str:
    """Format a shape for messages."""
    return "x".join(map(str, shape)) or "scalar"


def positive_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front; raises ValueError outside `[-rank, rank)`."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis must be in {-rank}..{rank - 1} for {rank} dimensions, this one is {axis}")
    return axis % rank


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape by numpy's rules; raises ValueError if there is none."""
    rank = max(map(len, shapes))
    result: list[int] = []
    for extents in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wanted = {extent for extent in extents if extent != 1}
        if len(wanted) > 1:
            raise ValueError(f"shapes {' and '.join(map(show, shapes))} do not broadcast")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def reshaped(shape: tuple[int, ...], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return `wanted` with 0 replaced by the existing extent and one -1 by the remainder; raises ValueError if sizes
    differ.
    """
    if any(extent == 0 and index >= len(shape) for index, extent in enumerate(wanted)):
        raise ValueError(f"shape {list(wanted)} keeps a dimension that {show(shape)} does not have")
    result = [shape[index] if extent == 0 else extent for index, extent in enumerate(wanted)]
    size, known = math.prod(shape), math.prod(extent for extent in result if extent != -1)
    if result.count(-1) == 1 and known and size % known == 0:
        result[result.index(-1)] = size // known
    if -1 in result or math.prod(result) != size:
        raise ValueError(f"{show(shape)} has {size} elements and cannot become {list(wanted)}")
    return tuple(result)


def permuted(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Return `shape` with permuted dimensions; raises ValueError if `order` is not a permutation."""
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"order {list(order)} is not a permutation of the {len(shape)} dimensions of {show(shape)}")
    return tuple(shape[axis] for axis in order)


def concatenated(shapes: Sequence[tuple[int, ...]], axis: int) -> tuple[int, ...]:
    """Return the shape of tensors concatenated along `axis`; raises ValueError if other dimensions differ."""
    first = shapes[0]
    axis = positive_axis(axis, len(first))
    for shape in shapes:
        if len(shape) != len(first) or (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise ValueError(f"{show(shape)} and {show(first)} differ in more than dimension {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def padded(shape: tuple[int, ...], paddings: Sequence[int]) -> tuple[int, ...]:
    """Return `shape` with padding; `paddings` lists all that come before, then all after. Raises ValueError if they do
    not fit.
    """
    rank = len(shape)
    if len(paddings) != 2 * rank:
        raise ValueError(f"{rank} dimensions need {2 * rank} paddings, these are {list(paddings)}")
    result = tuple(paddings[i] + extent + paddings[rank + i] for i, extent in enumerate(shape))
    if min(result, default=1) < 1:
        raise ValueError(f"paddings {list(paddings)} leave nothing of {show(shape)}")
    return result


def sliced(
    shape: tuple[int, ...], offsets: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> tuple[int, ...]:
    """Return the extents between offsets and ends, with the semantics of Python slices; raises ValueError if nothing is
    left.
    """
    result: list[int] = []
    for extent, offset, end, step in zip(shape, offsets, ends, steps, strict=True):
        stop = None if step < 0 and end < -extent else end
        result.append(len(range(*slice(offset, stop, step).indices(extent))))
    if 0 in result:
        raise ValueError(f"nothing is left of {show(shape)} from {list(offsets)} to {list(ends)}")
    return tuple(result)


def slice_ranges(
    shape: tuple[int, ...], offsets: Sequence[int], steps: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Return slices of `sizes` elements each; raises ValueError if the last element lies outside."""
    result: list[slice] = []
    for extent, offset, step, size in zip(shape, offsets, steps, sizes, strict=True):
        first = min(max(offset + extent if offset < 0 else offset, 0), extent - 1)
        last = first + (size - 1) * step
        if not 0 <= last < extent:
            raise ValueError(f"element {last} does not exist in a dimension of extent {extent}")
        stop = last + (1 if step > 0 else -1)
        result.append(slice(first, stop if stop >= 0 else None, step))
    return tuple(result)
