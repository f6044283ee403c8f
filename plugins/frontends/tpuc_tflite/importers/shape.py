"""Operators that only change the shape or order of elements, or select some."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top

from tpuc_tflite.building import NCHW, Arranged, Later, Results, TfliteBuilder, only_ones_move
from tpuc_tflite.graph import Shape
from tpuc_tflite.importers.common import TABLE, axis_of, finish, images, in_order
from tpuc_tflite.slicing import strided_slices

_SYMMETRIC = 1


@TABLE.imports("RESHAPE")
def reshape(node: ForeignNode, build: TfliteBuilder) -> Results:
    """Import a reshape; one extent of -1 takes the remainder."""
    dims = build.shape(node.inputs[0])
    wanted = integers(node.attributes.get("new_shape", ()))
    if len(node.inputs) > 1 and node.inputs[1]:
        array = build.constant(node.inputs[1])
        # A shape that is computed but was not folded is the one that the file states for the result.
        wanted = build.entry(node.outputs[0]).shape if array is None else integers(array)
    known = math.prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and known:
        wanted = tuple(math.prod(dims) // known if extent == -1 else extent for extent in wanted)
    if math.prod(wanted) != math.prod(dims) or min(wanted, default=1) < 0:
        raise build.refuse(node, f"{list(dims)} cannot become {list(wanted)}")
    return to_shape(node, build, wanted or (1,))


@TABLE.imports("SQUEEZE", "EXPAND_DIMS")
def squeeze(node: ForeignNode, build: TfliteBuilder) -> Results:
    """Import the insertion or removal of dimensions of extent 1."""
    dims = build.shape(node.inputs[0])
    if node.op_type == "EXPAND_DIMS":
        axis = integers(required_constant(node, build, 1, "the axis"))[0]
        if not -len(dims) - 1 <= axis <= len(dims):
            raise build.refuse(node, f"axis {axis} is not a place among {len(dims)} dimensions")
        axis %= len(dims) + 1
        return to_shape(node, build, (*dims[:axis], 1, *dims[axis:]))
    gone = {axis_of(node, build, axis) for axis in node.attributes.get("squeeze_dims", ())}
    gone = gone or {axis for axis, extent in enumerate(dims) if extent == 1}
    if any(dims[axis] != 1 for axis in gone):
        raise build.refuse(node, f"it removes dimensions of {list(dims)} whose extent is not 1")
    return to_shape(node, build, tuple(e for axis, e in enumerate(dims) if axis not in gone) or (1,))


def to_shape(node: ForeignNode, build: TfliteBuilder, wanted: Shape) -> Results:
    """Reshape the operand; a reshape that needs a Permute is postponed until somebody reads it."""
    name, operand = node.outputs[0], node.inputs[0]
    if build.flattened(operand) is None:
        order, shape = build.order(operand), build.shape(operand)
        value = build.value(operand, order)
        back = tuple(order.index(axis) for axis in range(len(order)))
        if only_ones_move(value.tensor.dims, back):
            return Arranged(_reshaped(build, value, wanted, name), tuple(range(len(wanted))))
        if len(wanted) == 2 and wanted[0] == shape[0]:
            return Later(wanted, operand, lambda: _reshaped(build, build.value(operand), wanted, name))
    return _reshaped(build, build.value(operand), wanted, name)


def _reshaped(build: TfliteBuilder, value: Value, wanted: Shape, name: str) -> Value:
    return build.reshape(value, wanted, name)


@TABLE.imports("TRANSPOSE")
def transpose(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a transposition by changing the recorded order; nothing is moved yet."""
    steps = integers(required_constant(node, build, 1, "the permutation"))
    order = build.order(node.inputs[0])
    if sorted(steps) != list(range(len(order))):
        raise build.refuse(node, f"{list(steps)} is not a permutation of {len(order)} dimensions")
    return Arranged(build.value(node.inputs[0], order), tuple(steps.index(axis) for axis in order))


@TABLE.imports("CONCATENATION")
def concatenation(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a concatenation in the order of the first computed operand."""
    axis = axis_of(node, build, int(node.attributes.get("axis", 0)))
    computed = [name for name in node.inputs if build.constant(name) is None]
    orders = [build.order(name) for name in computed]
    plain = tuple(range(len(build.shape(node.inputs[0]))))
    order = next((order for order in orders if order != plain), plain)
    operands = [build.value(name, order) for name in node.inputs]
    return finish(node, build, top.Concat(axis=order.index(axis)), operands, order)


@TABLE.imports("PAD", "PADV2", "MIRROR_PAD")
def pad(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import padding with a pair of numbers per dimension; the value of PADV2 is an operand."""
    pairs = required_constant(node, build, 1, "the padding").reshape(-1, 2).tolist()
    order = build.order(node.inputs[0])
    if len(pairs) != len(order):
        raise build.refuse(node, f"it pads {len(pairs)} dimensions of {len(order)}")
    if node.op_type == "MIRROR_PAD" and node.attributes.get("mode", 0) == _SYMMETRIC:
        return _with_border(node, build, pairs)
    paddings = tuple(int(pairs[axis][side]) for side in (0, 1) for axis in order)
    number = 0.0
    if node.op_type == "PADV2":
        required_constant(node, build, 2, "the padding's value")
        real = build.real(node.inputs[2])
        assert real is not None
        number = float(real.reshape(-1)[0])
    op = top.Pad(paddings=paddings, mode="reflect" if node.op_type == "MIRROR_PAD" else "constant", val=number)
    return in_order(node, build, op)


def _with_border(node: ForeignNode, build: TfliteBuilder, pairs: Sequence[Sequence[int]]) -> Arranged:
    """Mirror including the border itself, by selection of elements by index."""
    name, order = node.outputs[0], build.order(node.inputs[0])
    x = build.value(node.inputs[0], order)
    padded = [axis for axis, pair in enumerate(pairs) if any(pair)]
    for axis in padded:
        before, after = pairs[axis]
        place = order.index(axis)
        extent = x.tensor.dims[place]
        if not (0 <= before <= extent and 0 <= after <= extent):
            raise build.refuse(node, f"{before} and {after} elements around {extent} are too many to mirror")
        places = np.pad(np.arange(extent), (before, after), "symmetric")
        index = build.weight(f"{name}_places{axis}", places)
        x = build.build(top.Gather(axis=place), [x, index], name if axis == padded[-1] else f"{name}_axis{axis}")
    return Arranged(x, order)


@TABLE.imports("SLICE")
def slice_(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a slice; a size of -1 takes the remainder."""
    dims = build.shape(node.inputs[0])
    begins = integers(required_constant(node, build, 1, "the begin"))
    sizes = integers(required_constant(node, build, 2, "the size"))
    if not len(begins) == len(sizes) == len(dims):
        raise build.refuse(node, f"it cuts {len(begins)} dimensions of {len(dims)}")
    ends = [e if size == -1 else b + size for b, size, e in zip(begins, sizes, dims, strict=True)]
    if any(not 0 <= b < end <= extent for b, end, extent in zip(begins, ends, dims, strict=True)):
        raise build.refuse(node, f"{list(begins)} to {ends} is not inside {list(dims)}")
    return sliced(node, build, [range(b, end) for b, end in zip(begins, ends, strict=True)], node.outputs[0])


def sliced(node: ForeignNode, build: TfliteBuilder, ranges: Sequence[range], name: str) -> Arranged:
    """Return the elements of operand 0 in a range per foreign dimension, in the operand's order."""
    order = build.order(node.inputs[0])
    value = build.value(node.inputs[0], order)
    cuts = [ranges[axis] for axis in order]
    if all(cut == range(extent) for cut, extent in zip(cuts, value.tensor.dims, strict=True)):
        return Arranged(value, order)
    op = top.Slice(
        offset=tuple(cut.start for cut in cuts),
        steps=tuple(cut.step for cut in cuts),
        ends=tuple(
            cut.stop if cut.stop >= 0 else -extent - 1 for cut, extent in zip(cuts, value.tensor.dims, strict=True)
        ),
    )
    return Arranged(build.build(op, [value], name), order)


@TABLE.imports("REVERSE_V2")
def reverse(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a reversal as a slice with step -1."""
    axes = {axis_of(node, build, axis) for axis in integers(required_constant(node, build, 1, "the list of axes"))}
    dims = build.shape(node.inputs[0])
    ranges = [range(e - 1, -1, -1) if axis in axes else range(e) for axis, e in enumerate(dims)]
    return sliced(node, build, ranges, node.outputs[0])


@TABLE.imports("STRIDED_SLICE")
def strided_slice(node: ForeignNode, build: TfliteBuilder) -> Arranged | Value:
    """Import a slice, and a reshape if dimensions are inserted or removed."""
    meanings = ("the begin", "the end", "the strides")
    numbers = [integers(required_constant(node, build, index, meaning)) for index, meaning in enumerate(meanings, 1)]
    try:
        begin, end, strides = numbers
        cuts = strided_slices(build.shape(node.inputs[0]), begin, end, strides, node.attributes)
    except ValueError as error:
        raise build.refuse(node, str(error)) from error
    if 0 in cuts.shape:
        raise build.refuse(node, "it selects nothing of its operand")
    if len(cuts.shape) == len(cuts.ranges) and cuts.shape == tuple(map(len, cuts.ranges)):
        return sliced(node, build, cuts.ranges, node.outputs[0])
    part = sliced(node, build, cuts.ranges, f"{node.outputs[0]}_part")
    back = tuple(part.order.index(axis) for axis in range(len(part.order)))
    value = build.permute(part.value, back, f"{node.outputs[0]}_plain")
    return build.reshape(value, cuts.shape or (1,), node.outputs[0])


@TABLE.imports("SPLIT", "SPLIT_V")
def split(node: ForeignNode, build: TfliteBuilder) -> Results:
    """Import a split; SPLIT has the axis first, SPLIT_V the sizes and then the axis."""
    by_size = node.op_type == "SPLIT_V"
    index = 0 if by_size else 1
    axis = integers(required_constant(node, build, 2 if by_size else 0, "the axis"))[0]
    axis = axis_of(node, build, axis, index)
    order = build.order(node.inputs[index])
    extent, count = build.shape(node.inputs[index])[axis], len(node.outputs)
    if by_size:
        sizes = list(integers(required_constant(node, build, 1, "the list of sizes")))
        sizes = [extent - sum(s for s in sizes if s >= 0) if size < 0 else size for size in sizes]
    else:
        sizes = [extent // count] * count
    if len(sizes) != count or sum(sizes) != extent or min(sizes) < 1:
        raise build.refuse(node, f"extent {extent} cannot be split into {count} parts of {sizes}")
    op = top.Split(axis=order.index(axis), num=count, split_size=tuple(sizes))
    values = build.build_all(op, [build.value(node.inputs[index], order)], node.outputs)
    return [Arranged(value, order) for value in values]


@TABLE.imports("PACK")
def pack(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import stacking: insert the new dimension into each operand, and concatenate."""
    dims = build.shape(node.inputs[0])
    axis = int(node.attributes.get("axis", 0)) % (len(dims) + 1)
    grown = (*dims[:axis], 1, *dims[axis:])
    operands = [build.reshape(build.value(name), grown, f"{name}_packed") for name in node.inputs]
    if len(operands) == 1:
        return build.reshape(build.value(node.inputs[0]), grown, node.outputs[0])
    return build.build(top.Concat(axis=axis), operands, node.outputs[0])


@TABLE.imports("UNPACK")
def unpack(node: ForeignNode, build: TfliteBuilder) -> Results:
    """Import unstacking: a slice for each result, with the dimension removed."""
    dims = build.shape(node.inputs[0])
    axis = axis_of(node, build, int(node.attributes.get("axis", 0)))
    if dims[axis] != len(node.outputs):
        raise build.refuse(node, f"extent {dims[axis]} gives {dims[axis]} results, but it has {len(node.outputs)}")
    wanted = (*dims[:axis], *dims[axis + 1 :]) or (1,)
    value = build.value(node.inputs[0])
    parts = [value]
    if dims[axis] > 1:
        names = [f"{name}_part" for name in node.outputs]
        parts = build.build_all(top.Split(axis=axis, num=dims[axis], split_size=(1,) * dims[axis]), [value], names)
    return [build.reshape(part, wanted, name) for part, name in zip(parts, node.outputs, strict=True)]


@TABLE.imports("TILE")
def tile(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a repetition in the operand's order."""
    times, order = integers(required_constant(node, build, 1, "the repetitions")), build.order(node.inputs[0])
    if len(times) != len(order) or min(times, default=1) < 1:
        raise build.refuse(node, f"{list(times)} repetitions do not fit {len(order)} dimensions")
    value = build.value(node.inputs[0], order)
    return Arranged(build.build(top.Tile(tile=tuple(times[axis] for axis in order)), [value], node.outputs[0]), order)


@TABLE.imports("BROADCAST_TO")
def broadcast_to(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import the repetition of extents of 1."""
    wanted, dims = integers(required_constant(node, build, 1, "the shape")), build.shape(node.inputs[0])
    grown = (1,) * (len(wanted) - len(dims)) + dims
    times = tuple(w // max(d, 1) for w, d in zip(wanted, grown, strict=False))
    if len(wanted) < len(dims) or any(d not in (1, w) for w, d in zip(wanted, grown, strict=True)):
        raise build.refuse(node, f"{list(dims)} cannot be broadcast to {list(wanted)}")
    value = build.reshape(build.value(node.inputs[0]), grown, f"{node.outputs[0]}_grown")
    return value if grown == wanted else build.build(top.Tile(tile=times), [value], node.outputs[0])


@TABLE.imports("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def blocks(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import DEPTH_TO_SPACE or SPACE_TO_DEPTH; channels of a block are numbered row, column, channel."""
    size = int(node.attributes.get("block_size", 0))
    if size < 1:
        raise build.refuse(node, f"its block_size is {size}, but must be positive")
    op = top.Depth2Space(block_h=size, block_w=size, is_CRD=False, is_inversed=node.op_type == "SPACE_TO_DEPTH")
    return Arranged(build.build(op, [images(node, build)], node.outputs[0]), NCHW)
