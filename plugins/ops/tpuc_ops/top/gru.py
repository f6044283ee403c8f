"""Gated recurrent unit."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Bool

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.functions import sigmoid
from tpuc_ops.products import matmul
from tpuc_ops.recurrent import Recurrent


@dataclass(frozen=True)
class GRU(Recurrent):
    """A `Recurrent` layer with gates in the order update z, reset r, candidate: ``z * h + (1 - z) * candidate``.

    The candidate is ``tanh(x' + r * (R h + bias))`` with `linear_before_reset`, else ``tanh(x' + R (r * h) + bias)``.
    `have_bias` only records that there is one.
    """

    name = "top.GRU"
    slots = listed(5, kept=5)
    have_bias: Bool = True
    linear_before_reset: Bool = False

    gates = 3

    def step(self, of_x: Array, h: Array, recurrence: Array, bias: Array) -> Array:
        size = self.hidden_size
        of_gates = matmul(h, recurrence[: 2 * size].T) + bias[: 2 * size] + of_x[:, : 2 * size]
        update, reset = sigmoid(of_gates[:, :size]), sigmoid(of_gates[:, size:])
        matrix, own_bias = recurrence[2 * size :], bias[2 * size :]
        before = self.linear_before_reset
        of_h = reset * (matmul(h, matrix.T) + own_bias) if before else matmul(reset * h, matrix.T) + own_bias
        return update * h + (1 - update) * elementary.tanh(of_x[:, 2 * size :] + of_h)
