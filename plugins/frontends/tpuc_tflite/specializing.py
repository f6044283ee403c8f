"""Specialize the network as the user requests: cut its front, fix inputs to constants."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

import numpy as np
from tpuc.api import ImportOptions, InvalidModel, UsageError
from tpuc_importing.fixing import fixed_array
from tpuc_importing.graphs import needed
from tpuc_ops.arrays import Array

from tpuc_tflite.graph import Graph, TensorEntry


def specialized(graph: Graph, options: ImportOptions) -> Graph:
    """Return the requested graph. Raises UsageError for unknown names and values that do not fit."""
    graph = _cut(graph, options) if options.input_names else graph
    for name, value in options.fixed_inputs.items():
        graph = _fixed(graph, name, value)
    return graph


def _cut(graph: Graph, options: ImportOptions) -> Graph:
    """Turn computed tensors into inputs, in the given order; the file's inputs stay if something reads them."""
    names = options.input_names
    made = {name for node in graph.nodes for name in node.outputs if name}
    for name in names:
        if name not in made and name not in graph.inputs:
            close = difflib.get_close_matches(name, sorted(made), 1)
            hint = f" Did you mean '{close[0]}'?" if close else " Look up the tensor names of the file."
            raise UsageError(f"{graph.source}: has no tensor named '{name}' (--input-names).{hint}")
    tensors = dict(graph.tensors)
    nodes = list(graph.nodes)
    for index, node in enumerate(nodes):
        outputs = tuple(f"{name} (cut)" if name in names else name for name in node.outputs)
        for old, new in zip(node.outputs, outputs, strict=True):
            if new != old:
                tensors[new] = dataclasses.replace(tensors[old], name=new)
        nodes[index] = dataclasses.replace(node, outputs=outputs)
    outputs = options.output_names or graph.outputs
    left = needed(nodes, outputs, lambda node: node.outputs, lambda node: node.inputs)
    read = {*outputs, *(name for node in left for name in node.inputs)}
    kept = [name for name in graph.inputs if name not in names and name in read]
    return dataclasses.replace(graph, tensors=tensors, nodes=tuple(left), inputs=(*names, *kept))


def _fixed(graph: Graph, name: str, value: object) -> Graph:
    """Turn an input into a constant with the file's shape."""
    if name not in graph.inputs:
        raise UsageError(
            f"{graph.source}: has no input named '{name}' (--fix-input). Its inputs are {', '.join(graph.inputs)}."
        )
    left = tuple(other for other in graph.inputs if other != name)
    if not left:
        raise InvalidModel(
            f"{graph.source}: --fix-input leaves no input, so nothing is computed at run time. Keep one."
        )
    entry = graph.tensors[name]
    data = _stored(f"{graph.source}: input '{name}'", entry, value)
    tensors = {**graph.tensors, name: dataclasses.replace(entry, data=data)}
    return dataclasses.replace(graph, tensors=tensors, inputs=left)


def _stored(place: str, entry: TensorEntry, value: object) -> Array:
    """Return the value as the file would store it; a quantized input is given by its real value."""
    dtype: np.dtype[Any] = np.dtype({"INT4": "int8"}.get(entry.kind, entry.kind.lower()))
    if not entry.is_quantized or entry.quantization is None:
        return fixed_array(place, value, entry.shape, dtype)
    real = fixed_array(place, value, entry.shape, np.dtype(np.float64))
    limits, (scale, zero) = np.iinfo(dtype), (entry.quantization.scales[0], entry.quantization.zero_points[0])
    return np.clip(np.rint(real / scale) + zero, limits.min, limits.max).astype(dtype)
