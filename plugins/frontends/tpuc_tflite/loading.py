"""Load a file as a checked graph.

The flatbuffers reader follows any offset, so everything it returns is checked before use: vectors lie inside the file,
all of them together are not much larger than it, and indices are in range.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import ForeignNode, InvalidModel, Unsupported
from tpuc_importing.files import read_bytes
from tpuc_ops.arrays import Array

from tpuc_tflite.graph import MOST_ELEMENTS, Graph, Quantization, Shape, TensorEntry
from tpuc_tflite.options import CUSTOM, OptionReader, members
from tpuc_tflite.sparse import Level, densify

SCHEMA_VERSION = 3
"""The only version ever written: the schema grows in compatible steps."""

INTERMEDIATES = "intermediates"
"""The attribute that lists an operator's inner tensors, which hold the scales of values."""

SUBGRAPH_ATTRIBUTES = ("then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index")
"""Attributes that name subgraphs run by control flow; graphs of `init_subgraph_index` initialize variables."""
_WITHOUT_RESULT = frozenset(("ASSIGN_VARIABLE", "CALL_ONCE"))
"""Operators that legally have no result: they run a graph that initializes variables, or write one."""

_DTYPES = {
    "BOOL": np.bool_,
    "FLOAT16": np.float16,
    "FLOAT32": np.float32,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
}
_BROKEN = (struct.error, ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError, KeyError)
"""Exceptions that the reader raises when it follows a wrong offset."""


def load_graph(path: Path) -> Graph:
    """Return the first subgraph of a file with the subgraphs that it runs; raises InvalidModel or Unsupported."""
    content = _read(path)
    tflite = _tflite(path)
    try:
        return _Loader(tflite, content, str(path)).graph()
    except _BROKEN as error:
        raise InvalidModel(
            f"{path}: is damaged or truncated ({len(content)} bytes): its tables do not lie inside it. Export or "
            "download it again."
        ) from error


def _read(path: Path) -> bytes:
    content = read_bytes(path)
    if len(content) < 16 or content[4:8] != b"TFL3":
        raise InvalidModel(
            f"{path}: not a TFLite file, or a truncated one ({len(content)} bytes): it lacks the identifier TFL3. "
            "Export or download it again."
        )
    return content


def _tflite(path: Path) -> Any:
    try:
        return importlib.import_module("tflite")
    except ImportError:
        raise Unsupported(f"{path}: reading TFLite files needs the package tflite: pip install tflite") from None


def _without_elements(tensor: TensorEntry) -> TensorEntry:
    """A constant, where there is nothing to store: its buffer looks like that of a computed value."""
    if tensor.data is not None or tensor.is_variable or 0 not in tensor.shape or -1 in tensor.signature:
        return tensor
    return dataclasses.replace(tensor, data=np.zeros(tensor.shape, _DTYPES.get(tensor.kind, np.float32)))


class _Loader:
    """Loads one file. `_budget`: how many elements may still be read; files share vectors, but not endlessly."""

    def __init__(self, tflite: Any, content: bytes, source: str) -> None:
        self._tflite = tflite
        self._content = content
        self._source = source
        self._budget = 8 * len(content) + 4096
        self._kinds = {number: name for name, number in members(tflite.TensorType)}
        self._operators = {number: name for name, number in members(tflite.BuiltinOperator)}
        self._options = OptionReader(tflite, self._ints)
        self._model = tflite.Model.GetRootAs(content, 0)

    def graph(self) -> Graph:
        """Return the first subgraph, with those that its control flow may run."""
        model = self._model
        if model.Version() != SCHEMA_VERSION:
            raise Unsupported(
                f"{self._source}: has schema version {model.Version()}, but only version {SCHEMA_VERSION} is "
                "supported. "
                "Convert the network again with a current converter."
            )
        if self._count(model.SubgraphsLength()) < 1:
            raise self._error("holds no graph")
        codes = [self._operator_name(model.OperatorCodes(i)) for i in range(self._count(model.OperatorCodesLength()))]
        first = self._subgraph(0, codes)
        if not first.inputs or not first.outputs:
            raise Unsupported(
                f"{self._source}: its graph has no inputs, or no outputs, so there is nothing to compile. Export the "
                "part that computes."
            )
        return dataclasses.replace(first, subgraphs=self._called(first, codes))

    def _called(self, first: Graph, codes: list[tuple[str, str, int]]) -> dict[int, Graph]:
        """Return every subgraph that control flow names, directly or indirectly."""
        found: dict[int, Graph] = {}
        waiting = [first]
        while waiting:
            for node in waiting.pop().nodes:
                named = (*SUBGRAPH_ATTRIBUTES, "init_subgraph_index")
                numbers = [int(node.attributes.get(name, 0)) for name in named]
                for index in numbers if not node.domain else []:
                    if index == 0 or index in found:
                        continue
                    if not 0 < index < self._model.SubgraphsLength():
                        raise self._error(f"is damaged: node '{node.name}' runs graph {index}, which does not exist")
                    found[index] = self._subgraph(index, codes)
                    waiting.append(found[index])
        return found

    def _subgraph(self, index: int, codes: list[tuple[str, str, int]]) -> Graph:
        subgraph = self._model.Subgraphs(index)
        tensors = self._tensors(subgraph)
        names = [tensor.name for tensor in tensors]
        inputs = self._pick(names, self._ints(subgraph, "Inputs"), "the graph's inputs")
        outputs = self._pick(names, self._ints(subgraph, "Outputs"), "the graph's outputs")
        count = self._count(subgraph.OperatorsLength())
        nodes = [self._node(subgraph.Operators(i), i, codes, names) for i in range(count)]
        computed = {name for node in nodes for name in node.outputs}.union(inputs)
        tensors = [tensor if tensor.name in computed else _without_elements(tensor) for tensor in tensors]
        title = (subgraph.Name() or b"main").decode("utf-8", "replace") or "main"
        return Graph(self._source, title, {t.name: t for t in tensors}, tuple(nodes), inputs, outputs)

    def _error(self, reason: str) -> InvalidModel:
        return InvalidModel(f"{self._source}: {reason}. Export or download it again.")

    def _count(self, length: int, size: int = 4) -> int:
        """Return a vector's length, after checking that its elements fit into the file and the remaining budget."""
        self._budget -= length
        if length * size > len(self._content) or self._budget < 0:
            raise self._error(f"is damaged: a list claims {length} entries, more than the file can hold")
        return length

    def _ints(self, table: Any, field: str) -> Array:
        """Return a vector of numbers."""
        if not self._count(getattr(table, f"{field}Length")(), 1):
            return np.zeros(0, np.int64)
        array: Array = getattr(table, f"{field}AsNumpy")()
        return array

    def _pick(self, names: Sequence[str], indices: Array, what: str) -> tuple[str, ...]:
        """Return tensors by index; -1 is an absent one."""
        numbers = [int(index) for index in indices]
        for index in numbers:
            if not -1 <= index < len(names):
                raise self._error(f"is damaged: {what} name tensor {index}, but there are only {len(names)}")
        return tuple(names[index] if index >= 0 else "" for index in numbers)

    # Operators

    def _operator_name(self, code: Any) -> tuple[str, str, int]:
        """Return domain, name, and version."""
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._operators.get(number, f"OPERATOR_{number}")
        if name == "CUSTOM":
            return "custom", (code.CustomCode() or b"").decode("utf-8", "replace"), code.Version()
        return "", name, code.Version()

    def _node(self, operator: Any, position: int, codes: list[tuple[str, str, int]], names: list[str]) -> ForeignNode:
        index = int(operator.OpcodeIndex())
        if index >= len(codes):
            raise self._error(f"is damaged: operator {position} has code {index}, but there are only {len(codes)}")
        domain, op_type, version = codes[index]
        what = f"operator {position} ({op_type})"
        inputs = self._pick(names, self._ints(operator, "Inputs"), f"the inputs of {what}")
        outputs = self._pick(names, self._ints(operator, "Outputs"), f"the outputs of {what}")
        if not outputs and op_type in _WITHOUT_RESULT:
            return ForeignNode(op_type, what, inputs, (), self._options(operator), domain, version, self._source)
        if not outputs and domain:
            raise Unsupported(
                f"{self._source}: {what} has no result, so its effect on the network is unknown. Export "
                "the network without it."
            )
        if not outputs or "" in outputs:
            raise self._error(f"is damaged: {what} has no result")
        attributes = self._options(operator)
        if domain:
            attributes = {**attributes, CUSTOM: self._ints(operator, "CustomOptions").astype(np.uint8).tobytes()}
        inner = self._pick(names, self._ints(operator, "Intermediates"), f"the intermediates of {what}")
        if inner:
            attributes = {**attributes, INTERMEDIATES: inner}
        return ForeignNode(op_type, outputs[0], inputs, outputs, attributes, domain, version, self._source)

    # Tensors

    def _tensors(self, subgraph: Any) -> list[TensorEntry]:
        count = self._count(subgraph.TensorsLength())
        raw = [subgraph.Tensors(i) for i in range(count)]
        taken: set[str] = set()
        return [self._tensor(tensor, self._name(tensor, i, taken)) for i, tensor in enumerate(raw)]

    def _name(self, tensor: Any, index: int, taken: set[str]) -> str:
        """Return a unique name of a tensor; the file may omit or repeat names."""
        text: bytes = tensor.Name() or b""
        self._count(len(text), 1)
        name = text.decode("utf-8", "replace") or f"tensor_{index}"
        if name in taken:
            name = f"{name}_{index}"
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    def _tensor(self, tensor: Any, name: str) -> TensorEntry:
        kind = self._kinds.get(tensor.Type(), f"type {tensor.Type()}")
        shape = self._shape(self._ints(tensor, "Shape"), name)
        signature = tuple(int(extent) for extent in self._ints(tensor, "ShapeSignature"))
        entry = TensorEntry(
            name,
            kind,
            shape,
            signature if len(signature) == len(shape) else shape,
            self._quantization(tensor, name, shape),
            None,
            bool(tensor.IsVariable()),
        )
        data = self._data(tensor, entry)
        return entry if data is None else dataclasses.replace(entry, data=data)

    def _shape(self, extents: Array, name: str) -> Shape:
        shape = tuple(int(extent) for extent in extents)
        if min(shape, default=1) < 0 or math.prod(shape) > MOST_ELEMENTS or len(shape) > 16:
            raise self._error(f"tensor '{name}' has the impossible shape {'x'.join(map(str, shape[:16]))}")
        return shape

    def _quantization(self, tensor: Any, name: str, shape: Shape) -> Quantization | None:
        table = tensor.Quantization()
        if table is None:
            return None
        if table.DetailsType():
            raise Unsupported(f"{self._source}: tensor '{name}' has a custom kind of quantization. Export it without.")
        scales = tuple(float(scale) for scale in self._ints(table, "Scale"))
        if not scales:
            return None
        zeros = tuple(int(zero) for zero in self._ints(table, "ZeroPoint")) or (0,)
        if len(zeros) == 1:
            zeros *= len(scales)
        axis = int(table.QuantizedDimension())
        if not all(math.isfinite(scale) and scale > 0 for scale in scales):
            if len(scales) == 1 and scales[0] == 0:
                return None  # what converters write for values that were never seen
            raise self._error(f"tensor '{name}' has a quantization scale that is not a positive number")
        fits = len(scales) == 1 or (0 <= axis < len(shape) and shape[axis] == len(scales))
        if len(zeros) != len(scales) or not fits:
            raise self._error(
                f"tensor '{name}' has {len(scales)} scales and {len(zeros)} zero points along dimension {axis} of "
                f"{'x'.join(map(str, shape)) or 'a scalar'}"
            )
        return Quantization(scales, zeros, axis)

    def _data(self, tensor: Any, entry: TensorEntry) -> Array | None:
        index = tensor.Buffer()
        count = self._model.BuffersLength()
        if index >= count:
            raise self._error(f"is damaged: tensor '{entry.name}' names buffer {index}, but there are only {count}")
        if index == 0 and not entry.is_variable:
            return None
        content = self._bytes(self._model.Buffers(index), entry.name)
        if not content.size or entry.is_variable:
            return None
        size = math.prod(entry.shape)
        if entry.kind == "INT4" and tensor.Sparsity() is None:
            return self._nibbles(content, entry, size)
        dtype = _DTYPES.get(entry.kind)
        if dtype is None:
            raise Unsupported(
                f"{self._source}: weight '{entry.name}' holds elements of {entry.kind}. Export it as float."
            )
        if tensor.Sparsity() is not None:
            return self._sparse(tensor.Sparsity(), entry, content, np.dtype(dtype))
        if content.size != size * np.dtype(dtype).itemsize:
            raise self._mismatch(entry, content.size, size * np.dtype(dtype).itemsize)
        if dtype is np.bool_:
            return (content != 0).reshape(entry.shape)
        return content.view(np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False).reshape(entry.shape)

    def _sparse(self, table: Any, entry: TensorEntry, content: Array, dtype: np.dtype[Any]) -> Array:
        """Expand a weight whose buffer holds only some values."""
        if content.size % dtype.itemsize:
            raise self._error(f"weight '{entry.name}' has {content.size} bytes, not a multiple of {entry.kind}")
        values = content.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        order, blocks = ([int(axis) for axis in self._ints(table, field)] for field in ("TraversalOrder", "BlockMap"))
        levels = [self._level(table.DimMetadata(i)) for i in range(self._count(table.DimMetadataLength()))]
        try:
            return densify(values, entry.shape, order, blocks, levels)
        except ValueError as error:
            raise self._error(f"is damaged: weight '{entry.name}' is stored sparse, but {error}") from error

    def _level(self, table: Any) -> Level:
        if table.Format() == self._tflite.DimensionType.DENSE:
            return Level(int(table.DenseSize()))
        segments, indices = (
            self._index(getattr(table, name)(), getattr(table, f"{name}Type")())
            for name in ("ArraySegments", "ArrayIndices")
        )
        return Level(0, segments, indices)

    def _index(self, table: Any, kind: int) -> Array:
        """Return a vector of indices, which has one of three widths."""
        names = [name for name, number in members(self._tflite.SparseIndexVector) if number == kind]
        if not kind or not names or table is None:
            raise self._error(f"is damaged: a sparse weight has indices of kind {kind}")
        vector = getattr(self._tflite, names[0])()
        vector.Init(table.Bytes, table.Pos)
        return self._ints(vector, "Values")

    def _bytes(self, buffer: Any, name: str) -> Array:
        """Return a buffer's bytes: inside the tables, or after them in files beyond 2 GB."""
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:
            if offset + size > len(self._content):
                raise self._error(f"is truncated: weight '{name}' ends at byte {offset + size}")
            return np.frombuffer(self._content, np.uint8, size, offset)
        length = buffer.DataLength()
        if length > len(self._content):
            raise self._error(f"is damaged: weight '{name}' claims {length} bytes")
        return np.asarray(buffer.DataAsNumpy(), np.uint8) if length else np.zeros(0, np.uint8)

    def _nibbles(self, content: Array, entry: TensorEntry, size: int) -> Array:
        """Unpack two signed values per byte, the first in the low half."""
        if content.size != (size + 1) // 2:
            raise self._mismatch(entry, content.size, (size + 1) // 2)
        halves = np.stack([content & 15, content >> 4], -1).reshape(-1)[:size].astype(np.int8)
        return np.where(halves > 7, halves - 16, halves).astype(np.int8).reshape(entry.shape)

    def _mismatch(self, entry: TensorEntry, got: int, needed: int) -> InvalidModel:
        shape = "x".join(map(str, entry.shape)) or "scalar"
        return self._error(
            f"weight '{entry.name}' has {got} bytes, but its shape {shape} of {entry.kind} needs {needed}"
        )
