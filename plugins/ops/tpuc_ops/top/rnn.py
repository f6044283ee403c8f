"""Simple recurrent layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Str, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.products import matmul
from tpuc_ops.recurrent import Recurrent


@dataclass(frozen=True)
class RNN(Recurrent):
    """A `Recurrent` layer with one gate: ``activation(W x + R h + biases)``, where the activation is Tanh or Relu."""

    name = "top.RNN"
    activation: Str = "Tanh"

    gates = 1

    def infer(self, operands: Types) -> Types:
        if self.activation not in ("Tanh", "Relu"):
            raise ValueError(f"activation must be Tanh or Relu, this one is {self.activation}")
        return super().infer(operands)

    def step(self, of_x: Array, h: Array, recurrence: Array, bias: Array) -> Array:
        total = of_x + matmul(h, recurrence.T) + bias
        return elementary.tanh(total) if self.activation == "Tanh" else np.maximum(total, 0)
