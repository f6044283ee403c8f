"""Unroll recurrent layers that have more features than TOP's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import ForeignNode

from tpuc_onnx.script import Script

MOST_STEPS = 1024
"""Maximum number of steps; each becomes separate operations."""

_GATES: Mapping[str, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
_PLAIN: Mapping[str, tuple[str, ...]] = {
    "RNN": ("tanh",),
    "GRU": ("sigmoid", "tanh"),
    "LSTM": ("sigmoid", "tanh", "tanh"),
}
_ALPHAS: Mapping[str, float] = {
    "affine": 1.0,
    "elu": 1.0,
    "hardsigmoid": 0.2,
    "leakyrelu": 0.01,
    "scaledtanh": 1.0,
    "thresholdedrelu": 1.0,
}
_BETAS: Mapping[str, float] = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}
"""Default beta of the activations that have one."""


def directions(node: ForeignNode) -> tuple[int, ...]:
    """Return, for each direction, whether it runs backwards."""
    return {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[node.attributes.get("direction", "forward")]


def activations(node: ForeignNode) -> list[tuple[str, ...]]:
    """Return the activations of each direction, in lower case."""
    count, plain = len(directions(node)), _PLAIN[node.op_type]
    given = tuple(name.lower() for name in node.attributes.get("activations", ())) or plain * count
    return [given[index * len(plain) : (index + 1) * len(plain)] for index in range(count)]


def is_plain(node: ForeignNode) -> bool:
    """True if TOP has this layer."""
    given = activations(node)
    usual = all(names == _PLAIN[node.op_type] for names in given) or (
        node.op_type == "RNN" and all(names == ("relu",) for names in given)
    )
    has_more = any(index < len(node.inputs) and node.inputs[index] for index in (4, 7))
    return usual and not has_more and "clip" not in node.attributes and not node.attributes.get("input_forget", 0)


@dataclass
class _Way:
    """One direction: names of its matrices (transposed), biases, states, peepholes, and its activations."""

    index: int
    weight: str
    recurrence: str
    bias: str
    peepholes: list[str]
    functions: Sequence[tuple[str, float, float]]


def unroll(script: Script) -> bool:
    """Write one copy of the layer per step; returns False for a long layer that TOP has."""
    node = script.node
    by_batch = bool(node.attributes.get("layout", 0))
    dims = script.shape(node.inputs[0])
    steps, count = (dims[1], dims[0]) if by_batch else dims[:2]
    if is_plain(node) and steps > 1:  # one step reads its weights once in either form, unrolled in a byte each
        return False
    if steps > MOST_STEPS:
        raise script.refused(f"it has {steps} steps, and more than {MOST_STEPS} are too many to unroll")
    running = _running(script, steps)
    lasts: list[tuple[str, str]] = []
    outputs: list[str] = []
    for index, backwards in enumerate(directions(node)):
        way = _way(script, index)
        h, c = (_state(script, place, index, count, by_batch) for place in (5, 6))
        rows: list[str] = [""] * steps
        for step in range(steps):
            place = steps - 1 - step if backwards else step
            h, c, rows[place] = _masked_step(script, way, place, running[place], h, c)
        lasts.append((h, c))
        outputs.append(_stack(script, rows, 0))
    _results(script, outputs, lasts, by_batch)
    return True


def _running(script: Script, steps: int) -> list[str]:
    """Return, for each step, a column that marks the sequences that have not ended; "" if none has."""
    if not script.has(4):
        return [""] * steps
    lengths = script.types.constants.get(script.node.inputs[4])
    if lengths is None:
        column = script("Unsqueeze", script.node.inputs[4], script.constant("axis1", np.array([1])))
        running = script("Greater", column, script.constant("steps", np.arange(steps, dtype=np.int32)[None]))
        return _split(script, running, steps, 1) if steps > 1 else [running]
    masks = [(place < lengths)[:, None] for place in range(steps)]
    return ["" if mask.all() else script.constant(f"running{place}", mask) for place, mask in enumerate(masks)]


def _masked_step(script: Script, way: _Way, place: int, runs: str, h: str, c: str) -> tuple[str, str, str]:
    """Return the states after the step at `place`, and its output; ended sequences keep their states, and output 0."""
    axis = 1 if script.node.attributes.get("layout", 0) else 0
    x = script("Gather", script.node.inputs[0], script.constant(f"place{place}", np.array(place)), axis=axis)
    new_h, new_c = _step(script, way, x, h, c)
    if not runs:
        return new_h, new_c, new_h
    output = script("Where", runs, new_h, script.constant("zero", np.array(0, np.float32)))
    return script("Where", runs, new_h, h), script("Where", runs, new_c, c) if c else "", output


def _way(script: Script, index: int) -> _Way:
    node = script.node
    number = script.constant(f"way{index}", np.array(index))
    weight, recurrence = (
        script("Transpose", script("Gather", node.inputs[place], number, axis=0), perm=[1, 0]) for place in (1, 2)
    )
    bias = script("Gather", node.inputs[3], number, axis=0) if script.has(3) else ""
    peepholes: list[str] = []
    if script.has(7):
        every = script("Gather", node.inputs[7], number, axis=0)
        peepholes = _split(script, every, 3, 0)
    names = activations(node)
    alphas, betas = (
        _consumed(names, node.attributes.get(f"activation_{label}", ()), defaults)[index]
        for label, defaults in (("alpha", _ALPHAS), ("beta", _BETAS))
    )
    functions = list(zip(names[index], alphas, betas, strict=True))
    return _Way(index, weight, recurrence, bias, peepholes, functions)


def _consumed(
    names: Sequence[Sequence[str]], given: Sequence[float], defaults: Mapping[str, float]
) -> list[list[float]]:
    """Return the parameter of each activation of each direction; activations with one take the given ones in turn."""
    rest = iter(given)
    return [[next(rest, defaults[name]) if name in defaults else 0.0 for name in own] for own in names]


def _state(script: Script, place: int, index: int, count: int, by_batch: bool) -> str:
    """Return the state before the first step."""
    node = script.node
    if place == 6 and node.op_type != "LSTM":
        return ""
    if script.has(place):
        number = script.constant(f"way{index}", np.array(index))
        return script("Gather", node.inputs[place], number, axis=1 if by_batch else 0)
    return script.constant(f"state{place}", np.zeros((count, node.attributes["hidden_size"]), np.float32))


def _step(script: Script, way: _Way, x: str, h: str, c: str) -> tuple[str, str]:
    match script.node.op_type:
        case "LSTM":
            return _lstm(script, way, x, h, c)
        case "GRU":
            return _gru(script, way, x, h), ""
        case _:
            gate = _gates(script, way, x, h)[0]
            return _activated(script, gate, way.functions[0]), ""


def _gates(script: Script, way: _Way, x: str, h: str) -> list[str]:
    """Return all gates before their activations."""
    count = _GATES[script.node.op_type]
    total = script("Add", script("MatMul", x, way.weight), script("MatMul", h, way.recurrence))
    if way.bias:
        of_x, of_h = _split(script, way.bias, 2, 0)
        total = script("Add", script("Add", total, of_x), of_h)
    return _split(script, total, count, 1)


def _lstm(script: Script, way: _Way, x: str, h: str, c: str) -> tuple[str, str]:
    i, o, f, g = _gates(script, way, x, h)
    gate, cell, hidden = way.functions
    if way.peepholes:
        i, f = (
            script("Add", value, script("Mul", peephole, c))
            for value, peephole in ((i, way.peepholes[0]), (f, way.peepholes[2]))
        )
    i = _activated(script, i, gate)
    if script.node.attributes.get("input_forget", 0):
        f = script("Sub", script.constant("one", np.array(1, np.float32)), i)
    else:
        f = _activated(script, f, gate)
    new_c = script("Add", script("Mul", f, c), script("Mul", i, _activated(script, g, cell)))
    if way.peepholes:
        o = script("Add", o, script("Mul", way.peepholes[1], new_c))
    return script("Mul", _activated(script, o, gate), _activated(script, new_c, hidden, clipped=False)), new_c


def _gru(script: Script, way: _Way, x: str, h: str) -> str:
    gate, hidden = way.functions
    of_x = _split(script, script("MatMul", x, way.weight), 3, 1)
    matrices = _split(script, way.recurrence, 3, 1)
    size = script.node.attributes["hidden_size"]
    zeros = script.constant("no_bias", np.zeros(6 * size, np.float32))
    biases = _split(script, way.bias or zeros, 6, 0)
    z, r = (
        _activated(
            script,
            script(
                "Add", script("Add", of_x[k], biases[k]), script("Add", script("MatMul", h, matrices[k]), biases[k + 3])
            ),
            gate,
        )
        for k in (0, 1)
    )
    if script.node.attributes.get("linear_before_reset", 0):
        of_h = script("Mul", r, script("Add", script("MatMul", h, matrices[2]), biases[5]))
    else:
        of_h = script("Add", script("MatMul", script("Mul", r, h), matrices[2]), biases[5])
    candidate = _activated(script, script("Add", script("Add", of_x[2], biases[2]), of_h), hidden)
    rest = script("Sub", script.constant("one", np.array(1, np.float32)), z)
    return script("Add", script("Mul", rest, candidate), script("Mul", z, h))


def _activated(script: Script, x: str, function: tuple[str, float, float], clipped: bool = True) -> str:
    """Apply an activation; its argument is clipped to `clip` if the layer states it."""
    name, alpha, beta = function
    limit = script.node.attributes.get("clip")
    if limit is not None and clipped:
        low, high = (
            script.constant(f"{label}_limit", np.float32(value)) for label, value in (("low", -limit), ("high", limit))
        )
        x = script("Clip", x, low, high)
    a, b = (script.constant(f"number{value!r}", np.float32(value)) for value in (alpha, beta))
    match name:
        case "sigmoid" | "tanh" | "relu" | "softsign" | "softplus":
            return script(name.capitalize(), x)
        case "affine":
            return script("Add", script("Mul", x, a), b)
        case "leakyrelu":
            return script("LeakyRelu", x, alpha=alpha)
        case "elu":
            return script("Elu", x, alpha=alpha)
        case "thresholdedrelu":
            return script("ThresholdedRelu", x, alpha=alpha)
        case "hardsigmoid":
            return script("HardSigmoid", x, alpha=alpha, beta=beta)
        case "scaledtanh":
            return script("Mul", script("Tanh", script("Mul", x, b)), a)
        case _:
            raise script.refused(f"activation '{name}' is not known")


def _split(script: Script, x: str, count: int, axis: int) -> list[str]:
    return script.many("Split", x, count=count, axis=axis, num_outputs=count)


def _stack(script: Script, parts: Sequence[str], axis: int) -> str:
    """Stack along a new axis."""
    axes = script.constant(f"axis{axis}", np.array([axis]))
    rows = [script("Unsqueeze", part, axes) for part in parts]
    return script("Concat", *rows, axis=axis)


def _results(script: Script, outputs: Sequence[str], lasts: Sequence[tuple[str, str]], by_batch: bool) -> None:
    """Write all h and the last states, with the directions after the steps or before the hidden elements."""
    names = (*script.node.outputs, "", "")[:3]
    if names[0]:
        script(
            "Transpose", _stack(script, outputs, 1), perm=[2, 0, 1, 3] if by_batch else [0, 1, 2, 3], result=names[0]
        )
    for name, parts in zip(names[1:], zip(*lasts, strict=True), strict=False):
        if name:
            script("Transpose", _stack(script, parts, 0), perm=[1, 0, 2] if by_batch else [0, 1, 2], result=name)
