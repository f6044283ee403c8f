"""Lists of tensors of a known length, which loops over sequences read and fill.

A list is never a value of the network. Its elements are tensors with names of their own, and operators on lists select
and combine them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import ForeignNode
from tpuc_importing.operands import integers, required_constant
from tpuc_ops.arrays import Array

from tpuc_tflite.building import TensorList, TfliteBuilder
from tpuc_tflite.graph import Shape, TensorEntry

MOST_ELEMENTS = 1 << 14
"""Maximum length of a list; each element becomes a tensor."""

_FLEX = "Flex"
"""The prefix of TensorFlow's operators in TFLite files."""

_NOTHING = "it combines a list without elements"
_COPIES = frozenset({"Identity", "Snapshot", "StopGradient"})
_DTYPES: Mapping[str, Any] = {"BOOL": np.bool_, "INT32": np.int32, "INT64": np.int64}

Nodes: TypeAlias = "Iterator[ForeignNode]"
Importer: TypeAlias = "Callable[[ForeignNode, TfliteBuilder], Nodes]"
"""Yields TFLite nodes, to be imported one at a time, and records lists; the results are known afterwards."""


def list_importer(kind: str, node: ForeignNode, build: TfliteBuilder) -> Importer | None:
    """Return the importer of an operator on lists, or of a copy of a list."""
    if kind in _COPIES and node.inputs and node.inputs[0] in build.lists:
        return _copy
    return _OPERATORS.get(kind.removeprefix(_FLEX))


def select_lists(node: ForeignNode, build: TfliteBuilder, name: str, taken: str, other: str) -> Nodes:
    """Yield the selection of every element of list `name` from two lists, by the node's first operand."""
    ours, theirs = (build.lists.get(one) for one in (taken, other))
    if ours is None or theirs is None or len(ours.elements) != len(theirs.elements):
        raise build.refuse(node, f"its branches give '{name}' different lengths, and the choice depends on the data")
    elements: list[str | None] = []
    for index, (one, two) in enumerate(zip(ours.elements, theirs.elements, strict=True)):
        if one == two:
            elements.append(one)
            continue
        both = (_element(node, build, ours, one), _element(node, build, theirs, two))
        elements.append(_fresh(build, f"{name}/{index}", build.entry(both[0]).kind))
        yield _made("SELECT_V2", node, (node.inputs[0], *both), (str(elements[-1]),))
    build.lists[name] = TensorList(tuple(elements), ours.shape)


def _copy(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    build.alias(node.inputs[0], node.outputs[0])
    yield from ()


# Making lists


def _reserve(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """A list of a stated length, whose elements are zeros."""
    count = _length(node, build, _integer(node, build, 1))
    _keep(node, build, TensorList((None,) * count, _stated(node, build, 0)))
    yield from ()


def _empty(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """A list without elements."""
    _keep(node, build, TensorList((), _stated(node, build, 0)))
    yield from ()


def _array(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """A TensorArray: its handle and its flow both stand for the list."""
    made = TensorList((None,) * _length(node, build, _integer(node, build, 0)))
    build.lists.update(dict.fromkeys(node.outputs, made))
    yield from ()


def _from_tensor(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """The parts of a tensor along its first dimension."""
    parts = yield from _parts(node, build, node.inputs[0])
    _keep(node, build, TensorList(parts, build.shape(node.inputs[0])[1:]))


# Elements


def _get(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    found = _list(node, build, 0, 2)
    index = build.constant(node.inputs[1])
    if index is None:
        stacked, chosen = (_fresh(build, f"{node.outputs[0]}/{part}", "FLOAT32") for part in ("all", "chosen"))
        yield from _stacked(node, build, found, stacked)
        yield _made("GATHER", node, (stacked, node.inputs[1]), (chosen,), axis=0)
        shape = np.array(build.shape(stacked)[1:], np.int32)
        extents = _constant(build, f"{node.outputs[0]}/shape", "INT32", shape)
        yield _made("RESHAPE", node, (chosen, extents), node.outputs[:1])
        return
    name = found.elements[_place(node, build, found, integers(index)[0])]
    build.alias(_element(node, build, found, name), node.outputs[0])


def _set(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    found, place = _list(node, build, 0), _integer(node, build, 1)
    if node.attributes.get("resize_if_index_out_of_bounds"):
        found = _resized(found, _length(node, build, max(place + 1, len(found.elements))))
    elements = list(found.elements)
    elements[_place(node, build, found, place)] = node.inputs[2]
    _keep(node, build, TensorList(tuple(elements), found.shape))
    yield from ()


def _push(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    found = _list(node, build, 0)
    _length(node, build, len(found.elements) + 1)
    _keep(node, build, TensorList((*found.elements, node.inputs[1]), found.shape))
    yield from ()


def _pop(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """The list without its last element, and that element."""
    found = _list(node, build, 0, 1)
    name = found.elements[_place(node, build, found, len(found.elements) - 1)]
    _keep(node, build, TensorList(found.elements[:-1], found.shape))
    for output in node.outputs[1:]:
        build.alias(_element(node, build, found, name), output)
    yield from ()


def _resize(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    _keep(node, build, _resized(_list(node, build, 0), _length(node, build, _integer(node, build, 1))))
    yield from ()


def _count(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    count = np.array(len(_list(node, build, 0).elements), np.int32)
    build.declare(TensorEntry(node.outputs[0], "INT32", (), (), None, count))
    yield from ()


# All elements


def _stack(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    yield from _stacked(node, build, _list(node, build, 0, 1), node.outputs[0])


def _gather(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    found = _list(node, build, 0, 2)
    places = [_place(node, build, found, index) for index in _integers(node, build, 1)]
    chosen = TensorList(tuple(found.elements[place] for place in places), found.shape)
    yield from _stacked(node, build, chosen, node.outputs[0])


def _concat(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """All elements, joined along their first dimension; the second result holds their lengths."""
    found = _list(node, build, 0, 1)
    if not found.elements:
        raise build.refuse(node, _NOTHING)
    names = [_element(node, build, found, name) for name in found.elements]
    lengths = np.array([build.shape(name)[0] for name in names], np.int64)
    for name in node.outputs[1:]:
        build.declare(TensorEntry(name, "INT64", lengths.shape, lengths.shape, None, lengths))
    if len(names) == 1:
        build.alias(names[0], node.outputs[0])
        return
    yield _made("CONCATENATION", node, names, node.outputs[:1], axis=0)


def _scatter(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    """A list with the parts of a tensor at stated places; it is as long as stated, or as needed."""
    places = _integers(node, build, 1)
    stated = _integer(node, build, 3) if node.inputs[3:] else 0
    count = _length(node, build, max((stated, *(place + 1 for place in places))))
    start = TensorList((None,) * count, build.shape(node.inputs[0])[1:])
    yield from _written(node, build, start, node.inputs[0], places)


def _scatter_into(node: ForeignNode, build: TfliteBuilder) -> Nodes:
    found, places = _list(node, build, 0), _integers(node, build, 2)
    yield from _written(node, build, found, node.inputs[1], places)


def _written(node: ForeignNode, build: TfliteBuilder, found: TensorList, tensor: str, places: Sequence[int]) -> Nodes:
    elements = list(found.elements)
    parts = yield from _parts(node, build, tensor)
    for place, part in zip(places, parts, strict=True):
        elements[_place(node, build, found, place)] = part
    _keep(node, build, TensorList(tuple(elements), found.shape))


# Operands


def _list(node: ForeignNode, build: TfliteBuilder, place: int, shape: int | None = None) -> TensorList:
    """Return the list that an operand is; operand `shape`, if any, states the shape of its elements."""
    found = build.lists.get(node.inputs[place])
    if found is None:
        raise build.refuse(node, "nothing in the network makes the list that it reads")
    if shape is None or shape >= len(node.inputs) or found.shape is not None:
        return found
    return dataclasses.replace(found, shape=_stated(node, build, shape))


def _stated(node: ForeignNode, build: TfliteBuilder, place: int) -> Shape | None:
    """Return the shape that an operand states, None if it leaves something open."""
    array = build.constant(node.inputs[place])
    shape = None if array is None or array.ndim == 0 else tuple(integers(array))
    return None if shape is None or min(shape, default=1) < 0 else shape


def _integers(node: ForeignNode, build: TfliteBuilder, place: int) -> list[int]:
    return list(integers(required_constant(node, build, place, "a length or place in a list of tensors")))


def _integer(node: ForeignNode, build: TfliteBuilder, place: int) -> int:
    return _integers(node, build, place)[0]


def _length(node: ForeignNode, build: TfliteBuilder, count: int) -> int:
    if not 0 <= count <= MOST_ELEMENTS:
        raise build.refuse(node, f"its list would have {count} elements, and the maximum is {MOST_ELEMENTS}")
    return count


def _place(node: ForeignNode, build: TfliteBuilder, found: TensorList, place: int) -> int:
    if not 0 <= place < len(found.elements):
        raise build.refuse(node, f"it uses element {place} of a list of {len(found.elements)}")
    return place


def _element(node: ForeignNode, build: TfliteBuilder, found: TensorList, name: str | None) -> str:
    """Return the tensor that is an element: zeros if nothing wrote it."""
    if name is not None:
        return name
    others = [other for other in found.elements if other is not None]
    shape = build.shape(others[0]) if others else found.shape
    if shape is None:
        raise build.refuse(node, "it reads an element that nothing wrote, and nothing states its shape")
    kind = build.entry(others[0]).kind if others else "FLOAT32"
    zeros = np.zeros(shape, _DTYPES.get(kind, np.float32))
    return _constant(build, f"{node.outputs[0]}/zeros", kind, zeros)


# Results


def _keep(node: ForeignNode, build: TfliteBuilder, made: TensorList) -> None:
    build.lists[node.outputs[0]] = made


def _resized(found: TensorList, count: int) -> TensorList:
    missing = (None,) * max(count - len(found.elements), 0)
    return TensorList((*found.elements[:count], *missing), found.shape)


def _parts(node: ForeignNode, build: TfliteBuilder, tensor: str) -> Generator[ForeignNode, None, tuple[str, ...]]:
    """Yield what cuts a tensor along its first dimension, and return the parts."""
    kind, shape, array = build.entry(tensor).kind, build.shape(tensor), build.constant(tensor)
    if not shape:
        raise build.refuse(node, f"tensor '{tensor}' has no dimension to make a list of")
    count = _length(node, build, shape[0])
    names = [f"{node.outputs[0]}/{index}" for index in range(count)]
    if array is not None:
        return tuple(_constant(build, name, kind, value) for name, value in zip(names, array, strict=True))
    parts = tuple(_fresh(build, name, kind) for name in names)
    yield _made("UNPACK", node, (tensor,), parts, axis=0, num=count)
    return parts


def _stacked(node: ForeignNode, build: TfliteBuilder, found: TensorList, target: str) -> Nodes:
    """Yield what combines all elements along a new first dimension."""
    if not found.elements:
        raise build.refuse(node, _NOTHING)
    names = [_element(node, build, found, name) for name in found.elements]
    arrays = [array for name in names if (array := build.constant(name)) is not None]
    if len(arrays) < len(names):
        yield _made("PACK", node, names, (target,), axis=0, values_count=len(names))
        return
    stacked = np.stack(arrays)
    build.declare(TensorEntry(target, build.entry(names[0]).kind, stacked.shape, stacked.shape, None, stacked))


def _made(
    operator: str, node: ForeignNode, inputs: Sequence[str], outputs: Sequence[str], **attributes: int
) -> ForeignNode:
    return ForeignNode(operator, node.name, tuple(inputs), tuple(outputs), attributes, source=node.source)


def _fresh(build: TfliteBuilder, name: str, kind: str) -> str:
    """Declare a tensor whose name nothing has."""
    while name in build.entries:
        name += "_"
    build.declare(TensorEntry(name, kind, (), (), None))
    return name


def _constant(build: TfliteBuilder, name: str, kind: str, array: Array) -> str:
    """Declare a constant under a name that nothing has."""
    made = _fresh(build, name, kind)
    build.declare(TensorEntry(made, kind, array.shape, array.shape, None, array))
    return made


def _with(importer: Importer, *places: int) -> Importer:
    """Return the importer for a TensorArray, whose operands are in another order."""

    def reordered(node: ForeignNode, build: TfliteBuilder) -> Nodes:
        if len(node.inputs) <= max(places):
            raise build.refuse(node, f"it has {len(node.inputs)} operands, and needs {max(places) + 1}")
        inputs = tuple(node.inputs[place] for place in places)
        yield from importer(dataclasses.replace(node, inputs=inputs), build)

    return reordered


_OPERATORS: Mapping[str, Importer] = {
    "EmptyTensorList": _empty,
    "TensorArrayConcatV3": _with(_concat, 1),
    "TensorArrayGatherV3": _with(_gather, 2, 1),
    "TensorArrayReadV3": _with(_get, 2, 1),
    "TensorArrayScatterV3": _with(_scatter_into, 3, 2, 1),
    "TensorArraySizeV3": _with(_count, 1),
    "TensorArrayV3": _array,
    "TensorArrayWriteV3": _with(_set, 3, 1, 2),
    "TensorListConcatV2": _concat,
    "TensorListFromTensor": _from_tensor,
    "TensorListGather": _gather,
    "TensorListGetItem": _get,
    "TensorListLength": _count,
    "TensorListPopBack": _pop,
    "TensorListPushBack": _push,
    "TensorListReserve": _reserve,
    "TensorListResize": _resize,
    "TensorListScatter": _scatter,
    "TensorListScatterIntoExistingList": _scatter_into,
    "TensorListScatterV2": _scatter,
    "TensorListSetItem": _set,
    "TensorListStack": _stack,
}
