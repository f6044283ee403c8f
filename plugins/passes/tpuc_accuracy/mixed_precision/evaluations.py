"""Evaluate mixed-precision networks on samples: single layers, single values, and sets of float layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from tpuc.api import PassContext
from tpuc_driver.api.host import Pool, units_of
from tpuc_lower.target.results import LATENCY
from tpuc_ops.traits import KeepsGrid, states
from tpuc_quantize.options.budgets import operations_of
from tpuc_quantize.simulation.network import FakeNetwork

from tpuc_accuracy.mixed_precision.options import FrontBudget
from tpuc_accuracy.mixed_precision.pareto_front import Choice, Graph, ParetoFront, graph_of
from tpuc_accuracy.mixed_precision.search import LayerLoss, Point, Source, quiet
from tpuc_accuracy.mixed_precision.sensitivity import (
    MixedJob,
    Score,
    SensitivityJob,
    candidates,
    rounded,
    sources,
    total,
    ways,
)


@dataclass
class Evaluations:
    """Evaluates the calibrated network of `job` on the job's samples in `pool`. `most` layers may be float."""

    job: SensitivityJob
    context: PassContext
    pool: Pool
    most: int
    budget: FrontBudget = field(default_factory=FrontBudget)
    net: FakeNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.net, _ = self.job.open()
        self._units = units_of(len(self.job.samples), 1)  # few samples, much work each

    @cached_property
    def singles(self) -> list[Score]:
        """The scores of single integer layers, then those of single rounded values."""
        results = self.context.progress(
            self.pool.map(self.job, self._units), "searching: single layers", len(self._units)
        )
        return total(results, len(candidates(self.net)) + len(rounded(self.net)))

    @cached_property
    def sources(self) -> list[Source]:
        """The sources of noise."""
        return sources(self.net, self.singles)

    @cached_property
    def graph(self) -> Graph:
        """The ops that go float together."""
        return graph_of(self.net, rounded(self.net).values())

    def losses(self) -> list[LayerLoss]:
        """The loss of each layer alone, the highest first."""
        steps = [self.net.plan.steps[layer] for layer in candidates(self.net)]
        found = [
            LayerLoss(step.operation.name, step.operation.op.name, -one.sqnr_db, one.cosine)
            for one, step in zip(self.singles, steps, strict=False)
        ]
        return sorted(found, key=lambda layer: -layer.loss)  # stable: equal losses stay in the order of the network

    def quiet(self, costs: Callable[[str], float] = lambda _: 1.0) -> list[Choice]:
        """Growing sets of layers, by the noise that they remove relative to their cost."""
        return quiet(self.sources, ways(self.net, self.sources, self.job.elements), self.most, costs)

    def mixed(self, choices: Sequence[Choice]) -> list[Score]:
        """The scores of the networks with these ops in float."""
        every = ((), *choices)  # the first one is what all others are like up to some step
        job = MixedJob(**self.job.shared, choices=tuple(map(frozenset, every)))
        results = self.context.progress(self.pool.map(job, self._units), "searching: mixed networks", len(self._units))
        return total(results, len(every))[1:]

    def points(self) -> list[Point]:
        """Networks with more and more layers in float; only the Pareto front where latencies are known."""
        latency = self.context.find(LATENCY)
        if latency is not None:
            return self._timed_points(cache(latency))
        choices = list(dict.fromkeys([(), *map(self._without_moves, self.quiet())]))
        return [
            Point(one, mixed.cosine, -mixed.sqnr_db) for one, mixed in zip(choices, self.mixed(choices), strict=True)
        ]

    def _without_moves(self, choice: Choice) -> Choice:
        """Without ops that keep values, unless all layers around them are float: alone they lose nothing."""
        keeping = {step.operation.name for step in self.net.plan.steps if states(step.operation.op, KeepsGrid)}
        chosen, values = set(choice), [set(touching) for touching in rounded(self.net).values()]

        def is_needed(name: str) -> bool:
            return all(touching - keeping <= chosen for touching in values if name in touching)

        return tuple(name for name in choice if name not in keeping or is_needed(name))

    def _timed_points(self, time: Callable[[Choice], float | None]) -> list[Point]:
        layers = self.graph.layers
        path = self.quiet() if len(layers) <= self.budget.most_layers else self.quiet(self._costs(time))
        scores: dict[Choice, Score] = {}

        def measure(choices: Sequence[Choice]) -> list[float]:
            scores.update(zip(choices, self.mixed(choices), strict=True))
            return [scores[choice].noise for choice in choices]

        chosen = layers if len(layers) <= self.budget.most_layers else self._chosen(path)
        front = ParetoFront(self.graph, self.sources, chosen, self.most, measure, time)
        places = front.find(self._most_measured(), self.budget.most_timed)
        found = {front.choices[place]: front.timed[place] for place in (0, *places)}
        unknown = [choice for choice in map(self.graph.completed, path) if choice not in scores]
        longer = _spread(unknown, self.budget.most_longer)
        scores.update(zip(longer, self.mixed(longer), strict=True))
        found |= {choice: ms for choice in longer if (ms := time(choice)) is not None}
        return [Point(one, scores[one].cosine, -scores[one].sqnr_db, ms) for one, ms in found.items()]

    def _costs(self, time: Callable[[Choice], float | None]) -> Callable[[str], float]:
        """The increase in latency with a layer in float, for those that are chosen first at equal cost, using half of
        the compilations; others get the average, and ops that only move data nearly nothing.
        """
        usual = time(()) or 1.0
        first = [name for choice in self.quiet() for name in choice if name in self.graph.layers]
        known = {name: time((name,)) for name in list(dict.fromkeys(first))[: self.budget.most_timed // 2]}
        least = usual * self.budget.least_cost
        costs = {name: max(ms - usual, least) for name, ms in known.items() if ms is not None}
        mean = sum(costs.values()) / len(costs) if costs else least
        layers = frozenset(self.graph.layers)
        return lambda name: costs.get(name, mean if name in layers else least)

    def _chosen(self, path: Sequence[Choice]) -> list[str]:
        """The layers whose subsets are considered: the first ones of `path`."""
        first = [name for choice in path for name in choice if name in self.graph.layers]
        chosen = list(dict.fromkeys(first))[: self.budget.most_layers]
        return [name for name in self.graph.layers if name in chosen]

    def _most_measured(self) -> int:
        """The number of networks whose noise is measured for a front, from the network alone: the same on every
        machine.
        """
        budget, operations = self.budget, len(self.job.samples) * operations_of(self.net.module)
        return min(budget.most_measured, max(budget.fewest_measured, int(budget.measuring / operations)))


def _spread(choices: Sequence[Choice], count: int) -> list[Choice]:
    """That many of the items, evenly spread, including the last one."""
    count = min(count, len(choices))
    return [choices[(place + 1) * len(choices) // count - 1] for place in range(count)]
