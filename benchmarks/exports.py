"""Export a collection of architectures to ONNX and compile each for several chips: what runs where.

python benchmarks/exports.py [NAME ...] [--family TEXT] [--exporter KIND] [--part 1/2] [--again] [--python PYTHON]

PYTHON has torch, torchvision, timm, transformers and ultralytics (`nox -s exports` installs them). Every network has
random weights. A child process with a limit of time and memory reads it, compiles it and runs it in the simulator; ONNX
Runtime's outputs are the reference. Results go to benchmarks/exports.json after each network, so that a run goes on
where the last one stopped; `python docs/generate.py` makes docs/models.md of them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.architectures import ARCHITECTURES, Architecture  # noqa: E402  # they lie beside this file

RESULTS = Path(__file__).with_suffix(".json")
FILES = ROOT / "build" / "exports"
CELLS = (("bm1684x", "f16"), ("bm1684x", "int8"), ("cv181x", "bf16"), ("cv181x", "int8"), ("c", "f32"))
"""Chips and modes."""
C_BYTES = 2_000_000
"""Larger files are not tried in C: their weights do not fit where such networks run."""
SECONDS = 300
"""Of processor time: the limit of one compilation with its simulation."""
SILENT_SECONDS = 1800
"""After which a child that says nothing is ended, however little of the processor it got."""
MEMORY_BYTES = 10 << 30
EXPORT_SECONDS = 240


def cells_of(file: Path) -> list[str]:
    """The chips and modes to try a file on."""
    return [f"{chip} {mode}" for chip, mode in CELLS if chip != "c" or file.stat().st_size < C_BYTES]


# The collection


def exported(row: Architecture, exporter: str, python: str) -> tuple[Path, str]:
    """The file of an export, made where it is not there, and why there is none."""
    path = FILES / f"{row.name}.{exporter}.onnx"
    if path.exists():
        return path, ""
    FILES.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "benchmarks.architectures.export", row.name, exporter, str(path)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=EXPORT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return path, f"no file after {EXPORT_SECONDS} s"
    if done.returncode == 0 and path.exists():
        return path, ""
    path.unlink(missing_ok=True)
    lines = [line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception|Unsupported\w*)\b", line)]
    return path, (lines or ["the exporter stopped"])[-1][:300]


def lines_of(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """What a child prints, line by line, and None where it prints nothing for too long."""
    queue: Queue[str | None] = Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            queue.put(line)
        queue.put("")

    Thread(target=read, daemon=True).start()
    while True:
        try:
            line = queue.get(timeout=SILENT_SECONDS)
        except Empty:
            yield None
            return
        if not line:
            return
        yield line


def measured(row: Architecture, file: Path, only: Sequence[str]) -> dict[str, Any]:
    """One entry of the results: the import and every chip and mode, or those that are asked for."""
    cells = [cell for cell in cells_of(file) if not only or cell in only]
    return finished([sys.executable, __file__, "--child", str(file), row.name], ["import", *cells])


def finished(command: Sequence[str], left: Sequence[str]) -> dict[str, Any]:
    """What children said of the steps that are left. Where one dies the next one takes the rest."""
    found: dict[str, Any] = {}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    while left:
        process = subprocess.Popen(
            [*command, *left], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        stopped = False
        for line in lines_of(process):
            if line is None:
                stopped = True
                process.kill()
                break
            if line.startswith("{"):
                told = json.loads(line)
                found[told.pop("step")] = told
        process.kill()
        why = process.stderr.read().strip().splitlines()[-1:] if process.stderr else []
        stopped |= process.wait() == -signal.SIGXCPU
        left = [cell for cell in left if cell not in found]
        if found.get("import", {}).get("result") in ("refused", "failed", "memory"):
            break
        if left:
            result = {"result": "timeout", "why": f"no result after {SECONDS} s of processor time"}
            found[left[0]] = result if stopped else {"result": "failed", "why": "".join(why)[:300] or "it died"}
            left = [] if left[0] == "import" else left[1:]
    return found


def keep(key: str, entry: Mapping[str, Any], results: Path) -> None:
    """Write one entry among those that are there, in the order of the table."""
    with Path(f"{results}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        all_of_them = read(results)
        all_of_them[key] = dict(entry)
        order = [f"{row.name} {kind}" for row in ARCHITECTURES for kind in row.exporters]
        ordered = {one: all_of_them[one] for one in order if one in all_of_them}
        lines = [f"{json.dumps(one)}: {json.dumps(value)}" for one, value in ordered.items()]
        results.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    Path(f"{results}.lock").unlink(missing_ok=True)


def read(results: Path = RESULTS) -> dict[str, Any]:
    """All entries by architecture and exporter."""
    return json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}


def told(entry: Mapping[str, Any]) -> str:
    """One line of an entry."""
    if "export" in entry:
        return f"no export: {entry['export']}"
    parts = []
    for step, one in entry["steps"].items():
        word = one["result"] if not one.get("option") else f"{one['result']} with {one['option']}"
        parts.append(f"{step} {word}" + (f" {one['decibels']:.0f} dB" if "decibels" in one else ""))
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--family", default="", help="only families with this text in their name")
    parser.add_argument("--exporter", choices=("dynamo", "legacy"), help="only networks exported by it")
    parser.add_argument("--part", default="1/1", help="1/2: the first of two shares")
    parser.add_argument("--again", action="store_true", help="measure what has a result, too")
    parser.add_argument("--failed", action="store_true", help="measure again what has a cell that is not equal")
    parser.add_argument("--cell", action="append", default=[], help="only this chip and mode: 'bm1684x f16'")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that exports")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    wanted = [
        (row, kind)
        for row in ARCHITECTURES
        for kind in row.exporters
        if (not arguments.names or row.name in arguments.names)
        and arguments.family in row.family
        and arguments.exporter in (None, kind)
    ]
    files = {(row.name, kind): FILES / f"{row.name}.{kind}.onnx" for row, kind in wanted}
    sizes = {key: file.stat().st_size if file.exists() else 0 for key, file in files.items()}
    wanted.sort(key=lambda one: sizes[one[0].name, one[1]] or 1 << 40)
    for row, kind in wanted[part - 1 :: parts]:
        key, done = f"{row.name} {kind}", read(arguments.results)
        if key in done and not arguments.again and not (arguments.failed and lacks(done[key])):
            continue
        file, why = exported(row, kind, arguments.python)
        entry: dict[str, Any] = {"export": why}
        if not why:
            entry = {"bytes": file.stat().st_size, "steps": measured(row, file, arguments.cell)}
        keep(key, entry, arguments.results)
        print(f"{key}: {told(entry)}", flush=True)


def lacks(entry: Mapping[str, Any]) -> bool:
    """Is there a step that is not as it should be?"""
    return any(one["result"] != "equal" for one in entry.get("steps", {}).values())


def child(arguments: Sequence[str]) -> None:
    """Measure one file; each step is a line."""
    from benchmarks.architectures.measure import measure

    file, name, *steps = arguments
    row = next(row for row in ARCHITECTURES if row.name == name)
    for step, result in measure(Path(file), row, steps, MEMORY_BYTES, SECONDS):
        print(json.dumps({"step": step, **result}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
    else:
        main()
