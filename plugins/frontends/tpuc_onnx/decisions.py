"""From scores to classes and probabilities, as the operators of ai.onnx.ml state it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from tpuc_ops.arrays import Array

from tpuc_onnx.script import Script


def labels_of(script: Script) -> Array:
    """The labels of the classes; those that are texts are given by their places."""
    attributes = script.node.attributes
    for name in ("classlabels_int64s", "classlabels_ints"):
        if attributes.get(name):
            return np.array(attributes[name], np.int64)
    return np.arange(len(attributes.get("classlabels_strings", ())), dtype=np.int64)


def attribute(script: Script, name: str) -> Array:
    """A list of floats."""
    return np.array(script.node.attributes.get(name, ()), np.float32)


def floats(script: Script, name: str) -> str:
    """A tensor of numbers as floats."""
    return name if script.types.elem_type(name) == TensorProto.FLOAT else script("Cast", name, to=TensorProto.FLOAT)


def number(script: Script, name: str, value: float) -> str:
    """A constant."""
    return script.constant(name, np.float32(value))


def decided(script: Script, scores: str, labels: Array, unknown: Array | None = None) -> None:
    """The node's first result: the label of the largest score, the first of equal ones. Scores that are `unknown` do
    not count.
    """
    if not script.node.outputs[0]:
        return
    if unknown is not None and unknown.any():
        offsets = np.where(unknown, np.float32(-1e30), np.float32(0))
        scores = script("Add", scores, script.constant("unknown", offsets.astype(np.float32)[None]))
    places = script("ArgMax", scores, axis=1, keepdims=0)
    _label(script, places, labels)


def decided_by_one(script: Script, score: str, labels: Array, least: float) -> None:
    """The node's first result where one score `[n, 1]` is that of the second of two classes."""
    if script.node.outputs[0]:
        more = script("Cast", script("Greater", score, number(script, "least", least)), to=TensorProto.INT64)
        _label(script, script("Squeeze", more, script.constant("axis", np.array([1]))), labels)


def _label(script: Script, places: str, labels: Array) -> None:
    if np.array_equal(labels, np.arange(len(labels))):
        script("Identity", places, result=script.node.outputs[0])
    else:
        script("Gather", script.constant("labels", labels), places, result=script.node.outputs[0])


def both(script: Script, score: str, rest: str) -> str:
    """The scores of two classes from that of the second one: `rest` says what the first one has, 1 - s or -s."""
    first = script("Neg", score) if rest == "negative" else script("Sub", number(script, "whole", 1), score)
    return script("Concat", first, score, axis=1)


def transformed(script: Script, scores: str, transform: Any, result: str) -> None:
    """The result that scores become."""
    if transform in ("", "NONE"):
        script("Identity", scores, result=result)
    elif transform == "LOGISTIC":
        script("Sigmoid", scores, result=result)
    elif transform == "SOFTMAX":
        script("Softmax", scores, result=result, axis=-1)
    elif transform == "SOFTMAX_ZERO":
        shares = script("Softmax", scores, axis=-1)
        zero = script("Equal", scores, number(script, "zero", 0))
        kept = script("Where", zero, number(script, "nothing", 0), shares)
        total = script("ReduceSum", kept, script.constant("last", np.array([-1])), keepdims=1)
        script("Div", kept, script("Max", total, number(script, "least_total", 1e-30)), result=result)
    else:
        raise script.refused(
            f"post_transform {transform} is not supported; the supported ones are LOGISTIC, NONE, SOFTMAX, SOFTMAX_ZERO"
        )
