"""Groups of a network's outputs, each with the positions of its elements in the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import Constant, Module, Operation, ShapeOnly, Value
from tpuc.api.evaluation import Array
from tpuc_ops import top

from tpuc_quantize.simulation.output_slots import is_scaling


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a network output: the value `name`, with the elements of the value `source`, which `producer` computes.

    `places`: for each element of the part, its index in `output`; `sources`: its index in `source`. `factor`: the
    network multiplies the part by this before it returns it.
    """

    output: str
    name: str
    source: str
    places: Array
    sources: Array
    producer: Operation
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the part, with the batch."""
        return self.places.shape

    def of(self, outputs: Mapping[str, Array]) -> Array:
        """The part in the outputs of a network, in whatever shape they are returned."""
        found = outputs[self.output].reshape(-1)[self.places]
        return found if self.factor == 1.0 else found / found.dtype.type(self.factor)

    def some(self, axis: int, chosen: Array) -> Part:
        """The part at some indices of an axis."""
        places, sources = (np.compress(chosen, one, axis) for one in (self.places, self.sources))
        return replace(self, places=places, sources=sources)


def parts_of(module: Module) -> Iterator[Part]:
    """The parts of all outputs: concatenations are split into their operands, and multiples replaced by what they are
    multiples of; each value once, without constants.

    A part has the shape in which it enters a concatenation, or that of the output; the result of a Softmax has its own.
    """
    seen: set[str] = set()
    for output in module.main.outputs:
        places = np.arange(output.tensor.size).reshape(output.tensor.dims)
        for part in _parts(output, output.name, places, 1.0):
            if part.name not in seen:
                seen.add(part.name)
                yield part


def _parts(value: Value, output: str, places: Array, factor: float) -> Iterator[Part]:
    name, shape = value.name, places.shape
    back = np.arange(places.size).reshape(shape)
    while (producer := value.defining) is not None:
        if isinstance(producer.op, top.Permute):
            back = back.transpose(np.argsort(producer.op.order))
        elif isinstance(producer.op, top.MulConst) and is_scaling(producer.op):
            factor *= producer.op.const_val
        elif not isinstance(producer.op, ShapeOnly):
            break
        value = producer.operands[0]
        back = back.reshape(value.tensor.dims)
    if producer is None or isinstance(producer.op, Constant):
        return
    # `back` says for each element of the producer's result which one of this value it is.
    moved = places.reshape(-1)[back]
    if isinstance(producer.op, top.Concat):
        dims = [operand.tensor.dims[producer.op.axis] for operand in producer.operands]
        parts = np.split(moved, np.cumsum(dims)[:-1], producer.op.axis)
        for operand, some in zip(producer.operands, parts, strict=True):
            yield from _parts(operand, output, some, factor)
    elif isinstance(producer.op, top.Softmax):
        own = np.arange(moved.size).reshape(moved.shape)
        yield Part(output, value.name, value.name, moved, own, producer, factor)
    else:
        sources = np.empty(back.size, np.intp)
        sources[back.reshape(-1)] = np.arange(back.size)
        yield Part(output, name, value.name, places, sources.reshape(shape), producer, factor)
