"""Operations of `tf` on arrays, by name: arithmetic, comparisons, reductions, products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import Operation
from tpuc_ops.arrays import Array

from tpuc_tensorflow.evaluation.arrangement import ARRANGEMENTS
from tpuc_tensorflow.evaluation.facts import fact
from tpuc_tensorflow.evaluation.rounding import ROUNDINGS
from tpuc_tensorflow.evaluation.storage import dtype_of

Kernel: TypeAlias = Callable[[Operation, Sequence[Array]], Sequence[Array]]
"""Maps an operation, for its attributes, and its operands to its results."""


def _plain(function: Callable[..., Any]) -> Kernel:
    """Wrap a function of arrays without attributes; its results get the type that the operation states."""

    def kernel(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        return [_stated(operation, function(*operands))]

    return kernel


def _stated(operation: Operation, array: Any) -> Array:
    """Convert to the result's element type, unless that has no storage."""
    dtype = dtype_of(operation.results[0].type)
    return np.asarray(array) if dtype is None else np.asarray(array).astype(dtype, copy=False)


def _quotient(x: Array, y: Array) -> Array:
    """Divide; integers are truncated toward zero."""
    if x.dtype.kind == "f":
        return x / y
    _check_divisor(y)
    quotient = np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64))
    return np.where((x < 0) != (y < 0), -quotient, quotient)


def _floor_quotient(x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        _check_divisor(y)
    return np.floor_divide(x, y)


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        _check_divisor(y)
    return np.mod(x, y)


def _check_divisor(y: Array) -> None:
    if not np.all(y):
        raise ValueError("it divides by zero")


def _no_nan(x: Array, y: Array) -> Array:
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _selu(x: Array) -> Array:
    return _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def _first(x: Array, *_: Array) -> Array:
    return x


def _sum_all(*arrays: Array) -> Array:
    return np.sum(np.stack(arrays), 0)


def _select(condition: Array, x: Array, y: Array) -> Array:
    """Select; a one-dimensional condition selects along the first dimension."""
    if condition.ndim == 1 and x.ndim > 1:
        condition = condition.reshape(-1, *([1] * (x.ndim - 1)))
    return np.where(condition, x, y)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def _softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def _squared_difference(x: Array, y: Array) -> Array:
    return np.square(x - y)


_FUNCTIONS: Mapping[str, Any] = {
    **dict.fromkeys(("Add", "AddV2"), np.add),
    **dict.fromkeys(("Identity", "Snapshot", "StopGradient", "PreventGradient", "CheckNumerics"), _first),
    **dict.fromkeys(("ReadVariableOp", "PlaceholderWithDefault", "EnsureShape", "Cast"), _first),
    **dict.fromkeys(("Div", "RealDiv", "TruncateDiv"), _quotient),
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "AddN": _sum_all,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atan2": np.arctan2,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "ClipByValue": np.clip,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "DivNoNan": _no_nan,
    "Elu": _elu,
    "Equal": np.equal,
    "Erf": _erf,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Floor": np.floor,
    "FloorDiv": _floor_quotient,
    "FloorMod": _remainder,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "IsFinite": np.isfinite,
    "IsInf": np.isinf,
    "IsNan": np.isnan,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Log": np.log,
    "Log1p": np.log1p,
    "LogicalAnd": np.logical_and,
    "LogicalNot": np.logical_not,
    "LogicalOr": np.logical_or,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "NotEqual": np.not_equal,
    "Pow": np.power,
    "Reciprocal": np.reciprocal,
    "Relu": _relu,
    "Relu6": _relu6,
    "Rint": np.rint,
    "Round": np.rint,
    "Rsqrt": _rsqrt,
    "Select": _select,
    "SelectV2": np.where,
    "Selu": _selu,
    "Sigmoid": _sigmoid,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "SquaredDifference": _squared_difference,
    "Sub": np.subtract,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "TruncateMod": np.fmod,
}


def _reduction(function: Callable[..., Any]) -> Kernel:
    def kernel(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        x, axes = operands
        keep = bool(fact(operation, "keep_dims", False))
        return [_stated(operation, function(x, axis=tuple(np.reshape(axes, -1).tolist()), keepdims=keep))]

    return kernel


def _leaky(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    (x,) = operands
    return [_stated(operation, np.where(x > 0, x, x * np.float32(fact(operation, "alpha", 0.2))))]


def _softmax(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    (x,) = operands
    shifted = x - np.max(x, -1, keepdims=True)
    total = np.sum(np.exp(shifted), -1, keepdims=True)
    return [_stated(operation, shifted - np.log(total) if "Log" in operation.op.name else np.exp(shifted) / total)]


def _matmul(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, y = operands
    left = fact(operation, "transpose_a", False) or fact(operation, "adj_x", False)
    right = fact(operation, "transpose_b", False) or fact(operation, "adj_y", False)
    x, y = (array.swapaxes(-1, -2) if turned else array for array, turned in ((x, left), (y, right)))
    return [_stated(operation, np.matmul(x, y))]


def _einsum(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [_stated(operation, np.einsum(fact(operation, "equation"), *operands))]


def _bias_add(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, bias = operands
    if fact(operation, "data_format", "NHWC") == "NCHW":
        bias = bias.reshape(-1, *([1] * (x.ndim - 2)))
    return [_stated(operation, x + bias)]


def _identities(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return list(operands)


def _nothing(_: Operation, __: Sequence[Array]) -> Sequence[Array]:
    return []


KERNELS: Mapping[str, Kernel] = {
    **{name: _plain(function) for name, function in _FUNCTIONS.items()},
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _matmul),
    **dict.fromkeys(("NoOp", "Assert", "Print"), _nothing),
    "All": _reduction(np.all),
    "Any": _reduction(np.any),
    "BiasAdd": _bias_add,
    "Einsum": _einsum,
    "IdentityN": _identities,
    "LeakyRelu": _leaky,
    "Max": _reduction(np.max),
    "Mean": _reduction(np.mean),
    "Min": _reduction(np.min),
    "Prod": _reduction(np.prod),
    "Sum": _reduction(np.sum),
    **ARRANGEMENTS,
    **ROUNDINGS,
}
