"""What a pass is, and what it may use besides the module."""

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
    """A log that nobody reads."""


Progress: TypeAlias = "Callable[[Iterable[Any], str, int | None], Iterable[Any]]"
"""Passes items on and shows how far the loop is: items, label, total."""


def _no_progress(items: Iterable[Any], _label: str, _total: int | None) -> Iterable[Any]:
    """A bar that nobody sees."""
    return items


@dataclass(frozen=True)
class PassContext:
    """The surroundings of a run, the same for every pass in it.

    `options` holds what the user chose for the whole compilation (`quantize`, `calibration_table`, ...) by option name
    with underscores; a pass's own options are its fields. `work_dir` is where files that explain the run may go, None
    when none are wanted. `results` is what passes leave that is not part of the module, by the
    keys of `tpuc.schedule.results` and their own. `log` takes a remark for `-v`, `remark` one for everybody,
    `progress` shows long loops.
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
        """What a pass left; KeyError when none did."""
        return self.results[key]

    @overload
    def find(self, key: ResultKey[T]) -> T | None: ...

    @overload
    def find(self, key: ResultKey[T], otherwise: T) -> T: ...

    def find(self, key: ResultKey[T], otherwise: T | None = None) -> T | None:
        """What a pass left, or else `otherwise`."""
        return self.results.get(key, otherwise)

    def leave(self, key: ResultKey[T], value: T) -> None:
        """For later passes and for the session."""
        self.results[key] = value


class Pass(ABC):
    """Base of every pass: a frozen dataclass whose fields are the options (`--pass fuse-relu{keep-limit}`).

    Same module and options in, same module out: no clock, no iteration over sets, no `id()`.
    """

    name: ClassVar[str]
    api_version: ClassVar[int] = 1

    @abstractmethod
    def run(self, module: Module, context: PassContext) -> bool:
        """Change the module in place; returns whether anything changed."""
