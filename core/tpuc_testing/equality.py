"""Structural equality of modules, and where two of them first differ."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.ir.operation import Block, Function, Module, Operation, Region, Value


def same_module(a: Module, b: Module) -> bool:
    """Are they equal in everything but the identity of their objects? Weights are not compared."""
    return first_difference(a, b) is None


def first_difference(a: Module, b: Module) -> str | None:
    """A sentence about the first place where two modules differ, None when they are equal."""
    if (a.name, a.attributes, a.location) != (b.name, b.attributes, b.location):
        return f"module '{a.name}': name, attributes or location differ"
    if len(a.modules) != len(b.modules) or len(a.functions) != len(b.functions):
        return f"module '{a.name}': it holds another number of modules or functions"
    for nested_a, nested_b in zip(a.modules, b.modules, strict=True):
        if difference := first_difference(nested_a, nested_b):
            return difference
    for function_a, function_b in zip(a.functions, b.functions, strict=True):
        if difference := _functions(function_a, function_b):
            return difference
    return None


def _functions(a: Function, b: Function) -> str | None:
    if (a.name, a.type, a.attributes, a.location) != (b.name, b.type, b.attributes, b.location):
        return f"function '{a.name}': name, type, attributes or location differ"
    difference = _blocks([a.body], [b.body], {})
    return f"function '{a.name}': {difference}" if difference else None


def _blocks(a: Sequence[Block], b: Sequence[Block], twin: dict[Value, Value]) -> str | None:
    """Values may be used before they are defined, so all are paired first."""
    if len(a) != len(b):
        return f"{len(a)} blocks, not {len(b)}"
    for block_a, block_b in zip(a, b, strict=True):
        if difference := _pair(block_a, block_b, twin):
            return difference
    for block_a, block_b in zip(a, b, strict=True):
        for operation_a, operation_b in zip(block_a.operations, block_b.operations, strict=True):
            if difference := _operations(operation_a, operation_b, twin):
                return f"operation '{operation_a.name}' ({operation_a.op.name}): {difference}"
    return None


def _pair(a: Block, b: Block, twin: dict[Value, Value]) -> str | None:
    if [(v.type, v.location) for v in a.arguments] != [(v.type, v.location) for v in b.arguments]:
        return "arguments differ"
    if len(a.operations) != len(b.operations):
        return f"{len(a.operations)} operations, not {len(b.operations)}"
    twin.update(zip(a.arguments, b.arguments, strict=True))
    for operation_a, operation_b in zip(a.operations, b.operations, strict=True):
        twin.update(zip(operation_a.results, operation_b.results, strict=False))
    return None


def _operations(a: Operation, b: Operation, twin: dict[Value, Value]) -> str | None:
    if type(a.op) is not type(b.op) or a.op != b.op:
        return f"op or attributes differ: {a.op}, not {b.op}"
    if a.extra_attributes != b.extra_attributes:
        return "attributes differ"
    if a.location != b.location:
        return f"location differs: {a.location}, not {b.location}"
    if [v.type for v in a.results] != [v.type for v in b.results]:
        return "result types differ"
    if [twin.get(v) for v in a.operands] != list(b.operands):
        return "operands differ"
    return _regions(a.regions, b.regions, twin)


def _regions(a: Sequence[Region], b: Sequence[Region], twin: dict[Value, Value]) -> str | None:
    if len(a) != len(b):
        return f"{len(a)} regions, not {len(b)}"
    for region_a, region_b in zip(a, b, strict=True):
        if difference := _blocks(region_a.blocks, region_b.blocks, twin):
            return difference
    return None
