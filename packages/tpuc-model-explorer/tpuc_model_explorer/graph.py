"""A module as Model Explorer's graphs describe it, and figures of its layers as node data; plain values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tpuc.api import Module
from tpuc_visual.graph import Layer, layers_of

_PARTS = re.compile(r"[/.:]+")
GRADIENT = ({"stop": 0, "bgColor": "#d73a49"}, {"stop": 0.5, "bgColor": "#f9e076"}, {"stop": 1, "bgColor": "#7fd18b"})
"""From few decibels to many."""
HEAT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#f28c38"})
"""From few cycles to many."""


def graph_of(module: Module) -> dict[str, Any]:
    """The graph: a node for each layer, called as its result is."""
    return {"id": module.name, "nodes": [_node(layer) for layer in layers_of(module)]}


def _node(layer: Layer) -> dict[str, Any]:
    shown = [*layer.attributes, ("stored as", layer.element)]
    stored = [("tensor_name", layer.name), ("shape", layer.shape), ("stored as", layer.element)]
    return {
        "id": layer.name,
        "label": layer.op.partition(".")[2] or layer.op,
        "namespace": "/".join(part for part in _PARTS.split(layer.name)[:-1] if part),
        "attrs": _pairs(shown),
        "incomingEdges": [
            {"sourceNodeId": operand, "sourceNodeOutputId": "0", "targetNodeInputId": str(number)}
            for number, operand in enumerate(layer.operands)
        ],
        "outputsMetadata": [{"id": "0", "attrs": _pairs(stored)}],
    }


def _pairs(values: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values]


def node_data(
    graph: str, name: str, figures: Mapping[str, float], colors: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """Figures by the names of layers, for a graph; those that JSON has no number for are left out."""
    results = {layer: {"value": value} for layer, value in figures.items() if math.isfinite(value)}
    return {graph: {"name": name, "results": results, "gradient": [*colors]}}
