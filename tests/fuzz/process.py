"""Processes that answer lines with lines, within limits of time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 5.0


class LineProcess:
    """A module of the tests in a process of its own, which says a line when it is ready."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._unread = b""

    def tell(self, asked: Any) -> None:
        """A line of JSON."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(asked).encode() + b"\n")
        stdin.flush()

    def line(self, seconds: float, most_seconds: float) -> bytes | None:
        """The next line; nothing at the end. None after so many `seconds` of the process's own time, which other work
        on the machine does not lengthen, or `most_seconds` by the clock, for one that waits.
        """
        stdout: IO[bytes] | None = self._process.stdout
        assert stdout is not None
        start, used = time.monotonic(), self._used_seconds()
        while True:
            line, end, rest = self._unread.partition(b"\n")
            if end:
                self._unread = rest
                return line
            ready, _, _ = select.select([stdout], [], [], min(seconds, POLL_SECONDS))
            if ready:
                more = os.read(stdout.fileno(), 1 << 16)
                if not more:
                    return b""
                self._unread += more
                continue
            if self._used_seconds() - used >= seconds or time.monotonic() - start >= most_seconds:
                return None

    def exit_code(self) -> int:
        """Of a process that has said its last line."""
        return self._process.wait()

    def _used_seconds(self) -> float:
        """Processor time up to now."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except FileNotFoundError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
