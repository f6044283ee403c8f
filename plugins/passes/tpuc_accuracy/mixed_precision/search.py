"""The result of a search for float layers, and its texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerLoss:
    """The loss of a layer: minus the outputs' signal-to-noise ratio in dB when only that layer is integer."""

    name: str
    op: str
    loss: float
    cosine: float


@dataclass(frozen=True)
class Point:
    """The network with some layers in float; `milliseconds` once the timing model was asked."""

    floats: tuple[str, ...]
    cosine: float
    loss: float
    milliseconds: float | None = None

    @property
    def cost(self) -> float:
        """The latency; while unknown, the number of float layers."""
        return float(len(self.floats)) if self.milliseconds is None else self.milliseconds


@dataclass(frozen=True)
class Search:
    """Layers by falling loss, and networks with more and more float layers."""

    chip: str
    mode: str
    float_mode: str
    samples: int
    layers: tuple[LayerLoss, ...]
    points: tuple[Point, ...]

    def choose(self, min_cosine: float | None = None, max_milliseconds: float | None = None) -> Point | None:
        """The best point within the limits: the cheapest one that is accurate enough, else the most accurate one that
        is fast enough. None when a limit cannot be met.
        """
        fast = [
            point
            for point in self.points
            if max_milliseconds is None or (point.milliseconds is not None and point.milliseconds <= max_milliseconds)
        ]
        if not fast:
            return None
        if min_cosine is not None:
            good = (point for point in fast if point.cosine >= min_cosine)
            return min(good, key=lambda point: point.cost, default=None)
        return min(fast, key=lambda point: (point.loss, len(point.floats)))

    def front(self) -> tuple[Point, ...]:
        """The Pareto front of accuracy and latency; without latencies, of accuracy and the number of float layers."""
        return tuple(point for point in self.points if not any(_is_better(other, point) for other in self.points))

    def remarks(self) -> list[str]:
        """The header of both tables."""
        return [
            f"# sample number: {self.samples}",
            f"# all {self.mode} loss: {self.points[0].loss}",
            f"# chip: {self.chip}  mix_mode: {self.float_mode.upper()}",
            "###",
        ]

    def loss_text(self) -> str:
        """The loss table."""
        lines = [f"No. {place}: Layer:{layer.name} Loss: {layer.loss}" for place, layer in enumerate(self.layers)]
        return "\n".join([*self.remarks(), *lines]) + "\n"

    def table_text(self, point: Point) -> str:
        """The quantize table of a point."""
        lines = [f"{name} {self.float_mode.upper()}" for name in point.floats]
        return "\n".join([*self.remarks(), "# op_name   quantize_mode", *lines]) + "\n"


@dataclass(frozen=True)
class Source:
    """Noise that reaches the outputs while one of these layers is integer: `energy` alone."""

    energy: float
    layers: frozenset[str]


def quiet(
    sources: Sequence[Source],
    moves: Sequence[Sequence[str]],
    most: int,
    costs: Callable[[str], float] = lambda _: 1.0,
) -> list[tuple[str, ...]]:
    """Growing sets of at most `most` float layers: each adds the layers of the one of `moves` that removes most noise
    relative to its cost. Noise of different sources is assumed independent and adds up.
    """
    floats: tuple[str, ...] = ()
    found: list[tuple[str, ...]] = []
    while True:
        left = [source for source in sources if source.energy > 0 and not source.layers.issubset(floats)]
        ways = dict.fromkeys(tuple(name for name in move if name not in floats) for move in moves)
        fitting = [new for new in ways if 0 < len(new) <= most - len(floats)]
        gains = {new: _gone(left, (*floats, *new)) / sum(map(costs, new)) for new in fitting}
        best = max(gains, key=lambda new: gains[new], default=())
        if not best or not gains[best]:
            return found
        floats = (*floats, *best)
        found.append(floats)


def _gone(sources: Sequence[Source], floats: Sequence[str]) -> float:
    combined = set(floats)
    return sum(source.energy for source in sources if source.layers <= combined)


def _is_better(one: Point, other: Point) -> bool:
    """True if it is as accurate and as fast, and better in one of them."""
    ours, theirs = (one.loss, one.cost), (other.loss, other.cost)
    return ours != theirs and ours[0] <= theirs[0] and ours[1] <= theirs[1]
