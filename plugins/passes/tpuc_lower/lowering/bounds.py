"""Bounds of computed indices that hold for every input."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import F32, Module, Node, Operation, ShapeOnly, TensorType, Value
from tpuc_ops import top
from tpuc_ops.traits import Repeats, StridedView, states

Range: TypeAlias = tuple[float, float]
"""The smallest and the largest number."""


class Bounds:
    """Ranges of the values of a module, each computed once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[Value, Range | None] = {}

    def of(self, value: Value) -> Range | None:
        """The range of a value; None if unknown."""
        if value not in self._known:
            constant = self._module.constant(value)
            if constant is not None:
                self._known[value] = (float(constant.min()), float(constant.max())) if constant.size else None
            else:
                self._known[value] = None if value.defining is None else self._computed(value.defining, value)
        return self._known[value]

    def _computed(self, operation: Operation, value: Value) -> Range | None:
        op: Any = operation.op
        first = operation.operands[0] if operation.operands else value
        match op:
            case top.Compare() | top.CompareConst():
                return 0.0, 1.0
            case top.Arg() if value is operation.results[0]:
                return 0.0, first.tensor.dims[op.axis % first.tensor.rank] - 1.0
            case ShapeOnly() | top.Gather() | top.Cast():
                return self.of(first)
            case top.CumSum():
                inner, count = self.of(first), value.tensor.dims[op.axis % value.tensor.rank]
                return None if inner is None else (min(count * inner[0], 0.0), max(count * inner[1], 0.0))
            case top.Add() | top.Sub() | top.Mul() | top.Max() | top.Min():
                return self._at_corners(operation)
            case top.AddConst() | top.SubConst() | top.MulConst() | top.MaxConst() | top.MinConst():
                return self._at_corners(operation)
            case _:
                return self.of(first) if states(op, StridedView, Repeats) else None

    def _at_corners(self, operation: Operation) -> Range | None:
        """The range of an op that is monotone in each operand, from the ends of their ranges."""
        ranges = [self.of(operand) for operand in operation.operands]
        if any(one is None for one in ranges):
            return None
        ends = itertools.product(*(one for one in ranges if one is not None))
        corners = [np.array(one, np.float32) for one in zip(*ends, strict=True)]
        type_ = TensorType(corners[0].shape, F32)
        node = Node(operation.op, (type_,) * len(corners), (type_,), operation.name)
        (results,) = operation.op.evaluate(node, corners)
        return float(np.min(results)), float(np.max(results))
