"""Static types of foreign tensors: input shapes, and the types that `onnx` infers for each node."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import checker, helper, numpy_helper, shape_inference
from tpuc.api import ForeignNode, InvalidModel
from tpuc_importing.obstacles import place_of
from tpuc_ops.arrays import Array

from tpuc_onnx.graph import Graph, GraphInput, GraphNode

Shape: TypeAlias = tuple[int, ...]

MOST_ELEMENTS = 1 << 31
"""No supported chip holds a tensor with more elements."""

SHAPE_DATA_ELEMENTS = 4096
"""Constants up to this size are passed to shape inference: no shape, axis list, or index is longer."""

RIGHT_SINCE = {
    "AveragePool": 22,
    "MaxPool": 22,
    "Max": 8,
    "Mean": 8,
    "Min": 8,
    "Sum": 8,
    "GreaterOrEqual": 16,
    "LessOrEqual": 16,
}
"""Opsets from which inference is correct; older rules count windows entirely in the padding (which no runtime
computes), do not broadcast, or are missing.
"""


USUAL = {
    128: frozenset({"seq", "sequence", "length", "len", "tokens", "token", "seqlen", "time", "frames", "t"}),
    224: frozenset({"height", "width", "h", "w", "rows", "cols", "image", "imgsz"}),
    16000: frozenset({"samples", "audio", "wave", "waveform"}),
}
"""Usual extents of open dimensions by words in their names: a sentence, the images of most classifiers, a second
of sound.
"""


def input_shapes(graph: Graph, given: Sequence[Shape], batch: int | None = None) -> list[Shape]:
    """Return the static shape of every input; `given` and `batch` are the user's choices, empty and None for the file's
    own.
    """
    shapes = _shapes(graph, given, batch)
    if batch is None:
        return shapes
    for entry, shape in zip(graph.inputs, shapes, strict=True):
        if not shape:
            raise InvalidModel(
                f"{graph.source}: input '{entry.name}' is a scalar, which has no batch. Leave out --batch, and give "
                "the shapes with --input-shapes."
            )
    return [(batch, *shape[1:]) for shape in shapes]


def _shapes(graph: Graph, given: Sequence[Shape], batch: int | None) -> list[Shape]:
    if given and len(given) != len(graph.inputs):
        names = ", ".join(f"'{entry.name}'" for entry in graph.inputs)
        raise InvalidModel(
            f"{graph.source}: --input-shapes gives {len(given)} shapes, but the network has {len(graph.inputs)} "
            f"inputs: {names}. Give one shape for each, in this order."
        )
    if given:
        return [_chosen(graph.source, entry, shape) for entry, shape in zip(graph.inputs, given, strict=True)]
    _check_symbols(graph, 0 if batch is None else 1)
    return [_declared(graph, entry, batch) for entry in graph.inputs]


def _check_symbols(graph: Graph, first: int) -> None:
    """Raise InvalidModel, with one message, if dimensions from `first` on are open and all have names."""
    places: dict[str, list[str]] = {}
    for entry in graph.inputs:
        for extent in (entry.shape or ())[first:]:
            if not isinstance(extent, int):
                places.setdefault(extent or "", []).append(f"'{entry.name}'")
    if not places or not all(map(_is_symbol, places)):
        return
    named = [f"{name} (of {', '.join(dict.fromkeys(inputs))})" for name, inputs in places.items()]
    ways = " ".join(f"--dim {name}={_usual(name)}" for name in places)
    what = "this dimension is" if len(named) == 1 else "these dimensions are"
    raise InvalidModel(
        f"{graph.source}: compiled shapes are static, and {what} open: {'; '.join(named)}. Choose the extents, for "
        f"example {ways}."
    )


def _is_symbol(name: str) -> bool:
    """True for a name, False for an expression of names."""
    return re.fullmatch(r"[\w./:-]+", name) is not None


def _usual(name: str) -> int:
    """Return the usual extent of dimensions with such a name."""
    words = {*re.split(r"[\W_\d]+", name.lower())}
    return next((extent for extent, known in USUAL.items() if words & known), 1)


def _chosen(source: str, entry: GraphInput, shape: Shape) -> Shape:
    declared = entry.shape
    if (declared is not None and len(declared) != len(shape)) or any(extent < 1 for extent in shape):
        raise InvalidModel(
            f"{source}: input '{entry.name}' has the shape {show_shape(declared or ())}, which --input-shapes "
            f"{show_list(shape)} does not fit. Give {len(declared or shape)} dimensions of at least 1."
        )
    return tuple(shape)


def _declared(graph: Graph, entry: GraphInput, batch: int | None) -> Shape:
    if entry.shape is None:
        raise InvalidModel(
            f"{graph.source}: input '{entry.name}' has no shape, but compiled shapes are static. Give it with "
            "--input-shapes, for example --input-shapes [[1,3,224,224]]."
        )
    static = tuple(extent for extent in entry.shape if isinstance(extent, int))
    if len(static) == len(entry.shape):
        return static
    if batch is not None and len(static) == len(entry.shape) - 1 and not isinstance(entry.shape[0], int):
        return (batch, *static)
    dims = [f"{i} ('{e}')" if e else f"{i}" for i, e in enumerate(entry.shape) if not isinstance(e, int)]
    which = f"dimension {dims[0]} is" if len(dims) == 1 else f"dimensions {', '.join(dims)} are"
    example = ",".join(show_list(_example(one.shape or ())) for one in graph.inputs)
    raise InvalidModel(
        f"{graph.source}: input '{entry.name}' has the shape {show_shape(entry.shape)}: {which} dynamic, but compiled "
        f"shapes are static. Give them with --input-shapes, for example --input-shapes [{example}]."
    )


def _example(shape: Sequence[int | str | None]) -> list[int]:
    """Return an example shape: open extents of images are those of most classifiers, others 1."""
    is_image = len(shape) == 4
    return [e if isinstance(e, int) else 224 if is_image and axis > 1 else 1 for axis, e in enumerate(shape)]


def show_shape(shape: Sequence[int | str | None]) -> str:
    """Format a shape as `1x3x?x224`; an open extent shows its symbol."""
    return "x".join("?" if extent is None or extent == "" else str(extent) for extent in shape) or "scalar"


def show_list(shape: Sequence[int]) -> str:
    """Format a shape as `[1,3,224,224]`, as the command line accepts it."""
    return f"[{','.join(map(str, shape))}]"


class TypeTable:
    """What is known about every tensor so far: its ONNX type, its array if constant, or the parts of a sequence."""

    def __init__(self, graph: Graph) -> None:
        self._types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, Array] = dict(graph.constants)
        self.stored_bytes = sum(array.nbytes for array in self.constants.values())
        self.folded_bytes = 0
        self.sequences: dict[str, tuple[str, ...]] = {}

    def hold(self, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Record the constants of these names; those with an empty name are skipped."""
        self.constants.update({name: array for name, array in zip(names, arrays, strict=False) if name})

    def declare(self, name: str, elem_type: int, shape: Shape) -> None:
        """Set the type of a tensor."""
        self._types[name] = helper.make_tensor_type_proto(elem_type, shape)

    def correct(self, name: str, shape: Shape) -> None:
        """Set the shape of a tensor, and keep its element type if known."""
        known = self._types.get(name)
        self.declare(name, known.tensor_type.elem_type if known else onnx.TensorProto.FLOAT, shape)

    def proto(self, name: str) -> onnx.TypeProto | None:
        """Return the ONNX type of a tensor, None if unknown."""
        if name in self.constants:
            return _type_of(self.constants[name])
        return self._types.get(name)

    def elem_type(self, name: str) -> int:
        """Return the element type of a tensor, FLOAT if unknown."""
        known = self.proto(name)
        return known.tensor_type.elem_type or onnx.TensorProto.FLOAT if known else onnx.TensorProto.FLOAT

    def shape(self, name: str) -> Shape | None:
        """Return the static shape of a tensor, None if it is unknown or not static."""
        if name in self.constants:
            return self.constants[name].shape
        known = self._types.get(name)
        if known is None or not known.tensor_type.HasField("shape"):
            return None
        dims = known.tensor_type.shape.dim
        return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None

    def infer(self, node: GraphNode) -> None:
        """Record the types of the node's results if `onnx` knows the operator; raises InvalidModel for misfits."""
        foreign, proto = node.foreign, node.proto
        schema = _schema(foreign)
        if schema is None:
            return
        types, data = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
        for name in filter(None, foreign.inputs):
            array = self.constants.get(name)
            if array is not None:
                types[name] = _type_of(array)
                if array.size <= SHAPE_DATA_ELEMENTS:
                    data[name] = numpy_helper.from_array(array, name)
            elif name in self._types:
                types[name] = self._types[name]
            else:
                return  # behind an operator that is not known
        try:
            imports = [helper.make_opsetid(foreign.domain, foreign.version)]
            found = shape_inference.infer_node_outputs(schema, proto, types, data, None, imports)
        except (shape_inference.InferenceError, checker.ValidationError, TypeError, ValueError) as error:
            shapes = ", ".join(f"'{name}' {show_shape(self.shape(name) or ())}" for name in types)
            raise InvalidModel(
                f"{place_of(foreign)}: its operands do not fit ({shapes}): "
                f"{_last_words(error)}. Export the network again, or check --input-shapes."
            ) from error
        self._types.update(found)
        for name in found:
            shape = self.shape(name)
            if shape is not None and (min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS):
                raise InvalidModel(
                    f"{place_of(foreign)}: its result '{name}' would have the "
                    f"shape {show_shape(shape)}. Export the network again, or check --input-shapes."
                )


def _schema(node: ForeignNode) -> Any:
    try:
        version = max(node.version, 0 if node.domain else RIGHT_SINCE.get(node.op_type, 0))
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None


def _type_of(array: Array) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype)), array.shape)


def _last_words(error: Exception) -> str:
    """Return the reason inside an inference error, without its place in onnx and without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else "unknown reason").rpartition("] ")[2].rstrip(".")
