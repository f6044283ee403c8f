"""Build the ops that turn image bytes into a network input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import F32, Module, Op, Operation, Rewriter, ScalarType, TensorType, Uniform, Value
from tpuc_ops import top
from tpuc_optimize.canonicalization.common import Names

BYTES = ScalarType("ui8")
PIXELS = Uniform(ScalarType("u8"), F32, 1.0)
"""The type of bytes that represent their own value, as TPU-MLIR declares them."""


class BoundaryBuilder:
    """Builds before `operation`, an image input; derives names from the input's."""

    def __init__(self, module: Module, operation: Operation) -> None:
        self._name = operation.name
        self._names = Names(module)
        self._build = Rewriter(module, constant=top.Weight(), absent=top.None_())
        self._build.at(operation)

    def input(self, op: Op, argument: Value, result: TensorType, name: str) -> Value:
        """The input itself."""
        return self._build.build(op, [argument], result, name)

    def new_name(self, name: str) -> str:
        """An unused name."""
        return self._names.new(name)

    def op(self, op: Op, operands: Sequence[Value], result: TensorType, what: str) -> Value:
        """Add an operation."""
        return self._build.build(op, operands, result, self._names.new(f"{self._name}_preprocess_{what}"))

    def weight(self, what: str, array: Any, element: Any = F32) -> Value:
        """Add a constant."""
        return self._build.weight(self._names.new(f"{self._name}_preprocess_{what}"), array, element)
