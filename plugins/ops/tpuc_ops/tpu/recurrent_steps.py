"""The steps of a recurrent layer in one direction, as the chip computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F32, I64, Bool, Node, Op, Raw, ScalarType, Str, Types, numpy_dtype

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.functions import sigmoid
from tpuc_ops.products import matmul
from tpuc_ops.shapes import is_absent, show

FILTER = 5
"""Index of the operand `filter`."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class RecurrentSteps(Op):
    """Runs the steps of one direction in order. Units are the last dimension of inputs and states.

    Operands: the input part of the gates `[steps * n, gates * padded]` including all biases that are only added;
    `recurrence: [gates * padded, hidden]`; then, all optional: `bias: [gates * padded]` of the recurrence, initial h
    and c `[n, hidden]`, `filter: [gates * padded, inputs]`, `sums: [gates * padded]`. With a filter, the first
    operand is `[steps * n, inputs]`, and the input part is its product with the filter plus `sums`. Each gate has
    `padded` units, of which the first `hidden` are used. The result is all h `[steps * n, hidden]`; for LSTM, n more
    rows hold the last c. `kind` is LSTM with gates i, o, f, g; GRU with z, r, and candidate; or RNN. `reverse` runs
    from the last step to the first. States are f32; with a narrower recurrence, they are rounded to its type before
    each product.
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
        if self.kind not in GATES or gates.dims[0] % self.steps:
            raise ValueError(f"kind {self.kind} of {self.steps} steps does not fit {show(gates.dims)}")
        columns, rows = gates.dims
        if _has_filter(operands):
            rows, inputs = operands[FILTER].dims
            if inputs != gates.dims[1]:
                raise ValueError(f"filter {show(operands[FILTER].dims)} does not fit inputs {show(gates.dims)}")
        if recurrence.dims != (rows, self.hidden_size) or rows % GATES[self.kind]:
            raise ValueError(f"recurrence {show(recurrence.dims)} does not fit gates {show((columns, rows))}")
        columns += columns // self.steps if self.kind == "LSTM" else 0
        return (gates.with_shape((columns, self.hidden_size)).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, recurrence, *others = (as_float(operand) for operand in operands)
        bias, h, c, filters, sums = [*others, *[np.zeros(0, np.float32)] * 5][:5]
        inputs = matmul(filters, x.T) + sums.reshape(-1, 1) if filters.size else x.T
        narrow = node.operand_types[1].storage
        count = inputs.shape[1] // self.steps
        by_gate = inputs.reshape(GATES[self.kind], -1, self.steps, count)[:, : self.hidden_size]
        matrices = recurrence.reshape(GATES[self.kind], -1, self.hidden_size)[:, : self.hidden_size]
        own = bias.reshape(GATES[self.kind], -1, 1)[:, : self.hidden_size] if bias.size else np.float32(0)
        zeros = np.zeros((self.hidden_size, count), np.float32)
        h, c = (state.T if state.size else zeros for state in (h, c))
        result = np.zeros((self.hidden_size, self.steps, count), np.float32)
        for step in range(self.steps)[:: -1 if self.reverse else 1]:
            h, c = self._step(by_gate[:, :, step], matrices, own, h, c, narrow)
            result[:, step] = h
        flat = result.reshape(self.hidden_size, -1)
        rows = np.concatenate([flat, c], 1).T if self.kind == "LSTM" else flat.T
        return [np.ascontiguousarray(stored(rows, node.result_type))]

    def _step(
        self, inputs: Array, matrices: Array, bias: Array | np.float32, h: Array, c: Array, narrow: ScalarType
    ) -> tuple[Array, Array]:
        of_h = matmul(matrices, _rounded(h, narrow)) + bias
        if self.kind == "LSTM":
            i, o, f = sigmoid(inputs[:3] + of_h[:3])
            c = f * c + i * elementary.tanh(inputs[3] + of_h[3])
            return o * elementary.tanh(c), c
        if self.kind == "RNN":
            total = inputs[0] + of_h[0]
            return (elementary.tanh(total) if self.activation == "Tanh" else np.maximum(total, 0)), c
        z, r = sigmoid(inputs[:2] + of_h[:2])
        candidate = elementary.tanh(
            inputs[2] + (r * of_h[2] if self.linear_before_reset else matmul(matrices[2], _rounded(r * h, narrow)))
        )
        return candidate + z * (h - candidate), c

    def flops(self, node: Node) -> int:
        rows, columns = node.operand_types[1].dims[0], node.operand_types[0].dims[0]
        inputs = node.operand_types[0].dims[1] if _has_filter(node.operand_types) else 0
        return rows * columns * (2 * self.hidden_size + 2 * inputs + 10)


def _has_filter(operands: Types) -> bool:
    return len(operands) > FILTER and not is_absent(operands[FILTER])


def _rounded(state: Array, element: ScalarType) -> Array:
    """Round a state to the type of the product that reads it."""
    return state if element.bits >= F32.bits else state.astype(numpy_dtype(element)).astype(np.float32)
