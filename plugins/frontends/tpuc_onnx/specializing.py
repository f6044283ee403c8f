"""Specialize the network as the user requests: cut its front, choose open dimensions, fix inputs to constants."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ValueInfoProto, helper, numpy_helper, shape_inference
from tpuc.api import ImportOptions, InvalidModel, UsageError
from tpuc_importing.fixing import fixed_array

from tpuc_onnx.graph import check_input


def specialized(model: onnx.ModelProto, path: Path, options: ImportOptions) -> onnx.ModelProto:
    """Change the model in place and return it. Raises UsageError for unknown names and values that do not fit."""
    if options.input_names:
        _cut(model, str(path), options.input_names)
    if options.dims:
        _choose(model.graph, str(path), options)
    for name, value in options.fixed_inputs.items():
        _fix(model.graph, str(path), name, value)
    return model


def _cut(model: onnx.ModelProto, source: str, names: Sequence[str]) -> None:
    """Turn computed tensors into inputs, in the given order; the file's inputs stay if something reads them."""
    graph = model.graph
    made = {name for node in graph.node for name in node.output if name}
    old = [entry.name for entry in graph.input]
    for name in names:
        if name not in made and name not in old:
            raise UsageError(f"{source}: has no tensor named '{name}' (--input-names).{_hint(name, sorted(made))}")
    types = _types(model, [name for name in names if name in made])
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in types:
                node.output[index] = f"{name} (cut)"
    kept = {entry.name: entry for entry in graph.input}
    initial = {tensor.name for tensor in graph.initializer}
    entries = [types[name] if name in types else kept[name] for name in names]
    entries += [entry for entry in graph.input if entry.name not in names]
    needed = _needed(graph)
    copies = [ValueInfoProto.FromString(e.SerializeToString()) for e in entries]
    del graph.input[:]
    graph.input.extend(one for one in copies if one.name in needed or one.name in initial or one.name in names)


def _types(model: onnx.ModelProto, names: Sequence[str]) -> dict[str, ValueInfoProto]:
    """Return the file's types of computed tensors, else those `onnx` infers, else float32 of unknown shape."""
    stated = {entry.name: entry for entry in (*model.graph.value_info, *model.graph.output)}
    if any(not _has_shape(stated.get(name)) for name in names):
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph.value_info
        except (shape_inference.InferenceError, ValueError):
            inferred = ()
        stated = {entry.name: entry for entry in inferred if _has_shape(entry)} | {
            name: entry for name, entry in stated.items() if _has_shape(entry)
        }
    unknown = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    return {name: stated.get(name) or ValueInfoProto(name=name, type=unknown) for name in names}


def _has_shape(entry: ValueInfoProto | None) -> bool:
    return entry is not None and entry.type.tensor_type.HasField("shape")


def _needed(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that the outputs depend on."""
    makers = {name: node for node in graph.node for name in node.output if name}
    waiting, found = [entry.name for entry in graph.output], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name in makers:
                waiting += _reads(makers[name])
    return found


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from _reads(inner)
            yield from (entry.name for entry in graph.output)


def _choose(graph: onnx.GraphProto, source: str, options: ImportOptions) -> None:
    """Replace the symbols of open dimensions by numbers."""
    symbols = list(dict.fromkeys(dim.dim_param for entry in graph.input for dim in _dims(entry) if dim.dim_param))
    for name in options.dims:
        if name not in symbols:
            known = f" Its dimensions are {', '.join(symbols)}." if symbols else " It has no named dimensions."
            raise UsageError(f"{source}: no input has a dimension named '{name}' (--dim).{known}")
    for entry in (*graph.input, *graph.output, *graph.value_info):
        for dim in _dims(entry):
            if dim.dim_param in options.dims:
                dim.dim_value = options.dims[dim.dim_param]


def _dims(entry: ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return entry.type.tensor_type.shape.dim


def _fix(graph: onnx.GraphProto, source: str, name: str, value: object) -> None:
    """Turn an input into a constant."""
    entries = {entry.name: entry for entry in graph.input}
    constants = {tensor.name for tensor in graph.initializer}
    if name not in entries or name in constants:
        inputs = [one for one in entries if one not in constants]
        raise UsageError(f"{source}: has no input named '{name}' (--fix-input). Its inputs are {', '.join(inputs)}.")
    entry = entries[name]
    check_input(entry, source)
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in _dims(entry)]
    array = np.asarray(value) if not isinstance(value, str) else None
    open_dims = [dim for dim in dims if not isinstance(dim, int)]
    place = f"{source}: input '{name}'"
    if open_dims and (array is None or array.ndim != len(dims)):
        ways = " ".join(f"--dim {dim}=1" for dim in open_dims if dim != "?") or "an npy file of its shape"
        raise UsageError(f"{place} has open dimensions ({', '.join(map(str, open_dims))}). Choose them: {ways}.")
    shape = array.shape if open_dims and array is not None else tuple(int(dim) for dim in dims)
    dtype = helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
    graph.initializer.append(numpy_helper.from_array(fixed_array(place, value, shape, dtype), name))
    left = [ValueInfoProto.FromString(one.SerializeToString()) for one in graph.input if one.name != name]
    if all(one.name in constants for one in left):
        raise InvalidModel(f"{source}: --fix-input leaves no input, so nothing is computed at run time. Keep one.")
    del graph.input[:]
    graph.input.extend(left)


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else " Look up the tensor names of the file."
