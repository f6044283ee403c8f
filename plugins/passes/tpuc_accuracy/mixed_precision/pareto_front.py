"""Compute the Pareto front of noise and latency over sets of float layers, with few compilations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from tpuc.api import ShapeOnly
from tpuc.api.evaluation import Array
from tpuc_ops.factorization import matmul, root_of_inverse
from tpuc_quantize.simulation.network import FakeNetwork

from tpuc_accuracy.mixed_precision.options import FrontBudget
from tpuc_accuracy.mixed_precision.search import Source

_NOTHING = np.float64(1e-30)
"""Noise of all-float networks."""

_RIDGE = 1e-6
"""Ridge regularization for latencies that no choice separates; negligible beside the counts."""

Choice = tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """The ops that go float together: `layers` are chosen; each of the others, `followers`, is float when all layers
    around it are. `shared` are the layers around each rounded value. Names in network order.
    """

    order: tuple[str, ...]
    layers: tuple[str, ...]
    followers: Mapping[str, frozenset[str]]
    shared: tuple[frozenset[str], ...]

    def completed(self, layers: Collection[str]) -> Choice:
        """Layers with the ops that follow them."""
        chosen = set(layers)
        chosen.update(name for name, around in self.followers.items() if around and around <= chosen)
        return tuple(name for name in self.order if name in chosen)

    def neighbors(self, layers: Collection[str]) -> list[tuple[str, str]]:
        """Pairs of layers that share a value: the cost of one depends on the other."""
        known = [name for name in self.layers if name in layers]
        return [pair for pair in combinations(known, 2) if any({*pair} <= shared for shared in self.shared)]


def graph_of(net: FakeNetwork, shared: Iterable[Sequence[str]]) -> Graph:
    """The graph of a network with the ops around each rounded value. Ops that only rename a value follow."""
    names = [
        step.operation.name
        for step in net.plan.steps
        if net.can_be_integer(step)
        and step.operation.name not in net.floats
        and not isinstance(step.operation.op, ShapeOnly)
    ]
    around: dict[str, set[str]] = {}
    values = [tuple(touching) for touching in shared]
    for touching in values:
        for name in touching:
            around.setdefault(name, set()).update(touching)
    followers = {name: frozenset(found.intersection(names)) for name, found in around.items() if name not in names}
    order = tuple(step.operation.name for step in net.plan.steps)
    return Graph(order, tuple(names), followers, tuple(frozenset(one).intersection(names) for one in values))


@dataclass
class ParetoFront:
    """All subsets of few layers by noise and latency.

    Noise is predicted from `sources` and measured where the prediction puts a network near the front. Latency is a sum
    over layers and pairs of neighbors, fitted to the compiled networks; networks that the fit puts on the front are
    compiled in turn, until all are known.
    """

    graph: Graph
    sources: Sequence[Source]
    layers: Sequence[str]
    most: int
    measure: Callable[[Sequence[Choice]], Sequence[float]]
    time: Callable[[Choice], float | None]
    timed: dict[int, float] = field(default_factory=dict[int, float])
    """Milliseconds by index into `choices`; infinite for networks that the chip cannot compile."""
    choices: list[Choice] = field(init=False)
    _bits: Array = field(init=False)
    _pairs: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.layers)
        bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
        completed = [
            self.graph.completed([one for one, bit in zip(self.layers, row, strict=True) if bit]) for row in bits
        ]
        kept = [place for place, choice in enumerate(completed) if len(choice) <= self.most]
        self._bits = bits[kept].astype(bool)
        self.choices = [completed[place] for place in kept]
        places = {name: place for place, name in enumerate(self.layers)}
        self._pairs = [(places[a], places[b]) for a, b in self.graph.neighbors(self.layers)]

    def find(self, most_measured: int, most_timed: int = FrontBudget.most_timed) -> list[int]:
        """The indices into `choices` of the front; all of them have been measured and timed. The first choice is ()."""
        for place in self._first_timed():
            if len(self.timed) < most_timed:
                self._time(place)
        noise = np.array([_noise(self.sources, choice) for choice in self.choices])
        nearest = np.argsort(_noise_behind_front(noise, self._times()), kind="stable")[:most_measured]
        known = np.full(len(noise), np.inf)
        places = sorted({0, *map(int, nearest)})
        known[places] = self.measure([self.choices[place] for place in places])
        while True:
            front = front_of(known, self._times())
            new = [place for place in front if place not in self.timed]
            if not new or len(self.timed) >= most_timed:
                break
            for place in new[: most_timed - len(self.timed)]:
                self._time(place)
        times = np.full(len(known), np.inf)
        times[list(self.timed)] = list(self.timed.values())
        return front_of(known, times)

    def _first_timed(self) -> list[int]:
        """The networks that fit the latency model: integers only, each layer, neighbors, and everything."""
        by_layers = {tuple(np.flatnonzero(row).tolist()): place for place, row in enumerate(self._bits)}
        singles = [(place,) for place in range(len(self.layers))]
        probes = [(), *singles, tuple(range(len(self.layers))), *self._pairs]
        return list(dict.fromkeys(by_layers[layers] for layers in probes if layers in by_layers))

    def _time(self, place: int) -> None:
        found = self.time(self.choices[place])
        self.timed[place] = np.inf if found is None else found

    def _times(self) -> Array:
        """The latencies of all choices: known ones, others by the model."""
        pairs = [self._bits[:, a] & self._bits[:, b] for a, b in self._pairs]
        features = np.column_stack([np.ones(len(self._bits)), self._bits, *pairs]).astype(np.float64)
        places = [place for place, time in self.timed.items() if np.isfinite(time)]
        known = np.array([self.timed[place] for place in places])
        measured = features[places]
        squares = matmul(measured.T, measured) + _RIDGE * np.eye(measured.shape[1])
        root = root_of_inverse(squares)
        weights = matmul(root.T, matmul(root, matmul(measured.T, (known - known[0])[:, None])))
        result: Array = matmul(features, weights)[:, 0] + known[0]
        for place, time in self.timed.items():
            if np.isinf(time) and self._bits[place].sum() == 1:
                result[(self._bits & self._bits[place]).any(axis=1)] = np.inf
            result[place] = time
        return result


def _noise(sources: Sequence[Source], choice: Choice) -> float:
    floats = set(choice)
    return sum(source.energy for source in sources if not source.layers <= floats)


def front_of(noise: Array, times: Array) -> list[int]:
    """The indices of the front, by rising latency; the first of equals."""
    best, result = np.inf, list[int]()
    for place in np.lexsort((noise, times)).tolist():
        if np.isfinite(times[place]) and noise[place] < best:
            best = float(noise[place])
            result.append(place)
    return result


def _noise_behind_front(noise: Array, times: Array) -> Array:
    """The ratio of each noise to the lowest at no more latency."""
    result = np.full(len(noise), np.inf)
    best = np.inf
    for place in np.lexsort((noise, times)).tolist():
        if np.isfinite(times[place]):
            best = min(best, float(noise[place]))
            result[place] = max(noise[place], _NOTHING) / max(best, _NOTHING)
    return result
