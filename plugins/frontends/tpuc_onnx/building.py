"""What importer functions build with: values, weights and operations of the TOP function under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import TensorProto
from tpuc.api import (
    ABSENT,
    Block,
    ForeignNode,
    InvalidModel,
    Location,
    Module,
    NoneType,
    Op,
    Operation,
    ScalarType,
    TensorType,
    TpucError,
    Unsupported,
    Value,
)
from tpuc_ops import top

from tpuc_onnx.graph import Graph
from tpuc_onnx.shapes import TypeTable, show_shape

Array: TypeAlias = npt.NDArray[Any]
Importer: TypeAlias = "Callable[[ForeignNode, OnnxBuilder], Value | Sequence[Value]]"

F32 = ScalarType("f32")


class OnnxBuilder:
    """An `ImportBuilder` over the body of `main`. Names are foreign tensor names; made-up ones never meet those."""

    def __init__(self, graph: Graph, types: TypeTable, module: Module, body: Block) -> None:
        self.module = module
        self.body = body
        self.types = types
        self.node: ForeignNode | None = None
        self.values: dict[str, Value] = {}
        self._source = graph.source
        self._foreign = {name for node in graph.nodes for name in node.foreign.outputs}
        self._foreign |= {*graph.constants, *(entry.name for entry in graph.inputs)}
        self._taken: set[str] = set()
        self._none = self._append(top.None_(), (), NoneType(), Location())

    def value(self, name: str) -> Value:
        """The value of a foreign tensor; constants become weights. The empty name gives a `none` value."""
        if not name:
            return self._none
        if name not in self.values:
            array = self.types.constants.get(name)
            if array is None:
                raise self._error(f"it reads the result '{name}' of another node, which only training needs")
            self.values[name] = self._weight(name, array)
        return self.values[name]

    def constant(self, name: str) -> Array | None:
        """The array of a foreign constant (folded ones included), None when it is computed at run time."""
        return self.types.constants.get(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """The static shape of a foreign tensor."""
        shape = self.types.shape(name)
        if shape is None:
            raise self._error(f"the shape of '{name}' depends on the data, and compiled shapes are static")
        return shape

    def weight(self, name: str, array: Array) -> Value:
        """A new weight; the name is made unique."""
        return self._weight(self._unique(name), array)

    def none(self) -> Value:
        """The absent operand."""
        return self._none

    def elem_type(self, name: str) -> str:
        """The element type of a foreign tensor, as ONNX calls it in small letters: float, int64, bool, uint8, ..."""
        return TensorProto.DataType.Name(self.types.elem_type(name)).lower()

    def build(
        self, op: Op, operands: Sequence[Value], name: str, result_types: Sequence[TensorType] | None = None
    ) -> Value:
        """Append an op; `name` is the foreign output tensor's name. Result types are inferred when not given."""
        return self.build_all(op, operands, (name,), result_types)[0]

    def build_all(
        self, op: Op, operands: Sequence[Value], names: Sequence[str], result_types: Sequence[TensorType] | None = None
    ) -> list[Value]:
        """As `build`, with all results; those without a name get one from the first."""
        if result_types is None:
            result_types = self._infer(op, operands, names[0])
        chosen: list[str] = []
        for index in range(len(result_types)):
            name = (
                names[index] if index < len(names) and names[index] else f"{chosen[0] if chosen else op.name}_r{index}"
            )
            if name in self._taken or name not in self._foreign:
                name = self._unique(name)
            self._taken.add(name)
            chosen.append(name)
        operation = Operation(op, operands, result_types, Location(tuple(chosen)))
        return list(self.body.append(operation).results)

    def refuse(self, node: ForeignNode, reason: str) -> Exception:
        """The error to raise for a node that cannot be imported: it names file, node and op."""
        return Unsupported(f"{node.source}: node '{node.name}' ({node.op_type}): {reason.rstrip('.')}.")

    def _infer(self, op: Op, operands: Sequence[Value], name: str) -> Sequence[TensorType]:
        types = tuple(v.type if isinstance(v.type, TensorType) else ABSENT for v in operands)
        try:
            inferred = op.infer(types)
        except ValueError as error:
            shapes = ", ".join(show_shape(type.dims) for type in types if type is not ABSENT)
            raise InvalidModel(f"{self._place()}: {str(error).rstrip('.')} (operands {shapes}).") from error
        return [TensorType(self.shape(name), F32)] if inferred is None else inferred

    def _weight(self, name: str, array: Array) -> Value:
        if array.dtype.kind in "OSU":
            raise self._error(f"tensor '{name}' holds text, and networks compute numbers")
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(array, np.float32).reshape(array.shape)
        bad = int(np.count_nonzero(_is_bad(stored)))
        if bad:
            what = "NaN" if np.isnan(stored).any() else "infinite values"
            raise InvalidModel(
                f"{self._place()}: weight '{name}' holds {what} ({bad} of {stored.size} values). Export the network "
                "from a checkpoint whose weights are finite."
            )
        self._taken.add(name)
        self.module.weights[name] = stored
        return self._append(top.Weight(), (), TensorType(stored.shape, F32), Location((name,)))

    def _append(self, op: Op, operands: Sequence[Value], type: TensorType | NoneType, location: Location) -> Value:
        return self.body.append(Operation(op, operands, [type], location)).result

    def _unique(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._taken or candidate in self._foreign:
            candidate, count = f"{name}_{count}", count + 1
        self._taken.add(candidate)
        return candidate

    def _place(self) -> str:
        """File and node, as every sentence begins."""
        return self._source if self.node is None else f"{self._source}: node '{self.node.name}' ({self.node.op_type})"

    def _error(self, reason: str) -> TpucError:
        return Unsupported(f"{self._place()}: {reason}. Change the network, or cut it before with --output-names.")


def _is_bad(array: Array) -> Array:
    """Where there is no number. Minus infinity hides scores, and a single infinity is a limit: both are meant."""
    return np.isnan(array) if array.size == 1 else ~(array < np.inf)
