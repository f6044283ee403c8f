"""The process in which damaged networks are read: one command line per line in, one verdict per line out."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import sys
import warnings


def main() -> None:
    """Read command lines until there are no more."""
    limit_bytes = int(sys.argv[1])
    import numpy as np  # before the limit, so that only what networks need counts
    import onnx.reference  # noqa: F401
    from tpuc_driver.cli import main as tpuc

    del np
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # not a file of anybody's
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit_bytes, used + limit_bytes))
    answers = sys.stdout
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        folder, arguments = json.loads(line)
        os.chdir(folder)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = tpuc([*arguments, "-v"])
            except BaseException as error:  # noqa: BLE001  # also what is no Exception must not come out
                code = -1
                said.write(f"{type(error).__name__}: {error}")
        print(json.dumps(verdict(code, said.getvalue())), file=answers, flush=True)


def verdict(code: int, said: str) -> tuple[str, str]:
    """How a run ended, and its sentence; for a fault the place too."""
    lines = [line for line in said.splitlines() if line.startswith("tpuc: ")]
    sentence = lines[-1] if lines else said[-200:]
    if code == 0 or (code == 1 and not lines and "Traceback" not in said):  # 1 alone: a comparison found differences
        return "ok", ""
    if code in (1, 2) and sentence.startswith("tpuc: ") and "internal error" not in sentence:
        return "refused", sentence
    places = re.findall(r'File ".*?/(?:plugins|core)/(.*?)", line (\d+), in (\w+)', said)
    where = " in {}:{} ({})".format(*places[-1]) if places else ""
    return "fault", f"{sentence[:300]}{where}"


if __name__ == "__main__":
    main()
