"""Expand operators by their function bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, helper
from tpuc.api import ForeignNode
from tpuc_importing.graphs import needed

from tpuc_onnx.graph import GraphNode, foreign_node
from tpuc_onnx.shapes import TypeTable


def function_nodes(node: GraphNode, types: TypeTable, model_opsets: Mapping[str, int]) -> list[GraphNode] | None:
    """Return the nodes of the operator's function body that its outputs need; None if ONNX has no body for it."""
    schema = _schema(node.foreign)
    if schema is None:
        return None
    body = _function_body(node, types, schema)
    if body is None:
        return None
    foreign, prefix = node.foreign, own_prefix(node.foreign)
    names = {"": ""}
    names.update(zip(body.input, (*foreign.inputs, *("",) * len(body.input)), strict=False))
    results = dict(zip(body.output, foreign.outputs, strict=False))
    given = {name: entry.default_value for name, entry in schema.attributes.items() if entry.default_value.name}
    given.update((attribute.name, attribute) for attribute in (*body.attribute_proto, *node.proto.attribute))
    opsets = dict(model_opsets)
    opsets |= {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in body.opset_import}
    protos = renamed(body.node, names, prefix, {name: own for name, own in results.items() if own}, given)
    wanted = [name for name in foreign.outputs if name]
    return [GraphNode(proto, foreign_node(proto, opsets, foreign.source)) for proto in needed_protos(protos, wanted)]


def own_prefix(node: ForeignNode) -> str:
    """Return the prefix of names inside a node, which is unique in a graph, like the results."""
    return f"{next(name for name in node.outputs if name)}/"


def renamed(
    nodes: Iterable[onnx.NodeProto],
    names: Mapping[str, str],
    prefix: str,
    results: Mapping[str, str],
    attributes: Mapping[str, AttributeProto] | None = None,
) -> list[onnx.NodeProto]:
    """Return copies of an inner graph's nodes for the surrounding graph.

    `names` maps inner names to outer tensors; names of computed tensors get `prefix`, unless `results` maps them.
    `attributes`: values of a function's attributes.
    """
    known = dict(names)
    copies: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}{node.name or node.op_type}"
        _rename_inputs(copy, known, attributes or {})
        for index, name in enumerate(node.output):
            if name:
                known[name] = results.get(name, f"{prefix}{name}")
                copy.output[index] = known[name]
        copies.append(copy)
    return copies


def needed_protos(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the outputs depend on, in the given order."""
    return needed(nodes, outputs, lambda node: node.output, _all_reads)


def _schema(node: ForeignNode) -> Any:
    try:
        return onnx.defs.get_schema(node.op_type, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None


def _function_body(node: GraphNode, types: TypeTable, schema: Any) -> onnx.FunctionProto | None:
    foreign = node.foreign
    if schema.function_opset_versions:
        content = schema.get_function_with_opset_version(_version(schema.function_opset_versions, foreign.version))
    elif schema.context_dependent_function_opset_versions:
        protos = [types.proto(name) if name else onnx.TypeProto() for name in foreign.inputs]
        if any(proto is None for proto in protos):
            return None
        content = schema.get_context_dependent_function_with_opset_version(
            _version(schema.context_dependent_function_opset_versions, foreign.version),
            node.proto.SerializeToString(),
            [proto.SerializeToString() for proto in protos if proto is not None],
        )
    else:
        return None
    if not content:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(content)
    return body


def _version(versions: Sequence[int], wanted: int) -> int:
    """Return the newest body that is not newer than the model, else the oldest."""
    return max((version for version in versions if version <= wanted), default=min(versions))


def _rename_inputs(node: onnx.NodeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]) -> None:
    for index, name in enumerate(node.input):
        node.input[index] = names.get(name, name)
    stated = list(node.attribute)
    del node.attribute[:]
    for attribute in stated:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                copy = node.attribute.add()
                copy.CopyFrom(attributes[attribute.ref_attr_name])
                copy.name = attribute.name
            continue
        for graph in (attribute.g, *attribute.graphs):
            _rename_captured(graph, names, attributes)
        node.attribute.append(attribute)


def _rename_captured(
    graph: onnx.GraphProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]
) -> None:
    own = {entry.name for entry in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    captured = {name: other for name, other in names.items() if name not in own}
    for node in graph.node:
        _rename_inputs(node, captured, attributes)
    for entry in graph.output:
        entry.name = captured.get(entry.name, entry.name)


def _all_reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    yield from _all_reads(inner)
                yield from (entry.name for entry in graph.output)


def identity(source: str, target: str) -> onnx.NodeProto:
    """Return a node that gives a tensor another name."""
    return helper.make_node("Identity", [source], [target], name=target)
