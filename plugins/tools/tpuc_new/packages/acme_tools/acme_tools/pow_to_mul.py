"""Powers as products, for chips that multiply faster than they take powers."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Operation, Pass, PassContext, Pattern, Rewriter, apply_patterns
from tpuc_ops import top


@dataclass(frozen=True)
class PowToMul(Pass):
    """Spell ``x ** n`` as ``x * x * ...`` for whole n from 2 to `largest`."""

    name = "pow-to-mul"
    largest: int = 2  # `--pass pow-to-mul{largest=3}`

    def run(self, module: Module, context: PassContext) -> bool:
        return apply_patterns(module, [WholePower(self.largest)])


class WholePower(Pattern):
    """The product takes over the name: it computes the same value."""

    matches = (top.Pow,)

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        match operation.op:
            case top.Pow(exponent=exponent) if exponent.is_integer() and 2 <= exponent <= self.largest:
                factors = [operation.operands[0]] * int(exponent)
                rewriter.replace(operation, rewriter.build(top.Mul(), factors, operation.result.type, operation.name))
                return True
            case _:
                return False
