"""Dynamic quantization by the range of the operand: integers stored as floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, ShapeOnly, TensorType, Value
from tpuc_ops import top
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.top.dynamic_quantize_linear import STEPS

from tpuc_legalize.composer import MANTISSA_BITS, MOVES, Composed, Composer, Part, compute_type
from tpuc_legalize.table import TABLE

_LEAST = 2.0**-100
"""Smallest scale of a nonempty range."""
_HALVES = 1.5 * 2.0**22
"""Adding it to a small float32 number and subtracting it again rounds to a multiple of one half."""


@TABLE.legalizes(top.DynamicQuantizeLinear)
class DynamicQuantizeLinearAny(Composed[top.DynamicQuantizeLinear]):
    """The extremes determine the scale. Quotients are those of float32, rounded once, where compositions use
    float32.
    """

    into = (
        *MOVES,
        top.Add,
        top.AddConst,
        top.Div,
        top.MaxConst,
        top.MaxPool,
        top.Min,
        top.Mul,
        top.MulConst,
        top.Reduce,
        top.Round,
        top.Sub,
        top.SubConst,
    )

    def compose(
        self, node: LoweringNode[top.DynamicQuantizeLinear], do: Composer, parts: Sequence[Part]
    ) -> Sequence[Value]:
        x = node.operands[0]
        whole_name, scale_name, zero_name = node.result_names
        greatest = do(top.MaxConst(const_val=0.0), _greatest(do, x))
        is_positive = is_never_negative(x)
        if is_positive:
            scale = _steps_of(do, greatest)
            divide = _Divider(do, scale)
            whole = divide(x, whole_name)
            zero = do(top.MulConst(const_val=0.0), greatest)
        else:
            lowest = do(top.MaxConst(const_val=0.0), _greatest(do, do(top.MulConst(const_val=-1.0), x)))
            scale = _steps_of(do, do(top.Add(), greatest, lowest))
            divide = _Divider(do, scale)
            zero = divide(lowest)
            limit = do(top.SubConst(const_val=float(STEPS), is_reverse=True), zero)
            whole = do(top.Min(), divide(x), limit, name=whole_name)
        return [whole, do.reshape(scale, name=scale_name), do.reshape(zero, name=zero_name)]


def is_never_negative(value: Value) -> bool:
    """True for the result of a relu, possibly moved."""
    producer = value.defining
    if producer is None:
        return False
    op = producer.op
    if isinstance(op, (top.Relu, top.Sigmoid, top.Softmax)) or (isinstance(op, ReluFields) and op.do_relu):
        return not getattr(op, "log", False)
    if isinstance(op, top.Clip):
        return op.min >= 0
    if isinstance(op, (ShapeOnly, top.Concat, top.MaxPool, top.AvgPool, top.Permute, top.Slice)):
        return all(is_never_negative(one) for one in producer.operands if isinstance(one.type, TensorType))
    return False


def _greatest(do: Composer, x: Value) -> Value:
    """Return the largest element. For an image, reduce each channel first, which needs no movement of the image."""
    rank = x.tensor.rank
    if rank == 4 and x.tensor.dims[0] == 1 and x.tensor.dims[1] > 3:
        _, _, h, w = x.tensor.dims
        for window in ((1, w), (h, 1)):
            if max(window) > 1:
                dims = (1, x.tensor.dims[1], x.tensor.dims[2] // window[0], x.tensor.dims[3] // window[1])
                op = top.MaxPool(kernel_shape=window, strides=(1, 1), pads=(0, 0, 0, 0))
                x = do(op, x, dims=dims)
        x = do.permute(x, 0, 3, 2, 1)
    return do(top.Reduce(axes=tuple(range(rank)), mode="ReduceMax"), x)


def _steps_of(do: Composer, span: Value) -> Value:
    """The range divided by the number of steps, rounded once."""
    span = do(top.MaxConst(const_val=STEPS * _LEAST), span)
    if not _is_single(do):  # 1 / 255 is nearly 1 / 256 + 1 / 65536, which short floats hold
        return do(top.Add(), *(do(top.MulConst(const_val=1 / parts), span) for parts in (2**8, 2**16)))
    near = do(top.MulConst(const_val=1 / STEPS), span)
    rest = span
    for part in _halves(do, near):
        rest = do(top.Sub(), rest, do(top.MulConst(const_val=float(STEPS)), part))
    return do(top.Add(), near, do(top.MulConst(const_val=1 / STEPS), rest))


def _is_single(do: Composer) -> bool:
    """True if compositions are computed in float32."""
    return MANTISSA_BITS[compute_type(do.node)] == 24


def _halves(do: Composer, value: Value) -> tuple[Value, Value]:
    """Two numbers of 12 bits each with the given sum: products with 12-bit numbers are exact."""
    far = do(top.MulConst(const_val=float(2**12 + 1)), value)
    upper = do(top.Sub(), far, do(top.Sub(), far, value))
    return upper, do(top.Sub(), value, upper)


class _Divider:
    """Quotients by a computed number, rounded to integers.

    The product with the reciprocal is slightly off, which matters near halves. In float32 the nearest multiple of one
    half is subtracted exactly; the remainder is small, so that the sum of both is the quotient, rounded once.
    """

    def __init__(self, do: Composer, scale: Value) -> None:
        self.do = do
        one = do.constant(np.ones((1,) * scale.tensor.rank, np.float32))
        self.inverse = do(top.Div(is_reverse=True), scale, one)
        self.parts = _halves(do, scale) if _is_single(do) else ()

    def __call__(self, x: Value, name: str | None = None) -> Value:
        do = self.do
        near = do(top.Mul(), x, self.inverse)
        if self.parts:
            near = do(top.AddConst(const_val=-_HALVES), do(top.AddConst(const_val=_HALVES), near))
            rest = x
            for part in self.parts:
                rest = do(top.Sub(), rest, do(top.Mul(), near, part))
            near = do(top.Add(), near, do(top.Mul(), rest, self.inverse))
        return do(top.Round(), near, name=name)
