"""Products behind each other, and channels that nobody reads."""

from __future__ import annotations

import numpy as np
from tpuc.api import Module, Value
from tpuc_ops import top
from tpuc_optimize.canonicalize import Canonicalize

from tests.families import each
from tests.passes.graphs import CONTEXT, Network, assert_equal, ops, run


def canonicalized(module: Module) -> list[str]:
    """The ops afterwards; the values are checked."""
    before = run(module)
    Canonicalize().run(module, CONTEXT)
    assert_equal(module, before)
    return ops(module)


def conv(net: Network, x: Value, outputs: int, size: int = 1, *, relu: bool = False, bias: bool = True) -> Value:
    op = top.Conv(kernel_shape=(size, size), pads=(size // 2,) * 4, do_relu=relu)
    filters = net.weight(outputs, x.tensor.dims[1], size, size)
    return net.op(op, x, filters, net.weight(outputs) if bias else net.none)


def filters_of(module: Module) -> list[tuple[int, ...]]:
    products = [one for one in module.main.operations if isinstance(one.op, (top.Conv, top.MatMul))]
    return [one.operands[1].tensor.dims for one in products]


@each(
    ("wide", "relu", "expected"),
    [
        (6, False, [(4, 3, 3, 3)]),  # 4 x 27 numbers instead of 6 x 27 + 4 x 6
        (1, False, [(1, 3, 3, 3), (4, 1, 1, 1)]),  # a bottleneck saves more
        (6, True, [(6, 3, 3, 3), (4, 6, 1, 1)]),
    ],
)
def test_a_product_of_channels_goes_into_the_one_before(wide: int, relu: bool, expected: list[tuple[int, ...]]) -> None:
    net = Network(1, 3, 5, 6)
    module = net.finish(conv(net, conv(net, net.input, wide, 3, relu=relu), 4, relu=True))
    name = module.main.outputs[0].name
    canonicalized(module)
    assert filters_of(module) == expected
    assert module.main.outputs[0].name == name


def test_windows_do_not_go_into_others() -> None:
    net = Network(1, 3, 5, 6)
    assert canonicalized(net.finish(conv(net, conv(net, net.input, 6), 4, 3))) == ["Conv", "Conv"]


def test_a_product_that_others_read_stays() -> None:
    net = Network(1, 3, 5, 6)
    first = conv(net, net.input, 6)
    assert canonicalized(net.finish(conv(net, first, 4), first)) == ["Conv", "Conv"]


@each("turned", [False, True])
@each("bias", [False, True])
def test_matrices_behind_each_other(turned: bool, bias: bool) -> None:
    net = Network(2, 5, 8)
    first = net.op(top.MatMul(), net.input, net.weight(8, 6), net.weight(6) if bias else net.none)
    matrix = net.weight(4, 6) if turned else net.weight(6, 4)
    module = net.finish(net.op(top.MatMul(right_transpose=turned), first, matrix, net.weight(4)))
    assert canonicalized(module) == ["MatMul"]
    assert filters_of(module) == [(8, 4)]


@each("relu", [False, True])
@each("bias", [False, True])
def test_channels_that_nobody_reads_go(relu: bool, bias: bool) -> None:
    net = Network(1, 3, 5, 6)
    first = conv(net, net.input, 6, 3, relu=relu, bias=bias)
    filters = np.random.default_rng(1).normal(size=(4, 6, 3, 3)).astype(np.float32)
    filters[:, [1, 4]] = 0
    last = net.op(top.Conv(kernel_shape=(3, 3)), first, net.build.weight("read", filters), net.none)
    module = net.finish(last)
    canonicalized(module)
    assert filters_of(module) == [(4, 3, 3, 3), (4, 4, 3, 3)]


def test_channels_of_matrices_that_nobody_reads_go() -> None:
    net = Network(2, 8)
    first = net.op(top.MatMul(do_relu=True), net.input, net.weight(8, 6), net.weight(6))
    matrix = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    matrix[[0, 5]] = 0
    module = net.finish(net.op(top.MatMul(), first, net.build.weight("read", matrix), net.none))
    canonicalized(module)
    assert filters_of(module) == [(8, 4), (4, 3)]


def test_what_reads_nothing_at_all_stays() -> None:
    net = Network(1, 3, 5, 6)
    last = net.op(
        top.Conv(kernel_shape=(1, 1)),
        conv(net, net.input, 6, 3, relu=True),
        net.build.weight("read", np.zeros((2, 6, 1, 1), np.float32)),
        net.weight(2),
    )
    assert canonicalized(net.finish(last)) == ["Conv", "Conv"]


@each(("relu", "expected"), [(False, ["Softmax"]), (True, ["Softmax", "Relu"])])
def test_the_identity_is_nothing(relu: bool, expected: list[str]) -> None:
    net = Network(1, 3, 5, 6)
    same = net.build.weight("same", np.eye(3, dtype=np.float32)[:, :, None, None])
    scores = net.op(top.Softmax(axis=1), net.input)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1), do_relu=relu), scores, same, net.none))
    name = module.main.outputs[0].name
    assert canonicalized(module) == expected
    assert module.main.outputs[0].name == name


def test_a_channel_with_a_bias_far_above_the_others_leaves_nothing_behind() -> None:
    net = Network(1, 3, 5, 6)
    first = conv(net, net.input, 4, 3, relu=True)
    widening = net.build.weight("widening", np.eye(5, 4, dtype=np.float32)[:, :, None, None])
    bias = net.build.weight("bias", np.array([0, 0, 0, 0, 1e4], np.float32))
    wide = net.op(top.Conv(kernel_shape=(1, 1)), first, widening, bias)
    narrowing = net.build.weight("narrowing", np.eye(4, 5, dtype=np.float32)[:, :, None, None])
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), wide, narrowing, net.none))
    assert canonicalized(module) == ["Conv"]


@each(
    ("shape", "expected"),
    [
        ((10, 8), ["MatMul", "Reshape"]),
        ((5, 2, 8), ["MatMul", "Reshape"]),
        ((2, 1, 5, 8), ["MatMul", "Reshape"]),
        ((10, 4, 2), ["MatMul", "Reshape", "Mul", "Add"]),  # the channels are split
    ],
)
def test_scales_behind_a_reshape_go_into_the_product(shape: tuple[int, ...], expected: list[str]) -> None:
    """Exporters flatten before the normalization of a linear layer, which then is one of two dimensions."""
    net = Network(2, 5, 6)
    product = net.op(top.MatMul(), net.input, net.weight(6, 8), net.weight(8))
    flat = net.op(top.Reshape(shape=shape), product)
    scaled = net.op(top.Mul(), flat, net.weight(shape[-1]))
    module = net.finish(net.op(top.Add(do_relu=True), scaled, net.weight(shape[-1])))
    name = module.main.outputs[0].name
    assert canonicalized(module) == expected
    assert module.main.outputs[0].name == name


def test_scales_behind_a_reshape_of_others_stay() -> None:
    """A value that somebody else reads, and rows that a permutation would be needed for."""
    net = Network(2, 5, 8)
    product = net.op(top.MatMul(), net.input, net.weight(8, 8), net.weight(8))
    flat = net.op(top.Reshape(shape=(10, 8)), product)
    scaled = net.op(top.Mul(), flat, net.weight(10, 1))
    other = net.op(top.Mul(), net.op(top.Reshape(shape=(10, 8)), product), net.weight(8))
    module = net.finish(scaled, net.op(top.Exp(), other))
    assert sorted(canonicalized(module)) == sorted(["MatMul", "Reshape", "Mul", "Reshape", "Mul", "Exp"])
