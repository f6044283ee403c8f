"""Resolve the masks of STRIDED_SLICE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@dataclass(frozen=True)
class Cuts:
    """A range per dimension of the operand, and the shape of the result."""

    ranges: tuple[range, ...]
    shape: tuple[int, ...]


def strided_slices(
    dims: Sequence[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int], masks: Mapping[str, Any]
) -> Cuts:
    """Resolve the masks. Bit `i` of a mask concerns entry `i`: omit its begin or end, let it stand for all dimensions
    without an entry, insert a dimension of extent 1, or select one element and remove the dimension.

    Raises ValueError if the entries do not fit the dimensions.
    """
    if masks.get("offset", False):
        raise ValueError("its ends count from its begins (offset), which is not supported; state them from 0")
    bits = [{i for i in range(len(begin)) if int(masks.get(name, 0)) >> i & 1} for name in MASKS]
    no_begin, no_end, ellipsis, new_axis, shrink = bits
    if not len(begin) == len(end) == len(strides) or 0 in strides or len(ellipsis) > 1:
        raise ValueError("its begins, ends and strides do not fit each other")
    named = len(begin) - len(ellipsis) - len(new_axis - ellipsis)
    if named > len(dims):
        raise ValueError(f"it slices {named} dimensions, but its operand has {len(dims)}")
    ranges, shape = list[range](), list[int]()
    for i in range(len(begin)):
        if i in ellipsis:
            for extent in dims[len(ranges) : len(ranges) + len(dims) - named]:
                ranges.append(range(extent))
                shape.append(extent)
        elif i in new_axis:
            shape.append(1)
        else:
            extent = dims[len(ranges)]
            if i in shrink:
                ranges.append(_one(begin[i], extent))
                continue
            cut = slice(None if i in no_begin else begin[i], None if i in no_end else end[i], strides[i])
            ranges.append(range(*cut.indices(extent)))
            shape.append(len(ranges[-1]))
    for extent in dims[len(ranges) :]:
        ranges.append(range(extent))
        shape.append(extent)
    return Cuts(tuple(ranges), tuple(shape))


def _one(index: int, extent: int) -> range:
    if not -extent <= index < extent:
        raise ValueError(f"element {index} does not exist in a dimension of extent {extent}")
    index %= extent
    return range(index, index + 1)
