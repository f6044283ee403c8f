"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.functions import sigmoid
from tpuc_ops.products import matmul, right_factor
from tpuc_ops.recurrent import sequence_sizes
from tpuc_ops.shapes import show
from tpuc_ops.traits import ComputedInFloat, ExtractsFeatures


@dataclass(frozen=True)
class LSTM(Op, ComputedInFloat, ExtractsFeatures):
    """A recurrent layer over `x: [steps, n, inputs]`, with gates in the order input, output, forget, cell.

    Operands: x, filter `[d, 4 * hidden, inputs]`, recurrence `[d, 4 * hidden, hidden]`, and optionally bias `[d, 8 *
    hidden]` (of filter and recurrence), initial h and c `[d, n, hidden]`; d is 2 if `bidirectional`, else 1. Results:
    all h `[steps, d, n, hidden]`, the last h and the last c `[d, n, hidden]`. With `batch_first`, n comes first in x,
    states, and results. `have_bias` only records that there is one.
    """

    name = "top.LSTM"
    slots = listed(7, kept=6)
    hidden_size: I64 = 0
    have_bias: Bool = True
    bidirectional: Bool = False
    batch_first: Bool = False

    def infer(self, operands: Types) -> Types:
        x, weight, recurrence = operands[:3]
        steps, count, inputs = sequence_sizes(x.dims, self.batch_first)
        directions, hidden = 1 + self.bidirectional, self.hidden_size
        if hidden < 1:
            raise ValueError("hidden_size must be stated; it is the last extent of the recurrence")
        if weight.dims != (directions, 4 * hidden, inputs):
            raise ValueError(f"filter {show(weight.dims)} should be {show((directions, 4 * hidden, inputs))}")
        if recurrence.dims != (directions, 4 * hidden, hidden):
            raise ValueError(f"recurrence {show(recurrence.dims)} should be {show((directions, 4 * hidden, hidden))}")
        x = x.shape_only()
        if self.batch_first:
            state = x.with_shape((count, directions, hidden))
            return (x.with_shape((count, steps, directions, hidden)), state, state)
        state = x.with_shape((directions, count, hidden))
        return (x.with_shape((steps, directions, count, hidden)), state, state)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, recurrence, *optional = (as_float(operand) for operand in operands[:6])
        x = x.swapaxes(0, 1) if self.batch_first else x
        directions, count = weight.shape[0], x.shape[1]
        bias, h, c = self._optional(optional, directions, count)
        results = [
            self._run(x if way == 0 else x[::-1], weight[way], recurrence[way], bias[way], h[way], c[way])
            for way in range(directions)
        ]
        outputs = [steps if way == 0 else steps[::-1] for way, (steps, _, _) in enumerate(results)]
        y = np.stack(outputs, 1)
        last_h, last_c = (np.stack([result[index] for result in results]) for index in (1, 2))
        if self.batch_first:
            return [y.transpose(2, 0, 1, 3), last_h.swapaxes(0, 1), last_c.swapaxes(0, 1)]
        return [y, last_h, last_c]

    def _optional(self, given: Sequence[Array], directions: int, count: int) -> tuple[Array, Array, Array]:
        """Return bias and initial states, zeros if absent."""
        bias, h, c = [*given, *[np.zeros(0, np.float32)] * 3][:3]
        bias = bias if bias.size else np.zeros((directions, 8 * self.hidden_size), np.float32)
        states = [
            (state.swapaxes(0, 1) if self.batch_first else state)
            if state.size
            else np.zeros((directions, count, self.hidden_size), np.float32)
            for state in (h, c)
        ]
        return bias.reshape(directions, -1), states[0], states[1]

    def _run(
        self, x: Array, weight: Array, recurrence: Array, bias: Array, h: Array, c: Array
    ) -> tuple[Array, Array, Array]:
        """Run one direction; returns every h, the last h, and the last c."""
        half = 4 * self.hidden_size
        gates_of_x = matmul(x, weight.T) + (bias[:half] + bias[half:])
        outputs: list[Array] = []
        factors = right_factor(recurrence.T)
        for row in gates_of_x:
            i, o, f, g = np.split(row + matmul(h, factors), 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * elementary.tanh(g)
            h = sigmoid(o) * elementary.tanh(c)
            outputs.append(h)
        return np.stack(outputs), h, c

    def flops(self, node: Node) -> int:
        steps, count, inputs = sequence_sizes(node.operand_types[0].dims, self.batch_first)
        hidden = self.hidden_size
        per_step = 2 * 4 * hidden * (inputs + hidden) + 30 * hidden
        return steps * count * (1 + self.bidirectional) * per_step
