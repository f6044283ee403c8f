"""Write the network as it is translated back as ONNX: cut at its outputs, with static shapes and folded constants."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf import text_format
from onnx import helper, numpy_helper
from tpuc.api import ImportOptions, InvalidModel
from tpuc_importing.graphs import needed
from tpuc_ops.arrays import Array

from tpuc_onnx.folding import fold
from tpuc_onnx.graph import Graph, GraphNode, read_graph
from tpuc_onnx.loading import load_model
from tpuc_onnx.shapes import TypeTable, input_shapes
from tpuc_onnx.specializing import specialized

LARGEST_FILE = 2_000_000_000
"""Maximum bytes of weights; a protobuf message has less than 2 GiB."""
WEIGHTS_APART = 4
"""The first format version in which weights are not inputs."""
NOT_FOLDED = frozenset({"DequantizeLinear"})
"""Kept, because integers and their scales contain more information than the floats they represent."""


def simplified_files(path: Path, options: ImportOptions) -> Mapping[str, bytes]:
    """Return the file, and its text without weights; nothing if the weights are too large for one file."""
    model = specialized(load_model(path), path, options)
    graph = read_graph(model, path, options.output_names)
    simplified = _simplified(model, graph, options)
    if simplified is None:
        return {}
    content = simplified.SerializeToString(deterministic=True)
    simplified.graph.ClearField("initializer")
    text = text_format.MessageToString(simplified)
    return {"_opt.onnx": content, "_opt.onnx.prototxt": text.encode("utf-8")}


def _simplified(model: onnx.ModelProto, graph: Graph, options: ImportOptions) -> onnx.ModelProto | None:
    types = TypeTable(graph)
    shapes = input_shapes(graph, options.input_shapes)
    for entry, shape in zip(graph.inputs, shapes, strict=True):
        types.declare(entry.name, entry.elem_type, shape)
    nodes = _computing(graph, types)
    read = {name for node in nodes for name in node.reads}
    weights = {name: array for name, array in types.constants.items() if name in read}
    if sum(array.nbytes for array in weights.values()) > LARGEST_FILE:
        return None
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ir_version = max(model.ir_version, WEIGHTS_APART)
    result.graph.Clear()
    result.graph.name = options.model_name or graph.name
    result.graph.node.extend(node.proto for node in nodes)
    result.graph.initializer.extend(_initializers(model, weights))
    inputs = [(entry.name, entry.elem_type, shape) for entry, shape in zip(graph.inputs, shapes, strict=True)]
    result.graph.input.extend(helper.make_tensor_value_info(*one) for one in inputs)
    result.graph.output.extend(_values(graph.outputs, types))
    inner = [name for node in nodes for name in node.foreign.outputs if name and name not in graph.outputs]
    result.graph.value_info.extend(value for value in _values(inner, types) if value.HasField("type"))
    return result


def _computing(graph: Graph, types: TypeTable) -> Sequence[GraphNode]:
    """Return the nodes that remain after constant folding, and record types and constants."""
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        folded = None if node.foreign.op_type in NOT_FOLDED else fold(node, types)
        if folded is not None:
            types.hold(node.foreign.outputs, folded)
            continue
        with contextlib.suppress(InvalidModel):  # the translation is where it is refused, or corrected
            types.infer(node)
        nodes.append(node)
    return needed(nodes, graph.outputs, lambda node: node.foreign.outputs, lambda node: node.reads)


def _initializers(model: onnx.ModelProto, weights: Mapping[str, Array]) -> Sequence[onnx.TensorProto]:
    """Return the file's own weights unchanged if they are stored inside it, others as arrays."""
    inside = {tensor.name: tensor for tensor in model.graph.initializer if not tensor.external_data}
    return [inside.get(name) or numpy_helper.from_array(array, name) for name, array in weights.items()]


def _values(names: Sequence[str], types: TypeTable) -> Sequence[onnx.ValueInfoProto]:
    """Return what is known about tensors."""
    values: list[onnx.ValueInfoProto] = []
    for name in names:
        value, known = onnx.ValueInfoProto(name=name), types.proto(name)
        if known is not None:
            value.type.CopyFrom(known)
        values.append(value)
    return values
