"""Runs damaged networks through `tpuc transform` in child processes with limits, which many runs share."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import Files, damaged
from tests.fuzz.process import ROOT, LineProcess

SECONDS = 10.0
"""Of the process's own time, which other work on the machine does not lengthen."""
MOST_SECONDS = 120.0
"""By the clock, for one that waits."""
MEMORY_BYTES = 1 << 30
"""Of address space, beyond what the process has before its first run."""
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


class Child(LineProcess):
    """A process that reads networks, one after the other."""

    def __init__(self, seconds: float = SECONDS) -> None:
        super().__init__("tests.fuzz.child", str(MEMORY_BYTES))
        self._seconds = seconds
        self.runs = 0
        self.line(MOST_SECONDS, MOST_SECONDS)  # for its imports

    def run(self, arguments: list[str], folder: Path = ROOT) -> tuple[str, str]:
        """How it ended (ok, refused, fault, hang, crash), and what was said."""
        self.runs += 1
        self.tell([str(folder), arguments])
        line = self.line(self._seconds, MOST_SECONDS)
        if line is None:
            return "hang", f"takes longer than {self._seconds:g} s"
        if not line:
            return "crash", f"the process ended with {self.exit_code()}"
        ended, said = json.loads(line)
        return ended, said


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
