"""Write a few ONNX nodes in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from tpuc.api import ForeignNode, Unsupported
from tpuc_importing.obstacles import refusal
from tpuc_ops.arrays import Array

from tpuc_onnx.expansion import own_prefix
from tpuc_onnx.graph import Graph
from tpuc_onnx.shapes import TypeTable


@dataclass
class Script:
    """Collects nodes in place of `node` of `graph`. Its tensors are named inside the node."""

    node: ForeignNode
    types: TypeTable
    graph: Graph
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])

    def __call__(self, op: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Append a node with one result, named `result` or automatically; returns the result's name."""
        result = result or f"{own_prefix(self.node)}{op}_{len(self.nodes)}"
        kept = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=result, **kept))
        return result

    def many(self, op: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Append a node with `count` results."""
        results = [f"{own_prefix(self.node)}{op}_{len(self.nodes)}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), results, name=results[0], **attributes))
        return results

    def append(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Append a node whose results have the given names; "" for none."""
        name = next(name for name in outputs if name)
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), name=name, **attributes))

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """Create a constant."""
        full = f"{own_prefix(self.node)}{name}"
        self.types.constants[full] = np.asarray(array)
        return full

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the static shape of a tensor that the script does not compute."""
        shape = self.types.shape(name)
        if shape is None:
            raise self.refused(f"the shape of '{name}' depends on the data, but compiled shapes are static")
        return shape

    def known(self, index: int, meaning: str) -> Array | None:
        """Return the operand at `index`, which must be constant; None if it is absent."""
        if not self.has(index):
            return None
        array = self.types.constants.get(self.node.inputs[index])
        if array is None:
            raise self.refused(
                f"{meaning} is computed at run time ('{self.node.inputs[index]}'), but must be a constant"
            )
        return array

    def required(self, index: int, meaning: str) -> Array:
        """Return the operand at `index`, which must be present and constant."""
        array = self.known(index, meaning)
        if array is None:
            raise self.refused(f"{meaning} is missing")
        return array

    def has(self, index: int) -> bool:
        """True if there is an operand at `index`."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def refused(self, reason: str) -> Unsupported:
        """Return the error for a node that cannot be expanded."""
        return refusal(self.node, reason)

    def attributes(self, *names: str) -> dict[str, Any]:
        """Return those of the named attributes that the node has, to be passed on."""
        return {name: self.node.attributes[name] for name in names if name in self.node.attributes}
