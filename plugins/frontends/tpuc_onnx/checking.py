"""Check that nodes are valid for their operators."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, NodeProto, checker
from tpuc.api import ForeignNode, InvalidModel
from tpuc_importing.obstacles import place_of

from tpuc_onnx.graph import GraphNode
from tpuc_onnx.shapes import TypeTable

_IR_VERSION = 10
"""IR version given to the checker; the file's own version says nothing about its nodes."""

CASTS = ("DequantizeLinear", "QuantizeLinear")

BOUNDS = ("quant_min", "quant_max")
"""Attributes that MQBench adds to the standard casts."""

_NOT_WRONG = ("No Op registered", "deprecated")


def check_node(node: GraphNode) -> None:
    """Raise InvalidModel for a node with operands or attributes that its operator does not have.

    Unknown operators are reported elsewhere, and outdated ones are accepted. Nodes with subgraphs are checked when
    these are expanded.
    """
    if any(attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for attribute in node.proto.attribute):
        return
    _check_split(node.foreign)
    context: Any = checker.DEFAULT_CONTEXT.__class__()
    context.ir_version = _IR_VERSION
    foreign = node.foreign
    context.opset_imports = {foreign.domain: foreign.version}
    try:
        checker.check_node(_without_bounds(node) if is_bounded(foreign) else node.proto, context)
    except (checker.ValidationError, TypeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].rstrip(".") if lines else "it is malformed"
        if not any(words in reason for words in _NOT_WRONG):
            raise InvalidModel(f"{place_of(foreign)}: {reason}. Export the network again.") from error


def check_scales(node: ForeignNode, types: TypeTable) -> None:
    """Raise InvalidModel for a standard cast whose list of scales does not fit its axis."""
    if node.domain or node.op_type not in CASTS:
        return
    scale, dims = types.shape(node.inputs[1]), types.shape(node.inputs[0])
    if scale is None or dims is None or len(scale) != 1 or scale[0] == 1:
        return
    axis: int = node.attributes.get("axis", 1)
    if not -len(dims) <= axis < len(dims):
        raise InvalidModel(
            f"{place_of(node)}: its scales are along axis {axis}, and its operand has {len(dims)} dimensions. Quantize "
            "the network again."
        )
    if dims[axis] != scale[0]:
        raise InvalidModel(
            f"{place_of(node)}: {scale[0]} scales do not fit axis {axis} of extent {dims[axis]}. Quantize the network "
            "again."
        )


def is_bounded(node: ForeignNode) -> bool:
    """True for a standard cast with MQBench's bounds."""
    return not node.domain and node.op_type in CASTS and all(name in node.attributes for name in BOUNDS)


def _without_bounds(node: GraphNode) -> NodeProto:
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    kept = [attribute for attribute in proto.attribute if attribute.name not in BOUNDS]
    del proto.attribute[:]
    proto.attribute.extend(kept)
    return proto


def _check_split(node: ForeignNode) -> None:
    """Check a Split on which `onnx` itself would terminate the process."""
    count = node.attributes.get("num_outputs", len(node.outputs))
    if node.op_type == "Split" and not node.domain and count != len(node.outputs):
        raise InvalidModel(
            f"{node.source}: node '{node.name}' (Split): num_outputs is {count}, and it has {len(node.outputs)} "
            "outputs. Export the network again."
        )
