"""Operators on each element: functions, arithmetic with broadcasts, comparisons, logic, choices, casts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fuzz.graphs.maker import Maker, Value
from tests.fuzz.graphs.table import makes


@makes(
    "Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Asinh", "Identity"
)
@makes("Floor", "Ceil", "Round", "Sign", weight=0.7)
def function(m: Maker, name: str) -> None:
    m.node(name, m.pick())


@makes("HardSwish", since=14)
@makes("Mish", since=18)
def later_function(m: Maker, name: str) -> None:
    m.node(name, m.pick())


@makes("Gelu", since=20)
def gelu(m: Maker, name: str) -> None:
    m.node(name, m.pick(), **({"approximate": m.choose(("none", "tanh"))} if m.chance(0.7) else {}))


@makes("Elu", "Celu", "ThresholdedRelu")
def one_factor(m: Maker, name: str) -> None:
    m.node(name, m.pick(), **({"alpha": m.real(0.2, 1.5)} if m.chance(0.7) else {}))


@makes("LeakyRelu")
def leaky_relu(m: Maker, name: str) -> None:
    m.node(name, m.pick(), **({"alpha": m.real(-0.5, 0.9)} if m.chance(0.8) else {}))


@makes("Selu")
def selu(m: Maker, name: str) -> None:
    m.node(name, m.pick(), **({"alpha": m.real(0.5, 2), "gamma": m.real(0.5, 1.5)} if m.chance(0.5) else {}))


@makes("Shrink")
def shrink(m: Maker, name: str) -> None:
    m.node(name, m.pick(), lambd=m.real(0.1, 1), bias=m.real(0, 0.5))


@makes("HardSigmoid")
def hard_sigmoid(m: Maker, name: str) -> None:
    m.node(name, m.pick(), **({"alpha": m.real(0.1, 0.6), "beta": m.real(0.2, 0.8)} if m.chance(0.7) else {}))


DOMAINS = {
    "Exp": (-5.0, 3.0),
    "Log": (0.05, 20.0),
    "Sqrt": (0.05, 50.0),
    "Reciprocal": (0.25, 20.0),
    "Asin": (-0.9, 0.9),
    "Acos": (-0.9, 0.9),
    "Atanh": (-0.9, 0.9),
    "Acosh": (1.2, 20.0),
    "Sinh": (-2.5, 2.5),
    "Cosh": (-2.5, 2.5),
    "Tan": (-1.2, 1.2),
}
"""Where functions are defined, and steps of 8 bits do not become half of their range."""


@makes(*DOMAINS)
def function_with_domain(m: Maker, name: str) -> None:
    m.node(name, m.inside(m.pick(), *DOMAINS[name]))


@makes("Clip", weight=3)
def clip(m: Maker, name: str) -> None:
    low, high = sorted((m.real(-3, 1), m.real(0, 4)))
    low_value, high_value = m.constant(low), m.constant(high + 0.25)
    match m.whole(0, 4):
        case 0:
            m.node(name, m.pick(), low_value)
        case 1:
            m.node(name, m.pick(), None, high_value)
        case 2:
            m.node(name, m.pick(), m.constant(0.0), m.constant(6.0))
        case _:
            m.node(name, m.pick(), low_value, high_value)


@makes("Dropout")
def dropout(m: Maker, name: str) -> None:
    m.node(name, m.pick(), *([m.constant(0.4), m.constant(False, np.bool_)] if m.chance(0.5) else []))


# Arithmetic


def _pair(m: Maker, x: Value, y: Value) -> tuple[Value, Value]:
    return (y, x) if m.chance(0.4) else (x, y)


@makes("Add", "Sub", "Mul", weight=3)
@makes("Max", "Min", weight=1.5)
def arithmetic(m: Maker, name: str) -> None:
    x = m.pick()
    m.node(name, *_pair(m, x, m.partner(x)))


@makes("Div", weight=2)
def div(m: Maker, name: str) -> None:
    x = m.pick()
    y = m.partner(x, 0.4, 3.0) if m.chance(0.7) else m.inside(m.pick(where=lambda v: v.shape == x.shape), 0.4, 3.0)
    m.node(name, x, y)


@makes("Pow", weight=2)
def pow_(m: Maker, name: str) -> None:
    x = m.pick()
    match m.whole(0, 4):
        case 0:
            m.node(name, m.inside(x, -4, 4), m.constant(2.0))
        case 1:
            m.node(name, m.inside(x, -3, 3), m.constant(3.0))
        case 2:
            m.node(name, m.inside(x, 0.1, 4), m.constant(m.choose((0.5, 1.5, -0.5, -1.0, 0.3))))
        case 3:
            m.node(name, m.constant(m.choose((0.5, 2.0, 1.7))), m.inside(x, -3, 3))
        case _:
            base = m.inside(x, 0.2, 3)
            m.node(name, base, m.partner(base, -1.5, 2.0))


@makes("Mod")
def mod(m: Maker, name: str) -> None:
    if m.chance(0.5):
        x = m.pick("i")
        m.node(name, x, m.constant(m.whole(2, 7), x.arrays[0].dtype), fmod=m.whole(0, 1))
    else:
        x = m.pick()
        m.node(name, x, m.partner(x, 0.7, 2.0), fmod=1)


@makes("Sum", "Mean")
def of_several(m: Maker, name: str) -> None:
    x = m.pick()
    operands = [x, *(m.partner(x) for _ in range(m.whole(0, 2)))]
    m.random.shuffle(operands)  # type: ignore[arg-type]
    m.node(name, *operands)


@makes("PRelu", weight=1.5)
def prelu(m: Maker, name: str) -> None:
    x = m.ranked(2, 3, 4)
    slope = [x.shape[1], *([1] * (x.rank - 2))] if m.chance(0.7) else [1]
    m.node(name, x, m.between(-0.4, 0.8, *slope))


@makes("IntegerArithmetic", weight=0.7)
def integer_arithmetic(m: Maker, name: str) -> None:
    """Add, Sub, Mul and Div of integers; results stay small."""
    x = m.pick("i", lambda v: v.low >= -500 and v.high <= 500)
    y = m.constant(m.whole(1, 5), x.arrays[0].dtype)
    m.node(m.choose(("Add", "Sub", "Mul", "Div", "Max", "Min")), x, y)


@makes("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18, weight=0.4)
def bitwise(m: Maker, name: str) -> None:
    x = m.pick("i", lambda v: v.low >= 0 and v.high <= 500)
    m.node(name, x, m.constant(m.whole(1, 63), x.arrays[0].dtype))


@makes("BitShift", weight=0.4)
def bit_shift(m: Maker, name: str) -> None:
    x = m.node("Cast", m.inside(m.pick(), 0, 60), to=m.choose((TensorProto.UINT8, TensorProto.UINT32)))
    m.node(name, x, m.constant(m.whole(1, 2), x.arrays[0].dtype), direction=m.choose(("LEFT", "RIGHT")))


# Comparisons, logic, choices, casts


@makes("Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def compare(m: Maker, name: str) -> None:
    x = m.pick()
    m.node(name, *_pair(m, x, m.partner(x)))


@makes("Equal", weight=0.7)
def equal(m: Maker, name: str) -> None:
    """Of integers; equality of floats is a matter of the last bit."""
    x = m.pick("i")
    m.node(name, x, m.constant(m.choose(sorted(set(x.arrays[0].ravel().tolist()))), x.arrays[0].dtype))


@makes("And", "Or", "Xor", weight=0.7)
def logic(m: Maker, name: str) -> None:
    x = m.pick("b")
    fitting = [value for value in m.values if value.kind == "b" and value.shape == x.shape]
    other = m.choose(fitting) if m.chance(0.6) else m.constant(m.random.random(x.shape) < 0.5, np.bool_)
    m.node(name, x, other)


@makes("Not", weight=0.7)
def not_(m: Maker, name: str) -> None:
    m.node(name, m.pick("b"))


@makes("IsNaN", "IsInf", weight=0.3)
def is_special(m: Maker, name: str) -> None:
    m.node(name, m.pick())


@makes("Where", weight=3)
def where(m: Maker, name: str) -> None:
    if m.chance(0.5):
        condition = m.pick("b")
        x = m.partner(m.constant(m.random.normal(0, 1, condition.shape)))
    else:
        x = m.pick()
        shape = [1 if m.chance(0.3) else extent for extent in x.shape]
        condition = m.constant(m.random.random(shape) < 0.5, np.bool_)
    other = m.constant(m.real(-3, 3)) if m.chance(0.4) else m.partner(x)
    m.node(name, condition, *_pair(m, x, other))


@makes("Cast", weight=2)
def cast(m: Maker, name: str) -> None:
    kind = m.choose("ffib")
    x = m.pick(kind)
    targets = {
        "f": (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE),
        "i": (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL),
        "b": (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64),
    }
    target = m.choose(targets[kind])
    result = m.node(name, x, to=target)
    if target == TensorProto.DOUBLE:
        m.node("Cast", result, to=TensorProto.FLOAT)


@makes("CastLike", since=15, weight=0.6)
def cast_like(m: Maker, name: str) -> None:
    m.node(name, m.pick(m.choose("ib")), m.pick("f", lambda v: v.arrays[0].dtype == np.float32))
