"""Recurrent layers."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops.top.lstm import LSTM

from tpuc_tflite.building import TfliteBuilder
from tpuc_tflite.graph import Array
from tpuc_tflite.importers.common import TABLE, float_only

_TANH = 4
_OPTIONAL = {"peephole weights": range(9, 12), "a projection": range(16, 18), "layer normalisation": range(20, 24)}
_GATES = (0, 3, 1, 2)
"""Input, output, forget, cell among the file's input, forget, cell, output."""


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(node: ForeignNode, build: TfliteBuilder) -> Value:
    """All outputs of a plain layer whose states begin with 0."""
    float_only(node, build)
    present = {index for index, name in enumerate(node.inputs) if name}
    for what, indices in _OPTIONAL.items():
        if not present.isdisjoint(indices):
            raise build.refuse(node, f"{what} of an LSTM are not supported")
    if not present.issuperset(range(1, 9)):
        raise build.refuse(node, "an LSTM without an input gate of its own is not supported")
    if node.attributes.get("fused_activation_function", _TANH) != _TANH or node.attributes.get("cell_clip", 0.0):
        raise build.refuse(node, "only LSTMs with tanh and without a cell clip are supported")
    name, major = node.outputs[0], bool(node.attributes.get("time_major", False))
    weight, recurrence = (np.concatenate([_filter(node, build, start + g) for g in _GATES])[None] for start in (1, 5))
    hidden = recurrence.shape[-1]
    bias = np.zeros((1, 8 * hidden), np.float32)
    if present.issuperset(range(12, 16)):
        bias[0, : 4 * hidden] = np.concatenate([_filter(node, build, 12 + gate) for gate in _GATES])
    x = build.value(node.inputs[0])
    operands = [
        x,
        build.weight(f"{name}_filter", weight),
        build.weight(f"{name}_recurrence", recurrence),
        build.weight(f"{name}_bias", bias),
        build.none(),
        build.none(),
    ]
    op = LSTM(hidden_size=hidden, batch_first=not major)
    names = tuple(f"{name}_{part}" for part in ("all", "last_h", "last_c"))
    return build.reshape(build.build_many(op, operands, names)[0], (*x.tensor.dims[:2], hidden), name)


def _filter(node: ForeignNode, build: TfliteBuilder, index: int) -> Array:
    array = build.real(node.inputs[index])
    if array is None:
        raise build.refuse(node, f"its operand '{node.inputs[index]}' must be a constant")
    return array
