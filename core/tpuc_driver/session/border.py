"""Map a network's inputs and outputs to those of its compiled file where they differ.

Containers have their own rules: names of casts, a fixed number of dimensions, one integer type. The metadata of a file
records names and shapes as in the network, so that programs see the same inputs and outputs on every chip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api.chip import HostCall, LoadedModel, TensorInfo
from tpuc.ir import F32, Module, Operation, ScalarType, Uniform
from tpuc.ir.builder import free_name
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.operation import Location
from tpuc.ir.state import states_of
from tpuc.ir.traits import Constant, NetworkInput
from tpuc.machine import Instruction, Timeline

from tpuc_driver.data import inputs_of
from tpuc_driver.data.stored import is_plain

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class NetworkTensor:
    """An input or output as in the network. `element` is the integer type in which the network stores an input, None if
    it takes floats.
    """

    name: str
    shape: tuple[int, ...]
    element: Uniform | None = None

    def meant(self, integers: Array) -> Array | None:
        """Dequantize stored integers of an input; returns None if it takes floats or if the integers are out of
        range.
        """
        if self.element is None:
            return None
        low, high = self.element.bounds
        if integers.size and not low <= int(integers.min()) <= int(integers.max()) <= high:
            return None
        return ((integers.astype(np.float64) - self.element.zero_point) * self.element.scale).astype(np.float32)

    def to_json(self) -> list[Any]:
        """Return a list for the metadata of a file."""
        one = self.element
        stored = [] if one is None else [one.storage.name, one.scale, one.zero_point]
        return [self.name, list(self.shape), *stored]

    @staticmethod
    def from_json(values: Sequence[Any]) -> NetworkTensor:
        """Inverse of `to_json`; raises ValueError or TypeError for malformed values."""
        name, shape, *stored = values
        element = None
        if stored:
            kind, scale, zero_point = stored
            element = Uniform(ScalarType(str(kind)), F32, float(scale), int(zero_point))
            numpy_dtype(element.storage)
        return NetworkTensor(str(name), tuple(int(extent) for extent in shape), element)


@dataclass(frozen=True)
class Border:
    """All inputs and outputs in the order of the file; empty if the file states them as the network does."""

    inputs: tuple[NetworkTensor, ...] = ()
    outputs: tuple[NetworkTensor, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    def fits(self, loaded: LoadedModel) -> bool:
        """Return whether these match the tensors of a file in number and size; names and shapes may differ."""
        pairs = ((loaded.inputs, self.inputs), (loaded.outputs, self.outputs))
        return all(
            len(infos) == len(own)
            and all(math.prod(info.shape) == math.prod(one.shape) for info, one in zip(infos, own, strict=True))
            for infos, own in pairs
        )


def border_of(top: Module, tpu: Module, loaded: LoadedModel) -> Border:
    """Return the border of a file compiled from a TOP module through a TPU module, empty if the file states everything
    itself. An input of image bytes is that of the TPU module.
    """
    own = {operation.name: operation for operation in top.main.operations if isinstance(operation.op, NetworkInput)}
    inputs: list[NetworkTensor] = []
    kept = {name for state in states_of(tpu) for name in (state.input, state.output)}
    given = [one for one in inputs_of(tpu) if one.name not in kept]
    for one, info in zip(given, loaded.inputs, strict=False):
        source = own.get(one.name)
        element = None if source is None else source.result.tensor.element
        is_stored = isinstance(element, Uniform) and not is_plain(element) and element != info.element
        shape = info.shape if info.frame is not None else one.shape
        inputs.append(NetworkTensor(one.name, shape, element if is_stored and isinstance(element, Uniform) else None))
    pairs = zip(top.main.outputs, tpu.main.outputs, strict=True)
    outputs = [NetworkTensor(value.name, value.tensor.dims) for value, made in pairs if made.name not in kept]
    border = Border(tuple(inputs), tuple(outputs))
    stated = Border(
        tuple(NetworkTensor(info.name, info.shape) for info in loaded.inputs),
        tuple(NetworkTensor(info.name, info.shape) for info in loaded.outputs),
    )
    is_distinct = len({one.name for one in outputs}) == len(outputs)
    return border if is_distinct and border != stated and border.fits(loaded) else Border()


def name_outputs(module: Module, names: Sequence[str]) -> None:
    """Give a lowered module's outputs the names of the network's outputs, and rename inner values that had them."""
    outputs = module.main.outputs
    taken = {value.name: value for operation in module.main.operations for value in operation.results}
    for output, name in zip(outputs, names, strict=True):
        inner = taken.get(name)
        makers = [one.defining for one in (inner, output) if one is not None and one.defining is not None]
        if inner is None or inner in outputs or len(makers) < 2 or not all(map(_may_be_renamed, makers)):
            continue
        new = free_name(f"{name}_{inner.tensor.storage.name}", taken.__contains__)
        makers[0].location, makers[1].location = Location((new,)), Location((name,))
        taken |= {new: inner, name: output}


def _may_be_renamed(maker: Operation) -> bool:
    return len(maker.results) == 1 and not isinstance(maker.op, (NetworkInput, Constant))


def as_network(loaded: LoadedModel, border: Border) -> LoadedModel:
    """Wrap a file to show the inputs and outputs of its network; returns the file itself if they do not differ."""
    return NetworkModel(loaded, border) if border and border.fits(loaded) else loaded


class NetworkModel(LoadedModel):
    """Compiled file with the names and shapes of its network; `container` is the file as it is."""

    def __init__(self, container: LoadedModel, border: Border) -> None:
        self.container, self.border = container, border
        self.inputs = _stated(container.inputs, border.inputs)
        self.outputs = _stated(container.outputs, border.outputs)
        self.layers, self.inner_tensors = container.layers, container.inner_tensors
        self.is_trusted, self.ddr_spaces = container.is_trusted, container.ddr_spaces
        self.states, self.reset_input = container.states, container.reset_input

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        names = {one.name: info.name for one, info in zip(self.inputs, self.container.inputs, strict=True)}
        given = {names.get(name, name): array for name, array in inputs.items()}
        results = self.container.run(given, check)
        pairs = zip(self.outputs, self.container.outputs, strict=True)
        return {one.name: np.reshape(results[info.name], one.shape) for one, info in pairs}

    def reset(self) -> None:
        self.container.reset()

    def check(self) -> None:
        self.container.check()

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self.container.read(address, shape, storage)

    def timeline(self, profile: str) -> Timeline:
        return self.container.timeline(profile)

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        return self.container.timeline_if(profile, ddr_speed)

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        return self.container.ddr_bytes(instruction)

    @property
    def device_bytes(self) -> Mapping[str, int]:
        return self.container.device_bytes

    @property
    def host_calls(self) -> Sequence[HostCall]:
        return self.container.host_calls

    def refused_by(self, runtime_version: str) -> str | None:
        return self.container.refused_by(runtime_version)

    def disassemble(self) -> str:
        return self.container.disassemble()

    @property
    def memory(self) -> Mapping[str, int]:
        return self.container.memory


def _stated(infos: Sequence[TensorInfo], own: Sequence[NetworkTensor]) -> tuple[TensorInfo, ...]:
    return tuple(replace(info, name=one.name, shape=one.shape) for info, one in zip(infos, own, strict=True))
