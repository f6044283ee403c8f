"""Elementwise comparison, logic and selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import ABSENT, Candidate, Node, Phase, PlacedTile, Space
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.top.compare import MIRRORED

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, CompareOp, CompareSelect, DType, Operand, Scalar
from tpuc_bm1684x.kernels.common import in_spaces, spread_view, views_of
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.operands import operand

_SELECTS = {
    "Equal": ((ArithmeticOp.SELECT_GREATER, ArithmeticOp.SELECT_LESS), True),
    "NotEqual": ((ArithmeticOp.SELECT_GREATER, ArithmeticOp.SELECT_LESS), False),
    "Greater": ((ArithmeticOp.SELECT_GREATER,), False),
    "GreaterOrEqual": ((ArithmeticOp.SELECT_LESS,), True),
    "Less": ((ArithmeticOp.SELECT_LESS,), False),
    "LessOrEqual": ((ArithmeticOp.SELECT_GREATER,), True),
}
"""SELECT operations of which at most one holds, and whether the comparison is the negation of their sum.

The chip compares floats for equality bitwise, so 0 and -0 differ.
"""


class ComparisonKernel(ElementwiseKernel):
    """`tpu.Compare` and `tpu.CompareConst`: 1 where the comparison holds, else 0. NaN is equal to everything.

    Any nonzero number is true: logical operations combine two comparisons with 0 by a product, maximum or difference.
    """

    temporaries = (("other", 4),)

    def refuse(self, node: Node) -> str | None:
        types = (*node.operand_types, node.result_type)
        if len({type_.storage for type_ in types}) > 1 or not types[0].storage.is_float:
            return f"floats of one type, these are {', '.join(str(type_.storage) for type_ in types)}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("other", node.result_type.storage.bits // 8),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        sources: list[Operand | Scalar] = [*self.sources(node, placed, asm)]
        mode: str = node.op.mode
        if node.op.name == "tpu.CompareConst":
            sources.append(Scalar.of(node.op.const_val, result.dtype))
            # An immediate goes second: the first operand determines the layout of the result.
            mode = MIRRORED.get(mode, mode) if node.op.inversed else mode
        one = Scalar.of(1.0, result.dtype)
        other = Operand(placed.scratch["other"].address, result.dtype)
        if mode not in _SELECTS:
            self._logic(mode, sources, result, other, placed, asm)
            return
        operations, is_opposite = _SELECTS[mode]
        for target, operation in zip((result, other), operations, strict=False):
            arithmetic(asm, operation, shape, target, sources[0], sources[1], third=one)
        if len(operations) > 1:
            arithmetic(asm, ArithmeticOp.ADD, shape, result, result, other)
        if is_opposite:
            arithmetic(asm, ArithmeticOp.SUB, shape, result, one, result)

    def _logic(
        self,
        mode: str,
        sources: Sequence[Operand | Scalar],
        result: Operand,
        other: Operand,
        placed: PlacedTile,
        asm: Bm1684xAssembler,
    ) -> None:
        """Combine the two negated operands: And is neither, Or is not both, Xor is exactly one."""
        shape = placed.result.shape
        one, zero = Scalar.of(1.0, result.dtype), Scalar.of(0.0, result.dtype)
        for target, source in zip((result, other), sources, strict=True):
            if isinstance(source, Scalar):
                arithmetic(asm, ArithmeticOp.COPY, shape, target, zero if float(source.value()) else one)
            else:
                arithmetic(asm, ArithmeticOp.ABS, shape, target, source)
                arithmetic(asm, ArithmeticOp.SELECT_EQUAL, shape, target, target, zero, third=one)
        match mode:
            case "And":
                arithmetic(asm, ArithmeticOp.MAX, shape, result, result, other)
                arithmetic(asm, ArithmeticOp.SUB, shape, result, one, result)
            case "Or":
                arithmetic(asm, ArithmeticOp.MUL, shape, result, result, other)
                arithmetic(asm, ArithmeticOp.SUB, shape, result, one, result)
            case _:
                arithmetic(asm, ArithmeticOp.SUB, shape, result, result, other)
                arithmetic(asm, ArithmeticOp.ABS, shape, result, result)


class WhereKernel(ElementwiseKernel):
    """CMP of the condition with 0. Broadcast operands are first expanded, because the command is given aligned
    tensors.
    """

    def refuse(self, node: Node) -> str | None:
        present = [type_ for type_ in node.operand_types if type_ is not ABSENT]
        kinds = {type_.storage.bits for type_ in (*present[1:], node.result_type)}
        if len(kinds) > 1 or len({type_.storage.is_float for type_ in (*present[1:], node.result_type)}) > 1:
            return "branches and result of one type"
        alone = Node(node.op, tuple(present), node.result_types, node.name)
        return super().refuse(alone)

    def space(self, node: Node) -> Space:
        present = [index for index, type_ in enumerate(node.operand_types) if type_ is not ABSENT]
        alone = Node(node.op, tuple(node.operand_types[i] for i in present), node.result_types, node.name)
        (views, result) = views_of(alone)
        found = dict(zip(present, views, strict=True))
        operands = tuple(found.get(index) for index in range(len(node.operand_types)))
        return Space(self.lanes.parallel_axes(result.shape), operands, (result,))

    def kernels(self, node: Node) -> Sequence[Candidate]:
        space = self.space(node)
        present = tuple(type_ for type_ in node.operand_types if type_ is not ABSENT)
        view = spread_view(Node(node.op, present, node.result_types, node.name), self.target)
        spaces = [space]
        if view is not None:
            operands = tuple(None if own is None else view for own in space.operands)
            spaces.append(Space(self.lanes.parallel_axes(view.shape), operands, (view,), is_wider=True))
        return in_spaces(self, spaces)

    def tiling_key(self, node: Node) -> Any:
        return (self.needed(node), tuple(self.spread_operands(node)))

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        _, result = (None, self.space(node).results[0])
        return tuple(
            (f"whole{index}", node.operand_types[index].storage.bits // 8)
            for index, view in enumerate(self.space(node).operands)
            if view is not None and (view.shape != result.shape or _is_float_condition(node, index))
        )

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        found = iter(self.sources(node, placed, asm))
        sources = {index: next(found) for index, local in enumerate(placed.operands) if local is not None}
        for index, source in sources.items():
            is_float = _is_float_condition(node, index)
            if isinstance(source.layout, tuple) or is_float:
                whole = Operand(placed.scratch[f"whole{index}"].address, source.dtype)
                # 0 and -0 differ for the chip.
                arithmetic(asm, ArithmeticOp.ABS if is_float else ArithmeticOp.COPY, shape, whole, source)
                sources[index] = whole
        op = node.op
        yes: Operand | Scalar = sources[1] if 1 in sources else Scalar.of(op.x_const_val, result.dtype)
        no: Operand | Scalar = sources[2] if 2 in sources else Scalar.of(op.y_const_val, result.dtype)
        asm.record(
            CompareSelect(
                operation=CompareOp.SELECT_EQUAL,
                shape=shape,
                result=result,
                left=sources[0],
                right=Scalar.of(0, sources[0].dtype),
                when_true=no,
                when_false=yes,
            )
        )


def _is_float_condition(node: Node, index: int) -> bool:
    return index == 0 and node.operand_types[0].storage.is_float


class BitwiseKernel(ElementwiseKernel):
    """Bitwise logic and shifts on int32, between two casts."""

    temporaries = (("left", 4), ("right", 4))

    def refuse(self, node: Node) -> str | None:
        types = (*node.operand_types, node.result_type)
        if any(type_.storage.name != "f32" for type_ in types):
            return f"only f32, these are {', '.join(str(type_.storage) for type_ in types)}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        extra = (("count", 1),) if node.op.mode.startswith("Shift") else ()
        return (*self.temporaries, *extra)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        left, right = (Operand(placed.scratch[name].address, DType.INT32) for name in ("left", "right"))
        for target, source in zip((left, right), self.sources(node, placed, asm), strict=True):
            arithmetic(asm, ArithmeticOp.CAST, shape, target, source, rounding=Rounding.TOWARDS_ZERO)
        if "count" in placed.scratch:
            count = Operand(placed.scratch["count"].address, DType.INT8)
            if node.op.mode == "ShiftRight":
                arithmetic(asm, ArithmeticOp.SUB, shape, right, Scalar.of(0, DType.INT32), right)
            arithmetic(asm, ArithmeticOp.CAST, shape, count, right)
            arithmetic(asm, ArithmeticOp.ARITHMETIC_SHIFT, shape, left, left, count, rounding=Rounding.DOWN)
        else:
            operation = {"And": ArithmeticOp.AND, "Or": ArithmeticOp.OR, "Xor": ArithmeticOp.XOR}[node.op.mode]
            arithmetic(asm, operation, shape, left, left, right)
        if 0 < node.op.bits < 32:
            mask = Scalar.of((1 << node.op.bits) - 1, DType.INT32)
            arithmetic(asm, ArithmeticOp.AND, shape, left, left, mask)
        arithmetic(asm, ArithmeticOp.CAST, shape, operand(placed.result), left)


class RowIndexKernel(ElementwiseKernel):
    """Row index in int32 arithmetic; negative indices count from the end."""

    temporaries = (("below", 4),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        x, *others = self.sources(node, placed, asm)
        below = Operand(placed.scratch["below"].address, DType.INT32)
        operation = ArithmeticOp.COPY if x.dtype is DType.INT32 else ArithmeticOp.CAST
        arithmetic(asm, operation, shape, result, x, rounding=Rounding.TOWARDS_ZERO)
        extent = Scalar.of(node.op.extent, DType.INT32)
        arithmetic(asm, ArithmeticOp.SELECT_LESS, shape, below, result, Scalar.of(0, DType.INT32), third=extent)
        arithmetic(asm, ArithmeticOp.ADD, shape, result, result, below)
        if node.op.stride != 1:
            arithmetic(asm, ArithmeticOp.MUL, shape, result, result, Scalar.of(node.op.stride, DType.INT32))
        for other in others:
            arithmetic(asm, ArithmeticOp.ADD, shape, result, result, other)
