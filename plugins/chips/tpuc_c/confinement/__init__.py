"""Run untrusted commands with resource limits, an empty environment and one writable folder, and end all their
processes.
"""

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
"""Paths that a compiler and a compiled program need to read."""
GRACE_S = 10
"""Wall-clock seconds allowed in addition to the processor time limit."""


@dataclass(frozen=True)
class Limits:
    """Limits of a command: `memory_bytes` of address space (0: unlimited), processor time in seconds, and the size of a
    file in bytes.
    """

    memory_bytes: int
    seconds: int
    file_bytes: int


@dataclass(frozen=True)
class Ended:
    """Exit status of a command: 0 is success; `why` describes a failure."""

    code: int
    why: str


@functools.cache
def compiler() -> str | None:
    """The path of the local C compiler, None if there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name)) is not None), None)


@functools.cache
def _launcher() -> Path:
    """The program that sets the limits, built once per process; raises Unsupported."""
    found = compiler()
    assert found is not None, "asked for only where there is a compiler"
    folder = Path(tempfile.mkdtemp(prefix="tpuc-c-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).with_name("confine.c")
    command = [found, "-std=c99", "-O1", "-o", str(folder / "confine"), str(source)]
    done = subprocess.run(command, capture_output=True, check=False, stdin=DEVNULL)
    if done.returncode:
        raise Unsupported(
            "networks in C cannot run here: the program that confines them cannot be built on this machine; compile "
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
    """Run a command in a folder that it may read, and write to if `writes`.

    `streams` are its standard input, output and error.
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
        code = process.wait()  # with a time limit it would poll
    finally:
        timer.cancel()
        if process.returncode is None:
            _kill(process)
            process.wait()
    return Ended(code, f"it took more than {limits.seconds} s" if late else _reason(code, limits))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and all processes it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(code: int, limits: Limits) -> str:
    if code == 128 + signal.SIGXCPU:
        return f"it took more than {limits.seconds} s"
    if code == 128 + signal.SIGXFSZ:
        return f"it wrote more than {limits.file_bytes} bytes"
    return f"it ended with {code}"
