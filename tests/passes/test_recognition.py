"""Activations, normalizations and softmax that networks spell out become the ops of that name, with the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tpuc.api import Module, Op, Value
from tpuc.interpreter import Interpreter
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import CONTEXT, Network
from tests.passes.test_canonicalize import PASS, canonicalized

Spell = Callable[[Network, Value], Value]


def chain(net: Network, x: Value, *ops: Op) -> Value:
    for op in ops:
        x = net.op(op, x)
    return x


def times(number: float) -> top.MulConst:
    return top.MulConst(const_val=number)


def plus(number: float) -> top.AddConst:
    return top.AddConst(const_val=number)


def relu6(net: Network, x: Value) -> Value:
    return chain(net, x, plus(3.0), top.Relu(relu_limit=6.0))


def cube(net: Network, x: Value) -> Value:
    return net.op(top.Mul(), net.op(top.Mul(), x, x), x)


def tanh_gate(net: Network, x: Value, third: Value) -> Value:
    angle = net.op(top.Add(), x, net.op(times(0.044715), third))
    return chain(net, angle, times(0.7978846), top.Tanh(), plus(1.0))


def erf_gate(net: Network, x: Value) -> Value:
    return chain(net, x, times(0.70710677), top.Erf(), plus(1.0))


GATES: dict[str, tuple[Spell, list[str]]] = {
    "silu": (lambda n, x: n.op(top.Mul(), x, n.op(top.Sigmoid(), x)), ["SiLU"]),
    "silu_with_a_one": (lambda n, x: n.op(top.Mul(), x, chain(n, x, times(1.0), top.Sigmoid())), ["SiLU"]),
    "silu_halved": (lambda n, x: n.op(times(0.5), n.op(top.Mul(), x, n.op(top.Sigmoid(), x))), ["SiLU", "MulConst"]),
    "hard_swish_last": (lambda n, x: n.op(times(1 / 6), n.op(top.Mul(), x, relu6(n, x))), ["HardSwish"]),
    "hard_swish_first": (lambda n, x: n.op(top.Mul(), n.op(times(0.166667), relu6(n, x)), x), ["HardSwish"]),
    "hard_swish_x": (lambda n, x: n.op(top.Mul(), relu6(n, x), n.op(times(1 / 6), x)), ["HardSwish"]),
    "hard_swish_clip": (
        lambda n, x: n.op(times(1 / 6), n.op(top.Mul(), x, chain(n, x, plus(3.0), top.Clip(min=0.0, max=6.0)))),
        ["HardSwish"],
    ),
    "hard_swish_sixths": (
        lambda n, x: n.op(top.Mul(), x, chain(n, x, times(1 / 6), plus(0.5), top.Clip(min=0.0, max=1.0))),
        ["HardSwish"],
    ),
    "hard_swish_sigmoid": (
        lambda n, x: n.op(top.Mul(), x, n.op(top.HardSigmoid(alpha=1 / 6, beta=0.5), x)),
        ["HardSwish"],
    ),
    "hard_swish_times_six": (lambda n, x: n.op(top.Mul(), x, relu6(n, x)), ["HardSwish", "MulConst"]),
    "hard_sigmoid": (lambda n, x: n.op(times(1 / 6), relu6(n, x)), ["HardSigmoid"]),
    "gelu": (lambda n, x: n.op(times(0.5), n.op(top.Mul(), x, erf_gate(n, x))), ["GELU"]),
    "gelu_half_first": (lambda n, x: n.op(top.Mul(), n.op(times(0.5), x), erf_gate(n, x)), ["GELU"]),
    "gelu_half_gate": (lambda n, x: n.op(top.Mul(), n.op(times(0.5), erf_gate(n, x)), x), ["GELU"]),
    "tanh_gelu": (
        lambda n, x: n.op(times(0.5), n.op(top.Mul(), x, tanh_gate(n, x, cube(n, x)))),
        ["GELU"],
    ),
    "tanh_gelu_pow": (
        lambda n, x: n.op(top.Mul(), x, n.op(times(0.5), tanh_gate(n, x, n.op(top.Pow(exponent=3.0), x)))),
        ["GELU"],
    ),
    # What looks alike and is something else.
    "another_operand": (
        lambda n, x: n.op(top.Mul(), n.op(top.Tanh(), x), n.op(top.Sigmoid(), x)),
        ["Tanh", "Sigmoid", "Mul"],
    ),
    "another_slope": (
        lambda n, x: n.op(top.Mul(), x, n.op(top.HardSigmoid(alpha=0.2, beta=0.5), x)),
        ["HardSigmoid", "Mul"],
    ),
    "another_shift": (
        lambda n, x: n.op(times(1 / 6), n.op(top.Mul(), x, chain(n, x, plus(2.5), top.Relu(relu_limit=6.0)))),
        ["AddConst", "Mul", "MulConst"],
    ),
    "another_limit": (
        lambda n, x: n.op(times(1 / 6), n.op(top.Mul(), x, chain(n, x, plus(3.0), top.Relu(relu_limit=5.0)))),
        ["AddConst", "Mul", "MulConst"],
    ),
    "another_width": (
        lambda n, x: n.op(times(0.5), n.op(top.Mul(), x, chain(n, x, times(0.7), top.Erf(), plus(1.0)))),
        ["MulConst", "Erf", "AddConst", "Mul", "MulConst"],
    ),
    "another_square": (
        lambda n, x: n.op(top.Mul(), n.op(times(0.5), x), tanh_gate(n, x, n.op(top.Mul(), x, x))),
        ["MulConst", "Mul", "MulConst", "Add", "MulConst", "Tanh", "AddConst", "Mul"],
    ),
}


@each("name", GATES)
def test_activations(name: str) -> None:
    spell, expected = GATES[name]
    net = Network(1, 3, 5, 7)
    assert canonicalized(net.finish(spell(net, net.op(times(4.0), net.input))))[1:] == expected


def test_a_gate_that_others_read_stays_for_them() -> None:
    net = Network(1, 3, 5)
    gate = net.op(top.Sigmoid(), net.input)
    module = net.finish(net.op(top.Mul(), net.input, gate), net.op(top.Tanh(), gate))
    assert sorted(canonicalized(module)) == ["SiLU", "Sigmoid", "Tanh"]


def test_the_tanh_of_a_gelu_is_kept() -> None:
    net = Network(1, 4)
    module = net.finish(
        net.op(top.Mul(), net.op(times(0.5), net.input), tanh_gate(net, net.input, cube(net, net.input)))
    )
    canonicalized(module)
    assert [op.op for op in module.main.operations if isinstance(op.op, top.GELU)] == [top.GELU(approx_mode="tanh")]


# Normalizations

SHAPE = (2, 5, 12)


def mean(axes: tuple[int, ...], keepdims: bool = True) -> top.Reduce:
    return top.Reduce(axes=axes, mode="ReduceMean", keepdims=keepdims)


def plain_norm(net: Network, x: Value, axes: tuple[int, ...] = (-1,), square: str = "pow") -> Value:
    centered = net.op(top.Sub(), x, net.op(mean(axes), x))
    squares = net.op(top.Pow(exponent=2.0), centered) if square == "pow" else net.op(top.Mul(), centered, centered)
    return net.op(top.Div(), centered, chain(net, squares, mean(axes), plus(1e-5), top.Sqrt()))


def torch_norm(net: Network, x: Value) -> Value:
    """As older exporters of torch do: the difference is computed twice."""
    both = [net.op(top.Sub(), x, net.op(mean((-1,)), x)) for _ in range(2)]
    root = chain(net, both[1], top.Pow(exponent=2.0), mean((-1,)), plus(1e-5), top.Sqrt())
    return net.op(top.Div(), both[0], root)


def fast_norm(net: Network, x: Value, axis: int, weight: Value, bias: Value) -> Value:
    """As flax does: sums of values and of squares without the axis, a weight in the inverse root."""
    kept = tuple(1 if index == axis else size for index, size in enumerate(x.tensor.dims))
    count = x.tensor.dims[axis]
    total = top.Reduce(axes=(axis,), mode="ReduceSum", keepdims=False)
    average = chain(net, x, total, times(1 / count))
    squares = chain(net, net.op(top.Mul(), x, x), total, times(1 / count))
    variance = net.op(top.Sub(), squares, net.op(top.Mul(), average, average))
    inverse = chain(
        net, variance, top.MaxConst(const_val=0.0), top.Reshape(shape=kept), plus(1e-6), top.Sqrt(), top.Reciprocal()
    )
    centered = net.op(top.Sub(), x, net.op(top.Reshape(shape=kept), average))
    return net.op(top.Add(), net.op(top.Mul(), centered, net.op(top.Mul(), inverse, weight)), bias)


def affine(net: Network, x: Value, *shape: int) -> Value:
    return net.op(top.Add(), net.op(top.Mul(), x, net.weight(*shape)), net.weight(*shape))


def root_mean_square(net: Network, x: Value, inverse: Op | None) -> Value:
    offset = chain(net, x, top.Pow(exponent=2.0), mean((-1,)), plus(1e-6))
    if inverse is None:
        return net.op(top.Div(), x, net.op(top.Sqrt(), offset))
    return net.op(top.Mul(), x, net.op(inverse, offset))


def softmax(net: Network, x: Value, axis: int, less: bool, keepdims: bool = True) -> Value:
    kept = tuple(1 if index == axis else size for index, size in enumerate(x.tensor.dims))
    shape = () if keepdims else (top.Reshape(shape=kept),)
    if less:
        upper = chain(
            net, x, top.Reduce(axes=(axis,), mode="ReduceMax", keepdims=keepdims), top.MaxConst(const_val=-3e38), *shape
        )
        x = net.op(top.Sub(), x, upper)
    powers = net.op(top.Exp(), x)
    return net.op(
        top.Div(), powers, chain(net, powers, top.Reduce(axes=(axis,), mode="ReduceSum", keepdims=keepdims), *shape)
    )


NORMS: dict[str, tuple[Spell, list[str]]] = {
    "layer": (plain_norm, ["LayerNorm"]),
    "layer_product": (lambda n, x: plain_norm(n, x, square="mul"), ["LayerNorm"]),
    "layer_twice": (torch_norm, ["LayerNorm"]),
    "layer_affine": (lambda n, x: affine(n, plain_norm(n, x), 12), ["LayerNorm"]),
    "layer_of_two": (lambda n, x: affine(n, plain_norm(n, x, (1, 2)), 5, 12), ["LayerNorm"]),
    "layer_in_the_middle": (
        lambda n, x: affine(n, plain_norm(n, x, (1,)), 5, 1),
        ["Permute", "LayerNorm", "Permute"],
    ),
    "layer_other_weight": (
        lambda n, x: n.op(top.Mul(), plain_norm(n, x), n.weight(5, 1)),
        ["LayerNorm", "Mul"],
    ),
    "layer_fast": (lambda n, x: fast_norm(n, x, 2, n.weight(1, 1, 12), n.weight(12)), ["LayerNorm"]),
    "layer_fast_in_the_middle": (
        lambda n, x: fast_norm(n, x, 1, n.weight(5, 1), n.weight(1, 5, 1)),
        ["Permute", "LayerNorm", "Permute"],
    ),
    "root": (lambda n, x: root_mean_square(n, x, None), ["RMSNorm"]),
    "root_inverse": (lambda n, x: root_mean_square(n, x, top.Rsqrt()), ["RMSNorm"]),
    "root_power": (
        lambda n, x: n.op(top.Mul(), n.weight(12), root_mean_square(n, x, top.Pow(exponent=-0.5))),
        ["RMSNorm"],
    ),
    "softmax": (lambda n, x: softmax(n, x, 2, less=True), ["Softmax"]),
    "softmax_in_the_middle": (lambda n, x: softmax(n, x, 1, less=True, keepdims=False), ["Softmax"]),
    "softmax_bare": (lambda n, x: softmax(n, x, 2, less=False), ["Softmax"]),
    # What looks alike and is something else.
    "mean_of_another_axis": (
        lambda n, x: n.op(
            top.Div(),
            n.op(top.Sub(), x, n.op(mean((1,)), x)),
            chain(
                n, n.op(top.Sub(), x, n.op(mean((1,)), x)), top.Pow(exponent=2.0), mean((2,)), plus(1e-5), top.Sqrt()
            ),
        ),
        ["Reduce", "Sub", "Reduce", "Sub", "Pow", "Reduce", "AddConst", "Sqrt", "Div"],
    ),
    "sum_of_another_axis": (
        lambda n, x: n.op(
            top.Div(), n.op(top.Exp(), x), n.op(top.Reduce(axes=(1, 2), mode="ReduceSum"), n.op(top.Exp(), x))
        ),
        ["Exp", "Exp", "Reduce", "Div"],
    ),
}


@each("name", NORMS)
def test_normalizations(name: str) -> None:
    spell, expected = NORMS[name]
    net = Network(*SHAPE)
    assert canonicalized(net.finish(spell(net, net.op(times(3.0), net.input))))[1:] == expected


def test_weights_and_eps_of_a_normalization() -> None:
    net = Network(*SHAPE)
    weight, bias = net.weight(1, 1, 12), net.weight(12)
    module = net.finish(fast_norm(net, net.input, 2, weight, bias))
    arrays = [module.weights[weight.name].reshape(-1), module.weights[bias.name]]
    canonicalized(module)
    (norm,) = [op for op in module.main.operations if isinstance(op.op, top.LayerNorm)]
    assert norm.op == top.LayerNorm(axis=2, normalized_shape=(12,), eps=1e-6)
    for value, array in zip(norm.operands[1:], arrays, strict=True):
        np.testing.assert_array_equal(module.weights[value.name], array)


def test_a_variance_of_large_means_keeps_its_digits() -> None:
    """In float32 already: squares of 4000 end at the fourth digit behind the point, and the variance is below 1."""
    net = Network(1, 64)
    x = net.op(plus(4000.0), net.input)
    total = top.Reduce(axes=(1,), mode="ReduceMean")
    squares, average = net.op(total, net.op(top.Mul(), x, x)), net.op(total, x)
    module = net.finish(net.op(top.Sub(), squares, net.op(top.Mul(), average, average)))
    exact = np.random.default_rng(0).uniform(-1, 1, (1, 64)).astype(np.float32)
    before = variance(module, exact)
    PASS.run(module, CONTEXT)
    after = variance(module, exact)
    wanted = (exact + np.float32(4000)).astype(np.float64).var()
    assert abs(after - wanted) < 1e-3 * wanted < abs(before - wanted)


def variance(module: Module, x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    (result,) = Interpreter(module).run({"v0": x}).values()
    return float(result.reshape(-1)[0])


def test_softmax_and_norms_are_the_known_ops() -> None:
    net = Network(*SHAPE)
    module = net.finish(softmax(net, root_mean_square(net, net.input, top.Rsqrt()), 1, less=True))
    canonicalized(module)
    found = [op.op for op in module.main.operations if isinstance(op.op, (top.RMSNorm, top.Softmax))]
    assert found == [top.RMSNorm(eps=1e-6), top.Softmax(axis=1)]
