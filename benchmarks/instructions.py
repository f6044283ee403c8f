"""Random instructions of a chip of the CV18xx family on the vendor's functional model: all of memory is compared.

python benchmarks/instructions.py --oracle DIR --chip CHIP [--first SEED] [--count N] [GENERATOR ...]

Prints for each generator how many instructions ran and the seeds whose memories differ, and exits with 1 for any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tpuc_cv18.machine import Machine
from tpuc_cv18xx.chip import CV180X, CV181X, CV182X
from tpuc_cv183x.chip import CV183X

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, WINDOW_BYTES
from tests.chips.cv18.oracle_runner import OracleRunner

TARGETS = {target.name: target for target in (CV183X, CV182X, CV181X, CV180X)}


def differs(runner: OracleRunner, machine: Machine, name: str, seed: int) -> bool:
    """Does an instruction leave other memories on our simulator?"""
    case = make_case(name, seed, machine.target)
    case.instruction.check()
    lmem, gmem = runner.run(case)
    case.load(machine)
    case.instruction.execute(machine)
    same = np.array_equal(lmem, machine.lmem[:, :WINDOW_BYTES])
    return not (same and np.array_equal(gmem, np.stack(machine.gmem[:BASES])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--chip", choices=TARGETS, required=True)
    parser.add_argument("--first", type=int, default=20_000)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("names", nargs="*", metavar="GENERATOR")
    arguments = parser.parse_args()
    target = TARGETS[arguments.chip]
    machine = Machine(target)
    total = wrong = 0
    with OracleRunner(arguments.oracle, target) as runner:
        for name in arguments.names or generators(target):
            seeds = range(arguments.first, arguments.first + arguments.count)
            found = [seed for seed in seeds if differs(runner, machine, name, seed)]
            total, wrong = total + len(seeds), wrong + len(found)
            print(f"{name:30} {len(seeds):6} {'equal' if not found else f'differ: {found}'}", flush=True)
    print(f"{target.name}: {wrong} of {total} instructions differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
