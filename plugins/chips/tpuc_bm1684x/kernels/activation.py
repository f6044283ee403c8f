"""Relu with an upper limit, on stored integers and floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Candidate, LocalTensor, Node, Phase, PlacedTile, Space, TensorType, TileKernel
from tpuc_ops.integers import integer_bounds

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, Scalar
from tpuc_bm1684x.kernels.common import OfChip, elementwise_spaces, flat_space, in_spaces
from tpuc_bm1684x.operands import operand


def relu_bounds(result: TensorType, limit: float) -> tuple[float | None, float | None]:
    """The lower and upper bound that a relu must apply in addition to saturation by the result's type; None where
    saturation suffices.
    """
    if not result.is_quantized:
        return 0.0, limit if limit > 0 else None
    stored = integer_bounds(result, False, limit)
    low, high = integer_bounds(result, True, limit)
    return (low if low > stored[0] else None), (high if high < stored[1] else None)


def emit_relu(node: Node, result: LocalTensor, asm: Bm1684xAssembler) -> None:
    """Clamp a result in place if the op has a relu."""
    if not node.op.do_relu:
        return
    emit_clamp(result, result, relu_bounds(node.result_type, node.op.relu_limit), asm)


def emit_clamp(
    source: LocalTensor, result: LocalTensor, bounds: tuple[float | None, float | None], asm: Bm1684xAssembler
) -> None:
    """`result = min(max(source, low), high)`; a bound of None is not applied."""
    target = operand(result)
    current = operand(source)
    for bound, operation in zip(bounds, (ArithmeticOp.MAX, ArithmeticOp.MIN), strict=True):
        if bound is not None:
            asm.record(
                Arithmetic(
                    operation=operation,
                    shape=result.shape,
                    result=target,
                    left=current,
                    right=Scalar.of(bound, target.dtype),
                )
            )
            current = target
    if current is not target:
        asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=target, left=current))


class ReluKernel(OfChip, TileKernel[Any, Bm1684xAssembler]):
    """A standalone relu; source and result share scale and type."""

    def space(self, node: Node) -> Space:
        return flat_space(node, self.target)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return in_spaces(self, elementwise_spaces(node, self.target))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        bounds = relu_bounds(node.result_type, node.op.relu_limit)
        emit_clamp(placed.operand(0), placed.result, bounds, asm)
