"""Change the batch: constants that state the file's batch are adapted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import numpy as np
import onnx

from tpuc_onnx.graph import GraphNode
from tpuc_onnx.shapes import TypeTable

SHAPE_OPERAND = {"Reshape": 1, "Resize": 3}
"""Operators with a constant operand that begins with the batch, and its index."""


class Rebatching:
    """Rewrites nodes for the batch that the user chose; `old`: the leading extents of the file's inputs.

    A target shape that begins with an old batch gets the new one if its operand has it and the number of elements fits.
    """

    def __init__(self, batch: int | None, old: Collection[int | str | None]) -> None:
        self._batch = batch
        self._old = {extent if isinstance(extent, int) else 1 for extent in old} - {batch}
        self._count = 0

    def __call__(self, node: GraphNode, types: TypeTable) -> GraphNode:
        """Return the node, with a new shape operand if the constant one states the old batch."""
        index = SHAPE_OPERAND.get(node.foreign.op_type)
        if self._batch is None or not self._old or index is None or node.foreign.domain:
            return node
        if index >= len(node.foreign.inputs):
            return node
        name = node.foreign.inputs[index]
        target, operand = types.constants.get(name), types.shape(node.foreign.inputs[0])
        if target is None or not operand or operand[0] != self._batch or not self._states_old(target, operand, node):
            return node
        self._count += 1
        renamed = f"{name}_batch{self._batch}_{self._count}"
        types.constants[renamed] = np.concatenate([np.array([self._batch], target.dtype), target[1:]])
        return _reading(node, index, renamed)

    def _states_old(self, target: np.ndarray, operand: Sequence[int], node: GraphNode) -> bool:
        assert self._batch is not None
        if target.ndim != 1 or not target.size or int(target[0]) not in self._old:
            return False
        if node.foreign.op_type != "Reshape" or -1 in target or 0 in target:
            return True
        return math.prod(target.tolist()) * self._batch == math.prod(operand) * int(target[0])


def _reading(node: GraphNode, index: int, name: str) -> GraphNode:
    """Return the node with another tensor as operand `index`."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.input[index] = name
    inputs = (*node.foreign.inputs[:index], name, *node.foreign.inputs[index + 1 :])
    return GraphNode(proto, dataclasses.replace(node.foreign, inputs=inputs))
