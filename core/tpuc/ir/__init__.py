"""The intermediate representation: types, attributes, op definitions, graphs and their MLIR text."""

from __future__ import annotations

from tpuc.ir import verifier as verifier  # adds its rules to `Module.verify`
from tpuc.ir.builtin import Call as Call
from tpuc.ir.builtin import Return as Return
from tpuc.ir.dialect import Dialect as Dialect
from tpuc.ir.dialect import OpResolver as OpResolver
from tpuc.ir.op import ABSENT as ABSENT
from tpuc.ir.op import Form as Form
from tpuc.ir.op import FormReader as FormReader
from tpuc.ir.op import FormWriter as FormWriter
from tpuc.ir.op import Node as Node
from tpuc.ir.op import Op as Op
from tpuc.ir.op import OpField as OpField
from tpuc.ir.op import OpT_co as OpT_co
from tpuc.ir.op import Part as Part
from tpuc.ir.op import StructuredOp as StructuredOp
from tpuc.ir.op import UnregisteredOp as UnregisteredOp
from tpuc.ir.op import op_fields as op_fields
from tpuc.ir.operation import Block as Block
from tpuc.ir.operation import Function as Function
from tpuc.ir.operation import Location as Location
from tpuc.ir.operation import Module as Module
from tpuc.ir.operation import Operation as Operation
from tpuc.ir.operation import Region as Region
from tpuc.ir.operation import Value as Value
from tpuc.ir.types import BF16 as BF16
from tpuc.ir.types import DYNAMIC as DYNAMIC
from tpuc.ir.types import F16 as F16
from tpuc.ir.types import F32 as F32
from tpuc.ir.types import Calibrated as Calibrated
from tpuc.ir.types import ElementType as ElementType
from tpuc.ir.types import FunctionType as FunctionType
from tpuc.ir.types import NoneType as NoneType
from tpuc.ir.types import OpaqueType as OpaqueType
from tpuc.ir.types import ScalarType as ScalarType
from tpuc.ir.types import TensorType as TensorType
from tpuc.ir.types import Type as Type
from tpuc.ir.types import Types as Types
from tpuc.ir.types import Uniform as Uniform
from tpuc.ir.types import UniformPerAxis as UniformPerAxis
