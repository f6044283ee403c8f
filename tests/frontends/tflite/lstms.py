"""LSTM layers in floats, or in integers: 8-bit values and weights, a 16-bit cell state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.frontends.tflite.files import TANH, Node, Tensor, constant, tflite_file

Array = NDArray[Any]

GATES = 4
X_SCALE, X_ZERO = 1 / 40, 4
CELL_SCALE = 2.0**-11
LAYER_NORM_STEPS = 1 << 10
"""Of the bias behind a normalization in one of its coefficient."""


@dataclass(frozen=True)
class Layer:
    """What a layer consists of; `major` is time first."""

    inputs: int = 20
    units: int = 24
    steps: int = 12
    count: int = 2
    major: bool = False
    coupled: bool = False
    """No input gate of its own."""
    peephole: bool = False
    norm: bool = False
    outputs: int = 0
    """Of a projection; none if 0."""
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    weight: float = 1.0
    """Makes the gates' sums larger."""
    real: bool = False
    """In floats."""
    seed: int = 0

    def fed(self, seed: int) -> Array:
        """Some input."""
        extents = (self.steps, self.count) if self.major else (self.count, self.steps)
        stored = np.random.default_rng(seed).integers(-128, 128, (*extents, self.inputs)).astype(np.int8)
        return (stored - np.float32(X_ZERO)) * np.float32(X_SCALE) if self.real else stored

    def content(self) -> bytes:
        """The file."""
        tensors, node = self.parts()
        return tflite_file(tensors, [node], ["x"], ["y"])

    def parts(self) -> tuple[list[Tensor], Node]:
        """What the file consists of."""
        made = _Made(self)
        made.gates()
        made.states()
        extents = (self.steps, self.count) if self.major else (self.count, self.steps)
        x = made.value("x", (*extents, self.inputs), X_SCALE, X_ZERO)
        y = made.value("y", (*extents, self.outputs or self.units), made.h_scale, made.h_zero)
        names = ["x", *(made.names.get(place, "") for place in range(1, 24))]
        settings = {"TimeMajor": self.major, "CellClip": self.cell_clip, "ProjClip": self.proj_clip}
        options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": TANH, **settings})
        inner = [] if self.real else made.inner()
        node = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], options, intermediates=[one.name for one in inner])
        return [x, *made.tensors, *inner, y], node


class _Made:
    """The tensors of a layer in the making."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.rng = layer, np.random.default_rng(layer.seed)
        self.h_scale, self.h_zero = (1 / 128, -3) if not layer.outputs else (1 / 60, -3)
        self.hidden_scale = self.h_scale if not layer.outputs else 1 / 128
        self.sum_scale = 2.0**-12 if not layer.norm else 2.0**-11
        self.tensors: list[Tensor] = []
        self.names: dict[int, str] = {}

    def value(self, name: str, dims: Sequence[int], scale: float, zero: int, is_variable: bool = False) -> Tensor:
        """A tensor that is computed, of 8 bits or in floats."""
        if self.layer.real:
            return Tensor(name, tuple(dims), is_variable=is_variable)
        return Tensor(name, tuple(dims), "INT8", None, (scale,), (zero,), is_variable=is_variable)

    def inner(self) -> list[Tensor]:
        """What the runtime wants to know of the gates' sums and of the result before a projection."""
        sums = [Tensor(f"sum{gate}", (), "INT16", None, (self.sum_scale,), (0,)) for gate in range(GATES)]
        return [*sums, Tensor("unit", (), "INT8", None, (self.hidden_scale,), (self.h_zero,))]

    def put(self, place: int, tensor: Tensor) -> None:
        """A tensor as operand at a place."""
        self.tensors.append(tensor)
        self.names[place] = tensor.name

    def store(self, place: int, real: Array, scale: float, kind: str) -> None:
        """A constant, in floats what its integers mean."""
        stored = np.rint(real / scale).astype(kind)
        if self.layer.real:
            self.put(place, constant(f"w{place}", (stored * scale).astype(np.float32)))
        else:
            self.put(place, constant(f"w{place}", stored, [scale], [0]))

    def weight(self, place: int, dims: Sequence[int], spread: float, bits: int = 8) -> float:
        """Symmetric integers of a normal distribution; their scale."""
        real, most = self.rng.normal(0, spread, dims), (1 << (bits - 1)) - 1
        scale = float(np.float32(np.abs(real).max() / most))
        self.store(place, real, scale, f"int{bits}")
        return scale

    def gates(self) -> None:
        """Weights, recurrences, biases, and what the variants have for each gate."""
        layer, width = self.layer, self.layer.outputs or self.layer.units
        for gate in range(int(layer.coupled), GATES):
            scale = self.weight(1 + gate, (layer.units, layer.inputs), layer.weight / np.sqrt(layer.inputs))
            self.weight(5 + gate, (layer.units, width), layer.weight / np.sqrt(width))
            bias_scale = scale * X_SCALE
            if layer.norm:
                self.store(20 + gate, self.rng.uniform(0.6, 0.99, layer.units), 1 / 32768, "int16")
                bias_scale = 1 / 32768 / LAYER_NORM_STEPS
            self.store(12 + gate, self.rng.normal(0, 0.3, layer.units), bias_scale, "int32")
        if layer.peephole:
            for place in range(9 + int(layer.coupled), 12):
                self.weight(place, (layer.units,), 0.3, 16)
        if layer.outputs:
            scale = self.weight(16, (layer.outputs, layer.units), 1 / np.sqrt(layer.units))
            self.store(17, self.rng.normal(0, 0.2, layer.outputs), scale * self.hidden_scale, "int32")

    def states(self) -> None:
        """The last output and the cell, which begin with 0."""
        layer = self.layer
        self.put(18, self.value("h", (layer.count, layer.outputs or layer.units), self.h_scale, self.h_zero, True))
        quantization = () if layer.real else (CELL_SCALE,)
        kind = "FLOAT32" if layer.real else "INT16"
        self.put(19, Tensor("c", (layer.count, layer.units), kind, None, quantization, (0,), is_variable=True))
