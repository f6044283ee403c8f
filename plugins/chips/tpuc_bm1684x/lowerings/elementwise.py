"""Element-wise arithmetic of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.top.add import Add
from tpuc_ops.tpu.add import Add as TpuAdd

from tpuc_bm1684x.lowerings.table import TABLE

# Multipliers are int8, shifts cannot go left (SPEC 3.2).
_decompose = partial(decompose_search, bits=8, lowest_shift=0)


def _refuse(node: LoweringNode) -> str | None:
    if len(node.operand_types) != 2:
        return f"two operands, this one has {len(node.operand_types)}"
    if any(constant is not None for constant in node.constants):
        return "a constant operand has no kernel; fold it into the op before"
    return None


@TABLE.lowers(Add, "f32")
class AddFloat(Lowering[Add]):
    """The plain sum; coefficients must be 1."""

    def refuse(self, node: LoweringNode) -> str | None:
        if any(value != 1.0 for value in node.op.coeff or ()):
            return "coefficients other than 1 have no kernel"
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op = TpuAdd(do_relu=node.op.do_relu, relu_limit=node.op.relu_limit)
        return [build(op, node.operands, node.float_result_type())]


@TABLE.lowers(Add, "int8")
class AddInt8(Lowering[Add]):
    """Each operand times coefficient * Sx / Sy as an 8-bit multiplier and a shift, then a saturating sum."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantised_result_type()
        coefficients = node.op.coeff or (1.0,) * len(node.operands)
        pairs = [
            _decompose(coefficient * operand.tensor.uniform.scale / result.uniform.scale)
            for coefficient, operand in zip(coefficients, node.operands, strict=True)
        ]
        op = TpuAdd(
            do_relu=node.op.do_relu,
            relu_limit=node.op.relu_limit,
            multipliers=tuple(multiplier for multiplier, _ in pairs),
            rshifts=tuple(shift for _, shift in pairs),
        )
        return [build(op, node.operands, result)]
