"""Recurrent layers other than LSTMs."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Quantize

from tpuc_tflite.building import Results, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, constant_of, finish, float_only

_ACTIVATIONS = {1: "Relu", 4: "Tanh"}
"""The format's numbers of the activations that a plain layer may have."""


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import all outputs of a plain layer whose initial state is 0."""
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
    """Import one step of filters over the last inputs: their features are the state, oldest first, then weighted by
    age.

    An integer layer computes on real values; its state is passed in floats.
    """
    name, rank = node.outputs[0], int(node.attributes.get("rank", 0))
    if len(node.inputs) < 5 or len(node.outputs) != 2:
        raise build.refuse(node, "its state is not a separate variable tensor")
    feature, time = constant_of(node, build, 1), constant_of(node, build, 2)
    filters, memory = time.shape
    limits = _state_limits(node, build)
    x, state = build.real_value(build.value(node.inputs[0])), build.value(node.inputs[4])
    batch = x.tensor.dims[0]
    if rank < 1 or filters % rank or feature.shape != (filters, *x.tensor.dims[1:]):
        raise build.refuse(node, f"{filters} filters of rank {rank} do not fit an operand of {list(x.tensor.dims)}")
    columns = build.weight(f"{name}_features", feature.T)
    newest = build.build(top.MatMul(), [x, columns, build.none()], f"{name}_newest")
    if limits is not None:
        newest = build.build(limits, [newest], f"{name}_limited")
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
    bias = build.weight(f"{name}_bias", _svdf_bias(node, build, filters // rank)[None])
    if limits is None:
        result = finish(node, build, top.Add(), [sums, bias])
        assert isinstance(result, Value)
        return [result, following]
    # In integers, LiteRT leaves the activation aside.
    real = build.build(top.Add(), [sums, bias], f"{name}_real")
    type_ = real.tensor.with_element(build.entry(name).element)
    return [build.build(Quantize(), [real], name, [type_]), following]


def _state_limits(node: ForeignNode, build: TfliteBuilder) -> top.Clip | None:
    """Return the range of a state that the file stores in 16 bits; None for float layers."""
    if not build.is_quantized():
        return None
    state, scale = build.entry(node.inputs[4]), _scale(build, node.inputs[4])
    if state.kind != "INT16" or scale is None:
        raise build.refuse(node, "its state is not stored in 16 bits with a scale, as LiteRT needs it")
    low, high = (bound * scale for bound in (-(1 << 15), (1 << 15) - 1))
    return top.Clip(min=low, max=high)


def _svdf_bias(node: ForeignNode, build: TfliteBuilder, count: int) -> Array:
    """Return the bias; for integers its scale follows from others, whatever the file states."""
    if not node.inputs[3]:
        return np.zeros(count, np.float32)
    bias = constant_of(node, build, 3)
    state, times = (_scale(build, node.inputs[index]) for index in (4, 2))
    if not build.is_quantized() or state is None or times is None:
        return bias
    return (bias.astype(np.float64) * (state * times)).astype(np.float32)


def _scale(build: TfliteBuilder, name: str) -> float | None:
    quantization = build.entry(name).quantization
    return None if quantization is None else quantization.scales[0]
