"""Is a node one that its operator allows?"""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, checker
from tpuc.api import ForeignNode, InvalidModel
from tpuc_importing.obstacles import place_of

from tpuc_onnx.graph import GraphNode

_IR_VERSION = 10
"""What the checker takes a node to be of: the file's own version says nothing about its nodes."""

_NOT_WRONG = ("No Op registered", "deprecated")


def check_node(node: GraphNode) -> None:
    """Raise InvalidModel for a node with other operands or attributes than its operator has.

    Unknown operators are told elsewhere, and old ones may stay. Nodes with graphs in them are looked at when those are
    written out.
    """
    if any(attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for attribute in node.proto.attribute):
        return
    _check_split(node.foreign)
    context: Any = checker.DEFAULT_CONTEXT.__class__()
    context.ir_version = _IR_VERSION
    foreign = node.foreign
    context.opset_imports = {foreign.domain: foreign.version}
    try:
        checker.check_node(node.proto, context)
    except (checker.ValidationError, TypeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].rstrip(".") if lines else "it is malformed"
        if not any(words in reason for words in _NOT_WRONG):
            raise InvalidModel(f"{place_of(foreign)}: {reason}. Export the network again.") from error


def _check_split(node: ForeignNode) -> None:
    """`onnx` itself ends the whole process for this one."""
    count = node.attributes.get("num_outputs", len(node.outputs))
    if node.op_type == "Split" and not node.domain and count != len(node.outputs):
        raise InvalidModel(
            f"{node.source}: node '{node.name}' (Split): num_outputs is {count}, and it has {len(node.outputs)} "
            "outputs. Export the network again."
        )
