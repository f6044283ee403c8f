"""The foreign graph in plain Python: checked, cut at the requested outputs, and in topological order."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, helper
from tpuc.api import ForeignNode, InvalidModel, Unsupported
from tpuc_importing.graphs import needed
from tpuc_ops.arrays import Array

from tpuc_onnx.tensors import tensor_array


@dataclass(frozen=True)
class GraphInput:
    """A network input; an open extent is None or its symbol, and `shape` is None if the rank is unknown."""

    name: str
    elem_type: int
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class GraphNode:
    """A node in both forms: `proto` for `onnx`'s own functions, `foreign` for importers."""

    proto: onnx.NodeProto
    foreign: ForeignNode

    @property
    def reads(self) -> tuple[str, ...]:
        """All tensors that the node or one of its subgraphs reads."""
        return (*self.foreign.inputs, *_captured(self.proto))


@dataclass(frozen=True)
class Graph:
    """The part to translate. Every tensor that a node reads is an input, a constant, or computed before it."""

    source: str
    name: str
    opsets: Mapping[str, int]
    inputs: tuple[GraphInput, ...]
    outputs: tuple[str, ...]
    nodes: tuple[GraphNode, ...]
    constants: Mapping[str, Array]


def read_graph(model: onnx.ModelProto, path: Path, output_names: Sequence[str] = ()) -> Graph:
    """Return the checked graph; raises InvalidModel if it cannot be run, Unsupported for sparse tensors."""
    graph, source = model.graph, str(path)
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise Unsupported(f"{source}: initializer '{name}' is sparse. Export the network with dense weights.")
    constants = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [entry for entry in graph.input if entry.name not in constants]
    for entry in inputs:
        check_input(entry, source)
    nodes = [
        GraphNode(node, foreign_node(node, opsets, source))
        for index, node in enumerate(graph.node)
        if _has_outputs(node, index, source)
    ]
    given = [*constants, *(entry.name for entry in inputs)]
    producers = _producers(nodes, given, source)
    known = {*producers, *given}
    outputs = _outputs(graph, output_names, known, source)
    ordered = _ordered(nodes, producers, source)
    chosen = needed(ordered, outputs, lambda node: node.foreign.outputs, lambda node: node.reads)
    _check_origins(chosen, known, source)
    read = {name for node in chosen for name in node.reads} | {*outputs}
    return Graph(
        source,
        path.stem,
        opsets,
        tuple(GraphInput(e.name, e.type.tensor_type.elem_type, _declared_shape(e)) for e in inputs),
        outputs,
        tuple(chosen),
        {name: tensor_array(tensor, source) for name, tensor in constants.items() if name in read},
    )


def check_input(entry: onnx.ValueInfoProto, source: str) -> None:
    """Raise Unsupported for what is no tensor of numbers."""
    kind = entry.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type" or entry.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        named = kind.removesuffix("_type").replace("_", " ")
        what = "text" if kind == "tensor_type" else {"optional": "an optional value"}.get(named, f"a {named}")
        raise Unsupported(
            f"{source}: input '{entry.name}' is {what}, but only tensors of numbers are supported. Cut the network "
            "after the nodes that read it, or export it without."
        )


def _has_outputs(node: onnx.NodeProto, index: int, source: str) -> bool:
    if not any(node.output):
        raise InvalidModel(
            f"{source}: node {index} ({node.op_type}) has no named output, so it has no effect. Remove it or name its "
            "output."
        )
    return True


def foreign_node(node: onnx.NodeProto, opsets: Mapping[str, int], source: str) -> ForeignNode:
    """Return a node in the form for importers."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return ForeignNode(
        node.op_type,
        node.name or next(name for name in node.output if name),
        tuple(node.input),
        tuple(node.output),
        {attribute.name: _plain(attribute, source) for attribute in node.attribute},
        domain,
        opsets.get(domain, 1),
        source,
    )


def _plain(attribute: AttributeProto, source: str) -> Any:
    """Convert an attribute to a Python value: text to str, lists to tuples, tensors to arrays; graphs are unchanged."""
    value = helper.get_attribute_value(attribute)
    match attribute.type:
        case AttributeProto.STRING:
            return value.decode("utf-8", "replace")
        case AttributeProto.STRINGS:
            return tuple(item.decode("utf-8", "replace") for item in value)
        case AttributeProto.INTS | AttributeProto.FLOATS:
            return tuple(value)
        case AttributeProto.TENSOR:
            return tensor_array(attribute.t, source)
        case _:
            return value


def _producers(nodes: Sequence[GraphNode], given: Sequence[str], source: str) -> dict[str, GraphNode]:
    """Map each tensor to its producer; raises InvalidModel if there are two."""
    if "" in given:
        raise InvalidModel(f"{source}: an input has no name. Name it when you export the network.")
    taken, producers = set(given), dict[str, GraphNode]()
    for node in nodes:
        for name in filter(None, node.foreign.outputs):
            if name in taken:
                raise InvalidModel(
                    f"{source}: node '{node.foreign.name}' computes tensor '{name}', which is already an input or a "
                    "weight. Give one of them another name."
                )
            if name in producers:
                raise InvalidModel(
                    f"{source}: tensor '{name}' is computed twice, by node '{producers[name].foreign.name}' and by "
                    f"node '{node.foreign.name}'. Give one of them another name."
                )
            producers[name] = node
    return producers


def _outputs(graph: onnx.GraphProto, wanted: Sequence[str], known: set[str], source: str) -> tuple[str, ...]:
    if wanted:
        for name in wanted:
            if name not in known:
                close = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f" Did you mean '{close[0]}'?" if close else " Look up the tensor names of the file."
                raise InvalidModel(f"{source}: has no tensor named '{name}' (--output-names).{hint}")
        return tuple(dict.fromkeys(wanted))
    if not graph.output:
        raise InvalidModel(f"{source}: the graph has no outputs. Export it again, or choose some with --output-names.")
    for entry in graph.output:
        if entry.name not in known:
            raise InvalidModel(
                f"{source}: output '{entry.name}' is not computed by any node. Export it again, or choose outputs "
                "with --output-names."
            )
    return tuple(entry.name for entry in graph.output)


def _ordered(nodes: Sequence[GraphNode], producers: Mapping[str, GraphNode], source: str) -> list[GraphNode]:
    """Return the nodes in topological order, otherwise as in the file; raises InvalidModel for a cycle."""
    order, done, active = list[GraphNode](), set[int](), dict[int, GraphNode]()
    for start in nodes:
        stack: list[tuple[GraphNode, Iterator[str]]] = []
        _enter(start, stack, active, done)
        while stack:
            node, names = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                active.pop(id(node))
                done.add(id(node))
                order.append(node)
            elif name in producers:
                if id(producers[name]) in active:
                    raise _cycle(list(active.values()), producers[name], source)
                _enter(producers[name], stack, active, done)
    return order


def _check_origins(nodes: Sequence[GraphNode], known: set[str], source: str) -> None:
    for node in nodes:
        for name in node.foreign.inputs:
            if name and name not in known:
                raise InvalidModel(
                    f"{source}: node '{node.foreign.name}' ({node.foreign.op_type}) reads tensor '{name}', which is "
                    "not an input, weight or result of a node. Export the network again."
                )


def _enter(
    node: GraphNode, stack: list[tuple[GraphNode, Iterator[str]]], active: dict[int, GraphNode], done: set[int]
) -> None:
    if id(node) not in done:
        active[id(node)] = node
        stack.append((node, iter(node.reads)))


def _cycle(path: list[GraphNode], node: GraphNode, source: str) -> InvalidModel:
    """Return the error for a path of readers that leads back to `node`, shown in the direction of data flow."""
    names = [step.foreign.name for step in path[path.index(node) :]]
    chain = [names[0], *reversed(names)]
    shown = chain if len(chain) <= 6 else [*chain[:3], "...", *chain[-2:]]
    text = " -> ".join(f"'{name}'" if name != "..." else name for name in shown)
    return InvalidModel(f"{source}: the graph has a cycle: {text}. A network must not read its own results.")


def _captured(node: onnx.NodeProto) -> Iterator[str]:
    """Return the outer tensors that the node's subgraphs may read."""
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from inner.input
                yield from _captured(inner)


def _declared_shape(entry: onnx.ValueInfoProto) -> tuple[int | str | None, ...] | None:
    if not entry.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else dim.dim_param or None
        for dim in entry.type.tensor_type.shape.dim
    )
