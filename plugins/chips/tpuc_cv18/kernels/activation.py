"""Relu with an upper limit, on stored integers and bf16."""

from __future__ import annotations

from typing import Any

from tpuc.api import LocalTensor, Node, Phase, PlacedTile, Space
from tpuc_ops.integers import integer_bounds

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, Scalar
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, flat_space
from tpuc_cv18.operands import operand


def has_relu(node: Node) -> bool:
    """True when the command must clamp at 0: for a relu, and for unsigned results of signed sums, which saturate
    that way.
    """
    return node.op.do_relu or node.result_type.storage.is_unsigned


def upper_bound(node: Node, limit: float) -> float | None:
    """The upper bound that a relu must apply in addition to saturation by the result's type; None where saturation
    suffices.
    """
    result = node.result_type
    if not result.is_quantized:
        return limit if limit > 0 else None
    stored, bounded = integer_bounds(result, False, limit)[1], integer_bounds(result, True, limit)[1]
    return bounded if bounded < stored else None


def emit_limit(node: Node, result: LocalTensor, asm: Cv18Assembler) -> None:
    """Apply the upper limit of the op's relu to a result in place."""
    bound = upper_bound(node, node.op.relu_limit) if node.op.do_relu else None
    if bound is not None:
        emit_bound(ArithmeticOp.MIN, result, result, bound, asm)


def emit_bound(
    operation: ArithmeticOp, source: LocalTensor, result: LocalTensor, bound: float, asm: Cv18Assembler
) -> None:
    """`result = min(source, bound)` or `max(source, bound)`, as `operation` selects."""
    target = operand(result)
    asm.record(
        Arithmetic(
            operation=operation,
            shape=result.shape,
            result=target,
            left=operand(source),
            right=Scalar.of(bound, target.dtype),
        )
    )


class ClampKernel(LaneKernel[Any]):
    """Base of clamps by lower and upper bounds; source and result share scale and type."""

    def bounds(self, node: Node) -> tuple[float | None, float | None]:
        """The lower and upper bound, None where there is none."""
        raise NotImplementedError

    def refuse(self, node: Node) -> str | None:
        return element_refusal(node)

    def space(self, node: Node) -> Space:
        return flat_space(self.lanes, node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        source, result = placed.operand(0), placed.result
        for bound, operation in zip(self.bounds(node), (ArithmeticOp.MAX, ArithmeticOp.MIN), strict=True):
            if bound is not None:
                emit_bound(operation, source, result, bound, asm)
                source = result
        if source is not result:
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=operand(source)
                )
            )


class ReluKernel(ClampKernel):
    """A standalone relu."""

    def bounds(self, node: Node) -> tuple[float | None, float | None]:
        low = None if node.result_type.storage.is_unsigned else 0.0
        return low, upper_bound(node, node.op.relu_limit)


class ClipKernel(ClampKernel):
    """Clips bf16 to two bounds."""

    def bounds(self, node: Node) -> tuple[float | None, float | None]:
        return node.op.min, node.op.max
