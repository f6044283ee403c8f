"""Writes `goldens/programs.json.gz` and `goldens/outputs.npz`: what the vendor's functional model and runtime compute.

    python -m tests.chips.cv183x.make_goldens --oracle FOLDER

Each program has its engine, its command (logical form) and every region that it touches: place (1 for GMEM, start, end,
first lane, end lane), bytes before, bytes after when they differ. `outputs.npz` has `FILE.in.NAME` and `FILE.out.NAME`
for the compiled files beside it.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import Region
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa.geometry import split_gmem
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.cases import GENERATORS, make_case
from tests.chips.cv18.draw import Array, Case
from tests.chips.cv183x.oracle_runner import OracleRunner, run_file

FOLDER = Path(__file__).parent / "goldens"
BYTES_LIMIT = 640
FILES = ("handmade_conv_int8", "net20_cv183x_bf16", "net20_cv183x_int8", "resnet8_cv183x_int8")


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


def chosen_cases() -> dict[str, Case]:
    """The first small case of every generator."""
    cases: dict[str, Case] = {}
    for name in GENERATORS:
        for seed in range(2000):
            case = make_case(name, seed, CV183X)
            size = sum((region.end - region.start) * (region.end_lane - region.first_lane) for region in touched(case))
            if size <= BYTES_LIMIT:
                cases[name] = case
                break
    return cases


def write_programs(folder: Path) -> None:
    """Run single instructions."""
    programs: dict[str, Any] = {}
    cases = chosen_cases()
    with OracleRunner(folder) as runner:
        for name, case in cases.items():
            lmem, gmem = runner.run(case)
            regions: list[Any] = []
            for place in map(place_of, touched(case)):
                before, after = cut(place, case.lmem, case.gmem).tobytes(), cut(place, lmem, gmem).tobytes()
                regions.append([place, before.hex(), None if after == before else after.hex()])
            command = case.instruction.encode(1, 0).hex()
            programs[name] = {"engine": int(case.instruction.engine), "command": command, "regions": regions}
    text = json.dumps(programs, separators=(",", ":")).encode()
    (FOLDER / "programs.json.gz").write_bytes(gzip.compress(text, mtime=0))


def file_inputs(data: bytes) -> dict[str, Array]:
    """Random inputs of a compiled file."""
    rng = np.random.default_rng(183)
    program = CviModel.from_bytes(data, CV183X).programs[0]
    inputs: dict[str, Array] = {}
    for tensor in map(program.tensor, program.inputs):
        kind = tensor.type.numpy
        if kind.kind == "f":
            inputs[tensor.name] = (rng.integers(-128, 128, tensor.shape) / 32).astype(kind)
        else:
            inputs[tensor.name] = rng.integers(-128, 128, tensor.shape).astype(kind)
    return inputs


def write_outputs(folder: Path) -> None:
    """Run the files."""
    arrays: dict[str, Array] = {}
    for name in FILES:
        path = FOLDER / f"{name}.cvimodel"
        inputs = file_inputs(path.read_bytes())
        arrays |= {f"{name}.in.{key}": value for key, value in inputs.items()}
        results = run_file(folder, path, inputs)
        wanted = CviModel.from_bytes(path.read_bytes(), CV183X).programs[0].outputs
        arrays |= {f"{name}.out.{key}": results[key] for key in wanted}
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)  # type: ignore[arg-type]


def main() -> None:
    """Run the oracle and write both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--oracle", type=Path, required=True)
    folder: Path = parser.parse_args().oracle
    write_programs(folder)
    write_outputs(folder)


if __name__ == "__main__":
    main()
