"""Find dynamically quantized tensors whose scale is multiplied back."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from tpuc.api import Module, NoneType, Operation, ShapeOnly, Value
from tpuc_ops import top


class _Kind(enum.Enum):
    """The composition of a value: linear in the integers alone, or in the scale alone."""

    PRODUCT = enum.auto()
    SCALE = enum.auto()


def is_scaled_back(operation: Operation, module: Module) -> bool:
    """True if only products read the integers of a DynamicQuantizeLinear, and each is multiplied by its scale exactly
    once.
    """
    if not isinstance(operation.op, top.DynamicQuantizeLinear):
        return False
    whole, scale, zero = operation.results
    products = list(_products(whole, module))
    if zero.uses or not products or len(products) != len(whole.uses):
        return False
    kinds = {scale: _Kind.SCALE, **dict.fromkeys((product.result for product in products), _Kind.PRODUCT)}
    assert operation.block is not None
    readers = (one for one in operation.block.operations if any(operand in kinds for operand in one.operands))
    return all(_follow(reader, kinds) for reader in readers)


def _products(whole: Value, module: Module) -> Iterator[Operation]:
    """The products with it on the left and nothing derived from it on the right; None where there are other readers."""
    for user, position in whole.uses:
        op = user.op
        plain = isinstance(op, (top.Conv, top.MatMul)) and not op.do_relu
        if plain and position == 0 and all(_is_nothing(value, module) for value in user.operands[2:]):
            yield user


def _is_nothing(bias: Value, module: Module) -> bool:
    if isinstance(bias.type, NoneType):
        return True
    array = module.constant(bias)
    return array is not None and not array.any()


def _follow(reader: Operation, kinds: dict[Value, _Kind]) -> bool:
    """Record the kind of a reader's result; False where it is neither linear nor scaled."""
    op = reader.op
    given = [kinds[operand] for operand in reader.operands if operand in kinds]
    match op, given:
        case top.Mul(do_relu=False), [_Kind.PRODUCT, _Kind.SCALE] | [_Kind.SCALE, _Kind.PRODUCT]:
            return len(reader.operands) == 2
        case ((top.Mul(do_relu=False) | top.MulConst(do_relu=False) | top.Permute() | ShapeOnly()), [kind]):
            kinds[reader.result] = kind
            return True
        case _:
            return False
