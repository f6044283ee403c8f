"""Well-known functions that networks spell out in several ops."""

from __future__ import annotations

from tpuc.api import Operation, Pattern, Rewriter
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.silu import SiLU


class SigmoidTimesOperand(Pattern):
    """``x * sigmoid(x)`` is SiLU."""

    matches = (Mul,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if operation.op != Mul() or len(operation.operands) != 2:
            return False
        for gate, x in (operation.operands, operation.operands[::-1]):
            producer = gate.defining
            if producer is not None and producer.op == Sigmoid() and producer.operands[0] is x:
                rewriter.replace(operation, rewriter.build(SiLU(), [x], operation.result.type, operation.name))
                return True
        return False
