"""The part of the graph that the outputs depend on, with every tensor computed before it is read."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence

from tpuc.api import InvalidModel, UsageError
from tpuc_importing.graphs import needed

from tpuc_tflite.graph import Graph


def needed_part(graph: Graph, output_names: Sequence[str]) -> Graph:
    """Return the graph without nodes that no output needs; raises InvalidModel if the file's order cannot be run."""
    _check_order(graph)
    outputs = tuple(output_names) or graph.outputs
    for name in outputs:
        _check_output(graph, name)
    for inner in graph.subgraphs.values():
        _check_order(inner)
    inner = {index: _without_idle_nodes(inner, inner.outputs) for index, inner in graph.subgraphs.items()}
    return dataclasses.replace(_without_idle_nodes(graph, outputs), subgraphs=inner)


def _without_idle_nodes(graph: Graph, outputs: tuple[str, ...]) -> Graph:
    nodes = needed(graph.nodes, outputs, lambda node: node.outputs, lambda node: node.inputs)
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=outputs)


def _check_output(graph: Graph, name: str) -> None:
    if name in graph.tensors and graph.tensors[name].data is None:
        return
    close = difflib.get_close_matches(name, sorted(graph.tensors), 1)
    hint = f"Did you mean '{close[0]}'?" if close else "Choose a tensor that the network computes."
    raise UsageError(f"{graph.source}: no computed tensor is named '{name}' (--output-names). {hint}")


def _check_order(graph: Graph) -> None:
    """Check that each tensor is computed once, before it is read: the runtime executes nodes in the file's order."""
    known = {name for name, tensor in graph.tensors.items() if tensor.data is not None or tensor.is_variable}
    known |= {"", *graph.inputs}
    made = {name: node for node in reversed(graph.nodes) for name in node.outputs}
    for node in graph.nodes:
        for name in node.inputs:
            if name not in known:
                what = f"node '{made[name].name}' computes only later" if name in made else "nothing computes"
                raise InvalidModel(
                    f"{graph.source}: node '{node.name}' ({node.op_type}) reads tensor '{name}', which {what}. Export "
                    "the network again."
                )
        for name in node.outputs:
            if name in known:
                raise InvalidModel(
                    f"{graph.source}: node '{node.name}' ({node.op_type}) computes tensor '{name}', which already "
                    "exists. Export the network again."
                )
        known.update(node.outputs)
