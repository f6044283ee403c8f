"""Turn resource variables, which keep values between runs, into inputs and outputs of the network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import ForeignNode, Unsupported
from tpuc_importing.graphs import needed
from tpuc_ops.arrays import Array

from tpuc_tflite.graph import Graph, TensorEntry

_WRITES = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE"})
_VARIABLES = _WRITES | {"READ_VARIABLE", "VAR_HANDLE"}


def without_variables(graph: Graph, output_names: Sequence[str] = ()) -> Graph:
    """Turn variables into inputs and outputs.

    A variable that is read before it is written becomes an input of its name, and what is written to it an output,
    `NAME_next`, if the outputs (those of the file, or `output_names`) depend on it. The first run is given zeros: if
    floats start at other values, inputs and outputs are differences from these. Raises Unsupported for integers that
    do, and for branches that write variables.
    """
    inner = {index: _checked(sub) for index, sub in graph.subgraphs.items() if index not in _starting(graph)}
    if not any(node.op_type in _VARIABLES and not node.domain for node in graph.nodes):
        return dataclasses.replace(graph, subgraphs=inner) if inner != graph.subgraphs else graph
    walk = _Walk(graph)
    for node in graph.nodes:
        walk.step(node)
    return dataclasses.replace(walk.finished(output_names), subgraphs=inner)


def _starting(graph: Graph) -> set[int]:
    """Return the subgraphs that initialize variables."""
    return {_started(node) for node in graph.nodes if node.op_type == "CALL_ONCE"}


def _started(node: ForeignNode) -> int:
    return int(node.attributes.get("init_subgraph_index", 0))


def _checked(graph: Graph) -> Graph:
    for node in graph.nodes:
        if node.op_type in _WRITES and not node.domain:
            raise Unsupported(
                f"{graph.source}: {node.op_type} in a branch or loop: whether a state changes would depend on the "
                "data. Export the network without it."
            )
        if node.op_type == "READ_VARIABLE" and not node.domain:
            raise Unsupported(
                f"{graph.source}: READ_VARIABLE in a branch or loop: the converter left a weight in a variable. Freeze "
                "the variables before converting, as TFLiteConverter.from_keras_model does."
            )
    return graph


class _Walk:
    """A walk over the nodes in the runtime's order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = dict(graph.tensors)
        self._nodes: list[ForeignNode] = []
        self._handles: dict[str, str] = {}  # the variable of each handle
        self._starts: dict[str, Array | None] = {}
        self._values: dict[str, str] = {}  # the tensor that a variable holds now
        self._renamed: dict[str, str] = {}
        self._states: dict[str, str] = {}  # the input of each variable that is one
        self._first: dict[str, str] = {}  # the tensor that each of them holds when it is read first
        self._from: dict[str, Array] = {}  # what they start at, where this is not 0

    def step(self, node: ForeignNode) -> None:
        """Process one node, with variables renamed to what they hold."""
        if node.domain or node.op_type not in _VARIABLES:
            inputs = tuple(self._renamed.get(name, name) for name in node.inputs)
            self._nodes.append(dataclasses.replace(node, inputs=inputs))
        elif node.op_type == "VAR_HANDLE":
            self._handles[node.outputs[0]] = _name_of(node)
        elif node.op_type == "CALL_ONCE":
            initial = self._graph.subgraphs.get(_started(node))
            self._starts |= {} if initial is None else _starts(initial)
        elif node.op_type == "ASSIGN_VARIABLE":
            self._values[self._variable(node)] = self._renamed.get(node.inputs[1], node.inputs[1])
        else:
            self._read(node)

    def _variable(self, node: ForeignNode) -> str:
        handle = node.inputs[0]
        if handle not in self._handles:
            raise Unsupported(
                f"{self._graph.source}: {node.op_type} of '{handle}', which is not a variable of the main graph. "
                "Export "
                "the network as one graph."
            )
        return self._handles[handle]

    def _read(self, node: ForeignNode) -> None:
        variable, result = self._variable(node), node.outputs[0]
        if variable not in self._values:
            self._values[variable] = self._state(variable, self._tensors[result])
        self._renamed[result] = self._values[variable]

    def _state(self, variable: str, entry: TensorEntry) -> str:
        """Return a new input, with the quantization of the tensor into which the variable is read."""
        start = self._starts.get(variable, np.zeros(0))
        zero = entry.quantization.zero_points[0] if entry.is_quantized and entry.quantization is not None else 0
        name = self._free(variable)
        self._tensors[name] = dataclasses.replace(entry, name=name)
        self._states[variable] = self._values[variable] = name
        if start is None or (start != zero).any():
            if start is None or entry.kind != "FLOAT32":
                kind = "computed values" if start is None else "integers other than 0"
                raise Unsupported(
                    f"{self._graph.source}: variable '{variable}' starts at {kind}, which nothing would give to the "
                    "first run of the compiled network. Make it an input of the network."
                )
            self._from[variable] = start.astype(np.float32).reshape(entry.shape)
            self._values[variable] = self._shifted(variable, name, "ADD", self._free(f"{name}_value"))
        self._first[variable] = self._values[variable]
        return self._values[variable]

    def _shifted(self, variable: str, value: str, kind: str, name: str) -> str:
        """Return a tensor plus or minus the start value of a variable."""
        start, entry = self._from[variable], self._tensors[value]
        other = self._free(f"{name}_start")
        self._tensors[other] = dataclasses.replace(entry, name=other, data=start)
        self._tensors[name] = dataclasses.replace(entry, name=name, data=None)
        self._nodes.append(ForeignNode(kind, name, (value, other), (name,), {}, source=self._graph.source))
        return name

    def _free(self, name: str) -> str:
        while name in self._tensors:
            name += "_"
        return name

    def finished(self, output_names: Sequence[str]) -> Graph:
        """Return the graph with the states as inputs and outputs."""
        graph = self._graph
        outputs = [self._renamed.get(name, name) for name in graph.outputs]
        inputs, states = list(graph.inputs), list(graph.states)
        ends = [self._renamed.get(name, name) for name in output_names] or [*outputs]
        for variable, state in self._needed(ends):
            inputs.append(state)
            if self._values[variable] != self._first[variable]:
                value = self._values[variable]
                if variable in self._from:
                    value = self._shifted(variable, value, "SUB", self._free(f"{state}_change"))
                outputs.append(self._following(state, value))
                states.append((state, outputs[-1]))
        nodes = needed(self._nodes, [*ends, *outputs], lambda node: node.outputs, lambda node: node.inputs)
        return dataclasses.replace(
            graph,
            tensors=self._tensors,
            nodes=tuple(nodes),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            states=tuple(states),
        )

    def _needed(self, outputs: Sequence[str]) -> list[tuple[str, str]]:
        """Return the variables with inputs that the outputs depend on, in this run or a later one."""
        found: dict[str, str] = {}
        while True:
            ends = [*outputs, *(self._values[variable] for variable in found)]
            nodes = needed(self._nodes, ends, lambda node: node.outputs, lambda node: node.inputs)
            read = {*ends, *(name for node in nodes for name in node.inputs)}
            fresh = {variable: state for variable, state in self._states.items() if state in read}
            if len(fresh) == len(found):
                return [(variable, state) for variable, state in self._states.items() if variable in found]
            found = fresh

    def _following(self, state: str, value: str) -> str:
        """Return the output for the next run: a copy, so that it has its own name."""
        name, shape = self._free(f"{state}_next"), self._free(f"{state}_shape")
        entry = self._tensors[value]
        self._tensors[name] = dataclasses.replace(entry, name=name, data=None)
        extents = np.array(entry.shape, np.int32)
        self._tensors[shape] = TensorEntry(shape, "INT32", extents.shape, extents.shape, None, extents)
        self._nodes.append(ForeignNode("RESHAPE", name, (value, shape), (name,), {}, source=self._graph.source))
        return name


def _name_of(node: ForeignNode) -> str:
    return str(node.attributes.get("shared_name") or node.outputs[0])


def _starts(graph: Graph) -> Mapping[str, Array | None]:
    """Return the start values that an initializing graph gives to variables, None if it computes them."""
    handles = {node.outputs[0]: _name_of(node) for node in graph.nodes if node.op_type == "VAR_HANDLE"}
    writes = (node for node in graph.nodes if node.op_type == "ASSIGN_VARIABLE" and node.inputs[0] in handles)
    return {handles[node.inputs[0]]: graph.tensors[node.inputs[1]].data for node in writes}
