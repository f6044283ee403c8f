"""Runs damaged networks through `tpuc transform` in child processes with limits, which many runs share."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.fuzz.mutate import Files, damaged

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 10.0
"""Of the process's own time, which other work on the machine does not lengthen."""
MOST_SECONDS = 120.0
"""By the clock, for one that waits."""
MEMORY_BYTES = 2 << 30
RUNS_PER_CHILD = 500


@dataclass(frozen=True)
class Fault:
    """What a damaged network led to that it should not."""

    network: str
    seed: int
    what: str

    def __str__(self) -> str:
        return f"{self.network} seed {self.seed}: {self.what}"


@dataclass
class Tally:
    """How the runs ended."""

    accepted: int = 0
    refused: int = 0


class Child:
    """A process that reads networks, one after the other."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child", str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.runs = 0
        self._wait(MOST_SECONDS)  # for its imports

    def run(self, arguments: list[str], folder: Path = ROOT) -> tuple[str, str]:
        """How it ended (ok, refused, fault, hang, crash), and what was said."""
        self.runs += 1
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps([str(folder), arguments]) + "\n")
        stdin.flush()
        line = self._answer()
        if line is None:
            return "hang", f"takes longer than {self._seconds:g} s"
        if not line:
            return "crash", f"the process ended with {self._process.wait()}"
        ended, said = json.loads(line)
        return ended, said

    def _answer(self) -> str | None:
        start, used = time.monotonic(), self._used_seconds()
        while True:
            line = self._wait(self._seconds)
            spent = self._used_seconds() - used if line is None else 0.0
            if line is not None or spent >= self._seconds or time.monotonic() - start >= MOST_SECONDS:
                return line

    def _used_seconds(self) -> float:
        """Processor time up to now."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except FileNotFoundError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait(self, seconds: float) -> str | None:
        stdout: IO[str] | None = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], seconds)
        return stdout.readline() if ready else None

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def fuzz(networks: Mapping[str, Files], seeds: range, tally: Tally | None = None) -> Iterator[Fault]:
    """Every fault that the seeds lead to; each seed damages one of the networks in turn."""
    tally = tally if tally is not None else Tally()
    names = sorted(networks)
    child = Child()
    try:
        with tempfile.TemporaryDirectory() as place:
            for seed in seeds:
                name = names[seed % len(names)]
                if child.runs >= RUNS_PER_CHILD:
                    child.stop()
                    child = Child()
                ended, what = one_run(child, networks[name], seed, Path(place))
                tally.accepted += ended == "ok"
                tally.refused += ended == "refused"
                if ended in ("hang", "crash"):
                    child.stop()
                    child = Child()
                if ended not in ("ok", "refused"):
                    yield Fault(name, seed, what)
    finally:
        child.stop()


def one_run(child: Child, files: Files, seed: int, folder: Path) -> tuple[str, str]:
    """One damaged network; a refusal must leave nothing behind, and a result must be whole."""
    paths = [folder / f"damaged{suffix}" for suffix in files]
    for path, content in zip(paths, damaged(files, seed).values(), strict=True):
        path.write_bytes(content)
    output = folder / "output"
    output.mkdir(exist_ok=True)
    arguments = ["transform", "--model-name=net", f"--model-def={paths[0]}", f"--mlir={output / 'net.mlir'}"]
    arguments += [f"--model-data={path}" for path in paths[1:]]
    ended, said = child.run(arguments)
    left = sorted(path.name for path in output.iterdir())
    for name in left:
        (output / name).unlink()
    if ended == "refused" and left:
        return "fault", f"refused, and yet there is {', '.join(left)}: {said}"
    if ended == "ok" and "net.mlir" not in left:
        return "fault", f"accepted, and there is only {', '.join(left) or 'nothing'}"
    return ended, said
