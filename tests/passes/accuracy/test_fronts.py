"""The front of noise and time: found at few compilations, and the same as that of all subsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from tpuc.api import CALIBRATION_TABLE
from tpuc_accuracy.mixed_precision.pareto_front import Choice, Graph, ParetoFront, front_of, graph_of
from tpuc_accuracy.mixed_precision.search import Source
from tpuc_accuracy.mixed_precision.sensitivity import rounded
from tpuc_ops import top
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import CONTEXT, Network

NAMES = tuple("abcdefgh")
CHAIN = tuple(frozenset(pair) for pair in pairwise(NAMES))
GRAPH = Graph((*NAMES, "shape"), NAMES, {"shape": frozenset("cd")}, CHAIN)


class Bench:
    """A network of known noise and time: filters and values make noise, casts between neighbors take time."""

    def __init__(self, seed: int, missing: str = "") -> None:
        random = np.random.default_rng(seed)
        self.sources = [
            *(Source(random.uniform(0.1, 4), frozenset(name)) for name in NAMES),
            *(Source(random.uniform(0.1, 8), shared) for shared in CHAIN),
        ]
        self.costs = dict(zip(NAMES, random.uniform(1, 9, len(NAMES)), strict=True))
        self.casts = dict(zip(CHAIN, random.uniform(0.5, 3, len(CHAIN)), strict=True))
        self.missing = missing
        self.compiled: list[Choice] = []

    def noise(self, choices: Sequence[Choice]) -> list[float]:
        """Some ten per cent more or less than what single sources say."""
        exact = [sum(one.energy for one in self.sources if not one.layers <= set(choice)) for choice in choices]
        luck = [
            np.random.default_rng([len(choice), *map(ord, "".join(choice))]).uniform(0.9, 1.1) for choice in choices
        ]
        return [one * factor for one, factor in zip(exact, luck, strict=True)]

    def time(self, choice: Choice) -> float | None:
        self.compiled.append(choice)
        if self.missing and self.missing in choice:
            return None
        casts = sum(cost for pair, cost in self.casts.items() if len(pair & set(choice)) == 1)
        return 20 + sum(self.costs[name] for name in choice if name in self.costs) + casts

    def front(self, most: int = 99) -> ParetoFront:
        return ParetoFront(GRAPH, self.sources, NAMES, most, self.noise, self.time)


@each("seed", range(5))
@each(("most", "missing"), [(99, ""), (3, ""), (99, "d")])
def test_it_is_that_of_all_subsets(seed: int, most: int, missing: str) -> None:
    bench = Bench(seed, missing)
    front = bench.front(most)
    found = [front.choices[place] for place in front.find(256)]
    asked = len(bench.compiled)
    every = [
        GRAPH.completed(some)
        for count in range(len(NAMES) + 1)
        for some in combinations(NAMES, count)
        if missing not in some and len(GRAPH.completed(some)) <= most
    ]
    noise = np.array(bench.noise(every))
    wanted = [every[place] for place in front_of(noise, np.array([bench.time(one) for one in every], float))]
    assert found == wanted
    assert asked == len(set(bench.compiled[:asked])) <= 16 + len(found)  # singles, pairs, nothing and everything


def test_no_more_networks_are_compiled_than_allowed() -> None:
    bench = Bench(0)
    front = bench.front()
    found = front.find(256, most_timed=12)
    assert len(bench.compiled) == 12
    assert {front.choices[place] for place in found} <= set(bench.compiled)


def test_few_networks_near_the_front_are_measured() -> None:
    bench = Bench(1)
    asked: list[int] = []

    def measure(choices: Sequence[Choice]) -> list[float]:
        asked.append(len(choices))
        return bench.noise(choices)

    front = ParetoFront(GRAPH, bench.sources, NAMES, 99, measure, bench.time)
    few, every = front.find(60), bench.front()
    assert asked in ([60], [61])
    assert len(few) >= 0.7 * len(every.find(256))


def test_ops_that_only_name_a_value_anew_follow_those_around_them() -> None:
    net = Network(1, 4, 8, 8)
    conv = top.Conv(kernel_shape=(1, 1))
    first = net.op(conv, net.input, net.weight(4, 4, 1, 1), net.none)
    shape = net.op(top.Reshape(shape=(1, 4, 64, 1)), first)
    second = net.op(conv, shape, net.weight(4, 4, 1, 1), net.none)
    module = net.finish(second)
    entries = {value.name: TensorThreshold(1.0, -1.0, 1.0) for value in (net.input, first, shape, second)}
    context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(entries)})
    ImportCalibration().run(module, context)
    fake = FakeNetwork(module)
    graph = graph_of(fake, rounded(fake).values())
    assert graph.layers == (first.name, second.name)
    assert graph.completed([second.name]) == (second.name,)
    assert graph.completed([second.name, first.name]) == (first.name, shape.name, second.name)
    assert graph.neighbors(graph.layers) == [(first.name, second.name)]
