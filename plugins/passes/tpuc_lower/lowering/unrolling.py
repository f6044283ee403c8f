"""Replace recurrent layers by their steps, whose values may then have ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import (
    ANY_CHIP,
    Builder,
    ElementType,
    Legalization,
    LoweringNode,
    Module,
    Op,
    Operation,
    TensorType,
    Value,
)
from tpuc_ops import top
from tpuc_ops.recurrent import sequence_sizes

from tpuc_lower.lowering.cells import Array

MOST_STEPS = 64
"""Longer layers stay one op, which chips without a lowering compute in floats."""


def recurrent_layers(module: Module) -> Iterator[Operation]:
    """The recurrent layers that have few enough steps to unroll."""
    for operation in module.main.operations:
        if isinstance(operation.op, (top.LSTM, top.GRU, top.RNN)):
            steps, _, _ = sequence_sizes(operation.operands[0].tensor.dims, operation.op.batch_first)
            if steps <= MOST_STEPS:
                yield operation


def inside(layer: Operation) -> str:
    """The start of the names of values inside an unrolled layer."""
    return f"{layer.name}_part"


def with_steps(module: Module, registry: Any) -> Module:
    """A copy of a module with its recurrent layers unrolled, or the module itself if there are none."""
    if not any(recurrent_layers(module)):
        return module
    copy = module.clone()
    unroll(copy, list(recurrent_layers(copy)), registry)
    return copy


def unroll(module: Module, layers: Sequence[Operation], registry: Any) -> bool:
    """Replace layers by their steps, except those whose legalization refuses them; returns whether any changed."""
    changed = False
    for layer in layers:
        cell = registry.find_cell("tpuc.legalizations", (ANY_CHIP,), "top", layer.op.name)
        legalization: Legalization[Op] | None = None if cell is None else cell.value
        node = layer.node()
        whole = LoweringNode(
            node.op,
            node.operand_types,
            node.result_types,
            node.name,
            layer.operands,
            tuple(module.constant(operand) for operand in layer.operands),
            result_names=tuple(result.name for result in layer.results),
        )
        if legalization is None or legalization.refuse(whole) is not None:
            continue
        build = _Builder(Builder(module, before=layer, constant=top.Weight(), absent=top.None_()))
        for old, new in zip(layer.results, legalization.rewrite(whole, build), strict=True):
            old.replace_with(new)
        layer.erase()
        changed = True
    return changed


@dataclass(frozen=True)
class _Builder:
    """Builds the steps in the mode of the network."""

    builder: Builder

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType, name: str, compute_type: str | None = None
    ) -> Value:
        return self.builder.operation(op, operands, result, name).result

    def weight(self, name: str, array: Array, element: ElementType | None = None) -> Value:
        return self.builder.weight(name, np.ascontiguousarray(array, np.float32), element)

    def none(self) -> Value:
        return self.builder.none()
