"""Run a compiled file in simulated memories: the chip-independent part."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tpuc.api import (
    Command,
    CorruptFile,
    CpuFunction,
    DecodedStreams,
    HostArgument,
    HostCall,
    Region,
    StoredInput,
    UsageError,
    check_cores,
    show_region,
    stored_inputs,
)

from tpuc_chip_parts.files import FileTensor, tensor_info

if TYPE_CHECKING:
    import numpy as np
    from tpuc_ops.arrays import Array

Watcher: TypeAlias = Callable[[int, Command], None]
"""Called after every executed command with the number of its part."""


@dataclass(frozen=True)
class HostStep:
    """A function of the runtime that the host processor computes between commands."""

    function: str
    arguments: Mapping[str, Any]
    inputs: tuple[FileTensor, ...]
    outputs: tuple[FileTensor, ...]


Step: TypeAlias = "DecodedStreams | HostStep"


class FileSimulator(ABC):
    """A decoded file with the memories of its chip; `run` may be called many times."""

    part_name: ClassVar[str]
    """The word in messages for the commands between two full barriers."""

    shared_spaces: ClassVar[tuple[str, ...]] = ("ddr",)
    """The memory spaces that all cores of the chip have in common."""

    steps: Sequence[Step]
    """The parts on the chip and the functions on the host processor, in order."""

    def __init__(self, source: str, machine: Any) -> None:
        self.source, self.machine = source, machine
        self._checked = False

    @property
    def parts(self) -> Sequence[DecodedStreams]:
        """The parts that run on the chip, in order."""
        return tuple(step for step in self.steps if isinstance(step, DecodedStreams))

    @property
    @abstractmethod
    def inputs(self) -> Sequence[FileTensor]:
        """The inputs of `run`."""

    @property
    @abstractmethod
    def outputs(self) -> Sequence[FileTensor]:
        """The outputs of `run`."""

    @abstractmethod
    def _reset(self) -> None:
        """Clear memories, so that every run gives the same result unless the program writes to its constants."""

    @abstractmethod
    def forget(self) -> None:
        """Load the constants again: what the program has kept in them between runs is lost."""

    @abstractmethod
    def _memory(self, address: int, size: int) -> Array:
        """`size` bytes of DDR; raises UsageError outside the program's memory."""

    def show(self, region: Region) -> str:
        """A region as text."""
        return show_region(region)

    def check(self) -> None:
        """Raise IllegalCommand for illegal commands and HazardError for unordered conflicts, without running; done
        once.
        """
        if self._checked:
            return
        for index, part in enumerate(self.parts):
            part.check(self._where(index), self.show)
        check_cores(self.parts, self.shared_spaces, self.source)
        self._checked = True

    def check_memory(self) -> None:
        """Raise IllegalCommand for the first command that reads local memory or activations that nothing has written,
        UsageError for chips that do not state what holds data before a run.
        """
        from tpuc_chip_parts.unwritten import Written

        given = [*self.given_regions()]
        if not given:
            raise UsageError(
                f"{self.source}: its chip does not state what holds data before a run; leave out --check-memory."
            )
        lanes, lane_bytes = self.machine.lmem.shape
        written = Written(lanes, lane_bytes, {region.space for region in given}, given)
        index = 0
        for step in self.steps:
            if isinstance(step, HostStep):
                for tensor in step.outputs:
                    written.mark(self._region_of(tensor))
                continue
            written.run(step, self._where(index))
            index += 1

    def given_regions(self) -> Iterator[Region]:
        """Yield the regions of DDR that hold data before a run: inputs and constants. Default: not stated."""
        yield from ()

    def _region_of(self, tensor: FileTensor) -> Region:
        return Region(self.shared_spaces[0], tensor.address, tensor.address + tensor.bytes)

    def run(self, inputs: Mapping[str, Array], *, check: bool = True, watch: Watcher | None = None) -> dict[str, Array]:
        """Execute with `inputs` by name, raw as stored; returns the outputs by name.

        Without `check` commands may be unordered, unaligned or hold unknown fields, as long as they can be executed.
        """
        if check:
            self.check()
        self._reset()
        self._put_inputs(inputs)
        self._execute(watch)
        return {tensor.name: self.tensor(tensor).copy() for tensor in self.outputs}

    def _computed(self, step: HostStep, inputs: Sequence[Array]) -> Sequence[Array]:
        """Return the results of a runtime function; overridden for chips whose files contain host functions."""
        raise NotImplementedError

    def _execute(self, watch: Watcher | None) -> None:
        index = 0
        for step in self.steps:
            if isinstance(step, HostStep):
                self._call(step)
            else:
                self._run_part(index, step, watch)
                index += 1

    def _call(self, step: HostStep) -> None:
        results = self._computed(step, [self.tensor(tensor) for tensor in step.inputs])
        if [result.size for result in results] != [math.prod(tensor.shape) for tensor in step.outputs]:
            raise CorruptFile(
                f"{self.source}: CPU function '{step.function}' returns other shapes than its outputs declare; the "
                "file "
                "is damaged, copy it again"
            )
        for tensor, result in zip(step.outputs, results, strict=True):
            self.tensor(tensor)[...] = result.reshape(tensor.shape)

    def _run_part(self, index: int, part: DecodedStreams, watch: Watcher | None) -> None:
        part.run(self._core(part.core), self._where(index), partial(watch, index) if watch is not None else None)

    def _core(self, core: int) -> Any:
        """Return the machine of a core; overridden for chips with several."""
        return self.machine

    def _put_inputs(self, inputs: Mapping[str, Array]) -> None:
        wanted = [
            StoredInput(tensor.name, tensor.shape, tensor.type.numpy, tensor.type.name.lower())
            for tensor in self.inputs
        ]
        arrays = stored_inputs(inputs, wanted, self.source)
        for tensor in self.inputs:
            self.tensor(tensor)[...] = arrays[tensor.name]

    def _where(self, index: int) -> str:
        return f"{self.source}: {self.part_name} {index}"

    def tensor(self, tensor: FileTensor) -> Array:
        """A view of a tensor of the file in memory, for reading and writing."""
        return self._memory(tensor.address, tensor.bytes).view(tensor.type.numpy).reshape(tensor.shape)

    def read(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A dense tensor from DDR, as the last run left it."""
        return self._memory(address, math.prod(shape) * dtype.itemsize).view(dtype).reshape(tuple(shape)).copy()

    def _written(self) -> Iterator[Region]:
        """The regions written by transfers."""
        for part in self.parts:
            for command in part.dma:
                yield from command.instruction.writes()


def call_function(
    function: CpuFunction[Any],
    inputs: Sequence[Array],
    arguments: Mapping[str, HostArgument],
    outputs: Iterable[FileTensor],
) -> Sequence[Array]:
    """Return the results of a function from a package; raises CorruptFile for invalid arguments."""
    try:
        return function.run(inputs, arguments, [output.shape for output in outputs])
    except KeyError as error:
        reason = f"without {error}"
    except (ValueError, TypeError, IndexError) as error:
        reason = f"with {error}"
    raise CorruptFile(f"CPU function {function.function!r} {reason}; the file is damaged, copy it again")


def host_calls(steps: Iterable[Step]) -> Iterator[HostCall]:
    """The functions on the host processor, for the compiler; positions count all commands."""
    position = 0
    for step in steps:
        if not isinstance(step, HostStep):
            position += len(step.order)
            continue
        inputs, outputs = (
            tuple(tensor_info(tensor, is_input=False) for tensor in tensors) for tensors in (step.inputs, step.outputs)
        )
        arguments = {name: value for name, value in step.arguments.items() if not isinstance(value, tuple)}
        yield HostCall(step.function, arguments, inputs, outputs, position)
