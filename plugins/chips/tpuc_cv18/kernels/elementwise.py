"""Sums and products of two or more tensors, with broadcast operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tpuc.api import ABSENT, Candidate, Layouts, Node, Phase, PlacedTile, Scratch, Shape4, Space, Tile
from tpuc_chip_parts.tiles import tile_shape

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, flat_space, views_of
from tpuc_cv18.kernels.planes import plane_candidates
from tpuc_cv18.operands import operand, strided

MAX_SHIFT = 31
_WIDE = 32767
_BYTE_LIMIT, _MAX_LEFT = 127, 15
_BYTE = {True: 128, False: 255}
"""Largest magnitude of a byte, by signedness."""


class ElementwiseKernel(LaneKernel[Any]):
    """Base of elementwise kernels: operands and result are corresponding tiles; operands broadcast along extents
    of 1.
    """

    def refuse(self, node: Node) -> str | None:
        if any(type_ is ABSENT for type_ in node.operand_types):
            return "an absent operand"
        return element_refusal(node) or repeat_refusal(node)

    def space(self, node: Node) -> Space:
        return flat_space(self.lanes, node)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return (*super().kernels(node), *plane_candidates(self, node, len(node.operand_types)))

    def layouts(self, node: Node) -> Layouts:
        operands = len(node.operand_types)
        return Layouts(("aligned",) * operands, ("aligned",), frozenset(range(operands)))

    def sources(self, placed: PlacedTile) -> list[Operand]:
        """The operands broadcast to the result's extents."""
        return [strided(local, placed.result.shape, self.target) for local in placed.operands if local is not None]


def repeat_refusal(node: Node) -> str | None:
    """The refusal of broadcasting patterns that do not merge into four dimensions, None if they do."""
    views, result = views_of(node)
    for view in views:
        for own, wanted in zip(view.shape, result.shape, strict=True):
            if own not in (1, wanted):
                return "dimensions with and without broadcast alternate in more than four runs"
    return None


class SumKernel(ElementwiseKernel):
    """Integers: products with bytes are accumulated in 16 bits, in two byte planes, and shifted once. bf16: plain sums.

    The low plane is the result's own, where the last step leaves the bytes.
    """

    def refuse(self, node: Node) -> str | None:
        op = node.op
        if any(factor != 1.0 for factor in op.coeff or ()):
            return "coefficients other than 1 have no kernel"
        if not node.result_type.is_quantized:
            return super().refuse(node)
        if len(op.rshifts) != 1 or not 0 <= op.rshifts[0] <= MAX_SHIFT:
            return f"one common shift from 0 to {MAX_SHIFT}, there are {list(op.rshifts)}"
        terms = _terms(node, self.signs(node))
        if terms is None:
            return f"multipliers of one signed byte, one of them times a power of two, these are {list(op.multipliers)}"
        parts = [
            _BYTE[not type_.storage.is_unsigned] * abs(multiplier)
            for type_, multiplier in zip(node.operand_types, op.multipliers, strict=True)
        ]
        if (len(terms) > 2 or _needs_finish(node, terms)) and sum(parts) > _WIDE:
            return f"a sum within 16 bits before its shift, this one may reach {sum(parts)}"
        return super().refuse(node)

    def signs(self, node: Node) -> tuple[int, ...]:
        """The sign of each operand."""
        return (1,) * len(node.operand_types)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.result_type.is_quantized:
            return ()
        return (Scratch("high", self.planes_bytes(tile_shape(tile)), above_results=True),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        if node.result_type.is_quantized:
            self._emit_integers(node, placed, asm)
        else:
            self._emit_floats(node, placed, asm)
        emit_limit(node, placed.result, asm)

    def _emit_integers(self, node: Node, placed: PlacedTile, asm: Cv18Assembler) -> None:
        result, sources = placed.result, self.sources(placed)
        plain = operand(result)
        step = placed.scratch["high"].address - result.address
        terms = _terms(node, self.signs(node))
        assert terms is not None, "refused otherwise"
        is_finished = _needs_finish(node, terms)
        unsigned = not is_finished and plain.dtype is DType.UINT8
        wide = Operand(plain.address, DType.UINT16 if unsigned else DType.INT16, plane_step=step)
        narrow = Operand(plain.address, plain.dtype, plane_step=step)
        for index, term in enumerate(terms):
            ends = index == len(terms) - 1 and not is_finished
            source, is_positive = sources[term.operand], unsigned and term.is_unsigned
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.MAC if index else ArithmeticOp.MUL,
                    shape=result.shape,
                    result=narrow if ends else wide,
                    left=source,
                    right=Scalar.of(term.multiplier, DType.UINT8 if is_positive else DType.INT8),
                    left_shift=term.left,
                    shift=node.op.rshifts[0] if ends else 0,
                    relu=ends and not is_positive and (unsigned or node.op.do_relu),
                )
            )
        if is_finished:
            finish(plain, wide, result.shape, node.op.rshifts[0], node.op.do_relu, asm)

    def _emit_floats(self, node: Node, placed: PlacedTile, asm: Cv18Assembler) -> None:
        result = placed.result
        first, *others = self.sources(placed)
        signs = self.signs(node)
        if signs[0] < 0:
            first, others = others[0], [first]
        operation = ArithmeticOp.ADD if min(signs) > 0 else ArithmeticOp.SUB
        for index, source in enumerate(others):
            ends = index == len(others) - 1
            asm.record(
                Arithmetic(
                    operation=operation,
                    shape=result.shape,
                    result=operand(result),
                    left=first,
                    right=source,
                    relu=ends and node.op.do_relu and operation is ArithmeticOp.ADD,
                )
            )
            first = operand(result)
        if node.op.do_relu and operation is ArithmeticOp.SUB:
            zero = Scalar.of(0.0, DType.BF16)
            asm.record(Arithmetic(operation=ArithmeticOp.MAX, shape=result.shape, result=first, left=first, right=zero))


@dataclass(frozen=True)
class _Term:
    """A term of a sum, added after the partial sum is shifted by `left`. `is_unsigned`: neither the operand nor the
    multiplier is signed.
    """

    operand: int
    multiplier: int
    left: int
    is_unsigned: bool


def _terms(node: Node, signs: Sequence[int]) -> Sequence[_Term] | None:
    """The terms in order of computation; None when a multiplier does not fit. The largest multiplier comes first, and
    is shifted when the second term is added; for an unsigned result, unsigned terms come first where that fits.
    """
    factors = [sign * multiplier for sign, multiplier in zip(signs, node.op.multipliers, strict=True)]
    order = sorted(range(len(factors)), key=lambda index: -abs(factors[index]))
    orders = [order, sorted(order, key=lambda index: not _is_unsigned(node, factors, index))]
    found = [terms for terms in (_in_order(node, factors, one) for one in orders) if terms is not None]
    return next((terms for terms in found if not _needs_finish(node, terms)), found[0] if found else None)


def _in_order(node: Node, factors: Sequence[int], order: Sequence[int]) -> Sequence[_Term] | None:
    left, first = 0, factors[order[0]]
    while abs(first) > _BYTE_LIMIT and first % 2 == 0 and left < _MAX_LEFT:
        left, first = left + 1, first // 2
    multipliers = [first, *(factors[index] for index in order[1:])]
    if len(order) < 2 or any(abs(multiplier) > _BYTE_LIMIT for multiplier in multipliers):
        return None
    lefts = (0, left, *(0 for _ in order[2:]))
    return [
        _Term(index, multiplier, shift, _is_unsigned(node, factors, index))
        for index, multiplier, shift in zip(order, multipliers, lefts, strict=True)
    ]


def _is_unsigned(node: Node, factors: Sequence[int], index: int) -> bool:
    return factors[index] >= 0 and node.operand_types[index].storage.is_unsigned


def _needs_finish(node: Node, terms: Sequence[_Term]) -> bool:
    """True when the sum must be complete in 16 bits, because MAC reads its old value with the signedness of its
    result.
    """
    return node.result_type.storage.is_unsigned and not all(term.is_unsigned for term in terms[:-1])


def finish(
    result: Operand, wide: Operand, shape: Shape4, shift: int, relu: bool, asm: Cv18Assembler, constant: int = 0
) -> None:
    """Add a constant to 16-bit sums, shift and saturate them."""
    asm.record(
        Arithmetic(
            operation=ArithmeticOp.ADD,
            shape=shape,
            result=result,
            left=wide,
            right=Scalar.of(constant, DType.INT16),
            shift=shift,
            relu=relu or not result.dtype.signed,
        )
    )


class DifferenceKernel(SumKernel):
    """A sum whose second operand is negated; the first one for `is_reverse`."""

    def signs(self, node: Node) -> tuple[int, ...]:
        return (-1, 1) if node.op.is_reverse else (1, -1)


class MulKernel(ElementwiseKernel):
    """Product of two tensors, requantized in two steps (QDM); bf16 rounds once."""

    def refuse(self, node: Node) -> str | None:
        op = node.op
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if node.result_type.is_quantized:
            if op.quant_mode != "QDM" or op.round_mode != "HalfAwayFromZero":
                return f"only quant_mode QDM rounded HalfAwayFromZero, this one is {op.quant_mode} {op.round_mode}"
            if not 0 <= op.rshift <= MAX_SHIFT:
                return f"a shift from 0 to {MAX_SHIFT}, this one is {op.rshift}"
            unsigned = all(type_.storage.is_unsigned for type_ in node.operand_types)
            if unsigned != node.result_type.storage.is_unsigned:
                return "the product of unsigned operands is unsigned, every other one is signed"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        result = placed.result
        left, right = self.sources(placed)
        quantized = node.result_type.is_quantized
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.MUL,
                shape=result.shape,
                result=operand(result),
                left=left,
                right=right,
                multiplier=node.op.multiplier if quantized else None,
                shift=node.op.rshift if quantized else 0,
                relu=node.op.do_relu and not node.result_type.storage.is_unsigned,
            )
        )
        emit_limit(node, result, asm)


class ExtremeKernel(ElementwiseKernel):
    """Base of maximum and minimum: one command for each operand after the first."""

    operation: ClassVar[ArithmeticOp]

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) < 2:
            return "two operands or more, this one has one"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        result = operand(placed.result)
        first, *others = self.sources(placed)
        for other in others:
            asm.record(
                Arithmetic(operation=self.operation, shape=placed.result.shape, result=result, left=first, right=other)
            )
            first = result


class MaxKernel(ExtremeKernel):
    """Elementwise maximum of the operands."""

    operation = ArithmeticOp.MAX


class MinKernel(ExtremeKernel):
    """Elementwise minimum of the operands."""

    operation = ArithmeticOp.MIN
