"""TOP modules for tests of passes: built by hand, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from tpuc.api import F32, Block, Function, FunctionType, Module, Op, Operation, PassContext, Return, TensorType, Value
from tpuc.interpreter import Interpreter
from tpuc.ir.builder import Builder
from tpuc.registry import Registry
from tpuc_ops import top

Array = NDArray[Any]
Step = Callable[["Network", Value, st.DataObject], Value]

CONTEXT = PassContext(Registry(offers=[]))


class Network:
    """A module under construction; values are called v0, v1, ... and weights w0, w1, ..."""

    def __init__(self, *shape: int) -> None:
        self.module = Module("network")
        self.body = Block([TensorType(shape, F32)])
        self.build = Builder(self.module, self.body, constant=top.Weight(), absent=top.None_())
        self.none = self.build.none()
        self._random = np.random.default_rng(0)
        self._count = 0
        self.input = self.op(top.Input(), self.body.arguments[0])

    def op(self, op: Op, *operands: Value) -> Value:
        """Append an op."""
        self._count += 1
        return self.build(op, operands, None, f"v{self._count - 1}")

    def weight(self, *shape: int, low: float = -1.0) -> Value:
        """A random constant."""
        self._count += 1
        array = self._random.uniform(low, 1, shape).astype(np.float32)
        return self.build.weight(f"w{self._count - 1}", array)

    def finish(self, *outputs: Value) -> Module:
        """The verified module that returns `outputs`."""
        self.body.append(Operation(Return(), outputs))
        if not self.none.uses and self.none.defining:
            self.none.defining.erase()
        function = Function("main", FunctionType((), ()), self.body)
        function.update_type()
        self.module.functions.append(function)
        self.module.verify()
        return self.module


def ops(module: Module) -> list[str]:
    """The computing ops in order, without dialect."""
    passive = {"top.Input", "top.None", "top.Weight", "func.return"}
    return [op.op.name.removeprefix("top.") for op in module.walk() if op.op.name not in passive]


@dataclass(frozen=True)
class Run:
    """What a module computes: its outputs, and the largest number on the way."""

    outputs: dict[str, Array]
    largest: float


def run(module: Module, seed: int = 0) -> Run:
    """The module on random inputs."""
    random = np.random.default_rng(seed)
    interpreter = Interpreter(module)
    inputs = {name: random.uniform(-1, 1, type.dims).astype(np.float32) for name, type in interpreter.inputs.items()}
    values = interpreter.run(inputs, keep="all")
    largest = max(float(np.abs(value).max()) for value in values.values())
    return Run({name: values[name] for name in interpreter.output_names}, largest)


def assert_equal(after: Module, before: Run) -> None:
    """The module still computes the same, within 1e-5 of the largest number on the way.

    Float32 sums in another order differ by the rounding of what is summed, which may be larger than the result.
    """
    after.verify()
    outputs = run(after).outputs
    assert list(outputs) == list(before.outputs)
    for name, expected in before.outputs.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=1e-5 * max(before.largest, 1e-3))


def _channels(value: Value) -> int:
    return value.tensor.dims[1]


def _conv(net: Network, x: Value, data: st.DataObject) -> Value:
    group = 2 if _channels(x) % 2 == 0 and data.draw(st.booleans()) else 1
    bias = net.weight(4) if data.draw(st.booleans()) else net.none
    window: dict[str, Any] = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    if min(x.tensor.dims[2:]) < 2:
        window = {"kernel_shape": (1, 1)}
    filters = net.weight(4, _channels(x) // group, *window["kernel_shape"])
    return net.op(top.Conv(group=group, **window), x, filters, bias)


def _constant(net: Network, x: Value, data: st.DataObject) -> Value:
    dims = x.tensor.dims
    return net.weight(
        *data.draw(st.sampled_from([dims, (1, dims[1], 1, 1), (dims[1], 1, 1), (1,), (1, 1, 1, dims[3])]))
    )


def _commutative(op: Op) -> Step:
    def step(net: Network, x: Value, data: st.DataObject) -> Value:
        operands = [x, _constant(net, x, data)]
        return net.op(op, *(operands[::-1] if data.draw(st.booleans()) else operands))

    return step


def _sub(net: Network, x: Value, data: st.DataObject) -> Value:
    operands = [x, _constant(net, x, data)]
    reverse = data.draw(st.booleans())
    return net.op(top.Sub(is_reverse=reverse), *(operands[::-1] if data.draw(st.booleans()) else operands))


def _scale(net: Network, x: Value, data: st.DataObject) -> Value:
    bias = net.weight(1, _channels(x), 1, 1) if data.draw(st.booleans()) else net.none
    return net.op(top.Scale(do_relu=data.draw(st.booleans())), x, net.weight(1, _channels(x), 1, 1), bias)


def _batch_norm(net: Network, x: Value, data: st.DataObject) -> Value:
    c = _channels(x)
    affine = [net.weight(c) if data.draw(st.booleans()) else net.none for _ in "gb"]
    return net.op(top.BatchNorm(epsilon=1e-3), x, net.weight(c), net.weight(c, low=0.1), *affine)


def _pool(net: Network, x: Value, data: st.DataObject) -> Value:
    if min(x.tensor.dims[2:]) < 2:
        return x
    return net.op(data.draw(st.sampled_from([top.MaxPool, top.AvgPool]))(kernel_shape=(2, 2)), x)


def _permute(net: Network, x: Value, data: st.DataObject) -> Value:
    return net.op(top.Permute(order=tuple(data.draw(st.permutations(range(4))))), x)


def _reshape(net: Network, x: Value, data: st.DataObject) -> Value:
    n, c, h, w = x.tensor.dims
    shape = data.draw(st.sampled_from([(n, c, w, h), (n, h, c, w), (n, c, h * w, 1), (n, c, h, w)]))
    return net.op(top.Reshape(shape=shape), x)


def _matmul(net: Network, x: Value, data: st.DataObject) -> Value:
    n, _, h, w = x.tensor.dims
    flat = net.op(top.Flatten(start_dim=1), x)
    depth = flat.tensor.dims[1]
    transposed = data.draw(st.booleans())
    matrix = net.weight(*((h * w, depth) if transposed else (depth, h * w)))
    bias = net.weight(h * w) if data.draw(st.booleans()) else net.none
    product = net.op(top.MatMul(right_transpose=transposed), flat, matrix, bias)
    if data.draw(st.booleans()):
        product = net.op(data.draw(st.sampled_from([top.Add(), top.Mul(), top.Sub()])), product, net.weight(1, h * w))
    if data.draw(st.booleans()):
        product = net.op(top.Scale(), product, net.weight(1, h * w))
    return net.op(top.Reshape(shape=(n, 1, h, w)), product)


def _pad(net: Network, x: Value, data: st.DataObject) -> Value:
    paddings = data.draw(
        st.sampled_from([(0, 0, 1, 0, 0, 0, 2, 1), (0, 1, 0, 0, 0, 0, 1, 0), (0, 0, -1, 0, 0, 0, 1, 0)])
    )
    value = data.draw(st.sampled_from([0.0, 0.0, 0.5]))
    return net.op(top.Pad(paddings=paddings, mode="constant", val=value), x) if x.tensor.dims[2] > 1 else x


def _silu(net: Network, x: Value, data: st.DataObject) -> Value:
    operands = [x, net.op(top.Sigmoid(), x)]
    return net.op(top.Mul(), *(operands[::-1] if data.draw(st.booleans()) else operands))


def _reduce(net: Network, x: Value, data: st.DataObject) -> Value:
    mode = data.draw(st.sampled_from(["ReduceMean", "ReduceMax", "ReduceSum"]))
    keepdims = data.draw(st.booleans())
    reduced = net.op(top.Reduce(axes=(2, -1), mode=mode, keepdims=keepdims), x)
    return reduced if keepdims else net.op(top.Reshape(shape=(*x.tensor.dims[:2], 1, 1)), reduced)


def _double(net: Network, x: Value, _: st.DataObject) -> Value:
    return net.op(top.Add(), x, x)


STEPS: Sequence[Step] = (
    _conv,
    _conv,
    _scale,
    _batch_norm,
    _batch_norm,
    _commutative(top.Add()),
    _commutative(top.Add(coeff=(0.5, -2.0))),
    _commutative(top.Mul()),
    _sub,
    _pool,
    _permute,
    _reshape,
    _matmul,
    lambda net, x, data: net.op(top.Relu(relu_limit=data.draw(st.sampled_from([-1.0, 0.5]))), x),
    lambda net, x, data: net.op(top.Clip(min=data.draw(st.sampled_from([0.0, -0.5])), max=0.5), x),
    lambda net, x, data: net.op(top.AddConst(const_val=0.25, do_relu=data.draw(st.booleans())), x),
    _pad,
    _silu,
    _reduce,
    lambda net, x, data: net.op(top.MulConst(const_val=data.draw(st.sampled_from([-1.5, 2.0]))), x),
    lambda net, x, data: net.op(top.SubConst(const_val=0.75, is_reverse=data.draw(st.booleans())), x),
    _double,
)


def draw_network(data: st.DataObject, steps: int = 12) -> Module:
    """A chain of random ops in which values are used again now and then, with one to three outputs."""
    net = Network(data.draw(st.sampled_from([1, 2])), 3, 4, 5)
    values = [net.input]
    for _ in range(data.draw(st.integers(1, steps))):
        step = data.draw(st.sampled_from(STEPS))
        source = values[-1] if data.draw(st.integers(0, 5)) else data.draw(st.sampled_from(values))
        values.append(step(net, source, data))
    last = values[-1] if values[-1] is not net.input else net.op(top.Relu(), net.input)
    others = [value for value in dict.fromkeys(values[1:]) if value is not last]
    return net.finish(
        last, *data.draw(st.lists(st.sampled_from(others), max_size=2, unique=True) if others else st.just([]))
    )
