"""The commands of every operation, for reports and profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpuc.api import Engine, Instruction, LayerCommands, Module, Operation
from tpuc_lower.target.kernels import runs_on_chip


def layer_commands(
    module: Module, operations: Sequence[Operation], instructions: Sequence[Instruction]
) -> Iterator[LayerCommands]:
    """Yield the command ranges of every operation that runs on the chip, in network order."""
    ranges: dict[Operation, dict[str, list[list[int]]]] = {}
    counts = dict.fromkeys(Engine, 0)
    for operation, instruction in zip(operations, instructions, strict=True):
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
