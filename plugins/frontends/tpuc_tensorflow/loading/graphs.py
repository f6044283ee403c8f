"""The foreign graph in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuc.api import Attribute, ElementType, InvalidModel, StringAttr
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.types import element_of
from tpuc_tensorflow.loading.tensors import array_of, attribute_of


@dataclass(frozen=True)
class GraphNode:
    """A node: `inputs` as spelled in the file, without control; `array` is the value of a constant."""

    name: str
    op: str
    inputs: tuple[str, ...]
    controls: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    array: Array | None = None


@dataclass(frozen=True)
class GraphFunction:
    """A function: arguments with their types, and the tensor of each result."""

    name: str
    nodes: tuple[GraphNode, ...]
    arguments: tuple[tuple[str, ElementType], ...]
    results: tuple[tuple[str, str], ...]
    """Name and tensor of each result."""


@dataclass(frozen=True)
class Graph:
    """The content of a file. `inputs` and `outputs` map the names that users know to tensors, if stated."""

    source: str
    nodes: tuple[GraphNode, ...]
    functions: Mapping[str, GraphFunction] = field(default_factory=dict[str, GraphFunction])
    inputs: tuple[tuple[str, str], ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()


def graph_of(message: Any, source: str) -> Graph:
    """Return the graph of a GraphDef; raises InvalidModel for a damaged one."""
    functions = [_function(one, source) for one in message.library.function]
    names = [function.name for function in functions]
    if len(set(names)) != len(names):
        raise InvalidModel(f"{source}: two functions have the same name. Export the network again.")
    return Graph(source, _nodes(message.node, source), dict(zip(names, functions, strict=True)))


def _function(message: Any, source: str) -> GraphFunction:
    name = _word(message.signature.name, source)
    try:
        arguments = tuple((one.name, element_of(one.type)) for one in message.signature.input_arg)
    except ValueError as error:
        raise InvalidModel(
            f"{source}: function '{name}': {error} for an argument. Export the network again."
        ) from error
    ends = [word for entry in message.ret for word in (entry.key, entry.value)]
    for word in (*ends, *(one.name for one in message.signature.input_arg)):
        _word(word, source)
    returned = {entry.key: entry.value for entry in message.ret}
    missing = [one.name for one in message.signature.output_arg if one.name not in returned]
    if missing:
        raise InvalidModel(f"{source}: function '{name}' does not define '{missing[0]}'. Export the network again.")
    results = tuple((one.name, returned[one.name]) for one in message.signature.output_arg)
    return GraphFunction(name, _nodes(message.node_def, source), arguments, results)


def _nodes(messages: Iterable[Any], source: str) -> tuple[GraphNode, ...]:
    nodes = tuple(_node(message, source) for message in messages)
    seen: set[str] = set()
    for node in nodes:
        if not node.name or node.name in seen:
            raise InvalidModel(f"{source}: node '{node.name}' is duplicated or has no name. Export the network again.")
        seen.add(node.name)
    return nodes


def _node(message: Any, source: str) -> GraphNode:
    attributes: dict[str, Attribute] = {}
    array: Array | None = None
    for word in (message.name, message.op, *message.input, *(entry.key for entry in message.attr)):
        _word(word, source)
    for entry in message.attr:
        if entry.key.startswith("_"):
            continue
        try:
            if entry.key == "value" and entry.value.HasField("tensor"):
                array = array_of(entry.value.tensor)
            else:
                attributes[entry.key] = attribute_of(entry.value)
        except (ValueError, OverflowError) as error:
            raise InvalidModel(
                f"{source}: node '{message.name}' ({message.op}): attribute '{entry.key}' is damaged: {error}. "
                "Export the network again."
            ) from error
    data = tuple(name for name in message.input if not name.startswith("^"))
    controls = tuple(name[1:] for name in message.input if name.startswith("^"))
    return GraphNode(message.name, message.op, data, controls, attributes, array)


def _word(word: Any, source: str) -> str:
    """Return a name, which messages give as bytes if it is not UTF-8."""
    if not isinstance(word, str) or "\0" in word:
        raise InvalidModel(f"{source}: the name {word!r} is not text. Export the network again.")
    return word


def text_of(attributes: Mapping[str, Attribute], name: str) -> str:
    """Return a text attribute, empty if absent."""
    value = attributes.get(name)
    return value.value if isinstance(value, StringAttr) else ""
