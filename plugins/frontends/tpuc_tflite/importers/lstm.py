"""LSTM layers: a single op if TOP has one for them, else unrolled steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import ElementType, ForeignNode, Uniform, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Quantize

from tpuc_tflite.building import TfliteBuilder
from tpuc_tflite.control import MOST_STEPS
from tpuc_tflite.importers.common import TABLE, constant_of
from tpuc_tflite.loading import INTERMEDIATES

_TANH = 4
"""The format's number of this activation."""

_GATES: Mapping[str, int] = {"input": 0, "output": 3, "forget": 1, "cell": 2}
"""TOP's order of gates, by their index in the file."""

_PEEPHOLES: Mapping[str, int] = {"input": 9, "forget": 10, "output": 11}
_WEIGHT, _RECURRENCE, _BIAS, _PROJECTION, _PROJECTION_BIAS, _CELL, _NORM = 1, 5, 12, 16, 17, 19, 20
"""Operand indices; for gates, that of the first gate."""

_NORM_EPSILON = 1e-8
_NORM_STEPS = 1 << 10
"""Steps of the bias after an integer normalization, in one step of its coefficients."""

_UNIT_TYPE = 4
"""Index of the intermediate tensor with the type of a unit's result in an integer layer."""


@dataclass(frozen=True)
class _Projection:
    """A product with the units' results, which are stored in `unit` before it."""

    matrix: Array
    bias: Array
    unit: Uniform | None


@dataclass(frozen=True)
class _Layer:
    """The computation of one step, with gates in the order of `gates`. Without an input gate, that gate is 1 -
    forget.
    """

    gates: tuple[str, ...]
    weight: Array
    recurrence: Array
    biases: Mapping[str, Array]
    peepholes: Mapping[str, Array]
    norms: Mapping[str, Array]
    projection: _Projection | None
    cell_limit: float
    result_limits: tuple[float, float] | None
    result: ElementType | None
    """Type of every step's outputs in an integer layer."""

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.weight) // len(self.gates)

    @property
    def outputs(self) -> int:
        """The extent of each step's result."""
        return self.recurrence.shape[1]

    @property
    def is_plain(self) -> bool:
        """True if TOP has an op for the layer."""
        return len(self.gates) == len(_GATES) and not any((self.peepholes, self.norms, self.projection))


@TABLE.imports("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import all outputs of a layer whose initial states are 0."""
    activation = node.attributes.get("fused_activation_function", _TANH)
    limits = [float(node.attributes.get(name, 0.0)) for name in ("cell_clip", "proj_clip")]
    if activation != _TANH or min(limits) < 0:
        raise build.refuse(node, "only LSTMs with tanh and clips of at least 0 are supported")
    layer = _layer(node, build, *limits)
    if layer.result is not None and layer.peepholes and layer.outputs != layer.units:
        reason = "for integers LiteRT confuses units with peepholes and a projection to another size"
        raise build.refuse(node, f"{reason}: export this node as float")
    return _whole(node, build, layer) if layer.is_plain and not limits[0] else _written_out(node, build, layer)


def _layer(node: ForeignNode, build: TfliteBuilder, cell_clip: float, projection_clip: float) -> _Layer:
    """Return the constants of a node; raises Unsupported for missing operands."""
    gates, variants = _present(node, build)

    def of(place: int) -> Array:
        return constant_of(node, build, place).astype(np.float32)

    projection = _projection(node, build)
    return _Layer(
        gates,
        np.concatenate([of(_WEIGHT + _GATES[gate]) for gate in gates]),
        np.concatenate([of(_RECURRENCE + _GATES[gate]) for gate in gates]),
        {gate: _bias(node, build, gate, has_norms="norms" in variants) for gate in gates},
        {gate: of(place) for gate, place in _PEEPHOLES.items() if gate in gates and "peepholes" in variants},
        {gate: of(_NORM + _GATES[gate]) for gate in gates if "norms" in variants},
        projection,
        _cell_limit(node, build, cell_clip),
        _result_limits(node, build, projection_clip) if projection and projection_clip else None,
        build.entry(node.outputs[0]).element if build.is_quantized() else None,
    )


def _present(node: ForeignNode, build: TfliteBuilder) -> tuple[tuple[str, ...], set[str]]:
    """Return which gates exist, and their optional operands; raises Unsupported if only some gates have one."""
    present = {place for place, name in enumerate(node.inputs) if name}
    gates = tuple(name for name in _GATES if name != "input" or not present.isdisjoint((_WEIGHT, _RECURRENCE)))
    peepholes = {place for gate, place in _PEEPHOLES.items() if gate in gates}
    norms = {_NORM + _GATES[gate] for gate in gates}
    variants = {name for name, places in (("peepholes", peepholes), ("norms", norms)) if places & present}
    needed = {first + _GATES[gate] for first in (_WEIGHT, _RECURRENCE) for gate in gates}
    needed |= peepholes if "peepholes" in variants else set()
    needed |= norms if "norms" in variants else set()
    if not present >= needed:
        raise build.refuse(node, "some of its gates lack an operand that the others have")
    return gates, variants


def _bias(node: ForeignNode, build: TfliteBuilder, gate: str, *, has_norms: bool) -> Array:
    """Return a gate's bias; for integers its scale follows from others, whatever the file states."""
    number = _GATES[gate]
    place, weight = _BIAS + number, node.inputs[_WEIGHT + number]
    if place >= len(node.inputs) or not node.inputs[place]:
        return np.zeros(build.shape(weight)[0], np.float32)
    real = constant_of(node, build, place)
    if not build.is_quantized():
        return real
    if has_norms:
        scale = _scale(node, build, node.inputs[_NORM + number]) / _NORM_STEPS
    else:
        scale = _scale(node, build, weight) * _scale(node, build, node.inputs[0])
    stored = build.constant(node.inputs[place])
    assert stored is not None
    return (stored.astype(np.float64) * scale).astype(np.float32)


def _projection(node: ForeignNode, build: TfliteBuilder) -> _Projection | None:
    """Return the projection of the units' results, if there is one."""
    names = [*node.inputs, *[""] * _NORM]
    if not names[_PROJECTION]:
        return None
    matrix = constant_of(node, build, _PROJECTION)
    unit = _unit_type(node, build) if build.is_quantized() else None
    bias = np.zeros(len(matrix), np.float32)
    if names[_PROJECTION_BIAS]:
        bias = constant_of(node, build, _PROJECTION_BIAS)
        if unit is not None:
            bias = bias * (_scale(node, build, names[_PROJECTION]) * unit.scale)
    return _Projection(matrix.astype(np.float32), bias.astype(np.float32), unit)


def _unit_type(node: ForeignNode, build: TfliteBuilder) -> Uniform:
    """Return how a unit's result is stored before projection."""
    names = node.attributes.get(INTERMEDIATES, ())
    entry = build.entries.get(names[_UNIT_TYPE]) if len(names) > _UNIT_TYPE else None
    if entry is None or not isinstance(entry.element, Uniform):
        raise build.refuse(node, "it does not state the scale of the projected values")
    return entry.element


def _scale(node: ForeignNode, build: TfliteBuilder, name: str) -> float:
    element = build.entry(name).element
    if not isinstance(element, Uniform):
        raise build.refuse(node, f"its operand '{name}' has no single scale, but its result has one")
    return element.scale


def _cell_limit(node: ForeignNode, build: TfliteBuilder, clip: float) -> float:
    """Return the maximum of the cell state, which integer types limit too."""
    limit = clip or math.inf
    state = node.inputs[_CELL] if len(node.inputs) > _CELL else ""
    if not build.is_quantized() or not state:
        return limit
    element = build.entry(state).element
    return min(limit, element.bounds[1] * element.scale) if isinstance(element, Uniform) else limit


def _result_limits(node: ForeignNode, build: TfliteBuilder, clip: float) -> tuple[float, float]:
    """Return the limits of projected results. LiteRT clips stored integers, whatever their zero point."""
    element = build.entry(node.outputs[0]).element
    if not isinstance(element, Uniform):
        return -clip, clip
    steps = min(int(np.float32(clip) / np.float32(element.scale)), element.bounds[1])
    return (-steps - element.zero_point) * element.scale, (steps - element.zero_point) * element.scale


def _whole(node: ForeignNode, build: TfliteBuilder, layer: _Layer) -> Value:
    """Build a single op. For integers, it feeds back unrounded results, and its cell state has no limit."""
    name, x = node.outputs[0], build.real_value(build.value(node.inputs[0]))
    bias = np.concatenate([*layer.biases.values(), np.zeros(len(layer.weight), np.float32)])
    operands = [
        x,
        build.weight(f"{name}_filter", layer.weight[None]),
        build.weight(f"{name}_recurrence", layer.recurrence[None]),
        build.weight(f"{name}_bias", bias[None]),
        build.none(),
        build.none(),
    ]
    op = top.LSTM(hidden_size=layer.units, batch_first=not node.attributes.get("time_major", False))
    names = tuple(f"{name}_{part}" for part in ("all", "last_h", "last_c"))
    result, dims = build.build_all(op, operands, names)[0], (*x.tensor.dims[:2], layer.units)
    if layer.result is None:
        return build.reshape(result, dims, name)
    real = build.reshape(result, dims, f"{name}_real")
    return build.build(Quantize(), [real], name, [real.tensor.with_element(layer.result)])


def _written_out(node: ForeignNode, build: TfliteBuilder, layer: _Layer) -> Value:
    """Unroll the steps; all products with the inputs are computed at once."""
    name, time = node.outputs[0], 0 if node.attributes.get("time_major", False) else 1
    x = build.real_value(build.value(node.inputs[0]))
    steps, count = x.tensor.dims[time], x.tensor.dims[1 - time]
    if steps > MOST_STEPS:
        raise build.refuse(node, f"at most {MOST_STEPS} steps can be unrolled, but it has {steps}")
    rows = build.reshape(x, (steps * count, layer.weight.shape[1]), f"{name}_rows")
    bias = build.none()
    if not layer.norms:
        bias = build.weight(f"{name}_bias", np.concatenate(list(layer.biases.values())))
    gates = build.build(top.MatMul(), [rows, build.weight(f"{name}_filter", layer.weight.T), bias], f"{name}_gates")
    gates = build.reshape(gates, (*x.tensor.dims[:2], len(layer.weight)), f"{name}_gates_by_step")
    step = _Step(build, layer, name)
    h: Value | None = None
    c: Value | None = None
    results = list[Value]()
    for number in range(steps):
        at = f"{name}_step{number}"
        h, c = step.run(_at(build, gates, time, number, at), h, c, at)
        extents = (1, count, layer.outputs) if time == 0 else (count, 1, layer.outputs)
        results.append(build.reshape(h, extents, f"{at}_result"))
        h = build.real_value(h)
    if steps == 1:
        return build.reshape(results[0], (*x.tensor.dims[:2], layer.outputs), name)
    return build.build(top.Concat(axis=time), results, name)


class _Step:
    """Builds the steps of a layer, which share its constants."""

    def __init__(self, build: TfliteBuilder, layer: _Layer, name: str) -> None:
        self._build, self._layer = build, layer
        self._recurrence = build.weight(f"{name}_recurrence", layer.recurrence.T)
        self._peepholes = {gate: build.weight(f"{name}_{gate}_peephole", a) for gate, a in layer.peepholes.items()}
        self._norms = {
            gate: (build.weight(f"{name}_{gate}_norm", a), build.weight(f"{name}_{gate}_bias", layer.biases[gate]))
            for gate, a in layer.norms.items()
        }
        self._projection: list[Value] = []
        if layer.projection is not None:
            self._projection = [
                build.weight(f"{name}_projection", layer.projection.matrix.T),
                build.weight(f"{name}_projection_bias", layer.projection.bias),
            ]

    def run(self, of_x: Value, h: Value | None, c: Value | None, name: str) -> tuple[Value, Value]:
        """Return the next h and c, where None stands for zeros; h has the layer's own type."""
        make, gates = self._build.build, of_x
        if h is not None:
            of_h = make(top.MatMul(), [h, self._recurrence, self._build.none()], f"{name}_product")
            gates = make(top.Add(), [of_x, of_h], f"{name}_sum")
        sums = self._apart(gates, name)
        forget = self._gate("forget", sums, c, name) if c is not None or "input" not in sums else None
        if "input" in sums:
            taken = self._gate("input", sums, c, name)
        else:
            assert forget is not None
            taken = make(top.SubConst(const_val=1.0, is_reverse=True), [forget], f"{name}_input_gate")
        new = make(top.Tanh(), [self._normalized("cell", sums, name)], f"{name}_new")
        cell = make(top.Mul(), [taken, new], f"{name}_taken")
        if c is not None:
            assert forget is not None
            cell = make(top.Add(), [make(top.Mul(), [forget, c], f"{name}_kept"), cell], f"{name}_open")
        limit = self._layer.cell_limit
        if limit < math.inf:
            cell = make(top.Clip(min=-limit, max=limit), [cell], f"{name}_c")
        shown = make(top.Tanh(), [cell], f"{name}_shown")
        result = make(top.Mul(), [self._gate("output", sums, cell, name), shown], f"{name}_h")
        return self._result(result, name), cell

    def _apart(self, gates: Value, name: str) -> dict[str, Value]:
        """Return the sums of each gate."""
        order = self._layer.gates
        extents = (self._layer.units,) * len(order)
        op = top.Split(axis=1, num=len(order), split_size=extents)
        values = self._build.build_all(op, [gates], [f"{name}_{gate}" for gate in order])
        return dict(zip(order, values, strict=True))

    def _gate(self, gate: str, sums: dict[str, Value], c: Value | None, name: str) -> Value:
        """Apply the sigmoid of a gate."""
        make = self._build.build
        if c is not None and gate in self._peepholes:
            seen = make(top.Mul(), [c, self._peepholes[gate]], f"{name}_{gate}_seen")
            sums = {**sums, gate: make(top.Add(), [sums[gate], seen], f"{name}_{gate}_with_cell")}
        return make(top.Sigmoid(), [self._normalized(gate, sums, name)], f"{name}_{gate}_gate")

    def _normalized(self, gate: str, sums: dict[str, Value], name: str) -> Value:
        if gate not in self._norms:
            return sums[gate]
        op = top.LayerNorm(axis=-1, normalized_shape=(self._layer.units,), eps=_NORM_EPSILON)
        return self._build.build(op, [sums[gate], *self._norms[gate]], f"{name}_{gate}_normalized")

    def _result(self, value: Value, name: str) -> Value:
        """Project, clip, and store a result as the layer does."""
        make, layer = self._build.build, self._layer
        if layer.projection is not None:
            if layer.projection.unit is not None:
                type_ = value.tensor.with_element(layer.projection.unit)
                value = self._build.real_value(make(Quantize(), [value], f"{name}_unit", [type_]))
            value = make(top.MatMul(), [value, *self._projection], f"{name}_projected")
        if layer.result_limits is not None:
            low, high = layer.result_limits
            value = make(top.Clip(min=low, max=high), [value], f"{name}_limited")
        if layer.result is None:
            return value
        return make(Quantize(), [value], f"{name}_stored", [value.tensor.with_element(layer.result)])


def _at(build: TfliteBuilder, value: Value, axis: int, number: int, name: str) -> Value:
    """Return a matrix: three-dimensional `value` at one position of an axis."""
    dims = value.tensor.dims
    if dims[axis] > 1:
        offset, ends = [0] * 3, list(dims)
        offset[axis], ends[axis] = number, number + 1
        cut = top.Slice(offset=tuple(offset), steps=(1, 1, 1), ends=tuple(ends))
        value = build.build(cut, [value], f"{name}_slice")
    return build.reshape(value, (dims[1 - axis], dims[2]), f"{name}_gates")
