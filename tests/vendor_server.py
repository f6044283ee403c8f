"""Runs compiled files on the vendor's runtime, each in a child of a process that has loaded the runtime before.

vendor_server.py TOOLS KIND, started by `tests.vendor_runs` with the Python of the runtime

Each line of the input is a list in JSON: seconds, a file for what the child prints, the arguments of `run_file.py`.
Each line of the output is the exit status of one child, or `timeout` if it was killed for taking longer.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn


def main() -> int:
    tools, kind = sys.argv[1:]
    sys.path.insert(0, tools)
    run_file = importlib.import_module("run_file")
    package = run_file.peer_package()
    if kind == ".bmodel":
        sys.path.append(str(package / "python"))
        importlib.import_module("pyruntime_bm")
    else:
        ctypes.CDLL(str(Path(package) / "lib" / "libcviruntime.so"))
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        seconds, log, *arguments = json.loads(line)
        print(_run(run_file, seconds, log, [*arguments, "--child", str(package)]), file=replies, flush=True)
    return 0


def _run(run_file: Any, seconds: float, log: str, arguments: list[str]) -> int | str:
    pid = os.fork()
    if pid == 0:
        _be_the_child(run_file, log, arguments)
    ended = os.pidfd_open(pid)
    over = not select.select([ended], [], [], seconds)[0]
    os.close(ended)
    if over:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "timeout" if over else status


def _be_the_child(run_file: Any, log: str, arguments: list[str]) -> NoReturn:
    words = os.open(log, os.O_WRONLY | os.O_TRUNC)
    for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, words), (2, words)):
        os.dup2(source, stream)
    sys.argv[1:] = arguments
    try:
        run_file.main()  # ends the process where all is well
    finally:  # whatever was raised, this process never goes back to reading requests
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
