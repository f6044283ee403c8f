"""Casts. Every computed tensor is float32: a cast applies the effect of its target type on the values."""

from __future__ import annotations

from tpuc.api import ForeignNode, Value
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, is_integer

WIDEST_WRAP = 16
"""Bits of the widest integers whose low bits are known: wider ones are not exact in float32."""

_WIDE = ("float", "double", "float16", "bfloat16")
"""Casts to these types keep the value: the precision of computations is chosen at compilation."""


@TABLE.imports("Cast", "CastLike")
def cast(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a cast; one that keeps every value is omitted."""
    from onnx import TensorProto

    source = build.elem_type(node.inputs[0])
    if node.op_type == "Cast":
        target = TensorProto.DataType.Name(node.attributes["to"]).lower()
    else:
        target = build.elem_type(node.inputs[1])
    x, name = build.value(node.inputs[0]), node.outputs[0]
    if "string" in (source, target):
        raise build.refuse(node, f"a cast from {source} to {target} is not supported: only numbers are")
    if target == source or target in _WIDE or source == "bool" or _contains(target, source):
        return x
    if target == "bool":
        return build.build(top.CompareConst(mode="NotEqual", const_val=0.0), [x], name)
    rounding = node.attributes.get("round_mode", "up")
    if target == "float8e8m0" and rounding != "up":
        raise build.refuse(node, f"round_mode '{rounding}' is not supported; use up")
    return build.build(top.Cast(to=target.upper(), saturate=bool(node.attributes.get("saturate", 1))), [x], name)


@TABLE.imports("BitCast")
def bit_cast(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a BitCast between integers of one width, as a wrapping cast; bits of floats are refused."""
    from onnx import TensorProto

    source, target = build.elem_type(node.inputs[0]), TensorProto.DataType.Name(node.attributes["to"]).lower()
    x = build.value(node.inputs[0])
    if (source, target) == ("bool", "uint8"):
        return x
    if not (is_integer(source) and is_integer(target) and _bits(source)[0] == _bits(target)[0] <= WIDEST_WRAP):
        raise build.refuse(
            node, f"it reads the bits of {source} as {target}, but compiled networks choose their number formats"
        )
    return build.build(top.Cast(to=target.upper()), [x], node.outputs[0])


def _contains(target: str, source: str) -> bool:
    """True if one integer type represents every value of the other."""
    if not (is_integer(target) and is_integer(source)):
        return False
    (wide, signed), (narrow, was_signed) = _bits(target), _bits(source)
    return wide >= narrow if signed == was_signed else signed and wide > narrow


def _bits(kind: str) -> tuple[int, bool]:
    return int(kind.lstrip("uint")), not kind.startswith("u")
