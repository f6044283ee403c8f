"""Expand reductions into a sum with operations before and after it."""

from __future__ import annotations

import numpy as np

from tpuc_onnx.script import Script


def reduce_sum_square(script: Script) -> None:
    """Expand the sum of squares."""
    x = script.node.inputs[0]
    _sum(script, script("Mul", x, x), script.node.outputs[0])


def reduce_log_sum(script: Script) -> None:
    """Expand the logarithm of the sum."""
    script("Log", _sum(script, script.node.inputs[0]), result=script.node.outputs[0])


def reduce_log_sum_exp(script: Script) -> None:
    """Expand log-sum-exp; the maximum is subtracted, as exponentials overflow float32 from 89 on."""
    x, target = script.node.inputs[0], script.node.outputs[0]
    axes = _axes(script)
    if axes == []:
        script("Identity", x, result=target)  # the logarithm of a single exponential
        return
    largest = script("ReduceMax", x, *_axes_operand(script, axes), keepdims=1)
    total = script("ReduceSum", script("Exp", script("Sub", x, largest)), *_axes_operand(script, axes), keepdims=1)
    if script.node.attributes.get("keepdims", 1):
        script("Add", script("Log", total), largest, result=target)
        return
    result = script("Add", script("Log", total), largest)
    script("Squeeze", result, *_axes_operand(script, axes), result=target)


def _sum(script: Script, x: str, target: str = "") -> str:
    axes = _axes(script)
    if axes == []:
        return script("Identity", x, result=target)
    keepdims = script.node.attributes.get("keepdims", 1)
    return script("ReduceSum", x, *_axes_operand(script, axes), result=target, keepdims=keepdims)


def _axes(script: Script) -> list[int] | None:
    """Return the axes from the attribute (old opsets) or the operand; None for all, an empty list for none."""
    given = script.node.attributes.get("axes")
    if given is None:
        array = script.known(1, "the list of axes")
        given = () if array is None else array.reshape(-1).tolist()
    axes = [int(axis) for axis in given]
    return axes if axes or script.node.attributes.get("noop_with_empty_axes", 0) else None


def _axes_operand(script: Script, axes: list[int] | None) -> tuple[str, ...]:
    return () if axes is None else (script.constant("axes", np.array(axes, np.int64)),)
