"""Element-wise operators, comparisons, selection, and reductions."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Op
from tpuc_importing.operands import required_constant
from tpuc_ops import top
from tpuc_tflite.building import Arranged, Results

from tpuc_tensorflow.importers.building import TensorflowBuilder
from tpuc_tensorflow.importers.common import TABLE, as_tflite, in_order, plain

_UNARY: dict[str, Op] = {
    "Abs": top.Abs(),
    "Acos": top.Arccos(),
    "Acosh": top.Arccosh(),
    "Asin": top.Arcsin(),
    "Asinh": top.Arcsinh(),
    "Atan": top.Arctan(),
    "Atanh": top.Arctanh(),
    "Ceil": top.Ceil(),
    "Cos": top.Cos(),
    "Cosh": top.Cosh(),
    "Elu": top.Elu(),
    "Erf": top.Erf(),
    "Exp": top.Exp(),
    "Floor": top.Floor(),
    "Inv": top.Reciprocal(const_val=1.0),
    "Log": top.Log(),
    "Neg": top.MulConst(const_val=-1.0),
    "Reciprocal": top.Reciprocal(const_val=1.0),
    "Relu": top.Relu(),
    "Relu6": top.Relu(relu_limit=6.0),
    "Rint": top.Round(),
    "Round": top.Round(),
    "Rsqrt": top.Rsqrt(),
    "Sigmoid": top.Sigmoid(),
    "Sign": top.Sign(),
    "Sin": top.Sin(),
    "Sinh": top.Sinh(),
    "Softplus": top.Softplus(),
    "Softsign": top.Softsign(),
    "Sqrt": top.Sqrt(),
    "Square": top.Pow(exponent=2.0),
    "Tan": top.Tan(),
    "Tanh": top.Tanh(),
}
for _name, _op in _UNARY.items():
    TABLE.imports(_name)(plain(_op))

_ALIKE = {
    "Add": "ADD",
    "AddN": "ADD_N",
    "AddV2": "ADD",
    "Div": "DIV",
    "Equal": "EQUAL",
    "FloorDiv": "FLOOR_DIV",
    "FloorMod": "FLOOR_MOD",
    "Greater": "GREATER",
    "GreaterEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessEqual": "LESS_EQUAL",
    "LogicalAnd": "LOGICAL_AND",
    "LogicalNot": "LOGICAL_NOT",
    "LogicalOr": "LOGICAL_OR",
    "Maximum": "MAXIMUM",
    "Minimum": "MINIMUM",
    "Mod": "FLOOR_MOD",
    "Mul": "MUL",
    "NotEqual": "NOT_EQUAL",
    "Pow": "POW",
    "RealDiv": "DIV",
    "Select": "SELECT",
    "SelectV2": "SELECT_V2",
    "SquaredDifference": "SQUARED_DIFFERENCE",
    "Sub": "SUB",
}
for _name, _operator in _ALIKE.items():
    TABLE.imports(_name)(as_tflite(_operator))

_REDUCTIONS = {
    "All": "REDUCE_ALL",
    "Any": "REDUCE_ANY",
    "Max": "REDUCE_MAX",
    "Mean": "MEAN",
    "Min": "REDUCE_MIN",
    "Prod": "REDUCE_PROD",
    "Sum": "SUM",
}
for _name, _operator in _REDUCTIONS.items():
    TABLE.imports(_name)(as_tflite(_operator, keep_dims="keep_dims"))

TABLE.imports("Softmax")(as_tflite("SOFTMAX"))
TABLE.imports("LogSoftmax")(as_tflite("LOG_SOFTMAX"))

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@TABLE.imports("LeakyRelu")
def leaky_relu(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a leaky ReLU; the default slope is 0.2."""
    return build.through("LEAKY_RELU", node, attributes={"alpha": node.attributes.get("alpha", 0.2)})


@TABLE.imports("Selu")
def selu(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a scaled exponential linear unit."""
    return in_order(node, build, [top.Elu(alpha=_SELU_ALPHA), top.MulConst(const_val=_SELU_SCALE)])


@TABLE.imports("Expm1")
def expm1(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import ``exp(x) - 1``."""
    return in_order(node, build, [top.Exp(), top.AddConst(const_val=-1.0)])


@TABLE.imports("Erfc")
def erfc(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import ``1 - erf(x)``."""
    return in_order(node, build, [top.Erf(), top.MulConst(const_val=-1.0), top.AddConst(const_val=1.0)])


@TABLE.imports("Log1p")
def log1p(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import ``log(1 + x)``."""
    return in_order(node, build, [top.AddConst(const_val=1.0), top.Log()])


@TABLE.imports("ClipByValue")
def clip(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a clip to two constants."""
    low, high = (required_constant(node, build, index, "a bound") for index in (1, 2))
    if low.size != 1 or high.size != 1:
        raise build.refuse(node, "bounds for each element are not supported")
    return in_order(node, build, [top.Clip(min=float(low.reshape(())), max=float(high.reshape(())))])


@TABLE.imports("DivNoNan")
def div_no_nan(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import the quotient, with 0 where the divisor is 0."""
    divisor = build.constant(node.inputs[1])
    if divisor is not None and np.all(divisor):
        return build.through("DIV", node)
    zero, one = (
        build.constant_tensor(node, np.array(number, np.float32), word) for number, word in ((0, "zero"), (1, "one"))
    )
    is_zero = build.inner("EQUAL", node, (node.inputs[1], zero), "is_zero")
    safe = build.inner("SELECT_V2", node, (is_zero, one, node.inputs[1]), "safe")
    quotient = build.inner("DIV", node, (node.inputs[0], safe), "quotient")
    return build.through("SELECT_V2", node, (is_zero, zero, quotient))


@TABLE.imports(
    *("Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "PlaceholderWithDefault"),
    *("ReadVariableOp", "EnsureShape"),
)
def identity(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Give the value another name."""
    return in_order(node, build, [])


@TABLE.imports("IdentityN")
def identities(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Give several values other names."""
    return [Arranged(build.value(name, build.order(name)), build.order(name)) for name in node.inputs]


@TABLE.imports("Cast")
def cast(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a cast. Computed tensors are floats in TOP, so only the loss of a narrower type is computed."""
    return build.through("CAST", node)
