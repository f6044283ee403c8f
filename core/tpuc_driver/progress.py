"""Show how far a run is: its stage ("step 3 of 7: calibrating") and the loop that runs, on terminals and in notebooks.

Where nobody looks, because stderr is a pipe or a file, nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from tpuc.errors import visible

T = TypeVar("T")


class Bars(Protocol):
    """What shows tasks: `rich.progress.Progress`, or a line in a notebook."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def add_task(self, description: str, *, total: float | None) -> Any: ...

    def advance(self, task: Any, /) -> None: ...

    def remove_task(self, task: Any, /) -> None: ...


class Display:
    """A bar that is there while something runs, and gone afterwards."""

    def __init__(self) -> None:
        self._bar: Bars | None = None
        self._users = 0

    def __call__(self, items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
        """The same items; a bar shows how many have passed."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        with self._shown() as bar:
            if bar is None:
                yield from items
                return
            task = bar.add_task(visible(label), total=total)
            try:
                for item in items:
                    yield item
                    bar.advance(task)
            finally:
                bar.remove_task(task)

    @contextmanager
    def step(self, text: str) -> Generator[None]:
        """Show a line for a stage while the block runs."""
        with self._shown() as bar:
            if bar is None:
                yield
                return
            task = bar.add_task(visible(text), total=None)
            try:
                yield
            finally:
                bar.remove_task(task)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Take the bars away while the block writes where they are."""
        bar = self._bar
        if bar is None:
            yield
            return
        bar.stop()
        try:
            yield
        finally:
            if self._bar is bar:
                bar.start()

    @contextmanager
    def _shown(self) -> Generator[Bars | None]:
        """The bars, where somebody looks; they go when the last user does."""
        if self._bar is None and not _is_watched():
            yield None
            return
        if self._bar is None:
            self._bar = _bars()
            self._bar.start()
        bar = self._bar
        self._users += 1
        try:
            yield bar
        finally:
            self._users -= 1
            if not self._users:
                bar.stop()
                self._bar = None


def _is_watched() -> bool:
    return sys.stderr.isatty() or _notebook() is not None


def _notebook() -> Any:
    """The shell of the kernel of Jupyter that runs this; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if type(shell).__name__ == "ZMQInteractiveShell" else None


def _bars() -> Bars:
    shell = _notebook()
    if shell is not None:
        from tpuc_driver.notebook import NotebookBars

        return NotebookBars(shell)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(file=getattr(sys.stderr, "raw", sys.stderr))  # a bar moves the cursor, which names may not
    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    rest = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*parts, *rest, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
