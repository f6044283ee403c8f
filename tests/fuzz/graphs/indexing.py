"""Operators that choose or sort elements."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.maker import SAMPLES, Maker, Value
from tests.fuzz.graphs.table import makes


def _indices(m: Maker, count: int, *shape: int) -> Value:
    """Places among `count`: constant, computed by the graph or one of its inputs."""
    if m.chance(0.6):
        numbers = m.random.integers(-count if m.chance(0.3) else 0, count, shape)
        return m.constant(numbers, m.choose((np.int64, np.int32)))
    return m.added_input(tuple(m.random.integers(0, count, shape) for _ in range(SAMPLES)))


@makes("Gather", weight=2)
def gather(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1)
    shape = [m.whole(1, 4) for _ in range(m.choose((0, 1, 1, 1, 2)))]
    indices = _indices(m, x.shape[axis], *shape)
    if m.chance(0.3):
        x = m.normal(m.whole(5, 20), m.whole(2, 9))
        axis, indices = 0, _indices(m, 5, *shape)
    m.node(name, x, indices, axis=axis)


@makes("GatherElements")
def gather_elements(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1)
    shape = [m.whole(1, extent + 1) if index == axis else extent for index, extent in enumerate(x.shape)]
    m.node(name, x, _indices(m, x.shape[axis], *shape), axis=axis)


@makes("GatherND")
def gather_nd(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 2)
    count, depth = m.whole(1, 4), m.whole(1, min(2, x.rank))
    places = np.stack([m.random.integers(0, x.shape[axis], count) for axis in range(depth)], -1)
    m.node(name, x, m.constant(places, np.int64))


@makes("ScatterElements")
def scatter_elements(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1)
    count = m.whole(1, x.shape[axis])
    shape = [count if index == axis else extent for index, extent in enumerate(x.shape)]
    order = m.random.permuted(
        np.broadcast_to(np.arange(x.shape[axis]), (*shape[:axis], *shape[axis + 1 :], x.shape[axis])), axis=-1
    )
    places = np.moveaxis(order[..., :count], -1, axis)
    m.node(name, x, m.constant(places, np.int64), m.normal(*shape), axis=axis, **_reduction(m, 18))


@makes("ScatterND")
def scatter_nd(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    count = m.whole(1, x.shape[0])
    places = m.random.permutation(x.shape[0])[:count, None]
    m.node(name, x, m.constant(places, np.int64), m.normal(count, *x.shape[1:]), **_reduction(m, 18))


def _reduction(m: Maker, most: int) -> dict[str, str]:
    if m.opset < 16 or m.chance(0.5):
        return {}
    return {"reduction": m.choose(("add", "mul", *(("max", "min") if m.opset >= most else ())))}


@makes("OneHot")
def one_hot(m: Maker, name: str) -> None:
    depth = m.whole(2, 7)
    indices = _indices(m, depth, *(m.whole(1, 5) for _ in range(m.whole(1, 2))))
    values = m.constant(sorted((m.real(-1, 0), m.real(0.1, 2))))
    m.node(name, indices, m.constant(depth, np.int64), values, axis=m.choose((-1, 0)))


@makes("ArgMax", "ArgMin", weight=1.5)
def arg(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    attributes = {"axis": m.whole(-x.rank, x.rank - 1), "keepdims": m.whole(0, 1)}
    m.node(name, x, **attributes, **({"select_last_index": 1} if m.chance(0.3) else {}))


@makes("TopK")
def top_k(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1)
    m.nodes_of(name, [x, m.integers(m.whole(1, x.shape[axis]))], 2, axis=axis, largest=m.whole(0, 1))


@makes("Hardmax", weight=0.6)
def hardmax(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    m.node(name, x, axis=m.whole(-x.rank, x.rank - 1))


@makes("CumSum")
def cum_sum(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.constant(m.whole(-x.rank, x.rank - 1), np.int64)
    m.node(name, x, axis, exclusive=m.whole(0, 1), reverse=m.whole(0, 1))
