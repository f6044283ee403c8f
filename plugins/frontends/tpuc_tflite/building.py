"""What importer functions build with, and the order of dimensions in which each value is kept.

The file keeps images as `[n, h, w, c]`, TOP as `[n, c, h, w]`. Every value therefore has an *order*: dimension `i` of
the value is dimension `order[i]` of the foreign tensor. Importers ask for the order they need, and a Permute is made
only where a value is there in another one; a TRANSPOSE of the file merely changes the order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tpuc.api import (
    ABSENT,
    Block,
    ElementType,
    ForeignNode,
    InvalidModel,
    Location,
    Module,
    NetworkInput,
    NoneType,
    Op,
    Operation,
    TensorType,
    UniformPerAxis,
    Unsupported,
    Value,
)
from tpuc_ops import top

from tpuc_tflite.graph import F32, MOST_ELEMENTS, Array, Graph, Shape, TensorEntry, element_of, real_values

Order: TypeAlias = tuple[int, ...]

NCHW: Order = (0, 3, 1, 2)
"""The order of images in TOP."""


@dataclass(frozen=True)
class Arranged:
    """An importer's result whose dimensions are not in the foreign order."""

    value: Value
    order: Order


@dataclass(frozen=True)
class Later:
    """A reshape that costs a Permute, made when somebody reads it; a product may rearrange its filter instead."""

    shape: Shape
    source: str
    make: Callable[[], Value]


Results: TypeAlias = "Value | Arranged | Later | Sequence[Value | Arranged]"
Importer: TypeAlias = "Callable[[ForeignNode, TfliteBuilder], Results]"


class TfliteBuilder:
    """An `ImportBuilder` over the body of `main` that also knows orders and quantised types."""

    def __init__(self, graph: Graph, module: Module, body: Block) -> None:
        self.module = module
        self.body = body
        self.node: ForeignNode | None = None
        self.entries = dict(graph.tensors)
        self.constants = {name: entry.data for name, entry in graph.tensors.items() if entry.data is not None}
        self._source = graph.source
        self._values: dict[str, dict[Order, Value]] = {}
        self._home: dict[str, Order] = {}
        self._later: dict[str, Later] = {}
        self._taken: set[str] = set()
        self._none = self._append(top.None_(), (), NoneType(), Location())

    # Foreign tensors

    def constant(self, name: str) -> Array | None:
        """The stored array of a foreign constant (folded ones included), None when it is computed at run time."""
        return self.constants.get(name)

    def real(self, name: str) -> Array | None:
        """The numbers that a foreign constant stands for; None when it is computed at run time."""
        array, entry = self.constants.get(name), self.entries.get(name)
        if array is None or entry is None or not entry.is_quantised or entry.quantisation is None:
            return array
        return real_values(array, entry.quantisation)

    def entry(self, name: str) -> TensorEntry:
        """What the file says about a tensor; raises InvalidModel for an operand that is missing."""
        if name not in self.entries:
            raise self._error("an operand that it needs is missing")
        return self.entries[name]

    def shape(self, name: str) -> Shape:
        """The static shape of a foreign tensor, in the foreign order."""
        if name in self.constants:
            return self.constants[name].shape
        if name in self._later:
            return self._later[name].shape
        if name not in self._home:
            return self.entry(name).shape
        order = self._home[name]
        dims = self._values[name][order].tensor.dims
        return tuple(dims[order.index(axis)] for axis in range(len(order)))

    def is_known(self, name: str) -> bool:
        """Is the tensor a constant or computed already?"""
        return not name or name in self.constants or name in self._home or name in self._later

    # Values

    @property
    def orders(self) -> Mapping[str, Order]:
        """How each computed tensor is kept."""
        return self._home

    def order(self, name: str) -> Order:
        """How the value of a tensor is kept; constants can have any order and count as kept as in the file."""
        self._settle(name)
        return self._home.get(name) or tuple(range(len(self.shape(name))))

    def value(self, name: str, order: Order | None = None) -> Value:
        """The value of a foreign tensor, in the foreign order if no other is given; constants become weights."""
        if not name:
            return self._none
        self._settle(name)
        order = tuple(range(len(self.shape(name)))) if order is None else order
        found = self._values.setdefault(name, {})
        if order not in found:
            if name in self.constants:
                found[order] = self._constant_value(name, order)
            else:
                found[order] = self._reordered(name, order)
        return found[order]

    def flattened(self, name: str) -> str | None:
        """The tensor that `name` is a not yet made reshape of."""
        return self._later[name].source if name in self._later else None

    def accept(self, name: str, result: Value | Arranged | Later) -> None:
        """Note the value of a computed tensor."""
        if isinstance(result, Later):
            self._later[name] = result
            return
        value, order = (result.value, result.order) if isinstance(result, Arranged) else (result, None)
        order = tuple(range(value.tensor.rank)) if order is None else order
        self._home[name] = order
        self._values[name] = {order: value}

    def declare(self, entry: TensorEntry) -> None:
        """Make a tensor known that is written into the graph from elsewhere."""
        self.entries[entry.name] = entry
        if entry.data is not None:
            self.constants[entry.name] = entry.data

    def alias(self, source: str, target: str) -> None:
        """Give what is known under one name another name too."""
        if source in self.constants:
            self.constants[target] = self.constants[source]
            self.entries[target] = dataclasses.replace(self.entries[source], name=target)
            return
        order = self.order(source)
        self.accept(target, Arranged(self.value(source, order), order))

    def _settle(self, name: str) -> None:
        later = self._later.pop(name, None)
        if later is not None:
            self.accept(name, later.make())

    def _reordered(self, name: str, order: Order) -> Value:
        """Another order of a computed value: a reshape where only extents of 1 move."""
        if name not in self._home:
            raise self._error(f"it reads tensor '{name}', which nothing computes")
        home = self._home[name]
        value = self._values[name][home]
        steps = tuple(home.index(axis) for axis in order)
        return self.permute(value, steps, f"{name}_{'nchw' if order == NCHW else 'permuted'}")

    def permute(self, value: Value, steps: Order, name: str) -> Value:
        """`value` with dimension `steps[i]` as dimension `i`; itself when that changes nothing."""
        dims = value.tensor.dims
        if steps == tuple(range(len(steps))):
            return value
        shape = tuple(dims[step] for step in steps)
        if only_ones_move(dims, steps):
            return self.build(top.Reshape(shape=shape), [value], name, [self._with_axes(value.tensor, shape)])
        return self.build(top.Permute(order=steps), [value], name, [self._with_axes(value.tensor, shape)])

    def reshape(self, value: Value, shape: Sequence[int], name: str) -> Value:
        """`value` in another shape; itself when it has that shape already."""
        if value.tensor.dims == tuple(shape):
            return value
        return self.build(top.Reshape(shape=tuple(shape)), [value], name, [self._with_axes(value.tensor, tuple(shape))])

    def _with_axes(self, type: TensorType, shape: Shape) -> TensorType:
        if isinstance(type.element, UniformPerAxis):
            raise self._error("its operand is computed and quantised per channel, which the format does not allow")
        return TensorType(shape, type.element)

    # Weights

    def weight(self, name: str, array: Array, element: ElementType = F32) -> Value:
        """A new weight; the name is made unique. Floats must be finite."""
        return self._weight(self._unique(name), array, element)

    def quantised_weight(self, name: str, array: Array, like: str, axis: int = 0) -> Value:
        """A new weight that is quantised as the tensor `like`, its scales, if there are several, along `axis`."""
        entry = self.entries[like]
        if entry.quantisation is None or not entry.is_quantised:
            raise self._error(f"its weight '{like}' is not quantised, and its other operands are")
        return self.weight(name, array, element_of(entry.kind, entry.quantisation, axis))

    def _constant_value(self, name: str, order: Order) -> Value:
        """A constant operand, quantised when the node is."""
        entry, plain = self.entries[name], order == tuple(range(len(order)))
        label = name if plain else f"{name}_{'nchw' if order == NCHW else 'permuted'}"
        if self.is_quantised() and entry.is_quantised and entry.quantisation is not None:
            axis = order.index(entry.quantisation.axis) if entry.quantisation.is_per_axis else 0
            return self.quantised_weight(label, self.constants[name].transpose(order), name, axis)
        array = self.real(name)
        assert array is not None
        return self.weight(label, array.transpose(order))

    def is_quantised(self) -> bool:
        """Does the node at hand compute with integers that have a scale?"""
        return self.node is not None and self.entries[self.node.outputs[0]].is_quantised

    def none(self) -> Value:
        """The absent operand."""
        return self._none

    # Names

    def rename(self, value: Value, name: str) -> None:
        """Give a computed value another name."""
        producer = value.defining
        assert producer is not None
        names = list(producer.location.names)
        names[value.index] = name
        producer.location = Location(tuple(names))
        self._taken.add(name)

    def rename_holder(self, name: str) -> None:
        """Take a foreign tensor's name from the value that has it in another order."""
        for value in self._values.get(name, {}).values():
            if value.name == name and value.defining is not None and not isinstance(value.defining.op, NetworkInput):
                self.rename(value, self._unique(f"{name}_nhwc" if value.tensor.rank == 4 else f"{name}_inner"))
                self._taken.discard(name)

    # Operations

    def build(
        self, op: Op, operands: Sequence[Value], name: str, result_types: Sequence[TensorType] | None = None
    ) -> Value:
        """Append an op; `name` is the foreign output tensor's name. Result types are inferred when not given: with the
        foreign tensor's quantisation, or, for a made-up name, that of the first operand.
        """
        return self.build_many(op, operands, (name,), result_types)[0]

    def build_many(
        self, op: Op, operands: Sequence[Value], names: Sequence[str], result_types: Sequence[TensorType] | None = None
    ) -> Sequence[Value]:
        """As `build`, for an op with several results, each under its own name."""
        if result_types is None:
            result_types = self._infer(op, operands, names)
        unique = [name if name in self.entries and name not in self._taken else self._unique(name) for name in names]
        self._taken.update(unique)
        operation = Operation(op, operands, result_types, Location(tuple(unique)))
        return self.body.append(operation).results

    def refuse(self, node: ForeignNode, reason: str) -> Exception:
        """The error to raise for a node that cannot be imported: it names file, node and op."""
        return Unsupported(f"{node.source}: node '{node.name}' ({node.op_type}): {reason.rstrip('.')}.")

    def _infer(self, op: Op, operands: Sequence[Value], names: Sequence[str]) -> list[TensorType]:
        types = tuple(v.type if isinstance(v.type, TensorType) else ABSENT for v in operands)
        try:
            inferred = op.infer(types)
        except ValueError as error:
            shapes = ", ".join(show_shape(type.dims) for type in types if type is not ABSENT)
            raise self._error(f"{str(error).rstrip('.')} (operands {shapes})") from error
        if inferred is None:
            raise self._error(f"{op.name} cannot be built without a declared shape")
        if any(type.size > MOST_ELEMENTS for type in inferred):
            shapes = ", ".join(show_shape(type.dims) for type in inferred)
            raise self._error(f"its result of {shapes} has more than {MOST_ELEMENTS} elements")
        return [type.with_element(self._element(name, types[0])) for name, type in zip(names, inferred, strict=True)]

    def _element(self, name: str, operand: TensorType) -> ElementType:
        if name in self.entries:
            return self.entries[name].element
        return operand.element if operand.is_quantised else F32

    def _weight(self, name: str, array: Array, element: ElementType) -> Value:
        stored = np.ascontiguousarray(array).reshape(array.shape)
        if element == F32:
            with np.errstate(over="ignore"):
                stored = stored.astype(np.float32, copy=False)
            self._check_finite(name, stored)
        self._taken.add(name)
        self.module.weights[name] = stored
        return self._append(top.Weight(), (), TensorType(stored.shape, element), Location((name,)))

    def _check_finite(self, name: str, array: Array) -> None:
        bad = array.size - int(np.count_nonzero(np.isfinite(array)))
        if bad:
            what = "NaN" if np.isnan(array).any() else "infinite values"
            raise self._error(
                f"weight '{name}' holds {what} ({bad} of {array.size} values). Export the network from a checkpoint "
                "whose weights are finite"
            )

    def _append(self, op: Op, operands: Sequence[Value], type: TensorType | NoneType, location: Location) -> Value:
        return self.body.append(Operation(op, operands, [type], location)).result

    def _unique(self, name: str) -> str:
        candidate, number = name, 1
        while candidate in self._taken or (candidate in self.entries and candidate not in self.constants):
            candidate, number = f"{name}_{number}", number + 1
        return candidate

    def _error(self, reason: str) -> InvalidModel:
        place = f"node '{self.node.name}' ({self.node.op_type})" if self.node else "the graph"
        return InvalidModel(f"{self._source}: {place}: {reason}.")


def only_ones_move(dims: Shape, steps: Order) -> bool:
    """Do the elements keep their places in memory when the dimensions are put into the order of `steps`?"""
    long = [step for step in steps if dims[step] != 1]
    return long == sorted(long)


def show_shape(shape: Sequence[int]) -> str:
    """A shape as people write it."""
    return "x".join(map(str, shape)) or "scalar"


def elements(shape: Sequence[int]) -> int:
    """How many there are in a shape."""
    return math.prod(shape)
