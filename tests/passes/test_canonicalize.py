"""`canonicalize` makes the network simpler and computes the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import F32, Calibrated, Module, Op, TensorType
from tpuc_ops import top
from tpuc_optimize.canonicalize import Canonicalize

from tests.examples import examples
from tests.families import each
from tests.passes.graphs import CONTEXT, Network, assert_equal, draw_network, ops, run

PASS = Canonicalize()


def canonicalized(module: Module) -> list[str]:
    """The ops afterwards; the values are checked."""
    before = run(module)
    PASS.run(module, CONTEXT)
    assert_equal(module, before)
    return ops(module)


@examples(150)
@given(data=st.data())
def test_random_networks_compute_the_same_and_come_to_rest(data: st.DataObject) -> None:
    module = draw_network(data)
    before = run(module)
    PASS.run(module, CONTEXT)
    assert_equal(module, before)
    assert not PASS.run(module, CONTEXT)


@each(
    ("shape", "tile", "expected"),
    [
        ((1, 3, 1, 4), (1, 1, 4, 1), ["Div"]),
        ((1, 1, 1, 1), (1, 3, 4, 4), ["Div"]),
        ((1, 3, 2, 4), (1, 1, 2, 1), ["Tile", "Div"]),  # an op that broadcasts repeats extents of 1 alone
        ((1, 3, 1, 4), (2, 1, 4, 1), ["Tile", "Div"]),  # it would give one image for two
    ],
)
def test_repetitions_are_left_to_ops_that_broadcast(
    shape: tuple[int, ...], tile: tuple[int, ...], expected: list[str]
) -> None:
    net = Network(1, 3, 4, 4)
    weight = net.weight(*shape, low=0.5)
    repeated = net.op(top.Tile(tile=tile), net.op(top.Abs(), weight))
    found = canonicalized(net.finish(net.op(top.Div(), net.input, repeated)))
    assert [name for name in found if name != "Abs"] == expected


def test_relu_moves_into_its_producer_which_takes_its_name() -> None:
    net = Network(1, 3, 4, 4)
    conv = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(2, 3, 1, 1), net.none)
    relu = net.op(top.Relu(relu_limit=6.0), conv)
    module, name = net.finish(relu), relu.name
    assert canonicalized(module) == ["Conv"]
    (operation,) = [operation for operation in module.walk() if isinstance(operation.op, top.Conv)]
    assert (operation.op.do_relu, operation.op.relu_limit, operation.name) == (True, 6.0, name)


def test_relu_stays_where_others_read_the_value() -> None:
    net = Network(1, 3, 4, 4)
    pool = net.op(top.MaxPool(kernel_shape=(2, 2)), net.input)
    assert canonicalized(net.finish(net.op(top.Relu(), pool), pool)) == ["MaxPool", "Relu"]


@each(
    ("clip", "expected"),
    [
        (top.Clip(min=0.0, max=0.5), ["MaxPool"]),
        (top.Clip(min=0.0, max=float(np.finfo(np.float32).max)), ["MaxPool"]),
        (top.Clip(min=-0.5, max=0.5), ["MaxPool", "Clip"]),
        (top.Clip(min=0.0, max=0.0), ["MaxPool", "Clip"]),
    ],
)
def test_clips_that_are_relus_fuse(clip: top.Clip, expected: list[str]) -> None:
    net = Network(1, 3, 4, 4)
    assert canonicalized(net.finish(net.op(clip, net.op(top.MaxPool(kernel_shape=(2, 2)), net.input)))) == expected


def test_of_two_relus_the_lower_limit_stays() -> None:
    net = Network(1, 3, 4, 4)
    module = net.finish(
        net.op(top.Relu(relu_limit=0.25), net.op(top.Relu(relu_limit=0.5), net.op(top.Relu(), net.input)))
    )
    assert canonicalized(module) == ["Relu"]
    assert [operation.op for operation in module.walk() if isinstance(operation.op, top.Relu)] == [
        top.Relu(relu_limit=0.25)
    ]


def test_mnist_shaped_chain_becomes_two_ops() -> None:
    """Conv + Add(8,1,1) + Relu, and MatMul + Add, as mnist has them."""
    net = Network(1, 1, 6, 6)
    conv = net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(8, 1, 3, 3), net.none)
    relu = net.op(top.Relu(), net.op(top.Add(), conv, net.weight(8, 1, 1)))
    flat = net.op(top.Reshape(shape=(1, 128)), relu)
    product = net.op(top.MatMul(), flat, net.weight(128, 10), net.none)
    assert canonicalized(net.finish(net.op(top.Add(), product, net.weight(1, 10)))) == ["Conv", "Reshape", "MatMul"]


def test_batch_norm_folds_into_a_grouped_conv() -> None:
    net = Network(1, 4, 5, 5)
    conv = net.op(top.Conv(kernel_shape=(3, 3), group=4), net.input, net.weight(8, 1, 3, 3), net.weight(8))
    norm = net.op(top.BatchNorm(), conv, net.weight(8), net.weight(8, low=0.5), net.weight(8), net.weight(8))
    module = net.finish(net.op(top.Relu(), norm))
    assert canonicalized(module) == ["Conv"]
    assert len(module.weights) == 2, "the old weights are gone"


def test_batch_norm_alone_becomes_a_scale() -> None:
    net = Network(1, 4, 5, 5)
    norm = net.op(top.BatchNorm(), net.input, net.weight(4), net.weight(4, low=0.5), net.none, net.none)
    assert canonicalized(net.finish(net.op(top.Relu(), norm))) == ["Scale"]


def test_nothing_moves_past_a_relu() -> None:
    net = Network(1, 3, 5, 5)
    conv = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(2, 3, 3, 3), net.none)
    assert canonicalized(net.finish(net.op(top.MulConst(const_val=-2.0), conv))) == ["Conv", "MulConst"]


@each("shape", [(1, 2, 3, 3), (1, 1, 3, 1), (2, 2, 1, 1)])
def test_constants_that_differ_within_a_channel_stay(shape: tuple[int, ...]) -> None:
    net = Network(1, 3, 5, 5)
    conv = net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(2, 3, 3, 3), net.none)
    assert canonicalized(net.finish(net.op(top.Add(), conv, net.weight(*shape)))) == ["Conv", "Add"]


def test_a_scale_along_rows_of_a_batched_product_stays() -> None:
    net = Network(2, 3, 4)
    product = net.op(top.MatMul(), net.input, net.weight(4, 3), net.none)
    assert canonicalized(net.finish(net.op(top.Mul(), product, net.weight(1, 3, 1)))) == ["MatMul", "Mul"]


def test_a_product_of_two_values_takes_no_factor_but_a_summand_would_change_nothing() -> None:
    net = Network(1, 3, 3)
    product = net.op(top.MatMul(), net.input, net.input, net.none)
    assert canonicalized(net.finish(net.op(top.AddConst(const_val=1.0), product))) == ["MatMul", "AddConst"]


@each(
    ("chain", "expected"),
    [
        ([top.Reshape(shape=(1, 12, 4)), top.Reshape(shape=(3, 4, 4)), top.Flatten(start_dim=0)], ["Reshape"]),
        ([top.Reshape(shape=(1, 12, 4)), top.Reshape(shape=(1, 3, 4, 4)), top.Softmax()], ["Softmax"]),
        ([top.Permute(order=(0, 2, 3, 1)), top.Permute(order=(0, 3, 1, 2)), top.Softmax()], ["Softmax"]),
        ([top.Permute(order=(0, 2, 3, 1)), top.Permute(order=(0, 2, 1, 3)), top.Softmax()], ["Permute", "Softmax"]),
        ([top.Permute(order=(1, 0, 2, 3)), top.Flatten(start_dim=1)], ["Reshape"]),
        ([top.Softmax(), top.Reshape(shape=(1, 3, 4, 4))], ["Softmax"]),
        ([top.Reshape(shape=(1, 3, 4, 4))], ["Reshape"]),
    ],
)
def test_reshapes_and_permutes_merge(chain: list[Op], expected: list[str]) -> None:
    net = Network(1, 3, 4, 4)
    value = net.input
    for op in chain:
        value = net.op(op, value)
    assert canonicalized(net.finish(value)) == expected


@each(
    ("pad", "expected"),
    [
        (top.Pad(paddings=(0, 0, 0, 1, 0, 0, 1, 2)), ["Conv"]),
        (top.Pad(paddings=(0, 0, 0, 1, 0, 0, 2, 3), val=0.5), ["Pad", "Conv"]),
        (top.Pad(paddings=(0, 0, 0, 1, 0, 0, 2, 3), mode="reflect"), ["Pad", "Conv"]),
        (top.Pad(paddings=(0, 0, 0, -1, 0, 0, 2, 3)), ["Pad", "Conv"]),
        (top.Pad(paddings=(1, 0, 0, 1, 0, 0, 2, 3)), ["Pad", "Conv"]),
    ],
)
def test_zeros_around_an_image_become_padding_of_the_conv(pad: top.Pad, expected: list[str]) -> None:
    net = Network(1, 3, 5, 5)
    op = top.Conv(kernel_shape=(3, 3), pads=(1, 0, 1, 0))
    module = net.finish(net.op(op, net.op(pad, net.input), net.weight(2, 3, 3, 3), net.none))
    assert canonicalized(module) == expected


def test_a_padded_value_that_others_read_stays_for_them() -> None:
    net = Network(1, 3, 5, 5)
    padded = net.op(top.Pad(paddings=(0, 0, 1, 1, 0, 0, 1, 1)), net.input)
    conv = net.op(top.Conv(kernel_shape=(3, 3)), padded, net.weight(2, 3, 3, 3), net.none)
    assert sorted(canonicalized(net.finish(conv, net.op(top.Softmax(), padded)))) == ["Conv", "Pad", "Softmax"]


def test_x_times_its_sigmoid_is_silu() -> None:
    net = Network(1, 3, 5, 5)
    assert canonicalized(net.finish(net.op(top.Mul(), net.op(top.Sigmoid(), net.input), net.input))) == ["SiLU"]
    net = Network(1, 3, 5, 5)
    other = net.op(top.MulConst(const_val=2.0), net.input)
    assert canonicalized(net.finish(net.op(top.Mul(), net.op(top.Sigmoid(), other), net.input)))[-1] == "Mul"


@each(
    ("op", "expected"),
    [
        (top.Reduce(axes=(2, 3), mode="ReduceMean"), ["AvgPool"]),
        (top.Reduce(axes=(-1, -2), mode="ReduceMax", keepdims=False), ["MaxPool", "Reshape"]),
        (top.Reduce(axes=(2, 3), mode="ReduceSum"), ["Reduce"]),
        (top.Reduce(axes=(1, 3), mode="ReduceMean"), ["Reduce"]),
    ],
)
def test_means_and_maxima_of_images_are_pools(op: top.Reduce, expected: list[str]) -> None:
    net = Network(2, 3, 4, 5)
    assert canonicalized(net.finish(net.op(op, net.input))) == expected


def test_an_output_keeps_its_name_when_its_op_goes() -> None:
    net = Network(1, 3, 4, 4)
    output = net.op(top.Reshape(shape=(1, 3, 4, 4)), net.op(top.Softmax(), net.input))
    module, name = net.finish(output), output.name
    assert canonicalized(module) == ["Softmax"]
    assert module.main.outputs[0].name == name


def test_dead_ops_and_their_weights_go() -> None:
    net = Network(1, 3, 4, 4)
    net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(2, 3, 3, 3), net.none)
    module = net.finish(net.op(top.Softmax(), net.input))
    assert canonicalized(module) == ["Softmax"]
    assert len(module.weights) == 0


def test_a_fused_relu_brings_its_calibration() -> None:
    net = Network(1, 3, 4, 4)
    pool = net.op(top.MaxPool(kernel_shape=(1, 1)), net.input)
    relu = net.op(top.Relu(), pool)
    relu.type = TensorType((1, 3, 4, 4), Calibrated(F32, 0.0, 2.5))
    module = net.finish(relu)
    PASS.run(module, CONTEXT)
    assert ops(module) == ["MaxPool"]
    assert module.main.outputs[0].tensor.element == Calibrated(F32, 0.0, 2.5)
