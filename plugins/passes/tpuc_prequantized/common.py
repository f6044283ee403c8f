"""What passes do with networks whose values and weights have scales before they are lowered."""

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
from tpuc_ops.quant.casts import Dequantise, Quantise
from tpuc_optimize.canonicalization.common import insert_before

CHIP_BITS = 8
"""Of the integers that chips compute with."""

STORED = (top.Conv, top.MatMul)
"""Products whose integer lowerings take filters as the network stores them: a fact about lowerings, not about ops."""


def computed_values(module: Module) -> Iterator[Value]:
    """Arguments and results of `main` that are tensors, without weights."""
    yield from module.main.inputs
    for operation in module.main.operations:
        if not isinstance(operation.op, Constant):
            yield from (value for value in operation.results if isinstance(value.type, TensorType))


def network_inputs(module: Module) -> list[Operation]:
    """The operations of its inputs, in order."""
    return [operation for operation in module.main.operations if isinstance(operation.op, NetworkInput)]


def has_scales(module: Module) -> bool:
    """Is any value that an op computes stored as integers with a scale? Inputs may be bytes of images anyway."""
    return any(
        value.tensor.is_quantised
        for value in computed_values(module)
        if value.defining is not None and not isinstance(value.defining.op, NetworkInput)
    )


def computes_floats(module: Module) -> bool:
    """Does any op take floats and give floats?"""
    return any(
        not any(isinstance(value.type, TensorType) and value.tensor.is_quantised for value in (*o.operands, *o.results))
        for o in module.main.operations[:-1]
        if o.operands and not isinstance(o.op, NetworkInput)
    )


def bypass_casts(module: Module) -> None:
    """Casts between floats and integers go where no value is an integer any more; outputs keep their names."""
    outputs = set(module.main.outputs)
    for operation in list(module.main.operations):
        if not isinstance(operation.op, (Quantise, Dequantise)):
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
    """A change from one scale to another is a product with 1, which chips have a lowering for."""
    for operation in list(module.main.operations):
        if isinstance(operation.op, Quantise) and operation.operands[0].tensor.is_quantised:
            op = top.MulConst(const_val=1.0)
            product = Operation(op, operation.operands, [operation.result.tensor], operation.location)
            operation.result.replace_with(insert_before(operation, product))
            operation.erase()
