"""The commands of every operation, for reports and profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpuc.api import Engine, Instruction, LayerCommands, Module, Operation
from tpuc_lower.target.kernels import runs_on_chip


def layer_commands(
    module: Module, emitted: Sequence[tuple[Instruction, Operation]], instructions: Sequence[Instruction]
) -> Iterator[LayerCommands]:
    """Yield the command ranges of every operation that runs on the chip, in network order.

    `instructions` are those of the file. The ones that no operation `emitted`, which copy states or clear results of a
    function on the processor, count for the operation before them.
    """
    ranges: dict[Operation, dict[str, list[list[int]]]] = {}
    counts = dict.fromkeys(Engine, 0)
    owners = {id(instruction): operation for instruction, operation in emitted}
    operation = emitted[0][1] if emitted else None
    for instruction in instructions:
        operation = owners.get(id(instruction), operation)
        if operation is None:
            continue  # all operations are on the processor
        counts[instruction.engine] += 1
        number = counts[instruction.engine]
        mine = ranges.setdefault(operation, {}).setdefault(instruction.engine.name.lower(), [])
        if mine and mine[-1][1] == number - 1:
            mine[-1][1] = number
        else:
            mine.append([number, number])
    for operation in module.main.operations:
        if runs_on_chip(operation):
            mine = ranges.get(operation, {})
            commands = {engine: tuple((first, last) for first, last in mine[engine]) for engine in sorted(mine)}
            yield LayerCommands(operation.name, operation.op.name, commands)
