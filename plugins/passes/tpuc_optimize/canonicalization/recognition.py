"""Recognize well-known unary functions that networks express by several ops.

They are products: a number, the value, and a gate that is a function of the value. Exporters write the factors in any
order and put the number anywhere, so a product is first split into factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tpuc.api import Op, Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names

PRECISION = 1e-5
"""Relative tolerance for constants; it changes no more than another order of float32 sums."""
MOST_FACTORS = 4
"""Factors of an inner product: a cube and its multiplier."""
MOST_NESTED = 16
"""Nested products that are split; functions written by exporters have half as many."""


@dataclass(frozen=True)
class Product:
    """A number times values of one shape."""

    number: float
    factors: tuple[Value, ...]


@dataclass(frozen=True)
class Gate:
    """A factor that turns its operand into `op`: ``op(operand) = number * operand * factor``."""

    op: Op
    operand: Value
    number: float


def product_of(operation: Operation, nested: int = MOST_NESTED) -> Product:
    """The factors of an operation, including those of `nested` products without other readers."""
    op, number, parts = operation.op, 1.0, list[Product]()
    if isinstance(op, top.MulConst) and not op.do_relu:
        number, parts = op.const_val, [factor_of(operation.operands[0], nested)]
    elif op == top.Mul():
        parts = [factor_of(value, nested) for value in operation.operands]
    elif isinstance(op, top.Pow) and op.exponent in (2, 3):
        parts = [factor_of(operation.operands[0], nested)] * int(op.exponent)
    else:
        return Product(1.0, (operation.result,))
    return Product(
        number * math.prod(part.number for part in parts), tuple(value for part in parts for value in part.factors)
    )


def factor_of(value: Value, nested: int) -> Product:
    """A value, split into factors if it is a product without other readers."""
    producer = value.defining
    if nested == 0 or producer is None or len(value.uses) != 1 or len(producer.results) != 1:
        return Product(1.0, (value,))
    found = product_of(producer, nested - 1)
    same = all(factor.type == value.type for factor in found.factors) and len(found.factors) <= MOST_FACTORS
    return found if same else Product(1.0, (value,))


def is_near(number: float, wanted: float) -> bool:
    """True for the same constant, to the precision that exporters print."""
    return math.isclose(number, wanted, rel_tol=PRECISION)


@dataclass(frozen=True)
class GatedProducts(Pattern):
    """``x * gate(x)`` becomes SiLU, HardSwish or GELU; a remaining number multiplies the result."""

    names: Names
    matches = (top.Mul, top.MulConst)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        product = product_of(operation)
        if len(product.factors) != 2 or _goes_on(operation):
            return False
        for x, factor in (product.factors, product.factors[::-1]):
            gate = next((found for find in _GATES if (found := find(factor)) is not None), None)
            if gate is None or gate.operand is not x or x.type != operation.result.type:
                continue
            left, type = product.number / gate.number, operation.result.type
            if is_near(left, 1.0):
                made = rewriter.build(gate.op, [x], type, operation.name)
            else:
                inner = rewriter.build(gate.op, [x], type, self.names.new(f"{operation.name}_gated"))
                made = rewriter.build(top.MulConst(const_val=left), [inner], type, operation.name)
            rewriter.replace(operation, made)
            return True
        return False


class HardSigmoidFromRelu(Pattern):
    """A sixth of the relu of ``x + 3``, limited to 6."""

    matches = (top.MulConst,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        product = product_of(operation)
        if len(product.factors) != 1 or _goes_on(operation):
            return False
        gate = _shifted_relu(product.factors[0])
        if gate is None or not is_near(product.number, gate.number):
            return False
        op = top.HardSigmoid(alpha=1 / 6, beta=0.5)
        rewriter.replace(operation, rewriter.build(op, [gate.operand], operation.result.type, operation.name))
        return True


def _goes_on(operation: Operation) -> bool:
    """True if the product is multiplied by a number next, which is then matched together with it."""
    value = operation.result
    return len(value.uses) == 1 and value.users[0].op == top.MulConst(const_val=_number(value.users[0]))


def _number(operation: Operation) -> float:
    return operation.op.const_val if isinstance(operation.op, (top.AddConst, top.MulConst)) else math.nan


def _operand_of(value: Value, kind: type[Op]) -> Value | None:
    """The only operand of the op of that kind that computes a value."""
    producer = value.defining
    return producer.operands[0] if producer is not None and isinstance(producer.op, kind) else None


def _scaled(value: Value, number: float) -> Value | None:
    """The value that is multiplied by the number."""
    producer = value.defining
    if producer is None or producer.op != top.MulConst(const_val=_number(producer)):
        return None
    return producer.operands[0] if is_near(_number(producer), number) else None


def _shifted(value: Value, number: float, *, then_relu: float = -1.0) -> Value | None:
    """The value to which the number is added; `then_relu`: the limit of a relu after the sum."""
    producer = value.defining
    if producer is not None and then_relu > 0 and isinstance(producer.op, (top.Relu, top.Clip)):
        limit = producer.op.relu_limit if isinstance(producer.op, top.Relu) else producer.op.max
        begins = isinstance(producer.op, top.Relu) or producer.op.min == 0
        return _shifted(producer.operands[0], number) if begins and limit == then_relu else None
    wanted = top.AddConst(const_val=number, do_relu=then_relu > 0, relu_limit=then_relu)
    return producer.operands[0] if producer is not None and producer.op == wanted else None


def _sigmoid(value: Value) -> Gate | None:
    x = _operand_of(value, top.Sigmoid)
    return None if x is None else Gate(top.SiLU(), x, 1.0)


def _hard_sigmoid(value: Value) -> Gate | None:
    x = _operand_of(value, top.HardSigmoid)
    op: Any = None if value.defining is None else value.defining.op
    return Gate(top.HardSwish(), x, 1.0) if x is not None and is_near(op.alpha, 1 / 6) and op.beta == 0.5 else None


def _shifted_relu(value: Value) -> Gate | None:
    """``relu(x + 3)`` up to 6, or ``relu(x / 6 + 1 / 2)`` up to 1."""
    x = _shifted(value, 3.0, then_relu=6.0)
    if x is not None:
        return Gate(top.HardSwish(), x, 1 / 6)
    part = _shifted(value, 0.5, then_relu=1.0)
    x = None if part is None else _scaled(part, 1 / 6)
    return None if x is None else Gate(top.HardSwish(), x, 1.0)


def _erf(value: Value) -> Gate | None:
    """``1 + erf(x / sqrt(2))``."""
    curve = _shifted(value, 1.0)
    part = None if curve is None else _operand_of(curve, top.Erf)
    x = None if part is None else _scaled(part, math.sqrt(0.5))
    return None if x is None else Gate(top.GELU(), x, 0.5)


def _tanh(value: Value) -> Gate | None:
    """``1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))``."""
    curve = _shifted(value, 1.0)
    angle = None if curve is None else _operand_of(curve, top.Tanh)
    total = None if angle is None else _scaled(angle, math.sqrt(2 / math.pi))
    if total is None or total.defining is None or total.defining.op != top.Add() or len(total.defining.operands) != 2:
        return None
    left, right = total.defining.operands
    for x, cube in ((left, right), (right, left)):
        product = Product(1.0, ()) if cube.defining is None else product_of(cube.defining)
        if is_near(product.number, 0.044715) and product.factors == (x, x, x):
            return Gate(top.GELU(approx_mode="tanh"), x, 0.5)
    return None


_GATES: tuple[Callable[[Value], Gate | None], ...] = (_sigmoid, _hard_sigmoid, _shifted_relu, _erf, _tanh)
