"""Compute at compile time what depends on constants only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import (
    Constant,
    Module,
    NetworkInput,
    NoneType,
    Operation,
    Pass,
    PassContext,
    Pattern,
    Return,
    Rewriter,
    ScalarType,
    SideEffects,
    TensorType,
    Value,
    apply_patterns,
    drop_unused_weights,
)
from tpuc_ops import top


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluate every operation whose operands are all constants; its results become constants with the same names."""

    name = "fold-constants"

    def run(self, module: Module, context: PassContext) -> bool:
        changed = apply_patterns(module, [EvaluateConstant()], constant=top.Weight(), absent=top.None_())
        drop_unused_weights(module)
        return changed


class EvaluateConstant(Pattern):
    """Evaluate an op with constant operands; values that the network returns stay computed."""

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if not _may_fold(operation):
            return False
        module = rewriter.module
        arrays = [_array(value, module) for value in operation.operands]
        results: Sequence[Any] = operation.op.evaluate(operation.node(), arrays)
        weights: list[Value] = []
        for value, array in zip(operation.results, results, strict=True):
            module.weights[value.name] = np.asarray(array, np.float32)
            operands: tuple[Value, ...] = ()
            weights.append(rewriter.build(top.Weight(), operands, value.type, value.name))
        rewriter.replace(operation, weights)
        return True


def _may_fold(operation: Operation) -> bool:
    if isinstance(operation.op, (Constant, NetworkInput, Return, SideEffects)):
        return False
    if not operation.is_registered or operation.regions or not all(value.name for value in operation.results):
        return False
    present = [value for value in operation.operands if not isinstance(value.type, NoneType)]
    if not present or not all(value.is_constant for value in present):
        return False
    if any(isinstance(user.op, Return) for value in operation.results for user in value.users):
        return False
    return all(_is_plain_f32(value) for value in operation.results)


def _is_plain_f32(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element == ScalarType("f32")


def _array(value: Value, module: Module) -> Any:
    return module.weights[value.name] if value.is_constant else np.zeros(0, np.float32)
