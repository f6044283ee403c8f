"""The command line, in this process or in one of its own."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

from tpuc_driver.cli import main


def tpuc(*arguments: str | Path, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run the command line in this process, which is quicker."""
    given = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(given)
    return CompletedProcess(given, status, out.getvalue(), err.getvalue())


def tpuc_apart(*arguments: str | Path) -> CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "tpuc", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
