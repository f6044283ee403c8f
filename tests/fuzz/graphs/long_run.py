"""Many graphs, and what is left of those that fail; `benchmarks/fuzz.py graphs` is its command line."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path

import click
from tpuc_driver.cli import main as tpuc

from tests.fuzz.graphs.generate import random_graph
from tests.fuzz.graphs.judge import RUNS, left_out
from tests.fuzz.graphs.once import save
from tests.fuzz.graphs.runner import Result, Run, Tally, judge_graphs

ORACLE_EVERY = 10
JUDGE = "tests.fuzz.graphs.once {} --values {values}"
"""The module that says whether a part of a graph still fails."""


def main(words: list[str]) -> int:
    """Print a table; 1 where a graph failed."""
    parser = argparse.ArgumentParser(prog="fuzz.py graphs", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--chip", help="only this one")
    parser.add_argument("--mode", help="only this one")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="reduce graphs that fail, and write them there")
    parser.add_argument("--oracle", type=Path, metavar="DIR", help="run every tenth graph on the vendor's model too")
    arguments = parser.parse_args(words)
    chosen = [(chip, mode) for chip, mode in RUNS if arguments.chip in (None, chip) and arguments.mode in (None, mode)]
    if not chosen:
        parser.error("no chip has this mode")
    runs: list[Run] = [("", ""), *chosen]
    tally, failures, start = Tally(), 0, time.perf_counter()
    oracle = str(arguments.oracle.resolve()) if arguments.oracle else ""
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    results = judge_graphs(seeds, runs, workers=arguments.workers, oracle=oracle, oracle_every=ORACLE_EVERY)
    for index, result in enumerate(results, 1):
        tally.add(result)
        if index % (20 * len(runs)) == 0:
            click.echo(
                f"{index // len(runs)} graphs, {failures} failures, {time.perf_counter() - start:.0f} s", err=True
            )
        if result.is_failure:
            failures += 1
            click.echo(result)
            if arguments.keep is not None:
                click.echo(reduced(result, arguments.keep))
    click.echo(tally.text())
    click.echo(f"{failures} failures in {time.perf_counter() - start:.0f} s")
    return 1 if failures else 0


def reduced(result: Result, folder: Path) -> str:
    """Write the graph and the smallest part of it that fails likewise; what `tpuc reduce` says of it."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "_".join(filter(None, (str(result.seed), *result.run)))
    path, small = folder / f"{stem}.onnx", folder / f"{stem}_reduced.onnx"
    values = save(random_graph(result.seed, left_out(result.seed, *result.run)), path)
    chip, mode = result.run
    command = f"{sys.executable} -m {JUDGE}".replace("{values}", str(values))
    command += f" --chip {chip} --quantize {mode}" if chip else ""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        tpuc(["reduce", str(path), "--command", command, "-o", str(small)])
    return said.getvalue()
