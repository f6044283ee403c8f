"""Helpers of the passes on pre-quantized networks."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import (
    Constant,
    Module,
    NetworkInput,
    Operation,
    ScalarType,
    TensorType,
    Value,
    remove_dead,
)
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_optimize.canonicalization.common import insert_before

CHIP_BITS = 8
"""Integer width of the chips."""

STORED = (top.Conv, top.MatMul)
"""Products whose integer lowerings take filters as the network stores them: a fact about lowerings, not about ops."""


def computed_values(module: Module) -> Iterator[Value]:
    """Arguments and results of `main` that are tensors, without weights."""
    yield from module.main.inputs
    for operation in module.main.operations:
        if not isinstance(operation.op, Constant):
            yield from (value for value in operation.results if isinstance(value.type, TensorType))


def network_inputs(module: Module) -> list[Operation]:
    """The network's input operations, in order."""
    return [operation for operation in module.main.operations if isinstance(operation.op, NetworkInput)]


def has_scales(module: Module) -> bool:
    """True if any computed value is stored as scaled integers. Inputs may be image bytes anyway."""
    return any(
        value.tensor.is_quantized
        for value in computed_values(module)
        if value.defining is not None and not isinstance(value.defining.op, NetworkInput)
    )


def computes_floats(module: Module) -> bool:
    """True if any op takes and returns floats."""
    return any(
        not any(isinstance(value.type, TensorType) and value.tensor.is_quantized for value in (*o.operands, *o.results))
        for o in module.main.operations[:-1]
        if o.operands and not isinstance(o.op, NetworkInput)
    )


def bypass_casts(module: Module) -> None:
    """Remove casts between floats and integers where no value is an integer any more; outputs keep their names."""
    outputs = set(module.main.outputs)
    for operation in list(module.main.operations):
        if not isinstance(operation.op, (Quantize, Dequantize)):
            continue
        source, result = operation.operands[0], operation.result
        if isinstance(source.tensor.element, ScalarType):
            source.type = source.tensor.with_element(result.tensor.element)
        if result in outputs:
            same = Operation(top.Reshape(shape=result.tensor.dims), [source], [source.tensor], operation.location)
            source = insert_before(operation, same)
        result.replace_with(source)
    remove_dead(module)


def changes_to_products(module: Module) -> None:
    """Turn a rescaling cast into a product with 1, for which chips have a lowering."""
    for operation in list(module.main.operations):
        if isinstance(operation.op, Quantize) and operation.operands[0].tensor.is_quantized:
            op = top.MulConst(const_val=1.0)
            product = Operation(op, operation.operands, [operation.result.tensor], operation.location)
            operation.result.replace_with(insert_before(operation, product))
            operation.erase()
