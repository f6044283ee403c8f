"""Dynamically quantized tensors: products read their integers without the zero point."""

from __future__ import annotations

from tpuc_onnx.graph import Graph


def centered_name(name: str) -> str:
    """Return the name of a DynamicQuantizeLinear's integers minus their zero point."""
    return f"{name}_centered"


def is_quantized_as_it_comes(graph: Graph, name: str, zero: str) -> bool:
    """True if both tensors are results of one DynamicQuantizeLinear, the integers and their zero point."""
    makers = (node.foreign for node in graph.nodes if node.foreign.op_type == "DynamicQuantizeLinear")
    return any([name, zero] == [maker.outputs[0], *maker.outputs[2:]] for maker in makers)
