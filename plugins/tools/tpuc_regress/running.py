"""Runs the commands of a description, each in a process of its own."""

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
    """How a command ended: its exit code, and what it said last, on stderr where it failed. `command` is as typed."""

    network: str
    command: str
    code: int
    said: str

    @property
    def passed(self) -> bool:
        """Is the exit code 0?"""
        return self.code == 0


def run(description: Description, work: Path, options: Sequence[str]) -> Iterator[Outcome]:
    """The outcome of every command, as soon as it has one.

    What fails ends the network; a step for each of several values ends for those alone that it fails with.
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
    """Is there no name with a value in one that is another one in the other?"""
    return all(other.get(name, value) == value for name, value in one.items())


def _provide(source: Path, target: Path) -> None:
    """Let a file or folder be at another place too."""
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
