"""Recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_tflite.building import Results, TfliteBuilder
from tpuc_tflite.control import MOST_STEPS
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
    limit = float(node.attributes.get("cell_clip", 0.0))
    if node.attributes.get("fused_activation_function", _TANH) != _TANH or limit < 0:
        raise build.refuse(node, "only LSTMs with tanh and a cell clip of at least 0 are supported")
    name, major = node.outputs[0], bool(node.attributes.get("time_major", False))
    weight, recurrence = (np.concatenate([_filter(node, build, start + g) for g in _GATES])[None] for start in (1, 5))
    hidden = recurrence.shape[-1]
    bias = np.zeros((1, 8 * hidden), np.float32)
    if present.issuperset(range(12, 16)):
        bias[0, : 4 * hidden] = np.concatenate([_filter(node, build, 12 + gate) for gate in _GATES])
    if limit:
        return _clipped(node, build, weight[0], recurrence[0], bias[0, : 4 * hidden])
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


def _clipped(node: ForeignNode, build: TfliteBuilder, weight: Array, recurrence: Array, bias: Array) -> Value:
    """The steps of a layer that keeps its cell state within bounds, written out."""
    name, time = node.outputs[0], 0 if node.attributes.get("time_major", False) else 1
    x, hidden = build.value(node.inputs[0]), recurrence.shape[-1]
    steps, count = x.tensor.dims[time], x.tensor.dims[1 - time]
    if steps > MOST_STEPS:
        raise build.refuse(
            node, f"with a cell clip its steps are written out, at most {MOST_STEPS}, and it has {steps}"
        )
    rows = build.reshape(x, (steps * count, weight.shape[1]), f"{name}_rows")
    filters = [build.weight(f"{name}_filter", weight.T), build.weight(f"{name}_bias", bias)]
    gates = build.build(top.MatMul(), [rows, *filters], f"{name}_gates")
    gates = build.reshape(gates, (*x.tensor.dims[:2], 4 * hidden), f"{name}_gates_by_step")
    layer = _ClippedStep(build, build.weight(f"{name}_recurrence", recurrence.T), float(node.attributes["cell_clip"]))
    h: Value | None = None
    c: Value | None = None
    results = list[Value]()
    for number in range(steps):
        of_x = _at(build, gates, time, number, f"{name}_step{number}")
        h, c = layer.run(of_x, h, c, f"{name}_step{number}")
        extents = (1, count, hidden) if time == 0 else (count, 1, hidden)
        results.append(build.reshape(h, extents, f"{name}_step{number}_result"))
    if steps == 1:
        return build.reshape(results[0], (*x.tensor.dims[:2], hidden), name)
    return build.build(top.Concat(axis=time), results, name)


@dataclass(frozen=True)
class _ClippedStep:
    """One step; gates lie in the order of TOP: input, output, forget, cell."""

    build: TfliteBuilder
    recurrence: Value
    limit: float

    def run(self, of_x: Value, h: Value | None, c: Value | None, name: str) -> tuple[Value, Value]:
        """The next h and c; None stands for zeros."""
        make, gates = self.build.build, of_x
        if h is not None:
            of_h = make(top.MatMul(), [h, self.recurrence, self.build.none()], f"{name}_product")
            gates = make(top.Add(), [of_x, of_h], f"{name}_sum")
        parts = ("input", "output", "forget", "cell")
        size = gates.tensor.dims[1] // 4
        values = self.build.build_all(
            top.Split(axis=1, num=4, split_size=(size,) * 4), [gates], [f"{name}_{part}" for part in parts]
        )
        i, o = (make(top.Sigmoid(), [value], f"{value.name}_gate") for value in values[:2])
        cell = make(top.Mul(), [i, make(top.Tanh(), [values[3]], f"{name}_new")], f"{name}_taken")
        if c is not None:
            f = make(top.Sigmoid(), [values[2]], f"{values[2].name}_gate")
            cell = make(top.Add(), [make(top.Mul(), [f, c], f"{name}_kept"), cell], f"{name}_open")
        cell = make(top.Clip(min=-self.limit, max=self.limit), [cell], f"{name}_c")
        return make(top.Mul(), [o, make(top.Tanh(), [cell], f"{name}_shown")], f"{name}_h"), cell


def _at(build: TfliteBuilder, value: Value, axis: int, number: int, name: str) -> Value:
    """`value` of three dimensions at one place of an axis, as a matrix."""
    dims = value.tensor.dims
    if dims[axis] > 1:
        offset, ends = [0] * 3, list(dims)
        offset[axis], ends[axis] = number, number + 1
        cut = top.Slice(offset=tuple(offset), steps=(1, 1, 1), ends=tuple(ends))
        value = build.build(cut, [value], f"{name}_slice")
    return build.reshape(value, (dims[1 - axis], dims[2]), f"{name}_gates")


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
