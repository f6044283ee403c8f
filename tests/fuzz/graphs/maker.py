"""A random ONNX graph under construction: every node is run on samples as it is added, so shapes and values are known.

ONNX Runtime runs them, which neither the front end nor the chips had a part in. What it refuses, or what gives values
that no comparison could use (not finite, far too large), is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Item = TypeVar("Item")

SAMPLES = 4
"""Sets of inputs. Integer modes are calibrated on all of them, and judged on the first."""
MOST_ELEMENTS = 6000
MOST_MAGNITUDE = 500.0
"""Of floats: beyond, products of products leave what 16-bit floats hold."""
EXTENTS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 33, 65)
IR_VERSION = 8
OF_SHAPES = ("Shape", "Size", "EyeLike", "ConstantOfShape")
"""Their results do not depend on values; a network's outputs have to."""
REFUSALS = tuple(
    getattr(onnxruntime.capi.onnxruntime_pybind11_state, name)
    for name in ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
)


class Rejected(Exception):
    """The node cannot be here; another one is tried."""


@dataclass(eq=False)
class Value:
    """A tensor of the graph and what it is on each sample."""

    name: str
    arrays: tuple[Array, ...]
    varies: bool
    uses: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arrays[0].shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.arrays[0].size

    @property
    def kind(self) -> str:
        """f, i or b, as numpy has it."""
        return "i" if self.arrays[0].dtype.kind in "iu" else self.arrays[0].dtype.kind

    @property
    def low(self) -> float:
        return min(float(array.min()) for array in self.arrays)

    @property
    def high(self) -> float:
        return max(float(array.max()) for array in self.arrays)


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Silent, of one thread, and without fusions of its own."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@dataclass
class Maker:
    """Adds nodes; `random` decides everything."""

    random: np.random.Generator
    opset: int
    values: list[Value] = field(default_factory=list[Value])
    inputs: list[Value] = field(default_factory=list[Value])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    counter: int = 0

    # Choices

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def whole(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        """With few digits, as people write attributes."""
        return round(float(self.random.uniform(low, high)), 3)

    def choose(self, items: Sequence[Item]) -> Item:
        return items[int(self.random.integers(len(items)))]

    def some(self, items: Sequence[Item], least: int = 1) -> list[Item]:
        """At least `least` of them, in their order."""
        count = self.whole(min(least, len(items)), len(items))
        return [items[index] for index in sorted(self.random.permutation(len(items))[:count].tolist())]

    def dims(self, rank: int) -> tuple[int, ...]:
        """Extents whose product stays small; the first is a batch."""
        while True:
            dims = [self.choose(EXTENTS) for _ in range(rank)]
            if rank > 1:
                dims[0] = self.choose((1, 1, 1, 2, 3))
            if int(np.prod(dims)) <= MOST_ELEMENTS // 2:
                return tuple(dims)

    # Values

    def name(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def input(self, shape: Sequence[int]) -> Value:
        """Of floats around 0, or above it like pixels behind their scale."""
        spread, positive = self.choose((0.5, 1.0, 2.0)), self.chance(0.2)
        arrays = [np.asarray(self.random.normal(0, spread, shape), np.float32) for _ in range(SAMPLES)]
        return self.added_input(tuple(np.abs(array) if positive else array for array in arrays))

    def added_input(self, arrays: tuple[Array, ...]) -> Value:
        value = Value(self.name("x"), tuple(np.asarray(array) for array in arrays), varies=True)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: Any = np.float32) -> Value:
        """An initializer, or now and then the result of a Constant node."""
        array = np.asarray(array, dtype)
        name = self.name("c")
        if self.chance(0.1):
            tensor = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.weights[name] = array
        return Value(name, (array,) * SAMPLES, varies=False)

    def integers(self, *numbers: int) -> Value:
        return self.constant(numbers, np.int64)

    def normal(self, *shape: int, spread: float = 1.0) -> Value:
        return self.constant(self.random.normal(0, spread, shape))

    def between(self, low: float, high: float, *shape: int) -> Value:
        return self.constant(self.random.uniform(low, high, shape))

    def pick(self, kind: str = "f", where: Callable[[Value], bool] = lambda _: True) -> Value:
        """One that is there; those that nothing uses yet come first most of the time."""
        found = [value for value in self.values if value.kind == kind and where(value)]
        if not found and kind != "f" and where(made := self._made(kind)):
            return made
        if not found:
            raise Rejected(f"no value of kind {kind} fits")
        unused = [value for value in found if not value.uses]
        return self.choose(unused if unused and self.chance(0.6) else found)

    def _made(self, kind: str) -> Value:
        """Whole numbers or truth values of some float tensor, none of them next to a threshold on any sample."""
        x = self.pick(where=lambda value: value.size < MOST_ELEMENTS // 2)
        if kind == "i":
            to = self.choose((TensorProto.INT64, TensorProto.INT32))
            return self.node("Cast", self.node("Mul", x, self.constant(2.0)), to=to)
        numbers = np.unique(np.concatenate([array.ravel() for array in x.arrays]))
        if numbers.size < 2:
            raise Rejected("one number only")
        widest = int(np.argmax(np.diff(numbers)))
        return self.node("Greater", x, self.constant((numbers[widest] + numbers[widest + 1]) / 2))

    def ranked(self, *ranks: int) -> Value:
        """A float tensor of one of the ranks; another one is reshaped where there is none."""
        fitting = [value for value in self.values if value.kind == "f" and value.rank in ranks]
        if fitting and self.chance(0.85):
            return self.pick(where=lambda value: value.rank in ranks)
        if self.chance(0.3):
            return self.input(self.dims(self.choose(ranks)))
        return self.reshaped(self.pick(), self.choose(ranks))

    def reshaped(self, value: Value, rank: int) -> Value:
        """With its elements spread over `rank` extents."""
        dims = [1] * rank
        for prime in _primes(value.size):
            dims[self.whole(0, rank - 1)] *= prime
        return self.node("Reshape", value, self.integers(*dims))

    def inside(self, value: Value, low: float, high: float) -> Value:
        """The value, or a function of it between the bounds."""
        if value.low >= low and value.high <= high:
            return value
        unit = self.node("Sigmoid", value)
        scaled = self.node("Mul", unit, self.constant(round(high - low, 4)))
        return self.node("Add", scaled, self.constant(round(low, 4))) if low else scaled

    def partner(self, value: Value, low: float = -3.0, high: float = 3.0) -> Value:
        """A float operand that broadcasts with the value: another one, a part of itself, a constant."""
        if self.chance(0.4):
            fitting = [
                other
                for other in self.values
                if other.kind == "f" and other.low >= low and other.high <= high and _broadcasts(value, other)
            ]
            if fitting:
                return self.choose(fitting)
        if self.chance(0.2) and value.rank:
            axes = self.some(range(value.rank))
            mean = self.reduced("ReduceMean", value, axes, keepdims=1)
            return self.inside(mean, low, high)
        shape = [1 if self.chance(0.4) else extent for extent in value.shape]
        if self.chance(0.3):
            shape = shape[self.whole(0, len(shape)) :]
        if self.chance(0.1) and value.rank < 4:
            shape = [self.whole(1, 3), *([1] * (value.rank - len(shape))), *shape]
        if self.chance(0.15) and low < -1:
            return self.inside(self.input(shape), low, high)
        return self.between(low, high, *shape)

    def reduced(self, op_type: str, value: Value, axes: Sequence[int] | None, **attributes: Any) -> Value:
        """A reduction in the form of the opset: axes were attributes, and became an operand."""
        since = 13 if op_type == "ReduceSum" else 18
        if axes is None:
            return self.node(op_type, value, **attributes)
        if self.opset >= since:
            return self.node(op_type, value, self.integers(*axes), **attributes)
        return self.node(op_type, value, axes=list(axes), **attributes)

    # Nodes

    def node(self, op_type: str, *operands: Value | None, **attributes: Any) -> Value:
        """A node of one result."""
        return self.nodes_of(op_type, operands, 1, **attributes)[0]

    def nodes_of(self, op_type: str, operands: Sequence[Value | None], count: int, **attributes: Any) -> list[Value]:
        """A node with all its results; raises Rejected where ONNX Runtime or the bounds of values do not allow it."""
        given = [operand for operand in operands if operand is not None]
        names = [self.name("v") for _ in range(count)]
        reads = [operand.name if operand is not None else "" for operand in operands]
        node = helper.make_node(op_type, reads, names, name=self.name(op_type.lower()), **attributes)
        results = [
            Value(name, arrays, op_type not in OF_SHAPES and any(operand.varies for operand in given))
            for name, arrays in zip(names, self._run(node, given), strict=True)
        ]
        for result in results:
            _check(result)
        self.nodes.append(node)
        for operand in given:
            operand.uses += 1
        self.values += results
        return results

    def _run(self, node: onnx.NodeProto, operands: Sequence[Value]) -> list[tuple[Array, ...]]:
        unique = {operand.name: operand for operand in operands}
        varying = [operand for operand in unique.values() if operand.varies]
        weights = {name: operand.arrays[0] for name, operand in unique.items() if not operand.varies}
        model = model_of(
            [node], {value.name: value.arrays[0] for value in varying}, dict.fromkeys(node.output), weights, self.opset
        )
        try:
            session = session_of(model)
            rows = [
                session.run(None, {value.name: value.arrays[index] for value in varying}) for index in range(SAMPLES)
            ]
        except REFUSALS as error:
            raise Rejected(f"{node.op_type}: {error}") from error
        return [tuple(np.asarray(array) for array in arrays) for arrays in zip(*rows, strict=True)]

    def attempt(self, make: Callable[[], None]) -> str | None:
        """Run `make`; where it is rejected, take everything back and give the reason."""
        before = len(self.nodes), len(self.values), len(self.inputs), dict(self.weights)
        uses = [value.uses for value in self.values]
        try:
            make()
        except Rejected as error:
            del self.nodes[before[0] :], self.values[before[1] :], self.inputs[before[2] :]
            self.weights = before[3]
            for value, count in zip(self.values, uses, strict=True):
                value.uses = count
            return str(error)
        return None


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array | None],
    weights: Mapping[str, Array],
    opset: int,
) -> onnx.ModelProto:
    """A file's content."""
    graph = helper.make_graph(
        list(nodes),
        "random",
        [_typed(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) if array is None else _typed(name, array) for name, array in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _check(value: Value) -> None:
    if not value.arrays[0].size or value.size > MOST_ELEMENTS or value.rank > 6:
        raise Rejected(f"{value.size} elements in {value.rank} dimensions")
    if any(array.shape != value.shape for array in value.arrays):
        raise Rejected("a shape that depends on values")
    if value.kind == "f" and not all(np.abs(array).max() <= MOST_MAGNITUDE for array in value.arrays):
        raise Rejected("values out of bounds")
    if value.kind not in "fib":
        raise Rejected("neither numbers nor truth values")


def _broadcasts(value: Value, other: Value) -> bool:
    try:
        shape = np.broadcast_shapes(value.shape, other.shape)
    except ValueError:
        return False
    return int(np.prod(shape)) <= MOST_ELEMENTS


def _primes(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found
