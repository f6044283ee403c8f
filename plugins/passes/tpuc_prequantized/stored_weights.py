"""Replace stored integer weights of a pre-quantized network by real numbers."""

from __future__ import annotations

import numpy as np
from tpuc.api import Builder, InvalidModel, Module, Operation, Uniform, UniformPerAxis, remove_unused
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import dequantize
from tpuc_ops.quant.casts import parameters, scales_of
from tpuc_ops.quantized import Product, Rescales

from tpuc_prequantized.common import STORED


def dequantize_weights(module: Module, *, but_filters: bool = False, but_biases: bool = False) -> None:
    """Replace weights by the real numbers of their integers, one copy per use; `but_filters` and `but_biases` keep the
    integers of those that lowerings accept.
    """
    for operation in list(module.main.operations):
        product = isinstance(operation.op, Product) and operation.operands[0].tensor.is_quantized
        kept = {1: but_filters, 2: but_biases} if product and isinstance(operation.op, STORED) else {}
        # The bias first: its scale is said by the filter.
        for index, operand in reversed(list(enumerate(operation.operands))):
            if kept.get(index) or not operand.is_constant:
                continue
            real = _real(module, operation, index, product)
            if real is not None:
                is_filter = product and index == 1 and not isinstance(operation.op, STORED)
                scales = _steps_of_filter(module, operation) if is_filter else None
                _replace(module, operation, index, real, scales or _step_of_constant(operation, index))
    remove_unused(module)


def _real(module: Module, operation: Operation, index: int, product: bool) -> Array | None:
    """The real numbers of the weight at operand `index`; None when it is a float already."""
    operand = operation.operands[index]
    type_, array = operand.tensor, module.weights[operand.name]
    if type_.is_quantized:
        return dequantize(array, *parameters(type_))
    if type_.storage.is_float or not product or index != 2:
        return None
    source, filters = operation.operands[0].tensor.element, operation.operands[1].tensor.element
    if not isinstance(source, Uniform) or not isinstance(filters, (Uniform, UniformPerAxis)):
        raise InvalidModel(
            f"op '{operation.name}' ({operation.op.name}): its bias is stored as integers, but its operand and filter "
            "have no scales; correct the declared types"
        )
    of_sums = scales_of(_product_of(operation).of_outputs(filters)) * source.scale
    return (array.astype(np.float64) * of_sums).astype(np.float32)


def _product_of(operation: Operation) -> Product:
    assert isinstance(operation.op, Product)
    return operation.op


def _steps_of_filter(module: Module, operation: Operation) -> tuple[float, ...] | None:
    """The scales of a filter with signed 8-bit integers, by which lowerings can recover them."""
    type_, stored = operation.operands[1].tensor, module.weights[operation.operands[1].name]
    element = type_.element
    if not isinstance(element, (Uniform, UniformPerAxis)):
        return None
    whole = stored.astype(np.int64) - parameters(type_)[1]
    if whole.size and not -128 <= int(whole.min()) <= int(whole.max()) <= 127:
        return None
    return tuple(map(float, scales_of(_product_of(operation).of_outputs(element))))


def _step_of_constant(operation: Operation, index: int) -> tuple[float] | None:
    """The scale of a constant that is added or multiplied, by which lowerings can recover its integers."""
    element = operation.operands[index].tensor.element
    is_term = isinstance(operation.op, Rescales) and not isinstance(operation.op, Product)
    return (element.scale,) if is_term and isinstance(element, Uniform) else None


def _replace(
    module: Module, operation: Operation, index: int, array: Array, scales: tuple[float, ...] | None = None
) -> None:
    build = Builder(module, before=operation, constant=top.Weight(scale=scales))
    name = f"{operation.operands[index].name}_f32"
    operation.set_operand(index, build.weight(name, np.ascontiguousarray(array)))
