"""MLIR attributes, and the typed fields that op definitions use for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from tpuc.ir.types import ScalarType, Type


@dataclass(frozen=True, slots=True)
class IntegerAttr:
    """`1 : i64`, or `1` alone where the op's field gives the type."""

    value: int
    type: ScalarType = ScalarType("i64")
    is_typed: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class FloatAttr:
    """`-1.000000e+00 : f64`, or the number alone where the op's field gives the type."""

    value: float
    type: ScalarType = ScalarType("f64")
    is_typed: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class BoolAttr:
    """`true`."""

    value: bool


@dataclass(frozen=True, slots=True)
class StringAttr:
    """`"text"`."""

    value: str


@dataclass(frozen=True, slots=True)
class UnitAttr:
    """An attribute that consists of its name only."""


@dataclass(frozen=True, slots=True)
class ArrayAttr:
    """`[1, 2.0, "a"]`."""

    items: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class DenseArrayAttr:
    """`array<i32: 1, 2>`."""

    element: ScalarType
    items: tuple[int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class TypeAttr:
    """A type used as an attribute."""

    type: Type


@dataclass(frozen=True, slots=True)
class SymbolAttr:
    """`@name` or `@outer::@name`, without the first `@`."""

    name: str


@dataclass(frozen=True, slots=True)
class DictAttr:
    """`{a = 1 : i64}`."""

    items: tuple[tuple[str, Attribute], ...]


@dataclass(frozen=True, slots=True)
class DialectAttr:
    """`#tpu<round_mode HalfUp>`, `#tpu.lg<...>`, `dense<...> : ...`: kept as text, with the leading `#` if any."""

    text: str


Attribute: TypeAlias = (
    IntegerAttr
    | FloatAttr
    | BoolAttr
    | StringAttr
    | UnitAttr
    | ArrayAttr
    | DenseArrayAttr
    | TypeAttr
    | SymbolAttr
    | DictAttr
    | DialectAttr
)


@dataclass(frozen=True, slots=True)
class IntKind:
    """A Python int printed as `value : width`; `former` are widths that older files use."""

    width: str
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FloatKind:
    """A Python float printed as `value : width`."""

    width: str


@dataclass(frozen=True, slots=True)
class BoolKind:
    """A Python bool printed as `true` or `false`."""


@dataclass(frozen=True, slots=True)
class StringKind:
    """A Python str printed in quotes; `others` are pairs of an alternative spelling and its value."""

    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """A tuple printed as `[...]`; items print as `item` does, i64 and f64 without their width."""

    item: IntKind | FloatKind | BoolKind | StringKind


@dataclass(frozen=True, slots=True)
class DenseArrayKind:
    """A tuple printed as `array<width: ...>`."""

    width: str


@dataclass(frozen=True, slots=True)
class EnumKind:
    """A Python str printed as `#dialect<mnemonic Value>`."""

    dialect: str
    mnemonic: str


@dataclass(frozen=True, slots=True)
class CodeKind:
    """A Python str or bool printed as its code in `values`, an integer or a float of that width."""

    width: str
    values: tuple[str, ...] | tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SingleKind:
    """A Python int or float printed as a list of one element."""

    item: IntKind | FloatKind


@dataclass(frozen=True, slots=True)
class SymbolKind:
    """A Python str printed as `@name`."""


@dataclass(frozen=True, slots=True)
class RawKind:
    """An `Attribute` kept unchanged."""


FieldKind: TypeAlias = (
    IntKind
    | FloatKind
    | BoolKind
    | StringKind
    | SymbolKind
    | ArrayKind
    | DenseArrayKind
    | EnumKind
    | CodeKind
    | SingleKind
    | RawKind
)

# Field annotations of op definitions. The value is a plain Python one; the kind says how MLIR writes it.
I64 = Annotated[int, IntKind("i64")]
I32 = Annotated[int, IntKind("i32")]
SI32 = Annotated[int, IntKind("si32")]
F64 = Annotated[float, FloatKind("f64")]
F32 = Annotated[float, FloatKind("f32")]
Bool = Annotated[bool, BoolKind()]
Str = Annotated[str, StringKind()]
I64Array = Annotated[tuple[int, ...], ArrayKind(IntKind("i64"))]
I32Array = Annotated[tuple[int, ...], ArrayKind(IntKind("i32"))]
F64Array = Annotated[tuple[float, ...], ArrayKind(FloatKind("f64"))]
Symbol = Annotated[str, SymbolKind()]
StrArray = Annotated[tuple[str, ...], ArrayKind(StringKind())]
DenseI32Array = Annotated[tuple[int, ...], DenseArrayKind("i32")]
DenseI64Array = Annotated[tuple[int, ...], DenseArrayKind("i64")]
RoundMode = Annotated[str, EnumKind("tpu", "round_mode")]
RequantMode = Annotated[str, EnumKind("tpu", "rq_mode")]
Raw = Annotated[Attribute | None, RawKind()]
