"""Layers that keep a state between runs: compiled networks keep nothing, so states become inputs and outputs."""

from __future__ import annotations

import dataclasses

from tpuc.api import ForeignNode

from tpuc_tflite.graph import Graph, TensorEntry

_STATE_OF = {"SVDF": 4}
"""Operand index of an operator's state."""


def with_states(graph: Graph) -> Graph:
    """Add each state as a network input, and its next value as an output, `STATE_next`."""
    tensors, nodes = dict(graph.tensors), list[ForeignNode]()
    inputs, outputs, states = list(graph.inputs), list(graph.outputs), list(graph.states)
    for node in graph.nodes:
        entry = _state(graph, node)
        if entry is None or entry.name in inputs:
            nodes.append(node)
            continue
        following = f"{entry.name}_next"
        while following in tensors:
            following += "_"
        tensors[entry.name] = dataclasses.replace(entry, is_variable=False, is_state=True)
        tensors[following] = dataclasses.replace(tensors[entry.name], name=following)
        nodes.append(dataclasses.replace(node, outputs=(*node.outputs, following)))
        inputs.append(entry.name)
        outputs.append(following)
        states.append((entry.name, following))
    if len(inputs) == len(graph.inputs):
        return graph
    return dataclasses.replace(
        graph,
        tensors=tensors,
        nodes=tuple(nodes),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        states=tuple(states),
    )


def _state(graph: Graph, node: ForeignNode) -> TensorEntry | None:
    index = _STATE_OF.get(node.op_type, len(node.inputs)) if not node.domain else len(node.inputs)
    entry = graph.tensors.get(node.inputs[index]) if index < len(node.inputs) else None
    return entry if entry is not None and entry.is_variable else None
