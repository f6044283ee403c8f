"""The builder that TFLite importers use; it tracks the order of dimensions in which each value is stored.

The file stores images as `[n, h, w, c]`, TOP as `[n, c, h, w]`. Every value therefore has an *order*: dimension `i` of
the value is dimension `order[i]` of the foreign tensor. Importers request the order they need, and a Permute is built
only if a value exists in another one; a TRANSPOSE in the file only changes the order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import (
    F32,
    ElementType,
    ForeignNode,
    InvalidModel,
    Location,
    NetworkInput,
    Op,
    TensorType,
    Uniform,
    UniformPerAxis,
    Value,
)
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Dequantize
from tpuc_ops.shapes import show

from tpuc_tflite.graph import MOST_ELEMENTS, QUANTIZED_STORAGE, Graph, Shape, TensorEntry, element_of, real_values

Order: TypeAlias = tuple[int, ...]

NCHW: Order = (0, 3, 1, 2)
"""The order of images in TOP."""


@dataclass(frozen=True)
class Arranged:
    """An importer's result whose dimensions are not in the foreign order."""

    value: Value
    order: Order


@dataclass(frozen=True)
class TensorList:
    """Tensors in a list; None: zeros, because nothing wrote the element. `shape`: of an element, if it is stated."""

    elements: tuple[str | None, ...]
    shape: Shape | None = None


@dataclass(frozen=True)
class Later:
    """A reshape that would need a Permute, built only when somebody reads it; a product may rearrange its filter
    instead.
    """

    shape: Shape
    source: str
    make: Callable[[], Value]


Results: TypeAlias = "Value | Arranged | Later | Sequence[Value | Arranged]"
Importer: TypeAlias = "Callable[[ForeignNode, TfliteBuilder], Results]"


class TfliteBuilder(TopBuilder):
    """A builder that also knows orders and quantized types. Network inputs are images as `n,c,h,w`."""

    def __init__(self, graph: Graph, source: ModuleSource, inputs: Sequence[tuple[str, TensorType]]) -> None:
        self.entries = dict(graph.tensors)
        self.constants = {name: entry.data for name, entry in graph.tensors.items() if entry.data is not None}
        self.lists: dict[str, TensorList] = {}
        self._orders: dict[str, dict[Order, Value]] = {}
        self._home: dict[str, Order] = {}
        self._later: dict[str, Later] = {}
        super().__init__(source, inputs)
        for name, type in inputs:
            order = NCHW if type.rank == 4 else tuple(range(type.rank))
            self.accept(name, Arranged(self.values[name], order))

    # Foreign tensors

    def constant(self, name: str) -> Array | None:
        """Return the stored array of a foreign constant (including folded ones), None if it is computed at run time."""
        return self.constants.get(name)

    def real(self, name: str) -> Array | None:
        """Return the real values of a foreign constant; None if it is computed at run time."""
        array, entry = self.constants.get(name), self.entries.get(name)
        if array is None or entry is None or not entry.is_quantized or entry.quantization is None:
            return array
        return real_values(array, entry.quantization)

    def entry(self, name: str) -> TensorEntry:
        """Return the file's description of a tensor; raises InvalidModel for a missing operand."""
        if name not in self.entries:
            raise self._error("a required operand is missing")
        return self.entries[name]

    def shape(self, name: str) -> Shape:
        """Return the static shape of a foreign tensor, in the foreign order."""
        if name in self.constants:
            return self.constants[name].shape
        if name in self._later:
            return self._later[name].shape
        if name not in self._home:
            return self.entry(name).shape
        order = self._home[name]
        dims = self._orders[name][order].tensor.dims
        return tuple(dims[order.index(axis)] for axis in range(len(order)))

    def is_known(self, name: str) -> bool:
        """True if the tensor is a constant, a list, or already computed."""
        return any(name in known for known in (self.constants, self._home, self._later, self.lists)) or not name

    # Values

    @property
    def orders(self) -> Mapping[str, Order]:
        """The order of each computed tensor."""
        return self._home

    def order(self, name: str) -> Order:
        """Return the order of a tensor's value; constants, which can have any order, count as stored as in the file."""
        self._settle(name)
        return self._home.get(name) or tuple(range(len(self.shape(name))))

    def value(self, name: str, order: Order | None = None) -> Value:
        """Return the value of a foreign tensor, by default in the foreign order; constants become weights."""
        if not name:
            return self._none
        self._settle(name)
        order = tuple(range(len(self.shape(name)))) if order is None else order
        found = self._orders.setdefault(name, {})
        if order not in found:
            if name in self.constants:
                found[order] = self._constant_value(name, order)
            else:
                found[order] = self._reordered(name, order)
        return found[order]

    def flattened(self, name: str) -> str | None:
        """Return the tensor of which `name` is a postponed reshape."""
        return self._later[name].source if name in self._later else None

    def accept(self, name: str, result: Value | Arranged | Later) -> None:
        """Record the value of a computed tensor."""
        if isinstance(result, Later):
            self._later[name] = result
            return
        value, order = (result.value, result.order) if isinstance(result, Arranged) else (result, None)
        order = tuple(range(value.tensor.rank)) if order is None else order
        if self._states_floats(name):
            value = self.real_value(value)
        self._home[name] = order
        self._orders[name] = {order: value}

    def declare(self, entry: TensorEntry) -> None:
        """Declare a tensor that is added to the graph from elsewhere."""
        self.entries[entry.name] = entry
        if entry.data is not None:
            self.constants[entry.name] = entry.data

    def alias(self, source: str, target: str) -> None:
        """Make what is known under one name known under another one."""
        if source in self.lists:
            self.lists[target] = self.lists[source]
            return
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
        """Return a computed value in another order; a reshape suffices if only extents of 1 move."""
        if name in self.lists:
            raise self._error(f"it takes the list of tensors '{name}' for a tensor")
        if name not in self._home:
            raise self._error(f"it reads tensor '{name}', which nothing computes")
        home = self._home[name]
        value = self._orders[name][home]
        steps = tuple(home.index(axis) for axis in order)
        return self.permute(value, steps, f"{name}_{'nchw' if order == NCHW else 'permuted'}")

    def permute(self, value: Value, steps: Order, name: str) -> Value:
        """Permute `value` to dimensions `steps`; itself if that changes nothing."""
        dims = value.tensor.dims
        if steps == tuple(range(len(steps))):
            return value
        shape = tuple(dims[step] for step in steps)
        if only_ones_move(dims, steps):
            return self.build(top.Reshape(shape=shape), [value], name, [self._with_axes(value.tensor, shape)])
        return self.build(top.Permute(order=steps), [value], name, [self._with_axes(value.tensor, shape)])

    def reshape(self, value: Value, shape: Sequence[int], name: str) -> Value:
        """Return `value` in another shape; itself if it already has that shape."""
        if value.tensor.dims == tuple(shape):
            return value
        return self.build(top.Reshape(shape=tuple(shape)), [value], name, [self._with_axes(value.tensor, tuple(shape))])

    def _with_axes(self, type: TensorType, shape: Shape) -> TensorType:
        if isinstance(type.element, UniformPerAxis):
            raise self._error("its operand is computed and quantized per channel, which the format does not allow")
        return TensorType(shape, type.element)

    # Weights

    def quantized_weight(self, name: str, array: Array, like: str, axis: int = 0) -> Value:
        """Create a weight with the quantization of the tensor `like`; several scales are along `axis`."""
        entry = self.entries[like]
        if entry.quantization is None or not entry.is_quantized:
            raise self._error(f"its weight '{like}' is not quantized, but its other operands are")
        return self.weight(name, array, element_of(entry.kind, entry.quantization, axis))

    def _constant_value(self, name: str, order: Order) -> Value:
        """Return a constant operand, quantized if the node is."""
        entry, plain = self.entries[name], order == tuple(range(len(order)))
        label = name if plain else f"{name}_{'nchw' if order == NCHW else 'permuted'}"
        if self.is_quantized() and entry.is_quantized and entry.quantization is not None:
            axis = order.index(entry.quantization.axis) if entry.quantization.is_per_axis else 0
            return self.quantized_weight(label, self.constants[name].transpose(order), name, axis)
        array = self.real(name)
        assert array is not None
        return self.weight(label, array.transpose(order))

    def is_quantized(self) -> bool:
        """True if the current node computes with scaled integers."""
        return self.node is not None and self.entries[self.node.outputs[0]].is_quantized

    # Names

    def rename(self, value: Value, name: str) -> None:
        """Rename a computed value."""
        producer = value.defining
        assert producer is not None
        names = list(producer.location.names)
        names[value.index] = name
        producer.location = Location(tuple(names))
        self._taken.add(name)

    def rename_holder(self, name: str) -> None:
        """Take a foreign tensor's name from the value that stores it in another order."""
        for value in self._orders.get(name, {}).values():
            if value.name == name and value.defining is not None and not isinstance(value.defining.op, NetworkInput):
                self.rename(value, self._unique(f"{name}_nhwc" if value.tensor.rank == 4 else f"{name}_inner"))
                self._taken.discard(name)

    def is_foreign(self, name: str) -> bool:
        """False for constants read in another order, which are written under other names."""
        return name in self.entries and name not in self.constants

    def named(self, name: str, value: Value, outputs: Sequence[str]) -> Value:
        """Return a result of `main` under its own name, which a value in another order may hold."""
        if value.name == name:
            return value
        self.rename_holder(name)
        if value.defining is None or isinstance(value.defining.op, NetworkInput) or value.name in outputs:
            return self.build(top.Reshape(shape=value.tensor.dims), [value], name, [value.tensor])
        self.rename(value, name)
        return value

    # Types

    @property
    def state(self) -> str:
        """The module state: whether there are quantized values."""
        types = [value.type for operation in self.module.walk() for value in operation.results]
        return "TOP_QUANTIZED" if any(isinstance(t, TensorType) and t.is_quantized for t in types) else "TOP_F32"

    def build_all(
        self, op: Op, operands: Sequence[Value], names: Sequence[str], result_types: Sequence[TensorType] | None = None
    ) -> list[Value]:
        """As the base. If the file declares float results, the op reads dequantized operands: LiteRT has no such op,
        but parts cut out of networks do.
        """
        if names and self._states_floats(names[0]) and not isinstance(op, Dequantize):
            operands = [one if one.is_constant else self.real_value(one) for one in operands]
        return super().build_all(op, operands, names, result_types)

    def _states_floats(self, name: str) -> bool:
        return name in self.entries and self.entries[name].kind == "FLOAT32"

    def real_value(self, value: Value) -> Value:
        """Return a value as floats; quantized ones are dequantized."""
        if not isinstance(value.type, TensorType) or not value.type.is_quantized:
            return value
        return self.build(Dequantize(), [value], f"{value.name}_real", [value.type.with_element(F32)])

    def infer(self, op: Op, operands: Sequence[Value], names: Sequence[str]) -> Sequence[TensorType]:
        """Infer types with the foreign tensor's quantization, or, for a generated name, that of the first operand."""
        types = super().infer(op, operands, names)
        return [type.with_element(self._element(name, operands[0])) for name, type in zip(names, types, strict=True)]

    def _element(self, name: str, operand: Value) -> ElementType:
        entry = self.entries.get(name)
        if entry is not None and entry.is_quantized:
            return entry.element
        element = operand.type.element if isinstance(operand.type, TensorType) else F32
        if not isinstance(element, Uniform | UniformPerAxis):
            return F32
        is_kept = entry is None or QUANTIZED_STORAGE.get(entry.kind) == element.storage.name  # integers without a scale
        return element if is_kept else F32

    def check_size(self, type: TensorType) -> None:
        """Allow empty tensors, which some nodes skip."""
        if type.size > MOST_ELEMENTS:
            raise self._error(f"its result of {show(type.dims)} has more than {MOST_ELEMENTS} elements")

    def _error(self, reason: str) -> InvalidModel:
        return InvalidModel(f"{self.place()}: {reason}.")


def only_ones_move(dims: Shape, steps: Order) -> bool:
    """True if elements keep their memory order when dimensions are permuted by `steps`."""
    long = [step for step in steps if dims[step] != 1]
    return long == sorted(long)
