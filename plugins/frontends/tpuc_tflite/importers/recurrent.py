"""Recurrent layers."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_tflite.building import Results, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, finish, float_only

_TANH = 4
"""The format's number of this activation."""

_ACTIVATIONS = {1: "Relu", 4: "Tanh"}
_OPTIONAL = {"peephole weights": range(9, 12), "a projection": range(16, 18), "layer normalisation": range(20, 24)}
"""Places of operands that a plain LSTM leaves out."""

_GATES = (0, 3, 1, 2)
"""Input, output, forget, cell among the file's input, forget, cell, output."""


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(node: ForeignNode, build: TfliteBuilder) -> Value:
    """All outputs of a plain layer whose states begin with 0."""
    if build.is_quantised():
        raise build.refuse(
            node, "its form with 8-bit activations and a 16-bit cell state is not supported: export this node as float"
        )
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
    op = top.LSTM(hidden_size=hidden, batch_first=not major)
    names = tuple(f"{name}_{part}" for part in ("all", "last_h", "last_c"))
    return build.reshape(build.build_all(op, operands, names)[0], (*x.tensor.dims[:2], hidden), name)


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(node: ForeignNode, build: TfliteBuilder) -> Value:
    """All outputs of a plain layer whose state begins with 0."""
    float_only(node, build)
    activation = _ACTIVATIONS.get(int(node.attributes.get("fused_activation_function", 0)))
    if activation is None:
        raise build.refuse(node, "only layers with tanh or relu are supported")
    name, x = node.outputs[0], build.value(node.inputs[0])
    weight, recurrence, bias = (_filter(node, build, index) for index in (1, 2, 3))
    hidden = len(recurrence)
    operands = [
        x,
        build.weight(f"{name}_filter", weight[None]),
        build.weight(f"{name}_recurrence", recurrence[None]),
        build.weight(f"{name}_bias", np.concatenate([bias, np.zeros_like(bias)])[None]),
        build.none(),
    ]
    op = top.RNN(hidden_size=hidden, batch_first=not node.attributes.get("time_major", False), activation=activation)
    names = tuple(f"{name}_{part}" for part in ("all", "last_h"))
    return build.reshape(build.build_all(op, operands, names)[0], (*x.tensor.dims[:2], hidden), name)


@TABLE.imports("SVDF")
def svdf(node: ForeignNode, build: TfliteBuilder) -> Results:
    """One step of filters over the last inputs: their features are the state, oldest first, then weighted by age."""
    if build.is_quantised():
        raise build.refuse(node, "its quantised form is not supported: export this node as float")
    name, rank = node.outputs[0], int(node.attributes.get("rank", 0))
    if len(node.inputs) < 5 or len(node.outputs) != 2:
        raise build.refuse(node, "it has no state that is a variable tensor of its own")
    feature, time = _filter(node, build, 1), _filter(node, build, 2)
    filters, memory = time.shape
    x, state = build.value(node.inputs[0]), build.value(node.inputs[4])
    batch = x.tensor.dims[0]
    if rank < 1 or filters % rank or feature.shape != (filters, *x.tensor.dims[1:]):
        raise build.refuse(node, f"{filters} filters of rank {rank} do not fit an operand of {list(x.tensor.dims)}")
    columns = build.weight(f"{name}_features", feature.T)
    newest = build.build(top.MatMul(), [x, columns, build.none()], f"{name}_newest")
    parts = [build.reshape(newest, (batch, filters, 1), f"{name}_column")]
    before = build.reshape(state, (batch, filters, memory), f"{name}_before")
    if memory > 1:
        kept = top.Slice(offset=(0, 0, 1), steps=(1, 1, 1), ends=(batch, filters, memory))
        parts.insert(0, build.build(kept, [before], f"{name}_kept"))
    now = build.build(top.Concat(axis=2), parts, f"{name}_now") if memory > 1 else parts[0]
    following = build.reshape(now, state.tensor.dims, node.outputs[1])
    weights = build.weight(f"{name}_times", time[None])
    weighted = build.build(top.Mul(), [now, weights], f"{name}_weighted")
    sums = build.build(top.Reduce(axes=(2,), mode="ReduceSum", keepdims=False), [weighted], f"{name}_filters")
    if rank > 1:
        apart = build.reshape(sums, (batch, filters // rank, rank), f"{name}_ranks")
        sums = build.build(top.Reduce(axes=(2,), mode="ReduceSum", keepdims=False), [apart], f"{name}_units")
    bias = _filter(node, build, 3) if node.inputs[3] else np.zeros(filters // rank, np.float32)
    result = finish(node, build, top.Add(), [sums, build.weight(f"{name}_bias", bias[None])])
    assert isinstance(result, Value)
    return [result, following]


def _filter(node: ForeignNode, build: TfliteBuilder, index: int) -> Array:
    array = build.real(node.inputs[index])
    if array is None:
        raise build.refuse(node, f"its operand '{node.inputs[index]}' must be a constant")
    return array
