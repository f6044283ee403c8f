"""Building blocks for simulators of chips: the meaning of instructions, and runnable files. Imports numpy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.api.chip import LoadedModel, TensorInfo
from tpuc.errors import CorruptFile, IllegalCommand, Unsupported
from tpuc.ir import F32, ElementType, ScalarType, Uniform
from tpuc.ir.dtypes import numpy_dtype
from tpuc.machine import DecodedStreams, Instruction, Timeline, make_timelines
from tpuc.machine.windows import Pads as Pads
from tpuc.machine.windows import Product as Product
from tpuc.machine.windows import SlidingWindow as SlidingWindow
from tpuc.machine.windows import convolve as convolve
from tpuc.machine.windows import exact_matmul as exact_matmul
from tpuc.machine.windows import exact_product as exact_product

Array: TypeAlias = npt.NDArray[Any]


class Simulator(Protocol):
    """Runs a decoded file. `parts` run one after another with a full barrier between them."""

    @property
    def parts(self) -> Sequence[DecodedStreams]:
        """The parts that run on the chip."""
        ...

    def run(self, inputs: Mapping[str, Array], *, check: bool = True) -> dict[str, Array]:
        """Outputs by name."""
        ...

    def check(self) -> None:
        """Raise IllegalCommand or HazardError."""

    def check_memory(self) -> None:
        """Raise IllegalCommand for a command that reads memory which nothing has written."""

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A dense tensor from DDR, as the last run left it."""
        ...


class SimulatedModel(LoadedModel):
    """A file in the simulator of its chip."""

    def __init__(self, simulator: Simulator, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        self._runner, self._parts = simulator, simulator.parts
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        return self._runner.run(inputs, check=check)

    def check(self) -> None:
        self._runner.check()

    def check_memory(self) -> None:
        """Raise IllegalCommand for a command that reads memory which nothing has written."""
        self._runner.check_memory()

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self._runner.read(address, shape, numpy_dtype(storage))

    @abstractmethod
    def cycles(self, instruction: Instruction, profile: str) -> int:
        """Cycles of an instruction."""

    shared_profile: str = ""
    """The profile of commands that run beside those of another core; empty: the same."""

    def start_cycles(self, instruction: Instruction, profile: str) -> int:
        """Start-up cycles of a DDR transfer, before it moves any data."""
        return 0

    def timeline(self, profile: str) -> Timeline:
        beside = self.shared_profile or profile
        return make_timelines(
            self._parts,
            lambda instruction: self.cycles(instruction, profile),
            lambda instruction: self.cycles(instruction, beside),
        )

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        def duration(instruction: Instruction) -> int:
            count = self.cycles(instruction, profile)
            if not any(self.ddr_bytes(instruction)):
                return count
            start = self.start_cycles(instruction, profile)
            return max(1, start + int((count - start) / ddr_speed))

        return make_timelines(self._parts, duration)


@contextmanager
def errors_name(source: str) -> Generator[None]:
    """Prefix the message of an error about a file that cannot be loaded with the file's name."""
    try:
        yield
    except (CorruptFile, IllegalCommand, Unsupported) as error:
        if str(error).startswith(source):
            raise
        raise type(error)(f"{source}: {error}") from error


def stored_element(
    element: str, uniform: str | None, scale: float, zero_point: int = 0, *, is_input: bool
) -> ElementType:
    """The stored element type of a tensor: integers with a scale are quantized, with the type that `uniform` names.

    The scale of an input is the factor by which real values are multiplied.
    """
    if uniform is None or scale <= 0 or (scale, zero_point) == (1.0, 0):
        return ScalarType(element)
    return Uniform(ScalarType(uniform), F32, 1.0 / scale if is_input else scale, zero_point)
