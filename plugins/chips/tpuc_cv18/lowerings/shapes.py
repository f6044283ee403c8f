"""Ops that move data or change shapes, for any element type."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    BF16,
    F32,
    LoweringBuilder,
    LoweringNode,
    Node,
    ScalarType,
    TensorType,
    Uniform,
    Value,
    Wants,
    numpy_dtype,
)
from tpuc_chip_parts.lowering import (
    Depth2SpaceAny,
    PermuteAny,
    ReshapeAny,
    ShapeLowering,
    is_stated,
    result_with_sign,
    stored_value,
)
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import bf16, rescaled
from tpuc_cv18.lowerings.copies import stored_constant
from tpuc_cv18.lowerings.table import TABLE

TABLE.lowers(top.Reshape, "bf16", "int8")(ReshapeAny)
TABLE.lowers(top.Flatten, "bf16", "int8")(ReshapeAny)
TABLE.lowers(top.Squeeze, "bf16", "int8")(ReshapeAny)
TABLE.lowers(top.Unsqueeze, "bf16", "int8")(ReshapeAny)
TABLE.lowers(top.Permute, "bf16", "int8")(PermuteAny)
TABLE.lowers(top.Depth2Space, "bf16", "int8")(Depth2SpaceAny)


@TABLE.lowers(top.Slice, "bf16", "int8")
class SliceAny(ShapeLowering):
    """A strided part of the stored values."""

    def lower(self, node: LoweringNode[top.Slice], build: LoweringBuilder) -> Sequence[Value]:
        lowered = tpu.Slice(offset=node.op.offset, steps=node.op.steps, ends=node.op.ends)
        return [build(lowered, node.operands[:1], self.result(node))]


@TABLE.lowers(top.Upsample, "bf16", "int8")
class UpsampleAny(ShapeLowering):
    """Repeats stored values of the mode's type; a relu clamps them before they are repeated."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.Upsample], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        (value,) = node.operands
        if op.do_relu:
            value = build(tpu.Relu(relu_limit=op.relu_limit), [value], value.tensor.at(None), f"{node.name}_relu")
        return [build(tpu.Upsample(scale_h=op.scale_h, scale_w=op.scale_w), [value], self.result(node))]


@TABLE.lowers(top.Pad, "bf16", "int8")
class PadAny(ShapeLowering):
    """Pads stored values with the stored pad value. f32 is cast first, because it cannot be filled in."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.Pad], build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor
        value = stored_value(node.op.val, type_)
        if type_.storage == BF16:
            value = bf16(value)
        return [
            build(
                tpu.Pad(paddings=node.op.paddings, mode=node.op.mode, val=value), node.operands[:1], self.result(node)
            )
        ]


@TABLE.lowers(top.Concat, "bf16", "int8")
class ConcatAny(ShapeLowering):
    """Rescales integers to the result's scale.

    If any operand is a float, all become floats: f32 if one of them is, else bf16.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE if node.op.do_relu else Wants.AS_IS,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        if all(constant is not None for constant in node.constants):
            return "all operands are constants; fold the op"
        return None

    def lower(self, node: LoweringNode[top.Concat], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        types = [v.tensor for v, constant in zip(node.operands, node.constants, strict=True) if constant is None]
        has_constants = len(types) < len(node.operands)
        stored = all(type_.is_quantized for type_ in types)
        if stored and is_stated(node) and (node.mode == "int8" or not has_constants):
            wanted = node.quantized_result_type().element
        elif stored and len({type_.element for type_ in types}) == 1 and not has_constants:
            wanted = types[0].element
        elif stored and node.mode == "int8":
            given = [constant for constant in node.constants if constant is not None]
            unsigned = all(type_.storage.is_unsigned for type_ in types) and all((one >= 0).all() for one in given)
            wanted = result_with_sign(node, unsigned=unsigned).element
        else:
            wanted = F32 if any(type_.storage == F32 for type_ in types) and not has_constants else BF16
        parts: list[Value] = []
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
            part, name = value.tensor.with_element(wanted).at(None), f"{node.name}_part{index}"
            if constant is None:
                parts.append(self._converted(node, value, part, name, build))
            else:
                parts.append(stored_constant(constant, part, name, build))
        result = node.result_type.with_element(wanted)
        if not op.do_relu:
            return [build(tpu.Concat(axis=op.axis), parts, result)]
        whole = build(tpu.Concat(axis=op.axis), parts, result, f"{node.name}_whole")
        return [build(tpu.Relu(relu_limit=op.relu_limit), [whole], result)]

    def _converted(
        self, node: LoweringNode[top.Concat], value: Value, wanted: TensorType, name: str, build: LoweringBuilder
    ) -> Value:
        type_ = value.tensor
        floats = not (type_.is_quantized or wanted.is_quantized)
        if type_.element == wanted.element or (floats and type_.storage == wanted.storage):
            return value
        if not type_.is_quantized or not wanted.is_quantized:
            return cast(value, wanted, name, build)
        if is_stated(node):
            return _by_table(node.op, value, wanted, name, build)
        return rescaled(value, wanted, name, build)


def _by_table(op: top.Concat, value: Value, wanted: TensorType, name: str, build: LoweringBuilder) -> Value:
    """Rescale integers by a table of what the network's runtime computes for each byte."""
    source = value.tensor
    every = np.arange(256, dtype=np.uint8)
    one, other = (TensorType(every.shape, _unsigned(type_.uniform)) for type_ in (source, wanted))
    alone = dataclasses.replace(op, axis=0)
    (entries,) = alone.evaluate(Node(alone, (one,), (other,), name), [every ^ _sign_bit(source)])
    stored = (entries ^ _sign_bit(wanted)).view(numpy_dtype(wanted.storage)).reshape(1, 1, 1, 256)
    element = "ui8" if wanted.storage.is_unsigned else "si8"
    return build(tpu.Lut(), [value, build.weight(f"{name}_table", stored, element)], wanted, name)


def _unsigned(element: Uniform) -> Uniform:
    """The same numbers as unsigned bytes."""
    if element.storage.is_unsigned:
        return element
    return dataclasses.replace(element, storage=ScalarType("u8"), zero_point=element.zero_point + 128)


def _sign_bit(type: TensorType) -> np.uint8:
    """The XOR mask between bytes of the type and unsigned bytes."""
    return np.uint8(0 if type.storage.is_unsigned else 0x80)
