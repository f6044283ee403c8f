"""Cycles on BM1688 with one core and with two, and what two could reach.

python benchmarks/cores.py --model-data DIR [--mode MODE] [--update] [NAME ...]

Networks of more than a million products: trained ones, and types that the planner was not tuned for, with random
weights (benchmarks/architectures/untuned.py). One sample at a time. Results are compared with benchmarks/cores.json,
and `--update` writes them there. `python docs/generate.py` shows the table in docs/figures.md.

What two cores could reach, in cycles: `products` at the full rate of both convolution arrays, those of padding
included; `DDR`, if the file's constants, inputs and outputs are transferred once at the rate of both cores together;
`commands`, half of the time in which one core's program computes. The constants are those of the file for one core:
another choice of kernels has others.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tpuc.api import Engine, Module
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1688.target import BM1688
from tpuc_ops import top

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import traffic
from benchmarks.architectures.untuned import NETWORKS, network
from benchmarks.untuned import mean

RESULTS = Path(__file__).with_suffix(".json")
MODES = ("f16", "int8")
TRAINED = ("resnet8", "kws", "blazeface", "yunet_n_320", "mobilenet_v2_dequant", "squeezenet", "ultraface_slim_320")
UNTUNED = ("tcn", "gmlp", "densenet", "resnext", "hrnet", "efficientnet", "shufflenet", "unet")
BOUNDS = ("products", "ddr", "commands")

Row = dict[str, int]
"""Cycles of `one` core and of `two`, and what two could reach."""


def read() -> dict[str, dict[str, Row]]:
    """Committed results, by network and mode."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def write(found: Mapping[str, Mapping[str, Row]]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in _names() if name in found]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _names() -> tuple[str, ...]:
    return (*TRAINED, *UNTUNED)


def products_of(module: Module) -> int:
    """Products of convolutions and matrix products in one run; those of other ops are not counted."""
    total = 0
    for operation in module.walk():
        node = operation.node()
        if isinstance(operation.op, top.Conv):
            filters = node.operand_types[1]
            total += node.result_type.size * filters.size // filters.dims[0]
        elif isinstance(operation.op, top.MatMul):
            left = node.operand_types[0]
            total += node.result_type.size * left.dims[-1]
    return total


def ddr_bound(size: int, target: Target) -> int:
    """Cycles of transferring that many bytes while all cores work, rounded down."""
    rates = target.profiles[target.shared_profile].rates
    return int(size * rates.scale / (rates.load.copy * target.cores))


def network_file(name: str, data: Path | None, folder: Path) -> Path:
    """The file of a network; those that are made are written into `folder`."""
    if name not in NETWORKS:
        return traffic.network_file(name, data, folder)
    path = folder / f"{name}.onnx"
    path.write_bytes(network(name).SerializeToString())
    return path


def measure(name: str, data: Path | None, mode: str, folder: Path) -> Row:
    """Cycles with either number of cores, and what two could reach."""
    path = network_file(name, data, folder)
    row: Row = {}
    for key, cores in (("one", 1), ("two", BM1688.cores)):
        session, built = traffic.compiled(name, path, BM1688.name, mode, folder, cores=cores)
        loaded = session.chip.load(built.data)
        timeline = loaded.timeline(session.chip.profiles[0])
        row[key] = timeline.cycles
        if cores == 1:
            compute = [one for one in timeline.entries if one.command.engine is Engine.COMPUTE]
            ends = sum(info.size_bytes for info in (*loaded.inputs, *loaded.outputs))
            item = {"f16": 2, "int8": 1}[mode]
            rate = BM1688.lanes * BM1688.packing[item] * BM1688.pixels[item] * BM1688.cores
            module = session.transform(path, **traffic.source_options(name, path))
            row["products"] = products_of(module) // rate
            row["ddr"] = ddr_bound(loaded.memory["weights"] + ends, BM1688)
            row["commands"] = sum(one.end - one.start for one in compute) // BM1688.cores
    return row


def gain(row: Row) -> float:
    return row["one"] / row["two"]


def bound(row: Row) -> int:
    """Cycles that two cores cannot go below, where the kernels are those of one core's file."""
    return max(row["products"], row["ddr"])


def gains(mode: str) -> dict[str, float]:
    """The committed gains by network."""
    return {name: gain(found[mode]) for name, found in read().items() if mode in found}


def line(name: str, row: Row) -> str:
    bounds = " ".join(f"{row[key]:>10,}" for key in BOUNDS)
    return f"{name:22} {row['one']:>11,} {row['two']:>11,} {gain(row):5.2f} {bounds}"


def summary(rows: Mapping[str, Row]) -> Iterator[str]:
    """Geometric means of the trained networks and of the others."""
    for told, names in (("trained", TRAINED), ("untuned", UNTUNED)):
        found = [gain(rows[name]) for name in names if name in rows]
        if found:
            yield f"{told}: gain {mean(found):.2f} in geometric mean, least {min(found):.2f}, {len(found)} networks"


def table() -> Iterator[str]:
    """The committed rows, for docs/figures.md."""
    yield f"| network, cycles |{''.join(f' {mode}, one core | two | gain | bound of two |' for mode in MODES)}"
    yield f"|---|{'--:|' * 4 * len(MODES)}"
    for name, found in read().items():
        rows = [found[mode] for mode in MODES]
        cells = [f"{row['one']:,} | {row['two']:,} | {gain(row):.2f} | {bound(row):,}" for row in rows]
        yield f"| {name} | {' | '.join(cells)} |"
    means = [f"| | {mean([*gains(mode).values()]):.2f} |" for mode in MODES]
    yield f"| geometric mean | {' | '.join(means)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path, metavar="DIR")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*", default=[*_names()], metavar="NAME")
    arguments = parser.parse_args()
    committed = read()
    for mode in MODES if arguments.mode is None else (arguments.mode,):
        rows: dict[str, Row] = {}
        print(f"{mode:22} {'one core':>11} {'two':>11}  gain   products        DDR   commands")
        for name in arguments.names:
            with tempfile.TemporaryDirectory() as folder:
                row = rows[name] = measure(name, arguments.model_data, mode, Path(folder))
            known = committed.get(name, {}).get(mode, {})
            print(
                line(name, row), *(f"{key} was {known[key]:,}" for key in known if known[key] != row[key]), flush=True
            )
            committed.setdefault(name, {})[mode] = row
            if arguments.update:
                write(committed)
        print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
