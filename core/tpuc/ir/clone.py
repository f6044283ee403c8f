"""Deep copies of graphs."""

from __future__ import annotations

from tpuc.ir.operation import Block, Function, Module, Operation, Region, Value
from tpuc.ir.weights import Weights


def clone_module(module: Module) -> Module:
    """A deep copy; weight arrays are shared, their table is not, except between a module and the ones inside it."""
    return _module(module, {})


def clone_function(function: Function) -> Function:
    """A deep copy of one function."""
    values: dict[Value, Value] = {}
    body = _block(function.body, values)
    return Function(function.name, function.type, body, dict(function.attributes), function.location)


def _module(module: Module, tables: dict[int, Weights]) -> Module:
    weights = tables.get(id(module.weights))
    if weights is None:
        weights = tables[id(module.weights)] = module.weights.copy()
    return Module(
        module.name,
        dict(module.attributes),
        [clone_function(function) for function in module.functions],
        [_module(nested, tables) for nested in module.modules],
        module.location,
        weights,
    )


def _block(block: Block, values: dict[Value, Value]) -> Block:
    copy = Block([argument.type for argument in block.arguments])
    for argument, twin in zip(block.arguments, copy.arguments, strict=True):
        twin.location = argument.location
        values[argument] = twin
    later: list[tuple[Operation, Operation]] = []
    for operation in block.operations:
        twin = copy.append(_operation(operation, values))
        if any(operand not in values for operand in operation.operands):
            later.append((operation, twin))
    for operation, twin in later:  # used before they were defined
        twin.set_operands([values.get(operand, operand) for operand in operation.operands])
    return copy


def _operation(operation: Operation, values: dict[Value, Value]) -> Operation:
    copy = Operation(
        operation.op,
        [values.get(operand, operand) for operand in operation.operands],
        [result.type for result in operation.results],
        operation.location,
        dict(operation.extra_attributes),
    )
    values.update(zip(operation.results, copy.results, strict=True))
    for region in operation.regions:
        twin = Region([_block(block, values) for block in region.blocks])
        twin.parent = copy
        copy.regions.append(twin)
    return copy
