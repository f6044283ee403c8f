"""Base classes of element-wise ops: one operand through a function, or two that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import F64, Bool, Dialect, Elementwise, FusesRelu, Node, Op, TensorType, Types

from tpuc_ops.arrays import Array, as_float, relu
from tpuc_ops.quantised import Rescales, function_of_one, in_floats
from tpuc_ops.shapes import broadcast


class UnaryOp(Op, Elementwise, Rescales):
    """One operand, element by element: subclasses give `function`, and its cost if it is not 1."""

    flops_per_element: ClassVar[int] = 1

    def function(self, x: Array) -> Array:
        """The op on float32 values of any shape."""
        raise NotImplementedError

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def quantised(self, node: Node, operands: Sequence[Array]) -> Array:
        """The op on stored integers; subclasses whose integer arithmetic is another give their own."""
        return function_of_one(node, operands, self.function)

    def stored(self, node: Node, operands: Sequence[Array]) -> Array:
        """The op on stored integers, by what they stand for or by an arithmetic of integers."""
        by_meaning = in_floats(self, node, operands)
        return self.quantised(node, operands) if by_meaning is None else by_meaning

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if node.result_type.is_quantised:
            return [self.stored(node, operands)]
        with np.errstate(all="ignore"):  # infinities and NaN are results here, not accidents
            return [self.function(as_float(operands[0])).astype(np.float32, copy=False)]

    def flops(self, node: Node) -> int:
        return self.flops_per_element * node.operand_types[0].size


class Function(UnaryOp):
    """A function of one number. Chips have lowerings for the kind, which serve each of them, also a stranger's: a table
    in integers, and in floats the mode `active` of `tpu.Active` where their kernels know it. Front ends import the
    operators that `foreign` names, each behind its format: `("onnx.Mish", "tpulang.mish")`.
    """

    name = "top.Function"
    op_kind = "top.Function"
    active: ClassVar[str] = ""
    foreign: ClassVar[Sequence[str]] = ()

    def active_mode(self) -> str:
        """The mode of `tpu.Active` that computes this function; empty where there is none."""
        return self.active

    def coefficients(self) -> tuple[float, ...] | None:
        """The numbers that the mode takes."""
        return None


def functions_in(dialect: Dialect) -> list[type[Function]]:
    """The functions of one number of a dialect; imports all of it."""
    return [op for op in map(dialect.op, dialect.names()) if op and issubclass(op, Function)]


class Activation(Function):
    """A function that networks put behind products; a factor per channel does not pass through it unchanged."""


@dataclass(frozen=True, kw_only=True)
class ReluFields(FusesRelu):
    """The two attributes of every op that may apply a relu to its result."""

    do_relu: Bool = False
    relu_limit: F64 = -1.0

    def activate(self, x: Array, *, in_place: bool = False) -> Array:
        """The relu, if any."""
        return relu(x, self.do_relu, self.relu_limit, in_place=in_place)


def broadcast_type(operands: Types) -> TensorType:
    """The plain type of an element-wise result."""
    if len(operands) < 2:
        raise ValueError(f"at least two operands are needed, there are {len(operands)}")
    return operands[0].shape_only().with_shape(broadcast(*(operand.dims for operand in operands)))


def weighted(operands: Sequence[Array], coeff: Sequence[float] | None) -> list[Array]:
    """Each operand times its float32 factor, those of factor 1 as they are."""
    factors = coeff or (1.0,) * len(operands)
    return [x if factor == 1.0 else x * np.float32(factor) for x, factor in zip(operands, factors, strict=True)]
