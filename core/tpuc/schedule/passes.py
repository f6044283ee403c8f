"""The base class of passes, and the context in which they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, overload

from tpuc.schedule.results import ResultKey

if TYPE_CHECKING:
    from tpuc.api.chip import Chip
    from tpuc.ir import Module
    from tpuc.registry import Registry

T = TypeVar("T")


def _silent(_: str) -> None:
    """A log that discards its messages."""


Progress: TypeAlias = "Callable[[Iterable[Any], str, int | None], Iterable[Any]]"
"""Yields the items of a loop and shows its progress: items, label, total."""


def _no_progress(items: Iterable[Any], _label: str, _total: int | None) -> Iterable[Any]:
    """A progress bar that shows nothing."""
    return items


@dataclass(frozen=True)
class PassContext:
    """The context of a run, shared by its passes.

    `options` holds the user's options for the whole compilation (`quantize`, `calibration_table`, ...) by name with
    underscores; a pass's own options are its fields. `work_dir` is for files that explain the run, None when none are
    wanted. `results` holds what passes produce besides the module, by the keys of `tpuc.schedule.results` and their
    own. `log` writes a message for `-v`, `remark` one for every user; `progress` shows long loops.
    """

    registry: Registry
    chip: Chip | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    work_dir: Path | None = None
    results: dict[ResultKey[Any], Any] = field(default_factory=dict["ResultKey[Any]", Any])
    log: Callable[[str], None] = _silent
    progress: Progress = _no_progress
    remark: Callable[[str], None] = _silent

    def result(self, key: ResultKey[T]) -> T:
        """The result of an earlier pass; raises KeyError when there is none."""
        return self.results[key]

    @overload
    def find(self, key: ResultKey[T]) -> T | None: ...

    @overload
    def find(self, key: ResultKey[T], otherwise: T) -> T: ...

    def find(self, key: ResultKey[T], otherwise: T | None = None) -> T | None:
        """What a pass left, or else `otherwise`."""
        return self.results.get(key, otherwise)

    def leave(self, key: ResultKey[T], value: T) -> None:
        """Store a result for later passes and the session."""
        self.results[key] = value


class Pass(ABC):
    """Base of every pass: a frozen dataclass whose fields are the options (`--pass fuse-relu{keep-limit}`).

    Passes are deterministic: same module and options in, same module out, without clocks, iteration over sets, or
    `id()`.
    """

    name: ClassVar[str]
    api_version: ClassVar[int] = 1

    @abstractmethod
    def run(self, module: Module, context: PassContext) -> bool:
        """Change the module in place; returns True if anything changed."""
