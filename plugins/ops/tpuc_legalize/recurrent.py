"""Recurrent layers step by step: the input gates of all steps in one product, then one set of ops per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import LoweringNode, Op, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.recurrent import sequence_sizes

from tpuc_legalize.composer import MOVES, Composed, Composer, Part
from tpuc_legalize.table import TABLE

MOST_STEPS = 128
"""Each step is a dozen ops."""


@dataclass(frozen=True)
class _Way:
    """One direction of a layer: its constants, and the states before the first step."""

    do: Composer
    op: top.LSTM | top.GRU | top.RNN
    recurrence: Array
    bias: Array
    h: Value | None
    c: Value | None

    def run(self, gates: Sequence[Value]) -> tuple[list[Value], Value | None]:
        """Every h in step order, and the last c."""
        h, c = self.h, self.c
        outputs: list[Value] = []
        for of_x in gates:
            if isinstance(self.op, top.LSTM):
                h, c = self._lstm(of_x, h, c)
            elif isinstance(self.op, top.GRU):
                h = self._gru(of_x, h)
            else:
                added = self._with_h(of_x, h)
                h = self.do(top.Relu() if self.op.activation == "Relu" else top.Tanh(), added)
            outputs.append(h)
        return outputs, c

    def _product(self, h: Value, recurrence: Array) -> Value:
        dims = (h.tensor.dims[0], recurrence.shape[0])
        return self.do(top.MatMul(right_transpose=True), h, recurrence, None, dims=dims)

    def _with_h(self, of_x: Value, h: Value | None) -> Value:
        return of_x if h is None else self.do(top.Add(), of_x, self._product(h, self.recurrence))

    def _gate(self, value: Value, number: int) -> Value:
        hidden = self.op.hidden_size
        return self.do.slice(value, (0, number * hidden), (value.tensor.dims[0], (number + 1) * hidden))

    def _lstm(self, of_x: Value, h: Value | None, c: Value | None) -> tuple[Value, Value]:
        do, gates = self.do, self._with_h(of_x, h)
        i, o, f = (do(top.Sigmoid(), self._gate(gates, number)) for number in range(3))
        new = do(top.Mul(), i, do(top.Tanh(), self._gate(gates, 3)))
        cell = new if c is None else do(top.Add(), do(top.Mul(), f, c), new)
        return do(top.Mul(), o, do(top.Tanh(), cell)), cell

    def _gru(self, of_x: Value, h: Value | None) -> Value:
        """Gates in the order update, reset, hidden; `bias` is added to the recurrent part of the hidden gate."""
        assert isinstance(self.op, top.GRU)
        do, hidden = self.do, self.op.hidden_size
        of_h = None if h is None else self._product(h, self.recurrence[: 2 * hidden])
        z, r = (
            do(top.Sigmoid(), x if of_h is None else do(top.Add(), x, self._gate(of_h, number)))
            for number, x in ((0, self._gate(of_x, 0)), (1, self._gate(of_x, 1)))
        )
        x, own = self._gate(of_x, 2), self.recurrence[2 * hidden :]
        if self.op.linear_before_reset:
            inner: Part = self.bias if h is None else do(top.Add(), self._product(h, own), self.bias)
            x = do(top.Add(), x, do(top.Mul(), r, inner))
        else:
            x = do(top.Add(), x, self.bias)
            x = x if h is None else do(top.Add(), x, self._product(do(top.Mul(), r, h), own))
        new = do(top.Mul(), do(top.SubConst(const_val=1.0, is_reverse=True), z), do(top.Tanh(), x))
        return new if h is None else do(top.Add(), new, do(top.Mul(), z, h))


@TABLE.legalizes(top.LSTM, top.GRU, top.RNN)
class RecurrentAny(Composed[top.LSTM]):
    """Unroll the layer over its steps; both directions run one after the other."""

    into = (*MOVES, top.Add, top.Concat, top.MatMul, top.Mul, top.Relu, top.Sigmoid, top.SubConst, top.Tanh)

    def refuse(self, node: LoweringNode) -> str | None:
        if any(constant is None for constant in node.constants[1:3]):
            return "filter and recurrence must be constants"
        if len(node.operands) > 3 and node.operand_types[3].size and node.constants[3] is None:
            return "the bias must be a constant"
        steps = sequence_sizes(node.operand_types[0].dims, node.op.batch_first)[0]
        return f"at most {MOST_STEPS} steps, this one has {steps}" if steps > MOST_STEPS else None

    def compose(
        self, node: LoweringNode[top.LSTM | top.GRU | top.RNN], do: Composer, parts: Sequence[Part]
    ) -> Sequence[Value]:
        op = node.op
        steps, count, inputs = sequence_sizes(node.operand_types[0].dims, op.batch_first)
        x = do.permute(node.operands[0], 1, 0, 2) if op.batch_first else node.operands[0]
        x = do.reshape(x, steps * count, inputs)
        ways, hidden = 1 + op.bidirectional, op.hidden_size
        all_h: list[Value] = []
        last_h: list[Value] = []
        last_c: list[Value] = []
        for number in range(ways):
            way, gates = self._way(node, do, parts, number, x)
            places = list(range(steps))[:: -1 if number else 1]
            rows = [do.slice(gates, (at * count, 0), ((at + 1) * count, gates.tensor.dims[1])) for at in places]
            outputs, c = way.run(rows)
            last_h.append(do.reshape(outputs[-1], 1, count, hidden))
            if c is not None:
                last_c.append(do.reshape(c, 1, count, hidden))
            outputs = outputs[:: -1 if number else 1]
            all_h.append(do.reshape(_joined(do, outputs, 0), steps, 1, count, hidden))
        names = node.result_names
        found = [self._result(do, all_h, 1, (2, 0, 1, 3) if op.batch_first else None, names[0])]
        states = ((1, 0, 2) if op.batch_first else None, (last_h, last_c))
        found += [
            self._result(do, values, 0, states[0], name) for values, name in zip(states[1], names[1:], strict=False)
        ]
        return found

    def _way(
        self,
        node: LoweringNode[top.LSTM | top.GRU | top.RNN],
        do: Composer,
        parts: Sequence[Part],
        number: int,
        x: Value,
    ) -> tuple[_Way, Value]:
        """One direction, and the input gates of all steps."""
        op = node.op
        weight, recurrence = np.asarray(parts[1]), np.asarray(parts[2])
        rows, hidden = weight.shape[1], op.hidden_size
        given = parts[3] if len(parts) > 3 else None
        ways = 1 + op.bidirectional
        bias = np.zeros((ways, 2, rows), np.float32) if given is None else np.asarray(given).reshape(ways, 2, rows)
        added, own = bias[number].sum(0), bias[number, 1, 2 * hidden :]
        if isinstance(op, top.GRU):
            added[2 * hidden :] = bias[number, 0, 2 * hidden :]
        gates = do(top.MatMul(right_transpose=True), x, weight[number], added)
        h, c = (self._state(node, do, parts, index, number) for index in (4, 5))
        return _Way(do, op, recurrence[number], own.reshape(1, -1), h, c), gates

    def _state(self, node: LoweringNode, do: Composer, parts: Sequence[Part], index: int, number: int) -> Value | None:
        """An initial state `[n, hidden]` of one direction, None where it is 0."""
        part = parts[index] if len(parts) > index else None
        if part is None:
            return None
        batch_first, hidden = node.op.batch_first, node.op.hidden_size
        if not isinstance(part, Value):
            state = np.asarray(part, np.float32)
            chosen = state[:, number] if batch_first else state[number]
            return None if not chosen.any() else do.constant(chosen.reshape(-1, hidden))
        value = do.permute(part, 1, 0, 2) if batch_first else part
        _, count, _ = value.tensor.dims
        return do.reshape(do.slice(value, (number, 0, 0), (number + 1, count, hidden)), count, hidden)

    def _result(
        self, do: Composer, values: Sequence[Value], axis: int, order: tuple[int, ...] | None, name: str
    ) -> Value:
        """Both directions in one tensor, called `name`."""
        value = _joined(do, values, axis)
        if order is not None:
            return do.permute(value, *order, name=name)
        return do.reshape(value, *value.tensor.dims, name=name)


def _joined(do: Composer, values: Sequence[Value], axis: int) -> Value:
    if len(values) == 1:
        return values[0]
    dims = list(values[0].tensor.dims)
    dims[axis] *= len(values)
    op: Op = top.Concat(axis=axis)
    return do(op, *values, dims=dims)
