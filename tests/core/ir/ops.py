"""A small dialect of its own for the tests of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import (
    F64,
    I64,
    SI32,
    Bool,
    F64Array,
    I64Array,
    Node,
    Op,
    Raw,
    RoundMode,
    Str,
    StrArray,
    Types,
)
from tpuc.api.text import CodeKind, IntKind, SingleKind, Slots, StringKind
from tpuc.ir.attributes import DenseI32Array
from tpuc.ir.dialect import Dialect
from tpuc.ir.traits import Absent, Constant, FusesRelu, NetworkInput, RunsInPlace, SideEffects
from tpuc.ir.types import F32, TensorType

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Weight(Op, Constant):
    name = "t.Weight"


@dataclass(frozen=True)
class Nothing(Op, Absent):
    name = "t.None"


@dataclass(frozen=True)
class Input(Op, NetworkInput):
    name = "t.Input"

    def infer(self, operands: Types) -> Types:
        return operands

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return operands


@dataclass(frozen=True)
class Relu(Op):
    name = "t.Relu"
    relu_limit: F64 = -1.0

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        return [np.clip(x, 0, self.relu_limit if self.relu_limit > 0 else None)]


@dataclass(frozen=True)
class MatMul(Op, FusesRelu):
    """`x @ w + bias`, bias optional."""

    name = "t.MatMul"
    do_relu: Bool = False
    relu_limit: F64 = -1.0

    def infer(self, operands: Types) -> Types:
        x, w, _ = operands
        if x.dims[-1] != w.dims[0]:
            raise ValueError(f"inner extents {x.dims[-1]} and {w.dims[0]} differ")
        return (TensorType((x.dims[0], w.dims[1]), F32),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, w, bias = operands
        y = x @ w + (bias if bias.size else 0)
        return [np.maximum(y, 0) if self.do_relu else y]


@dataclass(frozen=True)
class Split(Op):
    """Halves along the last axis."""

    name = "t.Split"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        return np.split(x, 2, axis=-1)


@dataclass(frozen=True)
class Add(Op):
    name = "t.Add"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0] + operands[1]]


@dataclass(frozen=True)
class Group(Op, RunsInPlace):
    name = "t.Group"


@dataclass(frozen=True)
class Yield(Op):
    name = "t.Yield"


@dataclass(frozen=True)
class Print(Op, SideEffects):
    name = "t.Print"


@dataclass(frozen=True)
class Everything(Op):
    """One field of each kind."""

    name = "t.Everything"
    axis: SI32
    kernel: I64Array
    group: I64 = 1
    alpha: F64 | None = None
    flags: Bool = True
    indices: DenseI32Array = ()
    labels: StrArray = ()
    mode: RoundMode = "HalfUp"
    scale: F64Array = ()
    text: Str = ""
    zraw: Raw = None


@dataclass(frozen=True)
class Listed(Op):
    """The sum of its operands, of which text lists three, and text lists two results; fields with codes."""

    name = "t.Listed"
    slots = Slots(3, kept=1, absent="t.None", results=2)
    count: SI32 = 1
    limit: F64 = 0.5
    mode: Annotated[str, CodeKind("i64", ("none", "add"))] = "none"
    shift: Annotated[int, SingleKind(IntKind("i64"))] = 0
    word: Annotated[str, StringKind((("F32", "FLOAT"),))] = ""
    target: Annotated[bool, CodeKind("f64", (False, True))] = False

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [sum(operands[1:], start=operands[0])]


@dataclass(frozen=True)
class Kept(Op):
    """Two operands, of which the second may be absent."""

    name = "t.Kept"
    slots = Slots(2, kept=2, absent="t.None")


@dataclass(frozen=True)
class Pair(Op):
    """Its operand twice."""

    name = "t.Pair"

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x, x)


OPS: dict[str, type[Op]] = {
    op.name: op
    for op in (Weight, Nothing, Input, Relu, MatMul, Split, Add, Group, Yield, Print, Everything, Listed, Kept, Pair)
}

resolve = OPS.get

DIALECTS = {"t": Dialect("t", {name.removeprefix("t."): f"{__name__}:{op.__name__}" for name, op in OPS.items()})}
