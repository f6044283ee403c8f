"""A runnable file on its way to another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.data import SampleInput
from tpuc.registry import Registry
from tpuc.session.compare import real_values
from tpuc.session.running import Runner
from tpuc.session.session import Session

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class OpenedFile:
    """A network that is ready to run, whatever its format."""

    runner: Runner

    @property
    def inputs(self) -> Sequence[SampleInput]:
        """What samples must give."""
        return self.runner.inputs

    def run(self, rows: Rows) -> dict[str, Array]:
        """What the outputs mean, for one set of inputs after another, joined along their first axis."""
        results = [self.runner.run(row) for row in rows]
        return {
            name: np.concatenate([np.atleast_1d(real_values(result[name], type)) for result in results])
            for name, type in self.runner.outputs.items()
        }


class RunnableFile:
    """The path of a network in any runnable format, with the choices of plugins that running it needs.

    `preprocess` says how images become inputs where the file does not.
    """

    def __init__(self, path: Path, registry: Registry, preprocess: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.preprocess: Mapping[str, Any] = {} if preprocess is None else preprocess
        self.registry = registry

    def __reduce__(self) -> tuple[Callable[..., RunnableFile], tuple[Any, ...]]:
        choices = (self.registry.prefer, self.registry.enabled)
        return _restore, (str(self.path.resolve()), dict(self.preprocess), *choices)

    def open(self, remark: Callable[[str], None]) -> OpenedFile:
        """The network; `remark` hears what users of it should know."""
        return OpenedFile(Session(self.registry, remark=remark).runner(self.path, self.preprocess))


def _restore(path: str, preprocess: dict[str, Any], prefer: tuple[str, ...], enabled: tuple[str, ...]) -> RunnableFile:
    return RunnableFile(Path(path), Registry(prefer=prefer, enabled=enabled), preprocess)
