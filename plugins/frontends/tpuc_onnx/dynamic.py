"""Tensors that are quantised as they come, where all that reads them is linear and brings their scale back."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from onnx import TensorProto
from tpuc.api import ForeignNode
from tpuc_importing.finding import importer_key

from tpuc_onnx.graph import Graph, GraphNode

_PRODUCTS = ("ConvInteger", "MatMulInteger")
_SCALED_PRODUCT = "com.microsoft::MatMulIntegerToFloat"
_MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT)


class _Kind(enum.Enum):
    """What a tensor is made of: linear in the integers alone, in the scale alone."""

    INTEGERS = enum.auto()
    PRODUCT = enum.auto()
    SCALE = enum.auto()
    ZERO = enum.auto()


def is_scaled_back(node: ForeignNode, graph: Graph) -> bool:
    """Do only integer products read what a DynamicQuantizeLinear of the graph gives, each with the zero point, and is
    every product multiplied by the scale, exactly once? Then the values themselves with scale 1 mean the same.
    """
    results: Sequence[_Kind] = (_Kind.INTEGERS, _Kind.SCALE, _Kind.ZERO)
    kinds = {name: kind for name, kind in zip(node.outputs, results, strict=False) if name}
    has_product = False
    for reader in graph.nodes:
        touched = [name for name in reader.reads if name in kinds]
        if not touched:
            continue
        if not _only_its_own_operands(reader):
            return False
        if importer_key(reader.foreign) == _SCALED_PRODUCT:
            if not _is_scaled_product(reader.foreign, kinds):
                return False
            has_product = True
            continue
        if reader.foreign.domain:
            return False
        if reader.foreign.op_type in _PRODUCTS:
            if not _is_product(reader.foreign, kinds):
                return False
            has_product = True
            kinds[reader.foreign.outputs[0]] = _Kind.PRODUCT
            continue
        if not _follow(reader.foreign, kinds):
            return False
    return has_product and not set(graph.outputs) & set(kinds)


def _only_its_own_operands(node: GraphNode) -> bool:
    """Subgraphs may do anything with what they read."""
    return len(node.reads) == len(node.foreign.inputs)


def _is_product(node: ForeignNode, kinds: dict[str, _Kind]) -> bool:
    """The integers on the left with their zero point, and on the right neither."""
    operands = [kinds.get(name) for name in (*node.inputs, *("",) * 4)[:4]]
    return operands == [_Kind.INTEGERS, None, _Kind.ZERO, None]


def _is_scaled_product(node: ForeignNode, kinds: dict[str, _Kind]) -> bool:
    """The integers on the left with their scale and zero point."""
    operands = [kinds.get(name) for name in (*node.inputs, *("",) * 7)[:7]]
    return operands == [_Kind.INTEGERS, None, _Kind.SCALE, None, _Kind.ZERO, None, None]


def _follow(node: ForeignNode, kinds: dict[str, _Kind]) -> bool:
    """Note of what kind the result of a reader is; False where it is neither linear nor scaled."""
    operands = [kinds.get(name) for name in node.inputs]
    given = [kind for kind in operands if kind is not None]
    result = node.outputs[0]
    match node.op_type, given:
        case "Mul", [_Kind.PRODUCT, _Kind.SCALE] | [_Kind.SCALE, _Kind.PRODUCT]:
            return True
        case "Mul", [_Kind.PRODUCT | _Kind.SCALE as kind]:
            kinds[result] = kind
        case "Cast", [_Kind.PRODUCT | _Kind.SCALE as kind] if node.attributes.get("to") in _FLOATS:
            kinds[result] = kind
        case op, [_Kind.PRODUCT | _Kind.SCALE as kind] if op in _MOVES and operands[0] is kind:
            kinds[result] = kind
        case _:
            return False
    return True
