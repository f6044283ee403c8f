"""Normalize and cast pixels in the network, bit for bit as the host does."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, Location, Module, Node, Op, Operation, TensorType, Unsupported, Value
from tpuc.api.boundary import preprocess_of
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer, zero_point
from tpuc_ops.traits import StridedView
from tpuc_optimize.canonicalization.common import insert_before

from tpuc_lower.boundary.building import PIXELS
from tpuc_lower.boundary.images import ImageBytes, ImageTarget
from tpuc_lower.boundary.lines import line_through
from tpuc_lower.boundary.sensor import SensorFrames


def fuse_image(module: Module, operation: Operation, format_name: str, target: ImageTarget) -> None:
    """Replace `operation`, an image input, by an input of bytes in a format and the ops that compute its values.

    On chips without float32, 16-bit floats are computed by tables, too.
    """
    image = ImageBytes(module, operation, format_name, target)
    sensor = SensorFrames(image) if image.format.is_sensor else None
    result = operation.result
    if not target.has_f32:
        _casts_first(image, result)
    for user in result.users:
        if isinstance(user.op, tpu.Cast) and (user.result.tensor.is_quantized or not target.has_f32):
            _take_over(user, sensor.stored(user) if sensor else _quantized(image, user))
    if result.uses:
        if not (target.has_f32 or sensor):
            _refuse_floats(operation)
        _take_over(operation, sensor.floats() if sensor else _normalized(image))
    else:
        operation.erase()


def _casts_first(image: ImageBytes, value: Value) -> None:
    """Move casts before ops that only move pixels."""
    for move in list(value.users):
        if not isinstance(move.op, StridedView) or move.operands[0] is not value:
            continue
        _casts_first(image, move.result)
        casts = list(move.result.users)
        kinds = {(cast.op, cast.result.tensor.element) for cast in casts}
        if len(kinds) != 1 or not all(isinstance(cast.op, tpu.Cast) for cast in casts):
            continue
        ((op, element),) = kinds
        name = Location((image.build.new_name(f"{image.name}_{casts[0].result.tensor.storage.name}"),))
        first = insert_before(move, Operation(op, [value], [value.tensor.with_element(element)], name))
        moved_type = move.result.tensor.with_element(element)
        moved = Operation(move.op, [first, *move.operands[1:]], [moved_type], casts[0].location)
        result = insert_before(move, moved)
        for cast in casts:
            cast.result.replace_with(result)
            cast.erase()
        move.erase()


def _refuse_floats(operation: Operation) -> None:
    user = operation.result.users[0]
    raise Unsupported(
        f"input '{operation.name}': '{user.name}' ({user.op.name}) reads its pixels as float32, and the chip cannot "
        "make these of bytes; leave out --fuse-preprocess"
    )


def _take_over(old: Operation, value: Value) -> None:
    """Replace the result of `old` by `value`, under the old name."""
    old.result.replace_with(value)
    old.erase()
    assert value.defining is not None
    value.defining.location = Location((old.name,))


def _quantized(image: ImageBytes, cast: Operation) -> Value:
    """The result of `cast` on normalized pixels, by tables: one for all channels where that is enough."""
    channels = image.channels
    columns = preprocess_of(image.old, image.dims).normalize(np.arange(256).repeat(channels).reshape(256, channels))
    result = cast.result.tensor
    node = Node(cast.op, (TensorType(columns.shape, F32),), (TensorType(columns.shape, result.element),), cast.name)
    tables = cast.op.evaluate(node, [columns])[0]
    if result.storage.is_float:
        tables = tables.view(np.uint16)
    if (tables == tables[:, :1]).all():
        return _look_up(image, image.pixels, tables[:, 0], result)
    dims = tuple(1 if axis == image.axis else extent for axis, extent in enumerate(image.dims))
    part = TensorType(dims, result.element)
    parts = [_look_up(image, image.channel(index), tables[:, index], part) for index in range(channels)]
    return image.build.op(tpu.Concat(axis=image.axis), parts, TensorType(image.dims, result.element), "scale_lut")


def _look_up(image: ImageBytes, pixels: Value, table: Array, result: TensorType) -> Value:
    """One table entry per pixel, in the shape of `result`."""
    flat = _spread(image, pixels)
    spread = TensorType(flat.tensor.dims, result.element)
    line = line_through(table, zero_point(spread)) if is_integer(spread) else None
    if line is not None and image.target.runs(Node(line, (flat.tensor,), (spread,), image.name)):
        found = image.build.op(line, [flat], spread, "sum")
    else:
        entries = image.build.weight("table", np.ascontiguousarray(table).reshape(1, 1, 1, 256), result.element)
        found = image.build.op(tpu.Lut(), [flat, entries], spread, "lut")
    if spread.dims == result.dims:
        return found
    return image.build.op(tpu.Reshape(shape=result.dims), [found], TensorType(result.dims, result.element), "scale_lut")


def _spread(image: ImageBytes, pixels: Value) -> Value:
    """The same pixels spread over the lanes: as they were computed, or with other extents."""
    made = pixels.defining
    if made is not None and isinstance(made.op, tpu.Reshape):
        return made.operands[0]
    spread = image.spread(pixels)
    if spread == pixels.tensor.dims:
        return pixels
    return image.build.op(tpu.Reshape(shape=spread), [pixels], TensorType(spread, PIXELS), "rows")


def _normalized(image: ImageBytes) -> Value:
    """The float32 values: pixels minus mean, times scale, rounded after each step."""
    preprocess = preprocess_of(image.old, image.dims)
    mean, scale = (np.array(numbers, np.float32) for numbers in (preprocess.mean, preprocess.scale))
    value = image.build.op(tpu.Cast(), [image.pixels], TensorType(image.dims, F32), "f32")
    if mean.any():
        value = _per_channel(image, value, mean, tpu.AddConst(const_val=-float(mean[0])), tpu.Sub(), "mean")
    if (scale != 1).any():
        value = _per_channel(image, value, scale, tpu.MulConst(const_val=float(scale[0])), tpu.Mul(), "scale")
    return value


def _per_channel(image: ImageBytes, value: Value, numbers: Array, same: Op, different: Op, what: str) -> Value:
    """`same` where all channels have one number, else `different` with a constant of one number per channel."""
    result = TensorType(image.dims, F32)
    if (numbers == numbers[0]).all():
        return image.build.op(same, [value], result, what)
    shape = tuple(extent if axis == image.axis else 1 for axis, extent in enumerate(image.dims))
    return image.build.op(
        different, [value, image.build.weight(f"{what}_values", numbers.reshape(shape))], result, what
    )
