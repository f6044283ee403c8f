"""Types of the dialects, and TensorFlow's numbered element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuc.api import ElementType, OpaqueType, ScalarType, TensorType, Type, Value

CONTROL = OpaqueType("tf_executor.control")
TOKEN = OpaqueType("tf_executor.token")

_CONTROL_SPELLINGS = frozenset({"tf_executor.control", 'tf_executor<"control">', "_tf_executor.control"})
"""The three spellings in the dialects' documentation."""

NUMBERED: Mapping[int, str] = {
    1: "f32",
    2: "f64",
    3: "i32",
    4: "ui8",
    5: "i16",
    6: "i8",
    7: "!tf.string",
    8: "complex<f32>",
    9: "i64",
    10: "i1",
    11: "!tf.qint8",
    12: "!tf.quint8",
    13: "!tf.qint32",
    14: "bf16",
    15: "!tf.qint16",
    16: "!tf.quint16",
    17: "ui16",
    18: "complex<f64>",
    19: "f16",
    20: "!tf.resource",
    21: "!tf.variant",
    22: "ui32",
    23: "ui64",
}
"""TensorFlow's data types by number; reference types are a hundred higher."""

_REFERENCE = 100


def element_of(number: int) -> ElementType:
    """Return the element type of a data type; raises ValueError for an unknown number."""
    is_reference = number > _REFERENCE
    text = NUMBERED.get(number - _REFERENCE if is_reference else number)
    if text is None:
        raise ValueError(f"there is no data type {number}")
    if is_reference:
        return OpaqueType(f"tf.{text.removeprefix('!tf.')}ref")
    if text.startswith(("!", "complex")):
        return OpaqueType(text.removeprefix("!"))
    return ScalarType(text)


def dereferenced(type: Type) -> Type:
    """Return the type that a reference refers to."""
    match type:
        case TensorType(element=OpaqueType(text=text)) if text.startswith("tf.") and text.endswith("ref"):
            inner = text.removeprefix("tf.").removesuffix("ref")
            scalar = inner[:1] in "fiub" and inner[-1:].isdigit()
            return TensorType(type.shape, ScalarType(inner) if scalar else OpaqueType(f"tf.{inner}"))
        case _:
            return type


def is_control(type: Type) -> bool:
    """True for the type of control dependencies."""
    return isinstance(type, OpaqueType) and type.text in _CONTROL_SPELLINGS


def carries_data(type: Type) -> bool:
    """True for the type of a value, False for control and tokens."""
    return not is_control(type) and type != TOKEN


def unranked(element: ElementType) -> TensorType:
    """Return `tensor<*xELEMENT>`."""
    return TensorType(None, element)


def element_type(type: Type) -> ElementType | None:
    """Return the element type of a tensor or a scalar; None for other types."""
    match type:
        case TensorType(element=element):
            return element
        case ScalarType():
            return type
        case _:
            return None


def data_operands(operands: Sequence[Value]) -> list[Value]:
    """Return the operands without control dependencies, which come last."""
    return [value for value in operands if not is_control(value.type)]


def agree(one: Type, other: Type) -> bool:
    """True if both types can describe one value; unknown extents agree with any."""
    if not (isinstance(one, TensorType) and isinstance(other, TensorType)):
        return one == other
    if one.element != other.element:
        return False
    if one.shape is None or other.shape is None:
        return True
    pairs = zip(one.shape, other.shape, strict=False)
    return len(one.shape) == len(other.shape) and all(a == b or min(a, b) < 0 for a, b in pairs)
