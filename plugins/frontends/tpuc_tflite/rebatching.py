"""Change the batch: constant shapes that state the file's batch are adapted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import numpy as np
from tpuc.api import ForeignNode

from tpuc_tflite.building import TfliteBuilder


class Rebatching:
    """Rewrites the target shape of RESHAPE if it begins with the old batch and the elements fit the new one."""

    def __init__(self, batch: int | None, old: Collection[int]) -> None:
        self._batch = batch
        self._old = frozenset(old) - {batch}
        self._count = 0

    def __call__(self, node: ForeignNode, build: TfliteBuilder) -> ForeignNode:
        """Return the node, with a new shape operand if the constant one states the old batch."""
        if self._batch is None or not self._old or node.op_type != "RESHAPE" or node.domain:
            return node
        x, *more = node.inputs
        target = build.constant(more[0]) if more else None
        stated: Sequence[int] = node.attributes.get("new_shape", ())
        wanted = list(stated) if target is None else [int(extent) for extent in target.reshape(-1)]
        operand = build.shape(x)
        if -1 in wanted or not self._old.issuperset(wanted[:1]) or operand[:1] != (self._batch,) or not wanted:
            return node
        if math.prod(wanted) * self._batch != math.prod(operand) * wanted[0]:
            return node
        self._count += 1
        name = f"{node.outputs[0]}_shape_batch{self._batch}_{self._count}"
        build.constants[name] = np.array([self._batch, *wanted[1:]], np.int32)
        return dataclasses.replace(node, inputs=(x, name))
