"""The builder of TOP modules that importer functions use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc.api import (
    ABSENT,
    F32,
    Block,
    ElementType,
    ForeignNode,
    Function,
    FunctionType,
    IntegerAttr,
    InvalidModel,
    Location,
    Module,
    NetworkInput,
    NoneType,
    Op,
    Operation,
    Return,
    StringAttr,
    TensorType,
    Value,
    file_stem,
    free_name,
)
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import show
from tpuc_ops.top.input import image_input

from tpuc_importing.normalization import check_normalization
from tpuc_importing.obstacles import place_of, refusal

LARGEST_TENSOR = 1 << 31
"""Maximum number of elements; no chip holds such a tensor, and it is refused before anything is computed."""


@dataclass(frozen=True)
class ModuleSource:
    """Origin of a module. `reserved`: foreign names that generated names must avoid."""

    path: str
    model_name: str
    platform: str
    preprocess: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reserved: frozenset[str] = frozenset()


class TopBuilder:
    """An `ImportBuilder` over the body of `main`; `values` maps foreign tensors to their current values.

    A front end whose file states more about its tensors than the module does (types, constants, orders of dimensions)
    overrides the queries.
    """

    state = "TOP_F32"

    def __init__(self, source: ModuleSource, inputs: Sequence[tuple[str, TensorType]]) -> None:
        self.source = source
        self.node: ForeignNode | None = None
        self.values: dict[str, Value] = {}
        self.body = Block([type for _, type in inputs])
        self.module = Module(module_name(source.model_name), {})
        self._taken: set[str] = set()
        self._none = self._append(top.None_(), (), NoneType(), Location())
        for argument, (name, type) in zip(self.body.arguments, inputs, strict=True):
            argument.location = Location((name,))
            self.values[name] = self.build(self._input_op(type.dims, name), [argument], name, [type])

    def _input_op(self, shape: tuple[int, ...], name: str) -> top.Input:
        """Return the input op with the user's preprocessing options, which apply to images only."""
        if len(shape) != 4 or not self.source.preprocess:
            return top.Input()
        return image_input(shape, self.source.preprocess, name)

    # Foreign tensors

    def value(self, name: str) -> Value:
        """Return the value of a foreign tensor. The empty name gives a `none` value."""
        return self.values[name] if name else self._none

    def constant(self, name: str) -> Array | None:
        """Return the array of a foreign tensor that is a weight, None if it is computed at run time."""
        value = self.values[name]
        is_weight = value.defining is not None and isinstance(value.defining.op, top.Weight)
        return self.module.weights[value.name] if is_weight else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the static shape of a foreign tensor."""
        return self.values[name].tensor.dims

    def is_foreign(self, name: str) -> bool:
        """True if the name belongs to a foreign tensor."""
        return name in self.source.reserved

    # Weights

    def weight(self, name: str, array: Array, element: ElementType = F32) -> Value:
        """Create a weight with a unique name. Floats must be finite."""
        return self.foreign_weight(self._unique(name), array, element)

    def foreign_weight(self, name: str, array: Array, element: ElementType = F32) -> Value:
        """Create the weight of a foreign tensor, under that tensor's name."""
        with np.errstate(over="ignore"):
            dtype = np.float32 if element == F32 else array.dtype
            stored = np.ascontiguousarray(array, dtype).reshape(array.shape)
        if element == F32:
            self._check_numbers(name, stored)
        self._taken.add(name)
        self.module.weights[name] = stored
        return self._append(top.Weight(), (), TensorType(stored.shape, element), Location((name,)))

    def is_number(self, array: Array) -> Array:
        """Return a mask of the elements that a weight may have."""
        return np.isfinite(array)

    def none(self) -> Value:
        """Return the absent operand."""
        return self._none

    # Operations

    def build(
        self, op: Op, operands: Sequence[Value], name: str, result_types: Sequence[TensorType] | None = None
    ) -> Value:
        """Append an op; `name` is the foreign output tensor's name. Result types are inferred if not given."""
        return self.build_all(op, operands, (name,), result_types)[0]

    def build_all(
        self, op: Op, operands: Sequence[Value], names: Sequence[str], result_types: Sequence[TensorType] | None = None
    ) -> list[Value]:
        """As `build`, with all results; unnamed ones are named after the first."""
        if result_types is None:
            result_types = self.infer(op, operands, names)
        for type in result_types:
            self.check_size(type)
        chosen: list[str] = []
        for index in range(len(result_types)):
            name = names[index] if index < len(names) else ""
            if not name or name in self._taken or not self.is_foreign(name):
                name = self._unique(name or f"{chosen[0] if chosen else op.name}_r{index}")
            self._taken.add(name)
            chosen.append(name)
        return list(self.body.append(Operation(op, operands, result_types, Location(tuple(chosen)))).results)

    def refuse(self, node: ForeignNode, reason: str) -> Exception:
        """Return the error for a node that cannot be imported; it names file, node, and op."""
        return refusal(node, reason)

    def infer(self, op: Op, operands: Sequence[Value], names: Sequence[str]) -> Sequence[TensorType]:
        """Return the types of the results with these names."""
        inferred = self.inferred(op, operands)
        if inferred is None:
            raise ValueError(f"{op.name} does not infer its result types; state them")
        return inferred

    def inferred(self, op: Op, operands: Sequence[Value]) -> Sequence[TensorType] | None:
        """Return the op's own shape inference; raises InvalidModel for operands that do not fit."""
        types = tuple(v.type if isinstance(v.type, TensorType) else ABSENT for v in operands)
        try:
            return op.infer(types)
        except ValueError as error:
            shapes = ", ".join(show(type.dims) for type in types if type is not ABSENT)
            raise InvalidModel(f"{self.place()}: {str(error).rstrip('.')} (operands {shapes}).") from error

    def check_size(self, type: TensorType) -> None:
        """Raise InvalidModel for a tensor that is empty or too large."""
        if type.dims and (min(type.dims) < 1 or math.prod(type.dims) > LARGEST_TENSOR):
            raise InvalidModel(
                f"{self.place()}: a tensor of {show(type.dims)} is not possible; extents must be at least 1, and "
                "there are "
                f"at most {LARGEST_TENSOR} elements. Check the shapes of the inputs and the sizes that the network "
                "states."
            )

    def place(self) -> str:
        """Return file and node, with which every message begins."""
        return self.source.path if self.node is None else place_of(self.node)

    # The module

    def finish(self, outputs: Sequence[tuple[str, Value]]) -> Module:
        """Return the module with the given results of `main` under the given names."""
        names = [name for name, _ in outputs]
        self.body.append(Operation(Return(), [self.named(name, value, names) for name, value in outputs]))
        function = Function("main", FunctionType((), ()), self.body)
        function.update_type()
        self.module.functions.append(function)
        check_normalization(self.module, self.source.path)
        flops = sum(operation.op.flops(operation.node()) for operation in self.module.walk())
        stem = f"{file_stem(self.module.name)}_{self.state.lower()}"
        self.module.attributes = {
            "module.FLOPs": IntegerAttr(flops),
            "module.chip": StringAttr("ALL"),
            "module.platform": StringAttr(self.source.platform),
            "module.state": StringAttr(self.state),
            "module.top_run_mode": StringAttr("STATIC"),
            "module.weight_file": StringAttr(f"{stem}_all_weight.npz"),
        }
        return self.module

    def named(self, name: str, value: Value, outputs: Sequence[str]) -> Value:
        """Return a result of `main` under its own name; a Reshape carries the name if the value must keep another
        one.
        """
        if value.name == name:
            return value
        producer = value.defining
        is_fixed = producer is None or isinstance(producer.op, (NetworkInput, top.Weight))
        if producer is None or is_fixed or value.name in outputs or value.index:
            return self.build(top.Reshape(shape=value.tensor.dims), [value], name, [value.tensor])
        producer.location = Location((name, *producer.location.names[1:]))
        return value

    def _check_numbers(self, name: str, array: Array) -> None:
        bad = array.size - int(np.count_nonzero(self.is_number(array)))
        if bad:
            what = "NaN" if np.isnan(array).any() else "infinite values"
            raise InvalidModel(
                f"{self.place()}: weight '{name}' holds {what} ({bad} of {array.size} values). Export the network from "
                "a checkpoint whose weights are finite."
            )

    def _append(self, op: Op, operands: Sequence[Value], type: TensorType | NoneType, location: Location) -> Value:
        return self.body.append(Operation(op, operands, [type], location)).result

    def _unique(self, name: str) -> str:
        free = free_name(name, lambda name: name in self._taken or self.is_foreign(name))
        self._taken.add(free)
        return free


def module_name(name: str) -> str:
    """Return `name` with the characters that MLIR allows."""
    name = re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"
