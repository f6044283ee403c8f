"""Check that the user's preprocessing options agree with a network's first layers and stored inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tpuc.api import InvalidModel, Module, Operation, Uniform, Value
from tpuc.api.boundary import preprocess_of
from tpuc_ops import top
from tpuc_ops.arrays import Array

AFFINE = (top.Add, top.AddConst, top.BatchNorm, top.Div, top.Mul, top.MulConst, top.Scale, top.Sub)
"""Ops by which networks normalize their inputs."""

WAY_OUT = "Correct the preprocessing options, or pass bytes with --preprocess none."
NORMAL, LARGE = 20.0, 300.0
"""Normalized bytes span less than the first number, bytes after mean subtraction less than the second."""
STORED = (0.1, 1.5)
"""Minimum and maximum ratio of a described range to the range of the stored integers."""


def check_normalization(module: Module, path: str) -> None:
    """Raise InvalidModel if first layers or stored integers contradict the description of an input."""
    for operation in module.main.operations:
        if isinstance(operation.op, top.Input) and operation.op.do_preprocess:
            _check(module, operation, path)


def _check(module: Module, operation: Operation, path: str) -> None:
    said = preprocess_of(operation.op, operation.result.tensor.dims)
    channels = max(len(said.mean), len(said.scale))
    ends = said.normalize(np.array([[0] * channels, [255] * channels]))
    place = f"{path}: input '{operation.name}'"
    element = operation.result.tensor.element
    if isinstance(element, Uniform):
        limits = _limits(element)
        part = _span(ends) / (limits[1] - limits[0])
        if not STORED[0] <= part <= STORED[1]:
            raise InvalidModel(
                f"{place} stores integers for the range {_shown(limits)}, but mean and scale turn bytes into "
                f"{_shown(ends)}. {WAY_OUT}"
            )
    layers = list(_first_layers(operation.result))
    if not layers or said.layout == "nhwc":
        return
    described = _through(module, layers, ends)
    plain = _through(module, layers, np.array([[0.0] * channels, [255.0] * channels], np.float32))
    if _span(described) > LARGE or (_span(plain) <= NORMAL and _span(described) < _span(plain) / 10):
        raise InvalidModel(
            f"{place} is also normalized by the network ('{layers[-1].name}'): mean and scale turn bytes into "
            f"{_shown(ends)}, and the network turns these into {_shown(described)}. {WAY_OUT}"
        )


def _limits(element: Uniform) -> tuple[float, float]:
    """Return the real values of the smallest and the largest stored integer."""
    bits, is_unsigned = element.storage.bits, element.storage.is_unsigned
    lowest = 0 if is_unsigned else -(1 << (bits - 1))
    first, last = ((stored - element.zero_point) * element.scale for stored in (lowest, lowest + (1 << bits) - 1))
    return first, last


def _first_layers(value: Value) -> Iterator[Operation]:
    """Yield the affine layers with constants that follow an input, one after the other."""
    while len(value.uses) == 1:
        (user,) = value.users
        others = [operand for operand in user.operands if operand is not value]
        if not isinstance(user.op, AFFINE) or not all(_is_constant(one) for one in others):
            return
        yield user
        value = user.result


def _is_constant(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, (top.Weight, top.None_))


def _through(module: Module, layers: Sequence[Operation], ends: Array) -> Array:
    """Apply the layers to both ends of the pixel range; returns one value per channel for each."""
    first = layers[0].operands[0] if not _is_constant(layers[0].operands[0]) else layers[0].operands[1]
    dims = first.tensor.dims
    columns = np.broadcast_to(ends, (2, dims[1])) if ends.shape[1] in (1, dims[1]) else ends[:, : dims[1]]
    values: list[Array] = []
    for row in columns:
        array = np.broadcast_to(row.reshape(1, -1, 1, 1), dims).astype(np.float32)
        for layer in layers:
            operands = [array if not _is_constant(one) else _constant(module, one) for one in layer.operands]
            (array,) = layer.op.evaluate(layer.node(), operands)
        values.append(array.reshape(-1))
    return np.stack(values)


def _constant(module: Module, value: Value) -> Array:
    assert value.defining is not None
    is_weight = isinstance(value.defining.op, top.Weight)
    return module.weights[value.name] if is_weight else np.zeros(0, np.float32)


def _span(ends: Array | Sequence[float]) -> float:
    """Return the range of the widest channel."""
    array = np.asarray(ends)
    return float(np.abs(array[1] - array[0]).max())


def _shown(ends: Array | Sequence[float]) -> str:
    array = np.asarray(ends)
    return f"[{float(array.min()):.4g}, {float(array.max()):.4g}]"
