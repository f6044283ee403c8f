"""Operands, directions, and shapes shared by recurrent layers without a cell state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.products import matmul
from tpuc_ops.shapes import is_absent, show


def sequence_sizes(dims: tuple[int, ...], batch_first: bool) -> tuple[int, int, int]:
    """Return steps, sequences, and inputs of an operand; raises ValueError for other ranks than 3."""
    if len(dims) != 3:
        raise ValueError(f"three dimensions are needed, this operand is {show(dims)}")
    first, second, inputs = dims
    return (second, first, inputs) if batch_first else (first, second, inputs)


@dataclass(frozen=True)
class Recurrent(Op):
    """A recurrent layer over `x: [steps, n, inputs]`.

    Operands: x, filter `[d, gates * hidden, inputs]`, recurrence `[d, gates * hidden, hidden]`, and optionally bias
    `[d, 2 * gates * hidden]` (of filter and recurrence) and initial h `[d, n, hidden]`; d is 2 if `bidirectional`, else
    1. Results: all h `[steps, d, n, hidden]` and the last h `[d, n, hidden]`. With `batch_first`, n comes first in x,
    state, and results.
    """

    hidden_size: I64
    bidirectional: Bool = False
    batch_first: Bool = False

    gates: ClassVar[int]

    def step(self, of_x: Array, h: Array, recurrence: Array, bias: Array) -> Array:
        """Return the next h. `of_x`: the filter's part of the gates with its bias; `bias`: the recurrence's bias."""
        raise NotImplementedError

    def infer(self, operands: Types) -> Types:
        x, weight, recurrence = operands[:3]
        steps, count, inputs = sequence_sizes(x.dims, self.batch_first)
        directions, rows, hidden = 1 + self.bidirectional, self.gates * self.hidden_size, self.hidden_size
        for label, found, wanted in (
            ("filter", weight.dims, (directions, rows, inputs)),
            ("recurrence", recurrence.dims, (directions, rows, hidden)),
        ):
            if found != wanted:
                raise ValueError(f"{label} {show(found)} should be {show(wanted)}")
        for label, index, size in (("bias", 3, 2 * rows * directions), ("initial h", 4, directions * count * hidden)):
            if len(operands) > index and not is_absent(operands[index]) and operands[index].size != size:
                raise ValueError(f"{label} {show(operands[index].dims)} should have {size} elements")
        x = x.shape_only()
        if self.batch_first:
            return (x.with_shape((count, steps, directions, hidden)), x.with_shape((count, directions, hidden)))
        return (x.with_shape((steps, directions, count, hidden)), x.with_shape((directions, count, hidden)))

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, recurrence, bias, h = (as_float(operand) for operand in (*operands, *[np.zeros(0)] * 2)[:5])
        x = x.swapaxes(0, 1) if self.batch_first else x
        directions, rows, _ = weight.shape
        bias = bias.reshape(directions, -1) if bias.size else np.zeros((directions, 2 * rows), np.float32)
        h = h.swapaxes(0, 1) if self.batch_first and h.size else h
        h = h if h.size else np.zeros((directions, x.shape[1], self.hidden_size), np.float32)
        outputs = [
            self._run(x if way == 0 else x[::-1], weight[way], recurrence[way], bias[way], h[way])
            for way in range(directions)
        ]
        y = np.stack([steps if way == 0 else steps[::-1] for way, steps in enumerate(outputs)], 1)
        last = np.stack([steps[-1] for steps in outputs])
        return [y.transpose(2, 0, 1, 3), last.swapaxes(0, 1)] if self.batch_first else [y, last]

    def _run(self, x: Array, weight: Array, recurrence: Array, bias: Array, h: Array) -> Array:
        """Run one direction; returns every h."""
        rows = weight.shape[0]
        outputs: list[Array] = []
        for row in matmul(x, weight.T) + bias[:rows]:
            h = self.step(row, h, recurrence, bias[rows:])
            outputs.append(h)
        return np.stack(outputs)

    def flops(self, node: Node) -> int:
        steps, count, inputs = sequence_sizes(node.operand_types[0].dims, self.batch_first)
        hidden = self.hidden_size
        per_step = 2 * self.gates * hidden * (inputs + hidden) + 8 * self.gates * hidden
        return steps * count * (1 + self.bidirectional) * per_step
