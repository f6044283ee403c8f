"""Writes `goldens/programs.npz`: single instructions with inputs and the results of the vendor's functional model.

    python -m tests.chips.bm1684x.make_goldens --oracle FOLDER

Each case `k` has `k.command` (bytes), `k.engine`, `k.in<i>` with `k.at<i>`, and `k.out` with `k.to`; a
place is address, shape, strides and type code with sign.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tpuc_bm1684x.isa import DType
from tpuc_bm1684x.isa.types import dtype_of

from tests.chips.bm1684x.cases import FLOAT_GENERATORS, GENERATORS, make_case
from tests.chips.bm1684x.draw import WINDOW_BYTES, Array, Case, Place
from tests.chips.bm1684x.oracle_runner import OracleRunner

FILE = Path(__file__).parent / "goldens" / "programs.npz"
PER_GENERATOR = 2
SUMS = ("float_conv", "pool", "matmul", "split_matmul")
"""Of these there are more with float results: every type, with and without what is added to the sum."""
PER_SUM = 10
INPUT_LIMIT = 7_000


def pack_place(place: Place) -> Array:
    """A place as numbers."""
    numbers = [place.address, *place.shape, *place.strides, place.dtype.prec, int(place.dtype.signed)]
    return np.array(numbers, np.int64)


def unpack_place(numbers: Array) -> Place:
    """The place of those numbers."""
    address, *rest = (int(number) for number in numbers)
    n, c, h, w, sn, sc, sh, sw, prec, sign = rest
    return Place(address, (n, c, h, w), (sn, sc, sh, sw), dtype_of(prec, sign))


def raw(values: Array, dtype: DType) -> Array:
    """The bits, because npz knows no bfloat16."""
    return np.ascontiguousarray(values).view(f"u{dtype.bytes}")


def chosen_cases() -> dict[str, Case]:
    """The first small cases of every generator."""
    cases: dict[str, Case] = {}
    for name in GENERATORS:
        found = 0
        for seed in range(1000):
            case = make_case(name, seed)
            if found == (PER_SUM if name in SUMS else PER_GENERATOR):
                break
            if found >= PER_GENERATOR and not case.result.dtype.is_float:
                continue
            if sum(values.nbytes for _, values in case.writes) <= INPUT_LIMIT:
                cases[f"{name}_{found}"] = case
                found += 1
    for name in FLOAT_GENERATORS:
        drawn = (make_case(name, seed, edges=True) for seed in range(1000))
        small = (case for case in drawn if sum(values.nbytes for _, values in case.writes) <= INPUT_LIMIT)
        cases[f"{name}_edges"] = next(case for case in small if case.result.dtype.is_float)
    return cases


def main() -> None:
    """Run the oracle and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--oracle", type=Path, required=True)
    folder: Path = parser.parse_args().oracle
    arrays: dict[str, Array] = {}
    with OracleRunner(folder) as runner:
        for name, case in chosen_cases().items():
            result = runner.run(case, WINDOW_BYTES)
            arrays[f"{name}.command"] = np.frombuffer(case.instruction.encode(1, 0), np.uint8)
            arrays[f"{name}.engine"] = np.array(int(case.instruction.engine))
            for index, (place, values) in enumerate(case.writes):
                arrays[f"{name}.in{index}"] = raw(values, place.dtype)
                arrays[f"{name}.at{index}"] = pack_place(place)
            arrays[f"{name}.out"] = raw(result, case.result.dtype)
            arrays[f"{name}.to"] = pack_place(case.result)
    np.savez_compressed(FILE, **arrays)
    sys.stdout.write(f"{len(chosen_cases())} programs, {FILE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
