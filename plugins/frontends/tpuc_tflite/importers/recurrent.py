"""Recurrent layers but for LSTMs."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top

from tpuc_tflite.building import Results, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, constant_of, finish, float_only

_ACTIVATIONS = {1: "Relu", 4: "Tanh"}
"""The format's numbers of those that a plain layer may have."""


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(node: ForeignNode, build: TfliteBuilder) -> Value:
    """All outputs of a plain layer whose state begins with 0."""
    float_only(node, build)
    activation = _ACTIVATIONS.get(int(node.attributes.get("fused_activation_function", 0)))
    if activation is None:
        raise build.refuse(node, "only layers with tanh or relu are supported")
    name, x = node.outputs[0], build.value(node.inputs[0])
    weight, recurrence, bias = (constant_of(node, build, index) for index in (1, 2, 3))
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
    feature, time = constant_of(node, build, 1), constant_of(node, build, 2)
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
    bias = constant_of(node, build, 3) if node.inputs[3] else np.zeros(filters // rank, np.float32)
    result = finish(node, build, top.Add(), [sums, build.weight(f"{name}_bias", bias[None])])
    assert isinstance(result, Value)
    return [result, following]
