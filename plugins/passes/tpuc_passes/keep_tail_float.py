"""Keeps what follows the last convolutions and products in float: eight bits cannot hold decoded boxes or scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tpuc.api import FLOAT_MODES, ChipDescription, Module, Operation, Pass, PassContext, ShapeOnly
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.slice import Slice

from tpuc_passes.accuracy.tail import tail_of
from tpuc_passes.planning.kernels import chip_of

_MOVES = (ShapeOnly, Permute, Slice)


@dataclass(frozen=True)
class KeepTailFloat(Pass):
    """In the integer modes, ops from which only such ops lead to the outputs get the chip's float mode.

    They are entered into `context.results["quantise_table"]`, where the user's own entries come first. Ops that only
    move data keep the type they are given; a tail of nothing else stays as it is, unless it joins values with ranges
    of their own. A box decoded to pixels next to a score in [0, 1] in one int8 tensor would leave the score no step at
    all.

    The products before the tail whose sums the chip can give as floats are named in `context.results["float_sums"]`.
    """

    name = "keep-tail-float"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; changes only what is in `context.results`."""
        if "mode" in context.results:
            return False  # a network that is quantised already says itself where it is float
        modes = chip_of(context, self.name).description.modes
        float_mode = next((mode for mode in ("f32", "bf16", "f16") if mode in modes), None)
        if float_mode is None or str(context.options.get("quantize", "")) in ("", "f32", "f16", "bf16"):
            return False
        table: dict[str, str] = dict(context.results.get("quantise_table", {}))
        tail = tail_of(module)
        for operation in tail:
            if isinstance(operation.op, _MOVES) or _joins_equals(operation):
                continue
            if _has_lowering(context, operation, float_mode):
                table.setdefault(operation.name, float_mode)
        context.results["quantise_table"] = table
        results, chip = context.results, chip_of(context, self.name).description
        results["float_sums"] = _float_sums(module, tail, table, chip, results.get("stored_outputs", ()))
        return False


def _float_sums(
    module: Module,
    tail: Sequence[Operation],
    table: Mapping[str, str],
    chip: ChipDescription,
    stored: Collection[int],
) -> frozenset[str]:
    """The integer ops of `chip.float_sums` whose results are only read as floats, also after they were moved; outputs
    are, but for those at positions in `stored`.
    """
    terminator, floats = module.main.terminator, set[int]()

    def read_as_floats(operation: Operation) -> bool:
        uses = [use for result in operation.results for use in result.uses]
        return all(index not in stored if user is terminator else id(user) in floats for user, index in uses)

    for operation in reversed(tail):
        computes = not isinstance(operation.op, _MOVES) and not _joins_equals(operation)
        if table.get(operation.name) in FLOAT_MODES if computes else read_as_floats(operation):
            floats.add(id(operation))
    return frozenset(
        operation.name
        for operation in module.main.operations
        if operation.op.name in chip.float_sums
        and table.get(operation.name) not in FLOAT_MODES
        and read_as_floats(operation)
    )


def _has_lowering(context: PassContext, operation: Operation, mode: str) -> bool:
    description = chip_of(context, KeepTailFloat.name).description
    name = operation.op.name
    owners = (description.name, *description.families)
    return context.registry.find_cell("tpuc.lowerings", owners, name.partition(".")[0], (name, mode)) is not None


def _joins_equals(operation: Operation) -> bool:
    """Is it a Concat whose operands share one range? Then nothing is lost by joining them as they are."""
    if not isinstance(operation.op, Concat):
        return False
    return len({operand.tensor.element for operand in operation.operands}) == 1
