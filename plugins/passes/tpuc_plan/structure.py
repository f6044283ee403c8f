"""What a plan depends on, as a key: networks that differ in the bytes of their constants have one plan."""

from __future__ import annotations

from collections.abc import Hashable

from tpuc.api import Module


def structure_of(module: Module) -> Hashable | None:
    """Return a value that is equal for modules with equal operations, names, types, and uses of values; None for a
    module with regions inside of operations.
    """
    function = module.main
    numbers = {value: number for number, value in enumerate(function.inputs)}
    rows: list[Hashable] = [tuple(str(value.type) for value in function.inputs)]
    for operation in function.operations:
        if operation.regions:
            return None
        numbers |= {result: len(numbers) + index for index, result in enumerate(operation.results)}
        operands = tuple(numbers.get(operand, operand.name) for operand in operation.operands)
        types = tuple(str(result.type) for result in operation.results)
        others = tuple((name, str(attribute)) for name, attribute in operation.extra_attributes.items())
        rows.append((operation.name, type(operation.op), repr(operation.op), operands, types, others))
    return tuple(rows)
