"""Conversions between the fields of an op definition and the attributes in its text."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from tpuc.ir.attributes import (
    ArrayAttr,
    ArrayKind,
    Attribute,
    BoolAttr,
    BoolKind,
    CodeKind,
    DenseArrayAttr,
    DenseArrayKind,
    DialectAttr,
    EnumKind,
    FieldKind,
    FloatAttr,
    FloatKind,
    IntegerAttr,
    IntKind,
    RawKind,
    SingleKind,
    StringAttr,
    StringKind,
    SymbolAttr,
    SymbolKind,
)
from tpuc.ir.op import Op, UnregisteredOp, op_fields
from tpuc.ir.text.numbers import format_float
from tpuc.ir.text.scanner import quote
from tpuc.ir.text.writing import attribute_text, dense_array_text, entry_text, symbol_text
from tpuc.ir.types import ScalarType


class AttributeMismatch(ValueError):
    """Attributes that do not fit the op; the message names the attribute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """Reads and writes one field as an attribute. `dump` and `text` are never called with None."""

    name: str
    optional: bool
    default: Any
    expected: str
    load: Callable[[Attribute], Any]  # None is never a loaded value; it means: this attribute does not fit
    dump: Callable[[Any], Attribute]
    text: Callable[[Any], str]


@functools.cache
def codecs_of(op: type[Op]) -> tuple[Codec, ...]:
    """The codecs of an op's fields, sorted by name as MLIR prints them."""
    fields = sorted(op_fields(op), key=lambda field: field.name)
    return tuple(Codec(f.name, f.optional, f.default, *_functions(f.kind)) for f in fields)


def op_from_attributes(op: type[Op], attributes: Mapping[str, Attribute]) -> tuple[Op, dict[str, Attribute]]:
    """The op, and the attributes that it does not know. Raises AttributeMismatch."""
    values: dict[str, Any] = {}
    codecs = codecs_of(op)
    known = 0
    for codec in codecs:
        attribute = attributes.get(codec.name)
        if attribute is None:
            if codec.default is dataclasses.MISSING:
                if not codec.optional:
                    raise AttributeMismatch(f"attribute '{codec.name}' is missing; add {codec.name} = {codec.expected}")
                values[codec.name] = None
            continue
        known += 1
        value = codec.load(attribute)
        if value is None:
            found = attribute_text(attribute)
            raise AttributeMismatch(f"attribute '{codec.name}' must be {codec.expected}, this one is {found}")
        values[codec.name] = value
    if known == len(attributes):
        return op(**values), {}
    names = {codec.name for codec in codecs}
    return op(**values), {name: value for name, value in attributes.items() if name not in names}


def attributes_of(op: Op) -> dict[str, Attribute]:
    """The fields of an op as attributes, sorted by name; absent optional ones are left out."""
    if isinstance(op, UnregisteredOp):
        return {}
    result: dict[str, Attribute] = {}
    for codec in codecs_of(type(op)):
        value = getattr(op, codec.name)
        if value is not None:
            result[codec.name] = codec.dump(value)
    return result


def op_attributes_text(op: Op, extra: Mapping[str, Attribute]) -> str:
    """` {...}` of an operation, empty when it has no attributes."""
    entries: list[str] = []
    if not isinstance(op, UnregisteredOp):
        for codec in codecs_of(type(op)):
            value = getattr(op, codec.name)
            if value is not None:
                text = codec.text(value)
                entries.append(f"{codec.name} = {text}" if text != "unit" else codec.name)
    if not extra:
        return f" {{{', '.join(entries)}}}" if entries else ""
    named = [(entry.partition(" = ")[0], entry) for entry in entries]
    named += [(name, entry_text(name, attribute)) for name, attribute in extra.items()]
    return f" {{{', '.join(entry for _, entry in sorted(named))}}}"


def _functions(
    kind: FieldKind,
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    """A description of the expected value, and the functions load, dump and text."""
    match kind:
        case IntKind(width=width, former=former):
            return _integer(width, former)
        case FloatKind(width=width):
            return _float(width)
        case BoolKind():
            return "true or false", _load_bool, BoolAttr, _bool_text
        case StringKind(others=others):
            return _string(dict(others))
        case SymbolKind():
            return "a symbol such as @name", _load_symbol, SymbolAttr, symbol_text
        case ArrayKind(item=item):
            return _array(item)
        case DenseArrayKind(width=width):
            return _dense_array(width)
        case EnumKind(dialect=dialect, mnemonic=mnemonic):
            return _enum(dialect, mnemonic)
        case CodeKind(width=width, values=values):
            return _code(width, values)
        case SingleKind(item=item):
            return _single(item)
        case RawKind():
            return "an attribute", _load_raw, _load_raw, attribute_text


def _load_raw(attribute: Attribute) -> Attribute:
    return attribute


def _load_bool(attribute: Attribute) -> bool | None:
    return attribute.value if isinstance(attribute, BoolAttr) else None


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _string(
    others: Mapping[str, str],
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    def load(attribute: Attribute) -> str | None:
        return others.get(attribute.value, attribute.value) if isinstance(attribute, StringAttr) else None

    return "a string in quotes", load, StringAttr, quote


def _load_symbol(attribute: Attribute) -> str | None:
    return attribute.name if isinstance(attribute, SymbolAttr) else None


def _integer(
    width: str, former: tuple[str, ...] = ()
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    scalar = ScalarType(width)
    taken = {width, *former}

    def load(attribute: Attribute) -> int | None:
        if not isinstance(attribute, IntegerAttr) or (attribute.is_typed and attribute.type.name not in taken):
            return None
        return attribute.value

    def dump(value: int) -> Attribute:
        return IntegerAttr(int(value), scalar)

    def text(value: int) -> str:
        return f"{int(value)} : {width}"

    return f"an integer such as 1 : {width}", load, dump, text


def _float(width: str) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    scalar = ScalarType(width)

    def load(attribute: Attribute) -> float | None:
        match attribute:
            case FloatAttr(value=value, type=type, is_typed=is_typed) if type == scalar or not is_typed:
                return value
            case IntegerAttr(value=value, is_typed=False):
                return float(value)
            case _:
                return None

    def dump(value: float) -> Attribute:
        return FloatAttr(float(value), scalar)

    def text(value: float) -> str:
        return f"{format_float(float(value), width)} : {width}"

    return f"a float such as 1.0 : {width}", load, dump, text


def _array(
    item: IntKind | FloatKind | BoolKind | StringKind,
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    expected, load_item, dump_item, text_item = _functions(item)
    if item == IntKind("i64"):
        text_item = _plain_integer_text
    elif item == FloatKind("f64"):
        text_item = _plain_float_text

    def load(attribute: Attribute) -> tuple[Any, ...] | None:
        if not isinstance(attribute, ArrayAttr):
            return None
        values = tuple(map(load_item, attribute.items))
        return None if None in values else values

    def dump(value: tuple[Any, ...]) -> Attribute:
        return ArrayAttr(tuple(map(dump_item, value)))

    def text(value: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(text_item, value))}]"

    return f"a list whose items are each {expected}", load, dump, text


def _single(
    item: IntKind | FloatKind,
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    _, load_items, dump_items, text_items = _array(item)
    expected, *_ = _functions(item)

    def load(attribute: Attribute) -> int | float | None:
        if isinstance(attribute, (IntegerAttr, FloatAttr)):
            return attribute.value
        items = load_items(attribute)
        return items[0] if items is not None and len(items) == 1 else None

    def dump(value: float) -> Attribute:
        return dump_items((value,))

    def text(value: float) -> str:
        return text_items((value,))

    return f"a list of {expected} alone", load, dump, text


def _plain_integer_text(value: int) -> str:
    return str(int(value))


def _plain_float_text(value: float) -> str:
    return format_float(float(value))


def _dense_array(
    width: str,
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    scalar = ScalarType(width)

    def load(attribute: Attribute) -> tuple[Any, ...] | None:
        return attribute.items if isinstance(attribute, DenseArrayAttr) and attribute.element == scalar else None

    def dump(value: tuple[Any, ...]) -> Attribute:
        return DenseArrayAttr(scalar, tuple(value))

    def text(value: tuple[Any, ...]) -> str:
        return dense_array_text(width, value)

    return f"an array such as array<{width}: 1>", load, dump, text


def _code(
    width: str, values: tuple[str, ...] | tuple[bool, ...]
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    is_float = ScalarType(width).is_float
    _, load_number, dump_number, text_number = _float(width) if is_float else _integer(width)

    def load(attribute: Attribute) -> str | bool | None:
        if isinstance(attribute, (StringAttr, BoolAttr)):
            return attribute.value if attribute.value in values else None
        number = load_number(attribute)
        return None if number is None else next((one for code, one in enumerate(values) if code == number), None)

    codes = {value: code for code, value in enumerate(values)}

    def dump(value: str | bool) -> Attribute:
        if value in codes:
            return dump_number(codes[value])
        return StringAttr(value) if isinstance(value, str) else BoolAttr(value)

    def text(value: str | bool) -> str:
        return text_number(codes[value]) if value in codes else attribute_text(dump(value))

    known = ", ".join(f"{code} for {value}" for value, code in codes.items())
    return f"a number : {width}, {known}", load, dump, text


def _enum(
    dialect: str, mnemonic: str
) -> tuple[str, Callable[[Attribute], Any], Callable[[Any], Attribute], Callable[[Any], str]]:
    pattern = re.compile(rf"#{re.escape(dialect)}<\s*{re.escape(mnemonic)}\s+([\w.$-]+)\s*>")

    def load(attribute: Attribute) -> str | None:
        match = pattern.fullmatch(attribute.text) if isinstance(attribute, DialectAttr) else None
        return match.group(1) if match else None

    def dump(value: str) -> Attribute:
        return DialectAttr(text(value))

    def text(value: str) -> str:
        return f"#{dialect}<{mnemonic} {value}>"

    return f"a choice such as #{dialect}<{mnemonic} Name>", load, dump, text
