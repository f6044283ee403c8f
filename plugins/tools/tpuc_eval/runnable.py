"""Networks in any runnable format that can be sent to other processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from tpuc.api import Module, Registry
from tpuc.api.evaluation import Array, real_values
from tpuc_driver.api.host import Runner, SampleInput, Session, module_runner

from tpuc_eval.options import reader
from tpuc_eval.protocols import Postprocess

Rows: TypeAlias = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class OpenedFile:
    """A network that is ready to run, in any format. `reader` reads the output of its built-in post-processing."""

    runner: Runner
    reader: Postprocess | None = None

    @property
    def inputs(self) -> Sequence[SampleInput]:
        """The inputs that samples must provide."""
        return self.runner.inputs

    def run(self, rows: Rows) -> dict[str, Array]:
        """Return the real values of the outputs, for one set of inputs after another, concatenated along their
        first axis.
        """
        results = [self.runner.run(row) for row in rows]
        return {
            name: np.concatenate([np.atleast_1d(real_values(result[name], type)) for result in results])
            for name, type in self.runner.outputs.items()
        }


class Runnable(Protocol):
    """A network that can be opened where it runs; `path` names it in messages."""

    @property
    def path(self) -> Path: ...

    def open(self, remark: Callable[[str], None]) -> OpenedFile:
        """Open the network; `remark` receives notes for its users."""
        ...


@dataclass(frozen=True)
class RunnableModule:
    """A module in this process."""

    module: Module

    @property
    def path(self) -> Path:
        """The name used in messages."""
        return Path(self.module.name)

    def open(self, remark: Callable[[str], None]) -> OpenedFile:
        """See Runnable."""
        runner = module_runner(self.module, False, remark)
        return OpenedFile(runner, reader(Registry(), runner.postprocess))


@dataclass(frozen=True)
class RunnableFile:
    """The path of a network in any runnable format, with the plugin choices that running it needs.

    `preprocess`: how images become inputs if the file does not state it; `layout`: the layout of arrays; `trust`:
    allows code in the file.
    """

    path: Path
    registry: Registry
    preprocess: Mapping[str, Any] = field(default_factory=dict[str, Any])
    layout: str = ""
    trust: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """Make paths absolute for another process, whose working directory may differ."""
        return {**self.__dict__, "path": self.path.resolve()}

    def open(self, remark: Callable[[str], None]) -> OpenedFile:
        """Open the network; `remark` receives notes for its users.

        An input of plain bytes can only take pixels, so mean and scale of `preprocess` do not apply to it.
        """
        session = Session(self.registry, input_layout=self.layout, trust=self.trust, remark=remark)
        runner = session.runner(self.path, self.preprocess)
        inputs = [_of_pixels(one, remark) if _takes_bytes(one) else one for one in runner.inputs]
        return OpenedFile(dataclasses.replace(runner, inputs=inputs), reader(self.registry, runner.postprocess))


def _takes_bytes(one: SampleInput) -> bool:
    return one.dtype == np.dtype(np.uint8) and one.store is None and len(one.shape) == 4


def _of_pixels(one: SampleInput, remark: Callable[[str], None]) -> SampleInput:
    plain = dataclasses.replace(one.preprocess, mean=(0.0,), scale=(1.0,))
    if plain == one.preprocess:
        return one
    if set(one.preprocess.mean) != {0.0} or set(one.preprocess.scale) != {1.0}:
        remark(f"input '{one.name}' takes image bytes, which the network normalizes itself: mean and scale are ignored")
    return dataclasses.replace(one, preprocess=plain)
