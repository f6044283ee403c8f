"""Recurrent steps by hand, in Python's own floats, unit by unit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import tpu
from tpuc_testing import OpConformance, uniform

Array = NDArray[Any]
HIDDEN, PADDED, STEPS = 3, 4, 5


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _gates(inputs: Array, recurrence: Array, column: int, h: list[float], gate: int) -> tuple[list[float], list[float]]:
    """What the inputs and what the recurrence say to one gate of every unit."""
    rows = [gate * PADDED + unit for unit in range(HIDDEN)]
    of_h = [sum(float(weight) * value for weight, value in zip(recurrence[row], h, strict=True)) for row in rows]
    return [float(inputs[column, row]) for row in rows], of_h


def _lstm(inputs: Array, recurrence: Array, h: list[float], c: list[float], reverse: bool) -> Array:
    columns: dict[int, list[float]] = {}
    for step in sorted(range(STEPS), reverse=reverse):
        sums = [[x + y for x, y in zip(*_gates(inputs, recurrence, step, h, gate), strict=True)] for gate in range(4)]
        i, o, f = ([_sigmoid(value) for value in values] for values in sums[:3])
        c = [f[unit] * c[unit] + i[unit] * math.tanh(sums[3][unit]) for unit in range(HIDDEN)]
        h = [o[unit] * math.tanh(c[unit]) for unit in range(HIDDEN)]
        columns[step] = h
    return np.array([*(columns[step] for step in range(STEPS)), c], np.float32)


def _gru(inputs: Array, recurrence: Array, bias: Array | None, h: list[float], before: bool) -> Array:
    columns: list[list[float]] = []
    for step in range(STEPS):
        z, r = (
            [_sigmoid(x + y) for x, y in zip(*_gates(inputs, recurrence, step, h, gate), strict=True)]
            for gate in (0, 1)
        )
        scaled = h if before else [r[unit] * h[unit] for unit in range(HIDDEN)]
        of_x, of_h = _gates(inputs, recurrence, step, scaled, 2)
        if before:
            assert bias is not None
            of_h = [r[unit] * (of_h[unit] + float(bias[2 * PADDED + unit])) for unit in range(HIDDEN)]
        candidate = [math.tanh(x + y) for x, y in zip(of_x, of_h, strict=True)]
        h = [z[unit] * h[unit] + (1 - z[unit]) * candidate[unit] for unit in range(HIDDEN)]
        columns.append(h)
    return np.array(columns, np.float32)


class TestLstm(OpConformance):
    op = tpu.RecurrentSteps(kind="LSTM", hidden_size=HIDDEN, steps=STEPS, reverse=True)

    @staticmethod
    def reference(inputs: Array, recurrence: Array, _: Array, h: Array, c: Array) -> Array:
        return _lstm(inputs, recurrence, [float(v) for v in h[0]], [float(v) for v in c[0]], True)

    samples = (
        [uniform(STEPS, 16), uniform(16, HIDDEN, seed=1), None, uniform(1, HIDDEN, seed=2), uniform(1, HIDDEN, seed=3)],
    )
    flops = (16 * STEPS * (2 * HIDDEN + 10),)


class TestGru(OpConformance):
    op = tpu.RecurrentSteps(kind="GRU", hidden_size=HIDDEN, steps=STEPS)

    @staticmethod
    def reference(inputs: Array, recurrence: Array) -> Array:
        return _gru(inputs, recurrence, None, [0.0] * HIDDEN, False)

    samples = ([uniform(STEPS, 12), uniform(12, HIDDEN, seed=1)],)
    flops = (12 * STEPS * (2 * HIDDEN + 10),)


class TestGruWithLinearBeforeReset(OpConformance):
    op = tpu.RecurrentSteps(kind="GRU", hidden_size=HIDDEN, steps=STEPS, linear_before_reset=True)

    @staticmethod
    def reference(inputs: Array, recurrence: Array, bias: Array) -> Array:
        return _gru(inputs, recurrence, bias, [0.0] * HIDDEN, True)

    # The bias counts for the candidate alone.
    samples = (
        [uniform(STEPS, 12), uniform(12, HIDDEN, seed=1), np.repeat(np.float32([0, 0, 1]), 4) * uniform(12, seed=2)],
    )
    flops = (12 * STEPS * (2 * HIDDEN + 10),)


class TestRnn(OpConformance):
    op = tpu.RecurrentSteps(kind="RNN", hidden_size=2, steps=2, activation="Relu")

    @staticmethod
    def reference(inputs: Array, recurrence: Array) -> Array:
        first = [max(float(inputs[0, unit]), 0.0) for unit in range(2)]
        second = [
            max(float(inputs[1, u]) + sum(float(recurrence[u, v]) * first[v] for v in (0, 1)), 0.0) for u in (0, 1)
        ]
        return np.array([first, second], np.float32)

    samples = ([uniform(2, 2), uniform(2, 2, seed=1)],)
    flops = (2 * 2 * (2 * 2 + 10),)
