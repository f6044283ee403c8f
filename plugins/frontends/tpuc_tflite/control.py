"""Expand control flow into the surrounding graph: chosen branches and unrolled loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tpuc.api import ForeignNode
from tpuc_importing.obstacles import refusal

from tpuc_tflite.building import TfliteBuilder
from tpuc_tflite.graph import Graph
from tpuc_tflite.lists import select_lists

_OPERATORS = frozenset({"IF", "WHILE"})
MOST_STEPS = 1024
"""Maximum number of loop steps; each becomes separate operations."""

DEEPEST = 8
"""Maximum nesting of subgraphs."""


def is_control_flow(node: ForeignNode) -> bool:
    """True for an operator that is expanded here."""
    return node.op_type in _OPERATORS and not node.domain


def control_nodes(node: ForeignNode, build: TfliteBuilder, subgraphs: Mapping[int, Graph]) -> Iterator[ForeignNode]:
    """Yield the nodes that replace an IF or WHILE; its results are recorded in `build` at the end.

    They must be imported one at a time: later nodes may depend on constants folded from earlier ones.
    """
    if node.name.count("/step") + node.name.count("/branch") > DEEPEST:
        raise refusal(node, f"its subgraphs are nested more than {DEEPEST} deep")
    return _if(node, build, subgraphs) if node.op_type == "IF" else _while(node, build, subgraphs)


def _if(node: ForeignNode, build: TfliteBuilder, subgraphs: Mapping[int, Graph]) -> Iterator[ForeignNode]:
    """Yield the chosen branch, or both and a selection if the condition is computed."""
    ways = [_subgraph(node, subgraphs, f"{way}_subgraph_index") for way in ("then", "else")]
    operands = node.inputs[1:]
    condition = build.constant(node.inputs[0])
    if condition is not None:
        chosen = ways[0] if condition.reshape(-1)[:1].any() else ways[1]
        inner = _Inlined(node, build, chosen, operands, f"{node.name}/branch/")
        yield from inner.nodes()
        inner.hand_over(node.outputs)
        return
    both = [_Inlined(node, build, way, operands, f"{node.name}/branch{i}/") for i, way in enumerate(ways)]
    for inner in both:
        yield from inner.nodes()
    for index, name in enumerate(node.outputs):
        taken, other = (inner.outputs[index] for inner in both)
        if taken in build.lists or other in build.lists:
            yield from select_lists(node, build, name, taken, other)
            continue
        if build.is_known(taken) and build.is_known(other) and build.shape(taken) != build.shape(other):
            raise refusal(node, f"its branches give '{name}' different shapes, and the choice depends on the data")
        operands = (node.inputs[0], taken, other)
        yield ForeignNode("SELECT_V2", name, operands, (name,), {}, "", node.version, node.source)


def _while(node: ForeignNode, build: TfliteBuilder, subgraphs: Mapping[int, Graph]) -> Iterator[ForeignNode]:
    condition, body = (_subgraph(node, subgraphs, f"{part}_subgraph_index") for part in ("cond", "body"))
    carried: Sequence[str] = node.inputs
    for step in range(MOST_STEPS + 1):
        asked = _Inlined(node, build, condition, carried, f"{node.name}/step{step}/going/")
        yield from asked.nodes()
        going = build.constant(asked.outputs[0]) if asked.outputs else None
        if going is None or going.size != 1:
            raise refusal(node, "its end depends on the data, but compiled networks are static")
        if not going.any():
            hand_over(build, carried, node.outputs)
            return
        if step == MOST_STEPS:
            raise refusal(node, f"it runs more than {MOST_STEPS} steps, too many to unroll")
        inner = _Inlined(node, build, body, carried, f"{node.name}/step{step}/")
        yield from inner.nodes()
        carried = inner.outputs


class _Inlined:
    """A subgraph in place of a node, with renamed tensors."""

    def __init__(
        self, node: ForeignNode, build: TfliteBuilder, graph: Graph, operands: Sequence[str], prefix: str
    ) -> None:
        if len(operands) != len(graph.inputs):
            raise refusal(node, f"it gives {len(operands)} operands to a subgraph of {len(graph.inputs)}")
        self._graph = graph
        self._prefix = prefix
        self._build = build
        self._names = {"": "", **{name: f"{prefix}{name}" for name in graph.tensors}}
        self._names.update(zip(graph.inputs, operands, strict=True))
        self.outputs = tuple(self._names[name] for name in graph.outputs)

    def nodes(self) -> Iterator[ForeignNode]:
        """Yield the renamed nodes; tensors are declared when the first node is requested."""
        inputs = frozenset(self._graph.inputs)
        for name, entry in self._graph.tensors.items():
            if name not in inputs:
                self._build.declare(dataclasses.replace(entry, name=self._names[name]))
        for node in self._graph.nodes:
            yield dataclasses.replace(
                node,
                name=f"{self._prefix}{node.name}",
                inputs=tuple(self._names[name] for name in node.inputs),
                outputs=tuple(self._names[name] for name in node.outputs),
            )

    def hand_over(self, targets: Sequence[str]) -> None:
        """Record the outputs as the results of the replaced node."""
        hand_over(self._build, self.outputs, targets)


def hand_over(build: TfliteBuilder, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Make what is known under one name known under another one."""
    for source, target in zip(sources, targets, strict=False):
        if source and build.is_known(source):
            build.alias(source, target)


def _subgraph(node: ForeignNode, subgraphs: Mapping[int, Graph], attribute: str) -> Graph:
    graph = subgraphs.get(int(node.attributes.get(attribute, -1)))
    if graph is None:
        raise refusal(node, f"the file has no subgraph for its {attribute}")
    return graph
