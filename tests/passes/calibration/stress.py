"""Changes of a network that do not alter its meaning, and that have spoiled calibrations.

Each takes an optimized TOP module and samples of its only input. Behind `restore` it computes the same in
float, but for `far_no`, which changes logits below all that decides, strictly monotonously.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Builder, Module, Value
from tpuc.interpreter import Interpreter
from tpuc_ops import top
from tpuc_optimize.channel_links import find_links, move
from tpuc_quantize.simulation.output_slots import output_parts

Array = NDArray[Any]
Outputs = Sequence[Array]


def _as_they_are(outputs: Outputs) -> list[Array]:
    return list(outputs)


@dataclass(frozen=True)
class Stressed:
    """The changed module; `restore` makes of its outputs those of the network as it was."""

    module: Module
    restore: Callable[[Outputs], list[Array]] = _as_they_are


Stress = Callable[[Module, Sequence[Array]], Stressed | None]
"""None where a network has nothing to change."""

LOOKED_AT = 8
"""Samples that tell the ranges of values."""


def seen(module: Module, value: Value, samples: Sequence[Array]) -> Array:
    """A value on some samples, along a new first axis."""
    host = Interpreter(module)
    ((name, type_),) = host.inputs.items()
    fed = [np.broadcast_to(one.reshape(-1, *type_.dims[1:]), type_.dims) for one in samples[:LOOKED_AT]]
    return np.stack([host.run({name: one}, [value.name])[value.name] for one in fed])


def _behind(module: Module, value: Value) -> Builder:
    """Puts operations just behind a value."""
    operation = value.defining
    assert operation is not None
    block = module.main.body
    following = block.operations[block.position(operation) + 1]
    return Builder(module, before=following, constant=top.Weight(), absent=top.None_())


def _exchange(new: Value, readers: Sequence[tuple[Any, int]]) -> None:
    """Let readers that were there before take another value."""
    for reader, place in readers:
        reader.set_operand(place, new)


@dataclass(frozen=True)
class Logits:
    """Scores before their function. `pivot` is below all of them that decide; with `axis` those of the first class
    along it (background) stay.
    """

    value: Value
    pivot: float
    axis: int | None = None


NEAR_HALF = -1.0
"""A logit from which on a presence may count."""


def logits_of(module: Module, samples: Sequence[Array]) -> Iterator[Logits]:
    """What a Sigmoid or a Softmax at the end reads, and outputs that are scores without their function."""
    parts = list(output_parts(module))
    for value in parts:
        producer = value.defining
        assert producer is not None
        match producer.op:
            case top.Sigmoid():
                yield Logits(producer.operands[0], NEAR_HALF)
            case top.Softmax(axis=axis):
                yield _class_logits(module, producer.operands[0], axis % value.tensor.rank, samples)
            case _ if value in module.main.outputs and value.tensor.dims[-1] == 1 and value.tensor.rank > 2:
                yield Logits(value, NEAR_HALF)
            case _ if parts == [value] and value.tensor.dims != module.main.inputs[0].tensor.dims:
                yield _class_logits(module, value, value.tensor.rank - 1, samples)
            case _:
                pass


def _class_logits(module: Module, value: Value, axis: int, samples: Sequence[Array]) -> Logits:
    dims = value.tensor.dims
    if math.prod(dims) > dims[axis] * dims[0]:
        return Logits(value, NEAR_HALF, axis)
    winners = seen(module, value, samples).max(axis + 1)
    return Logits(value, float(winners.min()) - 1.0)


FAR = -8000.0


def far_no(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """Logits far from counting go down to -8,000, by a straight line below what decides."""
    found = list(logits_of(module, samples))
    for one in found:
        lowest = float(seen(module, one.value, samples).min())
        if lowest < one.pivot:
            _stretch(module, one, (FAR - lowest) / (lowest - one.pivot))
    return Stressed(module) if found else None


def _stretch(module: Module, logits: Logits, slope: float) -> None:
    """`x + slope * min(x - pivot, 0)`."""
    value, dims = logits.value, logits.value.tensor.dims
    build, readers = _behind(module, value), list(value.uses)
    name = f"{value.name}_far"
    negated = build(top.MulConst(const_val=-1.0), [value], None, f"{name}_negated")
    below = build(top.AddConst(const_val=logits.pivot, do_relu=True), [negated], None, f"{name}_below")
    if logits.axis is None:
        far = build(top.MulConst(const_val=-slope), [below], None, f"{name}_scaled")
    else:
        factors = np.full([dims[axis] if axis == logits.axis else 1 for axis in range(len(dims))], -slope, np.float32)
        np.moveaxis(factors, logits.axis, 0)[0] = 0
        far = build(top.Mul(), [below, build.weight(f"{name}_slopes", factors)], None, f"{name}_scaled")
    _exchange(build(top.Add(), [value, far], None, name), readers)


TINY = 1e-3


def tiny_output(module: Module, samples: Sequence[Array]) -> Stressed:
    """The first output is a thousandth of what it was."""
    _scale_output(module, 0, TINY)
    return Stressed(module, lambda outputs: [outputs[0] / TINY, *outputs[1:]])


def _scale_output(module: Module, place: int, factor: float) -> None:
    value = module.main.outputs[place]
    scaled = _behind(module, value)(top.MulConst(const_val=factor), [value], None, f"{value.name}_times_{factor:g}")
    module.main.terminator.set_operand(place, scaled)
    module.main.update_type()


HUGE = 1e5


def dead_branch(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """A value gets a sum with what is huge until a relu makes zeros of it."""
    value = _inner(module)
    if value is None:
        return None
    largest = float(np.abs(seen(module, value, samples)).max())
    build, readers = _behind(module, value), list(value.uses)
    huge = build(top.MulConst(const_val=HUGE), [value], None, f"{value.name}_huge")
    zeros = build(top.AddConst(const_val=-1000 * HUGE * largest, do_relu=True), [huge], None, f"{value.name}_dead")
    _exchange(build(top.Add(), [value, zeros], None, f"{value.name}_alive"), readers)
    return Stressed(module)


def huge_output(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """One more output that nobody reads, with huge values."""
    value = _inner(module)
    if value is None:
        return None
    huge = _behind(module, value)(top.MulConst(const_val=HUGE), [value], None, f"{value.name}_huge")
    end = module.main.terminator
    end.set_operands((*end.operands, huge))
    module.main.update_type()
    return Stressed(module, lambda outputs: list(outputs[:-1]))


def _inner(module: Module) -> Value | None:
    """The first product that is no output."""
    products = (one.result for one in module.main.operations if isinstance(one.op, (top.Conv, top.MatMul)))
    return next((value for value in products if value not in module.main.outputs), None)


SPREAD = 10.0


def unlike_channels(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """Channels of layers are up to ten times larger or smaller; what reads them undoes it."""
    random, links = np.random.default_rng(5), list(find_links(module))
    for link in links:
        move(module, link, SPREAD ** random.uniform(-1, 1, link.channels))
    return Stressed(module) if links else None


UNLIKE = 300.0


def joined_outputs(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """All outputs in one tensor, the first of them 300 times as large as the others."""
    outputs = module.main.outputs
    if len(outputs) < 2:
        return None
    sizes = [float(np.abs(seen(module, value, samples)).max()) for value in outputs]
    factor = UNLIKE * max(sizes[1:]) / sizes[0]
    _scale_output(module, 0, factor)
    outputs, end = module.main.outputs, module.main.terminator
    build = Builder(module, before=end, constant=top.Weight(), absent=top.None_())
    shapes = [value.tensor.dims for value in outputs]
    rows = [(shape[0], math.prod(shape[1:])) for shape in shapes]
    flat = [
        build(top.Reshape(shape=row), [value], None, f"{value.name}_flat")
        for row, value in zip(rows, outputs, strict=True)
    ]
    end.set_operands((build(top.Concat(axis=1), flat, None, "joined"),))
    module.main.update_type()
    ends = np.cumsum([size for _, size in rows])[:-1]

    def restore(joined: Outputs) -> list[Array]:
        parts = np.split(joined[0], ends, axis=1)
        shaped = [part.reshape(-1, *shape[1:]) for part, shape in zip(parts, shapes, strict=True)]
        return [shaped[0] / factor, *shaped[1:]]

    return Stressed(module, restore)


BIAS = 1e4


def large_biases(module: Module, samples: Sequence[Array]) -> Stressed | None:
    """A layer gets one more channel, a bias far above its activations, to which the next layer does not listen."""
    value = _inner(module)
    if value is None:
        return None
    channels, rank = value.tensor.dims[1], value.tensor.rank
    largest = float(np.abs(seen(module, value, samples)).max())
    build, readers = _behind(module, value), list(value.uses)
    widening, bias = np.eye(channels + 1, channels, dtype=np.float32), np.zeros(channels + 1, np.float32)
    bias[-1] = BIAS * largest
    name = f"{value.name}_biased"
    wide = _product(build, value, widening, bias, rank, name)
    narrow = _product(build, wide, widening.T, np.zeros(channels, np.float32), rank, f"{name}_narrow")
    _exchange(narrow, readers)
    return Stressed(module)


def _product(build: Builder, value: Value, matrix: Array, bias: Array, rank: int, name: str) -> Value:
    """`matrix` by the channels of a value of rank 2 or 4."""
    if rank == 2:
        operands = [value, build.weight(f"{name}_w", np.ascontiguousarray(matrix.T)), build.weight(f"{name}_b", bias)]
        return build(top.MatMul(), operands, None, name)
    weight = build.weight(f"{name}_w", np.ascontiguousarray(matrix[:, :, None, None]))
    return build(top.Conv(kernel_shape=(1, 1)), [value, weight, build.weight(f"{name}_b", bias)], None, name)


VARIANTS: Mapping[str, Stress] = {
    "plain": lambda module, _: Stressed(module),
    "far-no": far_no,
    "tiny-output": tiny_output,
    "dead-branch": dead_branch,
    "huge-output": huge_output,
    "unlike-channels": unlike_channels,
    "joined-outputs": joined_outputs,
    "large-biases": large_biases,
}
