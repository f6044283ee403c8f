"""Runs a compiled file in simulated memories: what is the same for every chip."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tpuc.api import Command, DecodedStreams, Region, StoredInput, show_region, stored_inputs

from tpuc_chip_parts.files import FileTensor

if TYPE_CHECKING:
    import numpy as np
    from tpuc_ops.arrays import Array

Watcher: TypeAlias = Callable[[int, Command], None]
"""Called after every executed command with the number of its part."""


class FileSimulator(ABC):
    """A decoded file with the memories of its chip; `run` may be called many times."""

    part_name: ClassVar[str]
    """What sentences call the commands between two full barriers."""

    def __init__(self, source: str, machine: Any) -> None:
        self.source, self.machine = source, machine
        self._checked = False

    @property
    @abstractmethod
    def parts(self) -> Sequence[DecodedStreams]:
        """Everything that runs on the chip, in order."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[FileTensor]:
        """What `run` takes."""

    @property
    @abstractmethod
    def outputs(self) -> Sequence[FileTensor]:
        """What `run` gives."""

    @abstractmethod
    def _reset(self) -> None:
        """Forget the last run, so that every run gives the same result."""

    @abstractmethod
    def _memory(self, address: int, size: int) -> Array:
        """`size` bytes of DDR; raises UsageError for those outside the program's memory."""

    def show(self, region: Region) -> str:
        """A region in a sentence."""
        return show_region(region)

    def check(self) -> None:
        """Illegal commands (IllegalCommand) and unordered conflicts (HazardError), without running; done once."""
        if self._checked:
            return
        for index, part in enumerate(self.parts):
            part.check(self._where(index), self.show)
        self._checked = True

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

    def _execute(self, watch: Watcher | None) -> None:
        for index, part in enumerate(self.parts):
            self._run_part(index, part, watch)

    def _run_part(self, index: int, part: DecodedStreams, watch: Watcher | None) -> None:
        part.run(self.machine, self._where(index), partial(watch, index) if watch is not None else None)

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
        """A tensor of the file where it lies, to read or to write."""
        return self._memory(tensor.address, tensor.bytes).view(tensor.type.numpy).reshape(tensor.shape)

    def read(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A dense tensor in DDR as the last run left it."""
        return self._memory(address, math.prod(shape) * dtype.itemsize).view(dtype).reshape(tuple(shape)).copy()

    def _written(self) -> Iterator[Region]:
        """What transfers write."""
        for part in self.parts:
            for command in part.dma:
                yield from command.instruction.writes()
