"""Lets a lowered network take and give values as it stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Module, NetworkInput, Operation, Pass, PassContext, Unsupported, UsageError, remove_dead
from tpuc_ops import tpu


@dataclass(frozen=True)
class StripCasts(Pass):
    """Takes away the Casts behind inputs (`quant_input`) and before outputs (`quant_output`).

    The lists choose by position, counted from 1; empty ones mean all. An input without a Cast is stored as it is given
    already; so is an output that is computed in float.
    """

    name = "strip-casts"
    quant_input: bool = False
    quant_output: bool = False
    quant_input_list: tuple[int, ...] = ()
    quant_output_list: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for positions that are not there, Unsupported for inputs stored in two ways."""
        function = module.main
        inputs = [operation for operation in function.operations if isinstance(operation.op, NetworkInput)]
        changed = False
        if self.quant_input:
            for index in _chosen("input", self.quant_input_list, len(inputs)):
                changed |= _strip_input(inputs[index], context)
        if self.quant_output:
            for index in _chosen("output", self.quant_output_list, len(function.outputs)):
                changed |= _strip_output(function.terminator, index, context)
        remove_dead(module)
        function.update_type()
        return changed


def _chosen(what: str, positions: Sequence[int], count: int) -> Sequence[int]:
    for position in positions:
        if not 1 <= position <= count:
            raise UsageError(
                f"--quant-{what}-list names {what} {position}, and the network has {count}. Positions count from 1."
            )
    return [position - 1 for position in positions] or range(count)


def _strip_input(operation: Operation, context: PassContext) -> bool:
    value = operation.result
    casts = [user for user in value.users if isinstance(user.op, tpu.Cast)]
    if not casts:
        context.log(f"input '{operation.name}' is stored as it is given: --quant-input changes nothing there")
        return False
    others = [user for user in value.users if user is not casts[0]]
    if others:
        used = others[0].name or others[0].op.name
        raise Unsupported(
            f"input '{operation.name}' is stored as {casts[0].result.tensor.storage} and needed otherwise too, by "
            f"'{used}': it cannot be given in one stored form. Choose other inputs with --quant-input-list"
        )
    stored = casts[0].result
    value.type = operation.operands[0].type = stored.tensor
    stored.replace_with(value)
    casts[0].erase()
    return True


def _strip_output(terminator: Operation, index: int, context: PassContext) -> bool:
    value = terminator.operands[index]
    cast = value.defining
    if cast is None or not isinstance(cast.op, tpu.Cast) or cast.operands[0] in terminator.operands:
        context.log(f"output '{value.name}' is given as it is stored: --quant-output changes nothing there")
        return False
    terminator.set_operand(index, cast.operands[0])
    return True
