"""Writes `programs.json.gz` and `outputs.npz`: what the vendor's functional model and runtime compute.

    python -m tests.chips.cv18.make_goldens --oracle FOLDER --chip NAME GOLDENS

Each program has its engine, its command (logical form) and every region that it touches: place (1 for GMEM, start, end,
first lane, end lane), bytes before, bytes after when they differ. `outputs.npz` has `FILE.in.NAME` and `FILE.out.NAME`
for the compiled files in that folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import Region
from tpuc.registry import Registry
from tpuc_cv18.base import Cv18Chip
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa import Target
from tpuc_cv18.isa.geometry import split_gmem

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import Array, Case
from tests.chips.cv18.oracle_runner import OracleRunner, run_file

BYTES_LIMIT = 640


def touched(case: Case) -> list[Region]:
    """Every region once, what is read before what is written."""
    instruction = case.instruction
    return list(dict.fromkeys((*instruction.reads(), *instruction.writes())))


def place_of(region: Region) -> list[int]:
    """A region as numbers."""
    return [int(region.space == "gmem"), region.start, region.end, region.first_lane, region.end_lane]


def cut(place: list[int], lmem: Array, gmem: Array) -> Array:
    """The bytes at a place."""
    in_gmem, start, end, first, last = place
    if not in_gmem:
        return lmem[first:last, start:end]
    base, offset = split_gmem(start)
    return gmem[base][offset : offset + end - start]


def chosen_cases(target: Target) -> dict[str, Case]:
    """The first small case of every generator."""
    cases: dict[str, Case] = {}
    for name in generators(target):
        for seed in range(2000):
            case = make_case(name, seed, target)
            size = sum((region.end - region.start) * (region.end_lane - region.first_lane) for region in touched(case))
            if size <= BYTES_LIMIT:
                cases[name] = case
                break
    return cases


def write_programs(oracle: Path, target: Target, folder: Path) -> None:
    """Run single instructions."""
    programs: dict[str, Any] = {}
    cases = chosen_cases(target)
    with OracleRunner(oracle, target) as runner:
        for name, case in cases.items():
            lmem, gmem = runner.run(case)
            regions: list[Any] = []
            for place in map(place_of, touched(case)):
                before, after = cut(place, case.lmem, case.gmem).tobytes(), cut(place, lmem, gmem).tobytes()
                regions.append([place, before.hex(), None if after == before else after.hex()])
            command = case.instruction.encode(1, 0).hex()
            programs[name] = {"engine": int(case.instruction.engine), "command": command, "regions": regions}
    text = json.dumps(programs, separators=(",", ":")).encode()
    (folder / "programs.json.gz").write_bytes(gzip.compress(text, mtime=0))


def file_inputs(data: bytes, target: Target) -> dict[str, Array]:
    """Random inputs of a compiled file."""
    rng = np.random.default_rng(183)
    program = CviModel.from_bytes(data, target).programs[0]
    inputs: dict[str, Array] = {}
    for tensor in map(program.tensor, program.inputs):
        kind = tensor.type.numpy
        if kind.kind == "f":
            inputs[tensor.name] = (rng.integers(-128, 128, tensor.shape) / 32).astype(kind)
        else:
            inputs[tensor.name] = rng.integers(-128, 128, tensor.shape).astype(kind)
    return inputs


def write_outputs(oracle: Path, target: Target, folder: Path) -> None:
    """Run the files."""
    arrays: dict[str, Array] = {}
    for path in sorted(folder.glob("*.cvimodel")):
        name = path.stem
        inputs = file_inputs(path.read_bytes(), target)
        arrays |= {f"{name}.in.{key}": value for key, value in inputs.items()}
        results = run_file(oracle, path, inputs)
        wanted = CviModel.from_bytes(path.read_bytes(), target).programs[0].outputs
        arrays |= {f"{name}.out.{key}": results[key] for key in wanted}
    np.savez_compressed(folder / "outputs.npz", **arrays)  # type: ignore[arg-type]


def main() -> None:
    """Run the oracle and write both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--chip", required=True)
    parser.add_argument("goldens", type=Path)
    arguments = parser.parse_args()
    chip = Registry().get("tpuc.chips", arguments.chip)
    assert isinstance(chip, Cv18Chip)
    for write in (write_programs, write_outputs):
        write(arguments.oracle, chip.target, arguments.goldens)


if __name__ == "__main__":
    main()
