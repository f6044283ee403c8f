"""Blocks of rows and columns as samples of a batch, and back, as used for dilated convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ForeignNode, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top

from tpuc_tflite.building import NCHW, Arranged, Order, TfliteBuilder
from tpuc_tflite.graph import Shape
from tpuc_tflite.importers.common import TABLE

_SWAP: Order = (1, 0, 2)


@TABLE.imports("SPACE_TO_BATCH_ND")
def space_to_batch(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Pad, then split one dimension after the other, the last one first."""
    x, order, blocks, pairs = _operands(node, build, "the paddings")
    name = node.outputs[0]
    places = [order.index(axis + 1) for axis in range(len(blocks))]
    dims = list(x.tensor.dims)
    before, after = [0] * len(dims), [0] * len(dims)
    for place, block, pair in zip(places, blocks, pairs, strict=True):
        before[place], after[place] = pair
        dims[place] += sum(pair)
        if min(pair) < 0 or dims[place] % block:
            raise build.refuse(node, f"{dims[place]} rows or columns with padding {pair} do not form blocks of {block}")
    if any(before) or any(after):
        x = build.build(top.Pad(paddings=(*before, *after)), [x], f"{name}_padded")
    for place, block in reversed(list(zip(places, blocks, strict=True))):
        dims[place] //= block
        outer, inner = math.prod(dims[: place + 1]), math.prod(dims[place + 1 :])
        x = _swapped(build, x, (outer, block, inner), f"{name}_blocks{place}")
        dims[0] *= block
        x = build.reshape(x, dims, f"{name}_batch{place}")
    return Arranged(x, order)


@TABLE.imports("BATCH_TO_SPACE_ND")
def batch_to_space(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Merge one dimension after the other, then crop the border."""
    x, order, blocks, pairs = _operands(node, build, "the crops")
    name, dims = node.outputs[0], list(x.tensor.dims)
    if dims[0] % math.prod(blocks):
        raise build.refuse(node, f"a batch of {dims[0]} is not made of blocks of {'x'.join(map(str, blocks))}")
    places = [order.index(axis + 1) for axis in range(len(blocks))]
    for place, block in zip(places, blocks, strict=True):
        dims[0] //= block
        outer, inner = math.prod(dims[: place + 1]), math.prod(dims[place + 1 :])
        x = _swapped(build, x, (block, outer, inner), f"{name}_blocks{place}")
        dims[place] *= block
        x = build.reshape(x, dims, f"{name}_batch{place}")
    starts, ends = [0] * len(dims), list(dims)
    for place, pair in zip(places, pairs, strict=True):
        starts[place], ends[place] = pair[0], dims[place] - pair[1]
        if min(pair) < 0 or starts[place] >= ends[place]:
            raise build.refuse(node, f"crops of {pair} leave nothing of {dims[place]} rows or columns")
    if any(starts) or ends != dims:
        op = top.Slice(offset=tuple(starts), steps=(1,) * len(dims), ends=tuple(ends))
        x = build.build(op, [x], f"{name}_cropped")
    return Arranged(x, order)


def _swapped(build: TfliteBuilder, x: Value, shape: Shape, name: str) -> Value:
    """Reshape `x` to three extents and exchange the first two: every chip supports these permutations."""
    x = build.reshape(x, shape, f"{name}_apart")
    return build.build(top.Permute(order=_SWAP), [x], name) if min(shape[:2]) > 1 else x


def _operands(
    node: ForeignNode, build: TfliteBuilder, meaning: str
) -> tuple[Value, Order, Shape, Sequence[tuple[int, int]]]:
    """Return the value with the batch first, the blocks, and a pair per blocked dimension."""
    blocks = integers(required_constant(node, build, 1, "the block shape"))
    numbers = integers(required_constant(node, build, 2, meaning))
    rank = len(build.shape(node.inputs[0]))
    if not 0 < len(blocks) < rank or len(numbers) != 2 * len(blocks) or min(blocks) < 1:
        raise build.refuse(node, f"blocks {list(blocks)} and pairs {list(numbers)} do not fit {rank} dimensions")
    order: Order = NCHW if rank == 4 else tuple(range(rank))
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return build.value(node.inputs[0], order), order, blocks, pairs
