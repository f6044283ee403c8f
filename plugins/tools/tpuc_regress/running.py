"""Run the commands of a description, each in a separate process."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc_regress.description import Description


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its exit code, and its last line (on stderr if it failed). `command` is as typed."""

    network: str
    command: str
    code: int
    said: str

    @property
    def passed(self) -> bool:
        """True if the exit code is 0."""
        return self.code == 0


def run(description: Description, work: Path, options: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcome of every command as soon as it is known.

    A failure ends the network; a step with several values ends only for the failing ones.
    """
    work.mkdir(parents=True, exist_ok=True)
    for file in description.files:
        _provide(file.resolve(), work / file.relative_to(description.path.parent))
    failed: list[Mapping[str, str]] = []
    for step in description.steps:
        for values in description.combinations(step):
            if any(_agree(values, one) for one in failed):
                continue
            outcome = _run(description.name, step.filled(values), work, options)
            yield outcome
            if not outcome.passed:
                failed.append(values)


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """True if no name has different values in both."""
    return all(other.get(name, value) == value for name, value in one.items())


def _provide(source: Path, target: Path) -> None:
    """Link or copy a file or folder to another path."""
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
    except OSError:  # systems where only administrators make links
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def _run(network: str, words: Sequence[str], work: Path, options: Sequence[str]) -> Outcome:
    command = [sys.executable, "-m", "tpuc", *options, *words]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return Outcome(network, shlex.join(words), done.returncode, lines[-1] if lines else "")
