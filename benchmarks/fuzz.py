"""Damages networks in many ways and tells every one that leads to more than a sentence; or judges random graphs.

python benchmarks/fuzz.py --count 20000
python benchmarks/fuzz.py --seed 4711 --count 1 --keep DIR
python benchmarks/fuzz.py graphs --count 1000 --seed 0 --chip bm1684x --mode int8 --workers 2
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fuzz.graphs import long_run
from tests.fuzz.harness import Tally, fuzz
from tests.fuzz.mutate import Files, damaged
from tests.fuzz.networks import networks


def given(paths: list[Path]) -> dict[str, Files]:
    """Networks of the user's, with the caffemodel beside each prototxt."""
    found: dict[str, Files] = {}
    for path in paths:
        files = {path.suffix: path.read_bytes()}
        for weights in sorted(path.parent.glob("*.caffemodel")) if path.suffix == ".prototxt" else []:
            files[weights.suffix] = weights.read_bytes()
        found[path.name] = files
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=Path, help="files to damage instead of the small bundled ones")
    parser.add_argument("--count", type=int, default=20000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the damaged files that lead to faults")
    arguments = parser.parse_args()
    targets = given(arguments.networks) or networks()
    tally, faults, start = Tally(), 0, time.perf_counter()
    for fault in fuzz(targets, range(arguments.seed, arguments.seed + arguments.count), tally):
        faults += 1
        print(fault, flush=True)
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            for suffix, content in damaged(targets[fault.network], fault.seed).items():
                (arguments.keep / f"{fault.seed}{suffix}").write_bytes(content)
    seconds = time.perf_counter() - start
    print(f"{tally.accepted} accepted, {tally.refused} refused, {faults} faults in {seconds:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(long_run.main(sys.argv[2:]) if sys.argv[1:2] == ["graphs"] else main())
