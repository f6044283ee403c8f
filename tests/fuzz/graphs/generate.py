"""Random graphs by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from tests.fuzz.graphs import indexing, layers, pointwise, shaping
from tests.fuzz.graphs.maker import REFUSALS, SAMPLES, Array, Maker, Value, model_of, session_of
from tests.fuzz.graphs.table import OPERATORS

OPSETS = range(13, min(23, onnx.defs.onnx_opset_version()) + 1)
FAMILIES = (indexing, layers, pointwise, shaping)
"""They fill the table when they are imported."""
TYPED_INPUTS = 5
"""One seed in so many has inputs of other types than float32, of any rank, too."""
INPUT_TYPES = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float16, np.float64)
ATTEMPTS_PER_NODE = 20
ATTEMPTS_PER_GRAPH = 10


@dataclass(frozen=True)
class RandomGraph:
    """A model, sets of inputs for it, and the names of the operators that were asked for."""

    seed: int
    model: onnx.ModelProto
    samples: tuple[Mapping[str, Array], ...]
    operators: tuple[str, ...]


def random_graph(seed: int, without: frozenset[str] = frozenset()) -> RandomGraph:
    """The same seed gives the same graph. Seeds go through the operators in turn, so that none is rare;
    those in `without` are left out.

    ONNX's shape inference errs here and there, and then ONNX Runtime refuses the whole, though it ran every node.
    """
    for attempt in range(ATTEMPTS_PER_GRAPH):
        graph = _drawn(seed, attempt, without)
        try:
            session_of(graph.model)
        except REFUSALS:
            continue
        return graph
    raise AssertionError(f"no graph for seed {seed}")


def _drawn(seed: int, attempt: int, without: frozenset[str]) -> RandomGraph:
    random = np.random.default_rng([seed, attempt])
    m = Maker(random, int(random.choice(OPSETS)))
    for _ in range(m.choose((1, 1, 1, 2, 2, 3))):
        m.input(m.dims(m.choose((1, 2, 3, 3, 4, 4, 4, 4, 5))))
    if seed % TYPED_INPUTS == 0:
        _add_typed_inputs(m)
    names = [name for name, operator in OPERATORS.items() if operator.since <= m.opset and name not in without]
    weights = np.array([OPERATORS[name].weight for name in names])
    first = sorted(OPERATORS)[seed % len(OPERATORS)]
    used: list[str] = []
    wanted = m.whole(3, 14)
    for turn in range(wanted * ATTEMPTS_PER_NODE):
        if len(used) >= wanted:
            break
        wants_first = first in names and turn < ATTEMPTS_PER_NODE and first not in used
        name = first if wants_first and turn >= 1 else str(random.choice(names, p=weights / weights.sum()))
        if m.attempt(lambda name=name: OPERATORS[name].make(m, name)) is None:  # type: ignore[misc]
            used.append(name)
    return _finished(seed, m, used)


def _add_typed_inputs(m: Maker) -> None:
    """Inputs of small whole numbers, each with its float form beside it: scalars to six dimensions."""
    for _ in range(m.whole(1, 2)):
        dtype, shape = np.dtype(m.choose(INPUT_TYPES)), m.dims(m.choose((0, 1, 2, 3, 4, 5, 6)))
        high = 2 if dtype.kind == "b" else 5
        arrays = tuple(np.asarray(m.random.integers(0, high, shape)).astype(dtype) for _ in range(SAMPLES))
        value = m.added_input(arrays)
        m.node("Cast", value, to=onnx.TensorProto.FLOAT)
        if dtype.kind == "f":  # operators do not mix floats of two sizes
            m.values.remove(value)


def _finished(seed: int, m: Maker, used: list[str]) -> RandomGraph:
    """Outputs: what nothing uses, and now and then a value that something does."""
    computed = [value for value in m.values if value not in m.inputs and value.varies]
    outputs = [value for value in computed if not value.uses]
    outputs += [value for value in computed if value.uses and m.chance(0.08)]
    outputs = outputs or computed[-1:] or [m.node("Relu", m.pick())]
    read = {name for node in m.nodes for name in node.input}
    inputs = [value for value in m.inputs if value.name in read]
    weights = {name: array for name, array in m.weights.items() if name in read}
    model = model_of(m.nodes, _arrays(inputs, 0), _arrays(outputs, 0), weights, m.opset)
    return RandomGraph(seed, model, tuple(_arrays(inputs, index) for index in range(SAMPLES)), tuple(used))


def _arrays(values: list[Value], index: int) -> dict[str, Array]:
    return {value.name: value.arrays[index] for value in values}
