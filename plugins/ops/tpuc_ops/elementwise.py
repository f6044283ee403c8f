"""Base classes of element-wise ops: one operand through a function, or several that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import F64, Bool, Dialect, Elementwise, FusesRelu, Node, Op, TensorType, Types

from tpuc_ops.arrays import Array, as_float, relu
from tpuc_ops.quantized import Rescales, function_of_one, in_floats
from tpuc_ops.shapes import broadcast


class UnaryOp(Op, Elementwise, Rescales):
    """An element-wise op with one operand; subclasses implement `function`, and set its cost if it is not 1."""

    flops_per_element: ClassVar[int] = 1

    def function(self, x: Array) -> Array:
        """Compute the op on float32 values of any shape."""
        raise NotImplementedError

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        """Compute the op on stored integers; overridden by ops with integer arithmetic of their own."""
        return function_of_one(node, operands, self.function)

    def stored(self, node: Node, operands: Sequence[Array]) -> Array:
        """Compute the op on stored integers, by dequantized floats or by integer arithmetic."""
        by_meaning = in_floats(self, node, operands)
        return self.quantized(node, operands) if by_meaning is None else by_meaning

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if node.result_type.is_quantized:
            return [self.stored(node, operands)]
        with np.errstate(all="ignore"):  # infinities and NaN are results here, not accidents
            return [self.function(as_float(operands[0])).astype(np.float32, copy=False)]

    def flops(self, node: Node) -> int:
        return self.flops_per_element * node.operand_types[0].size


class Function(UnaryOp):
    """A function of one number. Chips lower the whole kind, so plugins' functions are served too: by a table for
    integers, and for floats by the mode `active` of `tpu.Active` if the chip's kernels support it. Front ends import
    the operators listed in `foreign`, each with its format: `("onnx.Mish", "tpulang.mish")`.
    """

    name = "top.Function"
    op_kind = "top.Function"
    active: ClassVar[str] = ""
    foreign: ClassVar[Sequence[str]] = ()

    def active_mode(self) -> str:
        """Return the mode of `tpu.Active` that computes this function; empty if there is none."""
        return self.active

    def coefficients(self) -> tuple[float, ...] | None:
        """Return the parameters of the mode."""
        return None


def functions_in(dialect: Dialect) -> list[type[Function]]:
    """Return all unary functions of a dialect; imports the whole dialect."""
    return [op for op in map(dialect.op, dialect.names()) if op and issubclass(op, Function)]


class Activation(Function):
    """A function that networks apply after products. It does not commute with a factor per channel."""


@dataclass(frozen=True, kw_only=True)
class ReluFields(FusesRelu):
    """The two attributes of every op that can apply a relu to its result."""

    do_relu: Bool = False
    relu_limit: F64 = -1.0

    def activate(self, x: Array, *, in_place: bool = False) -> Array:
        """Apply the relu, if any."""
        return relu(x, self.do_relu, self.relu_limit, in_place=in_place)


def broadcast_type(operands: Types) -> TensorType:
    """Return the plain type of an element-wise result; raises ValueError for fewer than two operands."""
    if len(operands) < 2:
        raise ValueError(f"at least two operands are needed, there are {len(operands)}")
    return operands[0].shape_only().with_shape(broadcast(*(operand.dims for operand in operands)))


def weighted(operands: Sequence[Array], coeff: Sequence[float] | None) -> list[Array]:
    """Multiply each operand by its float32 factor; a factor of 1 leaves it unchanged."""
    factors = coeff or (1.0,) * len(operands)
    return [x if factor == 1.0 else x * np.float32(factor) for x, factor in zip(operands, factors, strict=True)]
