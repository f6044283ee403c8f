"""MLPerf Tiny's networks in C on a Cortex-M4: flash, memory, and whether they compute there what they do here.

`python benchmarks/cortex_m.py --model-data DIR [--samples COUNT]`: sizes are those of the network's own objects, with
gcc's -Os and -O3; memory is the workspace without the application's inputs and outputs. Beside them the size of the
`.tflite` file, and the arena that the benchmark's reference application reserves for TFLite Micro on the same network
(mlcommons/tiny, `kTensorArenaSize` in benchmark/reference_submissions). Samples run on QEMU's `mps2-an386`; needs
arm-none-eabi-gcc with newlib, and qemu-system-arm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tpuc_driver.session import Boundary, Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.chips.c import cortex_m, programs
from tests.chips.c.test_networks import SUBJECTS


class Row(NamedTuple):
    """A network and what the reference application reserves for it, in KiB."""

    name: str
    arena: int


FLOATS = Boundary(float_input=True, float_output=True)
ROWS = (Row("ad01", 10), Row("resnet8", 100), Row("kws", 200), Row("vww", 200))


def measure(row: Row, data: Path, count: int, folder: Path) -> str:
    """A line of the table; ends the program where the board and this machine differ."""
    subject = SUBJECTS[row.name]
    session = Session(chip="c")
    plan = session.build(session.transform(data / subject.path), boundary=FLOATS)
    for name, content in session.chip.files(plan.data).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    small, fast = cortex_m.sizes(folder, "-Os"), cortex_m.sizes(folder, "-O3")
    sources = sorted(path.name for path in folder.glob("*.c"))
    samples = subject.samples(data / "data")[:count].tobytes()
    here = programs.run(programs.build(folder, sources, "-O2"), samples)
    there = cortex_m.run(cortex_m.build(folder, "-O2"), samples)
    if here != there:
        raise SystemExit(f"{row.name}: the board and this machine differ")
    flash = (data / subject.path).stat().st_size
    figures = (small.constants, small.code, fast.code, small.memory, flash, row.arena * 1024)
    return f"{row.name:8}" + "".join(f"{figure:12,}" for figure in figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=5)
    arguments = parser.parse_args()
    heads = ("constants", "code -Os", "code -O3", "memory", ".tflite", "TFLM arena")
    print(f"{'bytes':8}" + "".join(f"{head:>12}" for head in heads))
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(row, arguments.model_data, arguments.samples, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
