"""Recurrent layers."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_caffe.importers.common import TABLE, arrays_of, check_bottoms, parameters
from tpuc_caffe.weights import TRAINABLE, Blob


@TABLE.imports("ContinuationIndicator")
def continuation_indicator(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the indicator of a single sequence: 0 for its first step, 1 for all others."""
    stated = parameters(node, "continuation_indicator_param")
    steps, count = stated.get("time_step", 0), stated.get("batch_size", 1)
    if min(steps, count) < 1 or steps * count > 1 << 24:
        raise build.refuse(node, f"{steps} steps of {count} sequences are out of range")
    return build.weight(
        node.outputs[0], np.minimum(np.arange(steps * count, dtype=np.float32) // count, 1).reshape(steps, count)
    )


@TABLE.imports("LSTM", "Lstm")
def lstm(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an LSTM over `[steps, n, ...]`. Its indicator must be constant and begin a sequence at the first step
    only.
    """
    check_bottoms(node, build, 2) if node.op_type == "LSTM" else check_bottoms(node, build, 1, 2)
    name = node.outputs[0]
    stated = parameters(node, "recurrent_param") or parameters(node, "lstm_param")
    if stated.get("expose_hidden", False) or len(node.outputs) != 1:
        raise build.refuse(node, "states as bottoms and tops (expose_hidden) are not supported")
    hidden, x = stated.get("num_output", 0), build.value(node.inputs[0])
    if hidden < 1 or x.tensor.rank < 2:
        raise build.refuse(
            node, "it does not state its outputs (num_output), or its operand has no steps and sequences"
        )
    if len(node.inputs) == 2:
        indicator = build.constant(node.inputs[1])
        if indicator is None or indicator[1:].min(initial=1) != 1:
            raise build.refuse(
                node,
                f"the starts of its sequences are computed at run time by '{node.inputs[1]}'; use a "
                "ContinuationIndicator",
            )
    steps, count, *rest = x.tensor.dims
    inputs = math.prod(rest)
    x = reshape(build, x, (steps, count, inputs), f"{name}_sequences")
    wanted = [
        Blob("filter", (4 * hidden, inputs), stated.get("weight_filler", TRAINABLE)),
        Blob("bias", (4 * hidden,), stated.get("bias_filler", {})),
        Blob("recurrence", (4 * hidden, hidden), stated.get("weight_filler", TRAINABLE)),
    ]
    if node.op_type == "Lstm":  # the older fork keeps the bias last
        wanted = [wanted[0], wanted[2], wanted[1]]
    arrays = arrays_of(node, *wanted)
    filters, bias, recurrence = arrays if node.op_type == "LSTM" else (arrays[0], arrays[2], arrays[1])
    bias = np.concatenate([_gates(bias), np.zeros(4 * hidden, np.float32)])
    operands = [
        x,
        build.weight(f"{node.name}_0", _gates(filters)[None]),
        build.weight(f"{node.name}_2", _gates(recurrence)[None]),
        build.weight(f"{node.name}_1", bias[None]),
        *[build.none()] * 3,
    ]
    element = x.tensor.element
    types = [TensorType((steps, 1, count, hidden), element), *[TensorType((1, count, hidden), element)] * 2]
    value = build.build(top.LSTM(hidden_size=hidden), operands, f"{name}_directions", types)
    return reshape(build, value, (steps, count, hidden), name)


def _gates(array: Array) -> Array:
    """Reorder gates from Caffe's order (input, forget, output, cell) to TOP's (input, output, forget, cell)."""
    i, f, o, g = np.split(array, 4)
    return np.concatenate([i, o, f, g])
