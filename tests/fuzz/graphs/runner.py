"""Judges many graphs in processes that may crash or hang, and sums up per chip and mode."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.fuzz.process import LineProcess

SECONDS = 60.0
"""Of the process's own time, which other work on the machine does not lengthen: longer is a hang."""
MOST_SECONDS = 300.0
"""By the clock, for one that waits."""
GRAPHS_PER_CHILD = 200
Run = tuple[str, str]
"""Chip and mode; both empty for the front end alone."""


@dataclass(frozen=True)
class Result:
    """What became of one graph on one chip in one mode."""

    seed: int
    run: Run
    kind: str
    cause: str
    said: str

    @property
    def is_failure(self) -> bool:
        return self.kind not in ("ok", "refused")

    def __str__(self) -> str:
        where = " ".join(self.run).strip() or "import"
        return f"seed {self.seed}, {where}: {self.kind}: {self.cause}: {self.said.strip()}"


@dataclass
class Tally:
    """Results per chip and mode."""

    kinds: dict[Run, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: dict[Run, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, result: Result) -> None:
        self.kinds[result.run][result.kind] += 1
        if result.kind != "ok":
            self.reasons[result.run][f"{result.kind}: {result.cause}"] += 1

    def text(self) -> str:
        """A table, and behind it why graphs were refused or failed."""
        columns = ("ok", "refused", "wrong", "internal")
        lines = [f"{'':22}{'graphs':>8}" + "".join(f"{name:>10}" for name in columns)]
        for run, kinds in self.kinds.items():
            counts = "".join(f"{kinds[name]:>10}" for name in columns)
            lines.append(f"{' '.join(run).strip() or 'import':22}{kinds.total():>8}{counts}")
        for run, reasons in self.reasons.items():
            lines += ["", f"{' '.join(run).strip() or 'import'}:"]
            lines += [f"{count:>6}  {cause}" for cause, count in reasons.most_common()]
        return "\n".join(lines)


class Child(LineProcess):
    """A process that judges graphs, one after the other."""

    def __init__(self) -> None:
        super().__init__("tests.fuzz.graphs.child")
        self.graphs = 0
        self.line(SECONDS, MOST_SECONDS)  # for its imports

    def ask(self, seed: int, runs: Sequence[Run], oracle: str) -> None:
        self.graphs += 1
        self.tell({"seed": seed, "runs": runs, "oracle": oracle})

    def answer(self) -> tuple[str, str, str]:
        """Kind, cause and details of the next run."""
        line = self.line(SECONDS, MOST_SECONDS)
        if line is None:
            return "internal", "hang", f"takes longer than {SECONDS:g} s"
        if not line:
            return "internal", "crash", f"the process ended with {self.exit_code()}"
        kind, cause, said = json.loads(line)
        return kind, cause, said


def judge_graphs(
    seeds: Iterable[int], runs: Sequence[Run], *, workers: int = 1, oracle: str = "", oracle_every: int = 10
) -> Iterator[Result]:
    """The results of all runs of every seed, in the order of the seeds; each `oracle_every`-th also on the oracle."""
    children: list[Child] = []

    def one(seed: int) -> list[Result]:
        child = children.pop() if children else Child()
        results: list[Result] = []
        left = list(runs)
        while left:
            child.ask(seed, left, oracle if oracle and seed % oracle_every == 0 else "")
            while left:
                kind, cause, said = child.answer()
                results.append(Result(seed, left.pop(0), kind, cause, said))
                if cause in ("hang", "crash"):
                    child.stop()
                    child = Child()
                    break
        if child.graphs >= GRAPHS_PER_CHILD:
            child.stop()
        else:
            children.append(child)
        return results

    try:
        with ThreadPoolExecutor(workers) as pool:
            for results in pool.map(one, seeds):
                yield from results
    finally:
        for child in children:
            child.stop()
