"""ONNX nodes of the domain `acme`."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, ImporterTable, Value

from acme_ops.gelu7 import Gelu7

TABLE = ImporterTable("onnx", "acme")


@TABLE.imports("acme::Gelu7")
def gelu7(node: ForeignNode, build: ImportBuilder) -> Value:
    """One operand, no attributes."""
    if node.attributes:
        raise build.refuse(node, f"unknown attribute '{min(node.attributes)}'; acme::Gelu7 has none")
    return build.build(Gelu7(), [build.value(node.inputs[0])], node.outputs[0])
