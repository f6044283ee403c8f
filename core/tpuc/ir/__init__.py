"""The intermediate representation: types, attributes, op definitions, graphs and their MLIR text."""

from __future__ import annotations

from tpuc.ir.builtin import Call, Return
from tpuc.ir.dialect import Dialect, OpResolver
from tpuc.ir.form import Form, FormReader, FormWriter, Part
from tpuc.ir.op import ABSENT, Node, Op, OpField, OpT_co, StructuredOp, UnregisteredOp, op_fields
from tpuc.ir.operation import Block, Function, Location, Module, Operation, Region, Value
from tpuc.ir.types import (
    BF16,
    DYNAMIC,
    F16,
    F32,
    Calibrated,
    ElementType,
    FunctionType,
    NoneType,
    OpaqueType,
    ScalarType,
    TensorType,
    Type,
    Types,
    Uniform,
    UniformPerAxis,
)

__all__ = [
    "ABSENT",
    "BF16",
    "DYNAMIC",
    "F16",
    "F32",
    "Block",
    "Calibrated",
    "Call",
    "Dialect",
    "ElementType",
    "Form",
    "FormReader",
    "FormWriter",
    "Function",
    "FunctionType",
    "Location",
    "Module",
    "Node",
    "NoneType",
    "Op",
    "OpField",
    "OpResolver",
    "OpT_co",
    "OpaqueType",
    "Operation",
    "Part",
    "Region",
    "Return",
    "ScalarType",
    "StructuredOp",
    "TensorType",
    "Type",
    "Types",
    "Uniform",
    "UniformPerAxis",
    "UnregisteredOp",
    "Value",
    "op_fields",
]
