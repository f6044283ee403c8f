"""Replace variables by constants: the graph that restores them states which tensor of the checkpoint each one has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tpuc.api import SymbolAttr
from tpuc_ops.arrays import Array

from tpuc_tensorflow.loading.bundle import Bundle
from tpuc_tensorflow.loading.graphs import Graph, GraphFunction, GraphNode, text_of

VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_FORWARDED = frozenset({"Identity", "Cast"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def with_variables(graph: Graph, prefix: Path) -> Graph:
    """Return the graph with every variable in the checkpoint as a constant."""
    variables = [node for node in graph.nodes if node.op in VARIABLES]
    if not variables:
        return graph
    bundle = Bundle(prefix)
    keys = dict(_restored(graph))
    for source, copy in _copied(graph):
        if copy in keys:
            keys.setdefault(source, keys[copy])
    values: dict[str, Array] = {}
    for node in variables:
        names = (keys.get(node.name), node.name, text_of(node.attributes, "shared_name"))
        found = next((name for name in names if name and name in bundle), None)
        if found is not None:
            values[node.name] = bundle.array(found)
    return replace(graph, nodes=tuple(_constant(node, values.get(node.name)) for node in graph.nodes))


def _constant(node: GraphNode, array: Array | None) -> GraphNode:
    if array is None:
        return node
    kept = {name: value for name, value in node.attributes.items() if name == "dtype"}
    return GraphNode(node.name, "Const", (), (), kept, array)


@dataclass(frozen=True)
class _Scope:
    """The nodes of a graph or function by name, and its arguments in terms of variables."""

    nodes: Mapping[str, GraphNode]
    arguments: Mapping[str, str]


def _restored(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield variables and the names under which a RestoreV2 reads them."""
    main = _Scope({node.name: node for node in graph.nodes}, {})
    yield from _assignments(main)
    for node in graph.nodes:
        function = graph.functions.get(_callee(node)) if node.op in _CALLS else None
        if function is not None and any(inner.op == "RestoreV2" for inner in function.nodes):
            yield from _assignments(_called(function, node.inputs))


def _copied(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield variables and others that begin as their copies: Keras 3 computes with the first, and saves the second."""
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        if node.op in _ASSIGNMENTS and len(node.inputs) > 1:
            value = nodes.get(_node_name(node.inputs[1]))
            if value is not None and value.op == "ReadVariableOp" and value.inputs:
                yield _node_name(value.inputs[0]), _node_name(node.inputs[0])


def _called(function: GraphFunction, inputs: Sequence[str]) -> _Scope:
    names = [name for name, _ in function.arguments]
    arguments = {name: _node_name(given) for name, given in zip(names, inputs, strict=False)}
    return _Scope({node.name: node for node in function.nodes}, arguments)


def _callee(node: GraphNode) -> str:
    found = node.attributes.get("f")
    return found.name if isinstance(found, SymbolAttr) else ""


def _assignments(scope: _Scope) -> Iterator[tuple[str, str]]:
    for node in scope.nodes.values():
        if node.op not in _ASSIGNMENTS or len(node.inputs) < 2:
            continue
        target = _node_name(node.inputs[0])
        name = _restored_name(scope, node.inputs[1])
        if name:
            yield scope.arguments.get(target, target), name


def _restored_name(scope: _Scope, tensor: str) -> str:
    """Return the name that a RestoreV2 reads into a tensor; empty if the tensor comes from elsewhere."""
    node = scope.nodes.get(_node_name(tensor))
    while node is not None and node.op in _FORWARDED and node.inputs:
        tensor = node.inputs[0]
        node = scope.nodes.get(_node_name(tensor))
    if node is None or node.op != "RestoreV2" or len(node.inputs) < 2:
        return ""
    names = scope.nodes.get(_node_name(node.inputs[1]))
    if names is None or names.array is None:
        return ""
    texts = [bytes(item).decode("utf-8", "replace") for item in np.reshape(names.array, -1).tolist()]
    index = _index(tensor)
    return texts[index] if index < len(texts) else ""


def _node_name(tensor: str) -> str:
    return tensor.partition(":")[0]


def _index(tensor: str) -> int:
    last = tensor.rpartition(":")[2]
    return int(last) if ":" in tensor and last.isdigit() else 0
