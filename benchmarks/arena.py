"""Memory planners on hard instances and on networks: peak over the lower bound, and milliseconds.

python benchmarks/arena.py [--planner NAME] [--minimalloc DIR] [--networks]

The hard instances are rectangles of time and bytes that fill a memory without a gap, cut at random (fixed seeds), so
that a plan at the bound is known to exist. `--minimalloc` adds the instances of that project (csv files: id, lower,
upper, size). `--networks` plans every tensor of ResNet-50, MobileNetV2 and YOLOv5s, nothing kept in local memory.
Ratios are deterministic: planners have budgets of moves, not of seconds.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from tpuc.api import BufferInfo, Planner, PoolInfo
from tpuc.registry import Registry
from tpuc.session import Session
from tpuc_passes.planning.arena import Lived, buffer_list, find_planner
from tpuc_passes.planning.planners.packing import Packing
from tpuc_passes.planning.pools import WORKSPACE
from tpuc_passes.planning.usmp import DEFAULT_POOLS, analyse, buffer_array, lower_constants

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.definitions import DEFINITIONS

CAPACITY = 1 << 20
HARD = tuple((f"cut-{pieces}-{seed}", pieces, seed) for pieces in (150, 300, 450) for seed in (1, 2))


def cut_rectangles(pieces: int, seed: int) -> list[Lived]:
    """A memory of `CAPACITY` bytes over 1000 moments, cut into pieces; many are long and thin as in real programs."""
    random = np.random.default_rng(seed)
    unit = 1024
    parts = [(0, 1000, 0, CAPACITY // unit)]
    while len(parts) < pieces:
        weights = np.array(
            [((t1 - t0) * (b1 - b0)) ** 0.5 if (t1 - t0) + (b1 - b0) > 2 else 0 for t0, t1, b0, b1 in parts]
        )
        t0, t1, b0, b1 = parts.pop(int(random.choice(len(parts), p=weights / weights.sum())))
        if b1 - b0 > 1 and (t1 - t0 == 1 or random.random() < 0.55):
            at = int(random.integers(b0 + 1, b1))
            parts += [(t0, t1, b0, at), (t0, t1, at, b1)]
        else:
            at = int(random.integers(t0 + 1, t1))
            parts += [(t0, at, b0, b1), (at, t1, b0, b1)]
    order = random.permutation(len(parts))
    return [Lived(f"b{i}", (parts[i][3] - parts[i][2]) * unit, parts[i][0], parts[i][1] - 1) for i in order.tolist()]


def csv_instance(path: Path) -> list[Lived]:
    """An instance of minimalloc; its upper ends are exclusive."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lower, upper = (name for pair in (("lower", "upper"), ("start", "end")) for name in pair if name in rows[0])
    return [
        Lived(row.get("id", row.get("buffer", "")), int(row["size"]), int(row[lower]), int(row[upper]) - 1)
        for row in rows
    ]


def network_buffers(name: str) -> list[BufferInfo]:
    """Every value of a network between its operators, in float."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(DEFINITIONS[name](1).SerializeToString())
        module = Session().transform(path)
    return buffer_array(analyse(lower_constants(module, ("c",))), DEFAULT_POOLS, WORKSPACE)[0]


def measure(name: str, buffers: list[BufferInfo], planner: Planner) -> float:
    """Print one line; the ratio of peak and bound."""
    pools = list(dict.fromkeys(pool for buffer in buffers for pool in buffer.pool_candidates)) or ["memory"]
    start = perf_counter()
    plan = planner.plan(buffers, [PoolInfo(pool) for pool in pools])
    seconds = perf_counter() - start
    bound = Packing.of(buffers).bound
    peak = max(plan[buffer.name].offset + buffer.size_bytes for buffer in buffers)
    print(f"{name:24} {len(buffers):5} {bound:>12,} {peak:>12,} {peak / bound:8.4f} {seconds * 1000:10.1f}", flush=True)
    return peak / bound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--planner", action="append", help="greedy and hill-climb if not given; also name{option=value}"
    )
    parser.add_argument("--minimalloc", type=Path, metavar="DIR")
    parser.add_argument("--networks", action="store_true")
    arguments = parser.parse_args()
    registry = Registry()
    sets: dict[str, list[tuple[str, list[BufferInfo]]]] = {
        "hard": [(name, buffer_list(cut_rectangles(pieces, seed))) for name, pieces, seed in HARD]
    }
    if arguments.minimalloc is not None:
        files = sorted(arguments.minimalloc.glob("*.csv"))
        sets["minimalloc"] = [(file.stem, buffer_list(csv_instance(file))) for file in files]
    if arguments.networks:
        sets["networks"] = [(name, network_buffers(name)) for name in DEFINITIONS]
    for text in arguments.planner or ("greedy", "hill-climb"):
        planner = find_planner(lambda name: registry.get("tpuc.planners", name), text)
        for title, instances in sets.items():
            print(f"\n{text}, {title}\n{'instance':24} count        bound         peak    ratio         ms")
            ratios = [measure(name, buffers, planner) for name, buffers in instances]
            print(f"{'geometric mean':24} {math.prod(ratios) ** (1 / len(ratios)):40.4f}")


if __name__ == "__main__":
    main()
