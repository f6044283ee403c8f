"""Run untrusted commands with limits, an empty environment, and one writable folder, and end all their processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import IO

from tpuc.api import Unsupported

COMPILERS = ("cc", "gcc", "clang")
READABLE = ("/usr", "/lib", "/lib64", "/bin", "/opt", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store")
"""What a compiler and a program need of a machine."""
GRACE_S = 10
"""Seconds on the clock beyond those of the processor."""


@dataclass(frozen=True)
class Limits:
    """What a command gets: `memory_bytes` of address space (0: all), processor time, and bytes of a file."""

    memory_bytes: int
    seconds: int
    file_bytes: int


@dataclass(frozen=True)
class Ended:
    """How a command ended: 0 is well; `why` says it in words."""

    code: int
    why: str


@functools.cache
def compiler() -> str | None:
    """The C compiler of this machine, None where there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name)) is not None), None)


@functools.cache
def _launcher() -> Path:
    """The program that sets limits, built once for this process; raises Unsupported."""
    found = compiler()
    assert found is not None, "asked for only where there is a compiler"
    folder = Path(tempfile.mkdtemp(prefix="tpuc-c-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).with_name("confine.c")
    command = [found, "-std=c99", "-O1", "-o", str(folder / "confine"), str(source)]
    done = subprocess.run(command, capture_output=True, check=False, stdin=DEVNULL)
    if done.returncode:
        raise Unsupported(
            "networks in C cannot be run here: the program that limits them cannot be built on this machine; compile "
            "with --work-dir and run the _final.mlir"
        )
    return folder / "confine"


def confined(
    command: Sequence[str],
    folder: Path,
    limits: Limits,
    *,
    writes: bool = False,
    forks: bool = False,
    environment: Mapping[str, str] | None = None,
    streams: tuple[IO[bytes] | int, IO[bytes] | int, IO[bytes] | int] = (DEVNULL, DEVNULL, DEVNULL),
) -> Ended:
    """Run a command in a folder, which it may read, and write to if `writes`.

    `streams` are its input, output and errors.
    """
    found = compiler()
    assert found is not None, "asked for only where there is a compiler"
    home = Path(found).resolve().parent.parent
    readable = [*READABLE, str(folder), *([str(home)] if home != Path(home.anchor) else [])]
    numbers = map(str, (limits.memory_bytes, limits.seconds, limits.file_bytes, int(forks)))
    whole = [str(_launcher()), *numbers, str(folder) if writes else "", str(len(readable)), *readable, *command]
    stdin, stdout, stderr = streams
    process = subprocess.Popen(
        whole, cwd=folder, env=environment or {}, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )
    late: list[bool] = []
    timer = threading.Timer(limits.seconds + GRACE_S, lambda: (late.append(True), _kill(process)))
    timer.daemon = True
    timer.start()
    try:
        code = process.wait()  # with a time limit it would look now and then only
    finally:
        timer.cancel()
        if process.returncode is None:
            _kill(process)
            process.wait()
    return Ended(code, f"it took more than {limits.seconds} s" if late else _reason(code, limits))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End all that a command started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(code: int, limits: Limits) -> str:
    if code == 128 + signal.SIGXCPU:
        return f"it took more than {limits.seconds} s"
    if code == 128 + signal.SIGXFSZ:
        return f"it wrote more than {limits.file_bytes} bytes"
    return f"it ended with {code}"
