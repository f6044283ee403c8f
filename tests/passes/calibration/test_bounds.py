"""The largest magnitudes that values can have."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_quantize.ranges.bounds import bounds_of

from tests.passes.graphs import Network


def test_ops_with_a_bound_and_those_that_pass_it_on() -> None:
    net = Network(1, 3, 4, 4)
    expected = {}
    six = net.op(
        top.Conv(kernel_shape=(1, 1), do_relu=True, relu_limit=6.0), net.input, net.weight(3, 3, 1, 1), net.none
    )
    clipped = net.op(top.Clip(min=-3.0, max=2.0), net.input)
    score = net.op(top.Sigmoid(), net.input)
    joined = net.op(top.Concat(axis=1), six, clipped, score)
    capped = net.op(top.Relu(relu_limit=1.5), net.input)
    expected |= {six.name: 6.0, clipped.name: 3.0, score.name: 1.0, joined.name: 6.0, capped.name: 1.5}
    mean = net.op(top.AvgPool(kernel_shape=(2, 2)), net.op(top.MaxPool(kernel_shape=(2, 2)), joined))
    classes = net.op(top.Softmax(axis=1), net.input)
    expected |= {mean.name: 6.0, classes.name: 1.0}
    free = net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), six, net.weight(3, 3, 1, 1), net.none)
    sums = net.op(top.Add(), score, score)
    mixed = net.op(top.Concat(axis=1), score, net.op(top.Relu(), net.input))
    logarithms = net.op(top.Softmax(axis=1, log=True), net.input)
    scaled = net.op(top.Sigmoid(scale=2.0, bias=-0.5), net.input)
    expected[scaled.name] = 1.5
    found = bounds_of(net.finish(mean, classes, free, sums, mixed, logarithms, scaled))
    (pooled,) = found.keys() - expected.keys()
    assert found == {**expected, pooled: 6.0}
