"""Damages files of every format in many ways and tells every one that leads to more than a sentence.

python benchmarks/mutations.py --count 20000
python benchmarks/mutations.py --only module --seed 4711 --count 1 --keep DIR
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fuzz.mutations import Runs, Tally, formats_of, prepare, run_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument(
        "--only", action="append", default=[], choices=["network", *sorted(formats_of())], help="this format alone"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the folders of runs that lead to faults")
    arguments = parser.parse_args()
    tally, faults, start = Tally(), 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        sound, place = Path(work) / "sound", Path(work) / "run"
        sound.mkdir()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            prepare(sound)
        runs = Runs(sound, place)
        try:
            for fault in run_all(runs, range(arguments.seed, arguments.seed + arguments.count), tally, arguments.only):
                faults += 1
                print(fault, flush=True)
                if arguments.keep is not None:
                    target = arguments.keep / f"{fault.format.replace(' ', '-')}-{fault.seed}"
                    shutil.copytree(place, target, dirs_exist_ok=True)
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            runs.close()
    print(*tally.lines(), sep="\n")
    print(f"{faults} faults in {time.perf_counter() - start:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
