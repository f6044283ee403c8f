"""Progress in a notebook as one line of text that is replaced; needs nothing but IPython, which the kernel has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

PAUSE_SECONDS = 0.1
"""Between two versions of the line: each is a message to the browser."""


@dataclass
class _Task:
    description: str
    total: float | None
    completed: float = 0

    def text(self) -> str:
        if self.total is None:
            return self.description
        return f"{self.description} {self.completed:g} of {self.total:g}"


class NotebookBars:
    """What is used of `rich.progress.Progress`, which shows nothing in notebooks without ipywidgets.

    All bars of a cell share one output, which is empty when nothing runs.
    """

    _handle: Any = None
    _cell: Any = None

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._tasks: dict[int, _Task] = {}
        self._number = 0
        self._shown_at = 0.0

    def start(self) -> None:
        """Show the line."""
        if NotebookBars._handle is None or NotebookBars._cell != self._shell.execution_count:
            display: Any = import_module("IPython.display")
            NotebookBars._handle, NotebookBars._cell = display.DisplayHandle(), self._shell.execution_count
            NotebookBars._handle.display({"text/plain": ""}, raw=True)
        self._show(self._text())

    def stop(self) -> None:
        """Empty the line."""
        self._show("")

    def add_task(self, description: str, total: float | None = None) -> int:
        """The number of a task that begins."""
        self._number += 1
        self._tasks[self._number] = _Task(description, total)
        self._show(self._text())
        return self._number

    def advance(self, task: int) -> None:
        """One more item of a task has passed."""
        self._tasks[task].completed += 1
        if time.monotonic() - self._shown_at >= PAUSE_SECONDS:
            self._show(self._text())

    def remove_task(self, task: int) -> None:
        """A task has ended."""
        del self._tasks[task]
        self._show(self._text())

    def _text(self) -> str:
        return "; ".join(task.text() for task in self._tasks.values())

    def _show(self, text: str) -> None:
        self._shown_at = time.monotonic()
        NotebookBars._handle.update({"text/plain": text}, raw=True)
