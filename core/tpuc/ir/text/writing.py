"""Print types, attributes and locations."""

from __future__ import annotations

from collections.abc import Iterable

from tpuc.ir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
)
from tpuc.ir.operation import Location
from tpuc.ir.text.numbers import format_float
from tpuc.ir.text.scanner import name_or_quoted, quote
from tpuc.ir.types import (
    DYNAMIC,
    Calibrated,
    ElementType,
    FunctionType,
    NoneType,
    OpaqueType,
    ScalarType,
    TensorType,
    Type,
    Uniform,
    UniformPerAxis,
)

_WITHOUT_MARK = ("tuple<", "vector<", "memref<", "complex<")


def type_text(type: Type) -> str:
    """A type as MLIR writes it."""
    match type:
        case TensorType(shape=shape, element=element, encoding=encoding):
            address = "" if encoding is None else f", {attribute_text(encoding)}"
            return f"tensor<{_shape_text(shape)}{element_text(element)}{address}>"
        case NoneType():
            return "none"
        case FunctionType():
            return function_type_text(type)
        case ScalarType() | OpaqueType():
            return element_text(type)


def function_type_text(type: FunctionType) -> str:
    """`(types) -> types`."""
    return f"({', '.join(map(type_text, type.inputs))}) -> {results_text(list(map(type_text, type.results)))}"


def results_text(results: list[str]) -> str:
    """Result types; a single one has no parentheses, unless it is a function type."""
    if len(results) == 1 and not results[0].startswith("("):
        return results[0]
    return f"({', '.join(results)})"


def element_text(element: ElementType) -> str:
    """An element type as MLIR writes it."""
    match element:
        case ScalarType(name=name):
            return name
        case Calibrated(expressed=expressed, minimum=minimum, maximum=maximum):
            return f"!quant.calibrated<{expressed.name}<{format_float(minimum)}:{format_float(maximum)}>>"
        case Uniform(scale=scale, zero_point=zero_point):
            return f"!quant.uniform<{_storage_text(element)}, {_scale_text(scale, zero_point)}>"
        case UniformPerAxis(axis=axis, scales=scales, zero_points=zero_points):
            pairs = ",".join(map(_scale_text, scales, zero_points))
            return f"!quant.uniform<{_storage_text(element)}:{axis}, {{{pairs}}}>"
        case OpaqueType(text=text):
            return text if text.startswith(_WITHOUT_MARK) else f"!{text}"


def attribute_text(attribute: Attribute) -> str:
    """An attribute as MLIR writes it."""
    match attribute:
        case IntegerAttr(value=value, type=type):
            return f"{value} : {type.name}"
        case FloatAttr(value=value, type=type):
            return f"{format_float(value, type.name)} : {type.name}"
        case BoolAttr(value=value):
            return "true" if value else "false"
        case StringAttr(value=value):
            return quote(value)
        case UnitAttr():
            return "unit"
        case ArrayAttr(items=items):
            return f"[{', '.join(map(_item_text, items))}]"
        case DenseArrayAttr(element=element, items=items):
            return dense_array_text(element.name, items)
        case TypeAttr(type=type):
            return type_text(type)
        case SymbolAttr(name=name):
            return symbol_text(name)
        case DictAttr(items=items):
            return dictionary_text(items)
        case DialectAttr(text=text):
            return text


def entry_text(name: str, attribute: Attribute) -> str:
    """`name = attribute`, the name alone for a unit."""
    key = name_or_quoted(name)
    return key if isinstance(attribute, UnitAttr) else f"{key} = {attribute_text(attribute)}"


def dictionary_text(items: Iterable[tuple[str, Attribute]]) -> str:
    """`{...}` sorted by name, as MLIR keeps its dictionaries."""
    return f"{{{', '.join(entry_text(name, attribute) for name, attribute in sorted(items, key=_name_of))}}}"


def dense_array_text(element: str, items: Iterable[int | float | bool]) -> str:
    """`array<i64: 1, 2>`."""
    if element == "i1":
        texts = ["true" if item else "false" for item in items]
    elif ScalarType(element).is_float:
        texts = [format_float(item, element) for item in items]
    else:
        texts = [str(int(item)) for item in items]
    return f"array<{element}: {', '.join(texts)}>" if texts else f"array<{element}>"


def symbol_text(name: str) -> str:
    """`@name`; a path `outer::@name` stays unchanged."""
    return f"@{name if '::@' in name else name_or_quoted(name)}"


def location_text(location: Location) -> str:
    """The inside of `loc(...)`, without aliases."""
    if location.text is not None:
        return location.text
    names = location.names
    if len(names) == 1:
        return quote(names[0])
    return f"fused[{', '.join(map(quote, names))}]" if names else "unknown"


def _name_of(item: tuple[str, Attribute]) -> str:
    return item[0]


def _item_text(attribute: Attribute) -> str:
    """An item of an array: 64-bit numbers are printed without their type."""
    match attribute:
        case IntegerAttr(value=value, type=ScalarType(name="i64")):
            return str(value)
        case FloatAttr(value=value, type=ScalarType(name="f64")):
            return format_float(value)
        case _:
            return attribute_text(attribute)


def _shape_text(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "*x"
    return "".join(["?x" if extent == DYNAMIC else f"{extent}x" for extent in shape])


def _storage_text(element: Uniform | UniformPerAxis) -> str:
    storage, expressed = element.storage.name, element.expressed.name
    if element.low is None and element.high is None:
        return f"{storage}:{expressed}"
    plain = Uniform(element.storage, element.expressed, 1.0)
    low, high = Uniform(element.storage, element.expressed, 1.0, 0, element.low, element.high).bounds
    return f"{storage}:{expressed}" if (low, high) == plain.bounds else f"{storage}<{low}:{high}>:{expressed}"


def _scale_text(scale: float, zero_point: int) -> str:
    return f"{format_float(scale)}:{zero_point}" if zero_point else format_float(scale)
