"""Cycles of networks by every timing profile of a chip that has several, beside files of the vendor's compiler.

python benchmarks/profiles.py --model-data DIR [--vendor DIR] [--markdown] [NAME ...]

Everything here is deterministic. `--vendor` is a folder with files of the vendor's compiler, named NETWORK_MODE with
the chip's suffix: they are timed by the same profiles. Ranges of int8 come from one random sample.

What the host computes is in no profile. The column `host` has it for our file and the vendor's: function and elements.
Where they differ, the row does not compare like with like; in the mode `int8-ends` (the vendor's `--quant_input
--quant_output`) neither file casts its inputs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path

from tpuc.api import Chip, TpucError
from tpuc_cv18.container import CpuRoutine, CviModel
from tpuc_cv183x.chip import CV183X
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.traffic import ENDS, MODES, compiled, network_file

KNOWN = (
    *("resnet8", "kws", "vww", "ad", "blazeface", "mobilenet_v1_0.25_128", "mobilenet_v2_dequant"),
    *("ultraface_slim_320", "yunet_n_320", "lenet", "squeezenet"),
)


def totals(chip: Chip, data: bytes) -> list[int]:
    """Cycles of a compiled file by each profile."""
    loaded = chip.load(data)
    return [loaded.timeline(profile).cycles for profile in chip.profiles]


def on_host(data: bytes) -> str:
    """The functions that the host computes in a file, each with the elements that it reads; `-` for none."""
    program = CviModel.from_bytes(data, CV183X).programs[0]
    calls = (
        f"{routine.body.function} {sum(prod(program.tensor(name).shape) for name in routine.inputs):,}"
        for routine in program.routines
        if isinstance(routine.body, CpuRoutine)
    )
    return ", ".join(calls) or "-"


def cells(ours: Sequence[int], vendors: Sequence[int] | None, clock_hz: int) -> list[str]:
    """For each profile: µs, and beside those of the vendor's file its µs and the ratio."""
    scale = 1e6 / clock_hz
    if vendors is None:
        return [f"{cycles * scale:.1f}" for cycles in ours]
    pairs = zip(ours, vendors, strict=True)
    return [f"{cycles * scale:.1f} / {other * scale:.1f} = {cycles / other:.2f}" for cycles, other in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--vendor", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("names", nargs="*", default=KNOWN)
    arguments = parser.parse_args()
    chips = {name: Session(chip=name).chip for name in MODES}
    with tempfile.TemporaryDirectory() as text:
        for chip in (name for name, one in chips.items() if len(one.profiles) > 1):
            clock_hz, suffix = chips[chip].description.clock_hz, chips[chip].description.suffix
            head = ["network", "mode", *(f"{name}, µs" for name in chips[chip].profiles), "host"]
            print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|" if arguments.markdown else head)
            for name in arguments.names:
                path = network_file(name, arguments.model_data, Path(text))
                for mode in (*MODES[chip], ENDS):
                    theirs = arguments.vendor and arguments.vendor / f"{name}_{mode}{suffix}"
                    try:
                        session, built = compiled(name, path, chip, mode, Path(text))
                        vendors = theirs.read_bytes() if theirs and theirs.exists() else None
                        known = None if vendors is None else totals(session.chip, vendors)
                        ours = built.data
                        hosts = (ours,) if vendors is None else (ours, vendors)
                        row = [*cells(totals(session.chip, ours), known, clock_hz), " / ".join(map(on_host, hosts))]
                    except TpucError as error:
                        row = [str(error)]
                    line = [name, mode, *row]
                    print("| " + " | ".join(line) + " |" if arguments.markdown else "  ".join(line), flush=True)


if __name__ == "__main__":
    main()
