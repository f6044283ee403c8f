"""The builder that ONNX importers use: values, weights, and operations of the TOP function under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from onnx import TensorProto
from tpuc.api import F32, ForeignNode, Op, TensorType, TpucError, Unsupported, Value
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Dequantize

from tpuc_onnx.grouped import GroupedMatrix
from tpuc_onnx.shapes import TypeTable
from tpuc_onnx.stored import StoredConstant

Importer: TypeAlias = "Callable[[ForeignNode, OnnxBuilder], Value | Sequence[Value]]"


class OnnxBuilder(TopBuilder):
    """A builder that knows the ONNX types of tensors, and which are constant.

    `stored` and `grouped` hold the integers and scales of constants that were made by DequantizeLinear.
    """

    def __init__(self, source: ModuleSource, inputs: Sequence[tuple[str, TensorType]], types: TypeTable) -> None:
        self.types = types
        self.stored: dict[str, StoredConstant] = {}
        self.grouped: dict[str, GroupedMatrix] = {}
        self.left_out: dict[str, tuple[object, str]] = {}
        """Results of nodes that importers do not give: the importer, and what it did."""
        self._integers: dict[StoredConstant, Value] = {}
        super().__init__(source, inputs)

    def value(self, name: str) -> Value:
        """Return the value of a foreign tensor; constants become weights. The empty name gives a `none` value."""
        if name and name not in self.values:
            array = self.types.constants.get(name)
            if array is None:
                refused = self._error(f"it reads the result '{name}' of another node, which only training needs")
                raise self.blamed(refused, name)
            if array.dtype.kind in "OSU":
                raise self._error(f"tensor '{name}' holds strings, which are not supported")
            self.values[name] = self._stored_value(name) if name in self.stored else self.foreign_weight(name, array)
        return super().value(name)

    def blamed(self, error: TpucError, name: str) -> TpucError:
        """Attribute an error about a missing result to the importer that omitted it."""
        return error.blaming(*self.left_out[name]) if name in self.left_out else error

    def plain_constant(self, name: str) -> Array | None:
        """As `constant`, but None for integers with a scale, which a new constant would lose."""
        return None if name in self.stored else self.constant(name)

    def _stored_value(self, name: str) -> Value:
        stored = self.stored[name]
        if stored not in self._integers:
            self._integers[stored] = self.weight(stored.name, stored.integers, stored.element)
        type_ = TensorType(stored.integers.shape, F32)
        return self.build(Dequantize(), [self._integers[stored]], name, [type_])

    def constant(self, name: str) -> Array | None:
        """Return the array of a foreign constant (including folded ones), None if it is computed at run time."""
        return self.types.constants.get(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the static shape of a foreign tensor."""
        shape = self.types.shape(name)
        if shape is None:
            raise self._error(f"the shape of '{name}' depends on the data, but compiled shapes are static")
        return shape

    def elem_type(self, name: str) -> str:
        """Return the element type of a foreign tensor, as ONNX's name in lower case: float, int64, bool, uint8, ..."""
        return TensorProto.DataType.Name(self.types.elem_type(name)).lower()

    def infer(self, op: Op, operands: Sequence[Value], names: Sequence[str]) -> Sequence[TensorType]:
        """Infer result types by the op itself, else by ONNX."""
        inferred = self.inferred(op, operands)
        return [TensorType(self.shape(names[0]), F32)] if inferred is None else inferred

    def is_number(self, array: Array) -> Array:
        """Mask of legal elements: minus infinity masks scores, and a single infinity is a limit; both are allowed."""
        return ~np.isnan(array) if array.size == 1 else array < np.inf

    def _error(self, reason: str) -> TpucError:
        return Unsupported(f"{self.place()}: {reason}. Change the network, or cut it before with --output-names.")
