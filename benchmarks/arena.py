"""Memory planners on hard instances and on networks: peak over the lower bound, and milliseconds.

python benchmarks/arena.py [--planner NAME] [--minimalloc DIR] [--networks [--model-data DIR] [NAME ...]]

The hard instances are rectangles of time and bytes that fill a memory without a gap, cut at random (fixed seeds), so
that a plan at the bound is known to exist. `--minimalloc` adds the instances of that project (csv files: id, lower,
upper, size). Ratios are deterministic: planners have budgets of moves, not of seconds.

`--networks` instead shows for each network, ungrouped (every value between operators) and as every chip and mode groups
it, the most that is live at once, the peak of the plan and the first planner that reaches what is live or proves that
nothing lower exists. The lives come from the plan's own text; `tests/passes/planning/planners/verify.py` checks it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
from tpuc.api import BufferInfo, PlannedBuffer, Planner, PoolAllocation, PoolInfo, TpucError
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_plan.planners.arena import Lived, buffer_list, find_planner
from tpuc_plan.planners.exact import Exact
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.planners.hill_climb import HillClimb
from tpuc_plan.planners.packing import Packing
from tpuc_plan.usmp.planner import Pools, lower_constants, plan_program

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.traffic import ARENA, MODES, NAMES, compiled, network_file, source_options
from tests.passes.planning.planners.verify import buffers_of, check_plan, live_bytes

CAPACITY = 1 << 20
PROVING: tuple[Planner, ...] = (GREEDY, HillClimb(), Exact())
"""From fast to thorough."""
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


def network_plans(name: str, data: Path | None, folder: Path) -> Iterator[tuple[str, list[PlannedBuffer], str]]:
    """The planned activations of a network, ungrouped and on every chip, each with its planner."""
    path = network_file(name, data, folder)
    module = Session().transform(path, **source_options(name, path))
    program = lower_constants(module, ("c",))
    plans = (plan_program(program, Pools(), planner).workspace for planner in PROVING)
    best = next(plans)
    while best.peak_bytes > best.bound_bytes and (other := next(plans, None)) is not None:
        best = other
    yield "ungrouped", list(best.buffers), best.planner
    for chip, modes in MODES.items():
        for mode in modes:
            try:
                memory = compiled(name, path, chip, mode, folder)[1].memory_plan
            except TpucError as error:
                print(f"{name:22} {f'{chip} {mode}':13} {error}", flush=True)
                continue
            assert memory is not None
            yield f"{chip} {mode}", [one for one in memory.buffers if one.pool == ARENA], memory.planner


def show_network(name: str, data: Path | None) -> None:
    """Print a line for each way to plan a network; fails where buffers overlap."""
    with tempfile.TemporaryDirectory() as folder:
        for form, planned, planner in network_plans(name, data, Path(folder)):
            spans = [(one.first, one.last, one.size_bytes) for one in planned]
            buffers, pool = buffers_of(spans), PoolInfo("memory")
            plan = {
                buffer.name: PoolAllocation(pool.name, one.offset) for buffer, one in zip(buffers, planned, strict=True)
            }
            peak, live = check_plan(buffers, [pool], plan)[pool.name], live_bytes(spans)
            again = buffer_list([Lived(f"b{n}", size, first, last) for n, (first, last, size) in enumerate(spans)])
            start = perf_counter()
            GREEDY.plan(again, [pool])
            milliseconds = (perf_counter() - start) * 1000
            verdict = (
                "at the bound" if peak == live else "proven least" if _is_least(again, peak) else "ABOVE THE BOUND"
            )
            figures = f"{len(planned):5} {live:>12,} {peak:>12,} {milliseconds:7.1f}"
            print(f"{name:22} {form:13} {figures}  {verdict} ({planner})", flush=True)


def _is_least(buffers: list[BufferInfo], peak: int) -> bool:
    found = Exact().pack(Packing.of(buffers), None)
    return found.proven and Packing.of(buffers).peak(found.offsets) == peak


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
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    if arguments.networks:
        print(f"{'network':22} {'form':13} count         live         peak  greedy ms")
        for name in arguments.names:
            show_network(name, arguments.model_data)
        return
    registry = Registry()
    sets: dict[str, list[tuple[str, list[BufferInfo]]]] = {
        "hard": [(name, buffer_list(cut_rectangles(pieces, seed))) for name, pieces, seed in HARD]
    }
    if arguments.minimalloc is not None:
        files = sorted(arguments.minimalloc.glob("*.csv"))
        sets["minimalloc"] = [(file.stem, buffer_list(csv_instance(file))) for file in files]
    for text in arguments.planner or ("greedy", "hill-climb"):
        planner = find_planner(lambda name: registry.get("tpuc.planners", name), text)
        for title, instances in sets.items():
            print(f"\n{text}, {title}\n{'instance':24} count        bound         peak    ratio         ms")
            ratios = [measure(name, buffers, planner) for name, buffers in instances]
            print(f"{'geometric mean':24} {math.prod(ratios) ** (1 / len(ratios)):40.4f}")


if __name__ == "__main__":
    main()
