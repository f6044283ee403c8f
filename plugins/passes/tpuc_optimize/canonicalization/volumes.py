"""Convolution of volumes as one of images whose channels are all depths: no depth is copied next to another one."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from tpuc.api import NoneType, Operation, Pattern, Rewriter, Value
from tpuc_ops import top
from tpuc_ops.shapes import slice_ranges

from tpuc_optimize.canonicalization.affine import bias_of
from tpuc_optimize.canonicalization.common import Array, Names, is_output, new_weight, without_reshapes
from tpuc_optimize.canonicalization.products import has_learned_scale

_MORE_PRODUCTS = 2
"""Times the steps of products of the filter by taps that the larger filter may take: copies take the rest."""
_MORE_FILTERS = 6
"""Times the elements of the convolution's operand that the larger filter may have: each is written by a pad, a slice
and a concatenation, and read three times, which the larger filter saves.
"""


@dataclass(frozen=True)
class _Taps:
    """The volumes `[n, depth, channels, h, w]` of which a convolution reads several depths for each image."""

    volumes: Value
    places: Array
    """`[taps, depths]`: the depth that a tap reads for each depth of the result; places outside are zeros."""

    @property
    def inner(self) -> list[list[tuple[int, int]]]:
        """For each depth of the result, the taps within the volumes and the depths that they read."""
        depth = self.volumes.tensor.dims[1]
        return [[(tap, int(at)) for tap, at in enumerate(row) if 0 <= at < depth] for row in self.places.T]


@dataclass(frozen=True)
class DepthsAsChannels(Pattern):
    """A convolution over neighboring depths, which slices put together as channels, becomes one over the channels of
    all depths, with zeros in its filter. `lanes` compute one output channel each; operations in `kept` stay.
    """

    names: Names
    lanes: int
    kept: Collection[str] = ()
    matches = (top.Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        module, op = rewriter.module, operation.op
        filters, bias = module.constant(operation.operands[1]), bias_of(operation, module)
        if not isinstance(op, top.Conv) or op.group > 1 or op.inserts or filters is None or bias is None:
            return False
        if operation.name in self.kept or is_output(operation.result) or has_learned_scale(operation):
            return False
        taps = _taps_of(operation)
        if taps is None or not self._pays(operation, taps):
            return False
        n, depth, channels, *size = taps.volumes.tensor.dims
        outputs, name = len(filters), operation.name
        by_tap = filters.reshape(outputs, len(taps.places), channels, *op.kernel_shape)
        banded = np.zeros((len(taps.inner), outputs, depth, channels, *op.kernel_shape), np.float32)
        for index, row in enumerate(taps.inner):
            for tap, place in row:
                banded[index, :, place] = by_tap[:, tap]
        images, result = (n, depth * channels, *size), operation.result.tensor
        wide = (n, banded.shape[0] * outputs, *result.dims[2:])
        flat = banded.reshape(wide[1], depth * channels, *op.kernel_shape)
        rewriter.at(operation)
        source = rewriter.build(
            top.Reshape(shape=images),
            [taps.volumes],
            taps.volumes.tensor.with_shape(images),
            self.names.new(f"{name}_in"),
        )
        operands = [source, new_weight(rewriter, self.names, f"{name}_filter", flat), operation.operands[2]]
        if not isinstance(operands[2].type, NoneType):
            tiled = np.tile(bias.reshape(-1), len(banded))
            operands[2] = new_weight(rewriter, self.names, f"{name}_bias", tiled)
        value = rewriter.build(op, operands, result.with_shape(wide), self.names.new(f"{name}_depths"))
        rewriter.replace(operation, rewriter.build(top.Reshape(shape=result.dims), [value], result, name))
        return True

    def _pays(self, operation: Operation, taps: _Taps) -> bool:
        """True if lanes are idle while one depth is computed, and the larger filter costs less than the copies."""
        count, depths = taps.places.shape
        _, depth, _, *size = taps.volumes.tensor.dims
        outputs, _, *window = operation.operands[1].tensor.dims
        steps = -(-outputs * depths // self.lanes) * depth
        products = outputs <= self.lanes and steps <= _MORE_PRODUCTS * depths * count
        elements = outputs * depth * math.prod(window)
        return products and elements <= _MORE_FILTERS * count * math.prod(size)


def _taps_of(operation: Operation) -> _Taps | None:
    """The volumes that a convolution reads, if its operand consists of slices along their depth."""
    images = operation.operands[0].tensor.dims
    concat = without_reshapes(operation.operands[0]).defining
    if concat is None or not isinstance(concat.op, top.Concat) or concat.op.do_relu:
        return None
    axis, source, places = concat.op.axis, None, list[range]()
    for part in concat.operands:
        cut = without_reshapes(part).defining
        found = None if cut is None else _depths_of(cut)
        if found is None or source not in (None, found[0]):
            return None
        source = found[0]
        places.append(found[1])
    if source is None or len({len(one) for one in places}) > 1:
        return None
    n, _, channels, *size = source.tensor.dims
    lead = concat.operands[0].tensor.dims[:axis]
    if math.prod(lead) != n * len(places[0]) or images != (math.prod(lead), channels * len(places), *size):
        return None
    return _Taps(source, np.array([[*one] for one in places]))


def _depths_of(cut: Operation) -> tuple[Value, range] | None:
    """The volumes of which a slice takes several depths, and these, counted from before their padding."""
    op, before, after = cut.op, cut.operands[0].tensor.dims, cut.result.tensor.dims
    if (
        not isinstance(op, top.Slice)
        or len(before) != 5
        or any(not isinstance(v.type, NoneType) for v in cut.operands[1:])
    ):
        return None
    ranges = slice_ranges(before, op.offset, op.steps, after)
    others = [axis for axis in range(5) if axis != 1]
    if any(range(before[axis])[ranges[axis]] != range(before[axis]) for axis in others):
        return None
    places = range(before[1])[ranges[1]]
    pad = cut.operands[0].defining
    if pad is None or not isinstance(pad.op, top.Pad):
        return cut.operands[0], places
    paddings = pad.op.paddings
    if pad.op.mode != "constant" or pad.op.val or any(paddings[at] or paddings[at + 5] for at in others):
        return None
    front = paddings[1]
    return pad.operands[0], range(places.start - front, places.stop - front, places.step)
