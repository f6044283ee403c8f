"""Run a command in a child process, so that hangs and crashes count like errors."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tpuc.api import FLOAT_MODES, UsageError
from tpuc.api.evaluation import write_npz

SEED = 7
"""Seed of random inputs; arbitrary but fixed."""
PROGRAM = "from tpuc_driver.cli import main; import sys; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True)
class Attempt:
    """What to do with a network file: import it, compile it for a chip in a mode, or run another `command`."""

    chip: str | None
    mode: str | None
    seconds: float
    command: str | None = None

    def failure(self, path: Path, shapes: Mapping[str, Sequence[int]], folder: Path) -> str | None:
        """Return the failure's message without its path; None if it succeeds."""
        try:
            done = subprocess.run(
                self._words(path, shapes, folder),
                capture_output=True,
                text=True,
                timeout=self.seconds,
                check=False,
            )
        except OSError as error:
            raise UsageError(f"--command: {error.filename} cannot be started: {error.strerror}.") from error
        except subprocess.TimeoutExpired:
            return f"takes longer than {self.seconds:g} s"
        if done.returncode == 0:
            return None
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        crashed = any(line.startswith("Traceback") for line in lines)
        said = lines[-1] if crashed else next((line for line in lines if line.startswith("tpuc: ")), lines[-1])
        return said.replace(f"{path}: ", "").replace(str(path), path.name)

    def _words(self, path: Path, shapes: Mapping[str, Sequence[int]], folder: Path) -> list[str]:
        if self.command is not None:
            try:
                words = shlex.split(self.command)
            except ValueError as error:
                reason = str(error).rstrip(".")
                raise UsageError(
                    f"--command: cannot be split into words ({reason}); quote it as in a shell."
                ) from error
            return [word.replace("{}", str(path)) for word in words]
        return [sys.executable, "-c", PROGRAM, *self._arguments(path, shapes, folder)]

    def _arguments(self, path: Path, shapes: Mapping[str, Sequence[int]], folder: Path) -> list[str]:
        if self.chip is None:
            return ["transform", "--model-name=reduced", f"--model-def={path}", f"--mlir={folder / 'reduced.mlir'}"]
        mode = [] if self.mode is None else ["--quantize", self.mode]
        calibrates = self.mode is not None and self.mode not in FLOAT_MODES
        target = ["--chip", self.chip, *mode, "-o", str(folder / "reduced.out")]
        if path.suffix.lower() == ".mlir":
            table = ["--calibration-table", str(self._ranges(path, folder))] if calibrates else []
            return ["deploy", "--mlir", str(path), *target, *table]
        data = ["--dataset", str(self._samples(shapes, folder))] if calibrates else []
        return ["compile", str(path), *target, *data]

    def _samples(self, shapes: Mapping[str, Sequence[int]], folder: Path) -> Path:
        """Return random calibration data."""
        generator = np.random.default_rng(SEED)
        path = folder / "samples.npz"
        write_npz(path, {name: generator.standard_normal(tuple(shape), np.float32) for name, shape in shapes.items()})
        return path

    def _ranges(self, path: Path, folder: Path) -> Path:
        """Return an artificial range for every value that the module names."""
        names = dict.fromkeys(re.findall(r'loc\("([^"]*)"', path.read_text(encoding="utf-8")))
        table = folder / "ranges"
        rows = "".join(f"{name} 4.0 -4.0 4.0\n" for name in names)
        table.write_text(f"# op_name threshold min max\n{rows}", encoding="utf-8")
        return table


def essence(said: str) -> str:
    """Return the failure without parts that vary between runs (addresses) or with the network's size (further
    refusals).
    """
    said = re.sub(r"\b(0x[0-9a-f]+|\d{9,})\b", "N", said)
    said = re.sub(r" \(and \d+ more:.*?\)(?=[.;]|$)", "", said, flags=re.DOTALL)
    return re.sub(r"^tpuc: ", "", said)
