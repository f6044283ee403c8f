"""The result of a search for layers to keep in float, and its texts (SPEC C6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

TRIED = 4
"""So many ways on are tried at once, those that gained most when they were tried last; twice if none gains."""
LEAST_GAIN_DB = 0.05
"""A layer in float is slow: it must take away so much of the loss."""


@dataclass(frozen=True)
class LayerLoss:
    """A layer that alone runs on integers: its loss is minus the outputs' signal-to-noise ratio in dB."""

    name: str
    op: str
    loss: float
    cosine: float


@dataclass(frozen=True)
class Point:
    """The network with some layers in float; `milliseconds` once somebody has asked the chip's timing model."""

    floats: tuple[str, ...]
    cosine: float
    loss: float
    milliseconds: float | None = None


@dataclass(frozen=True)
class Search:
    """Layers by falling loss, and networks with more and more of them in float, each with less loss than the last."""

    chip: str
    mode: str
    float_mode: str
    samples: int
    layers: tuple[LayerLoss, ...]
    points: tuple[Point, ...]

    def choose(self, min_cosine: float | None = None, max_milliseconds: float | None = None) -> Point | None:
        """See the function `choose`."""
        return choose(self.points, min_cosine, max_milliseconds)

    def front(self) -> tuple[Point, ...]:
        """See the function `front`."""
        return front(self.points)

    def remarks(self) -> list[str]:
        """The head of both tables."""
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
        """The quantise table of a point."""
        lines = [f"{name} {self.float_mode.upper()}" for name in point.floats]
        return "\n".join([*self.remarks(), "# op_name   quantize_mode", *lines]) + "\n"


def greedy(
    try_out: Callable[[Sequence[tuple[str, ...]]], Sequence[Point]], moves: Sequence[tuple[str, ...]], most: int
) -> tuple[Point, ...]:
    """From no layer in float to at most `most`: in each step those of a move that are not float yet, of the move that
    takes most of the loss away per layer. `try_out` gives the points of choices of layers.
    """
    base, *alone = try_out([(), *moves])
    points = [base]
    worth = {move: (base.loss - point.loss) / len(move) for move, point in zip(moves, alone, strict=True)}
    found = dict(zip(moves, alone, strict=True))
    while True:
        here = points[-1]
        new = {move: tuple(name for name in move if name not in here.floats) for move in worth}
        left = [move for move in worth if 0 < len(new[move]) <= most - len(here.floats)]
        left.sort(key=lambda move: -worth[move])
        best: Point | None = None
        for group in (left[:TRIED], left[TRIED : 2 * TRIED]):
            if not group:
                break
            if here is not base:
                tried = try_out([here.floats, *((*here.floats, *new[move]) for move in group)])[1:]
                found.update(zip(group, tried, strict=True))
                worth.update({move: (here.loss - found[move].loss) / len(new[move]) for move in group})
            first = max(group, key=lambda move: worth[move])
            if here.loss - found[first].loss >= LEAST_GAIN_DB:
                best = found[first]
                break
        if best is None:
            return tuple(points)
        points.append(best)


def choose(points: Sequence[Point], min_cosine: float | None, max_milliseconds: float | None) -> Point | None:
    """The best point within the limits: the least float one that is good enough, else the most accurate one that is
    fast enough. None when a limit cannot be kept.
    """
    fast = [
        point
        for point in points
        if max_milliseconds is None or (point.milliseconds is not None and point.milliseconds <= max_milliseconds)
    ]
    if not fast:
        return None
    if min_cosine is not None:
        return next((point for point in fast if point.cosine >= min_cosine), None)
    return min(fast, key=lambda point: (point.loss, len(point.floats)))


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points than which no other is both as accurate and as fast; without latencies, as few float layers."""

    def cost(point: Point) -> float:
        return float(len(point.floats)) if point.milliseconds is None else point.milliseconds

    return tuple(
        point
        for point in points
        if not any(
            other is not point
            and other.loss <= point.loss
            and cost(other) <= cost(point)
            and (other.loss < point.loss or cost(other) < cost(point))
            for other in points
        )
    )
