"""The process that judges graphs: one seed with its runs per line in, one verdict per run out."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.fuzz.graphs.generate import random_graph
from tests.fuzz.graphs.judge import RunVendor, Subject, Verdict, check_chip, check_import, judged, left_out
from tests.fuzz.graphs.vendor import vendor_of

PLAIN_EVERY = 3
"""Each so many-th graph is also compiled as users do, which takes longer than all else."""

TUNED_EVERY = 4
"""Each so many-th is calibrated as users do."""


def main() -> None:
    """Read seeds until there are no more."""
    warnings.simplefilter("ignore")  # of numpy, about values that no graph should have; verdicts tell what matters
    answers, sys.stdout = sys.stdout, sys.stderr
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        runs = [(chip, mode) for chip, mode in asked["runs"]]
        with tempfile.TemporaryDirectory() as folder:
            run_vendor = vendor_of(Path(asked["oracle"])) if asked["oracle"] else None
            for verdict in verdicts(asked["seed"], runs, Path(folder), run_vendor):
                print(json.dumps([verdict.kind, verdict.cause, verdict.said[-3000:]]), file=answers, flush=True)


def verdicts(
    seed: int, runs: Sequence[tuple[str, str]], folder: Path, run_vendor: RunVendor | None = None
) -> Iterator[Verdict]:
    """One per run; without a chip it is about the front end. What is not imported well is told by each run."""
    subjects: dict[frozenset[str], tuple[Subject, Verdict]] = {}
    for chip, mode in runs:
        without = left_out(seed, chip, mode)
        if without not in subjects:
            graph = random_graph(seed, without)
            subject = Subject(graph.model, graph.samples, folder)
            subjects[without] = subject, judged(partial(check_import, subject), subject)
        subject, imported = subjects[without]
        if not chip or imported.kind != "ok":
            yield imported
        else:
            choices = {"plain": (seed + len(mode)) % PLAIN_EVERY == 0, "tuned": seed % TUNED_EVERY == 0}
            yield judged(partial(check_chip, subject, chip, mode, run_vendor, **choices), subject)


if __name__ == "__main__":
    main()
