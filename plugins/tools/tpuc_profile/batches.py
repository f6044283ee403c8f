"""Rebuild a network for several samples at once, from a module for one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tpuc.api import InvalidModel, Module, Op, Operation, TensorType, infer_types


def for_samples(module: Module, count: int) -> Module | None:
    """Return the module with `count` samples in every input, or None if an input or output has no leading extent of 1,
    or an op's stated extents cannot be adapted.
    """
    if not all(value.tensor.dims[:1] == (1,) for value in (*module.main.inputs, *module.main.outputs)):
        return None
    several = module.clone()
    for value in several.main.inputs:
        value.type = value.tensor.with_shape((count, *value.tensor.dims[1:]))
    if not all(_adapt(one, count) for one in several.main.operations if one.operands and one.results):
        return None
    several.main.update_type()
    alike = zip(module.main.outputs, several.main.outputs, strict=True)
    return several if all(_is_of_samples(one.tensor, other.tensor, count) for one, other in alike) else None


def _adapt(operation: Operation, count: int) -> bool:
    """Set op and result types for `count` samples; return False if no form of the op keeps the samples apart."""
    for op in _forms(operation.op, count):
        try:
            types = infer_types(op, operation.operands, operation.name)
        except InvalidModel:
            continue
        pairs = list(zip(operation.results, types, strict=True))
        if all(value.tensor == type_ or _is_of_samples(value.tensor, type_, count) for value, type_ in pairs):
            operation.op = op
            for value, type_ in pairs:
                value.type = value.tensor.with_shape(type_.dims)
            return True
    return False


def _forms(op: Any, count: int) -> Iterator[Op]:
    """Yield the op, and the op whose stated extents begin with `count` instead of 1."""
    yield op
    stated: dict[str, Any] = {field.name: getattr(op, field.name) for field in fields(op)}
    for name in [name for name, value in stated.items() if isinstance(value, tuple) and value[:1] == (1,)]:
        yield replace(op, **{name: (count, *stated[name][1:])})


def _is_of_samples(one: TensorType, several: TensorType, count: int) -> bool:
    return one.dims[:1] == (1,) and several.dims == (count, *one.dims[1:])
