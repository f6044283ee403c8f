"""The steps of a recurrent layer in one direction, as the chip computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Raw, Str, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.functions import sigmoid
from tpuc_ops.products import matmul
from tpuc_ops.shapes import show

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class RecurrentSteps(Op):
    """Run the steps of a layer, given the input parts of all gates. Units lie along the first dimension of every
    tensor.

    Operands: `[gates * padded, steps * n]` the input parts of the gates, including all purely additive biases;
    `recurrence: [gates * padded, hidden]`; and optionally `bias: [gates * padded]` of the recurrence, and initial h and
    c `[hidden, n]`. Every gate has `padded` rows; the first `hidden` count. The result is all h `[hidden, steps * n]`;
    LSTM appends n columns with the last c. `kind` is LSTM with gates i, o, f, g; GRU with z, r, and candidate; or RNN.
    `reverse`: from the last step to the first.
    """

    name = "tpu.RecurrentSteps"
    kind: Str
    hidden_size: I64
    steps: I64
    reverse: Bool = False
    linear_before_reset: Bool = False
    activation: Str = "Tanh"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        gates, recurrence = operands[:2]
        if self.kind not in GATES or gates.dims[1] % self.steps:
            raise ValueError(f"kind {self.kind} of {self.steps} steps does not fit {show(gates.dims)}")
        if recurrence.dims != (gates.dims[0], self.hidden_size) or gates.dims[0] % GATES[self.kind]:
            raise ValueError(f"recurrence {show(recurrence.dims)} does not fit gates {show(gates.dims)}")
        columns = gates.dims[1] + (gates.dims[1] // self.steps if self.kind == "LSTM" else 0)
        return (gates.with_shape((self.hidden_size, columns)).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        inputs, recurrence, *others = (as_float(operand) for operand in operands)
        bias, h, c = [*others, *[np.zeros(0, np.float32)] * 3][:3]
        count = inputs.shape[1] // self.steps
        by_gate = inputs.reshape(GATES[self.kind], -1, self.steps, count)[:, : self.hidden_size]
        matrices = recurrence.reshape(GATES[self.kind], -1, self.hidden_size)[:, : self.hidden_size]
        own = bias.reshape(GATES[self.kind], -1, 1)[:, : self.hidden_size] if bias.size else np.float32(0)
        zeros = np.zeros((self.hidden_size, count), np.float32)
        h, c = (state if state.size else zeros for state in (h, c))
        result = np.zeros((self.hidden_size, self.steps, count), np.float32)
        for step in range(self.steps)[:: -1 if self.reverse else 1]:
            h, c = self._step(by_gate[:, :, step], matrices, own, h, c)
            result[:, step] = h
        flat = result.reshape(self.hidden_size, -1)
        return [np.concatenate([flat, c], 1) if self.kind == "LSTM" else flat]

    def _step(
        self, inputs: Array, matrices: Array, bias: Array | np.float32, h: Array, c: Array
    ) -> tuple[Array, Array]:
        of_h = matmul(matrices, h) + bias
        if self.kind == "LSTM":
            i, o, f = sigmoid(inputs[:3] + of_h[:3])
            c = f * c + i * elementary.tanh(inputs[3] + of_h[3])
            return o * elementary.tanh(c), c
        if self.kind == "RNN":
            total = inputs[0] + of_h[0]
            return (elementary.tanh(total) if self.activation == "Tanh" else np.maximum(total, 0)), c
        z, r = sigmoid(inputs[:2] + of_h[:2])
        candidate = elementary.tanh(
            inputs[2] + (r * of_h[2] if self.linear_before_reset else matmul(matrices[2], r * h))
        )
        return candidate + z * (h - candidate), c

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size * (2 * self.hidden_size + 10)
