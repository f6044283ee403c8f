"""Convert between the bytes of a network's file and those that a chip computes with."""

from __future__ import annotations

import numpy as np
from tpuc.api import (
    F32,
    Location,
    Module,
    NetworkInput,
    Node,
    Operation,
    Rewriter,
    TensorType,
    Uniform,
    Value,
    numpy_dtype,
)
from tpuc_ops import top, tpu
from tpuc_ops.arrays import Array
from tpuc_ops.arrays import stored as stored_as
from tpuc_ops.quant.arithmetic import Rounding, dequantize, quantize_float
from tpuc_ops.quant.casts import parameters
from tpuc_optimize.canonicalization.common import Names

from tpuc_lower.boundary.images import rows_of


def take_bytes(module: Module, operation: Operation, cast: Operation, own: TensorType) -> None:
    """Give the input the type `own`, unsigned bytes, and replace `cast` by a table with one entry per byte."""
    value, result = operation.result, cast.result.tensor
    scale, zero_point = parameters(own)
    meant = dequantize(np.arange(256), scale, zero_point)
    (entries,) = cast.op.evaluate(
        Node(cast.op, (TensorType(meant.shape, F32),), (TensorType(meant.shape, result.element),), cast.name), [meant]
    )
    value.type = operation.operands[0].type = own
    build = Rewriter(module, constant=top.Weight(), absent=top.None_())
    build.at(cast)
    cast.result.replace_with(_by_table(value, result, entries, cast.name, build))
    cast.erase()


def return_bytes(module: Module, index: int, own: TensorType) -> bool:
    """Give the output the type `own` if both it and `own` are bytes, by a table with one entry per byte."""
    terminator = module.main.terminator
    value = terminator.operands[index]
    given = value.tensor.element
    if not isinstance(given, Uniform) or not isinstance(own.element, Uniform) or given == own.element:
        return False
    if (given.storage.bits, own.storage.bits) != (8, 8):
        return False
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(given.storage))
    real = dequantize(every, given.scale, given.zero_point)
    rounding, dtype = Rounding.HALF_AWAY_FROM_ZERO, numpy_dtype(own.storage)
    entries = quantize_float(real, own.element.scale, own.element.zero_point, rounding, dtype)
    build = Rewriter(module, constant=top.Weight(), absent=top.None_())
    build.at(terminator)
    returned = _by_table(value, value.tensor.with_element(own.element), entries, value.name, build)
    terminator.set_operand(index, returned)
    return True


def take_name(module: Module, index: int, name: str) -> None:
    """Give the value of an output the name that the output has in the network's file."""
    value = module.main.terminator.operands[index]
    made = value.defining
    if value.name == name or made is None or isinstance(made.op, NetworkInput) or len(made.results) > 1:
        return
    for operation in module.main.operations:
        if operation.location.names == (name,):
            operation.location = Location((Names(module).new(f"{name}_{operation.results[0].tensor.storage}"),))
    made.location = Location((name,))


def _by_table(value: Value, result: TensorType, entries: Array, name: str, build: Rewriter) -> Value:
    """The entry of each byte of `value`, as `result`."""
    names = Names(build.module)
    rows, flat = rows_of(result.dims), names.new(f"{name}_rows")
    table = build.weight(names.new(f"{name}_table"), entries.reshape(1, 1, 1, 256), result.element)
    bytes_ = build.build(tpu.Reshape(shape=rows), [value], TensorType(rows, value.tensor.element), flat)
    found = build.build(tpu.Lut(), [bytes_, table], TensorType(rows, result.element), names.new(f"{name}_lut"))
    return build.build(tpu.Reshape(shape=result.dims), [found], result, names.new(f"{name}_own"))


def dequantizes(module: Module, operation: Operation) -> bool:
    """True for a cast of integers to floats, and for a table with their real values."""
    source, result = operation.operands[0].type, operation.results[0].tensor
    if not isinstance(source, TensorType) or not source.is_quantized or result.is_quantized:
        return False
    if isinstance(operation.op, tpu.Cast):
        return True
    if not isinstance(operation.op, tpu.Lut) or not isinstance(source.element, Uniform):
        return False
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage))
    real = stored_as(dequantize(every, source.element.scale, source.element.zero_point), result)
    entries = module.weights[operation.operands[1].name]
    return entries.size == real.size and np.array_equal(entries.reshape(-1).view(real.dtype), real)
