"""Constants of `tf`: small ones in the module's text, large ones among its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from tpuc.api import (
    Attribute,
    DialectAttr,
    Location,
    Module,
    OpaqueType,
    Operation,
    ScalarType,
    StringAttr,
    TensorType,
    free_name,
    numpy_dtype,
    parse_type,
    scalar_of,
)
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.tf import definition, is_tf

MOST_TEXT = 64
"""Maximum number of elements of a constant that is written as text."""

_DENSE = re.compile(r"dense<(.*)>\s*:\s*(tensor<.*>)", re.DOTALL)
_TOKEN = re.compile(r'true|false|"(?:[^"\\]|\\.)*"|[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|inf|nan)')
_STRING = OpaqueType("tf.string")


def dense_attribute(array: Array) -> DialectAttr:
    """Return `dense<...> : tensor<...>`."""
    extents = "".join(f"{extent}x" for extent in array.shape)
    if array.dtype.kind in "OSU":
        element, texts = "!tf.string", [f'"{_as_text(item)}"' for item in array.reshape(-1).tolist()]
    else:
        element = scalar_of(array.dtype).name
        texts = [_number_text(item) for item in array.reshape(-1).tolist()]
    if len(texts) > 1 and len(set(texts)) == 1:
        return DialectAttr(f"dense<{texts[0]}> : tensor<{extents}{element}>")
    return DialectAttr(f"dense<{_nested(texts, array.shape)}> : tensor<{extents}{element}>")


def dense_array(attribute: Attribute) -> Array:
    """Return the array of a `dense<...>`; raises ValueError for any other text."""
    match = _DENSE.fullmatch(attribute.text) if isinstance(attribute, DialectAttr) else None
    type = parse_type(match.group(2)) if match is not None else None
    if match is None or not isinstance(type, TensorType):
        raise ValueError("its value is not written as dense<...> : tensor<...>")
    tokens = [_meaning(token) for token in _TOKEN.findall(match.group(1))]
    if type.element == _STRING:
        array = np.array(tokens, object)
    elif isinstance(type.element, ScalarType):
        array = np.array(tokens).astype(numpy_dtype(type.element)) if tokens else np.zeros(0, numpy_dtype(type.element))
    else:
        raise ValueError("its elements have no known storage")
    return np.full(type.dims, array[0]) if array.size == 1 else array.reshape(type.dims)


def constant(array: Array, module: Module, name: str) -> Operation:
    """Build a `tf.Const` of an array; a large one becomes a weight of the module."""
    attributes: dict[str, Attribute]
    if array.size <= MOST_TEXT or array.dtype.kind in "OSU":
        attributes = {"value": dense_attribute(array)}
    else:
        key = free_name(name or "constant", module.weights.__contains__)
        module.weights[key] = array
        attributes = {"weight": StringAttr(key)}
    element = _STRING if array.dtype.kind in "OSU" else scalar_of(array.dtype)
    location = Location((name,)) if name else Location()
    return Operation(definition("Const")(), (), [TensorType(array.shape, element)], location, attributes)


def constant_array(operation: Operation, module: Module) -> Array | None:
    """Return the array of a `tf.Const`, None for any other operation."""
    if not is_tf(operation, "Const"):
        return None
    attributes: Mapping[str, Attribute] = operation.extra_attributes
    match attributes.get("weight"):
        case StringAttr(value=key):
            return module.weights[key]
        case _:
            return dense_array(attributes["value"])


def _number_text(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    return repr(float(item)) if isinstance(item, float) else str(item)


def _as_text(item: Any) -> str:
    data: bytes = item if isinstance(item, bytes) else str(item).encode()
    return "".join(chr(b) if 0x20 <= b < 0x7F and b not in (0x22, 0x5C) else f"\\{b:02X}" for b in data)


def _meaning(token: str) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if token.startswith('"'):
        inside = token[1:-1].encode()
        return re.sub(rb"\\([0-9A-F]{2})", lambda match: bytes([int(match.group(1), 16)]), inside)
    try:
        return int(token)
    except ValueError:
        return float(token)


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return texts[0] if texts else ""
    step = len(texts) // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"
